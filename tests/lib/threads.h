/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * threads.h - gates, meetings, crews of threads, random numbers.
 *
 * A race is staged, not hoped for: a gate holds a loader, a predicate or a destroy
 * callback where the test wants it, and until() waits for the library's own
 * counters.  Everything here is made of C11 atomics and futex(2): no lock that would
 * hide a race from a sanitizer, no cancellation point, fit for signal handlers.
 */
#ifndef TESTS_THREADS_H
#define TESTS_THREADS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* ---- random numbers: xorshift64* (Vigna), each thread its own --------------- */

struct rng {
	uint64_t state;
};

/* SEED of the environment, or a random number; printed on the first call. */
uint64_t test_seed(void);
/* A generator; different for each `which`, the same for the same seed. */
struct rng rng_make(uint64_t which);
uint64_t rng_next(struct rng *rng);
/* 0 to n - 1. */
uint64_t rng_below(struct rng *rng, uint64_t n);
/* True once in n times. */
bool rng_once_in(struct rng *rng, uint64_t n);
/* Do nothing for about so many nanoseconds, 0: at once. */
void spin_ns(uint64_t ns);

/* ---- gates ------------------------------------------------------------------ */

/* Shut when zeroed.  passed counts arrivals, for until(). */
struct gate {
	_Atomic uint32_t open;
	_Atomic uint32_t arrived;
};

void gate_wait(struct gate *gate);
void gate_open(struct gate *gate);
/* Shut again; nobody may be waiting. */
void gate_reset(struct gate *gate);

/* ---- meetings ---------------------------------------------------------------- */

/* All wait until all are there; may be used again at once. */
struct meeting {
	uint32_t members;
	_Atomic uint32_t missing;
	_Atomic uint32_t turn;
};

void meeting_setup(struct meeting *meeting, uint32_t members);
void meeting_wait(struct meeting *meeting);

/* ---- crews -------------------------------------------------------------------- */

struct crew;

struct worker {
	struct crew *crew;
	unsigned index;
	struct rng rng;
	void *arg;
	pthread_t thread;
};

typedef void work_fn(struct worker *worker);

struct crew {
	unsigned count;
	struct meeting meeting; /* of the workers, for the work function's own use */
	struct meeting start;
	work_fn *work;
	struct worker *worker;
};

/* Threads that begin together. */
void crew_start(struct crew *crew, unsigned count, work_fn *work, void *arg);
void crew_join(struct crew *crew);
/* Both. */
void crew_run(unsigned count, work_fn *work, void *arg);

/* One thread. */
pthread_t thread_start(void *(*run)(void *), void *arg);
void *thread_join(pthread_t thread);

/*
 * Sleep until this thread is cancelled.  Not in pause() under a thread sanitizer: a
 * thread that is cancelled inside one of its interceptors is blind to its own atomics
 * from then on, and races are reported that are none.
 */
void await_cancellation(void) __attribute__((noreturn));

/* Let this thread, and those it will create, run on so many processors; 0: on all there were. */
void cpus(unsigned count);

#endif
