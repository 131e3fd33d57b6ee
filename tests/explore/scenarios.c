/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * scenarios.c - small programs that use the library, two to four threads each.
 *
 * Each opens a cache with a capacity of 1 to 3, so that everything meets: hits and
 * the choice of victims, two loads of one key, a release and the search for pins.
 * Threads do a handful of calls; the schedules do the rest.  What must hold in all of
 * them is in oracle.c; settle() adds, when the threads have stopped:
 *   - statistics agree with what was counted outside (P17), no pin is left over;
 *   - every entry can be evicted again, at once, and then all can be pinned;
 *   - larder_close() refuses while a pin is out, and returns 0 when none is;
 *   - the cache's memory and all values have been given back.
 *
 * This file is compiled like the library: what it does to values is watched.
 */
#include <larder.h>

#include "explore.h"

/* Tests set these small in the library, so that rare things are common. */
extern unsigned park_spins;
extern uint32_t place_batch;
extern uint64_t place_retire_limit;

enum { A = 1, B, C, D, E, FRESH = 16 };

/* What a loader is asked to do. */
enum how {
	LOADS,
	FAILS,       /* with 77 */
	FAILS_FIRST, /* the first load of the key fails */
	LEAVES,      /* unwinds the thread's stack */
	LEAVES_FIRST,
	ASKS_ITSELF, /* gets its own key inside */
	NESTS        /* gets the key after its own inside */
};

static struct larder_cache *cache;
static uint64_t capacity;
static bool one_bucket; /* all keys have the same hash */
static bool has_predicate;
static unsigned says_no[KEYS_MAX]; /* so often the predicate says no about a key */
static bool closed;
static struct larder_ref kept[THREADS + 1][4]; /* pins over the end of a function */

/* ---- callbacks ---- */

static void *alloc(size_t size, size_t align, void *ctx)
{
	(void)ctx;
	return explore_alloc(size, align, HEAP_CACHE);
}

static void dealloc(void *ptr, size_t size, void *ctx)
{
	(void)size;
	(void)ctx;
	explore_free(ptr, HEAP_CACHE);
}

static uint64_t hash(const void *key, size_t key_len, uint64_t seed, void *ctx)
{
	uint64_t k;

	(void)seed;
	(void)ctx;
	EXPLORE_CHECK(key_len == sizeof(k));
	memcpy(&k, key, sizeof(k));
	return one_bucket ? 1 : k;
}

static void check_value(const struct value *value, uint64_t key)
{
	EXPLORE_CHECK(value != NULL);
	EXPLORE_CHECK(value->begin == VALUE_BEGIN);
	EXPLORE_CHECK(value->key == key);
	EXPLORE_CHECK(value->end == VALUE_END);
}

static int idle(void *v, void *ctx)
{
	const struct value *value = v;
	bool yes;

	(void)ctx;
	EXPLORE_CHECK(value->begin == VALUE_BEGIN && value->end == VALUE_END);
	yes = says_no[value->key] == 0;
	oracle_asked(value, yes);
	explore_point();
	EXPLORE_CHECK(value->begin == VALUE_BEGIN && value->end == VALUE_END);
	return yes;
}

static void destroy(void *v, void *ctx)
{
	struct value *value = v;

	(void)ctx;
	oracle_destroy_begins(value);
	EXPLORE_CHECK(value->begin == VALUE_BEGIN && value->end == VALUE_END);
	value->begin = value->end = VALUE_WIPED;
	explore_point();
	EXPLORE_CHECK(value->begin == VALUE_WIPED);
	oracle_destroy_ends(value);
	explore_free(value, HEAP_VALUE);
}

static int get_as(uint64_t key, enum how how, struct larder_ref *ref, struct larder_outcome *outcome);
static void put(struct larder_ref *ref);

struct wanted {
	uint64_t key;
	enum how how;
};

/* Whatever way the loader ends. */
struct under_way {
	uint64_t key;
	bool ended;
};

static void left(struct under_way *way)
{
	if (!way->ended)
		oracle_load_ends(way->key, NULL, true);
}

