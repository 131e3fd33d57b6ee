/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * measure.c - the works that repeat gets.
 *
 * The threads are bound to a processor each, run one chunk of keys to warm up,
 * meet at a barrier (ck_barrier where each has a processor of its own, one that
 * sleeps elsewhere) and then run until a flag says stop.  Each reads its own
 * clocks right before and after.
 *
 * A measurement is thrown away and repeated, a few times at most, if a thread did
 * not have its processor: if it used less than 93 % of the time that passed.
 * Where threads wait for each other asleep (mutexes, evictions with several
 * threads) that says nothing; there the kernel's own figure for the time that a
 * thread stood in the run queue must be below 7 %, where the kernel tells it.
 */
#include "measure.h"
#include "clock.h"
#include "loop.h"
#include <ck_barrier.h>
#include <inttypes.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ATTEMPTS 4u
#define SHARE_MIN 0.93
#define VALUE_BYTES 64u

struct crew {
	struct runner *runner;
	const struct supply *supply;
	unsigned threads;
	bool spin; /* at the barrier */
	cpu_set_t allowed;
	pthread_barrier_t sleeping;
	sem_t started;
	_Alignas(128) ck_barrier_centralized_t spinning;
	_Alignas(128) atomic_bool stop;
};

struct hand {
	struct worker worker; /* first: it is aligned */
	struct crew *crew;
	unsigned number;
	pthread_t thread;
	uint64_t wall_ns;
	uint64_t cpu_ns;
	uint64_t delay_ns; /* in the run queue */
	bool delay_known;
};

/* The loaders.  Both tell the worker that they ran. */

static const unsigned char *resident_values;

static int load_resident(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct worker *worker = arg;
	struct key asked;

	(void)load;
	if (key_len != sizeof(asked))
		return -1;
	memcpy(&asked, key, sizeof(asked));
	worker->loads++;
	*value = (void *)(uintptr_t)&resident_values[asked.index];
	return 0;
}

static int load_allocated(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct worker *worker = arg;
	void *memory = malloc(VALUE_BYTES);

	(void)load;
	if (memory == NULL)
		return -1;
	memcpy(memory, key, key_len < VALUE_BYTES ? key_len : VALUE_BYTES);
	worker->loads++;
	*value = memory;
	return 0;
}

static void value_free(void *value, void *ctx)
{
	(void)ctx;
	free(value);
}

/* Supplies. */

int supply_open(struct supply *supply, const struct work *work, unsigned threads, uint64_t seed)
{
	*supply = (struct supply){ .work = work, .count = threads + 1 };
	supply->sequences = keys_sequences(work->distribution, work->keys, work->length, supply->count, seed);
	if (!work->evicts)
		supply->values = malloc(work->keys);
	if (supply->sequences == NULL || (!work->evicts && supply->values == NULL)) {
		fprintf(stderr, "%s: no memory for the keys\n", work->name);
		supply_close(supply);
		return -1;
	}
	for (uint32_t i = 0; supply->values != NULL && i < work->keys; i++) {
		struct key key;

		key_make(&key, i);
		supply->values[i] = *(const unsigned char *)&key;
	}
	resident_values = supply->values;
	return 0;
}

void supply_close(struct supply *supply)
{
	free(supply->sequences);
	free(supply->values);
	resident_values = NULL;
}

static larder_load_fn *supply_loader(const struct supply *supply)
{
	return supply->work->evicts ? load_allocated : load_resident;
}

static int fill_one(struct runner *runner, const struct supply *supply, uint32_t index, struct worker *worker)
{
	struct key key;
	struct held held;
	int error;

	key_make(&key, index);
	error = runner->impl->get(runner->cache, &key, sizeof(key), supply_loader(supply), worker, &held);
	if (error != 0) {
		fprintf(stderr, "%s: %s: key %" PRIu32 " cannot be filled in: error %d\n", supply->work->name,
			runner->impl->name, index, error);
		return -1;
	}
	runner->impl->release(runner->cache, &held);
	return 0;
}

