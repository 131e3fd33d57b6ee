/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * reclaim.h - making room: nominate, prove, hand out, destroy, free.
 *
 *   select_next()      the least recent READY entries, oldest first
 *   nominate           READY -> NOMINATED, a batch
 *   pin_barrier()      one heavy barrier for the batch
 *   search             all slots, once: held ones back to READY | WANTED
 *   prove              the rest to PROVEN, each with its exact word into the ring
 *   take               anybody who needs room pops the oldest, asks the predicate,
 *                      PROVEN -> DEAD by the exact word, unlinks, destroys, and has
 *                      the victim's unit of capacity in his hands
 *
 * Until it is taken a nominee is in the table and is a hit: the hit rescues it,
 * which changes its word and makes its ticket stale.  So victims are ready before
 * they are needed, the whole capacity is useful, and the order is that of use.
 *
 * The role of reclaimer is a lock: everything that nominates holds it.  No user's
 * callback runs under it: tickets are copied, the role given up, then the
 * predicate asked.  It is held by whoever needs victims first, most often a request
 * that finds less than a batch in the ring and takes the role without waiting; a
 * request that finds the ring empty waits for it, which blocks; so does who
 * retires the place that calls for a grace period.
 *
 * Three ways an entry is not taken although it is old:
 *   pinned    it goes on the list of those passed over, READY | WANTED.  The release
 *             of a WANTED entry sets ATTEND_CHANGED, and the next who needs room
 *             looks at the list first and merges what has become idle into the ring
 *             by its stamp.  (Otherwise a younger one in the ring would go first:
 *             F11 of the design notes.)
 *   refused   the predicate said no: PROVEN | REFUSED, its ticket on a list of its
 *             own.  Each admission asks up to 16 of them again, oldest first, round
 *             robin; all of them before a refusal.
 *   got       its stamp or its word has changed: forgotten, it is young now.
 * Where the lists cannot be kept up (no memory, a full ring) everything but the refused
 * is let go and selected anew: begin_anew() in reclaim.c.
 *
 * Asking.  Who holds a ticket counts himself among the entry's askers, pins it in a slot
 * of his own, looks once more, and only then asks the predicate.  The pin keeps the value alive against a
 * get and a new nomination, the count against another holder of the same ticket, of whom
 * there can be several for a refused one.  A request never takes an entry of the key that
 * it is about to load: it may have come since it looked.
 *
 * The verdict "busy" (P7).  Under the role: every READY entry and every nominee
 * that somebody has in his hands, but for those being asked about, is nominated, every LOADING one marked WANTED, then
 * the barrier, at instant m, then the search.  If nothing is unheld, then at m
 *    pinned   = nominees that the search found held, their words unchanged since
 *    loading  = entries LOADING and WANTED now, and not IN_HAND: a load that began after
 *               the marking is not WANTED; one that is not inserted yet, or has failed,
 *               is IN_HAND; so these have held theirs since before m, and whoever asks
 *               for one of their keys finds it
 *    refused  = tickets whose words are still exact after the predicate said no again
 * each held one unit at m, and all of them different ones.  If they add up to the
 * capacity then none was free or on its way, and the answer is busy.  If not, units
 * were on their way: look again, eight times at most, and then say how many were.
 * The counts stay valid, and further refusals cost no pass, until ATTEND_CHANGED
 * (the end of a pin or a load that the pass marked) or a free unit: what was pinned
 * has been pinned by the same pin all along.
 *
 * The memory of entries.  Dead and failed places are collected; when there are enough,
 * who retires one waits for a grace period of the table, makes a barrier, searches the
 * slots and frees those that none holds.
 */
#ifndef LARDER_RECLAIM_H
#define LARDER_RECLAIM_H

#include "cache.h"

#define ATTEND_CHANGED 1u /* a WANTED entry was released or its load has ended */
#define ATTEND_REFUSED 2u /* the list of refused ones is not empty */

enum cause {
	CAUSE_ROOM,  /* a request needs a unit: a free one will do */
	CAUSE_TRIM,  /* larder_trim() */
	CAUSE_AHEAD, /* headroom */
};

/* The key that the caller is about to load. */
struct wish {
	const void *key;
	size_t key_len;
};

enum evicted {
	EVICTED,      /* a unit of capacity is in the caller's hands */
	EVICT_WISHED, /* the victim would have been the wished key itself: it is here now */
	EVICT_BUSY,   /* there is none to be had */
	EVICT_NOMEM,  /* no memory to ask the predicate safely */
};

HIDDEN bool reclaim_setup(struct larder_cache *cache);
HIDDEN void reclaim_close(struct larder_cache *cache);

/* One unit of capacity, by eviction if need be.  refusal is filled on EVICT_BUSY. */
HIDDEN enum evicted reclaim_evict(struct larder_cache *cache, struct member *member, enum cause cause,
				  const struct wish *wish, struct larder_refusal *refusal);
/* A pin on e has ended, and then its word was not plainly READY. */
HIDDEN void reclaim_unpinned(struct entry *e, uint64_t word);
/* A load that somebody counted on has ended. */
HIDDEN void reclaim_attend(struct larder_cache *cache);
/* A place for a new entry; waits for a grace period if memory is short.  NULL: no memory. */
HIDDEN struct entry *reclaim_place(struct larder_cache *cache, struct member *member);
/* e is failed or dead and unlinked. */
HIDDEN void reclaim_retire(struct larder_cache *cache, struct member *member, struct entry *e);
/* Is there background work?  Do one piece of it; false: nothing was to be done. */
HIDDEN bool reclaim_has_work(struct larder_cache *cache);
HIDDEN bool reclaim_work(struct larder_cache *cache, struct member *member, bool wait);
/* How many pins are out, how many loads among them, how many slots are being given back. */
HIDDEN void reclaim_count_pins(struct larder_cache *cache, uint64_t *pins, uint64_t *loads, uint64_t *leaving);

/* Call a callback with cancellation held back. */
HIDDEN void reclaim_destroy(struct larder_cache *cache, void *value);

/*
 * End the pin in slot on e.  Every end of every kept pin goes through here (or through
 * its twin for home slots in larder_release()), whatever
 * it was for: a transient pin can be the one that a search has found.
 */
static ALWAYS_INLINE void reclaim_release(slot_t *slot, struct entry *e)
{
	uint64_t word;

	pin_leave(slot, (uintptr_t)e);
	word = entry_look(e);
	if (UNLIKELY(word_phase(word) != READY || (word & WANTED) != 0))
		reclaim_unpinned(e, word);
	pin_return(slot);
}

#endif