static int load(const void *key, size_t key_len, void *arg, void **result, struct larder_load *handle)
{
	const struct wanted *wanted = arg;
	struct under_way way __attribute__((cleanup(left))) = { wanted->key, false };
	struct larder_ref inner = { 0 };
	struct value *value;
	unsigned nth;
	uint64_t k;

	EXPLORE_CHECK(key_len == sizeof(k) && handle != NULL);
	memcpy(&k, key, sizeof(k));
	EXPLORE_CHECK(k == wanted->key);
	nth = oracle_load_begins(k);
	explore_point();
	switch (wanted->how) {
	case LEAVES_FIRST:
		if (nth > 1)
			break;
		/* fall through */
	case LEAVES:
		explore_leave();
	case FAILS_FIRST:
		if (nth > 1)
			break;
		/* fall through */
	case FAILS:
		way.ended = true;
		oracle_load_ends(k, NULL, false);
		return 77;
	case ASKS_ITSELF:
		EXPLORE_CHECK(get_as(k, LOADS, &inner, NULL) == LARDER_EDEADLK);
		break;
	case NESTS:
		if (get_as(k + 1, LOADS, &inner, NULL) == 0)
			put(&inner);
		break;
	case LOADS:
		break;
	}
	value = explore_alloc(sizeof(*value), 16, HEAP_VALUE);
	value->begin = VALUE_BEGIN;
	value->key = k;
	value->serial = nth;
	value->end = VALUE_END;
	explore_point();
	memcpy(&k, key, sizeof(k)); /* still there */
	EXPLORE_CHECK(k == wanted->key);
	way.ended = true;
	oracle_load_ends(k, value, false);
	*result = value;
	return 0;
}

/* ---- calls ---- */

static void got(const struct larder_ref *ref, uint64_t key)
{
	const struct value *value = larder_value(ref);
	uint64_t k = 0;
	size_t n = 0;

	oracle_pinned(value);
	check_value(value, key);
	EXPLORE_CHECK(larder_key(ref, &n) != NULL && n == sizeof(k));
	memcpy(&k, larder_key(ref, NULL), sizeof(k));
	EXPLORE_CHECK(k == key);
}

/* A get, left by its end or by unwinding. */
struct call {
	uint64_t key;
	bool running;
};

static void hang_up(struct call *call)
{
	if (call->running)
		oracle_call_ends(call->key);
	call->running = false;
}

static int get_as(uint64_t key, enum how how, struct larder_ref *ref, struct larder_outcome *outcome)
{
	struct call call __attribute__((cleanup(hang_up))) = { key, true };
	struct wanted wanted = { key, how };
	struct larder_outcome mine;
	int r;

	if (outcome == NULL)
		outcome = &mine;
	larder_outcome_init(outcome);
	oracle_call_begins(key);
	r = larder_get_with(cache, &key, sizeof(key), load, &wanted, NULL, ref, outcome);
	hang_up(&call);
	switch (r) {
	case 0:
		EXPLORE_CHECK(outcome->how != LARDER_NONE && outcome->load_error == 0);
		got(ref, key);
		break;
	case LARDER_EBUSY:
		EXPLORE_CHECK(outcome->how == LARDER_NONE);
		oracle_refused(key, outcome->refusal.pinned, outcome->refusal.loading, outcome->refusal.refused,
			       outcome->refusal.in_transit);
		break;
	case LARDER_ELOAD:
		EXPLORE_CHECK(outcome->load_error == 77);
		break;
	case LARDER_EABANDONED:
		EXPLORE_CHECK(outcome->how == LARDER_JOINED);
		break;
	case LARDER_EDEADLK:
		break;
	default:
		explore_fail("get: %d", r);
	}
	return r;
}

static int get(uint64_t key, struct larder_ref *ref)
{
	return get_as(key, LOADS, ref, NULL);
}

static int peek(uint64_t key, struct larder_ref *ref)
{
	int r;

	oracle_call_begins(key);
	r = larder_peek(cache, &key, sizeof(key), ref);
	oracle_call_ends(key);
	if (r == 0)
		got(ref, key);
	else
		EXPLORE_CHECK(r == LARDER_ENOENT || r == LARDER_EINPROGRESS);
	return r;
}

static void use(const struct larder_ref *ref)
{
	const struct value *value = larder_value(ref);
	uint64_t key = value->key;

	explore_point();
	check_value(value, key);
}

static void put(struct larder_ref *ref)
{
	const struct value *value = larder_value(ref);
	uint64_t key = value->key;

	check_value(value, key);
	oracle_unpinned(value);
	oracle_call_begins(key);
	EXPLORE_CHECK(larder_release(ref) == 0);
	oracle_call_ends(key);
	EXPLORE_CHECK(larder_release(ref) == LARDER_EINVAL);
}

