/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * replay.h - ask a cache for the keys of a trace, with one thread or many.
 *
 * The threads draw blocks of 64 requests from one shared counter until the trace
 * is through.  A value is the address of its key in the trace, and each hit is
 * checked against it.  A request that is refused is counted and not repeated.
 */
#ifndef BENCH_REPLAY_H
#define BENCH_REPLAY_H

#include "histogram.h"
#include "impl.h"
#include "trace.h"
#include <stdbool.h>

#define REPLAY_BLOCK 64u
#define REPLAY_THREADS_MAX 1024u

struct replay_options {
	const struct impl *impl;
	unsigned threads;
	uint64_t capacity;
	uint64_t seed;
	uint64_t load_ns;          /* the loader is busy for as long */
	bool progress;             /* a line on standard error */
	struct histogram *latency; /* NULL: no request is timed by itself */
};

struct replay_result {
	struct counts counts;
	double ns_per_request; /* a thread's time for one request */
};

/* 0, or -1 after a line on standard error. */
int replay_run(const struct trace *trace, const struct replay_options *options, struct replay_result *result);

/* A seed from the system's random numbers, small enough for every reader of JSON. */
uint64_t replay_seed(void);

#endif /* BENCH_REPLAY_H */
