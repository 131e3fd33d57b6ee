/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * place.h - the memory of entries: slabs of places, free ones, retired ones.
 *
 *   slab (64 KiB, aligned)   head | 1,023 places of 64 bytes
 *   directory                slab number -> slab, for scans in order
 *   set                      is this address in one of our slabs?
 *
 * A place goes   free -> (spare of a thread) -> in use -> (dead of a thread)
 * -> retired -> free.  From retired to free it needs both a grace period (a
 * thread that walks a chain inside a read-side section may stand on it) and a
 * search that finds it in no slot (a thread may have pinned it, to look at its
 * word or to read the outcome of a failed load).  reclaim.c makes both happen.
 *
 * Slabs are given back only by close.  So a pointer to a place, however stale,
 * always points to a place of this cache, and its atomic members may be read.
 * That is what lets a hit walk a chain without a read-side section (larder.c),
 * and a release look at a word after its pin has ended.
 *
 * How many places there are: as many as were ever in use, retired or spare at
 * once.  In use are at most `capacity` plus failed loads that followers still
 * read; when `retire_limit` are retired, who retires one more waits for a grace period
 * for them, unless another thread is at it.
 *
 * One lock guards the free and the retired list; a thread takes and returns
 * places sixteen at a time.
 */
#ifndef LARDER_PLACE_H
#define LARDER_PLACE_H

#include "entry.h"
#include "memory.h"
#include "park.h"

#define SLAB_SIZE ((size_t)65536)
#define SLAB_PLACES (SLAB_SIZE / sizeof(struct entry) - 1)
#define PLACE_BATCH 16

/* How many places a thread keeps at hand, and 0 or a retire_limit; tests set them small. */
HIDDEN extern uint32_t place_batch;
HIDDEN extern uint64_t place_retire_limit;

struct slab {
	void *owner; /* the cache */
	uint64_t unused[7];
	struct entry place[SLAB_PLACES];
};
_Static_assert(sizeof(struct slab) == SLAB_SIZE, "a slab is found by masking a place's address");

/* Grows by replacement; the old one stays until close, for readers without a lock. */
struct slab_directory {
	struct slab_directory *older;
	size_t bytes;
	uint64_t room;                 /* slabs that fit */
	uint64_t set_mask;             /* size of set[] less 1; at least twice room */
	_Atomic(uintptr_t) *set;       /* open addressing by address */
	_Atomic(struct slab *) slab[]; /* in order; then the set */
};

struct places {
	struct memory *memory;
	void *owner;
	uint64_t retire_limit; /* this many retired places call for a grace period */
	uint64_t limit;        /* so many places are enough, unless followers hold on to failed ones */
	_Atomic(struct slab_directory *) directory;
	_Atomic(uint64_t) used; /* places [0, used) have been handed out at least once */
	FAR_APART struct lock lock;
	uint64_t slabs;                  /* lock */
	struct entry *free;              /* lock; linked by the stamp */
	struct entry *retired;           /* lock; likewise */
	struct entry *retired_last;      /* lock */
	_Atomic(uint64_t) retired_count; /* lock to write */
	struct lock grace_lock;          /* one grace period at a time; taken before lock */
};

/* A thread's share, part of its record in the cache. */
struct place_share {
	uint32_t spare_count, dead_count;
	struct entry *spare[PLACE_BATCH];
	struct entry *dead[PLACE_BATCH];
};

HIDDEN void place_setup(struct places *places, struct memory *memory, void *owner, uint64_t capacity);
/* Give all slabs back; long keys too. */
HIDDEN void place_close(struct places *places);

/*
 * Free and retired places are linked through their stamps, which mean nothing
 * in these phases.  Not through the key: a walker of a chain may still read it.
 */
static inline struct entry *place_next(const struct entry *e)
{
	return (struct entry *)(uintptr_t)load_relaxed(&((struct entry *)(uintptr_t)e)->stamp);
}

static inline void place_link(struct entry *e, struct entry *next)
{
	store_relaxed(&e->stamp, (uint64_t)(uintptr_t)next);
}

/* A free place, or NULL: no memory, or it takes a slab more than the limit and `beyond` is false. */
HIDDEN struct entry *place_get(struct places *places, struct place_share *share, bool beyond);
/* Back from place_get(), never inserted into the table. */
HIDDEN void place_put(struct places *places, struct place_share *share, struct entry *e);
/* FAILED or DEAD and unlinked.  True if enough places wait to call for a grace period. */
HIDDEN bool place_retire(struct places *places, struct place_share *share, struct entry *e);
/* The thread leaves: its share goes back. */
HIDDEN void place_return(struct places *places, struct place_share *share);

/* Take the whole retired list, linked; NULL if it is empty. */
HIDDEN struct entry *place_take_retired(struct places *places);
/* Make a linked list of them free, but put back as retired those that held() names. */
HIDDEN void place_free(struct places *places, struct entry *list, bool (*held)(struct entry *e));

/* The cache of a place. */
static inline void *place_owner(const struct entry *e)
{
	return ((struct slab *)((uintptr_t)e & ~(uintptr_t)(SLAB_SIZE - 1)))->owner;
}

/* Is this the address of one of our places?  Any thread, no lock. */
HIDDEN bool place_is_ours(const struct places *places, uintptr_t address);

/* The i-th place, i < used. */
static inline struct entry *place_at(const struct slab_directory *directory, uint64_t i)
{
	struct slab *slab = load_acquire(&((struct slab_directory *)(uintptr_t)directory)->slab[i / SLAB_PLACES]);

	return &slab->place[i % SLAB_PLACES];
}

#endif
