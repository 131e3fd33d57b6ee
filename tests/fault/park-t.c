/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * park-t - H33: sleeps that end for no reason, and wakes that reach too many.
 *
 * The library's table of sleep and wake is replaced: every other sleep does not happen
 * (0, -EINTR or -EAGAIN, in turn), one wake in four wakes everybody.  Flights, the role
 * of reclaimer and the background thread must not mind.
 */
#include "../lib/test.h"

#include "../../src/park.h"

#undef load_relaxed

static _Atomic uint64_t sleeps, broken_off, wakes, wild;

static int restless_wait(_Atomic uint32_t *word, uint32_t expected, const struct timespec *deadline)
{
	static const int codes[] = { 0, -EINTR, -EAGAIN };
	uint64_t n = atomic_fetch_add_explicit(&sleeps, 1, memory_order_relaxed);

	if (n % 2 == 0) {
		count_up(&broken_off);
		sched_yield();
		return codes[n / 2 % 3];
	}
	return park_linux.wait(word, expected, deadline);
}

static void loud_wake(_Atomic uint32_t *word, int count)
{
	uint64_t n = atomic_fetch_add_explicit(&wakes, 1, memory_order_relaxed);

	if (n % 4 == 0) {
		count_up(&wild);
		count = INT32_MAX;
	}
	park_linux.wake(word, count);
}

static const struct park_ops restless = { restless_wait, loud_wake };

#define THREADS 8

struct race {
	struct larder_cache *cache;
	struct shelf shelf;
	unsigned long rounds;
	_Atomic(void *) value[THREADS];
	_Atomic unsigned long different, wrong, followed, untold;
};

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *running)
{
	struct race *race = arg;
	int r = value_load(key, key_len, &race->shelf, value, running);

	sched_yield();
	return r;
}

static int load_fails(const void *key, size_t key_len, void *arg, void **value, struct larder_load *running)
{
	struct race *race = arg;

	sched_yield();
	return value_load_fails(key, key_len, &race->shelf, value, running);
}

static void run(struct worker *worker)
{
	struct race *race = worker->arg;

	for (unsigned long i = 0; i < race->rounds; i++) {
		struct key key = key_mixed(i);
		bool fails = i % 4 == 3;
		struct larder_outcome outcome;
		struct larder_ref ref;
		int r;

		if (worker->index == 0)
			watch_pat();
		meeting_wait(&worker->crew->meeting);
		r = shelf_get(race->cache, &race->shelf, &key, fails ? load_fails : load, race, &ref, &outcome);
		if (r != (fails ? LARDER_ELOAD : 0))
			count_up(&race->wrong);
		if (fails && outcome.load_error != LOAD_ERROR)
			count_up(&race->untold);
		if (outcome.how == LARDER_JOINED)
			count_up(&race->followed);
		atomic_store_explicit(&race->value[worker->index], r == 0 ? larder_value(&ref) : NULL,
				      memory_order_relaxed);
		meeting_wait(&worker->crew->meeting);
		if (count_of(&race->value[worker->index]) != count_of(&race->value[(worker->index + 1) % THREADS]))
			count_up(&race->different);
		if (r == 0)
			value_drop(&race->shelf, &ref);
	}
}

static void flights(void)
{
	static struct race race;
	struct larder_options options;

	shelf_setup(&race.shelf, 2);
	options = shelf_options(&race.shelf);
	race.cache = shelf_open(&options);
	race.rounds = rounds(4000, 200000);
	crew_run(THREADS, run, &race);
	ok(race.followed != 0 && count_of(&broken_off) != 0 && count_of(&wild) != 0,
	   "H33: %lu times a thread followed; %lu sleeps broken off, %lu wakes too loud", (unsigned long)race.followed,
	   (unsigned long)count_of(&broken_off), (unsigned long)count_of(&wild));
	is_int(race.wrong, 0, "H33: everybody gets the value, or the failure");
	is_int(race.untold, 0, "H33: and the loader's error");
	is_int(race.different, 0, "H33: all hold the same value");
	is_int(stat_of(race.cache, loads_ok), race.rounds - race.rounds / 4, "H33: one load a key");
	at_rest(race.cache, &race.shelf, "flights");
	close_shelf(race.cache, &race.shelf, "flights");
}

/* The role of reclaimer is a lock: sleep on it as well. */
static void crowd(struct worker *worker)
{
	struct race *race = worker->arg;

	for (unsigned long i = 0; i < race->rounds; i++) {
		int r = shelf_visit(race->cache, &race->shelf, rng_below(&worker->rng, 24));

		if (r != 0 && r != LARDER_EBUSY)
			count_up(&race->wrong);
		if (worker->index == 0)
			watch_pat();
	}
}

static void room(uint32_t flags, const char *tag)
{
	static struct race race;
	struct larder_options options;
	unsigned spins = park_spins;

	memset(&race, 0, sizeof(race));
	shelf_setup(&race.shelf, 8);
	options = shelf_options(&race.shelf);
	options.flags = flags;
	park_spins = 0;
	race.cache = shelf_open(&options);
	race.rounds = rounds(10000, 500000);
	crew_run(THREADS, crowd, &race);
	is_int(race.wrong, 0, "H33: %s: evictions by many threads", tag);
	at_rest(race.cache, &race.shelf, tag);
	close_shelf(race.cache, &race.shelf, tag);
	park_spins = spins;
}

int main(void)
{
	plan(11 + 2 * 7);
	park_ops = &restless;
	flights();
	room(LARDER_NO_THREAD, "no thread");
	room(LARDER_OWN_THREAD, "own thread");
	return done();
}
