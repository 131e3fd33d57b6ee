/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h05-t - H05: a hit against the eviction of its entry: the handle points to a dying
 * or recycled value.
 *
 * Capacity 4, 6 keys, 32 threads that get and let go; every value is looked at three
 * times while it is held (P4).
 */
#include "../lib/test.h"

struct crowd {
	struct larder_cache *cache;
	struct shelf shelf;
	unsigned long rounds;
	_Atomic unsigned long wrong, got;
};

static void run(struct worker *worker)
{
	struct crowd *c = worker->arg;

	for (unsigned long i = 0; i < c->rounds; i++) {
		uint64_t number = rng_below(&worker->rng, 6);
		struct key key = key_mixed(number);
		struct larder_ref ref;
		int r = shelf_get(c->cache, &c->shelf, &key, value_load, &c->shelf, &ref, NULL);

		if (r == LARDER_EBUSY)
			continue;
		if (r != 0) {
			count_up(&c->wrong);
			continue;
		}
		count_up(&c->got);
		if (rng_once_in(&worker->rng, 8))
			spin_ns(rng_below(&worker->rng, 5000));
		value_check(&c->shelf, larder_value(&ref), number);
		if (rng_once_in(&worker->rng, 64))
			sched_yield();
		value_drop(&c->shelf, &ref);
		if (worker->index == 0)
			watch_pat();
	}
}

static void test(unsigned processors, unsigned long n)
{
	static struct crowd c;
	struct larder_options options;

	memset(&c, 0, sizeof(c));
	shelf_setup(&c.shelf, 4);
	options = shelf_options(&c.shelf);
	cpus(processors);
	c.cache = shelf_open(&options);
	c.rounds = n;
	crew_run(32, run, &c);
	is_int(c.wrong, 0, "H05: 32 threads on %u processors (0: all), %lu gets each, no code but success or busy",
	       processors, n);
	ok(c.got > 0 && stat_of(c.cache, evicted_room) > 0, "H05: %lu values were held, and there were evictions",
	   (unsigned long)c.got);
	at_rest(c.cache, &c.shelf, "H05");
	close_shelf(c.cache, &c.shelf, "H05");
	cpus(0);
}

int main(void)
{
	plan(2 * 8);
	test(0, rounds(5000, 5000000));
	test(1, rounds(3000, 1000000));
	return done();
}
