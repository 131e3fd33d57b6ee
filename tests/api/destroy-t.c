/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * destroy-t - P10 destroyed once, before the load for which it made room, with no lock
 * held, so that the destroy callback may call the library; and what closing says.
 */
#include "../lib/test.h"

struct box {
	struct larder_cache *cache;
	struct shelf shelf;
	void (*also)(struct box *box);
	struct gate gate;
	struct larder_ref ref;
	uint64_t next;
	_Atomic unsigned bad, calls;
	unsigned depth, deepest;
	bool closing;
};

static struct box *box_of(void *ctx)
{
	return (struct box *)((char *)ctx - offsetof(struct box, shelf));
}

static void destroy(void *value, void *ctx)
{
	struct box *box = box_of(ctx);

	if (box->also != NULL)
		box->also(box);
	value_destroy(value, ctx);
}

static void setup(struct box *box, uint64_t capacity, uint32_t flags)
{
	struct larder_options options;

	memset(box, 0, sizeof(*box));
	shelf_setup(&box->shelf, capacity);
	options = shelf_options(&box->shelf);
	options.destroy = destroy;
	options.flags = flags;
	box->cache = shelf_open(&options);
}

static void visit(struct box *box, uint64_t number)
{
	if (shelf_visit(box->cache, &box->shelf, number) != 0)
		count_up(&box->bad);
}

/* ---- before the load ------------------------------------------------------------------- */

static int load_after(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct box *box = box_of(arg);

	/* As full as it was before is it only now. */
	if (count_of(&box->shelf.units) + 1 > box->shelf.capacity)
		count_up(&box->bad);
	return value_load(key, key_len, arg, value, load);
}

static void test_before(void)
{
	struct larder_ref ref;
	struct box box;

	for (uint64_t capacity = 1; capacity <= 3; capacity += 2) {
		setup(&box, capacity, 0);
		for (uint64_t k = 0; k < 500; k++) {
			struct key key = key_mixed(k);

			if (shelf_get(box.cache, &box.shelf, &key, load_after, &box.shelf, &ref, NULL) != 0)
				count_up(&box.bad);
			else
				value_drop(&box.shelf, &ref);
		}
		is_int(box.bad, 0, "P10: each victim has ended before the load begins, capacity %" PRIu64, capacity);
		at_rest(box.cache, &box.shelf, "P10");
		close_shelf(box.cache, &box.shelf, "P10");
	}
}

/* ---- what destroy may call ----------------------------------------------------------------- */

static void peeks(struct box *box)
{
	int r = shelf_peek(box->cache, &box->shelf, 0);

	count_up(&box->calls);
	if (r != 0 && r != LARDER_ENOENT)
		count_up(&box->bad);
}

static void counts(struct box *box)
{
	struct larder_stats s = stats_of(box->cache);

	count_up(&box->calls);
	if (s.resident + s.loading > s.capacity)
		count_up(&box->bad);
}

static void releases_and_dups(struct box *box)
{
	struct larder_ref copy;

	count_up(&box->calls);
	if (box->ref.private_slot == NULL)
		return;
	if (larder_dup(&box->ref, &copy) != 0)
		count_up(&box->bad);
	else
		larder_release(&copy);
	value_drop(&box->shelf, &box->ref);
}

/* Loads inside a destroy callback make room themselves: that is a destroy inside it. */
static void gets(struct box *box)
{
	int r;

	count_up(&box->calls);
	if (box->depth == 3)
		return;
	box->depth++;
	if (box->depth > box->deepest)
		box->deepest = box->depth;
	r = shelf_visit(box->cache, &box->shelf, 100000 + box->next++);
	if (r != (box->closing ? LARDER_ECLOSED : 0))
		count_up(&box->bad);
	box->depth--;
}

static void trims(struct box *box)
{
	int64_t r;

	count_up(&box->calls);
	if (box->depth == 1)
		return;
	box->depth++;
	r = larder_trim(box->cache, 1);
	if (r < 0 || r > 1)
		count_up(&box->bad);
	box->depth--;
}

