/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h03-t - H03: the capacity of a load that failed or was abandoned is not given back.
 */
#include "../lib/test.h"

#define CAPACITY 4

struct box {
	struct larder_cache *cache;
	struct shelf shelf;
	struct gate gate;
	unsigned long rounds;
	_Atomic unsigned long busy, wrong;
	_Atomic bool catch_one;
};

static int load_leaves(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	(void)key, (void)key_len, (void)value, (void)load;
	load_begin(arg);
	load_end(arg);
	pthread_exit(NULL);
}

struct errand {
	struct box *box;
	uint64_t number;
};

static void *abandon(void *arg)
{
	struct errand *errand = arg;
	struct box *box = errand->box;
	struct key key = key_mixed(errand->number);
	struct larder_ref ref;
	int r = larder_get(box->cache, key.bytes, key.len, load_leaves, &box->shelf, &ref);

	/* Only a hit, a join or a refusal comes back here. */
	if (r == 0)
		larder_release(&ref);
	else if (r == LARDER_EBUSY)
		count_up(&box->busy);
	else if (r != LARDER_ELOAD && r != LARDER_EABANDONED)
		count_up(&box->wrong);
	return NULL;
}

static int load_together(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct box *box = arg;

	gate_wait(&box->gate);
	return value_load(key, key_len, &box->shelf, value, load);
}

static void get_together(struct worker *worker)
{
	struct box *box = worker->arg;
	struct key key = key_mixed(5000 + worker->index);
	struct larder_ref ref;

	if (shelf_get(box->cache, &box->shelf, &key, load_together, box, &ref, NULL) != 0)
		count_up(&box->wrong);
	else
		value_drop(&box->shelf, &ref);
}

static void all_at_once(struct box *box, const char *after)
{
	struct crew crew;

	is_int(stat_of(box->cache, loading), 0, "H03: %s: nothing is loading", after);
	gate_reset(&box->gate);
	crew_start(&crew, CAPACITY, get_together, box);
	until(atomic_load(&box->gate.arrived) == CAPACITY || count_of(&box->wrong) != 0);
	gate_open(&box->gate);
	crew_join(&crew);
	is_int(box->wrong, 0, "H03: %s: four loads are admitted at once", after);
	larder_trim(box->cache, UINT64_MAX);
	is_int(pin_until_busy(box->cache, &box->shelf), CAPACITY, "H03: %s: four pins succeed, and the fifth is busy",
	       after);
	larder_trim(box->cache, UINT64_MAX);
	is_int(unbalanced(box->cache, &box->shelf), 0, "H03: %s: counting adds up", after);
}

static void mixed(struct worker *worker)
{
	struct box *box = worker->arg;

	for (unsigned long i = 0; i < box->rounds; i++) {
		uint64_t number = rng_below(&worker->rng, 24), what = rng_below(&worker->rng, 64);
		struct key key = key_mixed(number);
		struct larder_ref ref;
		int r;

		if (what == 0) {
			struct errand errand = { box, number };

			thread_join(thread_start(abandon, &errand));
			continue;
		}
		r = shelf_get(box->cache, &box->shelf, &key, what < 32 ? value_load_fails : value_load, &box->shelf,
			      &ref, NULL);
		if (r == 0)
			value_drop(&box->shelf, &ref);
		else if (r != LARDER_ELOAD && r != LARDER_EABANDONED && r != LARDER_EBUSY)
			count_up(&box->wrong);
	}
}

static void destroy_slowly(void *value, void *ctx)
{
	struct box *box = (struct box *)((char *)ctx - offsetof(struct box, shelf));

	if (atomic_exchange(&box->catch_one, false))
		gate_wait(&box->gate);
	value_destroy(value, ctx);
}

static void *fail_and_evict(void *arg)
{
	struct box *box = arg;
	struct key key = key_mixed(7777);
	struct larder_ref ref;

	if (larder_get(box->cache, key.bytes, key.len, value_load_fails, &box->shelf, &ref) != LARDER_ELOAD)
		count_up(&box->wrong);
	return NULL;
}

int main(void)
{
	static struct box box;
	struct larder_options options;
	struct larder_outcome outcome;
	struct larder_ref ref;
	unsigned long n;

	plan(21);
	shelf_setup(&box.shelf, CAPACITY);
	options = shelf_options(&box.shelf);
	options.destroy = destroy_slowly;
	box.cache = shelf_open(&options);

	n = rounds(1000, 1000);
	for (unsigned long i = 0; i < n; i++) {
		struct key key = key_mixed(i);

		if (larder_get(box.cache, key.bytes, key.len, value_load_fails, &box.shelf, &ref) != LARDER_ELOAD)
			count_up(&box.busy);
	}
	is_int(box.busy, 0, "H03: %lu loads that fail, one after the other: never busy", n);
	all_at_once(&box, "after failures");

	n = rounds(200, 1000);
	for (unsigned long i = 0; i < n; i++) {
		struct errand errand = { &box, i };

		thread_join(thread_start(abandon, &errand));
	}
	ok(box.busy == 0 && box.wrong == 0, "H03: %lu loads that are abandoned: never busy", n);
	is_int(stat_of(box.cache, loads_abandoned), n, "H03: all counted as that");
	all_at_once(&box, "after abandons");

	box.rounds = rounds(1000, 10000);
	crew_run(16, mixed, &box);
	is_int(box.wrong, 0, "H03: 16 threads, %lu mixed calls each", box.rounds);
	all_at_once(&box, "after the mix");

	/* The leader fails while the only idle entry is being evicted for it. */
	for (unsigned i = 0; i < CAPACITY; i++)
		must(shelf_visit(box.cache, &box.shelf, 100 + i) == 0);
	must(shelf_get(box.cache, &box.shelf, &(struct key){ .len = 8 }, value_load, &box.shelf, &ref, &outcome) == 0);
	value_drop(&box.shelf, &ref);
	gate_reset(&box.gate);
	atomic_store(&box.catch_one, true);
	{
		pthread_t thread = thread_start(fail_and_evict, &box);

		until(atomic_load(&box.gate.arrived) == 1);
		gate_open(&box.gate);
		thread_join(thread);
	}
	is_int(box.wrong, 0, "H03: a load fails right after a slow eviction for it");
	is_int(pin_until_busy(box.cache, &box.shelf), CAPACITY, "H03: its unit is back");
	close_shelf(box.cache, &box.shelf, "H03");
	return done();
}
