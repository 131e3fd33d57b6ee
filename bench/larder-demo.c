/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * larder-demo - what the library is for, seen at a glance.
 *
 * First, eight threads ask for one cold key whose loader takes 50 ms: one of
 * them loads, seven follow.  Then a recorded trace is replayed through a cache of
 * 10 % of its distinct keys, by one thread and by as many as there are
 * processors, with larder and with the mutex baseline, several times in turn;
 * the table shows the run of median speed.
 *
 * Exit status: 0; 1 if there was not exactly one load, if with one thread larder's
 * hits are not those of exact LRU, or if something could not be run; 2 for a
 * wrong command line or an unusable trace.
 */
#include "clock.h"
#include "draw.h"
#include "replay.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COLD_THREADS 8u
#define COLD_LOAD_NS UINT64_C(50000000)
/* The loader takes longer than that only if the machine has not yet let all threads ask. */
#define COLD_WAIT_NS UINT64_C(5000000000)

#define SHARE_PERCENT 10.0
#define RUNS_MAX 9u
#define RUNS_NS UINT64_C(8000000000) /* begin no further round of runs after this */
#define CONFIGS_MAX 4u

/* Part 1: one cold key. */

struct cold {
	struct larder_cache *cache;
	pthread_barrier_t start;
	atomic_uint loads;
	atomic_uint loaded;
	atomic_uint followers;
	atomic_uint wrong;
};

static int cold_load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	struct cold *cold = arg;
	uint64_t end_ns = clock_ns() + COLD_WAIT_NS;
	struct larder_stats stats;

	(void)key;
	(void)key_len;
	(void)in_progress;
	atomic_fetch_add(&cold->loads, 1);
	clock_sleep_ns(COLD_LOAD_NS);
	larder_stats_init(&stats);
	while (larder_stats(cold->cache, &stats) == 0 && stats.joins < COLD_THREADS - 1 && clock_ns() < end_ns)
		clock_sleep_ns(1000000);
	*value = cold;
	return 0;
}

static void *cold_ask(void *arg)
{
	struct cold *cold = arg;
	struct larder_outcome outcome;
	struct larder_ref ref;

	larder_outcome_init(&outcome);
	pthread_barrier_wait(&cold->start);
	if (larder_get_with(cold->cache, "a cold key", 10, cold_load, cold, NULL, &ref, &outcome) != 0) {
		atomic_fetch_add(&cold->wrong, 1);
		return NULL;
	}
	if (larder_value(&ref) != cold)
		atomic_fetch_add(&cold->wrong, 1);
	if (outcome.how == LARDER_LOADED)
		atomic_fetch_add(&cold->loaded, 1);
	else if (outcome.how == LARDER_JOINED)
		atomic_fetch_add(&cold->followers, 1);
	larder_release(&ref);
	return NULL;
}

static int cold_show(void)
{
	struct larder_options options;
	struct cold cold = { 0 };
	pthread_t threads[COLD_THREADS];
	uint64_t begin_ns, took_ns;
	int error;

	larder_options_init(&options);
	options.capacity = 16;
	error = larder_open(&cold.cache, &options);
	if (error != 0) {
		fprintf(stderr, "larder-demo: cannot open a cache: %s\n", larder_strerror(error));
		return -1;
	}
	printf("1. %u threads ask for one cold key whose loader takes %" PRIu64 " ms\n\n", COLD_THREADS,
	       COLD_LOAD_NS / 1000000);
	fflush(stdout);
	pthread_barrier_init(&cold.start, NULL, COLD_THREADS);
	begin_ns = clock_ns();
	for (unsigned i = 0; i < COLD_THREADS; i++) {
		if (pthread_create(&threads[i], NULL, cold_ask, &cold) != 0) {
			fprintf(stderr, "larder-demo: cannot create a thread\n");
			exit(1);
		}
	}
	for (unsigned i = 0; i < COLD_THREADS; i++)
		pthread_join(threads[i], NULL);
	took_ns = clock_ns() - begin_ns;
	pthread_barrier_destroy(&cold.start);
	error = larder_close(cold.cache);
	printf("   loads=%u followers=%u\n", atomic_load(&cold.loads), atomic_load(&cold.followers));
	printf("   all of them had the one value after %.1f ms\n\n", (double)took_ns / 1e6);
	if (atomic_load(&cold.loads) == 1 && atomic_load(&cold.loaded) == 1 &&
	    atomic_load(&cold.followers) == COLD_THREADS - 1 && atomic_load(&cold.wrong) == 0 && error == 0)
		return 0;
	printf("   FAILED: not one load and %u followers%s\n\n", COLD_THREADS - 1,
	       atomic_load(&cold.wrong) != 0 ? ", and not everybody got the value" : "");
	return -1;
}

