/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * impl.h - what larder and the things it is compared with have in common.
 *
 * An implementation is a table of functions over an opaque cache.  get() and
 * release() serve the replay, the stampede and the filling; the hot loops of the
 * benchmark go through drive(), which each implementation makes from the one
 * template in loop.h, so that no indirect call stands between the loop and the
 * code that is measured.
 *
 * Loaders and destructors have the types of larder.h.  The peers pass NULL for
 * the load, since no loader here uses it.
 */
#ifndef BENCH_IMPL_H
#define BENCH_IMPL_H

#include <larder.h>
#include <stddef.h>
#include <stdint.h>

struct worker; /* loop.h */

/* The longest key that the peers store; larder itself takes any. */
#define IMPL_KEY_MAX 24

/* impl.traits */
#define IMPL_EVICTS (1u << 0) /* has a capacity, so it takes part in mixed and churn */
#define IMPL_LOADS (1u << 1)  /* many threads may miss at once, so it takes part in stampede */
#define IMPL_LOCKS (1u << 2)  /* threads sleep for each other even on a hit */
#define IMPL_MEMORY (1u << 3) /* owns its entries, so it takes part in memory */
#define IMPL_LATE (1u << 4)   /* loads before it looks for room: busy requests are misses as well */

struct impl_options {
	uint64_t capacity;          /* entries; the table is sized for it */
	larder_destroy_fn *destroy; /* NULL: nothing to do */
	void *ctx;                  /* handed to destroy */
	uint64_t seed;              /* of the hash */
	void *larder;               /* an open larder cache that floor may walk, or NULL */
};

/* A value that is held.  The union belongs to the implementation. */
struct held {
	const void *value;
	union {
		struct larder_ref ref;
		void *entry;
	} as;
};

struct counts {
	uint64_t hits;
	uint64_t misses; /* loads begun */
	uint64_t joins;
	uint64_t evictions;
	uint64_t busy;
	uint64_t overhead_bytes; /* 0 where the implementation does not know */
};

struct impl {
	const char *name;
	unsigned traits;
	/* 0 or a negative errno; *cache is set on 0 */
	int (*open)(void **cache, const struct impl_options *options);
	/* ends all values; nobody holds a pin */
	int (*close)(void *cache);
	/* 0 and a pin, or a negative errno */
	int (*get)(void *cache, const void *key, size_t key_len, larder_load_fn *loader, void *arg, struct held *held);
	void (*release)(void *cache, struct held *held);
	void (*counts)(void *cache, struct counts *counts);
	/* gets, uses and releases the worker's keys until it is to stop */
	void (*drive)(void *cache, struct worker *worker);
};

extern const struct impl impl_larder;
extern const struct impl impl_mutex_origin;
extern const struct impl impl_mutex_lru;
/* in larder-bench only */
extern const struct impl impl_floor;
extern const struct impl impl_lfht;
extern const struct impl impl_lfht_count;
extern const struct impl impl_ck_ht;

#endif /* BENCH_IMPL_H */
