/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h29-t - H29 and P6: entries exceed the limit under concurrent inserts.
 *
 * 32 threads ask for ever new keys, hold their pins for a while, load for a while; a
 * sampler reads the statistics as fast as it can, and the values count themselves.
 * Neither ever exceeds the capacity, not by one, and no snapshot is out of order.
 */
#include "../lib/test.h"

struct flood {
	struct larder_cache *cache;
	struct shelf shelf;
	unsigned long rounds;
	_Atomic uint64_t fresh;
	_Atomic unsigned long wrong, busy, loaded;
	_Atomic unsigned working;
	_Atomic bool over;
};

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	struct flood *flood = arg;
	uint64_t number;

	key_number(key, key_len, &number);
	load_begin(&flood->shelf);
	if (number % 16 == 0)
		spin_ns((number * 7919) % 100000);
	if (number % 11 == 0) {
		load_end(&flood->shelf);
		return LOAD_ERROR;
	}
	(void)in_progress;
	*value = value_make(&flood->shelf, key, key_len);
	return 0;
}

static void insert(struct flood *flood, struct rng *rng)
{
	for (unsigned long i = 0; i < flood->rounds; i++) {
		struct key key =
			key_mixed(rng_once_in(rng, 4) ? rng_below(rng, 50) : 1000 + atomic_fetch_add(&flood->fresh, 1));
		struct larder_ref ref;
		int r = shelf_get(flood->cache, &flood->shelf, &key, load, flood, &ref, NULL);

		if (r == 0) {
			count_up(&flood->loaded);
			if (rng_once_in(rng, 16))
				spin_ns(rng_below(rng, 50000));
			value_drop(&flood->shelf, &ref);
		} else if (r == LARDER_EBUSY) {
			count_up(&flood->busy);
		} else if (r != LARDER_ELOAD) {
			count_up(&flood->wrong);
		}
		if (i % 64 == 0)
			watch_pat();
	}
	if (atomic_fetch_sub(&flood->working, 1) == 1)
		atomic_store(&flood->over, true);
}

static unsigned long not_rising(const struct larder_stats *a, const struct larder_stats *b)
{
	return (b->hits < a->hits) + (b->misses < a->misses) + (b->joins < a->joins) +
	       (b->refused_busy < a->refused_busy) + (b->loads_ok < a->loads_ok) + (b->loads_failed < a->loads_failed) +
	       (b->joins_shared < a->joins_shared) + (b->evicted_room < a->evicted_room) +
	       (b->destroyed < a->destroyed) + (b->proofs < a->proofs);
}

static void run(struct worker *worker)
{
	struct flood *flood = worker->arg;
	struct larder_stats s, before;

	if (worker->index != 0) {
		insert(flood, &worker->rng);
		return;
	}
	before = stats_of(flood->cache);
	while (!atomic_load(&flood->over)) {
		s = stats_of(flood->cache);
		if (s.resident + s.loading > s.capacity || s.resident > s.capacity || s.loading > s.capacity)
			shelf_fault(&flood->shelf, "P6: the statistics show %" PRIu64 " resident, %" PRIu64 " loading",
				    s.resident, s.loading);
		if (s.following > 40 || s.destroyed > s.loads_ok ||
		    s.loads_ok + s.loads_failed + s.loads_abandoned > s.misses ||
		    s.joins_shared + s.joins_failed + s.joins_abandoned > s.joins)
			shelf_fault(&flood->shelf, "P17: a snapshot shows more ends than begins");
		if (not_rising(&before, &s) != 0)
			shelf_fault(&flood->shelf, "P17: a counter went backwards");
		before = s;
		sched_yield();
	}
}

static uint64_t one_bucket(const void *key, size_t key_len, uint64_t seed, void *ctx)
{
	(void)key, (void)key_len, (void)seed, (void)ctx;
	return 1;
}

static void test(uint64_t capacity, larder_hash_fn *hash, uint64_t headroom)
{
	static struct flood flood;
	struct larder_options options;

	memset(&flood, 0, sizeof(flood));
	shelf_setup(&flood.shelf, capacity);
	options = shelf_options(&flood.shelf);
	options.hash = hash;
	options.headroom = headroom;
	flood.cache = shelf_open(&options);
	flood.rounds = rounds(600, 500000);
	flood.working = 32;
	crew_run(33, run, &flood);
	is_int(flood.wrong, 0, "H29: capacity %" PRIu64 "%s, headroom %" PRIu64 ": 32 threads, %lu inserts each",
	       capacity, hash != NULL ? ", one bucket" : "", headroom, flood.rounds);
	ok(flood.shelf.units_max <= capacity,
	   "H29: values alive and loads running were at most %" PRIu64 ", capacity %" PRIu64 " (P6)",
	   (uint64_t)flood.shelf.units_max, capacity);
	ok(flood.loaded > 0, "H29: %lu gets, %lu refusals", (unsigned long)flood.loaded, (unsigned long)flood.busy);
	is_int(unbalanced(flood.cache, &flood.shelf), 0, "H29: counting adds up (P17)");
	if (headroom == 0)
		is_int(pin_until_busy(flood.cache, &flood.shelf), capacity, "H29: and the capacity is all there");
	close_shelf(flood.cache, &flood.shelf, "H29");
}

int main(void)
{
	plan(6 * 8 + 7);
	test(64, NULL, 0);
	test(64, NULL, 16);
	test(1, NULL, 0);
	test(2, NULL, 0);
	test(3, NULL, 0);
	test(3, one_bucket, 0);
	test(64, one_bucket, 0);
	return done();
}
