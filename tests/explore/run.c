/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * run.c - many schedules of a scenario.
 */
#include "run.h"

#include <string.h>

#define LEARN 64

/* How many steps the plainest schedule has: PCT needs to know. */
static uint64_t length_of(const struct scenario *s)
{
	struct plan p = { .mode = MODE_DFS };
	struct run_result result;

	sched_dfs_begin();
	sched_run(s, &p, &result);
	return result.steps;
}

/*
 * Learn what is shared: the same schedules each time, so that later ones are the same
 * each time.  What fails here is not reported: those that follow are more.
 */
static void learn(const struct scenario *s)
{
	struct run_result result;

	memory_unlearn();
	memory_learn(true);
	for (uint64_t number = 1; number <= LEARN; number++) {
		struct plan p = { .mode = number % 2 != 0 ? MODE_RANDOM : MODE_PCT,
				  .number = number,
				  .depth = 3,
				  .length = 200,
				  .all_points = true };

		sched_run(s, &p, &result);
	}
	memory_learn(false);
}

/* All schedules of one deviation, or two... ; begins anew whenever it learns of another shared location. */
static void run_dfs(const struct scenario *s, struct how how, uint64_t first, uint64_t last, struct found *found)
{
	struct plan p = { .mode = MODE_DFS, .seed = how.seed, .depth = how.depth };

	memory_learn(true);
	sched_dfs_begin();
	for (p.number = 1; p.number <= last; p.number++) {
		tracing = how.trace && p.number >= first;
		sched_run(s, &p, &found->result);
		found->schedules++;
		found->steps += found->result.steps;
		if (memory_has_learned()) {
			sched_dfs_begin();
			p.number = 0;
			continue;
		}
		if (!found->result.ok) {
			found->any = true;
			found->plan = p;
			break;
		}
		if (!sched_dfs_next()) {
			found->exhausted = true;
			break;
		}
	}
	memory_learn(false);
}

void run_schedules(const struct scenario *s, struct how how, uint64_t first, uint64_t last, struct found *found)
{
	struct plan p = { .mode = how.mode, .seed = how.seed, .depth = how.depth };

	memset(found, 0, sizeof(*found));
	tracing = false;
	learn(s);
	if (how.mode == MODE_DFS) {
		run_dfs(s, how, first, last, found);
		return;
	}
	p.length = length_of(s);
	for (p.number = first; p.number <= last; p.number++) {
		/* Every other one without old values; some with more points, some without membarrier. */
		p.strong = p.number % 2 == 0;
		p.all_points = p.number % 8 / 2 == 1;
		p.plain_points = p.number % 8 / 2 == 2;
		p.fenced = how.fenced && p.number % 8 / 2 == 3;
		tracing = how.trace;
		sched_run(s, &p, &found->result);
		found->schedules++;
		found->steps += found->result.steps;
		if (!found->result.ok) {
			found->any = true;
			found->plan = p;
			return;
		}
	}
}
