/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * select.h - the least recently used entries, oldest first, exactly.
 *
 * No list is kept while entries are hit; the stamps of all places are read in
 * order when victims are needed, a few places for each victim, so that no one
 * pays for a whole scan.
 *
 *        already listed      the present list   the next list, being scanned
 *   ----------------------|------------------|-----------------------|------> stamp
 *   0                     .                 low                    high
 *
 * A scan begins by fixing `high`, a quantile of the stamps there are, and from
 * then on all new stamps are above it (recency_threshold).  So an entry can leave
 * the interval (low, high] while the scan runs, by being got, but none can enter
 * it: when the scan is over, the list holds every entry in it that has not been
 * got since.  It is then sorted and eaten from its old end.  Each entry at or
 * below `low` is in the hands of reclaim.c: nominated, in the ring, passed over
 * or refused; where that cannot be kept up (memory for a list ran out) everything
 * is let go and the next scan begins at 0.
 *
 * If the quantile was a bad guess and the list is full, its younger half is
 * dropped and `high` lowered to what remains: exact again, and no allocation is
 * ever needed to go on.  Sorting what a scan finds was measured at 178 to 266 ns an
 * eviction, a heap that is updated lazily at 395 to 663, a scan for each batch at 8.5 us
 * (design notes, 2-core virtual machine); the scan in small steps spares the stop of
 * milliseconds in between.
 *
 * Other policies can come behind select_next() without touching a hit.
 */
#ifndef LARDER_SELECT_H
#define LARDER_SELECT_H

#include "place.h"
#include "recency.h"

struct candidate {
	uint64_t stamp;
	uint32_t place;
	uint32_t unused;
};

#define SELECT_SMALL 64

/* Everything belongs to the role of reclaimer. */
struct select {
	struct memory *memory;
	struct candidate *list, *next; /* eaten now; scanned for now */
	struct candidate small[2][SELECT_SMALL];
	uint64_t room; /* candidates that fit in each */
	uint64_t count, eaten, next_count;
	uint64_t low, high;
	uint64_t listed;  /* the highest stamp that was ever listed: what is pinned below is in other hands */
	uint64_t scanned; /* places, of the present scan */
	uint64_t random;
	bool scanning;
	bool whole; /* high is above every stamp */
	bool tied;  /* entries of the stamp high were left out */
};

HIDDEN void select_setup(struct select *select, struct memory *memory);
HIDDEN void select_close(struct select *select);
/* Whatever is READY and has a stamp up to `low` is in other hands now; 0: nothing is. */
HIDDEN void select_from(struct select *select, uint64_t low);
/*
 * The next entry in order of its last get, with the stamp it had; it was READY
 * when it was seen.  NULL: none.
 */
HIDDEN struct entry *select_next(struct select *select, const struct places *places, struct recency *recency,
				 uint64_t *stamp);
/* Scan on for the next list, in proportion to victims chosen. */
HIDDEN void select_ahead(struct select *select, const struct places *places, struct recency *recency, uint64_t victims);

#endif
