/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * flight.h - one load, many who want its outcome.
 *
 * A load is an entry in LOADING.  Its leader and each follower have pinned the
 * entry before they look at its word a second time, so the outcome lies where all
 * of them can read it, whatever becomes of the entry in the table: the value may be
 * nominated or the key loaded anew, and a follower that wakes late still gets what
 * it joined (P2).
 *
 *   follower                               leader
 *   pin; word == LOADING
 *                                          value = v
 *   word |= WAITERS (cas)
 *                                          word: LOADING -> READY (cas); had WAITERS?
 *   futex_wait(word): the kernel compares                        yes: futex_wake(1)
 *   and sleeps in one step
 *
 * If the leader's change comes before the follower's, the latter fails and the
 * follower looks again; if between it and the sleep, the kernel sees another word
 * and does not sleep; if after, the leader sees WAITERS.  Nobody sleeps on a load
 * that has ended.  The leader's pin keeps the word's memory until after the wake.
 *
 * The baton.  The leader wakes one; whoever has slept wakes the next before it
 * returns.  Waking 1,000 sleepers would cost the leader 10.9 ms; waking one costs
 * it 6 us, and the last wakes about as soon (design notes, 2-core virtual machine).
 *
 * A failed load: the outcome is written, the unit of capacity goes back, and only
 * then the word becomes FAILED: so a call that begins after any follower has
 * returned finds room (P3).
 */
#ifndef LARDER_FLIGHT_H
#define LARDER_FLIGHT_H

#include "cache.h"

enum outcome_kind { OUTCOME_VALUE, OUTCOME_FAILED, OUTCOME_ABANDONED };

/* The entry is LOADING; say who leads, for those who would wait for themselves. */
static inline void flight_lead(struct entry *e, struct thread *leader)
{
	store_relaxed(&e->value, (uintptr_t)leader);
}

/*
 * e was LOADING when the caller looked: is the load led by `self`?  A value or an
 * outcome that has replaced the leader meanwhile is never the address of a thread's
 * record: those are never freed and never shown to users, and an outcome is no
 * address of 48 bits.
 */
static inline bool flight_is_led_by(struct entry *e, struct thread *self)
{
	return load_relaxed(&e->value) == (uintptr_t)self;
}

/* Wait until the load ends; *error is the loader's.  The caller has pinned e. */
HIDDEN enum outcome_kind flight_follow(struct entry *e, int *error);
/* The leader has a value.  Returns the flags that were set. */
HIDDEN uint64_t flight_publish(struct entry *e, void *value);
/*
 * The leader has none.  First this; it returns the flags that were set; then the
 * leader gives its unit of capacity back; then flight_fail().
 */
HIDDEN uint64_t flight_spend(struct entry *e, enum outcome_kind kind, int error);
HIDDEN void flight_fail(struct entry *e);

#endif