static void dup(const struct larder_ref *ref, struct larder_ref *copy)
{
	EXPLORE_CHECK(larder_dup(ref, copy) == 0);
	EXPLORE_CHECK(larder_value(copy) == larder_value(ref));
	oracle_pinned(larder_value(copy));
}

/* Get, use, give back; what get said. */
static int visit_as(uint64_t key, enum how how)
{
	struct larder_ref ref = { 0 };
	int r = get_as(key, how, &ref, NULL);

	if (r == 0) {
		use(&ref);
		put(&ref);
	}
	return r;
}

static int visit(uint64_t key)
{
	return visit_as(key, LOADS);
}

static void glance(uint64_t key)
{
	struct larder_ref ref = { 0 };

	if (peek(key, &ref) == 0) {
		use(&ref);
		put(&ref);
	}
}

static int64_t trim(uint64_t count)
{
	int64_t n;

	oracle_call_begins(0);
	n = larder_trim(cache, count);
	oracle_call_ends(0);
	EXPLORE_CHECK(n >= 0 && (uint64_t)n <= count);
	return n;
}

static void step(void)
{
	int r;

	oracle_call_begins(0);
	r = larder_step(cache, 0);
	oracle_call_ends(0);
	EXPLORE_CHECK(r == 0 || r == 1);
}

/* ---- before and after ---- */

static void open_cache(uint64_t units)
{
	struct larder_options options;

	park_spins = 0;
	place_batch = 1;
	place_retire_limit = 1;
	larder_options_init(&options);
	options.capacity = capacity = units;
	options.flags = LARDER_NO_THREAD | LARDER_SEED;
	options.destroy = destroy;
	options.idle = has_predicate ? idle : NULL;
	options.hash = hash;
	options.alloc = alloc;
	options.free = dealloc;
	oracle_capacity(units);
	if (one_bucket)
		oracle_one_hash();
	EXPLORE_CHECK(larder_open(&cache, &options) == 0);
}

/* The threads meet the library: records are made, so that the schedule is about calls. */
static void greet(void)
{
	struct larder_ref ref = { 0 };

	EXPLORE_CHECK(peek(0, &ref) == LARDER_ENOENT);
}

static void keep(uint64_t key)
{
	struct larder_ref *ref = kept[explore_self()];

	while (ref->private_slot != NULL)
		ref++;
	EXPLORE_CHECK(get(key, ref) == 0);
}

static void check_statistics(bool reset_free)
{
	struct oracle_totals t;
	struct larder_stats s;

	(void)reset_free;
	larder_stats_init(&s);
	oracle_totals(&t);
	EXPLORE_CHECK(larder_stats(cache, &s) == 0);
	EXPLORE_CHECK(s.capacity == capacity);
	EXPLORE_CHECK(s.loading == 0);
	EXPLORE_CHECK(s.following == 0);
	EXPLORE_CHECK(s.resident == t.alive);
	EXPLORE_CHECK(s.pinned == t.pins);
	EXPLORE_CHECK(s.loads_ok == t.loads_ok);
	EXPLORE_CHECK(s.loads_failed == t.loads_failed);
	EXPLORE_CHECK(s.loads_abandoned == t.loads_abandoned);
	EXPLORE_CHECK(s.destroyed == t.destroyed);
	EXPLORE_CHECK(s.misses == s.loads_ok + s.loads_failed + s.loads_abandoned);
	EXPLORE_CHECK(s.joins == s.joins_shared + s.joins_failed + s.joins_abandoned);
	EXPLORE_CHECK(s.loads_ok == s.resident + s.evicted_room + s.evicted_trim + s.evicted_ahead);
	EXPLORE_CHECK(s.evicted_room + s.evicted_trim + s.evicted_ahead == s.destroyed);
	EXPLORE_CHECK(s.overhead_bytes == explore_live_bytes(HEAP_CACHE));
}

static void check_closed(void)
{
	struct oracle_totals t;

	oracle_totals(&t);
	EXPLORE_CHECK(t.alive == 0 && t.pins == 0 && t.destroyed == t.loads_ok);
	EXPLORE_CHECK(explore_live(HEAP_VALUE) == 0);
	EXPLORE_CHECK(explore_live(HEAP_CACHE) == 0);
}

