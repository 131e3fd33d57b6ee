/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * room.h - units of capacity.
 *
 * Every value that is alive and every load that runs holds one unit; so the
 * bound (P6) holds by construction.  `free` counts the units that nothing
 * holds.  A unit is taken by "decrement if positive", never by add-then-undo,
 * which would refuse others falsely.  A request that evicts takes the victim's
 * unit over without touching `free`: in a full cache nobody writes this word.
 *
 * A unit that a thread has in its hands, between a victim's death or the free
 * count and an entry, is counted nowhere.  The verdict in reclaim.c notices it:
 * what it found at one instant must add up to the capacity.
 */
#ifndef LARDER_ROOM_H
#define LARDER_ROOM_H

#include "atomic.h"
#include "check.h"

struct room {
	uint64_t capacity;
	uint64_t headroom; /* the background thread keeps this many free */
	FAR_APART _Atomic(uint64_t) free;
};

static inline void room_setup(struct room *room, uint64_t capacity, uint64_t headroom)
{
	room->capacity = capacity;
	room->headroom = headroom;
	store_relaxed(&room->free, capacity);
}

static inline uint64_t room_free(const struct room *room)
{
	return load_acquire(&((struct room *)(uintptr_t)room)->free);
}

static inline bool room_take(struct room *room)
{
	uint64_t free = load_relaxed(&room->free);

	while (free != 0)
		if (cas_acq_rel(&room->free, &free, free - 1))
			return true;
	return false;
}

/* acq_rel pairs with room_take: the dead value's end lies before the next load. */
static inline void room_give(struct room *room)
{
	uint64_t was = add_acq_rel(&room->free, 1);

	CHECK(was < room->capacity);
	(void)was;
}

#endif
