/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * park.h - sleep until a word changes; and a small lock made of it.
 *
 * The operating system stands behind a table of functions (after the example
 * of concurrencykit's ck_ec_ops), so that a test can count sleeps and wakes or
 * let every sleep end early.  Every sleep of the library goes through it.
 */
#ifndef LARDER_PARK_H
#define LARDER_PARK_H

#include <time.h>

#include "atomic.h"

struct park_ops {
	/*
	 * Sleep if *word == expected, until a wake, a signal, the deadline
	 * (absolute, CLOCK_MONOTONIC, NULL: none) or for no reason at all.
	 * Return: 0, or a negative errno value (-EAGAIN, -EINTR, -ETIMEDOUT).
	 * Callers look at the word again whatever it says.
	 */
	int (*wait)(_Atomic uint32_t *word, uint32_t expected, const struct timespec *deadline);
	/* Wake up to count sleepers.  Reads no memory, only the address. */
	void (*wake)(_Atomic uint32_t *word, int count);
};

/* The table in use; only tests replace it, before the first cache is opened. */
HIDDEN extern const struct park_ops *park_ops;
HIDDEN extern const struct park_ops park_linux;
/* How often a contended lock is looked at before sleeping; tests may set 0. */
HIDDEN extern unsigned park_spins;

static inline int park_wait(_Atomic uint32_t *word, uint32_t expected, const struct timespec *deadline)
{
	return park_ops->wait(word, expected, deadline);
}

static inline void park_wake(_Atomic uint32_t *word, int count)
{
	park_ops->wake(word, count);
}

/*
 * A lock.  0 free, 1 held, 2 held and perhaps awaited (U. Drepper, "Futexes
 * are tricky", mutex 2).  Never held while a user's callback runs, allocator
 * functions apart.
 */
struct lock {
	_Atomic uint32_t word;
};

HIDDEN void lock_slow(struct lock *lock);

static inline bool lock_try(struct lock *lock)
{
	uint32_t free = 0;

	return load_relaxed(&lock->word) == 0 && cas_acquire(&lock->word, &free, 1);
}

static inline void lock_enter(struct lock *lock)
{
	uint32_t free = 0;

	if (UNLIKELY(!cas_acquire(&lock->word, &free, 1)))
		lock_slow(lock);
}

static inline void lock_leave(struct lock *lock)
{
	if (UNLIKELY(exchange_acq_rel(&lock->word, 0) == 2))
		park_wake(&lock->word, 1);
}

/* Sleep for about so long; returns early for any reason.  Not a cancellation point. */
HIDDEN void park_nap(uint64_t ns);
/* CLOCK_MONOTONIC in nanoseconds. */
HIDDEN uint64_t park_now_ns(void);

#endif