/* All keys, or as many as there is room for, in the order in which a user would ask for them. */
static int fill(struct runner *runner, const struct supply *supply)
{
	const struct work *work = supply->work;
	const uint32_t *sequence = supply->sequences + (size_t)(supply->count - 1) * work->length;
	struct worker worker = { 0 };

	if (!work->evicts) {
		for (uint32_t i = 0; i < work->keys; i++) {
			if (fill_one(runner, supply, i, &worker) != 0)
				return -1;
		}
		return 0;
	}
	for (uint32_t i = 0; i < work->length && worker.loads < work->capacity; i++) {
		if (fill_one(runner, supply, sequence[i], &worker) != 0)
			return -1;
	}
	if (worker.loads == work->capacity)
		return 0;
	fprintf(stderr, "%s: the sequence is too short to fill the cache\n", work->name);
	return -1;
}

int runner_open(struct runner *runner, const struct supply *supply, void *larder, uint64_t seed)
{
	struct impl_options options = {
		.capacity = supply->work->capacity,
		.destroy = supply->work->evicts ? value_free : NULL,
		.seed = seed,
		.larder = larder,
	};
	int error = runner->impl->open(&runner->cache, &options);

	if (error != 0) {
		fprintf(stderr, "%s: %s: cannot open a cache: error %d\n", supply->work->name, runner->impl->name,
			error);
		return -1;
	}
	memset(runner->cursor, 0, sizeof(runner->cursor));
	if (fill(runner, supply) == 0)
		return 0;
	runner->impl->close(runner->cache);
	return -1;
}

int runner_close(struct runner *runner)
{
	int error = runner->impl->close(runner->cache);

	if (error != 0)
		fprintf(stderr, "%s: cannot close its cache: error %d\n", runner->impl->name, error);
	return error != 0 ? -1 : 0;
}

/* One measurement. */

/* How long this thread has stood in the run queue so far, if the kernel tells. */
static bool delay_read(uint64_t *delay_ns)
{
	FILE *file = fopen("/proc/thread-self/schedstat", "r");
	bool known = file != NULL && fscanf(file, "%*u %" SCNu64, delay_ns) == 1;

	if (file != NULL)
		fclose(file);
	return known;
}

static void hand_meet(struct hand *hand)
{
	struct crew *crew = hand->crew;
	ck_barrier_centralized_state_t state = CK_BARRIER_CENTRALIZED_STATE_INITIALIZER;

	if (crew->spin)
		ck_barrier_centralized(&crew->spinning, &state, crew->threads);
	else
		pthread_barrier_wait(&crew->sleeping);
}

static void *hand_run(void *arg)
{
	struct hand *hand = arg;
	struct crew *crew = hand->crew;
	struct worker *worker = &hand->worker;
	uint64_t delay_begin_ns, delay_end_ns, wall_begin_ns, cpu_begin_ns;

	cpu_bind(&crew->allowed, hand->number);
	worker->limit = WORKER_CHUNK;
	crew->runner->impl->drive(crew->runner->cache, worker);
	worker->limit = UINT64_MAX;
	worker->ops = worker->loads = worker->refused = 0;
	hand->delay_known = delay_read(&delay_begin_ns);
	hand_meet(hand);
	if (hand->number == 0)
		sem_post(&crew->started);
	cpu_begin_ns = clock_thread_ns();
	wall_begin_ns = clock_ns();
	crew->runner->impl->drive(crew->runner->cache, worker);
	hand->wall_ns = clock_ns() - wall_begin_ns;
	hand->cpu_ns = clock_thread_ns() - cpu_begin_ns;
	hand->delay_known = hand->delay_known && delay_read(&delay_end_ns);
	if (hand->delay_known)
		hand->delay_ns = delay_end_ns - delay_begin_ns;
	return NULL;
}

static bool hand_undisturbed(const struct hand *hand)
{
	const struct crew *crew = hand->crew;

	if (crew->threads > (unsigned)CPU_COUNT(&crew->allowed))
		return true; /* they cannot all have one */
	if (crew->threads > 1 && ((crew->runner->impl->traits & IMPL_LOCKS) != 0 || crew->supply->work->evicts))
		return !hand->delay_known || (double)hand->delay_ns < (1 - SHARE_MIN) * (double)hand->wall_ns;
	return (double)hand->cpu_ns >= SHARE_MIN * (double)hand->wall_ns;
}

