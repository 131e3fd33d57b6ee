/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h11-t - H11: the size counter drifts, and the cache refuses everything, or nothing.
 *
 * Capacity 8, few keys, 16 threads that mix gets, failing and abandoned loads, trims,
 * duplicates and late releases.  Then, at rest, fresh pins until busy: exactly 8.
 */
#include "../lib/test.h"

#define CAPACITY 8

struct mix {
	struct larder_cache *cache;
	struct shelf shelf;
	unsigned long rounds;
	_Atomic unsigned long wrong;
};

static int load_leaves(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	(void)key, (void)key_len, (void)value, (void)load;
	load_begin(arg);
	load_end(arg);
	pthread_exit(NULL);
}

static void *abandon(void *arg)
{
	struct mix *mix = arg;
	struct key key = key_mixed(3);
	struct larder_ref ref;

	if (larder_get(mix->cache, key.bytes, key.len, load_leaves, &mix->shelf, &ref) == 0)
		larder_release(&ref);
	return NULL;
}

static void run(struct worker *worker)
{
	struct mix *mix = worker->arg;
	struct larder_ref held = { NULL, NULL };

	for (unsigned long i = 0; i < mix->rounds; i++) {
		uint64_t what = rng_below(&worker->rng, 1000);
		struct key key = key_mixed(rng_once_in(&worker->rng, 2) ? rng_below(&worker->rng, 4)
									: rng_below(&worker->rng, 20));
		struct larder_ref ref;
		int r;

		if (what == 0) {
			thread_join(thread_start(abandon, mix));
			continue;
		}
		if (what < 20) {
			larder_trim(mix->cache, 1 + what % 3);
			continue;
		}
		r = shelf_get(mix->cache, &mix->shelf, &key, what < 200 ? value_load_fails : value_load, &mix->shelf,
			      &ref, NULL);
		if (r == 0 && what < 300) {
			if (held.private_slot != NULL)
				value_drop(&mix->shelf, &held);
			held = ref;
		} else if (r == 0) {
			value_drop(&mix->shelf, &ref);
		} else if (r != LARDER_ELOAD && r != LARDER_EABANDONED && r != LARDER_EBUSY) {
			count_up(&mix->wrong);
		}
		if (worker->index == 0)
			watch_pat();
	}
	if (held.private_slot != NULL)
		value_drop(&mix->shelf, &held);
}

static void test(uint64_t headroom, uint32_t flags)
{
	static struct mix mix;
	struct larder_options options;
	unsigned again;

	memset(&mix, 0, sizeof(mix));
	shelf_setup(&mix.shelf, CAPACITY);
	options = shelf_options(&mix.shelf);
	options.headroom = headroom;
	options.flags = flags;
	mix.cache = shelf_open(&options);
	mix.rounds = rounds(3000, 625000);
	for (again = 0; again < 3; again++) {
		crew_run(16, run, &mix);
		is_int(unbalanced(mix.cache, &mix.shelf), 0, "H11: after %lu operations counting adds up",
		       16 * (again + 1) * mix.rounds);
		/* With headroom the background thread may be evicting while the probe pins: that is no refusal. */
		if (headroom == 0)
			is_int(pin_until_busy(mix.cache, &mix.shelf), CAPACITY, "H11: and exactly 8 pins succeed");
		is_int(shelf_visit(mix.cache, &mix.shelf, 9999), 0, "H11: after which the next call succeeds");
	}
	is_int(mix.wrong, 0, "H11: no code that should not be");
	close_shelf(mix.cache, &mix.shelf, "H11");
}

int main(void)
{
	plan(13 + 13 + 10);
	test(0, 0);
	test(0, LARDER_NO_THREAD);
	test(2, 0);
	return done();
}