static void settle(void)
{
	struct larder_ref held[4] = { { 0 } };
	struct larder_refusal refusal;
	struct larder_ref none = { 0 };
	uint64_t out = 0;

	if (closed) {
		check_closed();
		return;
	}
	check_statistics(true);
	memset(says_no, 0, sizeof(says_no));
	for (unsigned t = 0; t <= THREADS; t++)
		for (unsigned i = 0; i < 4; i++)
			if (kept[t][i].private_slot != NULL)
				out++;
	if (out != 0) {
		EXPLORE_CHECK(larder_close_report(cache, &refusal) == LARDER_EBUSY);
		EXPLORE_CHECK(refusal.pinned == out && refusal.loading == 0);
	}
	for (unsigned t = 0; t <= THREADS; t++)
		for (unsigned i = 0; i < 4; i++)
			if (kept[t][i].private_slot != NULL)
				put(&kept[t][i]);
	/* Nothing is pinned now: new ones drive out all old ones, and the bound is exact. */
	for (uint64_t i = 0; i < capacity; i++)
		EXPLORE_CHECK(get(FRESH + i, &held[i]) == 0);
	EXPLORE_CHECK(get(FRESH + capacity, &none) == LARDER_EBUSY);
	EXPLORE_CHECK(larder_close(cache) == LARDER_EBUSY);
	for (uint64_t i = 0; i < capacity; i++)
		put(&held[i]);
	check_statistics(true);
	EXPLORE_CHECK(larder_close(cache) == 0);
	check_closed();
}

/* ---- scenarios ---- */

/* One key is hit while another drives it out: the pin against nominate, prove, take. */
static void hit_evict_prepare(void)
{
	open_cache(1);
	EXPLORE_CHECK(visit(A) == 0);
}

static void hit_a_twice(void)
{
	visit(A);
	visit(A);
}

static void visit_b(void)
{
	visit(B);
}

static void glance_a(void)
{
	glance(A);
	glance(A);
}

static const struct scenario hit_evict = {
	.name = "hit-evict",
	.what = "a hit, while a miss of another key nominates, proves and takes the entry",
	.threads = 2,
	.prepare = hit_evict_prepare,
	.enter = greet,
	.body = { glance_a, visit_b },
	.finish = settle,
};

static const struct scenario hit_evict_reload = {
	.name = "hit-evict-reload",
	.what = "the same, and the hit's key is loaded again",
	.threads = 2,
	.prepare = hit_evict_prepare,
	.enter = greet,
	.body = { hit_a_twice, visit_b },
	.finish = settle,
};

/* Two nominees are proven and lie in the ring. */
static void ring_prepare(void)
{
	open_cache(3);
	EXPLORE_CHECK(visit(A) == 0);
	EXPLORE_CHECK(visit(B) == 0);
	EXPLORE_CHECK(visit(C) == 0);
	EXPLORE_CHECK(visit(D) == 0); /* takes A; the ring is refilled early */
}

static void glance_b(void)
{
	glance(B);
}

static void visit_a(void)
{
	visit(A);
}

static void visit_c(void)
{
	visit(C);
}

static const struct scenario rescue = {
	.name = "rescue",
	.what = "a hit on a proven nominee, while a miss pops its ticket",
	.threads = 2,
	.prepare = ring_prepare,
	.enter = greet,
	.body = { glance_b, visit_a },
	.finish = settle,
};

static void trim_one(void)
{
	trim(1);
}

static void visit_e(void)
{
	visit(E);
}

static const struct scenario ticket = {
	.name = "ticket",
	.what = "a ticket in somebody's hand, while its entry is rescued and nominated again",
	.threads = 3,
	.prepare = ring_prepare,
	.enter = greet,
	.body = { glance_b, trim_one, visit_e },
	.finish = settle,
};

static void open_2(void)
{
	open_cache(2);
}

static void one_load(void)
{
	struct oracle_totals t;

	oracle_totals(&t);
	EXPLORE_CHECK(t.loads_ok == 1);
	settle();
}

static void get_a(void)
{
	EXPLORE_CHECK(visit(A) == 0);
}

/* A unit for each thread: one that loses the insertion has one in hand. */
static void open_3(void)
{
	open_cache(3);
}

static void open_4(void)
{
	open_cache(4);
}

