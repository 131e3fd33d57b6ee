/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * stampede.c - many threads miss the same key at once.
 *
 * In each round all threads meet at a barrier and ask for a new key, whose loader
 * sleeps for 1 ms.  Counted are the loads; timed is, from the end of the first
 * loader (publication) on, how long it takes until the last of those has its value
 * who had asked before and did not run that loader.  Whoever asked later found the
 * value there and is not timed.  There are more threads than processors, so the
 * barrier is one that sleeps.
 */
#include "clock.h"
#include "loop.h"
#include "measure.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LOAD_NS 1000000
#define CAPACITY 1024u
#define ROUNDS_MIN 10u
#define ROUNDS_MAX 100000u

struct herd {
	const struct impl *impl;
	void *cache;
	unsigned threads;
	cpu_set_t allowed;
	uint64_t end_ns;
	pthread_barrier_t meet;
	/* written by thread 0 between the rounds */
	uint64_t round;
	bool stop;
	double *last_us; /* a figure for each round that had a follower */
	unsigned last_count;
	double wait_ns; /* from asking to having, summed over threads and rounds */
	/* within a round */
	_Alignas(128) _Atomic uint64_t published_ns; /* 0: not yet */
	atomic_uint loads;
	atomic_uint failed;
};

struct beast {
	struct herd *herd;
	unsigned number;
	pthread_t thread;
	bool first; /* ran the loader that published */
	uint64_t asked_ns;
	uint64_t had_ns;
} __attribute__((aligned(128)));

static const char value_of_all[1];

static int load_slowly(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct beast *beast = arg;
	uint64_t none = 0;

	(void)key;
	(void)key_len;
	(void)load;
	atomic_fetch_add(&beast->herd->loads, 1);
	clock_sleep_ns(LOAD_NS);
	*value = (void *)(uintptr_t)value_of_all;
	beast->first = atomic_compare_exchange_strong(&beast->herd->published_ns, &none, clock_ns());
	return 0;
}

/* Thread 0, while the others wait: the last round's figures, and whether there is another. */
static void herd_judge(struct herd *herd, const struct beast *beasts)
{
	uint64_t published_ns = herd->published_ns, last_ns = 0;

	for (unsigned i = 0; i < herd->threads; i++) {
		herd->wait_ns += (double)(beasts[i].had_ns - beasts[i].asked_ns);
		if (!beasts[i].first && beasts[i].asked_ns < published_ns && beasts[i].had_ns > last_ns)
			last_ns = beasts[i].had_ns;
	}
	if (last_ns > published_ns)
		herd->last_us[herd->last_count++] = (double)(last_ns - published_ns) / 1000;
	herd->round++;
	herd->published_ns = 0;
	herd->stop = herd->round == ROUNDS_MAX || (herd->round >= ROUNDS_MIN && clock_ns() >= herd->end_ns);
}

static void *beast_run(void *arg)
{
	struct beast *beast = arg;
	struct herd *herd = beast->herd;
	struct beast *beasts = beast - beast->number;
	struct held held;
	struct key key;

	cpu_bind(&herd->allowed, beast->number);
	for (;;) {
		pthread_barrier_wait(&herd->meet);
		if (herd->stop)
			return NULL;
		key_make(&key, herd->round);
		beast->first = false;
		beast->asked_ns = clock_ns();
		if (herd->impl->get(herd->cache, &key, sizeof(key), load_slowly, beast, &held) == 0)
			herd->impl->release(herd->cache, &held);
		else
			atomic_fetch_add(&herd->failed, 1);
		beast->had_ns = clock_ns();
		pthread_barrier_wait(&herd->meet);
		if (beast->number == 0)
			herd_judge(herd, beasts);
	}
}

static int by_size(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static void herd_run(struct herd *herd, struct beast *beasts, struct sample *sample)
{
	double asked;

	pthread_barrier_init(&herd->meet, NULL, herd->threads);
	for (unsigned i = 0; i < herd->threads; i++) {
		beasts[i] = (struct beast){ .herd = herd, .number = i };
		if (pthread_create(&beasts[i].thread, NULL, beast_run, &beasts[i]) != 0) {
			/* those that wait at the barrier cannot be told: end the process */
			fprintf(stderr, "cannot create thread %u of %u\n", i + 1, herd->threads);
			exit(1);
		}
	}
	for (unsigned i = 0; i < herd->threads; i++)
		pthread_join(beasts[i].thread, NULL);
	pthread_barrier_destroy(&herd->meet);
	asked = (double)herd->round * herd->threads;
	qsort(herd->last_us, herd->last_count, sizeof(*herd->last_us), by_size);
	sample->last_return_us = herd->last_count > 0 ? herd->last_us[herd->last_count / 2] : -1;
	sample->loads_per_round = (double)herd->loads / (double)herd->round;
	sample->hit_ratio = 1 - (double)herd->loads / asked;
	sample->ns_op = herd->wait_ns / asked;
	sample->mops = herd->threads * 1000 / sample->ns_op;
}

int measure_stampede(const struct impl *impl, unsigned threads, double seconds, uint64_t seed, struct sample *sample)
{
	struct impl_options options = { .capacity = CAPACITY, .seed = seed };
	struct herd *herd = aligned_alloc(_Alignof(struct herd), sizeof(*herd));
	struct beast *beasts = aligned_alloc(_Alignof(struct beast), threads * sizeof(*beasts));
	double *last_us = malloc(ROUNDS_MAX * sizeof(*last_us));
	int error = -1;

	*sample = (struct sample){ 0 };
	if (herd == NULL || beasts == NULL || last_us == NULL) {
		fprintf(stderr, "stampede: no memory\n");
		goto out;
	}
	memset(herd, 0, sizeof(*herd));
	herd->impl = impl;
	herd->threads = threads;
	herd->last_us = last_us;
	herd->end_ns = clock_ns() + (uint64_t)(seconds * 1e9);
	sched_getaffinity(0, sizeof(herd->allowed), &herd->allowed);
	error = impl->open(&herd->cache, &options);
	if (error != 0) {
		fprintf(stderr, "stampede: %s: cannot open a cache: error %d\n", impl->name, error);
		goto out;
	}
	herd_run(herd, beasts, sample);
	error = impl->close(herd->cache);
	if (error != 0 || herd->failed > 0) {
		fprintf(stderr, "stampede: %s: %u gets failed, close says %d\n", impl->name, herd->failed, error);
		error = -1;
	}
out:
	free(last_us);
	free(beasts);
	free(herd);
	return error != 0 ? -1 : 0;
}
