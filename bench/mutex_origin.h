/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mutex_origin.h - the baseline that larder replaces: one mutex, one condition
 * variable a load, and a linear scan for the victim.
 *
 * A request takes the mutex, steps the clock and looks its key up.  A value that
 * is there gets the clock as its time of use.  A value that is being loaded is
 * waited for.  For an absent one, if the cache is full, all entries are scanned
 * for the least recently used one that is not held; if there is none, the request
 * is refused.  The loader runs with the mutex free.  A value is let go without
 * the mutex, by an atomic subtraction.  With one thread this is exact LRU.
 *
 * The entries lie in one array, which is the kindest layout for the scan.  Keys
 * are IMPL_KEY_MAX bytes at most.
 */
#ifndef BENCH_MUTEX_ORIGIN_H
#define BENCH_MUTEX_ORIGIN_H

#include "impl.h"

struct mutex_origin;

int mutex_origin_open(struct mutex_origin **cache, const struct impl_options *options);
/* Nobody may hold a value or wait for one. */
void mutex_origin_close(struct mutex_origin *cache);
int mutex_origin_get(struct mutex_origin *cache, const void *key, size_t key_len, larder_load_fn *loader, void *arg,
		     struct held *held);
void mutex_origin_release(struct held *held);
void mutex_origin_counts(struct mutex_origin *cache, struct counts *counts);

#endif /* BENCH_MUTEX_ORIGIN_H */
