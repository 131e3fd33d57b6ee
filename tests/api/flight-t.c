/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * flight-t - P1 one load, P2 one outcome, P3 no stale failure; and what a peek sees of
 * a load.  Followers are counted in before the loader is let go: nothing is left to luck.
 */
#include "../lib/test.h"

#define FOLLOWERS 7
#define ALL (FOLLOWERS + 1)

enum kind { SUCCEED, FAIL, LEAVE };

struct flight {
	struct larder_cache *cache;
	struct shelf shelf;
	struct gate gate;
	enum kind kind;
	_Atomic unsigned runs;
	int code[ALL];
	struct larder_outcome outcome[ALL];
	struct larder_ref ref[ALL];
};

static int load_gated(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct flight *f = arg;

	(void)load;
	load_begin(&f->shelf);
	count_up(&f->runs);
	gate_wait(&f->gate);
	if (f->kind == SUCCEED) {
		*value = value_make(&f->shelf, key, key_len);
		return 0;
	}
	load_end(&f->shelf);
	if (f->kind == LEAVE)
		pthread_exit(NULL);
	return LOAD_ERROR;
}

static void ask(struct worker *worker)
{
	struct flight *f = worker->arg;
	struct key key = key_make(1, 16);
	unsigned i = worker->index;

	f->code[i] = shelf_get(f->cache, &f->shelf, &key, load_gated, f, &f->ref[i], &f->outcome[i]);
}

/* ALL threads ask for key 1; when all but one follow, meanwhile(), then the loader is let go. */
static void fly(struct flight *f, enum kind kind, uint64_t capacity, void (*meanwhile)(struct flight *f))
{
	struct larder_options options;
	struct crew crew;

	memset(f, 0, sizeof(*f));
	shelf_setup(&f->shelf, capacity);
	options = shelf_options(&f->shelf);
	f->cache = shelf_open(&options);
	f->kind = kind;
	for (unsigned i = 0; i < ALL; i++)
		f->code[i] = 4711; /* of the one that leaves */
	crew_start(&crew, ALL, ask, f);
	until(stat_of(f->cache, following) == FOLLOWERS);
	if (meanwhile != NULL)
		meanwhile(f);
	gate_open(&f->gate);
	crew_join(&crew);
}

static unsigned count_how(const struct flight *f, int code, int how)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ALL; i++)
		n += f->code[i] == code && f->outcome[i].how == how;
	return n;
}

static void other_keys(struct flight *f)
{
	struct larder_stats s = stats_of(f->cache);
	struct key key = key_make(1, 16);
	struct larder_ref ref = { NULL, NULL };
	unsigned bad = 0;

	is_int(f->runs, 1, "P1: one loader runs for eight callers");
	ok(s.loading == 1 && s.misses == 1 && s.joins == FOLLOWERS && s.joins_shared == 0,
	   "P17: one miss, seven joins, counted when they join");
	is_int(larder_peek(f->cache, key.bytes, key.len, &ref), LARDER_EINPROGRESS,
	       "a peek says that it is in progress");
	is_ptr(ref.private_slot, NULL, "and leaves the ref untouched");
	is_int(stat_of(f->cache, in_progress), 1, "P17: which is counted");
	for (uint64_t k = 2; k < 8; k++) {
		bad += shelf_visit(f->cache, &f->shelf, k) != 0;
		bad += shelf_visit(f->cache, &f->shelf, k) != 0;
		bad += shelf_peek(f->cache, &f->shelf, k) != 0;
	}
	is_int(bad, 0, "P1: other keys are loaded and hit meanwhile");
	is_int(larder_trim(f->cache, 3), 3, "and evicted");
	is_int(larder_close(f->cache), LARDER_EBUSY, "and closing is refused");
	is_int(f->runs, 1, "P1: still one loader");
}

static void test_success(void)
{
	static struct flight f;
	struct larder_stats s;
	unsigned same = 0;

	fly(&f, SUCCEED, 8, other_keys);
	is_int(count_how(&f, 0, LARDER_LOADED), 1, "P1: one caller loaded");
	is_int(count_how(&f, 0, LARDER_JOINED), FOLLOWERS, "P2: seven joined");
	for (unsigned i = 0; i < ALL; i++)
		same += larder_value(&f.ref[i]) == larder_value(&f.ref[0]) && larder_value(&f.ref[i]) != NULL &&
			f.outcome[i].load_error == 0;
	is_int(same, ALL, "P2: all have the same value");
	is_int(f.runs, 1, "P1: after one load");
	s = stats_of(f.cache);
	is_int(s.pinned, ALL, "P2: each holds a pin of its own");
	ok(s.joins_shared == FOLLOWERS && s.following == 0 && s.loading == 0, "P17: seven shared it");
	for (unsigned i = 0; i < ALL; i++)
		value_drop(&f.shelf, &f.ref[i]);
	at_rest(f.cache, &f.shelf, "P2");
	close_shelf(f.cache, &f.shelf, "P2");
}

