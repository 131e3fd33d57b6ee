/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * entry.h - one key's place in the cache, and the word that runs its life.
 *
 *              begin             publish            nominate
 *     FREE ------------> LOADING --------> READY <------------> NOMINATED
 *      ^                    |                ^     held, rescue      |
 *      |                    | fail           |                       | prove
 *      |                    v                | rescue                v
 *      '---- (grace) --- FAILED              '------------------- PROVEN
 *      ^                                                             | take
 *      '---- (grace) ------------------ DEAD <-----------------------'
 *
 * word (64 bits):  askers : 20 | version : 36 | flags : 4 | phase : 4
 *
 * Every change of the phase adds 1 to the version, and every change is an atomic
 * read-modify-write of the whole word (begin and free apart, where the place is
 * private): so "the word is exactly w" means "nothing has happened to this
 * entry since w was read" (askers aside), up to the version's wrap after 2^36 changes of one
 * place between two accesses of one thread.  The lower half is the futex word.
 *
 *   step       who                     change                         order
 *   begin      leader, place private   FREE -> LOADING | IN_HAND      release, by insertion
 *   inserted   leader                  LOADING, IN_HAND off           acq_rel
 *   publish    leader                  LOADING -> READY               acq_rel
 *   fail       leader                  LOADING -> FAILED              acq_rel
 *   waiters    a follower              LOADING |= WAITERS             relaxed
 *   spend      leader                  LOADING |= IN_HAND               acq_rel
 *   want       role                    LOADING, not IN_HAND |= WANTED   acq_rel
 *   nominate   role                    READY -> NOMINATED, WANTED off seq_cst
 *   leave      a releaser              NOMINATED |= LEFT              acq_rel
 *   held       role, after a search    NOMINATED -> READY | WANTED,
 *                                      or READY if LEFT               seq_cst
 *   prove      role, after a search    NOMINATED -> PROVEN            seq_cst
 *   rescue     who has pinned it       NOMINATED, PROVEN -> READY     acq_rel
 *   ask        holder of a ticket      PROVEN, exact word: askers + 1 acq_rel
 *   unask      the same                askers - 1, any phase          acq_rel
 *   refuse     taker                   PROVEN |= REFUSED              acq_rel
 *   take       holder of a ticket      PROVEN, exact word, no other
 *                                      asker -> DEAD                  acq_rel
 *   unwant     last-looking releaser   READY | WANTED -> READY        acq_rel
 *   free       role, after grace and a search that found no slot      FREE
 *
 * Readers look with acquire, which pairs with publish: who sees READY (or a
 * phase that follows it) sees the value and the key.  "waiters" may be relaxed:
 * it and publish are read-modify-writes of one word, so publish sees it or it
 * fails and sees publish.  "nominate" is seq_cst because the search that follows
 * it must not overtake it even where the heavy barrier is a plain fence.
 *
 * What protects what:
 *   the value        published before READY, destroyed after take, which needs
 *                    the exact word that a search has proven: no pin before it,
 *                    and any later pin rescues, which changes the word.
 *   the key          written before insertion; rewritten only after free, that
 *                    is after a grace period (for those who walk a chain inside
 *                    a read-side section) and after a search (for those who
 *                    have pinned the entry and seen READY).
 *   the place        its memory stays a place of this cache until close: a late
 *                    look at the word of a successor reads a true word and does
 *                    nothing that is not right for the successor as well.
 *
 * Only entry.c writes the word.
 */
#ifndef LARDER_ENTRY_H
#define LARDER_ENTRY_H

#include <string.h>

#include "atomic.h"
#include "check.h"

enum phase {
	FREE = 0, /* zeroed memory is a free place */
	LOADING,
	READY,
	NOMINATED,
	PROVEN,
	FAILED,
	DEAD
};

#define PHASE_MASK UINT64_C(0xf)
#define WAITERS (UINT64_C(1) << 4) /* LOADING: followers sleep or are about to */
#define REFUSED (UINT64_C(1) << 5) /* PROVEN: the predicate said no, the ticket is on the refused list */
#define IN_HAND REFUSED            /* LOADING: the load has failed and its unit of capacity is no longer its own */
#define LEFT WANTED                /* NOMINATED: a pin has ended meanwhile, perhaps after the search saw it */
#define WANTED (UINT64_C(1) << 6)  /* LOADING, READY: who ends its pin tells those who need room */
#define FLAGS_MASK UINT64_C(0xf0)
#define VERSION_ONE (UINT64_C(1) << 8)
#define VERSION_MASK ((UINT64_C(1) << 44) - VERSION_ONE)
#define ASKER_ONE (UINT64_C(1) << 44)
#define ASKERS_MASK (~UINT64_C(0) << 44)

#define KEY_INLINE 24

