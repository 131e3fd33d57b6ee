/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * explore.h - run the library's own object code under every schedule we can think of.
 *
 *   src, scenarios.c        compiled with -fsanitize=thread, but not linked with its
 *   (the subject)           runtime: every access and every atomic becomes a call
 *          |
 *          v
 *   runtime.c               ... of one of these functions, and of these in place of
 *          |                the C library, of futex(2), of membarrier(2), of liburcu
 *          +--> memory.c    which values may a load see?  is there a data race?
 *          '--> sched.c     whose turn is it?
 *
 *   explore.c               scenarios, modes, numbers of schedules; reports
 *   oracle.c                what the library promised, counted from outside
 *   trace.c                 what happened, with file and line
 *
 * The threads of a scenario are contexts that one real thread runs in turn, so a
 * switch costs nanoseconds and a schedule is a function of its number alone: all
 * state of the subject (its static data, its thread-local data, its heap) is as it
 * was at program start when a schedule begins.
 *
 * Each file says at its head what it simulates and what it does not.
 */
#ifndef EXPLORE_H
#define EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Concurrent threads of a scenario, at most; and the thread that sets up and clears away. */
#define THREADS 4
#define MAIN THREADS

struct scenario {
	const char *name;
	const char *what;            /* one line for people */
	unsigned threads;            /* 1 to THREADS */
	bool ending;                 /* the threads end while others run; else after all have stopped */
	bool cold;                   /* enter() runs concurrently, as part of body() */
	void (*prepare)(void);       /* MAIN, before the threads */
	void (*enter)(void);         /* each thread, one after the other; NULL: nothing */
	void (*body[THREADS])(void); /* all at once */
	void (*finish)(void);        /* MAIN, after the threads */
};

/* Number of the present thread, or MAIN. */
unsigned explore_self(void);
/* Anything may happen here. */
void explore_point(void);
/* A turn of a loop that waits: others first. */
void explore_yield(void);
/* The schedule has failed; does not return. */
_Noreturn void explore_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define EXPLORE_CHECK(x) ((x) ? (void)0 : explore_fail("%s:%d: %s", __FILE__, __LINE__, #x))
/* Hand a pointer to another thread, with release and acquire; one cell a channel, 8 channels. */
void explore_send(unsigned channel, void *message);
void *explore_receive(unsigned channel);
/* As pthread_exit() does: unwind this thread's stack, running clean-up handlers; the thread ends. */
_Noreturn void explore_leave(void);
/* Is the thread inside a read-side section? */
bool explore_reading(void);
/* Has a load returned an old value, so that threads disagree about what comes before what? */
bool explore_stale(void);

/* Memory that is watched: zeroed, never used again within a schedule. */
enum heap { HEAP_PROCESS, HEAP_CACHE, HEAP_VALUE, HEAPS };
void *explore_alloc(size_t size, size_t align, enum heap heap);
void explore_free(void *ptr, enum heap heap);
/* Blocks and bytes not freed. */
size_t explore_live(enum heap heap);
size_t explore_live_bytes(enum heap heap);

/* ---- oracle.c: what was promised, counted from outside ---- */

/* Keys of scenarios are small numbers. */
#define KEYS_MAX 32

/* A value: the scenarios' loaders write it, destroy wipes it. */
struct value {
	uint64_t begin;
	uint64_t key;
	uint64_t serial;
	uint64_t end;
};
#define VALUE_BEGIN UINT64_C(0x1ee7c0de1ee7c0de)
#define VALUE_END UINT64_C(0x5afe5afe5afe5afe)
#define VALUE_WIPED UINT64_C(0xdeaddeaddeaddead)

void oracle_capacity(uint64_t capacity);
/* All keys have the same hash. */
void oracle_one_hash(void);
/* A loader begins; the number of loads of this key so far, from 1. */
unsigned oracle_load_begins(uint64_t key);
/* It ends: with a value, or NULL. */
void oracle_load_ends(uint64_t key, const struct value *value, bool abandoned);
/* The destroy callback is called, and is about to return. */
void oracle_destroy_begins(const struct value *value);
void oracle_destroy_ends(const struct value *value);
/* The predicate is asked. */
void oracle_asked(const struct value *value, bool yes);
/* It would say no about the key's value. */
void oracle_in_use(uint64_t key);
/* Calls that may pin the key's value, from before the call to after it. */
void oracle_call_begins(uint64_t key);
void oracle_call_ends(uint64_t key);
/* A pin has been got, or is about to be given back. */
void oracle_pinned(const struct value *value);
void oracle_unpinned(const struct value *value);
/* The call of this key that just ended was refused for lack of room, for these reasons. */
void oracle_refused(uint64_t key, uint64_t pinned, uint64_t loading, uint64_t refused, uint64_t in_transit);
/* What statistics must say at rest. */
struct oracle_totals {
	uint64_t alive, pins, loads_ok, loads_failed, loads_abandoned, destroyed;
};
void oracle_totals(struct oracle_totals *totals);

/* ---- scenarios ---- */

extern const struct scenario *const scenarios[];

#endif
