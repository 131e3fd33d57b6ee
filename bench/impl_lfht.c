/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * impl_lfht.c - liburcu's cds_lfht in two forms, on resident keys only.
 *
 * "lfht" is the lookup alone: the value is used inside a read-side section of
 * liburcu-bp and no pin outlives it.  "lfht-count" keeps the value beyond the
 * section by a reference count in the node: an atomic addition under the read
 * lock, an atomic subtraction at the release.  Neither evicts.
 *
 * Read lock and unlock are function calls, as in larder itself (nothing LGPL is
 * inlined).  The table has a power of two of buckets, at least its capacity, from
 * the beginning and does not resize.  Keys are 16 bytes, compared inline.
 */
#include "loop.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <urcu/urcu-bp.h>
#include <urcu/rculfhash.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

#define LFHT_KEY 16

struct node {
	struct cds_lfht_node node;
	void *value;
	atomic_uint pins;
	unsigned char key[LFHT_KEY];
};

struct lfht {
	struct cds_lfht *table;
	uint64_t seed;
	pthread_mutex_t filling;
	struct impl_options options;
};

static inline struct node *node_of(struct cds_lfht_node *node)
{
	return caa_container_of(node, struct node, node);
}

static int node_match(struct cds_lfht_node *node, const void *key)
{
	return memcmp(node_of(node)->key, key, LFHT_KEY) == 0;
}

static int lfht_open(void **cache, const struct impl_options *options)
{
	struct lfht *open = calloc(1, sizeof(*open));
	unsigned long buckets = 64;

	if (open == NULL)
		return -ENOMEM;
	while (buckets < options->capacity)
		buckets *= 2;
	open->table = cds_lfht_new_flavor(buckets, buckets, buckets, 0, &urcu_bp_flavor, NULL);
	if (open->table == NULL) {
		free(open);
		return -ENOMEM;
	}
	pthread_mutex_init(&open->filling, NULL);
	open->seed = options->seed;
	open->options = *options;
	*cache = open;
	return 0;
}

static int lfht_close(void *cache)
{
	struct lfht *open = cache;
	struct cds_lfht_iter iter;
	struct cds_lfht_node *found;

	urcu_bp_read_lock();
	cds_lfht_for_each(open->table, &iter, found)
	{
		struct node *node = node_of(found);

		cds_lfht_del(open->table, found);
		if (open->options.destroy != NULL)
			open->options.destroy(node->value, open->options.ctx);
		/* nobody else is left, and the iterator has the successor already */
		free(node);
	}
	urcu_bp_read_unlock();
	cds_lfht_destroy(open->table, NULL);
	pthread_mutex_destroy(&open->filling);
	free(open);
	return 0;
}

static inline struct node *node_find(struct lfht *cache, const void *key)
{
	struct cds_lfht_iter iter;
	struct cds_lfht_node *found;

	cds_lfht_lookup(cache->table, XXH3_64bits_withSeed(key, LFHT_KEY, cache->seed), node_match, key, &iter);
	found = cds_lfht_iter_get_node(&iter);
	return found != NULL ? node_of(found) : NULL;
}

/* Load and insert, one at a time: this is for filling. */
static int node_fill(struct lfht *cache, const void *key, size_t key_len, larder_load_fn *loader, void *arg)
{
	struct node *node;
	int error = 0;

	if (key_len != LFHT_KEY)
		return -EINVAL;
	pthread_mutex_lock(&cache->filling);
	urcu_bp_read_lock();
	if (node_find(cache, key) == NULL) {
		node = calloc(1, sizeof(*node));
		if (node == NULL || loader(key, key_len, arg, &node->value, NULL) != 0) {
			free(node);
			error = LARDER_ELOAD;
		} else {
			memcpy(node->key, key, LFHT_KEY);
			cds_lfht_node_init(&node->node);
			cds_lfht_add(cache->table, XXH3_64bits_withSeed(key, LFHT_KEY, cache->seed), &node->node);
		}
	}
	urcu_bp_read_unlock();
	pthread_mutex_unlock(&cache->filling);
	return error;
}

static inline int lookup_get(void *cache, const void *key, size_t key_len, larder_load_fn *loader, void *arg,
			     struct held *held)
{
	struct node *node;
	int error;

	urcu_bp_read_lock();
	node = node_find(cache, key);
	if (__builtin_expect(node == NULL, 0)) {
		urcu_bp_read_unlock();
		error = node_fill(cache, key, key_len, loader, arg);
		if (error != 0)
			return error;
		urcu_bp_read_lock();
		node = node_find(cache, key);
	}
	held->as.entry = node;
	held->value = node->value;
	return 0;
}

static inline void lookup_release(void *cache, struct held *held)
{
	(void)cache;
	(void)held;
	urcu_bp_read_unlock();
}

static inline int count_get(void *cache, const void *key, size_t key_len, larder_load_fn *loader, void *arg,
			    struct held *held)
{
	int error = lookup_get(cache, key, key_len, loader, arg, held);

	if (error != 0)
		return error;
	atomic_fetch_add_explicit(&((struct node *)held->as.entry)->pins, 1, memory_order_relaxed);
	urcu_bp_read_unlock();
	return 0;
}

static inline void count_release(void *cache, struct held *held)
{
	(void)cache;
	atomic_fetch_sub_explicit(&((struct node *)held->as.entry)->pins, 1, memory_order_release);
}

static void lfht_counts(void *cache, struct counts *counts)
{
	(void)cache;
	*counts = (struct counts){ 0 };
}

static void lookup_drive(void *cache, struct worker *worker)
{
	worker_drive(worker, cache, lookup_get, lookup_release);
}

static void count_drive(void *cache, struct worker *worker)
{
	worker_drive(worker, cache, count_get, count_release);
}

const struct impl impl_lfht = {
	.name = "lfht",
	.traits = IMPL_MEMORY,
	.open = lfht_open,
	.close = lfht_close,
	.get = lookup_get,
	.release = lookup_release,
	.counts = lfht_counts,
	.drive = lookup_drive,
};

const struct impl impl_lfht_count = {
	.name = "lfht-count",
	.traits = 0,
	.open = lfht_open,
	.close = lfht_close,
	.get = count_get,
	.release = count_release,
	.counts = lfht_counts,
	.drive = count_drive,
};
