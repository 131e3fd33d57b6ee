/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mutex_origin.c - one mutex, one condition variable a load, linear victim scan.
 * mutex_origin.h says how it works.
 */
#include "mutex_origin.h"
#include "loop.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#define HASH_FUNCTION(keyptr, keylen, hashv) ((hashv) = (unsigned)XXH3_64bits(keyptr, keylen))
#include <uthash.h>

enum place { VACANT = 0, LOADING, READY };

/* A load in progress; the leader and its followers share it. */
struct flight {
	pthread_cond_t changed;
	unsigned followers; /* who have not yet read the outcome */
	bool done;
	int error;
};

struct entry {
	UT_hash_handle hh;
	uint64_t used;
	void *value;
	struct flight *flight; /* while LOADING */
	struct entry *vacant;  /* while VACANT: the next such place */
	atomic_uint pins;
	unsigned char place;
	unsigned char key_len;
	unsigned char key[IMPL_KEY_MAX];
};

struct mutex_origin {
	pthread_mutex_t mutex; /* guards everything here but entry.pins */
	struct entry *table;
	struct entry *vacant; /* places below high that nobody uses */
	uint64_t high;        /* places used so far */
	uint64_t count;       /* entries loading or ready */
	uint64_t clock;
	struct counts counts;
	struct impl_options options;
	struct entry entries[];
};

int mutex_origin_open(struct mutex_origin **cache, const struct impl_options *options)
{
	/* calloc() of this size maps zeroed pages that are touched as entries come */
	struct mutex_origin *open = calloc(1, sizeof(*open) + options->capacity * sizeof(struct entry));

	if (open == NULL)
		return -ENOMEM;
	pthread_mutex_init(&open->mutex, NULL);
	open->options = *options;
	*cache = open;
	return 0;
}

static void value_end(const struct mutex_origin *cache, void *value)
{
	if (cache->options.destroy != NULL)
		cache->options.destroy(value, cache->options.ctx);
}

void mutex_origin_close(struct mutex_origin *cache)
{
	HASH_CLEAR(hh, cache->table);
	for (uint64_t i = 0; i < cache->high; i++) {
		if (cache->entries[i].place == READY)
			value_end(cache, cache->entries[i].value);
	}
	pthread_mutex_destroy(&cache->mutex);
	free(cache);
}

/* The least recently used entry that nobody holds, or NULL.  Mutex held. */
static struct entry *victim_scan(struct mutex_origin *cache)
{
	struct entry *victim = NULL;

	for (uint64_t i = 0; i < cache->high; i++) {
		struct entry *entry = &cache->entries[i];

		if (entry->place != READY || (victim != NULL && entry->used >= victim->used))
			continue;
		/* acquire pairs with the release in mutex_origin_release() */
		if (atomic_load_explicit(&entry->pins, memory_order_acquire) == 0)
			victim = entry;
	}
	return victim;
}

static void entry_vacate(struct mutex_origin *cache, struct entry *entry)
{
	HASH_DELETE(hh, cache->table, entry);
	entry->place = VACANT;
	entry->vacant = cache->vacant;
	cache->vacant = entry;
	cache->count--;
}

/* A new entry in the table, marked LOADING; NULL if everything is held or loading.  Mutex held. */
static struct entry *entry_admit(struct mutex_origin *cache, const void *key, size_t key_len)
{
	struct entry *entry;

	if (cache->count == cache->options.capacity) {
		struct entry *victim = victim_scan(cache);

		if (victim == NULL)
			return NULL;
		entry_vacate(cache, victim);
		cache->counts.evictions++;
		value_end(cache, victim->value);
	}
	entry = cache->vacant;
	if (entry != NULL)
		cache->vacant = entry->vacant;
	else
		entry = &cache->entries[cache->high++];
	cache->count++;
	entry->place = LOADING;
	entry->key_len = (unsigned char)key_len;
	memcpy(entry->key, key, key_len);
	HASH_ADD_KEYPTR(hh, cache->table, entry->key, key_len, entry);
	return entry;
}

/* Wait for a load that another thread runs.  Mutex held. */
static int flight_follow(struct mutex_origin *cache, struct flight *flight)
{
	int error;

	cache->counts.joins++;
	flight->followers++;
	while (!flight->done)
		pthread_cond_wait(&flight->changed, &cache->mutex);
	error = flight->error;
	if (--flight->followers == 0) {
		pthread_cond_destroy(&flight->changed);
		free(flight);
	}
	return error;
}

