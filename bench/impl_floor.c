/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * impl_floor.c - the least that a hit can cost with larder's layout: XXH3 of the
 * key, the walk along its bucket and the comparison of the key, over the very
 * entries that a larder cache has filled in.  No pin, no read-side section, no
 * stamp, so it is right only while nothing is evicted.
 *
 * The walk is a function of the library that its shared form does not export.
 * larder-bench is therefore linked against libcore.la, and larder_get() is
 * called in it directly, as table_floor() is, and not through the procedure
 * linkage table.
 *
 * Where the benchmark has a larder cache of the same work open, floor walks that
 * one; alone, it opens one of its own.
 */
#include "loop.h"
#include "table.h"
#include <stdlib.h>

struct floor_cache {
	void *larder;
	bool borrowed;
};

static int floor_open(void **cache, const struct impl_options *options)
{
	struct floor_cache *opened = malloc(sizeof(*opened));
	int error = 0;

	if (opened == NULL)
		return -ENOMEM;
	opened->larder = options->larder;
	opened->borrowed = options->larder != NULL;
	if (!opened->borrowed)
		error = impl_larder.open(&opened->larder, options);
	if (error != 0)
		free(opened);
	else
		*cache = opened;
	return error;
}

static int floor_close(void *cache)
{
	struct floor_cache *open = cache;
	int error = open->borrowed ? 0 : impl_larder.close(open->larder);

	if (error == 0)
		free(open);
	return error;
}

/* For the filling only. */
static int floor_get(void *cache, const void *key, size_t key_len, larder_load_fn *loader, void *arg, struct held *held)
{
	return impl_larder.get(((struct floor_cache *)cache)->larder, key, key_len, loader, arg, held);
}

static void floor_release(void *cache, struct held *held)
{
	impl_larder.release(((struct floor_cache *)cache)->larder, held);
}

static void floor_counts(void *cache, struct counts *counts)
{
	(void)cache;
	*counts = (struct counts){ 0 };
}

static inline int floor_walk(void *cache, const void *key, size_t key_len, larder_load_fn *loader, void *arg,
			     struct held *held)
{
	(void)loader;
	(void)arg;
	held->value = table_floor(cache, key, key_len);
	return held->value != NULL ? 0 : -ENOENT;
}

static inline void floor_forget(void *cache, struct held *held)
{
	(void)cache;
	(void)held;
}

static void floor_drive(void *cache, struct worker *worker)
{
	worker_drive(worker, ((struct floor_cache *)cache)->larder, floor_walk, floor_forget);
}

const struct impl impl_floor = {
	.name = "floor",
	.traits = 0,
	.open = floor_open,
	.close = floor_close,
	.get = floor_get,
	.release = floor_release,
	.counts = floor_counts,
	.drive = floor_drive,
};
