/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * keeper.h - the background thread.
 *
 * One for the process, started with the first cache that wants it and ended with
 * the last; a cache may have one of its own.  It does what no request does sooner:
 * keeps the headroom free, frees places after a grace period, fills the ring of a
 * cache that has just become quiet.  Requests under load refill the ring themselves
 * (a keeper that does it competes with them for processors: 451 against 294 ns a
 * miss with two threads in the trial of the design notes).  It sleeps on a futex
 * while no cache has work: an idle cache costs no processor time.
 */
#ifndef LARDER_KEEPER_H
#define LARDER_KEEPER_H

#include "cache.h"

/* Start or share a keeper for the cache; 0 or a negative errno value. */
HIDDEN int keeper_join(struct larder_cache *cache, bool own);
/* The keeper leaves the cache, whatever it is doing, and ends if it was its last. */
HIDDEN void keeper_leave(struct larder_cache *cache);
/* Stand still: the keeper does nothing with this cache until keeper_resume(). */
HIDDEN void keeper_pause(struct larder_cache *cache);
HIDDEN void keeper_resume(struct larder_cache *cache);
HIDDEN void keeper_kick_slow(struct larder_cache *cache);

/* There is work. */
static inline void keeper_kick(struct larder_cache *cache)
{
	if (cache->keeper == NULL)
		return;
	fence_seq_cst(); /* pairs with the keeper's: it sees what there is to do, or we see that it has looked away */
	if (load_relaxed(&cache->work) == 0)
		keeper_kick_slow(cache);
}

#endif
