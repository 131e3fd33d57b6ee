/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * idle-t - P5 only idle entries are evicted: the predicate is asked on every road, its
 * "no" is respected, it may call what its page allows, and it holds up nobody.
 */
#include "../lib/test.h"

struct box {
	struct larder_cache *cache;
	struct shelf shelf;
	int (*also)(struct box *box, struct value *value);
	struct gate gate;
	struct larder_ref ref;
	_Atomic unsigned bad, asked;
	bool inside;
};

static int idle(void *value, void *ctx)
{
	struct box *box = (struct box *)((char *)ctx - offsetof(struct box, shelf));
	struct value *v = value;
	int yes = value_idle(value, ctx);

	count_up(&box->asked);
	return box->also != NULL ? box->also(box, v) : yes;
}

static void setup(struct box *box, uint64_t capacity, uint64_t headroom, uint32_t flags)
{
	struct larder_options options;

	memset(box, 0, sizeof(*box));
	shelf_setup(&box->shelf, capacity);
	options = shelf_options(&box->shelf);
	options.idle = idle;
	options.headroom = headroom;
	options.flags = flags;
	box->cache = shelf_open(&options);
}

static void visit(struct box *box, uint64_t number)
{
	if (shelf_visit(box->cache, &box->shelf, number) != 0)
		count_up(&box->bad);
}

static bool here(struct box *box, uint64_t number)
{
	return shelf_peek(box->cache, &box->shelf, number) == 0;
}

static void set_busy(struct box *box, uint64_t number, uint32_t busy)
{
	struct key key = key_mixed(number);
	struct larder_ref ref;

	must(shelf_get(box->cache, &box->shelf, &key, value_load, &box->shelf, &ref, NULL) == 0);
	atomic_store(&((struct value *)larder_value(&ref))->busy, busy);
	value_drop(&box->shelf, &ref);
}

/* ---- every road ---------------------------------------------------------------------- */

static void test_roads(void)
{
	struct larder_outcome outcome;
	struct larder_ref ref;
	struct key fresh = key_mixed(99);
	struct box box;

	setup(&box, 4, 0, 0);
	for (uint64_t k = 0; k < 4; k++)
		set_busy(&box, k, k < 2);
	is_int(box.asked, 0, "P5: nobody is asked while there is room");
	visit(&box, 10);
	visit(&box, 11);
	ok(here(&box, 0) && here(&box, 1) && !here(&box, 2) && !here(&box, 3), "P5: who needs room passes over a no");
	is_int(larder_trim(box.cache, 100), 2, "P5: so does a trim");
	ok(here(&box, 0) && here(&box, 1) && !here(&box, 10) && !here(&box, 11), "P5: which leaves the same two");
	set_busy(&box, 2, 1);
	set_busy(&box, 3, 1);
	is_int(shelf_get(box.cache, &box.shelf, &fresh, value_load_never, &box.shelf, &ref, &outcome), LARDER_EBUSY,
	       "P5: four times no is busy");
	ok(outcome.refusal.refused == 4 && outcome.refusal.pinned == 0 && outcome.refusal.loading == 0 &&
		   outcome.refusal.in_transit == 0,
	   "P7: which says so");
	box.asked = 0;
	is_int(shelf_get(box.cache, &box.shelf, &fresh, value_load_never, &box.shelf, &ref, &outcome), LARDER_EBUSY,
	       "P5: and again");
	ok(box.asked >= 4, "P7: after all of them have been asked again");
	is_int(larder_trim(box.cache, 1), 0, "P5: a trim finds nothing");
	/* Two say yes, the younger first: no get in between. */
	must(larder_peek(box.cache, key_mixed(3).bytes, key_mixed(3).len, &ref) == 0);
	atomic_store(&((struct value *)larder_value(&ref))->busy, 0);
	must(larder_release(&ref) == 0);
	must(larder_peek(box.cache, key_mixed(1).bytes, key_mixed(1).len, &ref) == 0);
	atomic_store(&((struct value *)larder_value(&ref))->busy, 0);
	must(larder_release(&ref) == 0);
	visit(&box, 20);
	ok(!here(&box, 3) && here(&box, 1), "P8: of those that say yes now, the one got longest ago goes");
	set_busy(&box, 0, 0);
	set_busy(&box, 2, 0);
	set_busy(&box, 1, 0);
	is_int(box.bad, 0, "P5: all calls succeeded that should");
	at_rest(box.cache, &box.shelf, "P5");
	close_shelf(box.cache, &box.shelf, "P5");
}

