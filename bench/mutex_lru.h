/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mutex_lru.h - the baseline that everybody writes first: one mutex, a hash
 * table (uthash), an intrusive list in order of use, and reference counts.
 *
 * A hit takes the mutex, moves the entry to the front and counts a reference; a
 * value is let go without the mutex, by an atomic subtraction.  The loader runs
 * with the mutex free and nobody waits for it: threads that miss the same key all
 * load it, and all but the first throw their value away.  When the cache is full
 * the last entry of the list that nobody holds makes room.  The key is hashed
 * before the mutex is taken.  Keys are IMPL_KEY_MAX bytes at most.
 */
#ifndef BENCH_MUTEX_LRU_H
#define BENCH_MUTEX_LRU_H

#include "impl.h"

struct mutex_lru;

int mutex_lru_open(struct mutex_lru **cache, const struct impl_options *options);
/* Nobody may hold a value. */
void mutex_lru_close(struct mutex_lru *cache);
int mutex_lru_get(struct mutex_lru *cache, const void *key, size_t key_len, larder_load_fn *loader, void *arg,
		  struct held *held);
void mutex_lru_release(struct held *held);
void mutex_lru_counts(struct mutex_lru *cache, struct counts *counts);

#endif /* BENCH_MUTEX_LRU_H */
