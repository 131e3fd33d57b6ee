/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * hash.h - hashing keys with xxHash's XXH3, inlined.
 *
 * XXH3 with a seed (Y. Collet, xxHash 0.8) is fast and well mixed; a random
 * seed makes aimed collisions hard, but it is no keyed MAC.  Whoever takes keys
 * from hostile clients can give a hash function of his own.
 */
#ifndef LARDER_HASH_H
#define LARDER_HASH_H

#define XXH_INLINE_ALL
#include <stdint.h>
#include <xxhash.h>

#include "atomic.h"

/* Mix a user's hash, so that a poor one still spreads over buckets and tags. */
static inline uint64_t hash_mix(uint64_t h)
{
	h ^= h >> 32;
	h *= UINT64_C(0x9fb21c651e98df25); /* an odd constant; any good one does */
	h ^= h >> 35;
	h *= UINT64_C(0x9e3779b97f4a7c15); /* 2^64 divided by the golden ratio */
	return h ^ (h >> 28);
}

static ALWAYS_INLINE uint64_t hash_xxh3(const void *key, size_t key_len, uint64_t seed)
{
	if (LIKELY(key_len == 16))
		return XXH3_64bits_withSeed(key, 16, seed); /* a constant length: short and without branches */
	return XXH3_64bits_withSeed(key, key_len, seed);
}

#endif
