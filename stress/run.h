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

#include <ck_barrier.h>
#include <stdatomic.h>
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

/*
 * Threads that start together.  All arrive, giving their processors away while they
 * wait; then they pass concurrencykit's barrier, which spins, so that those which run
 * leave it within nanoseconds (`sprint`: only where there is a processor for each, or
 * a moment of spinning does not matter).  The arrivals are counted in a C11 atomic, and
 * by it everything before the line comes before everything behind it; a thread
 * sanitizer does not see that in the barrier, which is made of inline assembly.
 */
struct start_line {
	unsigned members;
	bool sprint;
	ck_barrier_centralized_t barrier;
	_Atomic uint64_t arrived;
};
struct starter {
	ck_barrier_centralized_state_t state;
	uint64_t turn;
};

void line_setup(struct start_line *line, unsigned members, bool sprint);
/* The starter is zero at first, one a thread. */
void line_up(struct start_line *line, struct starter *starter);

#endif
