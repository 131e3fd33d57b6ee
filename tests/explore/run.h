/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * run.h - many schedules of a scenario.
 */
#ifndef RUN_H
#define RUN_H

#include "engine.h"

struct how {
	enum mode mode;
	uint64_t seed;
	unsigned depth;
	bool fenced; /* some schedules without membarrier */
	bool trace;  /* record the last schedule */
};

struct found {
	bool any, exhausted;
	struct plan plan;         /* of the schedule that failed */
	struct run_result result; /* of the last one */
	uint64_t schedules, steps;
};

/*
 * Run schedules first to last, until one fails.  DFS counts from 1 whatever first is:
 * its schedules come in an order of their own.
 */
void run_schedules(const struct scenario *s, struct how how, uint64_t first, uint64_t last, struct found *found);

#endif
