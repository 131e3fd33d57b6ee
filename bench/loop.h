/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * loop.h - the one loop in which everything is measured.
 *
 * Each implementation calls worker_drive() with its own get and release, which
 * the compiler sees as constants and inlines or calls directly.
 *
 * A worker walks a sequence of key indices that was made before the clock
 * started.  It writes out 64 keys at a time, so that the 16 bytes of a key are
 * in the first-level cache when they are looked up, as they are in a program
 * that has just made its key.  That costs under a nanosecond a key and is the
 * same for everybody.  Each value is used through its pin: its first byte must
 * be the first byte of its key.
 */
#ifndef BENCH_LOOP_H
#define BENCH_LOOP_H

#include "impl.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WORKER_CHUNK 64u /* keys written out at a time; divides the length of each sequence */

/* A key as looked up: 16 bytes, the first of which also marks its value. */
struct key {
	uint64_t mark;
	uint64_t index;
};

static inline void key_make(struct key *key, uint64_t index)
{
	key->mark = index * UINT64_C(0x9e3779b97f4a7c15) + UINT64_C(0x632be59bd9b4e019);
	key->index = index;
}

/* One thread of a measurement.  Aligned so that no two share a cache line. */
struct worker {
	const uint32_t *sequence;
	size_t length; /* of the sequence */
	size_t cursor; /* where in the sequence the next chunk begins */
	const atomic_bool *stop;
	uint64_t limit; /* stop after so many operations, too */
	larder_load_fn *loader;
	uint64_t ops;     /* gets so far */
	uint64_t loads;   /* of them ran the loader; counted by it */
	uint64_t refused; /* of them got no value */
	uint64_t wrong;   /* of them got the value of another key */
} __attribute__((aligned(128)));

typedef int worker_get_fn(void *cache, const void *key, size_t key_len, larder_load_fn *loader, void *arg,
			  struct held *held);
typedef void worker_release_fn(void *cache, struct held *held);

static inline __attribute__((always_inline)) void worker_drive(struct worker *worker, void *cache, worker_get_fn *get,
							       worker_release_fn *release)
{
	const uint32_t *sequence = worker->sequence;
	size_t cursor = worker->cursor;
	uint64_t ops = 0, refused = 0, wrong = 0;
	struct key keys[WORKER_CHUNK];
	struct held held;

	while (ops < worker->limit && !atomic_load_explicit(worker->stop, memory_order_relaxed)) {
		for (unsigned i = 0; i < WORKER_CHUNK; i++)
			key_make(&keys[i], sequence[cursor + i]);
		for (unsigned i = 0; i < WORKER_CHUNK; i++) {
			if (get(cache, &keys[i], sizeof(keys[i]), worker->loader, worker, &held) != 0) {
				refused++;
				continue;
			}
			wrong += *(const volatile unsigned char *)held.value != *(const unsigned char *)&keys[i];
			release(cache, &held);
		}
		ops += WORKER_CHUNK;
		cursor += WORKER_CHUNK;
		if (cursor == worker->length)
			cursor = 0;
	}
	worker->cursor = cursor;
	worker->ops += ops;
	worker->refused += refused;
	worker->wrong += wrong;
}

#endif /* BENCH_LOOP_H */
