/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * impl_ck_ht.c - concurrencykit's ck_ht with byte-string keys, on resident keys
 * only: the lookup alone (ck_ht_get_spmc), with neither pin nor read-side
 * section, because the table has one writer and it is at rest while it is
 * measured.  So this is the price of an open-addressed table, not of a cache.
 *
 * The table points to records that hold the key and the value's pointer lies in
 * the table.  The hash is XXH3, as everywhere.
 */
#include "loop.h"
#include <ck_ht.h>
#include <ck_malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

struct ck_cache {
	ck_ht_t table;
	uint64_t seed;
	pthread_mutex_t filling;
	struct impl_options options;
};

static void *memory_take(size_t size)
{
	return malloc(size);
}

static void *memory_grow(void *ptr, size_t old_size, size_t size, bool defer)
{
	(void)old_size;
	(void)defer;
	return realloc(ptr, size);
}

static void memory_give(void *ptr, size_t size, bool defer)
{
	(void)size;
	(void)defer;
	free(ptr);
}

static struct ck_malloc memory = {
	.malloc = memory_take,
	.realloc = memory_grow,
	.free = memory_give,
};

static void hash_key(ck_ht_hash_t *hash, const void *key, size_t key_len, uint64_t seed)
{
	hash->value = XXH3_64bits_withSeed(key, key_len, seed);
}

static int ck_open(void **cache, const struct impl_options *options)
{
	struct ck_cache *open = calloc(1, sizeof(*open));

	if (open == NULL)
		return -ENOMEM;
	if (!ck_ht_init(&open->table, CK_HT_MODE_BYTESTRING, hash_key, &memory, options->capacity * 2, options->seed)) {
		free(open);
		return -ENOMEM;
	}
	pthread_mutex_init(&open->filling, NULL);
	open->seed = options->seed;
	open->options = *options;
	*cache = open;
	return 0;
}

static int ck_close(void *cache)
{
	struct ck_cache *open = cache;
	ck_ht_iterator_t iterator = CK_HT_ITERATOR_INITIALIZER;
	ck_ht_entry_t *entry;

	while (ck_ht_next(&open->table, &iterator, &entry)) {
		if (open->options.destroy != NULL)
			open->options.destroy(ck_ht_entry_value(entry), open->options.ctx);
		free(ck_ht_entry_key(entry));
	}
	ck_ht_destroy(&open->table);
	pthread_mutex_destroy(&open->filling);
	free(open);
	return 0;
}

/* Load and insert, one at a time: this is for filling. */
static int ck_fill(struct ck_cache *cache, const void *key, size_t key_len, larder_load_fn *loader, void *arg)
{
	void *copy = malloc(key_len);
	void *value = NULL;
	ck_ht_entry_t entry;
	ck_ht_hash_t hash;
	int error = LARDER_ELOAD;

	if (copy == NULL)
		return -ENOMEM;
	memcpy(copy, key, key_len);
	pthread_mutex_lock(&cache->filling);
	if (loader(key, key_len, arg, &value, NULL) == 0) {
		hash_key(&hash, key, key_len, cache->seed);
		ck_ht_entry_set(&entry, hash, copy, (uint16_t)key_len, value);
		if (ck_ht_put_spmc(&cache->table, hash, &entry))
			error = 0;
	}
	pthread_mutex_unlock(&cache->filling);
	if (error != 0)
		free(copy);
	return error;
}

static inline int ck_get(void *cache, const void *key, size_t key_len, larder_load_fn *loader, void *arg,
			 struct held *held)
{
	struct ck_cache *open = cache;
	ck_ht_entry_t entry;
	ck_ht_hash_t hash;
	int error;

	hash_key(&hash, key, key_len, open->seed);
	ck_ht_entry_key_set(&entry, key, (uint16_t)key_len);
	if (__builtin_expect(!ck_ht_get_spmc(&open->table, hash, &entry), 0)) {
		error = ck_fill(open, key, key_len, loader, arg);
		if (error != 0)
			return error;
		ck_ht_entry_key_set(&entry, key, (uint16_t)key_len);
		ck_ht_get_spmc(&open->table, hash, &entry);
	}
	held->value = ck_ht_entry_value(&entry);
	return 0;
}

static inline void ck_release(void *cache, struct held *held)
{
	(void)cache;
	(void)held;
}

static void ck_counts(void *cache, struct counts *counts)
{
	(void)cache;
	*counts = (struct counts){ 0 };
}

static void ck_drive(void *cache, struct worker *worker)
{
	worker_drive(worker, cache, ck_get, ck_release);
}

const struct impl impl_ck_ht = {
	.name = "ck_ht",
	.traits = IMPL_MEMORY,
	.open = ck_open,
	.close = ck_close,
	.get = ck_get,
	.release = ck_release,
	.counts = ck_counts,
	.drive = ck_drive,
};
