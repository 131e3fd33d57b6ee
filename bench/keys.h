/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * keys.h - sequences of key indices, made before any clock runs.
 *
 * Each thread has a sequence of its own, and all implementations see the same.
 * Zipf: the key of rank r (from 1) is asked for with a weight of 1 / r^0.99, and
 * ranks are dealt to indices at random, so that popular keys are not neighbours.
 */
#ifndef BENCH_KEYS_H
#define BENCH_KEYS_H

#include <stddef.h>
#include <stdint.h>

#define KEYS_ZIPF_EXPONENT 0.99

enum keys_kind { KEYS_UNIFORM, KEYS_ZIPF };

/* The next of a sequence of random numbers (splitmix64). */
static inline uint64_t keys_random(uint64_t *state)
{
	uint64_t mixed = *state += UINT64_C(0x9e3779b97f4a7c15);

	mixed = (mixed ^ (mixed >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	mixed = (mixed ^ (mixed >> 27)) * UINT64_C(0x94d049bb133111eb);
	return mixed ^ (mixed >> 31);
}

/*
 * @count sequences of @length indices below @keys, one after the other; sequence
 * i depends only on @seed, i, @kind and @keys.  NULL: no memory.  free() it.
 */
uint32_t *keys_sequences(enum keys_kind kind, uint32_t keys, size_t length, unsigned count, uint64_t seed);

#endif /* BENCH_KEYS_H */
