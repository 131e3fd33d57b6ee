/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h69-t - H69: a hit on a resident key in a full cache evicts an innocent entry; and a
 * join reserves nothing.
 */
#include "../lib/test.h"

#define CAPACITY 64

struct box {
	struct larder_cache *cache;
	struct shelf shelf;
	struct gate gate;
	unsigned long rounds;
	_Atomic unsigned long wrong;
	struct larder_outcome outcome[8];
};

static void hit(struct worker *worker)
{
	struct box *box = worker->arg;

	for (unsigned long i = 0; i < box->rounds; i++) {
		struct key key = key_mixed(rng_below(&worker->rng, CAPACITY));
		struct larder_outcome o;
		struct larder_ref ref;

		if (shelf_get(box->cache, &box->shelf, &key, value_load_never, &box->shelf, &ref, &o) != 0 ||
		    o.how != LARDER_HIT)
			count_up(&box->wrong);
		else
			value_drop(&box->shelf, &ref);
		if (worker->index == 0)
			watch_pat();
	}
}

static int load_gated(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct box *box = arg;

	gate_wait(&box->gate);
	return value_load(key, key_len, &box->shelf, value, load);
}

static void join(struct worker *worker)
{
	struct box *box = worker->arg;
	struct key key = key_mixed(1000);
	struct larder_ref ref;

	if (shelf_get(box->cache, &box->shelf, &key, load_gated, box, &ref, &box->outcome[worker->index]) != 0)
		count_up(&box->wrong);
	else
		value_drop(&box->shelf, &ref);
}

int main(void)
{
	static struct box box;
	struct larder_options options;
	struct larder_ref ref[CAPACITY - 1];
	struct larder_stats s;
	struct crew crew;
	unsigned missing = 0;

	plan(14);
	shelf_setup(&box.shelf, CAPACITY);
	options = shelf_options(&box.shelf);
	box.cache = shelf_open(&options);
	box.rounds = rounds(30000, 1000000);
	for (uint64_t k = 0; k < CAPACITY; k++)
		must(shelf_visit(box.cache, &box.shelf, k) == 0);
	crew_run(8, hit, &box);
	is_int(box.wrong, 0, "H69: 8 threads get resident keys of a full cache, %lu times each: all hits", box.rounds);
	s = stats_of(box.cache);
	is_int(s.evicted_room + s.evicted_trim + s.evicted_ahead, 0, "H69: nothing was evicted");
	is_int(s.hits, 8 * box.rounds, "H69: and each was counted (P17)");
	for (uint64_t k = 0; k < CAPACITY; k++)
		missing += shelf_peek(box.cache, &box.shelf, k) != 0;
	is_int(missing, 0, "H69: all entries are still there");

	/* One load runs, all else is pinned: those who join it need no room. */
	for (uint64_t k = 0; k < CAPACITY - 1; k++) {
		struct key key = key_mixed(k);

		must(shelf_get(box.cache, &box.shelf, &key, value_load_never, &box.shelf, &ref[k], NULL) == 0);
	}
	crew_start(&crew, 8, join, &box);
	until(stat_of(box.cache, following) == 7 || box.wrong != 0);
	s = stats_of(box.cache);
	ok(s.loading == 1 && s.evicted_room == 1, "H69: one load runs, for which one entry went");
	is_int(box.wrong, 0, "H69: seven join it in a cache that is full and pinned");
	gate_open(&box.gate);
	crew_join(&crew);
	is_int(box.wrong, 0, "H69: all get its value");
	is_int(stat_of(box.cache, evicted_room), 1, "H69: and nothing else was evicted");
	for (uint64_t k = 0; k < CAPACITY - 1; k++)
		value_drop(&box.shelf, &ref[k]);
	at_rest(box.cache, &box.shelf, "H69");
	close_shelf(box.cache, &box.shelf, "H69");
	return done();
}
