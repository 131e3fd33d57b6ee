/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * headroom-t - the background thread evicts ahead of need; without one, requests and
 * larder_step() do the work.
 */
#include "../lib/test.h"

struct box {
	struct larder_cache *cache;
	struct shelf shelf;
	pthread_t requester;
	_Atomic unsigned long by_request;
	_Atomic bool busy;
};

static struct box *box_of(void *ctx)
{
	return (struct box *)((char *)ctx - offsetof(struct box, shelf));
}

static void destroy(void *value, void *ctx)
{
	if (pthread_equal(pthread_self(), box_of(ctx)->requester))
		count_up(&box_of(ctx)->by_request);
	value_destroy(value, ctx);
}

static int idle(void *value, void *ctx)
{
	return value_idle(value, ctx) && !box_of(ctx)->busy;
}

static void setup(struct box *box, uint64_t capacity, uint64_t headroom, uint32_t flags)
{
	struct larder_options options;

	memset(box, 0, sizeof(*box));
	box->requester = pthread_self();
	shelf_setup(&box->shelf, capacity);
	options = shelf_options(&box->shelf);
	options.headroom = headroom;
	options.flags = flags;
	options.destroy = destroy;
	options.idle = idle;
	box->cache = shelf_open(&options);
}

static void test_headroom(uint32_t flags)
{
	static struct box box;
	unsigned long n = rounds(200, 5000), bad = 0;
	struct larder_stats s;
	struct larder_ref ref[8];

	setup(&box, 32, 8, flags);
	for (uint64_t k = 0; k < 32; k++)
		bad += shelf_visit(box.cache, &box.shelf, k) != 0;
	until(stat_of(box.cache, resident) <= 24);
	for (unsigned long i = 0; i < n; i++) {
		/* One less than are free: the last one may still be on its way back. */
		for (uint64_t k = 0; k < 7; k++)
			bad += shelf_visit(box.cache, &box.shelf, 1000 + 7 * i + k) != 0;
		until(stat_of(box.cache, resident) <= 24);
		watch_pat();
	}
	s = stats_of(box.cache);
	is_int(bad, 0, "headroom 8%s: %lu loads", flags != 0 ? ", a thread of its own" : "", 7 * n);
	is_int(box.by_request, 0, "no request destroys a value");
	is_int(s.evicted_room, 0, "P17: none evicts for room");
	ok(s.evicted_ahead >= 7 * n && s.resident == 24, "P17: all are evicted ahead of need, and no more than asked");
	ok(shelf_peek(box.cache, &box.shelf, 1000 + 7 * n - 1) == 0 &&
		   shelf_peek(box.cache, &box.shelf, 1000 + 7 * n - 24) == 0,
	   "P8: the latest ones are there");
	/* What cannot be evicted ahead is no error: the whole capacity can still be used. */
	box.busy = true;
	for (uint64_t k = 0; k < 8; k++) {
		struct key key = key_mixed(1000000 + k);

		bad += shelf_get(box.cache, &box.shelf, &key, value_load, &box.shelf, &ref[k], NULL) != 0;
	}
	is_int(bad, 0, "P6: headroom takes nothing from the capacity");
	is_int(stat_of(box.cache, resident), 32, "P6: all of it is in use");
	is_int(shelf_visit(box.cache, &box.shelf, 2000000), LARDER_EBUSY, "P5: and all others are refused");
	box.busy = false;
	for (unsigned k = 0; k < 8; k++)
		value_drop(&box.shelf, &ref[k]);
	is_int(shelf_visit(box.cache, &box.shelf, 2000000), 0, "P7: which ends with the refusal");
	until(stat_of(box.cache, resident) <= 24);
	is_int(unbalanced(box.cache, &box.shelf), 0, "P17: counting adds up");
	close_shelf(box.cache, &box.shelf, "headroom");
}

static void test_without_thread(void)
{
	static struct box box;
	uint64_t before;
	unsigned bad = 0;
	int r;

	setup(&box, 16, 0, LARDER_NO_THREAD);
	for (uint64_t k = 0; k < 2050; k++)
		bad += shelf_visit(box.cache, &box.shelf, k) != 0;
	is_int(bad, 0, "no thread: 2050 loads");
	is_int(box.by_request, 2050 - 16, "requests destroy what they evict");
	before = stat_of(box.cache, graces);
	do
		r = larder_step(box.cache, 0);
	while (r == 1);
	is_int(r, 0, "steps come to an end");
	ok(stat_of(box.cache, graces) > before, "what is left to free is freed by them");
	before = stat_of(box.cache, graces);
	is_int(larder_step(box.cache, UINT64_MAX), 0, "then there is nothing more to do");
	is_int(stat_of(box.cache, graces), before, "and nothing is done");
	is_int(shelf_alive(&box.shelf), 16, "P5: a step evicts nothing");
	at_rest(box.cache, &box.shelf, "no thread");
	close_shelf(box.cache, &box.shelf, "no thread");
}

int main(void)
{
	plan(2 * 13 + 13);
	test_headroom(0);
	test_headroom(LARDER_OWN_THREAD);
	test_without_thread();
	return done();
}
