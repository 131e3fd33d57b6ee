/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h44-t - H44: a pinned or busy entry at the cold end stops all eviction.
 *
 * The oldest entry is pinned, or refused by the predicate, or still loading; or every
 * second one is pinned.  Ten times the capacity of new keys: all others are evicted in
 * order (P8), never busy (P7), never over the limit (P6).
 */
#include "../lib/test.h"

#define CAPACITY 32

enum cold { PINNED, REFUSED, LOADING, EVERY_SECOND };

static const char *const cold_name[] = { "pinned", "refused", "loading", "pinned, as is every second" };

struct box {
	struct larder_cache *cache;
	struct shelf shelf;
	struct gate gate;
	uint64_t victim[20 * CAPACITY];
	unsigned victims;
};

static void destroy(void *value, void *ctx)
{
	struct box *box = (struct box *)((char *)ctx - offsetof(struct box, shelf));

	if (box->victims < ELEMENTS(box->victim))
		box->victim[box->victims++] = ((struct value *)value)->number;
	value_destroy(value, ctx);
}

static int load_gated(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct box *box = arg;

	gate_wait(&box->gate);
	return value_load(key, key_len, &box->shelf, value, load);
}

static void *get_gated(void *arg)
{
	struct box *box = arg;
	struct key key = key_mixed(0);
	struct larder_ref ref;

	if (shelf_get(box->cache, &box->shelf, &key, load_gated, box, &ref, NULL) != 0)
		return NULL;
	value_drop(&box->shelf, &ref);
	return arg;
}

static void test(enum cold cold)
{
	static struct box box;
	struct larder_options options;
	struct larder_ref ref[CAPACITY] = { { NULL, NULL } };
	struct larder_stats s;
	pthread_t loader = pthread_self();
	uint64_t expected = 0;
	unsigned busy = 0, disorder = 0;

	memset(&box, 0, sizeof(box));
	shelf_setup(&box.shelf, CAPACITY);
	options = shelf_options(&box.shelf);
	options.destroy = destroy;
	options.idle = value_idle;
	box.cache = shelf_open(&options);
	if (cold == LOADING) {
		loader = thread_start(get_gated, &box);
		until(atomic_load(&box.gate.arrived) == 1);
	}
	for (uint64_t k = cold == LOADING; k < CAPACITY; k++) {
		struct key key = key_mixed(k);

		must(shelf_get(box.cache, &box.shelf, &key, value_load, &box.shelf, &ref[k], NULL) == 0);
		if (cold == REFUSED && k == 0)
			((struct value *)larder_value(&ref[k]))->busy = 1;
		if (!(cold == PINNED && k == 0) && !(cold == EVERY_SECOND && k % 2 == 0))
			value_drop(&box.shelf, &ref[k]);
	}
	for (uint64_t k = CAPACITY; k < 11 * CAPACITY; k++)
		busy += shelf_visit(box.cache, &box.shelf, k) != 0;
	is_int(busy, 0, "H44: the coldest is %s: ten times the capacity gets in (P7)", cold_name[cold]);
	is_int(box.victims, 10 * CAPACITY, "H44: with one victim each");
	/* All but what cannot go, in the order of their gets. */
	for (unsigned i = 0; i < box.victims && i < ELEMENTS(box.victim); i++) {
		while (expected < CAPACITY && (cold == EVERY_SECOND ? expected % 2 == 0 : expected == 0))
			expected++;
		disorder += box.victim[i] != expected++;
	}
	is_int(disorder, 0, "H44: in order (P8)");
	s = stats_of(box.cache);
	ok(s.resident + s.loading == CAPACITY && box.shelf.units_max <= CAPACITY, "H44: never over the limit (P6)");
	if (cold == LOADING) {
		gate_open(&box.gate);
		ok(thread_join(loader) != NULL, "H44: the load ends in success");
	} else {
		is_int(shelf_peek(box.cache, &box.shelf, 0), 0, "H44: the coldest is still there");
	}
	for (unsigned k = 0; k < CAPACITY; k++)
		if (ref[k].private_slot != NULL)
			value_drop(&box.shelf, &ref[k]);
	if (cold == REFUSED) {
		must(larder_peek(box.cache, key_mixed(0).bytes, key_mixed(0).len, &ref[0]) == 0);
		((struct value *)larder_value(&ref[0]))->busy = 0;
		larder_release(&ref[0]);
	}
	at_rest(box.cache, &box.shelf, "H44");
	close_shelf(box.cache, &box.shelf, "H44");
}

int main(void)
{
	plan(4 * 11);
	test(PINNED);
	test(REFUSED);
	test(LOADING);
	test(EVERY_SECOND);
	return done();
}
