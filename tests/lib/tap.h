/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * tap.h - the Test Anything Protocol, as little of it as we need.
 *
 *	plan(2);                            begins the watchdog, too (watch.h)
 *	ok(x > 0, "P6: %d is positive", x);
 *	is_int(got, want, "H01: as many as wanted");
 *	return done();                      0 if all went well, else 1
 *
 * Any thread may report: a line is written whole.  A case that cannot run is told
 * by skip() or plan_skip(), with the reason, and never as passed.  C and C++.
 */
#ifndef TESTS_TAP_H
#define TESTS_TAP_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TAP_FORMAT(n) __attribute__((format(printf, n, n + 1)))

/* This many lines will follow. */
void plan(unsigned count);
/* Nothing of this program can run; ends it. */
void plan_skip(const char *why, ...) TAP_FORMAT(1) __attribute__((noreturn));
/* The next `count` tests cannot run. */
void skip(unsigned count, const char *why, ...) TAP_FORMAT(2);
/* A line of comment. */
void note(const char *text, ...) TAP_FORMAT(1);
/* Nothing makes sense any more; ends the program. */
void bail_out(const char *why, ...) TAP_FORMAT(1) __attribute__((noreturn));
/* All tests are over: the program's exit status. */
int done(void);

#define ok(is_true, ...) tap_ok(!!(is_true), #is_true, __FILE__, __LINE__, __VA_ARGS__)
#define is_int(got, want, ...) tap_is_int((long long)(got), (long long)(want), #got, __FILE__, __LINE__, __VA_ARGS__)
#define is_str(got, want, ...) tap_is_str((got), (want), #got, __FILE__, __LINE__, __VA_ARGS__)
#define is_ptr(got, want, ...) tap_is_ptr((got), (want), #got, __FILE__, __LINE__, __VA_ARGS__)
/* What must be true for the test itself to make sense. */
#define must(is_true) ((is_true) ? (void)0 : bail_out("%s:%d: %s", __FILE__, __LINE__, #is_true))

/* All return what they report. */
bool tap_ok(bool passed, const char *what, const char *file, int line, const char *text, ...) TAP_FORMAT(5);
bool tap_is_int(long long got, long long want, const char *what, const char *file, int line, const char *text, ...)
	TAP_FORMAT(6);
bool tap_is_str(const char *got, const char *want, const char *what, const char *file, int line, const char *text, ...)
	TAP_FORMAT(6);
bool tap_is_ptr(const void *got, const void *want, const char *what, const char *file, int line, const char *text, ...)
	TAP_FORMAT(6);

/* For the watchdog: how many tests have been reported, and what the last one was called. */
unsigned tap_count(void);
const char *tap_last(void);

#ifdef __cplusplus
}
#endif

#endif