static const struct scenario leaders = {
	.name = "leaders",
	.what = "two threads miss one key: one load",
	.threads = 2,
	.prepare = open_2,
	.enter = greet,
	.body = { get_a, get_a },
	.finish = one_load,
};

static const struct scenario follow = {
	.name = "follow",
	.what = "one leads, two follow, the value is published",
	.threads = 3,
	.prepare = open_3,
	.enter = greet,
	.body = { get_a, get_a, get_a },
	.finish = one_load,
};

static const struct scenario baton = {
	.name = "baton",
	.what = "one leads, three follow: each woken wakes the next",
	.threads = 4,
	.prepare = open_4,
	.enter = greet,
	.body = { get_a, get_a, get_a, get_a },
	.finish = one_load,
};

static void open_1(void)
{
	open_cache(1);
}

static void fail_a(void)
{
	(void)visit_as(A, FAILS);
}

static void leave_a(void)
{
	(void)visit_as(A, LEAVES);
}

/* Whoever followed and was told of the end finds the unit free: the leader does nothing more (P3). */
static void after_the_end(enum how how, int told)
{
	struct larder_outcome outcome;
	struct larder_ref ref = { 0 };
	int r = get_as(A, how, &ref, &outcome);

	EXPLORE_CHECK(r == told || r == LARDER_EBUSY);
	if (r == told && outcome.how == LARDER_JOINED)
		EXPLORE_CHECK(visit(B) == 0);
}

static void fail_or_follow(void)
{
	after_the_end(FAILS, LARDER_ELOAD);
}

static void leave_or_follow(void)
{
	after_the_end(LEAVES, LARDER_EABANDONED);
}

static const struct scenario follow_fail = {
	.name = "follow-fail",
	.what = "a load fails; its follower asks again at once, and there is room",
	.threads = 2,
	.prepare = open_1,
	.enter = greet,
	.body = { fail_a, fail_or_follow },
	.finish = settle,
};

static const struct scenario follow_abandon = {
	.name = "follow-abandon",
	.what = "the leader leaves its loader by unwinding; its follower asks again",
	.threads = 2,
	.prepare = open_1,
	.enter = greet,
	.body = { leave_a, leave_or_follow },
	.finish = settle,
};

static void fail_first(void)
{
	if (visit_as(A, FAILS_FIRST) == LARDER_ELOAD)
		(void)visit_as(A, FAILS_FIRST);
}

static void leave_first(void)
{
	if (visit_as(A, LEAVES_FIRST) == LARDER_EABANDONED)
		(void)visit_as(A, LEAVES_FIRST);
}

static const struct scenario fail_3 = {
	.name = "fail-3",
	.what = "three ask, the first load fails, all ask again",
	.threads = 3,
	.prepare = open_1,
	.enter = greet,
	.body = { fail_first, fail_first, fail_first },
	.finish = settle,
};

static const struct scenario abandon_3 = {
	.name = "abandon-3",
	.what = "three ask, the first leader's thread ends in its loader",
	.threads = 3,
	.ending = true,
	.prepare = open_1,
	.enter = greet,
	.body = { leave_first, leave_first, leave_first },
	.finish = settle,
};

/* A follower still sleeps on a value that is evicted at once. */
static const struct scenario follow_evict = {
	.name = "follow-evict",
	.what = "a follower wakes when the value is due for eviction already",
	.threads = 3,
	.prepare = open_1,
	.enter = greet,
	.body = { visit_a, visit_a, visit_b },
	.finish = settle,
};

/* Thread 0 has A, passed over or about to be. */
static void keep_a(void)
{
	greet();
	if (explore_self() == 0)
		keep(A);
}

static void put_kept(void)
{
	put(&kept[explore_self()][0]);
}

static void visit_b_twice(void)
{
	visit(B);
	visit(B);
}

static const struct scenario release_wanted = {
	.name = "release-wanted",
	.what = "the release of an entry that is passed over; then it can be evicted",
	.threads = 2,
	.prepare = open_1,
	.enter = keep_a,
	.body = { put_kept, visit_b_twice },
	.finish = settle,
};

static const struct scenario release_wanted_2 = {
	.name = "release-wanted-2",
	.what = "the same, with two who want it",
	.threads = 3,
	.prepare = open_1,
	.enter = keep_a,
	.body = { put_kept, visit_b, visit_c },
	.finish = settle,
};

static void keep_a_both(void)
{
	greet();
	if (explore_self() < 2)
		keep(A);
}

