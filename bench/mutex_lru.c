/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mutex_lru.c - one mutex, uthash, an intrusive list, reference counts.
 * mutex_lru.h says how it works.
 */
#include "mutex_lru.h"
#include "loop.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#define HASH_FUNCTION(keyptr, keylen, hashv) ((hashv) = (unsigned)XXH3_64bits(keyptr, keylen))
#include <uthash.h>

/* A ring through all entries and one head: next is towards older ones. */
struct link {
	struct link *next;
	struct link *prev;
};

struct entry {
	struct link link; /* first, so that a link is its entry */
	UT_hash_handle hh;
	void *value;
	atomic_uint pins;
	unsigned char key_len;
	unsigned char key[IMPL_KEY_MAX];
};

struct mutex_lru {
	pthread_mutex_t mutex; /* guards everything here but entry.pins */
	struct entry *table;
	struct link ring;
	uint64_t count;
	struct counts counts;
	struct impl_options options;
};

static void link_out(struct link *link)
{
	link->prev->next = link->next;
	link->next->prev = link->prev;
}

static void link_front(struct link *ring, struct link *link)
{
	link->next = ring->next;
	link->prev = ring;
	ring->next->prev = link;
	ring->next = link;
}

int mutex_lru_open(struct mutex_lru **cache, const struct impl_options *options)
{
	struct mutex_lru *open = calloc(1, sizeof(*open));

	if (open == NULL)
		return -ENOMEM;
	pthread_mutex_init(&open->mutex, NULL);
	open->ring.next = open->ring.prev = &open->ring;
	open->options = *options;
	*cache = open;
	return 0;
}

static void value_end(const struct mutex_lru *cache, void *value)
{
	if (cache->options.destroy != NULL)
		cache->options.destroy(value, cache->options.ctx);
}

static void entry_end(const struct mutex_lru *cache, struct entry *entry)
{
	value_end(cache, entry->value);
	free(entry);
}

void mutex_lru_close(struct mutex_lru *cache)
{
	struct link *link = cache->ring.next;

	HASH_CLEAR(hh, cache->table);
	while (link != &cache->ring) {
		struct entry *entry = (struct entry *)link;

		link = link->next;
		entry_end(cache, entry);
	}
	pthread_mutex_destroy(&cache->mutex);
	free(cache);
}

static struct entry *entry_find(struct mutex_lru *cache, const void *key, size_t key_len, unsigned hash)
{
	struct entry *entry;

	HASH_FIND_BYHASHVALUE(hh, cache->table, key, key_len, hash, entry);
	if (entry != NULL) {
		link_out(&entry->link);
		link_front(&cache->ring, &entry->link);
		atomic_fetch_add_explicit(&entry->pins, 1, memory_order_relaxed);
	}
	return entry;
}

/* Take the oldest entry that nobody holds out of the cache, or NULL. */
static struct entry *victim_take(struct mutex_lru *cache)
{
	struct link *link = cache->ring.prev;
	struct entry *victim;

	/* acquire pairs with the release in mutex_lru_release() */
	while (link != &cache->ring && atomic_load_explicit(&((struct entry *)link)->pins, memory_order_acquire) != 0)
		link = link->prev;
	if (link == &cache->ring)
		return NULL;
	victim = (struct entry *)link;
	link_out(link);
	HASH_DELETE(hh, cache->table, victim);
	cache->count--;
	cache->counts.evictions++;
	return victim;
}

/*
 * Put a loaded value into the cache, unless somebody else was quicker; then the
 * entry is the other one's and *loser is the new one.  NULL if all are held.
 */
static struct entry *entry_admit(struct mutex_lru *cache, struct entry *entry, unsigned hash, struct entry **loser)
{
	struct entry *found = entry_find(cache, entry->key, entry->key_len, hash);

