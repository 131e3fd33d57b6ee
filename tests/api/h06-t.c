/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h06-t - H06: an unpinned value that is still in use elsewhere is evicted.
 *
 * Half of the values are busy, all are unpinned: ten times the capacity of new keys,
 * trims, steps and the background thread evict only the others (P5).  Then values flip
 * between busy and idle while that goes on.
 */
#include "../lib/test.h"

#define CAPACITY 32

struct box {
	struct larder_cache *cache;
	struct shelf shelf;
	_Atomic bool over;
	_Atomic unsigned long wrong, flips;
	_Atomic(struct value *) value[CAPACITY];
};

static struct box *box_of(void *ctx)
{
	return (struct box *)((char *)ctx - offsetof(struct box, shelf));
}

static void set_busy(struct box *box, uint64_t number, uint32_t busy)
{
	struct key key = key_mixed(number);
	struct larder_ref ref;

	must(shelf_get(box->cache, &box->shelf, &key, value_load, &box->shelf, &ref, NULL) == 0);
	atomic_store(&((struct value *)larder_value(&ref))->busy, busy);
	value_drop(&box->shelf, &ref);
}

static void open_box(struct box *box, uint64_t headroom, uint32_t flags)
{
	struct larder_options options;

	memset(box, 0, sizeof(*box));
	shelf_setup(&box->shelf, CAPACITY);
	options = shelf_options(&box->shelf);
	options.idle = value_idle;
	options.headroom = headroom;
	options.flags = flags;
	box->cache = shelf_open(&options);
}

static void test_busy(uint64_t headroom, uint32_t flags)
{
	static struct box box;
	struct larder_outcome o;
	struct larder_ref ref;
	struct key key = key_mixed(5000);
	unsigned missing = 0;

	open_box(&box, headroom, flags);
	for (uint64_t k = 0; k < CAPACITY / 2; k++)
		set_busy(&box, k, 1);
	for (uint64_t k = 0; k < 10 * CAPACITY; k++) {
		if (shelf_visit(box.cache, &box.shelf, 100 + k) != 0)
			count_up(&box.wrong);
		if (k % 16 == 0)
			larder_trim(box.cache, 3);
		if (k % 7 == 0)
			larder_step(box.cache, UINT64_MAX);
	}
	larder_trim(box.cache, UINT64_MAX);
	is_int(box.wrong, 0, "H06: ten times the capacity in new keys, headroom %" PRIu64 "%s", headroom,
	       flags == LARDER_NO_THREAD ? ", no thread" : "");
	for (uint64_t k = 0; k < CAPACITY / 2; k++)
		missing += shelf_peek(box.cache, &box.shelf, k) != 0;
	is_int(missing, 0, "H06: all that are busy are still there");
	/* Everything busy: refused, and told why.  With headroom the last units may just be being freed. */
	if (headroom == 0) {
		for (uint64_t k = CAPACITY / 2; k < CAPACITY; k++)
			set_busy(&box, k, 1);
		is_int(shelf_get(box.cache, &box.shelf, &key, value_load_never, &box.shelf, &ref, &o), LARDER_EBUSY,
		       "H06: busy when everything is");
		is_int(o.refusal.refused, CAPACITY, "H06: and told why");
		set_busy(&box, CAPACITY / 2, 0);
		is_int(shelf_visit(box.cache, &box.shelf, 5000), 0, "H06: one flips to idle: the next call succeeds");
	}
	for (uint64_t k = 0; k < CAPACITY; k++)
		if (shelf_peek(box.cache, &box.shelf, k) == 0)
			set_busy(&box, k, 0);
	is_int(unbalanced(box.cache, &box.shelf), 0, "H06: counting adds up (P17)");
	close_shelf(box.cache, &box.shelf, "H06");
}

/*
 * The flipping thread does what a device queue does: it marks a value busy while it
 * holds a pin, lets the pin go, and marks it idle when the work is done.  In between
 * it knows that the value is alive only by the predicate.
 */
static void use_asynchronously(struct worker *worker)
{
	struct box *box = worker->arg;
	struct value *queue[8] = { NULL };
	unsigned at = 0;

	while (!atomic_load(&box->over)) {
		struct key key = key_mixed(rng_below(&worker->rng, 2 * CAPACITY));
		struct larder_ref ref;

		if (queue[at] != NULL) {
			value_check(&box->shelf, queue[at], queue[at]->number);
			atomic_fetch_sub_explicit(&queue[at]->busy, 1, memory_order_release);
			queue[at] = NULL;
			count_up(&box->flips);
		}
		if (shelf_get(box->cache, &box->shelf, &key, value_load, &box->shelf, &ref, NULL) == 0) {
			queue[at] = larder_value(&ref);
			atomic_fetch_add(&queue[at]->busy, 1);
			value_drop(&box->shelf, &ref);
		}
		at = (at + 1) % ELEMENTS(queue);
	}
	for (unsigned i = 0; i < ELEMENTS(queue); i++)
		if (queue[i] != NULL)
			atomic_fetch_sub_explicit(&queue[i]->busy, 1, memory_order_release);
}

static int idle_acquire(void *value, void *ctx)
{
	struct value *v = value;

	(void)box_of(ctx);
	return value_idle(value, ctx) && atomic_load_explicit(&v->busy, memory_order_acquire) == 0;
}

static void test_flipping(uint64_t headroom)
{
	static struct box box;
	struct larder_options options;
	struct rng rng = rng_make(99);
	struct crew crew;
	unsigned long n = rounds(40000, 5000000);

	memset(&box, 0, sizeof(box));
	shelf_setup(&box.shelf, CAPACITY);
	options = shelf_options(&box.shelf);
	options.idle = idle_acquire;
	options.headroom = headroom;
	box.cache = shelf_open(&options);
	crew_start(&crew, 3, use_asynchronously, &box); /* up to 24 busy at once */
	for (unsigned long i = 0; i < n; i++) {
		int r = shelf_visit(box.cache, &box.shelf, 1000 + rng_below(&rng, 100));

		if (r != 0 && r != LARDER_EBUSY)
			count_up(&box.wrong);
		if (i % 50 == 0)
			larder_trim(box.cache, 2);
		if (i % 1000 == 0)
			watch_pat();
	}
	atomic_store(&box.over, true);
	crew_join(&crew);
	is_int(box.wrong, 0, "H06: values flip while others evict, headroom %" PRIu64, headroom);
	ok(count_of(&box.flips) > 0, "H06: some did");
	ok(stat_of(box.cache, destroyed) > 0, "H06: and there were evictions");
	is_int(shelf_faults(&box.shelf), 0, "H06: none of a value in use (P5)");
	if (headroom == 0)
		at_rest(box.cache, &box.shelf, "H06");
	close_shelf(box.cache, &box.shelf, "H06");
}

int main(void)
{
	plan(9 + 9 + 6 + 10 + 7);
	test_busy(0, 0);
	test_busy(0, LARDER_NO_THREAD);
	test_busy(4, 0);
	test_flipping(0);
	test_flipping(4);
	return done();
}
