/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h73-t - H73 and P17: the conservation law of entries is broken.
 *
 * Evictions for room, by trim and ahead of need are told apart, and at rest published =
 * resident + evicted, evicted = destroyed.  Snapshots taken while threads run are never
 * negative and never go backwards (H29 looks at those).
 */
#include "../lib/test.h"

#define CAPACITY 24

struct box {
	struct larder_cache *cache;
	struct shelf shelf;
	unsigned long rounds;
	bool trims, steps;
	_Atomic unsigned long wrong;
	_Atomic uint64_t trimmed;
};

static void run(struct worker *worker)
{
	struct box *box = worker->arg;

	for (unsigned long i = 0; i < box->rounds; i++) {
		int r;

		if (box->trims && rng_once_in(&worker->rng, 20)) {
			int64_t n = larder_trim(box->cache, 1 + rng_below(&worker->rng, 5));

			if (n < 0)
				count_up(&box->wrong);
			else
				atomic_fetch_add(&box->trimmed, (uint64_t)n);
		}
		if (box->steps && rng_once_in(&worker->rng, 50) && larder_step(box->cache, 1000) < 0)
			count_up(&box->wrong);
		r = shelf_visit(box->cache, &box->shelf, rng_below(&worker->rng, 100));
		if (r != 0 && r != LARDER_EBUSY)
			count_up(&box->wrong);
		if (worker->index == 0)
			watch_pat();
	}
}

static void test(const char *roads, uint64_t headroom, uint32_t flags, bool trims, bool steps)
{
	static struct box box;
	struct larder_options options;
	struct larder_stats s;

	memset(&box, 0, sizeof(box));
	shelf_setup(&box.shelf, CAPACITY);
	options = shelf_options(&box.shelf);
	options.headroom = headroom;
	options.flags = flags;
	box.cache = shelf_open(&options);
	box.rounds = rounds(5000, 1000000);
	box.trims = trims;
	box.steps = steps;
	crew_run(6, run, &box);
	if (headroom != 0)
		until(stat_of(box.cache, resident) <= CAPACITY - headroom);
	s = stats_of(box.cache);
	is_int(box.wrong, 0, "H73: %s: 6 threads, %lu calls each", roads, box.rounds);
	is_int(unbalanced(box.cache, &box.shelf), 0, "H73: %s: counting adds up at rest", roads);
	is_int(s.evicted_trim, box.trimmed, "H73: %s: trims are counted as what they are", roads);
	ok((s.evicted_ahead != 0) == (headroom != 0), "H73: %s: evictions ahead of need, too", roads);
	ok(s.evicted_room + s.evicted_ahead > 0 && s.rescues <= s.nominations, "H73: %s: %lu for room", roads,
	   (unsigned long)s.evicted_room);
	close_shelf(box.cache, &box.shelf, "H73");
}

int main(void)
{
	plan(6 * 8);
	test("room", 0, 0, false, false);
	test("room, trim", 0, 0, true, false);
	test("room, ahead", 4, 0, false, false);
	test("room, trim, ahead", 4, LARDER_OWN_THREAD, true, false);
	test("room, trim, step", 0, LARDER_NO_THREAD, true, true);
	test("step beside the thread", 2, 0, false, true);
	return done();
}
