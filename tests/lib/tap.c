/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tap.c - counting and writing test lines.  See tap.h.
 */
#include "tap.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "watch.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned planned, reported, failed;
static char last[2][256] = { "(none)", "(none)" };
static atomic_uint published; /* for the watchdog, which must not wait for the lock */

void plan(unsigned count)
{
	planned = count;
	printf("1..%u\n", count);
	fflush(stdout);
	watch_begin();
}

void plan_skip(const char *why, ...)
{
	va_list args;

	va_start(args, why);
	printf("1..0 # SKIP ");
	vprintf(why, args);
	printf("\n");
	va_end(args);
	fflush(stdout);
	exit(0);
}

void skip(unsigned count, const char *why, ...)
{
	char reason[256];
	va_list args;

	va_start(args, why);
	vsnprintf(reason, sizeof(reason), why, args);
	va_end(args);
	pthread_mutex_lock(&lock);
	while (count-- != 0) {
		printf("ok %u # SKIP %s\n", ++reported, reason);
		snprintf(last[reported % 2], sizeof(last[0]), "%s", reason);
	}
	atomic_store(&published, reported);
	fflush(stdout);
	pthread_mutex_unlock(&lock);
	watch_pat();
}

void note(const char *text, ...)
{
	va_list args;

	pthread_mutex_lock(&lock);
	va_start(args, text);
	printf("# ");
	vprintf(text, args);
	printf("\n");
	va_end(args);
	fflush(stdout);
	pthread_mutex_unlock(&lock);
}

void bail_out(const char *why, ...)
{
	va_list args;

	pthread_mutex_lock(&lock);
	va_start(args, why);
	printf("Bail out! ");
	vprintf(why, args);
	printf("\n");
	va_end(args);
	fflush(stdout);
	_Exit(99);
}

/* The line, and under a failed one the detail. */
static void report(bool passed, const char *text, va_list args, const char *detail)
{
	pthread_mutex_lock(&lock);
	reported++;
	failed += !passed;
	vsnprintf(last[reported % 2], sizeof(last[0]), text, args);
	printf("%s %u - %s\n", passed ? "ok" : "not ok", reported, last[reported % 2]);
	atomic_store(&published, reported);
	if (!passed)
		printf("# %s\n", detail);
	fflush(stdout);
	pthread_mutex_unlock(&lock);
	watch_pat();
}

bool tap_ok(bool passed, const char *what, const char *file, int line, const char *text, ...)
{
	char detail[512];
	va_list args;

	snprintf(detail, sizeof(detail), "%s:%d: not true: %s", file, line, what);
	va_start(args, text);
	report(passed, text, args, detail);
	va_end(args);
	return passed;
}

bool tap_is_int(long long got, long long want, const char *what, const char *file, int line, const char *text, ...)
{
	char detail[512];
	va_list args;

	snprintf(detail, sizeof(detail), "%s:%d: %s is %lld, not %lld", file, line, what, got, want);
	va_start(args, text);
	report(got == want, text, args, detail);
	va_end(args);
	return got == want;
}

bool tap_is_str(const char *got, const char *want, const char *what, const char *file, int line, const char *text, ...)
{
	bool passed = got != NULL && want != NULL ? strcmp(got, want) == 0 : got == want;
	char detail[512];
	va_list args;

	snprintf(detail, sizeof(detail), "%s:%d: %s is \"%s\", not \"%s\"", file, line, what,
		 got != NULL ? got : "(null)", want != NULL ? want : "(null)");
	va_start(args, text);
	report(passed, text, args, detail);
	va_end(args);
	return passed;
}

bool tap_is_ptr(const void *got, const void *want, const char *what, const char *file, int line, const char *text, ...)
{
	char detail[512];
	va_list args;

	snprintf(detail, sizeof(detail), "%s:%d: %s is %p, not %p", file, line, what, got, want);
	va_start(args, text);
	report(got == want, text, args, detail);
	va_end(args);
	return got == want;
}

unsigned tap_count(void)
{
	return atomic_load(&published);
}

const char *tap_last(void)
{
	return last[atomic_load(&published) % 2];
}

int done(void)
{
	int status;

	/* A debugger that attaches ends all sleeps; who then finds his wake-up after all has hung nevertheless. */
	while (watch_hung())
		pause();
	pthread_mutex_lock(&lock);
	if (reported != planned)
		printf("# %u tests were planned and %u reported\n", planned, reported);
	if (failed != 0)
		printf("# %u of %u tests failed\n", failed, reported);
	fflush(stdout);
	status = failed != 0 || reported != planned;
	pthread_mutex_unlock(&lock);
	return status;
}
