/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * larder-bench - larder beside its limit, its parts and its baselines.
 *
 * For each work, all implementations that take part open a cache and fill it;
 * then, round after round, each of them is measured with each number of threads,
 * every round beginning with another one, so that whatever disturbs the machine
 * disturbs all.  Reported are medians over the rounds with least and greatest.
 *
 * The program is linked against libcore.la, because floor needs a function that
 * the shared library does not export; see impl_floor.c.
 *
 * Exit status: 0; 1 if something could not be measured or a value was wrong; 2
 * for a wrong command line.
 */
#include "clock.h"
#include "report.h"
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUNDS_MIN 5u
#define THREADS_LIST_MAX 16u

static const struct impl *const impls[] = {
	&impl_larder, &impl_floor, &impl_lfht, &impl_lfht_count, &impl_ck_ht, &impl_mutex_origin, &impl_mutex_lru,
};
#define IMPLS (sizeof(impls) / sizeof(impls[0]))

static const struct work works[] = {
	{ "hot", "1,000 keys resident, uniform", WORK_LOOP, 1000, 1000, KEYS_UNIFORM, 1 << 14, false },
	{ "one", "a single key", WORK_LOOP, 1000, 1, KEYS_UNIFORM, 1 << 14, false },
	{ "zipf", "100,000 keys resident, Zipf 0.99", WORK_LOOP, 100000, 100000, KEYS_ZIPF, 1 << 19, false },
	{ "big", "1,000,000 keys resident, uniform", WORK_LOOP, 1000000, 1000000, KEYS_UNIFORM, 1 << 21, false },
	{ "mixed", "capacity 100,000, 1,000,000 keys, Zipf 0.99", WORK_LOOP, 100000, 1000000, KEYS_ZIPF, 1 << 21,
	  true },
	{ "churn", "capacity 1,000, 1,000,000 keys, Zipf 0.99", WORK_LOOP, 1000, 1000000, KEYS_ZIPF, 1 << 21, true },
	{ "stampede", "2, 8, 64 threads miss the same key, loader sleeps 1 ms", WORK_STAMPEDE, 0, 0, 0, 0, false },
	{ "memory", "growth an entry at 1,000,000 keys of 16 bytes", WORK_MEMORY, 0, 0, 0, 0, false },
};
#define WORKS (sizeof(works) / sizeof(works[0]))

static const unsigned stampede_threads[] = { 2, 8, 64 };

struct bench {
	bool work_on[WORKS];
	bool impl_on[IMPLS];
	unsigned threads[THREADS_LIST_MAX];
	unsigned threads_count;
	unsigned rounds;
	double seconds;
	uint64_t seed;
	bool progress;
	struct report report;
};

static void print_usage(FILE *out)
{
	fprintf(out,
		"Usage: larder-bench [OPTION]...\n"
		"Measure larder beside its limit, its parts and its baselines.\n"
		"\n"
		"      --json             one JSON object a line on standard output, and nothing else there\n"
		"  -t, --threads=N[,N]... numbers of threads (default 1,2 and one a processor)\n"
		"  -s, --seconds=S        time for each measurement (default 0.5)\n"
		"  -r, --rounds=N         rounds, at least %u (default %u)\n"
		"  -o, --only=WORK[,WORK]...[:IMPL[,IMPL]...]\n"
		"                         only these works, and only these implementations\n"
		"  -i, --impl=IMPL[,IMPL]...\n"
		"                         only these implementations\n"
		"      --seed=N           seed of the keys and the hash (default 1)\n"
		"  -h, --help             this text\n"
		"\nWorks:\n",
		ROUNDS_MIN, ROUNDS_MIN);
	for (size_t i = 0; i < WORKS; i++)
		fprintf(out, "  %-10s %s\n", works[i].name, works[i].about);
	fprintf(out, "\nImplementations:\n ");
	for (size_t i = 0; i < IMPLS; i++)
		fprintf(out, " %s", impls[i]->name);
	fprintf(out, "\nThose without eviction take no part in mixed, churn and stampede.\n");
}

static _Noreturn void bad_usage(const char *what, const char *text)
{
	fprintf(stderr, "larder-bench: %s: '%s'\nTry 'larder-bench --help'.\n", what, text);
	exit(2);
}

static uint64_t number(const char *what, const char *text, uint64_t min, uint64_t max)
{
	char *end;
	unsigned long long parsed;

	errno = 0;
	parsed = strtoull(text, &end, 10);
	if (*text < '0' || *text > '9' || *end != '\0' || errno != 0 || parsed < min || parsed > max)
		bad_usage(what, text);
	return parsed;
}