static int never(struct box *box, struct value *value)
{
	(void)box, (void)value;
	return 0;
}

static void test_headroom_road(void)
{
	struct box box;

	/* The background thread asks, too, and takes a no. */
	setup(&box, 8, 2, 0);
	for (uint64_t k = 0; k < 4; k++)
		set_busy(&box, k, 1);
	for (uint64_t k = 10; k < 30; k++)
		visit(&box, k);
	until(stat_of(box.cache, resident) <= 6);
	ok(here(&box, 0) && here(&box, 1) && here(&box, 2) && here(&box, 3),
	   "P5: eviction ahead of need passes over a no");
	ok(stat_of(box.cache, evicted_ahead) > 0, "P5: and takes others");
	for (uint64_t k = 0; k < 4; k++)
		set_busy(&box, k, 0);
	is_int(unbalanced(box.cache, &box.shelf), 0, "P17: counting adds up");
	close_shelf(box.cache, &box.shelf, "P5");

	setup(&box, 4, 0, LARDER_NO_THREAD);
	box.also = never;
	for (uint64_t k = 0; k < 4; k++)
		visit(&box, k);
	for (unsigned i = 0; i < 10; i++)
		larder_step(box.cache, UINT64_MAX);
	is_int(shelf_alive(&box.shelf), 4, "P5: a step evicts nothing");
	is_int(larder_close(box.cache), 0, "P5: closing asks nobody");
	is_int(shelf_alive(&box.shelf), 0, "P10: and ends all values");
	shelf_end(&box.shelf);
}

/* ---- what a predicate may call ----------------------------------------------------------- */

static int peeks_another(struct box *box, struct value *value)
{
	(void)value;
	if (box->inside) /* a peek asks nobody */
		count_up(&box->bad);
	box->inside = true;
	if (shelf_peek(box->cache, &box->shelf, 1) != 0)
		count_up(&box->bad);
	box->inside = false;
	return value->number != 1;
}

static int releases(struct box *box, struct value *value)
{
	(void)value;
	if (box->ref.private_slot != NULL)
		value_drop(&box->shelf, &box->ref);
	return 1;
}

static int reads_statistics(struct box *box, struct value *value)
{
	struct larder_stats s = stats_of(box->cache);

	(void)value;
	if (s.resident > s.capacity)
		count_up(&box->bad);
	return 1;
}

static _Atomic unsigned left_to_peek;

static int peeks_itself(struct box *box, struct value *value)
{
	if (atomic_load(&left_to_peek) != 0) {
		atomic_fetch_sub(&left_to_peek, 1);
		if (shelf_peek(box->cache, &box->shelf, value->number) != 0)
			count_up(&box->bad);
	}
	return 1;
}

static void test_calls(void)
{
	struct key one = key_mixed(1);
	struct box box;

	setup(&box, 4, 0, 0);
	for (uint64_t k = 0; k < 4; k++)
		visit(&box, k);
	box.also = peeks_another;
	for (uint64_t k = 10; k < 50; k++)
		visit(&box, k);
	box.also = NULL;
	ok(here(&box, 1) && box.bad == 0, "P15: a predicate may peek at another key");

	must(shelf_get(box.cache, &box.shelf, &one, value_load_never, &box.shelf, &box.ref, NULL) == 0);
	box.also = releases;
	for (uint64_t k = 50; k < 60; k++)
		visit(&box, k);
	ok(box.ref.private_slot == NULL && box.bad == 0, "P15: it may release");
	box.also = reads_statistics;
	for (uint64_t k = 60; k < 70; k++)
		visit(&box, k);
	ok(box.bad == 0, "P15: it may read statistics");

	for (uint64_t k = 0; k < 4; k++)
		visit(&box, k);
	box.also = peeks_itself;
	atomic_store(&left_to_peek, 2);
	visit(&box, 80);
	box.also = NULL;
	ok(here(&box, 0) && here(&box, 1) && !here(&box, 2),
	   "P8: a value that its predicate peeks at was got just now");
	is_int(box.bad, 0, "P15: all of this succeeded");
	at_rest(box.cache, &box.shelf, "P15");
	close_shelf(box.cache, &box.shelf, "P15");
}

