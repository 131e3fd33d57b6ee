/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * replay.c - replaying a trace.  replay.h says how.
 */
#include "replay.h"
#include "clock.h"
#include <ck_pr.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define PROGRESS_NS UINT64_C(100000000)

struct replay {
	const struct trace *trace;
	const struct replay_options *options;
	void *cache;
	cpu_set_t allowed;
	pthread_barrier_t start;
	sem_t ended;                      /* posted once by each thread */
	_Alignas(128) atomic_size_t next; /* the first request that nobody has drawn */
};

struct replayer {
	struct replay *replay;
	unsigned number;
	pthread_t thread;
	size_t request; /* the one it is asking for, for the loader */
	uint64_t duration_ns;
	uint64_t loads;
	uint64_t refused;
	uint64_t failed; /* refusals other than busy */
	uint64_t wrong;  /* values of another key */
	struct histogram *latency;
} __attribute__((aligned(128)));

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	struct replayer *replayer = arg;
	const uint64_t *asked = &replayer->replay->trace->keys[replayer->request];
	uint64_t load_ns = replayer->replay->options->load_ns;

	(void)in_progress;
	replayer->loads++;
	if (key_len != sizeof(*asked) || memcmp(key, asked, key_len) != 0)
		return -1;
	if (load_ns > 0) {
		uint64_t end_ns = clock_ns() + load_ns;

		while (clock_ns() < end_ns)
			ck_pr_stall();
	}
	*value = (void *)(uintptr_t)asked;
	return 0;
}

static inline void request(struct replayer *replayer, size_t number)
{
	const struct replay *replay = replayer->replay;
	const struct impl *impl = replay->options->impl;
	const uint64_t *key = &replay->trace->keys[number];
	struct held held;
	int error;

	replayer->request = number;
	error = impl->get(replay->cache, key, sizeof(*key), load, replayer, &held);
	if (error != 0) {
		replayer->refused++;
		replayer->failed += error != -EBUSY;
		return;
	}
	replayer->wrong += *(const uint64_t *)held.value != *key;
	impl->release(replay->cache, &held);
}

/* Each block is one of the two loops: the clock is read in neither or for each request. */
static void block(struct replayer *replayer, size_t from, size_t to)
{
	if (replayer->latency == NULL) {
		for (size_t i = from; i < to; i++)
			request(replayer, i);
		return;
	}
	for (size_t i = from; i < to; i++) {
		uint64_t begin_ns = clock_ns();

		request(replayer, i);
		histogram_record(replayer->latency, clock_ns() - begin_ns);
	}
}

static void *replayer_run(void *arg)
{
	struct replayer *replayer = arg;
	struct replay *replay = replayer->replay;
	size_t requests = replay->trace->requests;
	uint64_t begin_ns;

	cpu_bind(&replay->allowed, replayer->number);
	pthread_barrier_wait(&replay->start);
	begin_ns = clock_ns();
	for (;;) {
		size_t from = atomic_fetch_add_explicit(&replay->next, REPLAY_BLOCK, memory_order_relaxed);

		if (from >= requests)
			break;
		block(replayer, from, requests - from < REPLAY_BLOCK ? requests : from + REPLAY_BLOCK);
	}
	replayer->duration_ns = clock_ns() - begin_ns;
	sem_post(&replay->ended);
	return NULL;
}

/* Until all threads have ended, and meanwhile say how far they are. */
static void replay_watch(struct replay *replay)
{
	unsigned ended = 0;
	bool spoken = false;

	while (ended < replay->options->threads) {
		struct timespec until;
		int got;

		if (replay->options->progress) {
			uint64_t at_ns = clock_ns() + PROGRESS_NS;

			until = (struct timespec){ (time_t)(at_ns / 1000000000), (long)(at_ns % 1000000000) };
			got = sem_clockwait(&replay->ended, CLOCK_MONOTONIC, &until);
		} else {
			got = sem_wait(&replay->ended);
		}
		if (got == 0) {
			ended++;
		} else if (errno == ETIMEDOUT) {
			size_t next = atomic_load_explicit(&replay->next, memory_order_relaxed);
			size_t requests = replay->trace->requests;

			fprintf(stderr, "\r%s: %3.0f %% of %zu requests, %u thread%s%s", replay->trace->name,
				100.0 * (double)(next < requests ? next : requests) / (double)requests, requests,
				replay->options->threads, replay->options->threads == 1 ? "" : "s",
				replay->options->latency != NULL ? ", timing each" : "");
			spoken = true;
		}
	}
	if (spoken)
		fprintf(stderr, "\r\033[K");
}