static const struct scenario release_both = {
	.name = "release-both",
	.what = "two release one entry that is passed over, a third thread asks and asks again",
	.threads = 3,
	.prepare = open_1,
	.enter = keep_a_both,
	.body = { put_kept, put_kept, visit_b_twice },
	.finish = settle,
};

static const struct scenario taker_wanted = {
	.name = "taker-wanted",
	.what = "an entry is passed over for a hit's pin and a taker's, and both end",
	.threads = 3,
	.prepare = hit_evict_prepare,
	.enter = greet,
	.body = { visit_c, glance_a, visit_b_twice },
	.finish = settle,
};

static const struct scenario last_unit = {
	.name = "last-unit",
	.what = "two keys, one unit",
	.threads = 2,
	.prepare = open_1,
	.enter = greet,
	.body = { visit_a, visit_b_twice },
	.finish = settle,
};

static const struct scenario last_unit_3 = {
	.name = "last-unit-3",
	.what = "three keys, one unit, all at once",
	.threads = 3,
	.prepare = open_1,
	.enter = greet,
	.body = { visit_a, visit_b, visit_c },
	.finish = settle,
};

/* B is released for good before C asks twice: the second time it must not be refused. */
static void two_prepare(void)
{
	open_cache(2);
	EXPLORE_CHECK(visit(A) == 0);
	EXPLORE_CHECK(visit(B) == 0);
}

static void moving_pins(void)
{
	struct larder_ref a = { 0 }, b = { 0 };

	if (peek(A, &a) == 0) {
		if (peek(B, &b) == 0) {
			put(&a);
			if (peek(A, &a) == 0) {
				put(&b);
				put(&a);
			} else {
				put(&b);
			}
		} else {
			put(&a);
		}
	}
}

static void visit_c_twice(void)
{
	visit(C);
	visit(C);
}

static const struct scenario busy = {
	.name = "busy",
	.what = "pins move from entry to entry; a refusal must be true of each unit",
	.threads = 2,
	.prepare = two_prepare,
	.enter = greet,
	.body = { moving_pins, visit_c_twice },
	.finish = settle,
};

static void visit_d(void)
{
	visit(D);
}

static void lose_insertion_prepare(void)
{
	open_cache(2);
	EXPLORE_CHECK(visit(A) == 0);
}

static const struct scenario busy_transit = {
	.name = "busy-transit",
	.what = "a unit is on its way back from a lost insertion when another asks",
	.threads = 3,
	.prepare = lose_insertion_prepare,
	.enter = keep_a,
	.body = { visit_b, visit_b, visit_c },
	.finish = settle,
};

static const struct scenario busy_loading = {
	.name = "busy-loading",
	.what = "refused while the unit is being loaded, then again when it is not",
	.threads = 2,
	.prepare = open_1,
	.enter = greet,
	.body = { visit_a, visit_b_twice },
	.finish = settle,
};

static const struct scenario busy_failing = {
	.name = "busy-failing",
	.what = "refused while a load runs that then fails",
	.threads = 3,
	.prepare = open_1,
	.enter = greet,
	.body = { fail_a, visit_b, visit_c },
	.finish = settle,
};

static void close_until(void)
{
	int r;

	while ((r = larder_close(cache)) == LARDER_EBUSY)
		explore_yield();
	EXPLORE_CHECK(r == 0);
	closed = true;
}

static const struct scenario close_release = {
	.name = "close-release",
	.what = "close is tried until the last release lets it",
	.threads = 2,
	.prepare = open_1,
	.enter = keep_a,
	.body = { put_kept, close_until },
	.finish = settle,
};

static const struct scenario close_release_2 = {
	.name = "close-release-2",
	.what = "the same with two pins, and threads that end",
	.threads = 3,
	.ending = true,
	.prepare = open_1,
	.enter = keep_a_both,
	.body = { put_kept, put_kept, close_until },
	.finish = settle,
};

static void dup_and_put(void)
{
	struct larder_ref copy = { 0 };
	struct larder_ref *ref = &kept[explore_self()][0];

	dup(ref, &copy);
	put(ref);
	use(&copy);
	put(&copy);
}

static const struct scenario dup_search = {
	.name = "dup-search",
	.what = "a pin is doubled and the first given back, while slots are searched",
	.threads = 2,
	.prepare = open_1,
	.enter = keep_a,
	.body = { dup_and_put, visit_b },
	.finish = settle,
};

