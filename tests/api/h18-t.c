/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h18-t - H18: insertion evicts under the lock that it holds, or takes as its victim
 * what it is inserting.
 *
 * Capacity 1 and 2: one thread alternates; then 32 threads get and let go 64 keys, with
 * trims and statistics among it.
 */
#include "../lib/test.h"

struct box {
	struct larder_cache *cache;
	struct shelf shelf;
	unsigned long rounds;
	_Atomic unsigned long wrong;
};

static void run(struct worker *worker)
{
	struct box *box = worker->arg;

	for (unsigned long i = 0; i < box->rounds; i++) {
		uint64_t what = rng_below(&worker->rng, 100);
		int r;

		if (what == 0) {
			r = larder_trim(box->cache, 1) < 0 ? -1 : 0;
		} else if (what == 1) {
			struct larder_stats s = stats_of(box->cache);

			r = s.resident + s.loading <= s.capacity ? 0 : -1;
		} else {
			r = shelf_visit(box->cache, &box->shelf, rng_below(&worker->rng, 64));
		}
		if (r != 0 && r != LARDER_EBUSY)
			count_up(&box->wrong);
		if (worker->index == 0)
			watch_pat();
	}
}

int main(void)
{
	plan(2 * 8);
	for (uint64_t capacity = 1; capacity <= 2; capacity++) {
		static struct box box;
		struct larder_options options;
		unsigned long n = rounds(20000, 1000000);

		memset(&box, 0, sizeof(box));
		shelf_setup(&box.shelf, capacity);
		options = shelf_options(&box.shelf);
		box.cache = shelf_open(&options);
		for (unsigned long i = 0; i < n; i++)
			if (shelf_visit(box.cache, &box.shelf, i % (capacity + 1)) != 0)
				count_up(&box.wrong);
		ok(box.wrong == 0 && stat_of(box.cache, misses) == n,
		   "H18: capacity %" PRIu64 ": a, b, a, b ... %lu times: each takes the other's place", capacity, n);
		box.rounds = rounds(2000, 1000000);
		crew_run(32, run, &box);
		is_int(box.wrong, 0, "H18: 32 threads, 64 keys, %lu calls each: success or busy", box.rounds);
		at_rest(box.cache, &box.shelf, "H18");
		close_shelf(box.cache, &box.shelf, "H18");
	}
	return done();
}
