/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * trace.h - a recorded sequence of requests, and what exact LRU makes of it.
 *
 * A trace file is gzip of 64-bit little-endian keys.  A request's key is its
 * eight bytes as they lie in the file, so the byte order of the machine does not
 * matter.
 */
#ifndef BENCH_TRACE_H
#define BENCH_TRACE_H

#include <stddef.h>
#include <stdint.h>

struct trace {
	char *name;      /* of the file, without folder and .u64.gz */
	uint64_t *keys;  /* one a request */
	uint32_t *ids;   /* one a request: keys numbered from 0 in order of first appearance */
	size_t requests; /* at least 1 */
	size_t distinct; /* different keys */
};

/* What trace_read() may say about a file, without its name. */
#define TRACE_WHY 160

/*
 * Read a whole trace.  Return 0; or -1 with a sentence in @why if the file cannot
 * be read, is no gzip, is truncated or damaged, is empty, or is no whole number of keys.
 */
int trace_read(struct trace *trace, const char *path, char why[TRACE_WHY]);
void trace_free(struct trace *trace);

/* @percent of the distinct keys, rounded to the nearest, at least 1. */
uint64_t trace_share(const struct trace *trace, double percent);

/* The hits of an exact least-recently-used cache of @capacity entries; UINT64_MAX: no memory. */
uint64_t trace_lru_hits(const struct trace *trace, uint64_t capacity);

/*
 * The same if @threads threads draw blocks of @block requests and take turns, one
 * request each.  This is another order of the same requests, and where the
 * capacity is no larger than the blocks that are under way, exact LRU has other
 * hits in it.  What threads really do lies between the two orders.
 */
uint64_t trace_lru_hits_in_step(const struct trace *trace, uint64_t capacity, unsigned threads, unsigned block);

#endif /* BENCH_TRACE_H */