static void threads_parse(struct bench *bench, char *list)
{
	char *rest;

	bench->threads_count = 0;
	for (char *word = strtok_r(list, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
		if (bench->threads_count == THREADS_LIST_MAX)
			bad_usage("too many numbers of threads", word);
		bench->threads[bench->threads_count++] =
			(unsigned)number("no number of threads", word, 1, MEASURE_THREADS_MAX);
	}
	if (bench->threads_count == 0)
		bad_usage("no number of threads", list);
}

static void works_parse(struct bench *bench, char *list)
{
	char *rest;

	memset(bench->work_on, 0, sizeof(bench->work_on));
	for (char *word = strtok_r(list, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
		size_t i = 0;

		while (i < WORKS && strcmp(works[i].name, word) != 0)
			i++;
		if (i == WORKS)
			bad_usage("no such work", word);
		bench->work_on[i] = true;
	}
}

static void impls_parse(struct bench *bench, char *list)
{
	char *rest;

	memset(bench->impl_on, 0, sizeof(bench->impl_on));
	for (char *word = strtok_r(list, ",", &rest); word != NULL; word = strtok_r(NULL, ",", &rest)) {
		size_t i = 0;

		while (i < IMPLS && strcmp(impls[i]->name, word) != 0)
			i++;
		if (i == IMPLS)
			bad_usage("no such implementation", word);
		bench->impl_on[i] = true;
	}
}

static void only_parse(struct bench *bench, char *text)
{
	char *colon = strchr(text, ':');

	if (colon != NULL) {
		*colon = '\0';
		impls_parse(bench, colon + 1);
	}
	if (*text != '\0')
		works_parse(bench, text);
}

static double seconds_parse(const char *text)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end != '\0' || !(seconds > 0 && seconds <= 3600))
		bad_usage("no time in seconds", text);
	return seconds;
}

static void bench_defaults(struct bench *bench)
{
	*bench = (struct bench){
		.threads = { 1, 2 }, .threads_count = 2, .rounds = ROUNDS_MIN, .seconds = 0.5, .seed = 1
	};
	if (cpu_count() > 2 && cpu_count() <= MEASURE_THREADS_MAX)
		bench->threads[bench->threads_count++] = cpu_count();
	memset(bench->work_on, true, sizeof(bench->work_on));
	memset(bench->impl_on, true, sizeof(bench->impl_on));
}

static void parse(int argc, char **argv, struct bench *bench)
{
	enum { OPTION_JSON = 256, OPTION_SEED };
	static const struct option options[] = {
		{ "json", no_argument, NULL, OPTION_JSON },
		{ "threads", required_argument, NULL, 't' },
		{ "seconds", required_argument, NULL, 's' },
		{ "rounds", required_argument, NULL, 'r' },
		{ "only", required_argument, NULL, 'o' },
		{ "impl", required_argument, NULL, 'i' },
		{ "seed", required_argument, NULL, OPTION_SEED },
		{ "help", no_argument, NULL, 'h' },
		{ NULL, 0, NULL, 0 },
	};
	int option;

	while ((option = getopt_long(argc, argv, "t:s:r:o:i:h", options, NULL)) != -1) {
		switch (option) {
		case OPTION_JSON:
			bench->report.json = true;
			break;
		case 't':
			threads_parse(bench, optarg);
			break;
		case 's':
			bench->seconds = seconds_parse(optarg);
			break;
		case 'r':
			bench->rounds = (unsigned)number("not 5 to 101 rounds", optarg, ROUNDS_MIN, REPORT_ROUNDS_MAX);
			break;
		case 'o':
			only_parse(bench, optarg);
			break;
		case 'i':
			impls_parse(bench, optarg);
			break;
		case OPTION_SEED:
			bench->seed = number("no seed", optarg, 0, UINT64_MAX);
			break;
		case 'h':
			print_usage(stdout);
			exit(0);
		default:
			fprintf(stderr, "Try 'larder-bench --help'.\n");
			exit(2);
		}
	}
	if (optind != argc)
		bad_usage("no argument is wanted", argv[optind]);
}

static bool takes_part(const struct impl *impl, const struct work *work)
{
	switch (work->kind) {
	case WORK_LOOP:
		return !work->evicts || (impl->traits & IMPL_EVICTS) != 0;
	case WORK_STAMPEDE:
		return (impl->traits & IMPL_LOADS) != 0;
	case WORK_MEMORY:
		return (impl->traits & IMPL_MEMORY) != 0;
	}
	return false;
}

/* The rows of a work: implementations in order, for each the numbers of threads. */
static unsigned rows_plan(const struct bench *bench, const struct work *work, struct row *rows)
{
	const unsigned one[] = { 1 };
	const unsigned *threads = bench->threads;
	unsigned threads_count = bench->threads_count, count = 0;

	if (work->kind == WORK_STAMPEDE) {
		threads = stampede_threads;
		threads_count = sizeof(stampede_threads) / sizeof(stampede_threads[0]);
	} else if (work->kind == WORK_MEMORY) {
		threads = one;
		threads_count = 1;
	}
	for (size_t i = 0; i < IMPLS; i++) {
		if (!bench->impl_on[i] || !takes_part(impls[i], work))
			continue;
		for (unsigned j = 0; j < threads_count; j++) {
			rows[count] = (struct row){ .impl = impls[i], .work = work, .threads = threads[j] };
			count++;
		}
	}
	return count;
}