	*loser = entry;
	if (found != NULL)
		return found;
	if (cache->count == cache->options.capacity) {
		struct entry *victim = victim_take(cache);

		if (victim == NULL) {
			cache->counts.busy++;
			return NULL;
		}
		*loser = victim;
	} else {
		*loser = NULL;
	}
	atomic_init(&entry->pins, 1);
	HASH_ADD_KEYPTR_BYHASHVALUE(hh, cache->table, entry->key, entry->key_len, hash, entry);
	link_front(&cache->ring, &entry->link);
	cache->count++;
	return entry;
}

/* The key is absent: load it.  Mutex free before and after. */
static int entry_load(struct mutex_lru *cache, const void *key, size_t key_len, unsigned hash, larder_load_fn *loader,
		      void *arg, struct entry **loaded)
{
	struct entry *entry = malloc(sizeof(*entry));
	struct entry *loser;

	if (entry == NULL)
		return -ENOMEM;
	entry->value = NULL;
	entry->key_len = (unsigned char)key_len;
	memcpy(entry->key, key, key_len);
	if (loader(key, key_len, arg, &entry->value, NULL) != 0) {
		free(entry);
		return LARDER_ELOAD;
	}
	pthread_mutex_lock(&cache->mutex);
	*loaded = entry_admit(cache, entry, hash, &loser);
	pthread_mutex_unlock(&cache->mutex);
	if (loser != NULL)
		entry_end(cache, loser);
	return *loaded != NULL ? 0 : -EBUSY;
}

int mutex_lru_get(struct mutex_lru *cache, const void *key, size_t key_len, larder_load_fn *loader, void *arg,
		  struct held *held)
{
	struct entry *entry;
	unsigned hash;
	int error = 0;

	if (key_len > IMPL_KEY_MAX)
		return -EINVAL;
	hash = (unsigned)XXH3_64bits(key, key_len);
	pthread_mutex_lock(&cache->mutex);
	entry = entry_find(cache, key, key_len, hash);
	if (entry != NULL)
		cache->counts.hits++;
	else
		cache->counts.misses++;
	pthread_mutex_unlock(&cache->mutex);
	if (entry == NULL)
		error = entry_load(cache, key, key_len, hash, loader, arg, &entry);
	if (error == 0) {
		held->as.entry = entry;
		held->value = entry->value;
	}
	return error;
}

void mutex_lru_release(struct held *held)
{
	struct entry *entry = held->as.entry;

	atomic_fetch_sub_explicit(&entry->pins, 1, memory_order_release);
}

void mutex_lru_counts(struct mutex_lru *cache, struct counts *counts)
{
	pthread_mutex_lock(&cache->mutex);
	*counts = cache->counts;
	pthread_mutex_unlock(&cache->mutex);
}

/* The table of functions. */

static int lru_open(void **cache, const struct impl_options *options)
{
	struct mutex_lru *opened;
	int error = mutex_lru_open(&opened, options);

	if (error == 0)
		*cache = opened;
	return error;
}

static int lru_close(void *cache)
{
	mutex_lru_close(cache);
	return 0;
}

static int lru_get(void *cache, const void *key, size_t key_len, larder_load_fn *loader, void *arg, struct held *held)
{
	return mutex_lru_get(cache, key, key_len, loader, arg, held);
}

static void lru_release(void *cache, struct held *held)
{
	(void)cache;
	mutex_lru_release(held);
}

static void lru_counts(void *cache, struct counts *counts)
{
	mutex_lru_counts(cache, counts);
}

static void lru_drive(void *cache, struct worker *worker)
{
	worker_drive(worker, cache, lru_get, lru_release);
}

const struct impl impl_mutex_lru = {
	.name = "mutex-lru",
	.traits = IMPL_EVICTS | IMPL_LOADS | IMPL_LOCKS | IMPL_MEMORY | IMPL_LATE,
	.open = lru_open,
	.close = lru_close,
	.get = lru_get,
	.release = lru_release,
	.counts = lru_counts,
	.drive = lru_drive,
};
