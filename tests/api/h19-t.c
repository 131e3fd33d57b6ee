/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h19-t - H19: equal hashes, different keys: a wrong value.
 *
 * Hash functions that return a constant, the last bit, the low eight bits; 16 threads,
 * values that carry their keys.  Two colliding keys that load at the same time are two
 * loads (P1).
 */
#include "../lib/test.h"

#define CAPACITY 500

struct box {
	struct larder_cache *cache;
	struct shelf shelf;
	uint64_t keys;
	unsigned long rounds;
	_Atomic unsigned long wrong;
	struct gate gate;
};

static uint64_t first_byte(const void *key, uint64_t mask)
{
	return ((const unsigned char *)key)[0] & mask;
}

static uint64_t hash_constant(const void *key, size_t key_len, uint64_t seed, void *ctx)
{
	(void)key_len, (void)seed, (void)ctx;
	return first_byte(key, 0);
}

static uint64_t hash_bit(const void *key, size_t key_len, uint64_t seed, void *ctx)
{
	(void)key_len, (void)seed, (void)ctx;
	return first_byte(key, 1);
}

static uint64_t hash_byte(const void *key, size_t key_len, uint64_t seed, void *ctx)
{
	(void)key_len, (void)seed, (void)ctx;
	return first_byte(key, 255);
}

static void run(struct worker *worker)
{
	struct box *box = worker->arg;

	for (unsigned long i = 0; i < box->rounds; i++) {
		uint64_t number = rng_below(&worker->rng, rng_once_in(&worker->rng, 2) ? box->keys : 100);
		int r = shelf_visit(box->cache, &box->shelf, number);

		if (r != 0)
			count_up(&box->wrong);
		if (worker->index == 0)
			watch_pat();
	}
}

static int load_gated(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct box *box = arg;

	gate_wait(&box->gate);
	return value_load(key, key_len, &box->shelf, value, load);
}

static void join(struct worker *worker)
{
	struct box *box = worker->arg;
	uint64_t number = 1000000 + 512 * (worker->index % 2); /* equal low bits */
	struct key key = key_make(number, 16);
	struct larder_ref ref;

	if (shelf_get(box->cache, &box->shelf, &key, load_gated, box, &ref, NULL) != 0)
		count_up(&box->wrong);
	else
		value_drop(&box->shelf, &ref);
}

static void test(larder_hash_fn *hash, const char *name)
{
	static struct box box;
	struct larder_options options;
	struct larder_stats s;
	struct crew crew;

	memset(&box, 0, sizeof(box));
	shelf_setup(&box.shelf, CAPACITY);
	options = shelf_options(&box.shelf);
	options.hash = hash;
	box.cache = shelf_open(&options);
	box.keys = 10000;
	box.rounds = rounds(1500, 200000);
	crew_run(16, run, &box);
	is_int(box.wrong, 0, "H19: the hash is %s: 16 threads, 10,000 keys, all get values", name);
	is_int(shelf_faults(&box.shelf), 0, "H19: each of its own key");
	larder_trim(box.cache, UINT64_MAX);
	crew_start(&crew, 8, join, &box);
	until((s = stats_of(box.cache), s.loading == 2 && s.following == 6));
	is_int(atomic_load(&box.gate.arrived), 2, "H19: two keys that collide are two loads (P1)");
	gate_open(&box.gate);
	crew_join(&crew);
	is_int(box.wrong, 0, "H19: and followers join the right one");
	is_int(unbalanced(box.cache, &box.shelf), 0, "H19: counting adds up");
	close_shelf(box.cache, &box.shelf, "H19");
}

int main(void)
{
	plan(3 * 8);
	test(hash_constant, "a constant");
	test(hash_bit, "one bit");
	test(hash_byte, "eight bits");
	return done();
}