static struct runner *runner_of(struct runner *runners, unsigned runner_count, const struct impl *impl)
{
	for (unsigned i = 0; i < runner_count; i++) {
		if (runners[i].impl == impl)
			return &runners[i];
	}
	return NULL;
}

static int row_measure(const struct bench *bench, struct row *row, struct runner *runner, const struct supply *supply)
{
	struct sample *sample = &row->samples[row->rounds];
	int error = -1;

	switch (row->work->kind) {
	case WORK_LOOP:
		error = measure_loop(runner, supply, row->threads, bench->seconds, sample);
		break;
	case WORK_STAMPEDE:
		error = measure_stampede(row->impl, row->threads, bench->seconds, bench->seed, sample);
		break;
	case WORK_MEMORY:
		error = measure_memory(row->impl, sample);
		break;
	}
	row->rounds++;
	return error;
}

static int rows_measure(const struct bench *bench, struct row *rows, unsigned row_count, struct runner *runners,
			unsigned runner_count, const struct supply *supply)
{
	int error = 0;

	for (unsigned round = 0; error == 0 && round < bench->rounds; round++) {
		for (unsigned i = 0; error == 0 && i < row_count; i++) {
			struct row *row = &rows[(i + round) % row_count];

			if (bench->progress)
				fprintf(stderr, "\r\033[K%s: round %u of %u, %s, %u threads", row->work->name,
					round + 1, bench->rounds, row->impl->name, row->threads);
			error = row_measure(bench, row, runner_of(runners, runner_count, row->impl), supply);
		}
	}
	if (bench->progress)
		fprintf(stderr, "\r\033[K");
	return error;
}

/* A loop work: its caches are open through all rounds. */
static int loop_run(const struct bench *bench, const struct work *work, struct row *rows, unsigned row_count)
{
	struct runner *runners = calloc(IMPLS, sizeof(*runners));
	unsigned count = 0, threads = 1;
	void *larder = NULL;
	struct supply supply;
	int error;

	for (unsigned i = 0; i < bench->threads_count; i++)
		threads = bench->threads[i] > threads ? bench->threads[i] : threads;
	if (runners == NULL || supply_open(&supply, work, threads, bench->seed) != 0) {
		free(runners);
		return -1;
	}
	error = 0;
	for (unsigned i = 0; error == 0 && i < row_count; i++) {
		if (runner_of(runners, count, rows[i].impl) != NULL)
			continue;
		runners[count].impl = rows[i].impl;
		error = runner_open(&runners[count], &supply, larder, bench->seed);
		if (error != 0)
			break;
		if (rows[i].impl == &impl_larder)
			larder = runners[count].cache;
		count++;
	}
	if (error == 0)
		error = rows_measure(bench, rows, row_count, runners, count, &supply);
	/* in reverse: floor may walk larder's cache */
	while (count > 0)
		error |= runner_close(&runners[--count]);
	supply_close(&supply);
	free(runners);
	return error;
}

static int work_run(struct bench *bench, const struct work *work)
{
	struct row *rows = calloc(IMPLS * THREADS_LIST_MAX, sizeof(*rows));
	unsigned count;
	int error = 0;

	if (rows == NULL)
		return -1;
	count = rows_plan(bench, work, rows);
	if (count > 0 && work->kind == WORK_LOOP)
		error = loop_run(bench, work, rows, count);
	else if (count > 0)
		error = rows_measure(bench, rows, count, NULL, 0, NULL);
	if (error == 0)
		report_rows(&bench->report, rows, count);
	free(rows);
	return error;
}

int main(int argc, char **argv)
{
	struct bench bench;
	int error = 0;

	if (argc == 3 && strcmp(argv[1], MEMORY_CHILD) == 0) {
		for (size_t i = 0; i < IMPLS; i++) {
			if (strcmp(impls[i]->name, argv[2]) == 0)
				return memory_child(impls[i]);
		}
		return 2;
	}
	bench_defaults(&bench);
	parse(argc, argv, &bench);
	bench.progress = isatty(STDERR_FILENO) == 1;
	bench.report.table = !bench.report.json || bench.progress;
	report_head(&bench.report, bench.rounds, bench.seconds, bench.seed);
	for (size_t i = 0; i < WORKS; i++) {
		/* a work that failed has said so; the others are measured all the same */
		if (bench.work_on[i])
			error |= work_run(&bench, &works[i]);
	}
	if (fflush(stdout) != 0 || ferror(stdout)) {
		fprintf(stderr, "larder-bench: standard output: %s\n", strerror(errno));
		error = -1;
	}
	return error != 0 ? 1 : 0;
}
