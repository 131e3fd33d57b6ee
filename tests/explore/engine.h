/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * engine.h - what the explorer's own files share.
 */
#ifndef ENGINE_H
#define ENGINE_H

#include "explore.h"

enum mode {
	MODE_RANDOM, /* any thread next */
	MODE_PCT,    /* the thread of highest priority next; a few changes of priority */
	MODE_DFS     /* all schedules with at most so many deviations from "run on" */
};

struct plan {
	enum mode mode;
	uint64_t seed;
	uint64_t number;   /* of the schedule, from 1 */
	unsigned depth;    /* PCT: changes of priority, plus 1; DFS: deviations allowed */
	bool fenced;       /* membarrier is refused */
	uint64_t length;   /* PCT: about how many steps a schedule has */
	bool all_points;   /* atomic objects that are not shared are scheduling points, too */
	bool plain_points; /* and plain accesses */
	bool strong;       /* loads return the latest value always */
};

/* ---- sched.c: whose turn ---- */

enum wake_cause { WAKE_CALLED, WAKE_TIMEOUT, WAKE_STRAY };

struct run_result {
	bool ok;
	uint64_t steps;
	char message[512];
};

extern unsigned current; /* number of the present thread, or MAIN */
extern bool serial;      /* only one thread exists: no scheduling, nothing to race with */
extern struct plan plan; /* of the present schedule */

void sched_setup(void);
void sched_run(const struct scenario *scenario, const struct plan *plan, struct run_result *result);
/* DFS: make ready for the next schedule; false: that was the last. */
bool sched_dfs_next(void);
void sched_dfs_begin(void);
/* Before each operation that others can see. */
void sched_point(void);
/* An operation whose order makes no difference; it may be one of an endless loop. */
void sched_quiet_step(void);
void sched_yield_turn(void);
/* The present thread cannot go on until ready(thread) says so. */
void sched_block(bool (*ready)(unsigned thread));
/* The present thread sleeps on an address; how it was woken. */
enum wake_cause sched_sleep(const void *address, bool has_deadline);
/* How many of those who sleep there were woken. */
int sched_wake(const void *address, int count);
/* One of n; 0 is what usually happens.  stale: choosing another costs a deviation. */
unsigned sched_choose_stale(unsigned n);
unsigned sched_choose_any(unsigned n);
/* One in n, never in DFS. */
bool sched_chance(unsigned n);
uint64_t sched_steps(void);

/* ---- memory.c: values and races ---- */

enum order { RELAXED, CONSUME, ACQUIRE, RELEASE, ACQ_REL, SEQ_CST }; /* as the compiler numbers them */
enum rmw { RMW_EXCHANGE, RMW_ADD, RMW_SUB, RMW_AND, RMW_OR, RMW_XOR, RMW_NAND };

struct clock {
	uint32_t of[THREADS];
};

void memory_setup(void);
void memory_begin(void);
/* The threads begin: what is allocated from now on counts as shared. */
void memory_threads_begin(void);
/* Must the order of accesses to an atomic object at p be explored? */
bool memory_shared(const void *p);
void memory_unlearn(void);
void memory_learn(bool on);
/* Since it was asked last. */
bool memory_has_learned(void);
/* Heap, and the subject's static data. */
#define REGIONS 3
extern struct watched {
	uintptr_t begin;
	size_t size;
} watched[REGIONS];

static inline bool memory_watched(const void *p)
{
	for (unsigned i = 0; i < REGIONS; i++)
		if ((uintptr_t)p - watched[i].begin < watched[i].size)
			return true;
	return false;
}

void memory_plain(const void *p, size_t n, bool write, const void *pc);
uint64_t memory_load(const void *p, unsigned size, int order, const void *pc);
void memory_store(void *p, unsigned size, uint64_t v, int order, const void *pc);
uint64_t memory_rmw(void *p, unsigned size, enum rmw op, uint64_t v, int order, const void *pc);
bool memory_cas(void *p, unsigned size, uint64_t *expected, uint64_t desired, int order, int failure, bool weak,
		const void *pc);
void memory_fence(int order);
/* A full fence that another thread's processor is made to execute, and what it orders (membarrier). */
void memory_barrier_begin(unsigned caller);
void memory_barrier_deliver(unsigned caller, unsigned thread);
void memory_barrier_end(unsigned caller);
/* Explicit edges: what the present thread did lies in the clock; what lies in the clock is before what it does. */
void memory_release(struct clock *clock);
void memory_acquire(const struct clock *clock);
void memory_join(struct clock *into, const struct clock *from);
/* The present thread's futex(2) or the kernel reads the word as it is. */
uint32_t memory_peek32(const void *p);

/* ---- runtime.c: the subject's environment ---- */

void runtime_begin(void);
/* Called at each point for the thread that goes on. */
void runtime_deliver(void);
/* A thread's end: destructors of thread-specific data. */
void runtime_thread_end(void);
/* Its section must be closed. */
void runtime_thread_check(unsigned thread);

/* ---- trace.c ---- */

extern bool tracing;
void trace_begin(void);
void trace_event(const char *what, const void *p, uint64_t a, uint64_t b, int order, const void *pc);
void trace_print(void);
/* "file:line (function)" of a code address, in one of a few static buffers. */
const char *trace_place(const void *pc);
const char *heap_name(const void *p, char *buffer, size_t size);

/* ---- oracle.c ---- */

void oracle_begin(void);

/* ---- explore.c ---- */

/* The fault to simulate, where the subject is built for it; 0: none. */
extern int explore_fault;

#endif
