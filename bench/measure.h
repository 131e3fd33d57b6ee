/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * measure.h - one measurement: an implementation, a work, a number of threads.
 *
 * Works that repeat gets (hot, one, zipf, big, mixed, churn) run in measure_loop()
 * over a cache that stays open and filled between the rounds.  Stampede and
 * memory have measurements of their own.
 */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include "impl.h"
#include "keys.h"
#include <stdbool.h>

#define MEASURE_THREADS_MAX 256u

enum work_kind { WORK_LOOP, WORK_STAMPEDE, WORK_MEMORY };

struct work {
	const char *name;
	const char *about;
	enum work_kind kind;
	/* loops only */
	uint32_t capacity;
	uint32_t keys;
	enum keys_kind distribution;
	uint32_t length; /* of each thread's sequence */
	bool evicts;     /* more keys than capacity; values are 64 bytes from malloc() */
};

/* What one measurement says. */
struct sample {
	double ns_op; /* a thread's time for one operation */
	double mops;  /* million operations a second, all threads */
	double hit_ratio;
	double loads_per_round; /* stampede */
	double last_return_us;  /* stampede; below 0: nobody followed */
	double bytes_per_entry; /* memory: growth of the resident set */
	double overhead_bytes;  /* memory: what the implementation counts itself, an entry */
	unsigned discarded;     /* attempts thrown away because the threads did not get their processors */
	bool disturbed;         /* so was this one, but there were too many */
};

/* An implementation in a work, with a cache that lives through all its rounds. */
struct runner {
	const struct impl *impl;
	void *cache;
	size_t cursor[MEASURE_THREADS_MAX]; /* where each thread's sequence goes on */
};

/* Values and sequences of a loop work, shared by its runners. */
struct supply {
	const struct work *work;
	unsigned char *values; /* one byte a key; NULL if the loader allocates */
	uint32_t *sequences;   /* of the threads, and one more for the filling */
	unsigned count;        /* how many */
};

/* All return 0, or -1 after a line on standard error. */
int supply_open(struct supply *supply, const struct work *work, unsigned threads, uint64_t seed);
void supply_close(struct supply *supply);

/* Open @runner's cache and fill it to its capacity. */
int runner_open(struct runner *runner, const struct supply *supply, void *larder, uint64_t seed);
int runner_close(struct runner *runner);

int measure_loop(struct runner *runner, const struct supply *supply, unsigned threads, double seconds,
		 struct sample *sample);
int measure_stampede(const struct impl *impl, unsigned threads, double seconds, uint64_t seed, struct sample *sample);
int measure_memory(const struct impl *impl, struct sample *sample);

/* What the process that measure_memory() starts does; its exit status. */
int memory_child(const struct impl *impl);

#define MEMORY_CHILD "--memory-child" /* hidden option: larder-bench --memory-child IMPL */

#endif /* BENCH_MEASURE_H */
