/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * clock.h - the clocks of the benchmarks and the processors they run on.
 *
 * Wall time is CLOCK_MONOTONIC, processor time CLOCK_THREAD_CPUTIME_ID, both in
 * nanoseconds.  A thread is bound to one processor of those the process may use;
 * more threads than processors wrap around.
 */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <sched.h>
#include <stdint.h>
#include <time.h>

static inline uint64_t clock_read(clockid_t which)
{
	struct timespec now;

	clock_gettime(which, &now);
	return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

static inline uint64_t clock_ns(void)
{
	return clock_read(CLOCK_MONOTONIC);
}

static inline uint64_t clock_thread_ns(void)
{
	return clock_read(CLOCK_THREAD_CPUTIME_ID);
}

static inline void clock_sleep_ns(uint64_t duration_ns)
{
	struct timespec left = { (time_t)(duration_ns / 1000000000), (long)(duration_ns % 1000000000) };

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &left, &left) != 0)
		;
}

/* How many processors the process may use. */
static inline unsigned cpu_count(void)
{
	cpu_set_t allowed;

	if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return 1;
	return (unsigned)CPU_COUNT(&allowed);
}

/*
 * Bind the calling thread to the @nth of the processors in @allowed, counted
 * round and round.  A refusal leaves the thread where the kernel puts it.
 */
static inline void cpu_bind(const cpu_set_t *allowed, unsigned nth)
{
	unsigned left = nth % (unsigned)CPU_COUNT(allowed);
	cpu_set_t one;

	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, allowed) || left-- != 0)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
		return;
	}
}

#endif /* BENCH_CLOCK_H */
