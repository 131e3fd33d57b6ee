/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * histogram.h - durations counted in steps that grow with them.
 *
 * Log-linear: each power of two is cut into 32 equal steps, so that a percentile
 * is right to 3 %, and durations below 32 ns are exact.  One histogram a thread;
 * they are added up when the threads have ended.
 */
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_STEP_BITS 5
#define HISTOGRAM_STEPS (1u << HISTOGRAM_STEP_BITS)
#define HISTOGRAM_PLACES ((65 - HISTOGRAM_STEP_BITS) * HISTOGRAM_STEPS)

struct histogram {
	uint64_t count[HISTOGRAM_PLACES];
	uint64_t total;
};

static inline unsigned histogram_place(uint64_t value)
{
	unsigned octave;

	if (value < HISTOGRAM_STEPS)
		return (unsigned)value;
	octave = 63 - HISTOGRAM_STEP_BITS - (unsigned)__builtin_clzll(value);
	return (octave + 1) * HISTOGRAM_STEPS + (unsigned)((value >> octave) & (HISTOGRAM_STEPS - 1));
}

/* The middle of a step. */
static inline uint64_t histogram_value(unsigned place)
{
	unsigned octave = place / HISTOGRAM_STEPS;
	uint64_t step = place % HISTOGRAM_STEPS;

	if (octave == 0)
		return step;
	return ((step + HISTOGRAM_STEPS) << (octave - 1)) + ((UINT64_C(1) << (octave - 1)) >> 1);
}

static inline void histogram_record(struct histogram *histogram, uint64_t value)
{
	histogram->count[histogram_place(value)]++;
	histogram->total++;
}

static inline void histogram_add(struct histogram *sum, const struct histogram *more)
{
	for (unsigned i = 0; i < HISTOGRAM_PLACES; i++)
		sum->count[i] += more->count[i];
	sum->total += more->total;
}

/* The duration that the share @share of all do not exceed; 0 if nothing was recorded. */
static inline uint64_t histogram_quantile(const struct histogram *histogram, double share)
{
	double target = share * (double)histogram->total;
	uint64_t seen = 0;

	for (unsigned i = 0; i < HISTOGRAM_PLACES; i++) {
		seen += histogram->count[i];
		if (seen > 0 && (double)seen >= target)
			return histogram_value(i);
	}
	return 0;
}

#endif /* BENCH_HISTOGRAM_H */
