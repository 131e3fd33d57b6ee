/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * member.h - a thread's record in a cache: its view of the clock, its share of
 * places, its counters.
 *
 * A record belongs to the cache's memory and is listed there until close.  While
 * a thread owns it, only that thread writes it; statistics read the counters.
 * When the thread ends, the record, counters included, waits for the next new
 * thread: nothing has to be folded.  A thread finds its record by the cache's
 * number in a small map of its own.  Numbers are never used again, so a stale
 * pair in the map is never followed; pairs of closed caches are dropped when the
 * map is full.
 *
 * Counters that lie on a causal chain (a value is published before it is evicted
 * before it is counted as destroyed) are stored with release and read from the
 * chain's end to its begin with acquire: so a snapshot never shows more ends than
 * begins.  The enum below is in the order of the chain.
 */
#ifndef LARDER_MEMBER_H
#define LARDER_MEMBER_H

#include "pin.h"
#include "place.h"
#include "recency.h"

enum counter {
	COUNT_HITS,
	COUNT_MISSES,
	COUNT_JOINS,
	COUNT_REFUSED_BUSY,
	COUNT_REFUSED_NOMEM,
	COUNT_REFUSED_DEADLOCK,
	COUNT_REFUSED_CLOSED,
	COUNT_ABSENT,
	COUNT_IN_PROGRESS,
	COUNT_RESCUES,
	COUNT_JOINS_SHARED,
	COUNT_JOINS_FAILED,
	COUNT_JOINS_ABANDONED,
	COUNT_LOADS_FAILED,
	COUNT_LOADS_ABANDONED,
	COUNT_LOADS_OK,
	COUNT_EVICTED_ROOM,
	COUNT_EVICTED_TRIM,
	COUNT_EVICTED_AHEAD,
	COUNT_DESTROYED,
	COUNTERS
};

struct member {
	struct recency_view view;
	_Atomic(uint64_t) count[COUNTERS];
	struct place_share share;
	_Atomic(struct thread *) owner; /* NULL: free to take over */
	struct member *next;            /* fixed once listed */
};

/* A cache's members; also its entry in the list of open caches. */
struct members {
	uint64_t id;
	struct memory *memory;
	struct places *places;
	_Atomic(struct member *) first;
	struct members *next_open; /* registry lock */
};

/* Number the cache and list it; 0 or a negative errno value. */
HIDDEN int member_setup(struct members *members, struct memory *memory, struct places *places);
/* Unlist the cache: ending threads leave its members alone from now on. */
HIDDEN void member_unlist(struct members *members);
/* Free the records. */
HIDDEN void member_close(struct members *members);
/* This thread's record, made if need be; NULL: no memory. */
HIDDEN struct member *member_enter(struct members *members);
/* As below, for a pair that is not where it should be. */
HIDDEN struct member *member_find_displaced(struct thread *self, uint64_t id);

/* This thread's record, or NULL if it has none yet.  self is not NULL. */
static inline struct member *member_find(struct thread *self, uint64_t id)
{
	struct known_cache *known = &self->known[id & self->known_mask];

	return LIKELY(known->id == id) ? known->member : member_find_displaced(self, id);
}

static inline void member_count(struct member *member, enum counter counter)
{
	/* One writer: no read-modify-write is needed. */
	store_release(&member->count[counter], load_relaxed(&member->count[counter]) + 1);
}

#endif