/* Part 2: a real trace. */

struct config {
	const struct impl *impl;
	unsigned threads;
	unsigned runs;
	struct replay_result results[RUNS_MAX]; /* sorted by speed in the end */
};

static const struct replay_result *config_median(const struct config *config)
{
	return &config->results[config->runs / 2];
}

/* Requests a second of all threads, in millions. */
static double config_speed(const struct config *config)
{
	return config->threads * 1000.0 / config_median(config)->ns_per_request;
}

static int by_speed(const void *left, const void *right)
{
	double a = ((const struct replay_result *)left)->ns_per_request;
	double b = ((const struct replay_result *)right)->ns_per_request;

	return (a > b) - (a < b);
}

/* Each configuration in turn, and again, so that a disturbance hits all of them. */
static int configs_run(const struct trace *trace, uint64_t capacity, struct config *configs, unsigned config_count)
{
	uint64_t end_ns = clock_ns() + RUNS_NS;

	for (unsigned run = 0; run < RUNS_MAX && (run == 0 || clock_ns() < end_ns); run++) {
		for (unsigned i = 0; i < config_count; i++) {
			struct replay_options options = {
				.impl = configs[i].impl,
				.threads = configs[i].threads,
				.capacity = capacity,
				.seed = replay_seed(),
				.progress = isatty(STDERR_FILENO) == 1,
			};

			if (replay_run(trace, &options, &configs[i].results[configs[i].runs++]) != 0)
				return -1;
		}
	}
	for (unsigned i = 0; i < config_count; i++)
		qsort(configs[i].results, configs[i].runs, sizeof(configs[i].results[0]), by_speed);
	return 0;
}

static void table_show(const struct trace *trace, uint64_t lru_hits, const struct config *configs,
		       unsigned config_count)
{
	double requests = (double)trace->requests;
	char text[DRAW_COUNT];

	printf("%-12s %7s %9s %8s %6s %6s %7s %7s %5s %6s\n", "", "", "", "", "hit", "exact", "", "evic-", "", "ns a");
	printf("%-12s %7s %9s %8s %6s %6s %7s %7s %5s %6s\n", "cache", "threads", "requests", "hits", "ratio", "LRU",
	       "loads", "tions", "busy", "req.");
	for (unsigned i = 0; i < config_count; i++) {
		const struct replay_result *median = config_median(&configs[i]);

		printf("%-12s %7u", configs[i].impl->name, configs[i].threads);
		printf(" %9s", draw_count(text, trace->requests));
		printf(" %8s", draw_count(text, median->counts.hits));
		printf(" %6.4f %6.4f", (double)median->counts.hits / requests, (double)lru_hits / requests);
		printf(" %7s", draw_count(text, median->counts.misses));
		printf(" %7s", draw_count(text, median->counts.evictions));
		printf(" %5s", draw_count(text, median->counts.busy));
		printf(" %6.0f\n", median->ns_per_request);
	}
	printf("\n");
}

static void bars_show(const struct config *configs, unsigned config_count)
{
	/* name, threads and number take 35 columns */
	unsigned width = draw_width() - 35;
	double max = 0;

	for (unsigned i = 0; i < config_count; i++)
		max = config_speed(&configs[i]) > max ? config_speed(&configs[i]) : max;
	printf("million requests a second, all threads together (longer is better)\n\n");
	for (unsigned i = 0; i < config_count; i++) {
		printf("%-12s %3u thread%c  ", configs[i].impl->name, configs[i].threads,
		       configs[i].threads == 1 ? ' ' : 's');
		draw_bar(config_speed(&configs[i]), max, width);
		printf(" %.2f\n", config_speed(&configs[i]));
		if (i % 2 == 1)
			printf("\n");
	}
}

