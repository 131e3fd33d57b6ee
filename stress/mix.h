/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mix.h - what the parts of mix-s share.
 *
 * A pantry is a cache with all that is known about it from outside; a self is a
 * thread's notes.  Values are those of tests/lib/value.h: they carry canaries, key,
 * load number, alive mark and a shadow count of pins, and are poisoned when they are
 * destroyed.
 *
 * Atomics that count are relaxed: nothing here orders one thread after another, so
 * that a thread sanitizer sees whether the library does.  What is handed from thread
 * to thread goes through boxes, with release and acquire.
 */
#ifndef STRESS_MIX_H
#define STRESS_MIX_H

#include "../tests/lib/test.h"

#define PANTRIES 4
#define KEYS_MAX 256
#define BOXES 6
#define HELD_MAX 6
#define LEADS_MAX 8

/* What can be found broken, besides the faults that a shelf counts. */
enum promise {
	ONE_LOAD,  /* P1: one loader at a time for a key */
	OUTCOMES,  /* codes, outcomes and refs fit what the loader did */
	SNAPSHOTS, /* statistics are sane while threads run */
	NO_PINS,   /* at rest nobody holds anything */
	BALANCE,   /* at rest P17 adds up, and to what the threads have counted */
	PROBE,     /* at rest as many pins as the capacity, exactly */
	LOST,      /* at rest every entry can be evicted */
	CLOSING,   /* refused with a pin, done without; every value destroyed once */
	MEMORY,    /* bounded while it runs, all given back by close */
	PROMISES
};

/* Counts, and prints the first few with the round. */
void broken(enum promise promise, const char *what, ...) __attribute__((format(printf, 2, 3)));

struct parcel {
	struct larder_ref ref;
};

enum hash_kind { OWN_HASH, ONE_CHAIN, FEW_CHAINS, HASH_KINDS };

struct pantry {
	struct shelf shelf; /* first: the callbacks' context */
	struct larder_cache *cache;
	unsigned index;
	uint64_t keys; /* 1 to this */
	uint64_t headroom;
	uint32_t flags;
	enum hash_kind hash;
	size_t key_len;          /* 0: mixed */
	bool asks;               /* has a predicate */
	bool moody;              /* which now and then says no for no reason */
	bool allocates;          /* with functions of ours */
	uint64_t fresh;          /* keys that were never asked for; at rest only */
	_Atomic uint32_t calm;   /* callbacks do their duty and nothing else */
	_Atomic uint32_t acting; /* callbacks that run */
	_Atomic uint32_t loading[KEYS_MAX];
	_Atomic(struct parcel *) box[BOXES];
	_Atomic(struct value *) in_use[BOXES];       /* busy, though not pinned */
	_Atomic uint64_t found, absent, in_progress; /* by callbacks' peeks */
	_Atomic uint64_t blocks, bytes;
	struct larder_stats base; /* when the round began */
};
extern struct pantry pantry[PANTRIES];

struct self {
	struct rng rng;
	bool disposable;
	bool foreign;             /* a thread of the library's, in a callback */
	uint64_t lead[LEADS_MAX]; /* ranks of the loads that this thread leads, ascending */
	unsigned leads;
	unsigned depth; /* callbacks within callbacks */
	struct larder_ref held[HELD_MAX];
	unsigned holds;
	struct tally tally[PANTRIES];
	uint64_t silent[PANTRIES]; /* hits or joins: the call did not tell */
	struct larder_stats seen[PANTRIES];
	struct self *next;
};
/* This thread's; made if need be. */
struct self *me(void);
void self_enter(struct self *self);
/* Others may read its notes at rest. */
void self_enlist(struct self *self);
/* All there are; at rest only. */
struct self *self_first(void);
/* The library's threads have ended. */
void self_forget_foreign(void);

/* How a loader behaves. */
enum load_kind {
	AT_ONCE,
	SPIN,
	GIVE_WAY, /* sched_yield() */
	SLEEP,
	FAIL,
	FAIL_LATE,
	NEST,     /* get another key meanwhile */
	NEST_OWN, /* ask for its own key: refused */
	RELEASE,  /* give back a pin of somebody else's */
	TRIM,
	LOOK,    /* statistics, peek */
	FOR_ALL, /* the rest in disposable threads only */
	EXIT = FOR_ALL,
	CANCEL_SELF,
	AWAIT_CANCEL,
	LOAD_KINDS
};

/* What threads do. */
enum act {
	VISIT,
	HOLD,
	LET_GO,
	POST, /* a pin to whoever fetches it */
	FETCH,
	DUP,
	PEEK,
	TRIM_SOME,
	STEP,
	STATS,
	USE,   /* mark a value as busy, and let go of it */
	UNUSE, /* not busy any more */
	DISPOSABLE,
	ACTS
};

/* A round; written at rest. */
struct round {
	unsigned long number;
	unsigned long acts;
	unsigned act[ACTS], load[FOR_ALL]; /* weights */
	unsigned skew;
	uint64_t hold_ns;
	unsigned holds, boxes; /* so many at most; small caches are full of pins otherwise */
	bool told;             /* larder_get_with() and outcomes; else larder_get() */
	double end;
};
extern struct round now;

/* 0 to n - 1 by weight. */
unsigned pick(struct rng *rng, const unsigned *weight, unsigned n);
struct pantry *pick_pantry(struct rng *rng);
uint64_t pick_key(struct rng *rng, const struct pantry *p);
struct key pantry_key(const struct pantry *p, uint64_t number);

/* ---- mix-calls.c: calls that are checked and tallied ------------------------------- */

int get(struct pantry *p, uint64_t number, enum load_kind kind, struct larder_ref *ref);
int peek(struct pantry *p, uint64_t number, struct larder_ref *ref);
/* Look at a pinned value through all that the library tells. */
void look(const struct larder_ref *ref);
/* Look again and release; nothing, if it is empty.  Fit for cleanup. */
void drop(struct larder_ref *ref);
void post(struct pantry *p, struct larder_ref *ref);
bool fetch(struct pantry *p, unsigned box);
void trim(struct pantry *p, uint64_t count);
void snapshot(struct pantry *p);
/* Mark a pinned value as busy. */
void use(struct pantry *p, const struct larder_ref *ref);
bool unuse(struct pantry *p, unsigned box);

/* ---- mix-pantry.c: options and callbacks -------------------------------------------- */

void pantry_open(struct pantry *p, unsigned index, struct rng *rng);
void pantry_close(struct pantry *p);
/* Nothing but the background thread may be running. */
void pantry_rest(struct pantry *p);
void pantry_describe(const struct pantry *p);
/* A plan for one get; the loader writes what it did. */
struct plan {
	struct pantry *p;
	uint64_t number;
	enum load_kind kind;
	unsigned runs;
	int error;
	struct value *value;
};
int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *running);
uint64_t rank_of(const struct pantry *p, uint64_t number);

/* ---- mix-acts.c: what threads do ------------------------------------------------------- */

struct child;
struct child *child_new(void);
uint64_t children_begun(void);
void act(struct child *child);
/* Let go of everything. */
void part(struct child *child);

#endif
