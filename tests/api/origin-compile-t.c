/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * origin-compile-t - what one can see of the second origin, and where larder differs.
 *
 * The origin is rlx_tensor's compile cache: a thread-local map from a fingerprint to
 * a compiled graph, emptied when it holds 512, with hits and misses counted.  A graph
 * that was compiled before comes back itself, no copy; compiling runs once a
 * fingerprint; clearing empties the cache and its counters.  Larder keeps all of it
 * for many threads, and instead of emptying everything at the 513th it evicts one.
 */
#include "../lib/test.h"

#define MAX_ENTRIES 512

struct graph {
	unsigned compiled; /* how often */
	unsigned run;
};

static unsigned dropped;

static int compile(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct graph *graph = arg;

	(void)key, (void)key_len, (void)load;
	graph->compiled++;
	*value = graph;
	return 0;
}

static void drop(void *value, void *ctx)
{
	(void)value, (void)ctx;
	dropped++;
}

static unsigned run(struct larder_cache *cache, uint64_t fingerprint, struct graph *graph)
{
	struct larder_ref ref;

	if (larder_get(cache, &fingerprint, sizeof(fingerprint), compile, graph, &ref) != 0)
		return 1;
	if (larder_value(&ref) != graph)
		return 1;
	((struct graph *)larder_value(&ref))->run++;
	return larder_release(&ref) != 0;
}

int main(void)
{
	static struct graph graph[MAX_ENTRIES + 1];
	struct larder_options options;
	struct larder_cache *cache;
	struct larder_ref one, two;
	struct larder_stats s;
	uint64_t fingerprint = 3;
	unsigned wrong = 0;

	plan(20);
	larder_options_init(&options);
	options.capacity = MAX_ENTRIES;
	options.destroy = drop;
	must(larder_open(&cache, &options) == 0);

	wrong += run(cache, 3, &graph[3]);
	s = stats_of(cache);
	ok(s.hits == 0 && s.misses == 1, "the first run of a graph is a miss");
	for (unsigned i = 0; i < 9; i++)
		wrong += run(cache, 3, &graph[3]);
	s = stats_of(cache);
	ok(s.hits == 9 && s.misses == 1, "the next nine are hits");
	is_int(wrong, 0, "each returns the very graph that was compiled");
	ok(graph[3].compiled == 1 && graph[3].run == 10, "compile once, execute many: a copy would not have counted");
	must(larder_get(cache, &fingerprint, sizeof(fingerprint), compile, &graph[3], &one) == 0);
	must(larder_get(cache, &fingerprint, sizeof(fingerprint), compile, &graph[3], &two) == 0);
	is_ptr(larder_value(&one), larder_value(&two), "two holders share one value: no copy on a hit");
	is_ptr(larder_key(&one, NULL), larder_key(&two, NULL), "and one key");
	ok(larder_release(&one) == 0 && larder_release(&two) == 0, "both let go");

	is_int(larder_stats_reset(cache), 0, "the counters are reset");
	s = stats_of(cache);
	ok(s.hits == 0 && s.misses == 0 && s.loads_ok == 0, "P17: hits and misses begin at 0");
	is_int(s.resident, 1, "P17: a reset changes no gauge");
	is_int(larder_trim(cache, UINT64_MAX), 1, "clearing drops what is idle");
	is_int(dropped, 1, "P10: and ends it");
	larder_stats_reset(cache);
	wrong += run(cache, 3, &graph[3]);
	s = stats_of(cache);
	ok(s.hits == 0 && s.misses == 1 && graph[3].compiled == 2, "after a clear the same graph is compiled anew");

	dropped = 0;
	for (unsigned i = 0; i < MAX_ENTRIES; i++)
		wrong += run(cache, i, &graph[i]);
	s = stats_of(cache);
	is_int(s.resident, MAX_ENTRIES, "512 graphs fit");
	is_int(dropped, 0, "none was dropped for them");
	wrong += run(cache, MAX_ENTRIES, &graph[MAX_ENTRIES]);
	is_int(dropped, 1, "the 513th costs one other graph, not all of them");
	is_int(stat_of(cache, resident), MAX_ENTRIES, "P6: 512 are there");
	for (unsigned i = 1; i <= MAX_ENTRIES; i++)
		wrong += run(cache, i, &graph[i]);
	ok(stat_of(cache, misses) == MAX_ENTRIES + 1 && dropped == 1, "P8: the one that went is the oldest");
	is_int(wrong, 0, "every run got its own graph");
	is_int(larder_close(cache), 0, "close");
	return done();
}
