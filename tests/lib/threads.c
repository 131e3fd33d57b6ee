/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * threads.c - gates, meetings, crews of threads, random numbers.  See threads.h.
 */
#include "threads.h"

#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tap.h"
#include "watch.h"

/* ---- random numbers ---------------------------------------------------------- */

static _Atomic uint64_t seed;
static pthread_once_t seed_once = PTHREAD_ONCE_INIT;

static void make_seed(void)
{
	const char *wish = getenv("SEED");
	uint64_t s = 0;

	if (wish != NULL && wish[0] != '\0')
		s = strtoull(wish, NULL, 0);
	else if (getrandom(&s, sizeof(s), 0) != (ssize_t)sizeof(s))
		s = (uint64_t)time(NULL);
	atomic_store(&seed, s);
	note("SEED=%" PRIu64, s);
}

uint64_t test_seed(void)
{
	pthread_once(&seed_once, make_seed);
	return atomic_load(&seed);
}

/* splitmix64 (Steele, Lea, Flood): neighbours become strangers. */
static uint64_t scatter(uint64_t x)
{
	x += UINT64_C(0x9e3779b97f4a7c15);
	x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
	return x ^ (x >> 31);
}

struct rng rng_make(uint64_t which)
{
	struct rng rng = { scatter(test_seed() ^ scatter(which + 1)) };

	if (rng.state == 0)
		rng.state = 1;
	return rng;
}

uint64_t rng_next(struct rng *rng)
{
	rng->state ^= rng->state >> 12;
	rng->state ^= rng->state << 25;
	rng->state ^= rng->state >> 27;
	return rng->state * UINT64_C(0x2545f4914f6cdd1d);
}

uint64_t rng_below(struct rng *rng, uint64_t n)
{
	return (rng_next(rng) >> 11) % n;
}

bool rng_once_in(struct rng *rng, uint64_t n)
{
	return rng_below(rng, n) == 0;
}

void spin_ns(uint64_t ns)
{
	struct timespec begin, now;

	if (ns == 0)
		return;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	do
		clock_gettime(CLOCK_MONOTONIC, &now);
	while ((uint64_t)(now.tv_sec - begin.tv_sec) * 1000000000u + (uint64_t)now.tv_nsec - (uint64_t)begin.tv_nsec <
	       ns);
}

/* ---- gates -------------------------------------------------------------------- */

void gate_wait(struct gate *gate)
{
	atomic_fetch_add(&gate->arrived, 1);
	while (atomic_load_explicit(&gate->open, memory_order_acquire) == 0)
		syscall(SYS_futex, &gate->open, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 0, NULL, NULL, 0);
}

void gate_open(struct gate *gate)
{
	atomic_store_explicit(&gate->open, 1, memory_order_release);
	syscall(SYS_futex, &gate->open, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, INT_MAX, NULL, NULL, 0);
}

void gate_reset(struct gate *gate)
{
	atomic_store(&gate->arrived, 0);
	atomic_store(&gate->open, 0);
}

/* ---- meetings ------------------------------------------------------------------- */

void meeting_setup(struct meeting *meeting, uint32_t members)
{
	meeting->members = members;
	atomic_store(&meeting->missing, members);
	atomic_store(&meeting->turn, 0);
}

void meeting_wait(struct meeting *meeting)
{
	uint32_t turn = atomic_load(&meeting->turn);

	if (atomic_fetch_sub(&meeting->missing, 1) == 1) {
		atomic_store(&meeting->missing, meeting->members);
		atomic_fetch_add(&meeting->turn, 1);
		return;
	}
	while (atomic_load(&meeting->turn) == turn)
		sched_yield();
}

/* ---- crews ----------------------------------------------------------------------- */

pthread_t thread_start(void *(*run)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, arg) != 0)
		bail_out("a thread cannot be created");
	return thread;
}

void *thread_join(pthread_t thread)
{
	void *result;

	if (pthread_join(thread, &result) != 0)
		bail_out("a thread cannot be joined");
	return result;
}

static void *crew_thread(void *arg)
{
	struct worker *worker = arg;

	meeting_wait(&worker->crew->start);
	worker->crew->work(worker);
	return NULL;
}

void crew_start(struct crew *crew, unsigned count, work_fn *work, void *arg)
{
	static _Atomic uint64_t crews;
	uint64_t number = atomic_fetch_add(&crews, 1);

	crew->count = count;
	crew->work = work;
	crew->worker = calloc(count, sizeof(*crew->worker));
	if (crew->worker == NULL)
		bail_out("no memory for a crew");
	meeting_setup(&crew->start, count);
	meeting_setup(&crew->meeting, count);
	for (unsigned i = 0; i < count; i++) {
		crew->worker[i].crew = crew;
		crew->worker[i].index = i;
		crew->worker[i].rng = rng_make((number << 16) + i);
		crew->worker[i].arg = arg;
	}
	for (unsigned i = 0; i < count; i++)
		crew->worker[i].thread = thread_start(crew_thread, &crew->worker[i]);
}

void crew_join(struct crew *crew)
{
	for (unsigned i = 0; i < crew->count; i++)
		thread_join(crew->worker[i].thread);
	free(crew->worker);
	crew->worker = NULL;
}

void crew_run(unsigned count, work_fn *work, void *arg)
{
	struct crew crew;

	crew_start(&crew, count, work, arg);
	crew_join(&crew);
}

void await_cancellation(void)
{
	for (;;) {
		if (!UNDER_TSAN)
			pause();
		pthread_testcancel();
		sched_yield();
	}
}

void cpus(unsigned count)
{
	static cpu_set_t all;
	static bool known;
	cpu_set_t some;

	if (!known && sched_getaffinity(0, sizeof(all), &all) != 0)
		bail_out("the set of processors cannot be read");
	known = true;
	some = all;
	if (count != 0) {
		CPU_ZERO(&some);
		for (unsigned i = 0; i < CPU_SETSIZE && count != 0; i++) {
			if (CPU_ISSET(i, &all)) {
				CPU_SET(i, &some);
				count--;
			}
		}
	}
	if (sched_setaffinity(0, sizeof(some), &some) != 0)
		note("the set of processors cannot be changed");
}
