/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * impl_larder.c - larder as the benchmarks and the replay use it: larder_get()
 * and larder_release() and nothing that a program could not do.
 */
#include "loop.h"

static int larder_impl_open(void **cache, const struct impl_options *impl_options)
{
	struct larder_options options;
	struct larder_cache *opened;
	int error;

	larder_options_init(&options);
	options.capacity = impl_options->capacity;
	options.destroy = impl_options->destroy;
	options.ctx = impl_options->ctx;
	options.flags = LARDER_SEED;
	options.seed = impl_options->seed;
	error = larder_open(&opened, &options);
	if (error == 0)
		*cache = opened;
	return error;
}

static int larder_impl_close(void *cache)
{
	return larder_close(cache);
}

static inline int larder_impl_get(void *cache, const void *key, size_t key_len, larder_load_fn *loader, void *arg,
				  struct held *held)
{
	int error = larder_get(cache, key, key_len, loader, arg, &held->as.ref);

	if (error == 0)
		held->value = larder_value(&held->as.ref);
	return error;
}

static inline void larder_impl_release(void *cache, struct held *held)
{
	(void)cache;
	larder_release(&held->as.ref);
}

static void larder_impl_counts(void *cache, struct counts *counts)
{
	struct larder_stats stats;

	larder_stats_init(&stats);
	larder_stats(cache, &stats);
	*counts = (struct counts){
		.hits = stats.hits,
		.misses = stats.misses,
		.joins = stats.joins,
		.evictions = stats.evicted_room + stats.evicted_trim + stats.evicted_ahead,
		.busy = stats.refused_busy,
		.overhead_bytes = stats.overhead_bytes,
	};
}

static void larder_impl_drive(void *cache, struct worker *worker)
{
	worker_drive(worker, cache, larder_impl_get, larder_impl_release);
}

const struct impl impl_larder = {
	.name = "larder",
	.traits = IMPL_EVICTS | IMPL_LOADS | IMPL_MEMORY,
	.open = larder_impl_open,
	.close = larder_impl_close,
	.get = larder_impl_get,
	.release = larder_impl_release,
	.counts = larder_impl_counts,
	.drive = larder_impl_drive,
};
