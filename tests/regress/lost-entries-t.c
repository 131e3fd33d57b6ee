/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * lost-entries-t.c - entries that were never chosen as victims any more.
 *
 * Two faults of the first version, both found by a hit ratio that sank from 0.384 to
 * 0.298 after two threads had run, while every stress test passed:
 *
 *  - A pin that ended while its entry was a nominee left the entry READY | WANTED with
 *    nobody to take the mark away, and the list of those passed over skipped it.
 *  - A place that was used again kept the link of the free list in its stamp; a thread
 *    without a ticket did not overwrite what looked like a stamp of the far future.
 *
 * Threads mix hits, misses and duplicates; then one thread loads three times the
 * capacity of new keys in turn.  Whatever was lost still occupies its unit then, so
 * some of the last `capacity` keys are missing.
 */
#include <larder.h>

#include <pthread.h>
#include <stdlib.h>

#include "../lib/tap.h"

static struct larder_cache *cache;
static uint64_t keys;

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *running)
{
	(void)key, (void)key_len, (void)arg, (void)running;
	*value = NULL;
	return 0;
}

static void *mix(void *arg)
{
	uint64_t random = (uintptr_t)arg * 77 + 1;
	unsigned long rounds = getenv("LONG") != NULL ? 2000000 : 60000;

	for (unsigned long i = 0; i < rounds; i++) {
		struct larder_ref ref, copy;
		uint64_t key;

		random ^= random << 13;
		random ^= random >> 7;
		random ^= random << 17;
		key = random % keys;
		if (larder_get(cache, &key, sizeof(key), load, NULL, &ref) != 0)
			continue;
		if ((random >> 50) % 16 == 0 && larder_dup(&ref, &copy) == 0)
			larder_release(&copy);
		larder_release(&ref);
	}
	return NULL;
}

int main(void)
{
	static const struct {
		uint64_t capacity, keys;
		unsigned threads;
	} cases[] = { { 4, 20, 4 }, { 16, 100, 3 }, { 100, 1000, 2 }, { 1000, 3000, 2 }, { 3000, 30000, 2 } };

	plan(sizeof(cases) / sizeof(cases[0]));
	for (unsigned c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		struct larder_options options;
		pthread_t threads[8];
		uint64_t lost = 0;

		larder_options_init(&options);
		options.capacity = cases[c].capacity;
		keys = cases[c].keys;
		must(larder_open(&cache, &options) == 0);
		for (uintptr_t t = 0; t < cases[c].threads; t++)
			must(pthread_create(&threads[t], NULL, mix, (void *)(t + 1)) == 0);
		for (unsigned t = 0; t < cases[c].threads; t++)
			pthread_join(threads[t], NULL);
		for (uint64_t i = 0; i < 3 * options.capacity; i++) {
			uint64_t key = UINT64_C(1) << 40 | i;
			struct larder_ref ref;

			must(larder_get(cache, &key, sizeof(key), load, NULL, &ref) == 0);
			must(larder_release(&ref) == 0);
		}
		for (uint64_t i = 2 * options.capacity; i < 3 * options.capacity; i++) {
			uint64_t key = UINT64_C(1) << 40 | i;
			struct larder_ref ref;

			if (larder_peek(cache, &key, sizeof(key), &ref) != 0)
				lost++;
			else
				must(larder_release(&ref) == 0);
		}
		is_int(lost, 0, "P8: capacity %llu, %u threads: no entry is out of the reclaimer's sight",
		       (unsigned long long)options.capacity, cases[c].threads);
		must(larder_close(cache) == 0);
	}
	return done();
}
