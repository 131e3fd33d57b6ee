/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * evict-s - a hit against the eviction of its entry, and places that are used again
 * at once (H05, H52).
 *
 * Capacity 2 to 4, one to three keys more than that, 14 to 32 threads that get and let
 * go as fast as they can, so that entries die under the hands of those who look for
 * them.  In half of the turns all keys are in one chain; in half of them the library
 * keeps no spare places and frees each after its own grace period, so that addresses
 * repeat at once.  Every value is looked at three times while it is held; it is poisoned
 * when it is destroyed.  A thread that does nothing else stops the others in the middle
 * of a call, each for a millisecond, by a signal.
 *
 *	SECONDS=n SEED=n stress/evict-s
 *
 * What a failure looks like: "# fault: ..." with what a value noticed (wrong key, dead,
 * canaries, destroyed under a pin, too many alive), or a crash, or "not ok" for what is
 * found at rest after each turn of a second.  A hang: "Bail out!" after 60 s.  To replay:
 * the seed decides options, threads and keys; the rest is the scheduler's.
 */
#include "../tests/lib/test.h"

#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

#include "../src/place.h"
#include "run.h"

#define THREADS_MAX 32
#define TURN_S 1.0
#define KEYS_MAX 6

static struct {
	struct larder_cache *cache;
	struct shelf shelf;
	uint64_t keys, first_key;
	double end;
	_Atomic uint64_t over;
	_Atomic uint64_t gets, busy, wrong;
	_Atomic uint32_t loading[KEYS_MAX];
} turn;

static void stop_a_while(int signal)
{
	struct timespec t = { 0, 1000000 };
	int error = errno;

	(void)signal;
	syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &t, NULL);
	errno = error;
}

static uint64_t one_chain(const void *key, size_t key_len, uint64_t seed, void *ctx)
{
	(void)key, (void)key_len, (void)seed, (void)ctx;
	return 1;
}

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *running)
{
	_Atomic uint32_t *loading = &turn.loading[(uint64_t)(uintptr_t)arg - turn.first_key];
	int r;

	if (atomic_exchange_explicit(loading, 1, memory_order_relaxed) != 0)
		shelf_fault(&turn.shelf, "P1: two loaders run for key %" PRIu64, (uint64_t)(uintptr_t)arg);
	r = value_load(key, key_len, &turn.shelf, value, running);
	atomic_store_explicit(loading, 0, memory_order_relaxed);
	return r;
}

static void run(struct worker *worker)
{
	uint64_t gets = 0, busy = 0, wrong = 0;

	while (count_of(&turn.over) == 0) {
		uint64_t number = turn.first_key + rng_below(&worker->rng, turn.keys);
		struct key key = key_mixed(number);
		struct larder_ref ref;
		int r = shelf_get(turn.cache, &turn.shelf, &key, load, (void *)(uintptr_t)number, &ref, NULL);

		gets++;
		if (r != 0) {
			busy += r == LARDER_EBUSY;
			wrong += r != LARDER_EBUSY;
			continue;
		}
		if (rng_once_in(&worker->rng, 8))
			spin_ns(rng_below(&worker->rng, 5000));
		value_check(&turn.shelf, larder_value(&ref), number);
		value_drop(&turn.shelf, &ref);
	}
	atomic_fetch_add_explicit(&turn.gets, gets, memory_order_relaxed);
	atomic_fetch_add_explicit(&turn.busy, busy, memory_order_relaxed);
	atomic_fetch_add_explicit(&turn.wrong, wrong, memory_order_relaxed);
}

/* Stop threads until the turn is over. */
static void disturb(struct crew *crew, struct rng *rng)
{
	struct timespec t = { 0, 2000000 };

	while (run_seconds() < turn.end) {
		clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
		pthread_kill(crew->worker[rng_below(rng, crew->count)].thread, SIGUSR1);
		watch_pat();
	}
	atomic_store_explicit(&turn.over, 1, memory_order_relaxed);
}

int main(void)
{
	uint64_t turns = 0, gets = 0, busy = 0, wrong = 0, evictions = 0, graces = 0, faults = 0;
	uint64_t uneven = 0, short_of = 0, unclosed = 0;
	uint32_t batch = place_batch;
	struct sigaction action;
	struct rng rng;

	run_begin(6);
	rng = rng_make(UINT64_C(1) << 60);
	memset(&action, 0, sizeof(action));
	action.sa_handler = stop_a_while;
	action.sa_flags = SA_RESTART;
	must(sigaction(SIGUSR1, &action, NULL) == 0);
	while (run_goes_on(1) && faults == 0) {
		uint64_t capacity = 2 + rng_below(&rng, 3);
		unsigned threads = 14 + (unsigned)rng_below(&rng, THREADS_MAX - 14 + 1);
		bool chain = rng_once_in(&rng, 2), tiny = rng_once_in(&rng, 2);
		struct larder_options options;
		struct larder_stats stats;
		struct crew crew;

		memset(&turn, 0, sizeof(turn));
		shelf_setup(&turn.shelf, capacity);
		turn.keys = capacity + 1 + rng_below(&rng, KEYS_MAX - capacity);
		turn.first_key = rng_below(&rng, 1000);
		options = shelf_options(&turn.shelf);
		options.hash = chain ? one_chain : NULL;
		options.flags = rng_once_in(&rng, 2) ? LARDER_NO_THREAD : 0;
		place_batch = tiny ? 1 : batch;
		place_retire_limit = tiny ? 1 : 0;
		cpus(rng_once_in(&rng, 4) ? 1 : 0);
		turn.cache = shelf_open(&options);
		turn.end = run_seconds() + TURN_S;
		crew_start(&crew, threads, run, NULL);
		disturb(&crew, &rng);
		crew_join(&crew);
		turns++;
		gets += turn.gets;
		busy += turn.busy;
		wrong += turn.wrong;
		stats = stats_of(turn.cache);
		evictions += stats.evicted_room;
		graces += stats.graces;
		uneven += unbalanced(turn.cache, &turn.shelf) != 0;
		short_of += pin_until_busy(turn.cache, &turn.shelf) != capacity;
		unclosed += larder_close(turn.cache) != 0 || shelf_alive(&turn.shelf) != 0;
		faults += shelf_faults(&turn.shelf);
		if (faults + uneven + short_of + unclosed != 0)
			note("turn %" PRIu64 ": capacity %" PRIu64 ", %" PRIu64 " keys from %" PRIu64
			     "%s%s, %u threads",
			     turns, capacity, turn.keys, turn.first_key, chain ? ", one chain" : "",
			     tiny ? ", no spare places" : "", threads);
		shelf_end(&turn.shelf);
	}
	cpus(0);
	note("%" PRIu64 " turns, %" PRIu64 " gets, %" PRIu64 " refused, %" PRIu64 " evictions, %" PRIu64
	     " grace periods, %.0f s",
	     turns, gets, busy, evictions, graces, run_seconds());
	judge(ok(evictions != 0 && graces != 0, "H05: there were evictions, and places were used again"));
	judge(is_int(wrong, 0, "H05: no code but success and busy"));
	judge(is_int(faults, 0, "H05, H52: no value or loader has noticed anything (P1, P4, P6, P10)"));
	judge(is_int(uneven, 0, "P17: counting adds up at rest, turns"));
	judge(is_int(short_of, 0, "P6, P7: as many pins as the capacity, turns"));
	judge(is_int(unclosed, 0, "the caches close and every value is destroyed, turns"));
	return run_end();
}