/* Tell the followers, who own the flight from now on.  Mutex held. */
static void flight_land(struct flight *flight, int error)
{
	flight->done = true;
	flight->error = error;
	if (flight->followers > 0) {
		pthread_cond_broadcast(&flight->changed);
	} else {
		pthread_cond_destroy(&flight->changed);
		free(flight);
	}
}

/* Run the loader for an entry that entry_admit() made.  Mutex free before and after. */
static int entry_load(struct mutex_origin *cache, struct entry *entry, larder_load_fn *loader, void *arg)
{
	void *value = NULL;
	int error = loader(entry->key, entry->key_len, arg, &value, NULL);
	struct flight *flight = entry->flight;

	pthread_mutex_lock(&cache->mutex);
	if (error == 0) {
		entry->value = value;
		entry->used = cache->clock;
		entry->place = READY;
		/* the followers' pins are taken for them, so that nobody evicts the value before they wake */
		atomic_store_explicit(&entry->pins, 1 + flight->followers, memory_order_relaxed);
	} else {
		entry_vacate(cache, entry);
		error = LARDER_ELOAD;
	}
	flight_land(flight, error);
	pthread_mutex_unlock(&cache->mutex);
	return error;
}

int mutex_origin_get(struct mutex_origin *cache, const void *key, size_t key_len, larder_load_fn *loader, void *arg,
		     struct held *held)
{
	struct flight *flight;
	struct entry *entry;
	int error = 0;

	if (key_len > IMPL_KEY_MAX)
		return -EINVAL;
	pthread_mutex_lock(&cache->mutex);
	cache->clock++;
	HASH_FIND(hh, cache->table, key, key_len, entry);
	if (entry != NULL) {
		if (entry->place == READY) {
			cache->counts.hits++;
			entry->used = cache->clock;
			atomic_fetch_add_explicit(&entry->pins, 1, memory_order_relaxed);
		} else {
			error = flight_follow(cache, entry->flight);
		}
		pthread_mutex_unlock(&cache->mutex);
	} else {
		flight = calloc(1, sizeof(*flight));
		entry = flight == NULL ? NULL : entry_admit(cache, key, key_len);
		if (entry == NULL) {
			cache->counts.busy += flight != NULL;
			pthread_mutex_unlock(&cache->mutex);
			error = flight == NULL ? -ENOMEM : -EBUSY;
			free(flight);
			return error;
		}
		pthread_cond_init(&flight->changed, NULL);
		entry->flight = flight;
		cache->counts.misses++;
		pthread_mutex_unlock(&cache->mutex);
		error = entry_load(cache, entry, loader, arg);
	}
	if (error == 0) {
		held->as.entry = entry;
		held->value = entry->value;
	}
	return error;
}

void mutex_origin_release(struct held *held)
{
	struct entry *entry = held->as.entry;

	atomic_fetch_sub_explicit(&entry->pins, 1, memory_order_release);
}

void mutex_origin_counts(struct mutex_origin *cache, struct counts *counts)
{
	pthread_mutex_lock(&cache->mutex);
	*counts = cache->counts;
	pthread_mutex_unlock(&cache->mutex);
}

/* The table of functions. */

static int origin_open(void **cache, const struct impl_options *options)
{
	struct mutex_origin *opened;
	int error = mutex_origin_open(&opened, options);

	if (error == 0)
		*cache = opened;
	return error;
}

static int origin_close(void *cache)
{
	mutex_origin_close(cache);
	return 0;
}

static int origin_get(void *cache, const void *key, size_t key_len, larder_load_fn *loader, void *arg,
		      struct held *held)
{
	return mutex_origin_get(cache, key, key_len, loader, arg, held);
}

static void origin_release(void *cache, struct held *held)
{
	(void)cache;
	mutex_origin_release(held);
}

static void origin_counts(void *cache, struct counts *counts)
{
	mutex_origin_counts(cache, counts);
}

static void origin_drive(void *cache, struct worker *worker)
{
	worker_drive(worker, cache, origin_get, origin_release);
}

const struct impl impl_mutex_origin = {
	.name = "mutex-origin",
	.traits = IMPL_EVICTS | IMPL_LOADS | IMPL_LOCKS | IMPL_MEMORY,
	.open = origin_open,
	.close = origin_close,
	.get = origin_get,
	.release = origin_release,
	.counts = origin_counts,
	.drive = origin_drive,
};
