/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h28-t - H28: a second load starts although the first one has just succeeded.
 *
 * No eviction is possible.  For each key all threads ask at times scattered around the
 * end of its load; each loader runs exactly once (P1).  Then with a capacity of one:
 * whoever found the key absent must not make room for it by evicting it.
 */
#include "../lib/test.h"

struct race {
	struct larder_cache *cache;
	struct shelf shelf;
	unsigned long keys;
	uint64_t load_ns;
	_Atomic uint32_t *loaded;
	_Atomic(void *) *value;
	_Atomic unsigned long different, failed, twice;
};

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	struct race *race = arg;
	uint64_t number;

	key_number(key, key_len, &number);
	if (atomic_fetch_add(&race->loaded[number], 1) != 0)
		count_up(&race->twice);
	spin_ns(race->load_ns);
	return value_load(key, key_len, &race->shelf, value, in_progress);
}

static void run(struct worker *worker)
{
	struct race *race = worker->arg;

	for (unsigned long i = 0; i < race->keys; i++) {
		struct key key = key_mixed(i);
		struct larder_outcome o;
		struct larder_ref ref;
		void *seen = NULL;
		int r;

		meeting_wait(&worker->crew->meeting);
		spin_ns(rng_below(&worker->rng, 2000));
		r = shelf_get(race->cache, &race->shelf, &key, load, race, &ref, &o);
		if (r != 0) {
			count_up(&race->failed);
			note("%s: pinned %" PRIu64 " loading %" PRIu64 " refused %" PRIu64 " in transit %" PRIu64,
			     larder_strerror(r), o.refusal.pinned, o.refusal.loading, o.refusal.refused,
			     o.refusal.in_transit);
			continue;
		}
		if (!atomic_compare_exchange_strong(&race->value[i], &seen, larder_value(&ref)) &&
		    seen != larder_value(&ref))
			count_up(&race->different);
		value_drop(&race->shelf, &ref);
		if (worker->index == 0)
			watch_pat();
	}
}

static void test(unsigned threads, unsigned processors, uint64_t capacity, unsigned long keys)
{
	static struct race race;
	struct larder_options options;

	memset(&race, 0, sizeof(race));
	race.keys = keys;
	race.load_ns = 1000;
	race.loaded = calloc(keys, sizeof(*race.loaded));
	race.value = calloc(keys, sizeof(*race.value));
	must(race.loaded != NULL && race.value != NULL);
	shelf_setup(&race.shelf, capacity != 0 ? capacity : keys);
	options = shelf_options(&race.shelf);
	cpus(processors);
	race.cache = shelf_open(&options);
	crew_run(threads, run, &race);
	is_int(race.failed, 0, "H28: %u threads on %u processors (0: all), %lu keys, capacity %" PRIu64, threads,
	       processors, keys, race.shelf.capacity);
	is_int(race.twice, 0, "H28: no key was loaded twice (P1)");
	is_int(stat_of(race.cache, misses), keys, "H28: as many misses as keys (P17)");
	is_int(race.different, 0, "H28: all had the same value of a key");
	is_int(unbalanced(race.cache, &race.shelf), 0, "H28: counting adds up");
	close_shelf(race.cache, &race.shelf, "H28");
	free((void *)race.loaded);
	free((void *)race.value);
	cpus(0);
}

int main(void)
{
	plan(6 * 8);
	test(4, 0, 0, rounds(6000, 100000));
	test(32, 0, 0, rounds(300, 100000));
	test(4, 1, 0, rounds(3000, 100000));
	/* One unit, one key a round: nobody is refused, nobody evicts what he asks for. */
	test(2, 0, 1, rounds(6000, 100000));
	test(8, 0, 1, rounds(1500, 100000));
	test(8, 1, 1, rounds(1500, 100000));
	return done();
}
