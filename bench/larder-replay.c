/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * larder-replay - replay a recorded trace through a cache and count.
 *
 * The trace is replayed twice, each time through a new cache: the first time
 * nothing but its beginning and end is timed, and all counts and ns_per_request
 * come from it; the second time each request is timed by itself, and the
 * percentiles come from it.  So reading the clock distorts no average, and each
 * percentile has all requests behind it; it includes about one reading of the
 * clock.
 *
 * Exit status: 0; 1 if the replay could not be run or its counting does not add
 * up; 2 for a wrong command line or an unusable trace.
 */
#include "replay.h"
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STATUS_FAILED = 1, STATUS_USAGE = 2 };

static const struct impl *const impls[] = { &impl_larder, &impl_mutex_origin, &impl_mutex_lru };
#define IMPLS (sizeof(impls) / sizeof(impls[0]))

struct request_line {
	const char *path;
	struct replay_options replay;
	uint64_t capacity; /* 0: percent counts */
	double percent;
	bool json, lru, impl_named;
};

static const char usage[] =
	"Usage: larder-replay [OPTION]... TRACE.u64.gz\n"
	"Replay a trace (gzip of 64-bit little-endian keys) through a cache.\n"
	"\n"
	"  -t, --threads=N      threads, which draw blocks of 64 requests (default 1)\n"
	"  -c, --capacity=N     entries in the cache\n"
	"  -p, --percent=P      entries in per cent of the trace's distinct keys, rounded to\n"
	"                       the nearest, at least 1 (default 10)\n"
	"  -l, --load-us=N      the loader is busy for N microseconds (default 0)\n"
	"      --impl=NAME      larder (default), mutex-origin or mutex-lru\n"
	"      --seed=N         seed of the hash (default random; it is reported)\n"
	"      --lru            also report the hits of an exact LRU cache: in the trace's order,\n"
	"                       and in that of threads which take turns (lru_hits_in_step)\n"
	"      --json           one JSON object instead of lines\n"
	"  -h, --help           this text\n"
	"\n"
	"ns_per_request is a thread's time for one request, from a replay in which no request\n"
	"is timed by itself; p50, p99 and p999 are from a second replay in which each one is.\n"
	"hit_ratio is hits / requests; joins (requests that shared a load) are not in it.\n";

static void bad_usage(const char *format, const char *what)
{
	fprintf(stderr, "larder-replay: ");
	fprintf(stderr, format, what);
	fprintf(stderr, "\nTry 'larder-replay --help'.\n");
	exit(STATUS_USAGE);
}

static uint64_t number(const char *option, const char *text, uint64_t min, uint64_t max)
{
	char *end;
	unsigned long long parsed;

	errno = 0;
	parsed = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || parsed < min || parsed > max) {
		fprintf(stderr, "larder-replay: %s takes a number from %" PRIu64 " to %" PRIu64 ", not '%s'\n", option,
			min, max, text);
		exit(STATUS_USAGE);
	}
	return parsed;
}

static double percentage(const char *text)
{
	char *end;
	double parsed = strtod(text, &end);

	if (end == text || *end != '\0' || !(parsed >= 0 && parsed <= 1000))
		bad_usage("-p takes a number from 0 to 1000, not '%s'", text);
	return parsed;
}

static const struct impl *impl_named(const char *name)
{
	for (size_t i = 0; i < IMPLS; i++) {
		if (strcmp(impls[i]->name, name) == 0)
			return impls[i];
	}
	bad_usage("--impl takes larder, mutex-origin or mutex-lru, not '%s'", name);
	return NULL;
}