static void picture_show(const char *path, const struct trace *trace, const struct config *configs,
			 unsigned config_count)
{
	const char *const series[2] = { configs[0].impl->name, configs[1].impl->name };
	struct draw_group groups[CONFIGS_MAX / 2];
	char title[160], count[DRAW_COUNT];
	int drawn;

	for (unsigned i = 0; i < config_count / 2; i++) {
		snprintf(groups[i].label, sizeof(groups[i].label), "%u thread%s", configs[2 * i].threads,
			 configs[2 * i].threads == 1 ? "" : "s");
		groups[i].value[0] = config_speed(&configs[2 * i]);
		groups[i].value[1] = config_speed(&configs[2 * i + 1]);
	}
	snprintf(title, sizeof(title), "trace %s, %s requests, cache of %.0f %% of its keys", trace->name,
		 draw_count(count, trace->requests), SHARE_PERCENT);
	drawn = draw_picture(path, title, "million requests a second", series, groups, config_count / 2);
	if (drawn == 0)
		printf("picture: %s\n", path);
	else
		printf("no picture: gnuplot %s\n", drawn > 0 ? "is not installed" : "failed");
}

/* Whether each run of larder with one thread had exactly LRU's hits. */
static int exact_show(uint64_t lru_hits, const struct config *configs, unsigned config_count)
{
	char text[DRAW_COUNT];

	for (unsigned i = 0; i < config_count; i++) {
		if (configs[i].impl != &impl_larder || configs[i].threads != 1)
			continue;
		for (unsigned run = 0; run < configs[i].runs; run++) {
			if (configs[i].results[run].counts.hits == lru_hits)
				continue;
			printf("FAILED: larder with one thread had %s hits",
			       draw_count(text, configs[i].results[run].counts.hits));
			printf(", not exact LRU's %s\n", draw_count(text, lru_hits));
			return -1;
		}
	}
	for (unsigned i = 0; i + 1 < config_count; i += 2) {
		double factor = config_speed(&configs[i]) / config_speed(&configs[i + 1]);

		printf("with %u thread%s larder does %.1f times as many requests a second as %s\n", configs[i].threads,
		       configs[i].threads == 1 ? "" : "s", factor, configs[i + 1].impl->name);
	}
	printf("with 1 thread larder's hits are exactly those of LRU, in each of %u runs\n", configs[0].runs);
	return 0;
}

static int trace_show(const struct trace *trace, const char *picture)
{
	uint64_t capacity = trace_share(trace, SHARE_PERCENT);
	uint64_t lru_hits = trace_lru_hits(trace, capacity);
	struct config configs[CONFIGS_MAX] = {
		{ .impl = &impl_larder, .threads = 1 },
		{ .impl = &impl_mutex_origin, .threads = 1 },
		{ .impl = &impl_larder, .threads = cpu_count() },
		{ .impl = &impl_mutex_origin, .threads = cpu_count() },
	};
	unsigned config_count = cpu_count() > 1 ? 4 : 2;
	char text[DRAW_COUNT];

	if (lru_hits == UINT64_MAX) {
		fprintf(stderr, "larder-demo: no memory\n");
		return -1;
	}
	printf("2. The trace %s is replayed: %s requests", trace->name, draw_count(text, trace->requests));
	printf(" for %s keys,", draw_count(text, trace->distinct));
	printf(" cache of %s\n\n", draw_count(text, capacity));
	fflush(stdout);
	if (configs_run(trace, capacity, configs, config_count) != 0)
		return -1;
	table_show(trace, lru_hits, configs, config_count);
	bars_show(configs, config_count);
	if (exact_show(lru_hits, configs, config_count) != 0)
		return -1;
	picture_show(picture, trace, configs, config_count);
	return 0;
}

int main(int argc, char **argv)
{
	const char *picture = argc == 3 ? argv[2] : "larder-demo.png";
	struct trace trace;
	char why[TRACE_WHY];
	int failed;

	if (argc < 2 || argc > 3 || argv[1][0] == '-') {
		fprintf(stderr, "Usage: larder-demo TRACE.u64.gz [PICTURE.png]\n");
		return 2;
	}
	draw_begin();
	if (trace_read(&trace, argv[1], why) != 0) {
		fprintf(stderr, "larder-demo: %s: %s\n", argv[1], why);
		return 2;
	}
	failed = cold_show() != 0;
	failed |= trace_show(&trace, picture) != 0;
	trace_free(&trace);
	return failed || fflush(stdout) != 0 ? 1 : 0;
}