static void resets(struct box *box)
{
	count_up(&box->calls);
	if (larder_stats_reset(box->cache) != 0)
		count_up(&box->bad);
}

static void test_calls(void (*also)(struct box *box), const char *what)
{
	struct key key = key_mixed(1);
	struct box box;
	unsigned before;

	setup(&box, 8, 0);
	for (uint64_t k = 0; k < 8; k++)
		visit(&box, k);
	must(shelf_get(box.cache, &box.shelf, &key, value_load, &box.shelf, &box.ref, NULL) == 0);
	box.also = also;
	for (uint64_t k = 10; k < 60; k++)
		visit(&box, k);
	if (box.ref.private_slot != NULL)
		value_drop(&box.shelf, &box.ref);
	before = box.calls;
	ok(before >= 25, "P10: destroy %s while a request makes room", what);
	must(larder_trim(box.cache, 4) > 0);
	ok(box.calls > before, "P10: and while somebody trims");
	is_int(box.bad, 0, "P10: all of these calls did as they should");
	if (also != resets)
		is_int(unbalanced(box.cache, &box.shelf), 0, "P17: counting adds up");
	else
		is_int(stat_of(box.cache, resident), shelf_alive(&box.shelf), "P17: gauges are right");
	for (uint64_t k = 60; k < 64; k++)
		visit(&box, k);
	before = box.calls;
	box.closing = true;
	is_int(larder_close(box.cache), 0, "P10: and while somebody closes");
	ok(box.calls > before, "P10: which ends the rest, with the same calls");
	is_int(box.bad, 0, "P10: after which a get says closed");
	is_int(shelf_alive(&box.shelf), 0, "P10: every value was destroyed once");
	is_int(shelf_faults(&box.shelf), 0, "P10: no promise was broken");
	shelf_end(&box.shelf);
}

/* ---- a destroy that takes its time ------------------------------------------------------------ */

static _Atomic bool catch_one;

static void waits(struct box *box)
{
	if (atomic_exchange(&catch_one, false))
		gate_wait(&box->gate);
}

static void *visit_slowly(void *arg)
{
	visit(arg, 1000);
	return NULL;
}

static void test_slow(void)
{
	struct larder_ref ref;
	pthread_t slow;
	struct box box;

	setup(&box, 16, 0);
	for (uint64_t k = 0; k < 16; k++)
		visit(&box, k);
	box.also = waits;
	atomic_store(&catch_one, true);
	slow = thread_start(visit_slowly, &box);
	until(atomic_load(&box.gate.arrived) == 1);
	for (uint64_t k = 2000; k < 3000; k++)
		visit(&box, k);
	ok(stat_of(box.cache, evicted_room) >= 990, "P10: others make room beside a destroy that does not return");
	ok(stat_of(box.cache, graces) > 0, "P10: and grace periods end");
	ok(shelf_peek(box.cache, &box.shelf, 2999) == 0 && shelf_peek(box.cache, &box.shelf, 0) == LARDER_ENOENT,
	   "P10: others hit; the dying key is not here");
	must(shelf_get(box.cache, &box.shelf, &(struct key){ .len = 8 }, value_load, &box.shelf, &ref, NULL) == 0);
	value_drop(&box.shelf, &ref);
	is_int(larder_trim(box.cache, 3), 3, "P10: others trim");
	is_int(count_of(&box.shelf.units), 16 - 3, "P6: the dying value counts until it has ended");
	gate_open(&box.gate);
	thread_join(slow);
	is_int(box.bad, 0, "P10: all calls succeeded");
	at_rest(box.cache, &box.shelf, "P10");
	close_shelf(box.cache, &box.shelf, "P10");
}

/* ---- closing ------------------------------------------------------------------------------------ */

static int load_gated(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	gate_wait(&box_of(arg)->gate);
	return value_load(key, key_len, arg, value, load);
}

