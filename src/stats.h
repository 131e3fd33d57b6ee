/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * stats.h - one snapshot of a cache's counters.
 */
#ifndef LARDER_STATS_H
#define LARDER_STATS_H

#include "cache.h"

/* Fill all members but size. */
HIDDEN void stats_read(struct larder_cache *cache, struct larder_stats *stats);
HIDDEN void stats_reset(struct larder_cache *cache);

#endif
