/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * explore.c - which scenarios, which schedules, how many; and what came of it.
 *
 *	explore                          every scenario: DFS of one deviation, PCT, random
 *	explore --tap                    the same as TAP
 *	explore --list
 *	explore --scenario NAME --mode pct --schedules 100000 --seed 7 --depth 4
 *	explore --scenario NAME --mode pct --seed 7 --number 4711 --trace
 *	explore-faults --faults          every seeded fault must be found
 *	explore-faults --fault 3 ...     as above, with fault 3
 *
 * A failure prints the line that runs its schedule again.  Exit status: 0 nothing
 * found (with --faults: all found), 1 otherwise, 2 wrong use.
 */
#include "run.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define FAULTS 12

int explore_fault;

static const struct {
	const char *name;
} fault[FAULTS + 1] = {
	{ "none" },
	{ "no look at the state after the pin" },
	{ "no process-wide barrier before the search" },
	{ "slots searched before the barrier" },
	{ "published without release" },
	{ "slot cleared without release" },
	{ "slots searched without acquire" },
	{ "publication wakes nobody" },
	{ "places used again without a grace period" },
	{ "nominees handed out without a search" },
	{ "a ticket honoured whatever became of its entry" },
	{ "insertion does not search under the head it replaces" },
	{ "a woken follower does not wake the next" },
};

static const char *const mode_name[] = { "random", "pct", "dfs" };

static struct {
	const char *scenario;
	int mode; /* -1: all */
	uint64_t schedules, seed, number, dfs_cap;
	unsigned depth; /* 0: each mode's own */
	bool trace, tap, faults;
	double seconds;
} wish = { .mode = -1, .schedules = 3000, .seed = 1, .dfs_cap = 20000, .seconds = 20 };

static double seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static struct how how(int mode, bool trace)
{
	struct how h = {
		.mode = (enum mode)mode, .seed = wish.seed, .depth = wish.depth, .fenced = true, .trace = trace
	};

	if (h.depth == 0)
		h.depth = mode == MODE_DFS ? 1 : 3;
	return h;
}

static void print_failure(const struct scenario *s, const struct found *found, const char *indent)
{
	const struct plan *p = &found->plan;

	printf("%s%s: %s\n", indent, s->name, found->result.message);
	printf("%sagain: explore%s --scenario %s --mode %s", indent, explore_fault != 0 ? "-faults" : "", s->name,
	       mode_name[p->mode]);
	if (explore_fault != 0)
		printf(" --fault %d", explore_fault);
	printf(" --seed %lu --number %lu --depth %u --trace\n", (unsigned long)p->seed, (unsigned long)p->number,
	       p->depth);
}

static const struct scenario *find_scenario(const char *name)
{
	for (const struct scenario *const *s = scenarios; *s != NULL; s++)
		if (strcmp((*s)->name, name) == 0)
			return *s;
	fprintf(stderr, "explore: no scenario %s; --list tells which there are\n", name);
	exit(2);
}

/* All modes, one after the other; true if nothing was found. */
static bool run_all_modes(const struct scenario *s, struct found found[3])
{
	static const int order[] = { MODE_DFS, MODE_PCT, MODE_RANDOM };

	memset(found, 0, 3 * sizeof(found[0]));
	for (int i = 0; i < 3; i++) {
		int mode = order[i];

		if (wish.mode >= 0 && wish.mode != mode)
			continue;
		run_schedules(s, how(mode, false), 1, mode == MODE_DFS ? wish.dfs_cap : wish.schedules, &found[mode]);
		if (found[mode].any)
			return false;
	}
	return true;
}

static void print_found(const struct scenario *s, const struct found found[3], const char *indent)
{
	for (int mode = 0; mode < 3; mode++)
		if (found[mode].any)
			print_failure(s, &found[mode], indent);
}

static int run_table(void)
{
	unsigned passed = 0, failed = 0;
	double begin = seconds();
	uint64_t all = 0;

	printf("%-18s %3s  %-17s %8s %8s %7s %10s\n", "scenario", "thr", "dfs", "pct", "random", "steps",
	       "schedules/s");
	for (const struct scenario *const *s = scenarios; *s != NULL; s++) {
		struct found found[3];
		double started = seconds();
		uint64_t n = 0, steps = 0;
		char dfs[32];
		bool ok;

		if (wish.scenario != NULL && strcmp((*s)->name, wish.scenario) != 0)
			continue;
		ok = run_all_modes(*s, found);
		for (int mode = 0; mode < 3; mode++) {
			n += found[mode].schedules;
			steps += found[mode].steps;
		}
		snprintf(dfs, sizeof(dfs), "%lu %s", (unsigned long)found[MODE_DFS].schedules,
			 found[MODE_DFS].exhausted ? "(all)" : "");
		printf("%-18s %3u  %-17s %8lu %8lu %7lu %10.0f   %s\n", (*s)->name, (*s)->threads, dfs,
		       (unsigned long)found[MODE_PCT].schedules, (unsigned long)found[MODE_RANDOM].schedules,
		       (unsigned long)(n != 0 ? steps / n : 0), (double)n / (seconds() - started + 1e-9),
		       ok ? "ok" : "FAILED");
		print_found(*s, found, "    ");
		fflush(stdout);
		passed += ok;
		failed += !ok;
		all += n;
	}
	printf("%lu schedules in %.1f s, seed %lu\n", (unsigned long)all, seconds() - begin, (unsigned long)wish.seed);
	printf("%u passed, %u failed\n", passed, failed);
	return failed != 0;
}