static void *get_gated(void *arg)
{
	struct box *box = arg;
	struct key key = key_mixed(500);
	struct larder_ref ref;

	if (shelf_get(box->cache, &box->shelf, &key, load_gated, &box->shelf, &ref, NULL) != 0)
		count_up(&box->bad);
	else
		value_drop(&box->shelf, &ref);
	return NULL;
}

static void test_close(uint32_t flags)
{
	struct larder_refusal refusal;
	struct larder_ref ref[3];
	pthread_t loader;
	struct box box;

	setup(&box, 8, flags);
	for (unsigned i = 0; i < 3; i++) {
		struct key key = key_mixed(i / 2);

		must(shelf_get(box.cache, &box.shelf, &key, value_load, &box.shelf, &ref[i], NULL) == 0);
	}
	visit(&box, 7);
	loader = thread_start(get_gated, &box);
	until(atomic_load(&box.gate.arrived) == 1);
	memset(&refusal, 0x55, sizeof(refusal));
	is_int(larder_close_report(box.cache, &refusal), LARDER_EBUSY, "close refuses while pins and loads are out");
	ok(refusal.pinned == 3 && refusal.loading == 1, "and says how many: 3 pins, 1 load");
	ok(refusal.refused == 0 && refusal.in_transit == 0, "and nothing else");
	is_int(larder_close_report(box.cache, NULL), LARDER_EBUSY, "nobody need want to know");
	is_int(larder_close(box.cache), LARDER_EBUSY, "close without a report says the same");
	is_int(shelf_alive(&box.shelf), 3, "nothing was destroyed");
	visit(&box, 8);
	visit(&box, 8);
	ok(box.bad == 0 && shelf_peek(box.cache, &box.shelf, 7) == 0, "the cache works on");
	gate_open(&box.gate);
	thread_join(loader);
	for (unsigned i = 0; i < 3; i++) {
		is_int(larder_close_report(box.cache, &refusal), LARDER_EBUSY, "with %u pins it refuses", 3 - i);
		is_int(refusal.pinned, 3 - i, "and says so");
		value_drop(&box.shelf, &ref[i]);
	}
	memset(&refusal, 0x55, sizeof(refusal));
	is_int(larder_close_report(box.cache, &refusal), 0, "with none it closes");
	ok(refusal.pinned == UINT64_C(0x5555555555555555), "and leaves the report untouched");
	is_int(shelf_alive(&box.shelf), 0, "P10: every value was destroyed");
	is_int(shelf_faults(&box.shelf), 0, "P10: no promise was broken");
	shelf_end(&box.shelf);
}

static unsigned long ended;

static void end_one(void *value, void *ctx)
{
	(void)value, (void)ctx;
	ended++;
}

static void test_unused(void)
{
	struct larder_options options;
	struct larder_cache *cache;
	struct larder_ref ref;
	struct shelf shelf;

	shelf_setup(&shelf, 1000);
	larder_options_init(&options);
	options.capacity = 1000;
	must(larder_open(&cache, &options) == 0);
	is_int(larder_close(cache), 0, "a cache that was never used closes");
	options.destroy = end_one;
	for (unsigned again = 0; again < 3; again++) {
		must(larder_open(&cache, &options) == 0);
		for (uint64_t k = 0; k < 2500; k++)
			must(larder_get(cache, &k, sizeof(k), value_load_fails, &shelf, &ref) == LARDER_ELOAD);
		is_int(stat_of(cache, loads_failed), 2500, "2500 loads that failed");
		is_int(larder_close(cache), 0, "it closes");
	}
	is_int(ended, 0, "P10: and ends nothing, since nothing was made");
}

int main(void)
{
	plan(139);
	test_before();
	test_calls(peeks, "peeks");
	test_calls(counts, "reads statistics");
	test_calls(releases_and_dups, "dups and releases");
	test_calls(gets, "loads other keys");
	test_calls(trims, "trims");
	test_calls(resets, "resets the statistics");
	test_slow();
	test_close(0);
	test_close(LARDER_NO_THREAD);
	test_close(LARDER_OWN_THREAD);
	test_unused();
	return done();
}