static int peeks_itself_always(struct box *box, struct value *value)
{
	if (shelf_peek(box->cache, &box->shelf, value->number) != 0)
		count_up(&box->bad);
	return 1;
}

static void test_restless(void)
{
	struct key key = key_mixed(9);
	struct larder_outcome o;
	struct larder_ref ref;
	struct box box;

	/* Each peek makes the value the youngest: there is no end to it, but one to the call. */
	setup(&box, 4, 0, 0);
	for (uint64_t k = 0; k < 4; k++)
		visit(&box, k);
	box.also = peeks_itself_always;
	is_int(shelf_get(box.cache, &box.shelf, &key, value_load_never, &box.shelf, &ref, &o), LARDER_EBUSY,
	       "P7: a predicate that always peeks at its own value: busy, in the end");
	is_int(o.refusal.in_transit, 4, "P7: with all units on their way");
	ok(larder_trim(box.cache, 1) >= 0, "P7: a trim comes to an end, too");
	box.also = NULL;
	is_int(shelf_visit(box.cache, &box.shelf, 9), 0, "P7: and when it stops, the next call succeeds");
	is_int(box.bad, 0, "P15: all peeks succeeded");
	at_rest(box.cache, &box.shelf, "P7");
	close_shelf(box.cache, &box.shelf, "P7");
}

/* ---- a predicate that takes its time ----------------------------------------------------- */

static _Atomic bool catch_one;

static int waits(struct box *box, struct value *value)
{
	(void)value;
	if (atomic_exchange(&catch_one, false))
		gate_wait(&box->gate);
	return 1;
}

static void *visit_slowly(void *arg)
{
	visit(arg, 1000);
	return NULL;
}

static void *close_another(void *arg)
{
	struct larder_options options;
	struct larder_cache *other;

	larder_options_init(&options);
	options.capacity = 2;
	if (larder_open(&other, &options) != 0 || larder_close(other) != 0)
		count_up(&((struct box *)arg)->bad);
	return NULL;
}

static void test_slow(void)
{
	struct key key = key_mixed(5);
	struct larder_ref ref, copy;
	pthread_t slow;
	struct box box;

	setup(&box, 16, 0, 0);
	for (uint64_t k = 0; k < 16; k++)
		visit(&box, k);
	box.also = waits;
	atomic_store(&catch_one, true);
	slow = thread_start(visit_slowly, &box);
	until(atomic_load(&box.gate.arrived) == 1);
	/* It stands in the predicate.  If that were under a lock, one of these would hang. */
	for (uint64_t k = 2000; k < 3000; k++)
		visit(&box, k);
	ok(stat_of(box.cache, evicted_room) >= 990, "P5: others make room beside a predicate that does not return");
	ok(stat_of(box.cache, graces) > 0, "P5: and grace periods end: it is not inside a read-side section");
	must(shelf_get(box.cache, &box.shelf, &key, value_load, &box.shelf, &ref, NULL) == 0);
	ok(here(&box, 5) && larder_dup(&ref, &copy) == 0 && larder_release(&copy) == 0, "P5: others hit, peek and dup");
	value_drop(&box.shelf, &ref);
	is_int(larder_trim(box.cache, 3), 3, "P5: others trim");
	ok(larder_step(box.cache, 0) >= 0 && larder_stats_reset(box.cache) == 0, "P5: others step and reset");
	thread_join(thread_start(close_another, &box));
	gate_open(&box.gate);
	thread_join(slow);
	is_int(box.bad, 0, "P5: all calls succeeded");
	until(shelf_alive(&box.shelf) == stat_of(box.cache, resident));
	is_int(pin_until_busy(box.cache, &box.shelf), 16, "P6: the whole capacity is there");
	is_int(shelf_faults(&box.shelf), 0, "P5: no promise was broken");
	close_shelf(box.cache, &box.shelf, "P5");
}

int main(void)
{
	plan(59);
	test_roads();
	test_headroom_road();
	test_calls();
	test_restless();
	test_slow();
	return done();
}
