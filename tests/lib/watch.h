/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * watch.h - the watchdog, and how long a test runs.
 *
 * A test that hangs has failed.  plan() starts a thread that ends the program, with
 * the name of the last test, what until() was waiting for, and the stacks of all
 * threads if gdb is there, when no test has been reported for 60 seconds, or five
 * times as long under a sanitizer or with LONG=1 in the environment.  There are no
 * other time limits in the tests.
 *
 * How many rounds: rounds(quick, full) is `quick`, fewer under a sanitizer; with
 * LONG=1 it is `full`; SCALE=x in the environment multiplies either.
 */
#ifndef TESTS_WATCH_H
#define TESTS_WATCH_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#elif defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNDER_TSAN 1
#elif __has_feature(address_sanitizer)
#define UNDER_ASAN 1
#endif
#endif
#ifndef UNDER_TSAN
#define UNDER_TSAN 0
#endif
#ifndef UNDER_ASAN
#define UNDER_ASAN 0
#endif

/* Idempotent. */
void watch_begin(void);
/* It has begun to end the program: whatever goes on now was only stirred up by the debugger. */
bool watch_hung(void);
/* There is progress. */
void watch_pat(void);
/* What is waited for, for the watchdog's last words; NULL: nothing. */
void watch_waiting(const char *what);

bool watch_long(void);
unsigned long rounds(unsigned long quick, unsigned long full);

/*
 * Wait until cond is true, on something that only others change: a counter of the
 * library or of the test.  Never sleeps for a time.
 */
#define until(cond)                    \
	do {                           \
		watch_waiting(#cond);  \
		while (!(cond))        \
			watch_yield(); \
		watch_waiting(0);      \
	} while (0)
void watch_yield(void);

#ifdef __cplusplus
}
#endif

#endif
