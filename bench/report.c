/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * report.c - medians with their spread, as JSON objects and as a table.
 */
#include "report.h"
#include "clock.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>

#define STRING_(x) #x
#define STRING(x) STRING_(x)
#if defined(__clang__)
#define COMPILER "clang " STRING(__clang_major__) "." STRING(__clang_minor__) "." STRING(__clang_patchlevel__)
#else
#define COMPILER "gcc " __VERSION__
#endif

/* The median, least and greatest of one member of all samples. */
struct spread {
	double median, min, max;
};

static int by_size(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static struct spread spread_of(const struct row *row, size_t member)
{
	double values[REPORT_ROUNDS_MAX];
	unsigned n = row->rounds;

	for (unsigned i = 0; i < n; i++)
		values[i] = *(const double *)((const char *)&row->samples[i] + member);
	qsort(values, n, sizeof(values[0]), by_size);
	return (struct spread){
		.median = n % 2 != 0 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2,
		.min = values[0],
		.max = values[n - 1],
	};
}

#define SPREAD(row, member) spread_of(row, offsetof(struct sample, member))

static void print_json(const struct row *row)
{
	struct spread ns = SPREAD(row, ns_op);

	printf("{\"impl\":\"%s\",\"work\":\"%s\",\"threads\":%u", row->impl->name, row->work->name, row->threads);
	printf(",\"ns_op\":%.2f,\"ns_min\":%.2f,\"ns_max\":%.2f,\"mops\":%.4f,\"hit_ratio\":%.4f", ns.median, ns.min,
	       ns.max, SPREAD(row, mops).median, SPREAD(row, hit_ratio).median);
	if (row->work->kind == WORK_STAMPEDE) {
		double last_us = SPREAD(row, last_return_us).median;

		printf(",\"loads_per_round\":%.3f", SPREAD(row, loads_per_round).median);
		if (last_us < 0)
			printf(",\"last_return_us\":null");
		else
			printf(",\"last_return_us\":%.1f", last_us);
	}
	if (row->work->kind == WORK_MEMORY)
		printf(",\"bytes_per_entry\":%.1f", SPREAD(row, bytes_per_entry).median);
	printf("}\n");
}

static void print_line(FILE *out, const struct row *row)
{
	struct spread ns = SPREAD(row, ns_op);
	unsigned discarded = 0, disturbed = 0;

	for (unsigned i = 0; i < row->rounds; i++) {
		discarded += row->samples[i].discarded;
		disturbed += row->samples[i].disturbed;
	}
	fprintf(out, "%-8s %-12s %7u %10.1f %10.1f %10.1f %9.2f %9.4f", row->work->name, row->impl->name, row->threads,
		ns.median, ns.min, ns.max, SPREAD(row, mops).median, SPREAD(row, hit_ratio).median);
	if (row->work->kind == WORK_STAMPEDE) {
		fprintf(out, "  %.2f loads a round", SPREAD(row, loads_per_round).median);
		if (SPREAD(row, last_return_us).median >= 0)
			fprintf(out, ", last return after %.0f us (%.0f-%.0f)", SPREAD(row, last_return_us).median,
				SPREAD(row, last_return_us).min, SPREAD(row, last_return_us).max);
	}
	if (row->work->kind == WORK_MEMORY) {
		fprintf(out, "  %.1f bytes an entry", SPREAD(row, bytes_per_entry).median);
		if (SPREAD(row, overhead_bytes).median > 0)
			fprintf(out, "; %.1f by its own count", SPREAD(row, overhead_bytes).median);
	}
	if (discarded > 0)
		fprintf(out, "  %u thrown away", discarded);
	if (disturbed > 0)
		fprintf(out, "  %u DISTURBED", disturbed);
	fputc('\n', out);
}

static FILE *table_file(const struct report *report)
{
	return report->json ? stderr : stdout;
}

void report_head(const struct report *report, unsigned rounds, double seconds, uint64_t seed)
{
	FILE *out = table_file(report);
	struct utsname system;

	if (!report->table)
		return;
	uname(&system);
	fprintf(out, "larder %s, %s, %s %s %s, %u processors\n", larder_version(), COMPILER, system.sysname,
		system.release, system.machine, cpu_count());
	fprintf(out, "%u rounds, %g s a measurement, seed %" PRIu64 "; ns an operation of one thread\n\n", rounds,
		seconds, seed);
}

void report_rows(struct report *report, struct row *rows, unsigned row_count)
{
	FILE *out = table_file(report);

	for (unsigned i = 0; report->json && i < row_count; i++)
		print_json(&rows[i]);
	if (report->json)
		fflush(stdout);
	if (!report->table || row_count == 0)
		return;
	if (!report->began)
		fprintf(out, "%-8s %-12s %7s %10s %10s %10s %9s %9s\n", "work", "impl", "threads", "ns", "min", "max",
			"Mops/s", "hits");
	report->began = true;
	for (unsigned i = 0; i < row_count; i++)
		print_line(out, &rows[i]);
	fputc('\n', out);
	fflush(out);
}
