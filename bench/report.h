/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * report.h - the samples of all rounds, and the lines that tell about them.
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#include "measure.h"

#define REPORT_ROUNDS_MAX 101u

/* One implementation in one work with one number of threads. */
struct row {
	const struct impl *impl;
	const struct work *work;
	unsigned threads;
	unsigned rounds;
	struct sample samples[REPORT_ROUNDS_MAX];
};

struct report {
	bool json;  /* objects on standard output */
	bool table; /* for people: on standard output, or on the terminal that standard error is */
	bool began;
};

/* What was measured where, for people. */
void report_head(const struct report *report, unsigned rounds, double seconds, uint64_t seed);

/* The rows of a work that is through. */
void report_rows(struct report *report, struct row *rows, unsigned row_count);

#endif /* BENCH_REPORT_H */