static void test_failure(void)
{
	static struct flight f;
	struct key key = key_make(1, 16);
	struct larder_outcome outcome;
	struct larder_ref ref;
	unsigned same = 0;

	fly(&f, FAIL, 1, NULL);
	is_int(count_how(&f, LARDER_ELOAD, LARDER_LOADED), 1, "P2: the load of one caller fails");
	is_int(count_how(&f, LARDER_ELOAD, LARDER_JOINED), FOLLOWERS, "P2: and for the seven who joined");
	for (unsigned i = 0; i < ALL; i++)
		same += f.outcome[i].load_error == LOAD_ERROR && f.ref[i].private_slot == NULL;
	is_int(same, ALL, "P2: all are told the loader's error, and no ref is touched");
	is_int(f.runs, 1, "P1: after one load");
	is_int(stat_of(f.cache, resident), 0, "P3: nothing is left behind");
	is_int(larder_peek(f.cache, key.bytes, key.len, &ref), LARDER_ENOENT, "P3: a peek finds nothing");
	is_int(shelf_get(f.cache, &f.shelf, &key, value_load, &f.shelf, &ref, &outcome), 0, "P3: the next call loads");
	is_int(outcome.how, LARDER_LOADED, "P3: by its own loader");
	value_drop(&f.shelf, &ref);
	at_rest(f.cache, &f.shelf, "P3");
	close_shelf(f.cache, &f.shelf, "P3");
}

static void test_abandoned(void)
{
	static struct flight f;
	struct key key = key_make(1, 16);
	struct larder_outcome outcome;
	struct larder_ref ref;
	unsigned left = 0;

	fly(&f, LEAVE, 1, NULL);
	is_int(count_how(&f, LARDER_EABANDONED, LARDER_JOINED), FOLLOWERS, "P2: a load is abandoned for its followers");
	for (unsigned i = 0; i < ALL; i++)
		left += f.code[i] == 4711;
	is_int(left, 1, "the leader's unwinding went on");
	ok(stat_of(f.cache, loads_abandoned) == 1 && stat_of(f.cache, joins_abandoned) == FOLLOWERS,
	   "P17: one load and seven joins are counted as abandoned");
	is_int(shelf_get(f.cache, &f.shelf, &key, value_load, &f.shelf, &ref, &outcome), 0, "P3: the next call loads");
	is_int(outcome.how, LARDER_LOADED, "P3: by its own loader");
	value_drop(&f.shelf, &ref);
	at_rest(f.cache, &f.shelf, "P3");
	close_shelf(f.cache, &f.shelf, "P3");
}

/*
 * P3: the unit of a failed load is free before its followers wake.  Capacity 1, one
 * leader and one follower; the follower, as soon as it has been told, asks for
 * another key, while the leader may still be on its way out.
 */
struct relay {
	struct larder_cache *cache;
	struct shelf shelf;
	unsigned long rounds;
	_Atomic unsigned long refused, not_joined, wrong;
};

static int load_when_followed(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct relay *relay = arg;

	(void)key, (void)key_len, (void)value, (void)load;
	load_begin(&relay->shelf);
	until(stat_of(relay->cache, following) == 1);
	load_end(&relay->shelf);
	return LOAD_ERROR;
}

static void run_relay(struct worker *worker)
{
	struct relay *relay = worker->arg;
	struct larder_outcome outcome;
	struct larder_ref ref;

	for (unsigned long i = 0; i < relay->rounds; i++) {
		struct key key = key_mixed(2 * i), next = key_mixed(2 * i + 1);

		meeting_wait(&worker->crew->meeting);
		if (worker->index == 0) {
			if (shelf_get(relay->cache, &relay->shelf, &key, load_when_followed, relay, &ref, NULL) !=
			    LARDER_ELOAD)
				count_up(&relay->wrong);
			continue;
		}
		until(stat_of(relay->cache, loading) == 1);
		if (shelf_get(relay->cache, &relay->shelf, &key, value_load_never, &relay->shelf, &ref, &outcome) !=
			    LARDER_ELOAD ||
		    outcome.how != LARDER_JOINED)
			count_up(&relay->not_joined);
		switch (shelf_get(relay->cache, &relay->shelf, i % 2 == 0 ? &next : &key, value_load, &relay->shelf,
				  &ref, &outcome)) {
		case 0:
			if (outcome.how != LARDER_LOADED)
				count_up(&relay->wrong);
			value_drop(&relay->shelf, &ref);
			break;
		case LARDER_EBUSY:
			count_up(&relay->refused);
			break;
		default:
			count_up(&relay->wrong);
		}
	}
}

static void test_room_before_waking(void)
{
	static struct relay relay;
	struct larder_options options;

	shelf_setup(&relay.shelf, 1);
	options = shelf_options(&relay.shelf);
	relay.cache = shelf_open(&options);
	relay.rounds = rounds(1000, 100000);
	crew_run(2, run_relay, &relay);
	is_int(relay.not_joined, 0, "P3: %lu followers of failing loads", relay.rounds);
	is_int(relay.refused, 0, "P3: none finds the failed load's unit still taken");
	is_int(relay.wrong, 0, "P3: each begins a load of its own, of the same or of another key");
	at_rest(relay.cache, &relay.shelf, "P3");
	close_shelf(relay.cache, &relay.shelf, "P3");
}

int main(void)
{
	plan(55);
	test_success();
	test_failure();
	test_abandoned();
	test_room_before_waking();
	return done();
}
