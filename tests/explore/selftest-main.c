/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * selftest-main.c - runs selftest.c's programs in each mode, as TAP.
 *
 * DFS goes through all schedules with up to DEPTH deviations, which is all of them for
 * these programs, or enough.
 */
#include <stdio.h>
#include <string.h>

#include "run.h"
#include "selftest.h"

#define DEPTH 4
#define DFS_CAP 200000
#define SCHEDULES 4000

int explore_fault;

int main(void)
{
	static const char *const mode_name[] = { "random", "pct", "dfs" };
	unsigned n = 0, failed = 0;

	memory_setup();
	sched_setup();
	printf("1..%u\n", 3 * selftest_count);
	for (unsigned i = 0; i < selftest_count; i++) {
		const struct selftest *t = &selftests[i];

		for (int mode = MODE_RANDOM; mode <= MODE_DFS; mode++) {
			struct how how = { .mode = (enum mode)mode, .seed = 1, .depth = DEPTH };
			struct found found;
			bool ok;

			run_schedules(&t->scenario, how, 1, mode == MODE_DFS ? DFS_CAP : SCHEDULES, &found);
			ok = t->finds == NULL ? !found.any
					      : found.any && strstr(found.result.message, t->finds) != NULL;
			printf("%sok %u - %s, %s: %s (%lu schedules%s)\n", ok ? "" : "not ", ++n, t->scenario.name,
			       mode_name[mode], t->finds == NULL ? "nothing is found" : "it is found",
			       (unsigned long)found.schedules, found.exhausted ? ", all" : "");
			if (found.any && !ok)
				printf("# %s\n", found.result.message);
			failed += !ok;
		}
	}
	return failed != 0;
}
