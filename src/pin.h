/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pin.h - pins: who holds which entry, written where nobody else writes.
 *
 * A pin is a pointer in a slot that belongs to the pinning thread, as hazard
 * pointers are (M. Michael, "Hazard pointers", TPDS 2004), except that it may
 * stay for as long as the user likes and be given back by any thread.
 *
 *   thread ---> chunk (28 slots) ---> chunk ...        one list of all chunks
 *     |            slot = entry       holds a pin        of the process, which
 *     |            slot = entry | 1   being given back   the searcher walks
 *     |-free--->   slot = next  | 1   free, linked
 *     '-home--->   slot = 1           free, and used first
 *
 * Pinning is   slot = entry; light barrier; look at the entry's word.
 * Searching is  change the word; heavy barrier; look at every slot.
 *
 *   pinning thread                       searching thread
 *   slot = entry
 *   (compiler barrier)                   word = NOMINATED
 *   word == READY ?                      membarrier: a full fence in every
 *                                        thread, between its call and return
 *                                        slot == entry ?
 *
 * If the fence falls before the store, the look comes after it and sees
 * NOMINATED; if it falls after the store, the search sees the slot.  Either
 * the one or the other notices (the asymmetric barrier of Linux's membarrier(2)
 * and folly's hazptr).  Where membarrier is refused, both sides use a full
 * fence; the mode is fixed before the first cache exists and never changes.
 *
 * Giving a kept pin back is   slot = entry | 1; light barrier; look at the word; link the
 * slot into the free list.  entry | 1 does not count as a pin, so the look comes
 * after the pin's end; it only tells larder_close() that a thread is still
 * looking at the entry's word.  (A pin that is undone within a get goes straight to
 * free: no get may run during close.)
 *
 * Orders.  Stores to a slot are release and the search reads with acquire: all
 * that a thread did with an entry lies before the store that ends its pin or
 * begins its next one, and so before whatever the searcher does afterwards.
 * "No slot holds it" thus also means "nobody reads it any more".
 *
 * Most threads hold one pin at a time.  A thread's home slot, the first of its first
 * chunk, serves that case with two stores and no list; home slots are known by their
 * address.  In the fenced mode no home slot is ever free, so that the shortest road
 * need not ask for the mode.
 *
 * The other free slots are linked: a thread finds one in constant time whatever it holds.
 * Slots that another thread gave back wait on the owner's `remote` stack (one
 * compare-and-swap to push, one exchange to take all: no ABA).  A thread's
 * record and its chunks outlive it, pins included, and are taken over whole by
 * the next new thread.
 */
#ifndef LARDER_PIN_H
#define LARDER_PIN_H

#include "atomic.h"
#include "check.h"

typedef _Atomic(uintptr_t) slot_t;

#define CHUNK_SIZE 256
#define CHUNK_SLOTS 28
#define SLOT_ODD ((uintptr_t)1)

struct thread;

struct chunk {
	slot_t slot[CHUNK_SLOTS];
	struct thread *owner; /* fixed */
	struct chunk *next;   /* in the list of all chunks; fixed once listed */
	uint64_t unused[2];
};
_Static_assert(sizeof(struct chunk) == CHUNK_SIZE, "a chunk is found by masking a slot's address");

/* One cache's record in a thread's map; see member.h. */
struct known_cache {
	uint64_t id; /* 0: empty */
	struct member *member;
};

/* A thread, or the place one has left.  Never freed. */
struct thread {
	slot_t *free;                        /* owner only: the first free slot, home apart */
	slot_t *home;                        /* fixed */
	uint64_t known_mask;                 /* owner only: size of known[] less 1 */
	struct known_cache *known;           /* owner only: hash map by cache id */
	_Atomic(uintptr_t) remote FAR_APART; /* first slot given back by others, or 0 */
	_Atomic(uint32_t) live;              /* 1 while a thread owns this record */
	struct thread *next;                 /* in the list of all threads; fixed once listed */
};

/* This thread's record; NULL before its first call and after its end. */
HIDDEN extern _Thread_local struct thread *pin_self;
/* Readers pay a full fence: membarrier is not to be had.  Set once. */
HIDDEN extern bool pin_fenced;

/* Choose the barrier; called by every open, does it once. */
HIDDEN void pin_setup(void);
/* Give the calling thread a record; NULL: no memory. */
HIDDEN struct thread *pin_attach(void);
/* The calling thread ends; its pins stay. */
HIDDEN void pin_detach(struct thread *self);
/* Refill self->free; NULL: no memory. */
HIDDEN slot_t *pin_more(struct thread *self);
/* The heavy barrier; false if the kernel refuses it, and then nothing is proven. */
HIDDEN bool pin_barrier(void);
/* Call visit for each slot that holds a pin, or with `leaving` for each that is being given back. */
HIDDEN void pin_search(void (*visit)(void *arg, uintptr_t entry), void *arg, bool leaving);

/* Is this the home slot of its thread?  No other slot lies at the begin of a chunk. */
static inline bool pin_is_home(const slot_t *slot)
{
	return ((uintptr_t)slot & (CHUNK_SIZE - 1)) == 0;
}

static inline void pin_light(void)
{
	if (UNLIKELY(pin_fenced))
		fence_seq_cst();
	else
		fence_compiler();
}

/* The slot that the next pin of this thread will use; not taken yet. */
static inline slot_t *pin_slot(struct thread *self)
{
	return LIKELY(self->free != NULL) ? self->free : pin_more(self);
}

/*
 * Pin entry in the slot from pin_slot().  The caller looks at the entry's word
 * next, and then calls pin_keep() or pin_undo() with what this returned.
 */
static inline uintptr_t pin_set(slot_t *slot, const void *entry)
{
	uintptr_t link = load_relaxed(slot); /* our own store, or one we acquired with `remote` */

	store_release(slot, (uintptr_t)entry);
	pin_light();
	return link;
}

/* Pin entry in the home slot, which is free; to be ended, if not kept, by pin_undo(slot, SLOT_ODD). */
static ALWAYS_INLINE void pin_set_home(slot_t *slot, const void *entry)
{
	store_release(slot, (uintptr_t)entry);
	fence_compiler(); /* not the fenced mode: see the essay */
}

static inline void pin_keep(struct thread *self, uintptr_t link)
{
	self->free = (slot_t *)(link & ~SLOT_ODD);
}

/* End a pin that was never kept; the caller looks at the entry's word next. */
static inline void pin_undo(slot_t *slot, uintptr_t link)
{
	if (FAULT(FAULT_RELEASE_RELAXED))
		store_relaxed(slot, link);
	else
		store_release(slot, link);
	pin_light();
}

/* End a kept pin; the caller looks at the entry's word, then calls pin_return(). */
static ALWAYS_INLINE void pin_leave(slot_t *slot, uintptr_t entry)
{
	if (FAULT(FAULT_RELEASE_RELAXED))
		store_relaxed(slot, entry | SLOT_ODD);
	else
		store_release(slot, entry | SLOT_ODD);
	if (LIKELY(pin_is_home(slot)))
		fence_compiler(); /* not the fenced mode */
	else
		pin_light();
}

/* Give a slot of a list back. */
HIDDEN void pin_return_listed(slot_t *slot);

static ALWAYS_INLINE void pin_return(slot_t *slot)
{
	/* Release: close acquires it and may then free what we looked at. */
	if (LIKELY(pin_is_home(slot)))
		store_release(slot, SLOT_ODD);
	else
		pin_return_listed(slot);
}

#endif