static int run_tap(void)
{
	unsigned n = 0, failed = 0, count = 0;

	for (const struct scenario *const *s = scenarios; *s != NULL; s++)
		count++;
	printf("1..%u\n# seed %lu\n", count, (unsigned long)wish.seed);
	for (const struct scenario *const *s = scenarios; *s != NULL; s++) {
		struct found found[3];
		bool ok = run_all_modes(*s, found);

		printf("%sok %u - %s: %s (%lu schedules)\n", ok ? "" : "not ", ++n, (*s)->name, (*s)->what,
		       (unsigned long)(found[0].schedules + found[1].schedules + found[2].schedules));
		print_found(*s, found, "# ");
		fflush(stdout);
		failed += !ok;
	}
	return failed != 0;
}

/* One schedule, perhaps with its trace. */
static int run_one(void)
{
	const struct scenario *s = find_scenario(wish.scenario);
	struct found found;

	run_schedules(s, how(wish.mode < 0 ? MODE_RANDOM : wish.mode, wish.trace), wish.number, wish.number, &found);
	if (wish.trace)
		trace_print();
	if (found.any)
		print_failure(s, &found, "");
	else
		printf("%s: nothing found, %lu steps\n", s->name, (unsigned long)found.steps);
	return found.any;
}

/* More and more schedules of all scenarios in turn, until the fault is found. */
static bool find_fault(int number)
{
	double begin = seconds();
	uint64_t done = 0, total = 0;
	struct found found;

	explore_fault = number;
	for (uint64_t round = 250; seconds() - begin < wish.seconds; round *= 2) {
		for (const struct scenario *const *s = scenarios; *s != NULL; s++) {
			for (int mode = MODE_RANDOM; mode <= MODE_DFS; mode++) {
				run_schedules(*s, how(mode, false), mode == MODE_DFS ? 1 : done + 1, done + round,
					      &found);
				total += found.schedules;
				if (!found.any)
					continue;
				printf("fault %2d  %-52s found in %.1f s, %lu schedules\n", number, fault[number].name,
				       seconds() - begin, (unsigned long)total);
				print_failure(*s, &found, "          ");
				explore_fault = 0;
				return true;
			}
		}
		done += round;
	}
	printf("fault %2d  %-52s NOT FOUND in %.1f s, %lu schedules\n", number, fault[number].name, seconds() - begin,
	       (unsigned long)total);
	explore_fault = 0;
	return false;
}

static int run_faults(void)
{
	unsigned passed = 0, failed = 0;

	for (int number = 1; number <= FAULTS; number++) {
		bool ok = find_fault(number);

		fflush(stdout);
		passed += ok;
		failed += !ok;
	}
	printf("%u passed, %u failed\n", passed, failed);
	return failed != 0;
}

static int usage(void)
{
	fprintf(stderr,
		"usage: explore [--list] [--tap] [--scenario NAME] [--mode random|pct|dfs] [--schedules N]\n"
		"               [--dfs-cap N] [--seed N] [--depth N] [--number N] [--trace]\n"
		"               [--fault N] [--faults] [--seconds N]\n");
	return 2;
}

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "list", no_argument, NULL, 'l' },
		{ "tap", no_argument, NULL, 'T' },
		{ "scenario", required_argument, NULL, 's' },
		{ "mode", required_argument, NULL, 'm' },
		{ "schedules", required_argument, NULL, 'n' },
		{ "dfs-cap", required_argument, NULL, 'c' },
		{ "seed", required_argument, NULL, 'r' },
		{ "depth", required_argument, NULL, 'd' },
		{ "number", required_argument, NULL, 'N' },
		{ "trace", no_argument, NULL, 't' },
		{ "fault", required_argument, NULL, 'f' },
		{ "faults", no_argument, NULL, 'F' },
		{ "seconds", required_argument, NULL, 'S' },
		{ NULL, 0, NULL, 0 },
	};
	bool list = false;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (c) {
		case 'l':
			list = true;
			break;
		case 'T':
			wish.tap = true;
			break;
		case 's':
			wish.scenario = optarg;
			break;
		case 'm':
			for (wish.mode = 0; wish.mode < 3 && strcmp(optarg, mode_name[wish.mode]) != 0; wish.mode++)
				;
			if (wish.mode == 3)
				return usage();
			break;
		case 'n':
			wish.schedules = strtoull(optarg, NULL, 0);
			break;
		case 'c':
			wish.dfs_cap = strtoull(optarg, NULL, 0);
			break;
		case 'r':
			wish.seed = strtoull(optarg, NULL, 0);
			break;
		case 'd':
			wish.depth = (unsigned)strtoul(optarg, NULL, 0);
			break;
		case 'N':
			wish.number = strtoull(optarg, NULL, 0);
			break;
		case 't':
			wish.trace = true;
			break;
		case 'f':
			explore_fault = atoi(optarg);
			break;
		case 'F':
			wish.faults = true;
			break;
		case 'S':
			wish.seconds = atof(optarg);
			break;
		default:
			return usage();
		}
	}
	if (optind != argc)
		return usage();
	memory_setup();
	sched_setup();
	if (list) {
		for (const struct scenario *const *s = scenarios; *s != NULL; s++)
			printf("%-18s %u  %s\n", (*s)->name, (*s)->threads, (*s)->what);
		return 0;
	}
#ifndef EXPLORE_FAULTS
	if (explore_fault != 0 || wish.faults) {
		fprintf(stderr, "explore: built without faults; use explore-faults\n");
		return 2;
	}
#endif
	if (wish.scenario != NULL)
		(void)find_scenario(wish.scenario);
	if (wish.number != 0) {
		if (wish.scenario == NULL)
			return usage();
		return run_one();
	}
	if (wish.faults)
		return run_faults();
	return wish.tap ? run_tap() : run_table();
}
