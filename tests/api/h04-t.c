/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h04-t - H04: everything is pinned or preparing, and the insert spins instead of
 * saying busy.
 *
 * Capacities of 1, 2, 64 and (fewer calls, unless LONG) 10,000: all pinned; all loading
 * (up to 64); half of each; all idle, but the predicate says no.  Eight threads ask for
 * new keys and are refused, each time with numbers that add up to the capacity (P7),
 * their loaders never run, hits go on; and when one entry is let go the next call
 * succeeds.
 */
#include "../lib/test.h"

enum state { PINNED, LOADING, HALF, REFUSED };

static const char *const state_name[] = { "all pinned", "all loading", "half pinned, half loading",
					  "all refused by the predicate" };

struct full {
	struct larder_cache *cache;
	struct shelf shelf;
	struct gate gate;
	unsigned long calls;
	uint64_t capacity, pinned, loading;
	_Atomic bool all_busy, over;
	_Atomic unsigned long not_busy, odd_sum, missed, wrong;
	_Atomic uint64_t fresh;
};

static int idle(void *value, void *ctx)
{
	struct full *f = (struct full *)((char *)ctx - offsetof(struct full, shelf));

	return value_idle(value, ctx) && !count_of(&f->all_busy);
}

static int load_gated(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct full *f = arg;

	gate_wait(&f->gate);
	return value_load(key, key_len, &f->shelf, value, load);
}

static void hold_load(struct worker *worker)
{
	struct full *f = worker->arg;
	struct key key = key_mixed(1000000 + worker->index);
	struct larder_ref ref;

	if (shelf_get(f->cache, &f->shelf, &key, load_gated, f, &ref, NULL) != 0)
		count_up(&f->wrong);
	else
		value_drop(&f->shelf, &ref);
}

static void ask_for_new(struct worker *worker)
{
	struct full *f = worker->arg;

	for (unsigned long i = 0; i < f->calls; i++) {
		struct key key = key_mixed(2000000 + atomic_fetch_add(&f->fresh, 1));
		struct larder_outcome o;
		struct larder_ref ref;

		if (shelf_get(f->cache, &f->shelf, &key, value_load_never, &f->shelf, &ref, &o) != LARDER_EBUSY)
			count_up(&f->not_busy);
		else if (o.refusal.pinned + o.refusal.loading + o.refusal.refused + o.refusal.in_transit !=
				 f->capacity ||
			 o.how != LARDER_NONE)
			count_up(&f->odd_sum);
	}
}

static void hit(struct worker *worker)
{
	struct full *f = worker->arg;
	uint64_t resident = f->capacity - f->loading;

	while (!atomic_load(&f->over) && resident != 0) {
		if (shelf_peek(f->cache, &f->shelf, rng_below(&worker->rng, resident)) != 0)
			count_up(&f->missed);
		sched_yield();
	}
}

static void test(uint64_t capacity, enum state state, unsigned long calls)
{
	static struct full f;
	struct larder_options options;
	struct larder_outcome o;
	struct crew loaders, hitters;
	struct larder_ref *ref = calloc(capacity, sizeof(*ref)), one;
	struct key key = key_mixed(3000000);
	uint64_t resident;

	must(ref != NULL);
	memset(&f, 0, sizeof(f));
	shelf_setup(&f.shelf, capacity);
	options = shelf_options(&f.shelf);
	options.idle = idle;
	f.cache = shelf_open(&options);
	f.capacity = capacity;
	f.calls = calls;
	f.loading = state == LOADING ? capacity : state == HALF ? capacity / 2 : 0;
	resident = capacity - f.loading;
	for (uint64_t k = 0; k < resident; k++) {
		struct key own = key_mixed(k);

		must(shelf_get(f.cache, &f.shelf, &own, value_load, &f.shelf, &ref[k], NULL) == 0);
		if (state == REFUSED)
			value_drop(&f.shelf, &ref[k]);
	}
	f.all_busy = state == REFUSED;
	if (f.loading != 0) {
		crew_start(&loaders, (unsigned)f.loading, hold_load, &f);
		until(atomic_load(&f.gate.arrived) == f.loading);
	}

	is_int(shelf_get(f.cache, &f.shelf, &key, value_load_never, &f.shelf, &one, &o), LARDER_EBUSY,
	       "H04: capacity %" PRIu64 ", %s: busy", capacity, state_name[state]);
	ok(o.refusal.pinned == (state == REFUSED ? 0 : resident) && o.refusal.loading == f.loading &&
		   o.refusal.refused == (state == REFUSED ? resident : 0) && o.refusal.in_transit == 0,
	   "H04: and exactly that is told (P7)");
	crew_start(&hitters, 2, hit, &f);
	crew_run(8, ask_for_new, &f);
	atomic_store(&f.over, true);
	crew_join(&hitters);
	is_int(f.not_busy, 0, "H04: 8 threads, %lu calls each, all busy", calls);
	is_int(f.odd_sum, 0, "H04: numbers that add up to the capacity each time (P7)");
	is_int(f.missed, 0, "H04: hits go on meanwhile");
	is_int(stat_of(f.cache, refused_busy), 8 * calls + 1, "H04: each is counted (P17)");

	f.all_busy = false;
	if (f.loading != 0) {
		gate_open(&f.gate);
		crew_join(&loaders);
	} else if (state != REFUSED) {
		value_drop(&f.shelf, &ref[resident / 2]);
	}
	is_int(shelf_visit(f.cache, &f.shelf, 4000000), 0, "H04: one is let go: the next call succeeds at once");
	for (uint64_t k = 0; k < resident; k++)
		if (ref[k].private_slot != NULL)
			value_drop(&f.shelf, &ref[k]);
	is_int(f.wrong, 0, "H04: nothing else went wrong");
	at_rest(f.cache, &f.shelf, "H04");
	close_shelf(f.cache, &f.shelf, "H04");
	free(ref);
}

int main(void)
{
	static const uint64_t capacities[] = { 1, 2, 64 };

	plan(14 * 14);
	for (unsigned i = 0; i < ELEMENTS(capacities); i++)
		for (enum state state = PINNED; state <= REFUSED; state++)
			test(capacities[i], state, rounds(capacities[i] == 64 ? 200 : 1000, 1000));
	test(UNDER_TSAN ? 1000 : 10000, PINNED, rounds(200, 1000));
	test(UNDER_TSAN ? 1000 : 10000, REFUSED, rounds(5, 1000));
	return done();
}
