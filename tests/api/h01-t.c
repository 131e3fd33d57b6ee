/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h01-t - H01: the publication falls between "decided to wait" and "asleep".
 *
 * A fresh key a round; 2, 3, 8 and 64 threads ask for it together, the loader takes no
 * time or up to 50 us and may give its processor away as its last act; on one, two and
 * all processors.  A lost wake-up hangs (the watchdog tells), a needless one does not;
 * the loader runs once a key and all callers hold the same value (P1, P2).
 */
#include "../lib/test.h"

struct race {
	struct larder_cache *cache;
	struct shelf shelf;
	unsigned long rounds;
	uint64_t first_key;
	_Atomic(void *) value[64];
	_Atomic unsigned long different, failed;
	_Atomic uint64_t pace; /* random, of this round */
};

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	static const uint64_t ns[] = { 0, 0, 200, 200, 2000, 50000 };
	struct race *race = arg;
	uint64_t pace = count_of(&race->pace);
	int r = value_load(key, key_len, &race->shelf, value, in_progress);

	spin_ns(ns[pace % ELEMENTS(ns)]);
	if (pace >> 60 < 4)
		sched_yield();
	return r;
}

static void run(struct worker *worker)
{
	struct race *race = worker->arg;
	unsigned n = worker->crew->count;

	for (unsigned long i = 0; i < race->rounds; i++) {
		struct key key = key_mixed(race->first_key + i);
		struct larder_ref ref;
		int r;

		if (worker->index == 0) {
			atomic_store(&race->pace, rng_next(&worker->rng));
			watch_pat();
		}
		meeting_wait(&worker->crew->meeting);
		r = shelf_get(race->cache, &race->shelf, &key, load, race, &ref, NULL);
		if (r != 0)
			count_up(&race->failed);
		atomic_store_explicit(&race->value[worker->index], r == 0 ? larder_value(&ref) : NULL,
				      memory_order_relaxed);
		meeting_wait(&worker->crew->meeting);
		if (race->value[worker->index] != race->value[(worker->index + 1) % n])
			count_up(&race->different);
		if (r == 0)
			value_drop(&race->shelf, &ref);
	}
}

static void test(unsigned threads, unsigned processors, unsigned long n)
{
	static struct race race;
	struct larder_options options;
	uint64_t started;

	memset(&race, 0, sizeof(race));
	shelf_setup(&race.shelf, 4);
	options = shelf_options(&race.shelf);
	cpus(processors);
	race.cache = shelf_open(&options);
	race.rounds = n;
	crew_run(threads, run, &race);
	started = count_of(&race.shelf.started);
	is_int(race.failed, 0, "H01: %u threads on %u processors (0: all), %lu rounds, nobody hangs or fails", threads,
	       processors, n);
	is_int(started, n, "H01: one load a key");
	is_int(race.different, 0, "H01: all hold the same value");
	at_rest(race.cache, &race.shelf, "H01");
	close_shelf(race.cache, &race.shelf, "H01");
	cpus(0);
}

int main(void)
{
	plan(7 * 9);
	test(2, 0, rounds(20000, 1000000));
	test(2, 1, rounds(10000, 200000));
	test(3, 2, rounds(10000, 200000));
	test(8, 0, rounds(1500, 1000000));
	test(8, 1, rounds(1500, 200000));
	test(64, 0, rounds(100, 100000));
	test(64, 1, rounds(100, 20000));
	return done();
}