/* The copy lies in an earlier slot than the original: A is pinned after another pin. */
static void keep_c_a(void)
{
	greet();
	if (explore_self() == 0) {
		keep(C);
		keep(A);
		put(&kept[0][0]);
		kept[0][0] = kept[0][1];
		memset(&kept[0][1], 0, sizeof(kept[0][1]));
	}
}

static const struct scenario dup_before = {
	.name = "dup-before",
	.what = "the same, the copy in a slot that is searched before the original's",
	.threads = 2,
	.prepare = open_2,
	.enter = keep_c_a,
	.body = { dup_and_put, visit_b_twice },
	.finish = settle,
};

static void send_a(void)
{
	static struct larder_ref sent;

	if (get(A, &sent) != 0) {
		explore_send(0, NULL);
		return;
	}
	explore_send(0, &sent);
	glance(A);
	visit(A);
}

static void receive_a(void)
{
	struct larder_ref *ref = explore_receive(0);

	if (ref != NULL) {
		use(ref);
		put(ref);
	}
}

static const struct scenario remote = {
	.name = "remote-release",
	.what = "a pin is handed to another thread, which gives it back",
	.threads = 3,
	.prepare = open_1,
	.enter = greet,
	.body = { send_a, receive_a, visit_b },
	.finish = settle,
};

static void chain_prepare(void)
{
	one_bucket = true;
	open_cache(2);
	EXPLORE_CHECK(visit(A) == 0);
	EXPLORE_CHECK(visit(B) == 0);
}

static const struct scenario chains = {
	.name = "chains",
	.what = "one bucket: entries are unlinked while others are inserted",
	.threads = 3,
	.prepare = chain_prepare,
	.enter = greet,
	.body = { visit_c, visit_d, glance_b },
	.finish = settle,
};

static const struct scenario chains_same = {
	.name = "chains-same",
	.what = "one bucket: two insertions of one key, and one of another",
	.threads = 3,
	.prepare = chain_prepare,
	.enter = greet,
	.body = { visit_c, visit_c, visit_d },
	.finish = settle,
};

static void chain_prepare_1(void)
{
	one_bucket = true;
	open_cache(1);
	EXPLORE_CHECK(visit(A) == 0);
}

static void visit_b_a_b(void)
{
	visit(B);
	visit(A);
	visit(B);
}

static const struct scenario reuse = {
	.name = "reuse",
	.what = "two keys, one bucket, one unit: a place comes back with the other key",
	.threads = 2,
	.prepare = chain_prepare_1,
	.enter = greet,
	.body = { glance_a, visit_b_a_b },
	.finish = settle,
};

static const struct scenario reuse_3 = {
	.name = "reuse-3",
	.what = "the same with a third key and thread",
	.threads = 3,
	.prepare = chain_prepare_1,
	.enter = greet,
	.body = { hit_a_twice, visit_b, visit_c_twice },
	.finish = settle,
};

static void trim_all(void)
{
	trim(4);
}

static void visit_a_b(void)
{
	visit(A);
	visit(B);
}

static const struct scenario trim_hit = {
	.name = "trim-hit",
	.what = "trimming against hits and reloads",
	.threads = 2,
	.prepare = two_prepare,
	.enter = greet,
	.body = { visit_a_b, trim_all },
	.finish = settle,
};

static const struct scenario trim_trim = {
	.name = "trim-trim",
	.what = "two trim, one hits",
	.threads = 3,
	.prepare = ring_prepare,
	.enter = greet,
	.body = { trim_all, trim_all, glance_b },
	.finish = settle,
};

static void predicate_prepare(void)
{
	has_predicate = true;
	open_cache(2);
	EXPLORE_CHECK(visit(A) == 0);
	EXPLORE_CHECK(visit(B) == 0);
	says_no[A] = 1;
	oracle_in_use(A);
}

static const struct scenario predicate = {
	.name = "predicate",
	.what = "the predicate refuses the oldest, which is hit meanwhile",
	.threads = 2,
	.prepare = predicate_prepare,
	.enter = greet,
	.body = { glance_a, visit_c_twice },
	.finish = settle,
};

static void predicate_all_prepare(void)
{
	predicate_prepare();
	says_no[B] = 1;
	oracle_in_use(B);
}