static void parse(int argc, char **argv, struct request_line *line)
{
	enum { OPTION_IMPL = 256, OPTION_SEED, OPTION_LRU, OPTION_JSON };
	static const struct option options[] = {
		{ "threads", required_argument, NULL, 't' },
		{ "capacity", required_argument, NULL, 'c' },
		{ "percent", required_argument, NULL, 'p' },
		{ "load-us", required_argument, NULL, 'l' },
		{ "impl", required_argument, NULL, OPTION_IMPL },
		{ "seed", required_argument, NULL, OPTION_SEED },
		{ "lru", no_argument, NULL, OPTION_LRU },
		{ "json", no_argument, NULL, OPTION_JSON },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	bool percent_given = false, seed_given = false;
	int option;

	while ((option = getopt_long(argc, argv, "t:c:p:l:h", options, NULL)) != -1) {
		switch (option) {
		case 't':
			line->replay.threads = (unsigned)number("-t", optarg, 1, REPLAY_THREADS_MAX);
			break;
		case 'c':
			line->capacity = number("-c", optarg, 1, LARDER_CAPACITY_MAX);
			break;
		case 'p':
			line->percent = percentage(optarg);
			percent_given = true;
			break;
		case 'l':
			line->replay.load_ns = number("-l", optarg, 0, 1000000000) * 1000;
			break;
		case OPTION_IMPL:
			line->replay.impl = impl_named(optarg);
			line->impl_named = true;
			break;
		case OPTION_SEED:
			line->replay.seed = number("--seed", optarg, 0, UINT64_MAX);
			seed_given = true;
			break;
		case OPTION_LRU:
			line->lru = true;
			break;
		case OPTION_JSON:
			line->json = true;
			break;
		case 'h':
			fputs(usage, stdout);
			exit(0);
		default:
			fprintf(stderr, "Try 'larder-replay --help'.\n");
			exit(STATUS_USAGE);
		}
	}
	if (line->capacity != 0 && percent_given)
		bad_usage("%s", "-c and -p exclude each other");
	if (optind != argc - 1)
		bad_usage("%s", optind == argc ? "no trace given" : "more than one trace given");
	line->path = argv[optind];
	if (!seed_given)
		line->replay.seed = replay_seed();
}

/* A string of JSON, quotes included. */
static void print_quoted(const char *text)
{
	putchar('"');
	for (; *text != '\0'; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		if ((unsigned char)*text < 0x20)
			printf("\\u%04x", (unsigned char)*text);
		else
			putchar(*text);
	}
	putchar('"');
}

struct report {
	const struct trace *trace;
	struct replay_result result;
	uint64_t p50_ns, p99_ns, p999_ns;
	uint64_t lru_hits;
	uint64_t lru_hits_in_step;
};

static void print_json(const struct request_line *line, const struct report *report)
{
	const struct counts *counts = &report->result.counts;
	size_t requests = report->trace->requests;

	printf("{\"trace\":");
	print_quoted(report->trace->name);
	printf(",\"requests\":%zu,\"distinct\":%zu,\"capacity\":%" PRIu64 ",\"threads\":%u", requests,
	       report->trace->distinct, line->replay.capacity, line->replay.threads);
	printf(",\"hits\":%" PRIu64 ",\"joins\":%" PRIu64 ",\"hit_ratio\":%.6f", counts->hits, counts->joins,
	       (double)counts->hits / (double)requests);
	printf(",\"loads\":%" PRIu64 ",\"evictions\":%" PRIu64 ",\"busy\":%" PRIu64, counts->misses, counts->evictions,
	       counts->busy);
	printf(",\"ns_per_request\":%.1f,\"p50_ns\":%" PRIu64 ",\"p99_ns\":%" PRIu64 ",\"p999_ns\":%" PRIu64,
	       report->result.ns_per_request, report->p50_ns, report->p99_ns, report->p999_ns);
	printf(",\"seed\":%" PRIu64, line->replay.seed);
	if (line->impl_named)
		printf(",\"impl\":\"%s\"", line->replay.impl->name);
	if (line->lru)
		printf(",\"lru_hits\":%" PRIu64 ",\"lru_hits_in_step\":%" PRIu64, report->lru_hits,
		       report->lru_hits_in_step);
	printf("}\n");
}

static void print_lines(const struct request_line *line, const struct report *report)
{
	const struct counts *counts = &report->result.counts;
	double requests = (double)report->trace->requests;

	printf("%-15s %s\n", "trace", report->trace->name);
	printf("%-15s %s\n", "cache", line->replay.impl->name);
	printf("%-15s %zu\n", "requests", report->trace->requests);
	printf("%-15s %zu\n", "distinct", report->trace->distinct);
	printf("%-15s %" PRIu64 "\n", "capacity", line->replay.capacity);
	printf("%-15s %u\n", "threads", line->replay.threads);
	printf("%-15s %" PRIu64 "\n", "hits", counts->hits);
	printf("%-15s %.4f\n", "hit ratio", (double)counts->hits / requests);
	if (line->lru) {
		printf("%-15s %" PRIu64 "\n", "exact LRU hits", report->lru_hits);
		printf("%-15s %.4f\n", "exact LRU ratio", (double)report->lru_hits / requests);
		if (line->replay.threads > 1)
			printf("%-15s %" PRIu64 " (exact LRU, threads taking turns)\n", "in step",
			       report->lru_hits_in_step);
	}
	printf("%-15s %" PRIu64 "\n", "joins", counts->joins);
	printf("%-15s %" PRIu64 "\n", "loads", counts->misses);
	printf("%-15s %" PRIu64 "\n", "evictions", counts->evictions);
	printf("%-15s %" PRIu64 "\n", "busy", counts->busy);
	printf("%-15s %.1f\n", "ns a request", report->result.ns_per_request);
	printf("%-15s %" PRIu64 " / %" PRIu64 " / %" PRIu64 " (each request timed by itself)\n", "p50/p99/p999 ns",
	       report->p50_ns, report->p99_ns, report->p999_ns);
	printf("%-15s %" PRIu64 "\n", "seed", line->replay.seed);
}

static int replay_twice(struct request_line *line, struct report *report)
{
	struct replay_result timed;
	struct histogram *latency = calloc(1, sizeof(*latency));
	int error;

	if (latency == NULL) {
		fprintf(stderr, "larder-replay: no memory\n");
		return -1;
	}
	error = replay_run(report->trace, &line->replay, &report->result);
	if (error == 0) {
		line->replay.latency = latency;
		error = replay_run(report->trace, &line->replay, &timed);
		line->replay.latency = NULL;
	}
	report->p50_ns = histogram_quantile(latency, 0.5);
	report->p99_ns = histogram_quantile(latency, 0.99);
	report->p999_ns = histogram_quantile(latency, 0.999);
	free(latency);
	return error;
}

int main(int argc, char **argv)
{
	struct request_line line = { .replay = { .impl = &impl_larder, .threads = 1 }, .percent = 10 };
	struct report report = { 0 };
	struct trace trace;
	char why[TRACE_WHY];

	parse(argc, argv, &line);
	if (trace_read(&trace, line.path, why) != 0) {
		fprintf(stderr, "larder-replay: %s: %s\n", line.path, why);
		return STATUS_USAGE;
	}
	line.replay.capacity = line.capacity != 0 ? line.capacity : trace_share(&trace, line.percent);
	line.replay.progress = isatty(STDERR_FILENO) == 1;
	report.trace = &trace;
	if (line.lru) {
		report.lru_hits = trace_lru_hits(&trace, line.replay.capacity);
		report.lru_hits_in_step =
			trace_lru_hits_in_step(&trace, line.replay.capacity, line.replay.threads, REPLAY_BLOCK);
		if (report.lru_hits == UINT64_MAX || report.lru_hits_in_step == UINT64_MAX) {
			fprintf(stderr, "larder-replay: no memory\n");
			return STATUS_FAILED;
		}
	}
	if (replay_twice(&line, &report) != 0)
		return STATUS_FAILED;
	if (line.json)
		print_json(&line, &report);
	else
		print_lines(&line, &report);
	trace_free(&trace);
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "larder-replay: standard output: %s\n", strerror(errno));
		return STATUS_FAILED;
	}
	return 0;
}
