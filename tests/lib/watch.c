/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * watch.c - the watchdog.  See watch.h.
 *
 * A thread of its own looks once a second whether it was patted.  It blocks all
 * signals, so that tests which send some never meet it.
 */
#include "watch.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tap.h"

#define LIMIT_S 60u
#define SLOW_FACTOR 5u

static atomic_uint quiet_s;
static _Atomic(const char *) waiting;
static atomic_bool begun, hung;

bool watch_long(void)
{
	const char *wish = getenv("LONG");

	return wish != NULL && wish[0] != '\0' && wish[0] != '0';
}

unsigned long rounds(unsigned long quick, unsigned long full)
{
	const char *scale = getenv("SCALE");
	double n = watch_long() ? (double)full : (double)quick;

	if (UNDER_TSAN)
		n /= 5;
	else if (UNDER_ASAN)
		n /= 2;
	if (scale != NULL && atof(scale) > 0)
		n *= atof(scale);
	return n < 1 ? 1 : (unsigned long)n;
}

/* The stacks of all threads, if a debugger is there and may look. */
static void print_stacks(void)
{
	static const char *const gdb = "/usr/bin/gdb";
	char pid[32];
	pid_t child;

	if (access(gdb, X_OK) != 0)
		return;
	snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
	child = fork();
	if (child == 0) {
		sigset_t none;

		/* The watchdog's thread blocks all signals, which gdb would inherit: it would wait for ever. */
		sigemptyset(&none);
		sigprocmask(SIG_SETMASK, &none, NULL);
		alarm(30);
		dup2(STDERR_FILENO, STDOUT_FILENO);
		execl(gdb, gdb, "-p", pid, "-batch", "-nx", "-ex", "set pagination off", "-ex",
		      "thread apply all backtrace 30", (char *)NULL);
		_exit(127);
	}
	while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
}

static void *watch(void *arg)
{
	unsigned limit = UNDER_TSAN || UNDER_ASAN || watch_long() ? LIMIT_S * SLOW_FACTOR : LIMIT_S;

	for (;;) {
		struct timespec second = { 1, 0 };
		const char *what;

		clock_nanosleep(CLOCK_MONOTONIC, 0, &second, NULL);
		if (atomic_fetch_add(&quiet_s, 1) + 1 < limit)
			continue;
		atomic_store(&hung, true);
		what = atomic_load(&waiting);
		/* No lock of stdio or of tap.c: whoever hangs may hold it. */
		dprintf(STDOUT_FILENO, "Bail out! nothing happened for %u s after test %u: %s%s%s\n", limit,
			tap_count(), tap_last(), what != NULL ? "; last seen waiting until " : "",
			what != NULL ? what : "");
		print_stacks();
		_exit(99);
	}
	return arg;
}

void watch_begin(void)
{
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;

	if (atomic_exchange(&begun, true))
		return;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	if (pthread_create(&thread, &attr, watch, NULL) != 0)
		bail_out("the watchdog cannot be started");
	pthread_attr_destroy(&attr);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

bool watch_hung(void)
{
	return atomic_load(&hung);
}

void watch_pat(void)
{
	atomic_store_explicit(&quiet_s, 0, memory_order_relaxed);
}

void watch_waiting(const char *what)
{
	atomic_store_explicit(&waiting, what, memory_order_relaxed);
}

void watch_yield(void)
{
	sched_yield();
}
