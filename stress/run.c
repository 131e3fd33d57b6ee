/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * run.c - how long a stress program runs, and how it tells what became of it.  See run.h.
 */
#include "run.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../tests/lib/tap.h"
#include "../tests/lib/threads.h"

#define SECONDS 10.0

static double limit;
static struct timespec begun;
static unsigned passed, failed;

void run_begin(unsigned tests)
{
	const char *wish = getenv("SECONDS");

	limit = wish != NULL && atof(wish) > 0 ? atof(wish) : SECONDS;
	clock_gettime(CLOCK_MONOTONIC, &begun);
	plan(tests);
	(void)test_seed(); /* prints it */
}

double run_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)(now.tv_sec - begun.tv_sec) + 1e-9 * (double)(now.tv_nsec - begun.tv_nsec);
}

bool run_goes_on(double part)
{
	return run_seconds() < part * limit;
}

bool judge(bool ok)
{
	passed += ok;
	failed += !ok;
	return ok;
}

int run_end(void)
{
	int status = done();

	printf("%u passed, %u failed\n", passed, failed != 0 || status == 0 ? failed : 1);
	return status;
}

void line_setup(struct start_line *line, unsigned members, bool sprint)
{
	memset(line, 0, sizeof(*line));
	line->members = members;
	line->sprint = sprint;
}

void line_up(struct start_line *line, struct starter *starter)
{
	uint64_t all = ++starter->turn * line->members;

	atomic_fetch_add_explicit(&line->arrived, 1, memory_order_acq_rel);
	while (atomic_load_explicit(&line->arrived, memory_order_acquire) < all)
		sched_yield();
	if (line->sprint)
		ck_barrier_centralized(&line->barrier, &starter->state, line->members);
}