/* Add the threads up, and hold what they saw against what the cache counted. */
static int replay_judge(struct replay *replay, const struct replayer *replayers, struct replay_result *result)
{
	const struct counts *counts = &result->counts;
	uint64_t requests = replay->trace->requests;
	struct replayer sum = { 0 };
	uint64_t counted;

	for (unsigned i = 0; i < replay->options->threads; i++) {
		sum.duration_ns += replayers[i].duration_ns;
		sum.loads += replayers[i].loads;
		sum.refused += replayers[i].refused;
		sum.failed += replayers[i].failed;
		sum.wrong += replayers[i].wrong;
		if (replay->options->latency != NULL)
			histogram_add(replay->options->latency, replayers[i].latency);
	}
	replay->options->impl->counts(replay->cache, &result->counts);
	result->ns_per_request = (double)sum.duration_ns / (double)requests;
	counted = counts->hits + counts->misses + counts->joins;
	if ((replay->options->impl->traits & IMPL_LATE) == 0)
		counted += counts->busy;
	if (sum.wrong == 0 && sum.failed == 0 && sum.loads == counts->misses && sum.refused == counts->busy &&
	    counted == requests)
		return 0;
	fprintf(stderr,
		"%s: the counting does not add up: %" PRIu64 " requests, of which the cache counts %" PRIu64
		" hits, %" PRIu64 " misses, %" PRIu64 " joins, %" PRIu64 " busy; the threads saw %" PRIu64
		" loads, %" PRIu64 " refusals (%" PRIu64 " other than busy) and %" PRIu64 " wrong values\n",
		replay->options->impl->name, requests, counts->hits, counts->misses, counts->joins, counts->busy,
		sum.loads, sum.refused, sum.failed, sum.wrong);
	return -1;
}

/* Run the threads over an open cache. */
static int replay_threads(struct replay *replay, struct replayer *replayers, struct replay_result *result)
{
	unsigned threads = replay->options->threads;
	unsigned started = 0;

	pthread_barrier_init(&replay->start, NULL, threads);
	sem_init(&replay->ended, 0, 0);
	while (started < threads) {
		struct replayer *replayer = &replayers[started];

		replayer->replay = replay;
		replayer->number = started;
		if (pthread_create(&replayer->thread, NULL, replayer_run, replayer) != 0) {
			/* those that wait at the barrier cannot be told: end the process */
			fprintf(stderr, "cannot create thread %u of %u\n", started + 1, threads);
			exit(1);
		}
		started++;
	}
	replay_watch(replay);
	for (unsigned i = 0; i < threads; i++)
		pthread_join(replayers[i].thread, NULL);
	sem_destroy(&replay->ended);
	pthread_barrier_destroy(&replay->start);
	return replay_judge(replay, replayers, result);
}

int replay_run(const struct trace *trace, const struct replay_options *options, struct replay_result *result)
{
	struct impl_options impl_options = { .capacity = options->capacity, .seed = options->seed };
	struct replay *replay = aligned_alloc(_Alignof(struct replay), sizeof(*replay));
	struct replayer *replayers = aligned_alloc(_Alignof(struct replayer), options->threads * sizeof(*replayers));
	struct histogram *histograms = NULL;
	int error = -1;

	if (options->latency != NULL)
		histograms = calloc(options->threads, sizeof(*histograms));
	if (replay == NULL || replayers == NULL || (options->latency != NULL && histograms == NULL)) {
		fprintf(stderr, "no memory\n");
		goto out;
	}
	memset(replay, 0, sizeof(*replay));
	memset(replayers, 0, options->threads * sizeof(*replayers));
	for (unsigned i = 0; histograms != NULL && i < options->threads; i++)
		replayers[i].latency = &histograms[i];
	replay->trace = trace;
	replay->options = options;
	sched_getaffinity(0, sizeof(replay->allowed), &replay->allowed);
	error = options->impl->open(&replay->cache, &impl_options);
	if (error != 0) {
		fprintf(stderr, "%s: cannot open a cache of %" PRIu64 " entries: %s\n", options->impl->name,
			options->capacity, larder_strerror(error));
		error = -1;
		goto out;
	}
	error = replay_threads(replay, replayers, result);
	if (options->impl->close(replay->cache) != 0) {
		fprintf(stderr, "%s: the cache cannot be closed although nothing is held\n", options->impl->name);
		error = -1;
	}
out:
	free(histograms);
	free(replayers);
	free(replay);
	return error;
}

uint64_t replay_seed(void)
{
	uint64_t seed = 0;

	if (getrandom(&seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		seed = clock_ns();
	return seed & ((UINT64_C(1) << 48) - 1);
}