struct entry {
	_Atomic(uint64_t) word;
	_Atomic(uintptr_t) next;  /* table: the chain; see table.h */
	_Atomic(uint64_t) stamp;  /* recency: the last get; place.c: the link of free and retired places */
	_Atomic(uintptr_t) value; /* LOADING: the leader's thread; READY: the value; FAILED: the outcome */
	uint32_t bucket;          /* table */
	uint16_t key_len;
	_Atomic(uint16_t) held; /* reclaim.c: a search found the dead place in a slot; close: it had a value */
	union {
		unsigned char bytes[KEY_INLINE];
		unsigned char *beside; /* longer keys */
	} key;
};
_Static_assert(sizeof(struct entry) == CACHE_LINE, "an entry is one line");

static inline enum phase word_phase(uint64_t word)
{
	return (enum phase)(word & PHASE_MASK);
}

static inline const unsigned char *entry_key(const struct entry *e)
{
	return e->key_len <= KEY_INLINE ? e->key.bytes : e->key.beside;
}

static inline bool entry_has_key(const struct entry *e, const void *key, size_t key_len)
{
	if (e->key_len != key_len)
		return false;
	if (LIKELY(key_len == 16)) { /* the commonest length, without a call */
		uint64_t a[2], b[2];

		memcpy(a, e->key.bytes, 16);
		memcpy(b, key, 16);
		return ((a[0] ^ b[0]) | (a[1] ^ b[1])) == 0;
	}
	if (key_len == 8) {
		uint64_t a, b;

		memcpy(&a, e->key.bytes, 8);
		memcpy(&b, key, 8);
		return a == b;
	}
	return key_len == 0 || memcmp(entry_key(e), key, key_len) == 0;
}

/* The word, with acquire: see the essay. */
static inline uint64_t entry_look(const struct entry *e)
{
	return load_acquire(&((struct entry *)(uintptr_t)e)->word);
}

/* Is e still as the ticket says? */
static inline bool entry_is(const struct entry *e, uint64_t ticket)
{
	return (entry_look(e) & ~ASKERS_MASK) == ticket;
}

/* The futex word of an entry, and the value it has when the word is `word`. */
static inline _Atomic uint32_t *entry_futex(struct entry *e)
{
	unsigned char *half = (unsigned char *)&e->word;

	return (_Atomic uint32_t *)(void *)(half + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? 4 : 0));
}

static inline uint32_t entry_futex_value(uint64_t word)
{
	return (uint32_t)word;
}

HIDDEN void entry_begin(struct entry *e);
/* The leader has inserted e into the table. */
HIDDEN void entry_inserted(struct entry *e);
/* Both return the flags that were set. */
HIDDEN uint64_t entry_publish(struct entry *e);
HIDDEN uint64_t entry_fail(struct entry *e);
/* These take the word as seen, and on failure leave in it what was found instead. */
HIDDEN bool entry_await(struct entry *e, uint64_t *seen);
HIDDEN bool entry_rescue(struct entry *e, uint64_t *seen);
HIDDEN bool entry_unwant(struct entry *e, uint64_t *seen);
HIDDEN bool entry_leave(struct entry *e, uint64_t *seen);
/* READY -> NOMINATED; false if it is anything else. */
HIDDEN bool entry_nominate(struct entry *e);
/* PROVEN, not REFUSED, nobody asking -> NOMINATED: a ticket that somebody holds becomes stale. */
HIDDEN bool entry_renominate(struct entry *e);
/* LOADING |= IN_HAND, by its leader, before the unit goes back.  Returns the flags that were set. */
HIDDEN uint64_t entry_spend(struct entry *e);
/* LOADING, not IN_HAND |= WANTED; false if it is anything else. */
HIDDEN bool entry_want(struct entry *e);
/* NOMINATED -> READY | WANTED, or READY if a pin has ended; false if it was rescued. */
HIDDEN bool entry_held(struct entry *e);
/* NOMINATED -> PROVEN, its exact word in *proven; false if it was rescued. */
HIDDEN bool entry_prove(struct entry *e, uint64_t *proven);
/* PROVEN with the exact word *ticket |= REFUSED; the new exact word in *ticket. */
HIDDEN bool entry_refuse(struct entry *e, uint64_t *ticket);
/* PROVEN with the exact word ticket -> READY: nobody's nominee any more. */
HIDDEN bool entry_spare(struct entry *e, uint64_t ticket);
/* NOMINATED -> READY: it was got after it was chosen, or nobody needs it. */
HIDDEN bool entry_unnominate(struct entry *e);
/* Begin and end to look at the value of a nominee, PROVEN with the exact word ticket. */
HIDDEN bool entry_ask(struct entry *e, uint64_t ticket);
HIDDEN void entry_unask(struct entry *e);
/*
 * PROVEN with the exact word ticket, which the caller has asked about and nobody else is
 * asking about -> DEAD: the value is the caller's to destroy, and he asks no more.
 */
HIDDEN bool entry_take(struct entry *e, uint64_t ticket);
/* Closing, nothing else runs: any phase that has a value -> DEAD; false if there is none. */
HIDDEN bool entry_close(struct entry *e);
/* FAILED or DEAD, or LOADING that was never inserted -> FREE. */
HIDDEN void entry_free(struct entry *e);

#endif