/* Add the threads up.  -1 if a value was wrong. */
static int crew_judge(struct crew *crew, const struct hand *hands, struct sample *sample)
{
	uint64_t ops = 0, loads = 0, refused = 0, wrong = 0, wall_ns = 0;

	sample->mops = 0;
	sample->disturbed = false;
	for (unsigned i = 0; i < crew->threads; i++) {
		const struct worker *worker = &hands[i].worker;

		crew->runner->cursor[i] = worker->cursor;
		ops += worker->ops;
		loads += worker->loads;
		refused += worker->refused;
		wrong += worker->wrong;
		wall_ns += hands[i].wall_ns;
		sample->mops += (double)worker->ops * 1000 / (double)hands[i].wall_ns;
		sample->disturbed |= !hand_undisturbed(&hands[i]);
	}
	sample->ns_op = (double)wall_ns / (double)ops;
	/* whoever joined a load had no load of its own and counts as a hit */
	sample->hit_ratio = (double)(ops - loads - refused) / (double)ops;
	if (wrong == 0)
		return 0;
	fprintf(stderr, "%s: %s: %" PRIu64 " of %" PRIu64 " gets gave another key's value\n", crew->supply->work->name,
		crew->runner->impl->name, wrong, ops);
	return -1;
}

static int crew_run(struct crew *crew, struct hand *hands, double seconds, struct sample *sample)
{
	const struct supply *supply = crew->supply;

	crew->stop = false;
	crew->spinning = (ck_barrier_centralized_t)CK_BARRIER_CENTRALIZED_INITIALIZER;
	for (unsigned i = 0; i < crew->threads; i++) {
		hands[i] = (struct hand){ .crew = crew, .number = i };
		hands[i].worker = (struct worker){
			.sequence = supply->sequences + (size_t)i * supply->work->length,
			.length = supply->work->length,
			.cursor = crew->runner->cursor[i],
			.stop = &crew->stop,
			.loader = supply_loader(supply),
		};
		if (pthread_create(&hands[i].thread, NULL, hand_run, &hands[i]) != 0) {
			/* those that wait at the barrier cannot be told: end the process */
			fprintf(stderr, "cannot create thread %u of %u\n", i + 1, crew->threads);
			exit(1);
		}
	}
	while (sem_wait(&crew->started) != 0)
		;
	clock_sleep_ns((uint64_t)(seconds * 1e9));
	atomic_store_explicit(&crew->stop, true, memory_order_relaxed);
	for (unsigned i = 0; i < crew->threads; i++)
		pthread_join(hands[i].thread, NULL);
	return crew_judge(crew, hands, sample);
}

int measure_loop(struct runner *runner, const struct supply *supply, unsigned threads, double seconds,
		 struct sample *sample)
{
	struct crew *crew = aligned_alloc(_Alignof(struct crew), sizeof(*crew));
	struct hand *hands = aligned_alloc(_Alignof(struct hand), threads * sizeof(*hands));
	int error = -1;

	*sample = (struct sample){ 0 };
	if (crew == NULL || hands == NULL) {
		fprintf(stderr, "no memory\n");
		goto out;
	}
	memset(crew, 0, sizeof(*crew));
	crew->runner = runner;
	crew->supply = supply;
	crew->threads = threads;
	sched_getaffinity(0, sizeof(crew->allowed), &crew->allowed);
	crew->spin = threads <= (unsigned)CPU_COUNT(&crew->allowed);
	pthread_barrier_init(&crew->sleeping, NULL, threads);
	sem_init(&crew->started, 0, 0);
	for (unsigned attempt = 0; attempt < ATTEMPTS; attempt++) {
		error = crew_run(crew, hands, seconds, sample);
		if (error != 0 || !sample->disturbed)
			break;
		sample->discarded += attempt + 1 < ATTEMPTS;
	}
	sem_destroy(&crew->started);
	pthread_barrier_destroy(&crew->sleeping);
out:
	free(hands);
	free(crew);
	return error;
}
