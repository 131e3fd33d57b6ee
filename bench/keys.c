/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * keys.c - uniform and Zipf sequences.
 */
#include "keys.h"
#include <math.h>
#include <stdlib.h>

/* Drawing ranks by the inverse of the sum of weights, with a guide to where the search begins. */
struct zipf {
	uint32_t keys;
	double *sum;     /* of the weights up to and including each rank */
	uint32_t *guide; /* the first rank whose sum exceeds i / keys of the total */
	uint32_t *index; /* of each rank */
};

/* From 0 to below 1. */
static double random_share(uint64_t *state)
{
	return (double)(keys_random(state) >> 11) * 0x1p-53;
}

static uint32_t random_below(uint64_t *state, uint32_t bound)
{
	return (uint32_t)(((keys_random(state) >> 32) * bound) >> 32);
}

static void zipf_close(struct zipf *zipf)
{
	free(zipf->sum);
	free(zipf->guide);
	free(zipf->index);
}

static int zipf_open(struct zipf *zipf, uint32_t keys, uint64_t seed)
{
	uint32_t rank = 0;
	double total = 0;

	zipf->keys = keys;
	zipf->sum = malloc(keys * sizeof(*zipf->sum));
	zipf->guide = malloc(keys * sizeof(*zipf->guide));
	zipf->index = malloc(keys * sizeof(*zipf->index));
	if (zipf->sum == NULL || zipf->guide == NULL || zipf->index == NULL) {
		zipf_close(zipf);
		return -1;
	}
	for (uint32_t i = 0; i < keys; i++) {
		total += pow(i + 1.0, -KEYS_ZIPF_EXPONENT);
		zipf->sum[i] = total;
		zipf->index[i] = i;
	}
	for (uint32_t i = 0; i < keys; i++) {
		while (rank < keys - 1 && zipf->sum[rank] <= total * i / keys)
			rank++;
		zipf->guide[i] = rank;
	}
	for (uint32_t i = keys - 1; i > 0; i--) {
		uint32_t other = random_below(&seed, i + 1);
		uint32_t kept = zipf->index[i];

		zipf->index[i] = zipf->index[other];
		zipf->index[other] = kept;
	}
	return 0;
}

static uint32_t zipf_draw(const struct zipf *zipf, uint64_t *state)
{
	double share = random_share(state);
	double weight = share * zipf->sum[zipf->keys - 1];
	uint32_t rank = zipf->guide[(uint32_t)(share * zipf->keys)];

	while (rank < zipf->keys - 1 && zipf->sum[rank] <= weight)
		rank++;
	return zipf->index[rank];
}

uint32_t *keys_sequences(enum keys_kind kind, uint32_t keys, size_t length, unsigned count, uint64_t seed)
{
	uint32_t *sequences = malloc(count * length * sizeof(*sequences));
	struct zipf zipf = { 0 };

	if (sequences == NULL)
		return NULL;
	if (kind == KEYS_ZIPF && zipf_open(&zipf, keys, seed) != 0) {
		free(sequences);
		return NULL;
	}
	for (unsigned i = 0; i < count; i++) {
		uint64_t state = seed ^ ((i + 1) * UINT64_C(0xd1342543de82ef95));
		uint32_t *sequence = sequences + i * length;

		for (size_t j = 0; j < length; j++)
			sequence[j] = kind == KEYS_ZIPF ? zipf_draw(&zipf, &state) : random_below(&state, keys);
	}
	zipf_close(&zipf);
	return sequences;
}
