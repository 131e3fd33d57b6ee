/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h72-t - H72 and P17: hits and misses do not add up, or followers are counted twice.
 *
 * An exact script first, each counter after each step; then threads that count their own
 * return codes, compared column by column; then a reset in the middle.
 */
#include "../lib/test.h"

static struct larder_stats want;

static void same(struct larder_cache *cache, const char *step)
{
	struct larder_stats s = stats_of(cache);
	unsigned wrong = 0;

#define COLUMN(member)                                                                                  \
	do {                                                                                            \
		if (s.member != want.member) {                                                          \
			note(#member " is %" PRIu64 ", not %" PRIu64, (uint64_t)s.member, want.member); \
			wrong++;                                                                        \
		}                                                                                       \
	} while (0)
	COLUMN(hits);
	COLUMN(misses);
	COLUMN(joins);
	COLUMN(refused_busy);
	COLUMN(refused_nomem);
	COLUMN(refused_deadlock);
	COLUMN(refused_closed);
	COLUMN(absent);
	COLUMN(in_progress);
	COLUMN(joins_shared);
	COLUMN(joins_failed);
	COLUMN(joins_abandoned);
	COLUMN(loads_ok);
	COLUMN(loads_failed);
	COLUMN(loads_abandoned);
	COLUMN(evicted_room);
	COLUMN(evicted_trim);
	COLUMN(evicted_ahead);
	COLUMN(destroyed);
	COLUMN(resident);
	COLUMN(loading);
	COLUMN(following);
	COLUMN(pinned);
	COLUMN(capacity);
#undef COLUMN
	is_int(wrong, 0, "H72: %s", step);
}

struct joint {
	struct larder_cache *cache;
	struct shelf *shelf;
	struct gate gate;
	bool fail;
	_Atomic unsigned wrong;
};

static int load_gated(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct joint *joint = arg;

	gate_wait(&joint->gate);
	return joint->fail ? LOAD_ERROR : value_load(key, key_len, joint->shelf, value, load);
}

static void *get_gated(void *arg)
{
	struct joint *joint = arg;
	struct key key = key_mixed(77);
	struct larder_ref ref;
	int r = shelf_get(joint->cache, joint->shelf, &key, load_gated, joint, &ref, NULL);

	if (r != (joint->fail ? LARDER_ELOAD : 0))
		count_up(&joint->wrong);
	if (r == 0)
		value_drop(joint->shelf, &ref);
	return NULL;
}

static int load_self(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct joint *joint = arg;
	struct larder_ref ref;

	(void)value, (void)load;
	return larder_get(joint->cache, key, key_len, load_self, arg, &ref);
}

static void test_script(void)
{
	struct larder_options options;
	struct key key[4] = { key_mixed(0), key_mixed(1), key_mixed(2), key_mixed(77) };
	struct larder_ref ref[3], other;
	struct larder_cache *cache;
	struct joint joint;
	struct shelf shelf;
	pthread_t leader, follower;

	shelf_setup(&shelf, 2);
	options = shelf_options(&shelf);
	cache = shelf_open(&options);
	memset(&joint, 0, sizeof(joint));
	joint.cache = cache;
	joint.shelf = &shelf;
	memset(&want, 0, sizeof(want));
	want.capacity = 2;
	same(cache, "all is 0 at the begin, but for the capacity");
	must(shelf_get(cache, &shelf, &key[0], value_load, &shelf, &ref[0], NULL) == 0);
	want.misses++, want.loads_ok++, want.resident++, want.pinned++;
	same(cache, "a miss");
	must(shelf_get(cache, &shelf, &key[0], value_load, &shelf, &ref[1], NULL) == 0);
	want.hits++, want.pinned++;
	same(cache, "a hit");
	must(larder_peek(cache, key[0].bytes, key[0].len, &other) == 0 && larder_release(&other) == 0);
	want.hits++;
	same(cache, "a peek that finds is a hit");
	must(larder_dup(&ref[0], &other) == 0);
	want.pinned++;
	same(cache, "a dup is a pin and no request");
	larder_release(&other);
	want.pinned--;
	must(larder_peek(cache, key[1].bytes, key[1].len, &other) == LARDER_ENOENT);
	want.absent++;
	same(cache, "a peek that finds nothing");
	must(larder_get(cache, key[1].bytes, key[1].len, value_load_fails, &shelf, &other) == LARDER_ELOAD);
	want.misses++, want.loads_failed++;
	same(cache, "a load that fails is a miss");
	must(shelf_get(cache, &shelf, &key[1], value_load, &shelf, &ref[2], NULL) == 0);
	want.misses++, want.loads_ok++, want.resident++, want.pinned++;
	same(cache, "another miss");
	must(larder_get(cache, key[2].bytes, key[2].len, value_load_never, &shelf, &other) == LARDER_EBUSY);
	want.refused_busy++;
	same(cache, "busy is a refusal and no miss");
	must(larder_get(cache, key[2].bytes, LARDER_KEY_MAX + 1, value_load_never, &shelf, &other) == LARDER_EINVAL);
	same(cache, "a bad argument is nothing");
	value_drop(&shelf, &ref[2]);
	want.pinned--;
	same(cache, "a release ends a pin");
	must(larder_trim(cache, 1) == 1);
	want.evicted_trim++, want.destroyed++, want.resident--;
	same(cache, "a trim");
	must(larder_get(cache, key[1].bytes, key[1].len, load_self, &joint, &other) == LARDER_ELOAD);
	want.misses++, want.loads_failed++, want.refused_deadlock++;
	same(cache, "a load that asks for itself: a refusal inside a miss");

	leader = thread_start(get_gated, &joint);
	until(atomic_load(&joint.gate.arrived) == 1);
	want.misses++, want.loading++;
	same(cache, "a load has begun");
	must(larder_peek(cache, key[3].bytes, key[3].len, &other) == LARDER_EINPROGRESS);
	want.in_progress++;
	follower = thread_start(get_gated, &joint);
	until(stat_of(cache, following) == 1);
	want.joins++, want.following++;
	same(cache, "a join is counted when it joins, once, and is no miss");
	gate_open(&joint.gate);
	thread_join(leader);
	thread_join(follower);
	want.loading--, want.following--, want.joins_shared++, want.loads_ok++, want.resident++;
	same(cache, "the load ends, and the join with it");
	must(larder_trim(cache, 1) == 1);
	want.evicted_trim++, want.destroyed++, want.resident--;
	gate_reset(&joint.gate);
	joint.fail = true;
	leader = thread_start(get_gated, &joint);
	until(atomic_load(&joint.gate.arrived) == 1);
	follower = thread_start(get_gated, &joint);
	until(stat_of(cache, following) == 1);
	gate_open(&joint.gate);
	thread_join(leader);
	thread_join(follower);
	want.misses++, want.joins++, want.joins_failed++, want.loads_failed++;
	same(cache, "a join of a load that fails");
	must(shelf_visit(cache, &shelf, 5) == 0 && shelf_visit(cache, &shelf, 6) == 0);
	want.misses += 2, want.loads_ok += 2, want.evicted_room++, want.destroyed++, want.resident++;
	same(cache, "an eviction for room");

	larder_stats_reset(cache);
	memset(&want, 0, sizeof(want));
	want.capacity = 2, want.resident = 2, want.pinned = 2;
	same(cache, "a reset: counters are 0, gauges stay");
	must(shelf_visit(cache, &shelf, 6) == 0);
	want.hits++;
	same(cache, "and then a hit");
	is_int(joint.wrong, 0, "H72: leaders and followers had the codes that were counted");
	value_drop(&shelf, &ref[0]);
	value_drop(&shelf, &ref[1]);
	close_shelf(cache, &shelf, "H72");
}

/* ---- threads that count for themselves ---------------------------------------------------- */

struct crowd {
	struct larder_cache *cache;
	struct shelf shelf;
	unsigned long rounds;
	struct tally tally[16];
	_Atomic unsigned long abandoned;
};

static int load_leaves(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct crowd *c = arg;

	(void)key, (void)key_len, (void)value, (void)load;
	load_begin(&c->shelf);
	load_end(&c->shelf);
	count_up(&c->abandoned);
	pthread_exit(NULL);
}

struct errand {
	struct crowd *crowd;
	struct key key;
	struct tally tally;
};

static void *abandon(void *arg)
{
	struct errand *e = arg;
	struct larder_outcome o;
	struct larder_ref ref;
	int r;

	larder_outcome_init(&o);
	r = larder_get_with(e->crowd->cache, e->key.bytes, e->key.len, load_leaves, e->crowd, NULL, &ref, &o);
	tally_get(&e->tally, r, &o);
	if (r == 0)
		larder_release(&ref);
	return NULL;
}

static void run(struct worker *worker)
{
	struct crowd *c = worker->arg;
	struct tally *tally = &c->tally[worker->index];

	for (unsigned long i = 0; i < c->rounds; i++) {
		struct key key = key_mixed(rng_below(&worker->rng, 24));
		uint64_t what = rng_below(&worker->rng, 400);
		struct larder_outcome o;
		struct larder_ref ref;
		int r;

		if (what == 0) {
			struct errand errand = { .crowd = c, .key = key };

			thread_join(thread_start(abandon, &errand));
			tally_add(tally, &errand.tally);
			continue;
		}
		if (what < 100) {
			r = larder_peek(c->cache, key.bytes, key.len, &ref);
			tally_peek(tally, r);
			if (r == 0)
				larder_release(&ref);
			continue;
		}
		r = shelf_get(c->cache, &c->shelf, &key, what < 150 ? value_load_fails : value_load, &c->shelf, &ref,
			      &o);
		tally_get(tally, r, &o);
		if (r == 0)
			value_drop(&c->shelf, &ref);
		if (worker->index == 0)
			watch_pat();
	}
}

static void test_crowd(uint64_t capacity)
{
	static struct crowd c;
	struct larder_options options;
	struct larder_stats s;
	struct tally sum;

	memset(&c, 0, sizeof(c));
	memset(&sum, 0, sizeof(sum));
	shelf_setup(&c.shelf, capacity);
	options = shelf_options(&c.shelf);
	c.cache = shelf_open(&options);
	c.rounds = rounds(4000, 1000000);
	crew_run(16, run, &c);
	for (unsigned i = 0; i < 16; i++)
		tally_add(&sum, &c.tally[i]);
	sum.abandoned = c.abandoned;
	s = stats_of(c.cache);
	is_int(tally_differs(&sum, &s), 0, "H72: 16 threads, %lu calls each, capacity %" PRIu64 ": as each has counted",
	       c.rounds, capacity);
	is_int(unbalanced(c.cache, &c.shelf), 0, "H72: counting adds up");
	close_shelf(c.cache, &c.shelf, "H72");
}

int main(void)
{
	plan(21 + 3 + 3 * 5);
	test_script();
	test_crowd(2);
	test_crowd(16);
	test_crowd(100);
	return done();
}
