/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * run.h - how long a stress program runs, and how it tells what became of it.
 *
 *	SECONDS=n   how long, default 10; a program ends its round first
 *	SEED=n      printed by every program; the same again
 *
 * The last line on standard output is "N passed, N failed".
 */
#ifndef STRESS_RUN_H
#define STRESS_RUN_H

#include <stdbool.h>
#include <stdint.h>

/* Begins the watchdog and the clock. */
void run_begin(unsigned tests);
/* So many seconds have passed since. */
double run_seconds(void);
/* Is there time left, or this part of it (0 to 1)? */
bool run_goes_on(double part);
/* Count what a test function of tap.h returned. */
bool judge(bool passed);
/* All tests have been judged: the last line; the program's exit status. */
int run_end(void);

#endif
