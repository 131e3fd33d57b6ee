/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * park.c - the only caller of futex(2) and of the clock.
 */
#include "park.h"

#include <ck_pr.h>
#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

static int linux_wait(_Atomic uint32_t *word, uint32_t expected, const struct timespec *deadline)
{
	/* BITSET: the deadline is absolute and on CLOCK_MONOTONIC. */
	long r = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected, deadline, NULL,
			 FUTEX_BITSET_MATCH_ANY);

	return r == 0 ? 0 : -errno;
}

static void linux_wake(_Atomic uint32_t *word, int count)
{
	(void)syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL, NULL, 0);
}

const struct park_ops park_linux = { linux_wait, linux_wake };
const struct park_ops *park_ops = &park_linux;
unsigned park_spins = 128;

void lock_slow(struct lock *lock)
{
	/*
	 *   sleeper                              holder
	 *   exchange -> 2, was 1 or 2
	 *                                        exchange -> 0, was 2
	 *   wait(2): the kernel reads 0 != 2,                    wake(1)
	 *   returns at once
	 *
	 * Whoever slept holds the lock as 2: others may sleep beside it.
	 */
	for (unsigned i = 0; i < park_spins; i++) {
		if (lock_try(lock))
			return;
		ck_pr_stall(); /* concurrencykit: the processor's pause instruction */
	}
	while (exchange_acq_rel(&lock->word, 2) != 0)
		park_wait(&lock->word, 2, NULL);
}

void park_nap(uint64_t ns)
{
	uint64_t end = park_now_ns() + ns;
	struct timespec deadline = { (time_t)(end / 1000000000), (long)(end % 1000000000) };
	_Atomic uint32_t never = 0;

	park_wait(&never, 0, &deadline);
}

uint64_t park_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}