static const struct scenario predicate_all = {
	.name = "predicate-all",
	.what = "the predicate refuses all; two ask, one hits",
	.threads = 3,
	.prepare = predicate_all_prepare,
	.enter = greet,
	.body = { glance_a, visit_c, visit_d },
	.finish = settle,
};

static const struct scenario cold = {
	.name = "cold",
	.what = "threads meet the library, load one key, and end, all at once",
	.threads = 3,
	.ending = true,
	.cold = true,
	.prepare = open_3,
	.body = { get_a, get_a, visit_b },
	.finish = settle,
};

static void read_statistics(void)
{
	struct larder_stats s;

	larder_stats_init(&s);
	for (int i = 0; i < 2; i++) {
		EXPLORE_CHECK(larder_stats(cache, &s) == 0);
		EXPLORE_CHECK(s.resident <= capacity + s.loads_ok);
		EXPLORE_CHECK(s.destroyed <= s.loads_ok);
		EXPLORE_CHECK(s.loading <= THREADS);
		EXPLORE_CHECK(s.following <= THREADS);
		EXPLORE_CHECK(s.loads_ok + s.loads_failed + s.loads_abandoned <= s.misses);
	}
}

static const struct scenario statistics = {
	.name = "statistics",
	.what = "a snapshot while entries come and go",
	.threads = 3,
	.prepare = hit_evict_prepare,
	.enter = greet,
	.body = { read_statistics, visit_b, visit_a },
	.finish = settle,
};

static void steps(void)
{
	step();
	step();
}

static const struct scenario background = {
	.name = "background",
	.what = "background work beside hits and misses",
	.threads = 3,
	.prepare = two_prepare,
	.enter = greet,
	.body = { steps, glance_a, visit_c },
	.finish = settle,
};

static void ask_itself(void)
{
	visit_as(A, ASKS_ITSELF);
}

static const struct scenario deadlock = {
	.name = "deadlock",
	.what = "a loader asks for its own key, while another follows it",
	.threads = 2,
	.prepare = open_2,
	.enter = greet,
	.body = { ask_itself, visit_b },
	.finish = settle,
};

static void nest_a(void)
{
	visit_as(A, NESTS);
}

static const struct scenario nested = {
	.name = "nested",
	.what = "a loader gets another key, which a third thread loads too",
	.threads = 3,
	.prepare = open_2,
	.enter = greet,
	.body = { nest_a, visit_b, visit_a },
	.finish = settle,
};

/* 28 slots in a chunk: thread 0 holds 27 or more, the next pins need another chunk. */
static struct larder_ref many[27];

static void keep_many(void)
{
	greet();
	if (explore_self() != 0)
		return;
	keep(A);
	for (unsigned i = 0; i + 1 < sizeof(many) / sizeof(many[0]); i++)
		dup(&kept[0][0], &many[i]);
}

static void dup_more(void)
{
	struct larder_ref more[3] = { { 0 } };

	for (unsigned i = 0; i < 3; i++)
		dup(&kept[0][0], &more[i]);
	for (unsigned i = 0; i < sizeof(many) / sizeof(many[0]); i++)
		if (many[i].private_slot != NULL)
			put(&many[i]);
	put(&kept[0][0]);
	use(&more[2]);
	for (unsigned i = 0; i < 3; i++)
		put(&more[i]);
}

static const struct scenario many_pins = {
	.name = "many-pins",
	.what = "a thread's slots are used up while slots are searched",
	.threads = 2,
	.prepare = open_1,
	.enter = keep_many,
	.body = { dup_more, visit_b },
	.finish = settle,
};

const struct scenario *const scenarios[] = {
	&hit_evict,      &hit_evict_reload, &rescue,         &ticket,       &leaders,       &follow,
	&baton,          &follow_fail,      &follow_abandon, &fail_3,       &abandon_3,     &follow_evict,
	&release_wanted, &release_wanted_2, &release_both,   &taker_wanted, &last_unit,     &last_unit_3,
	&busy,           &busy_transit,     &busy_loading,   &busy_failing, &close_release, &close_release_2,
	&dup_search,     &dup_before,       &remote,         &chains,       &chains_same,   &reuse,
	&reuse_3,        &trim_hit,         &trim_trim,      &predicate,    &predicate_all, &cold,
	&statistics,     &background,       &deadlock,       &nested,       &many_pins,     NULL,
};
