/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * flight-s - many threads ask for one fresh key at the same moment (H01, H28, H39).
 *
 * In each round 2 to 64 threads are released together; the loader takes no time, 200
 * ns, 2 us or 50 us, or gives its processor away as its last act, so that publication
 * falls into every moment between "there is nothing" and "asleep" of the others.  In
 * one round of eight the loader fails.  On all processors and on one.
 *
 *	SECONDS=n SEED=n stress/flight-s
 *
 * What a failure looks like: a lost wake-up is a round that never ends: "Bail out!
 * nothing happened for 60 s", with all stacks if gdb is there.  A second load of one
 * key, two values, a forgotten pin or unit are "not ok" at the end, and a line
 * "# round ...: ..." when it happens.  To replay: the seed decides the order of threads'
 * numbers, loaders and processors; the rest is the scheduler's, so let it run as long as
 * it did.
 */
#include "../tests/lib/test.h"

#include "run.h"

#define THREADS_MAX 64
#define TURN_S 0.25
#define PRINTED 10

struct answer {
	int code, how, load_error;
	void *value;
};

static struct {
	struct larder_cache *cache;
	struct shelf shelf;
	struct start_line line;
	double end;
	/* The round; written by the first thread while the others wait at the line. */
	uint64_t key, pace;
	bool over;
	_Atomic uint64_t ran;
	struct answer answer[THREADS_MAX];
	/* What was found. */
	unsigned long rounds, failing_rounds, waited, refused, reloaded, different, untold;
} race;

#define FAILS(pace) ((pace) % 8 == 0)

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *running)
{
	static const uint64_t ns[] = { 0, 0, 200, 200, 2000, 50000 };
	uint64_t pace = (uint64_t)(uintptr_t)arg;
	int r;

	count_up(&race.ran);
	if (FAILS(pace))
		r = value_load_fails(key, key_len, &race.shelf, value, running);
	else
		r = value_load(key, key_len, &race.shelf, value, running);
	spin_ns(ns[(pace >> 8) % ELEMENTS(ns)]);
	if (pace >> 62 == 0)
		sched_yield();
	return r;
}

/* The first thread, when all have their answers. */
static void compare(unsigned threads)
{
	uint64_t ran = count_of(&race.ran), loaded = 0;
	unsigned long before = race.refused + race.reloaded + race.different + race.untold;
	bool fails = FAILS(race.pace);

	for (unsigned i = 0; i < threads; i++) {
		const struct answer *a = &race.answer[i];

		loaded += a->how == LARDER_LOADED;
		race.waited += a->how == LARDER_JOINED;
		race.refused += a->code != (fails ? LARDER_ELOAD : 0);
		race.untold += fails && a->load_error != LOAD_ERROR;
		race.different += a->value != race.answer[0].value;
	}
	/* Who comes after a failure was told begins a load of his own. */
	race.reloaded += ran != loaded || (!fails && ran != 1);
	race.rounds++;
	race.failing_rounds += fails;
	if (before == race.refused + race.reloaded + race.different + race.untold || before >= PRINTED)
		return;
	note("round %lu: key %" PRIu64 ", %u threads, %s: the loader ran %" PRIu64 " times", race.rounds, race.key,
	     threads, fails ? "a failing loader" : "a loader", ran);
	for (unsigned i = 0; i < threads && i < 8; i++)
		note("  %s, how %d, load_error %d, value %p", larder_strerror(race.answer[i].code), race.answer[i].how,
		     race.answer[i].load_error, race.answer[i].value);
}

static void run(struct worker *worker)
{
	unsigned threads = worker->crew->count;
	struct starter starter = { 0 };

	for (;;) {
		struct answer *answer = &race.answer[worker->index];
		struct larder_outcome outcome;
		struct larder_ref ref;
		struct key key;

		if (worker->index == 0) {
			race.key++;
			race.pace = rng_next(&worker->rng);
			race.over = run_seconds() >= race.end;
			atomic_store_explicit(&race.ran, 0, memory_order_relaxed);
			watch_pat();
		}
		line_up(&race.line, &starter);
		if (race.over)
			return;
		key = key_mixed(race.key);
		answer->code =
			shelf_get(race.cache, &race.shelf, &key, load, (void *)(uintptr_t)race.pace, &ref, &outcome);
		answer->how = outcome.how;
		answer->load_error = outcome.load_error;
		answer->value = answer->code == 0 ? larder_value(&ref) : NULL;
		line_up(&race.line, &starter);
		if (answer->code == 0)
			value_drop(&race.shelf, &ref);
		if (worker->index == 0)
			compare(threads);
	}
}

int main(void)
{
	static const unsigned crowds[] = { 2, 2, 3, 8, 16, 64 };
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	struct larder_options options;
	struct rng rng;

	run_begin(9);
	rng = rng_make(UINT64_C(1) << 60);
	shelf_setup(&race.shelf, 4);
	options = shelf_options(&race.shelf);
	race.cache = shelf_open(&options);
	while (run_goes_on(1)) {
		unsigned threads = crowds[rng_below(&rng, ELEMENTS(crowds))];
		unsigned on = rng_once_in(&rng, 3) ? 1 : 0;

		cpus(on);
		line_setup(&race.line, threads, on == 0 && threads <= (unsigned long)processors);
		race.end = run_seconds() + TURN_S;
		crew_run(threads, run, NULL);
	}
	cpus(0);
	note("%lu rounds, %lu of them failing, %lu times a thread waited, %.0f s", race.rounds, race.failing_rounds,
	     race.waited, run_seconds());
	judge(ok(race.waited != 0 && race.failing_rounds != 0, "H01: there were rounds of all kinds"));
	judge(is_int(race.refused, 0, "H01: every call gets the value, or the failure"));
	judge(is_int(race.reloaded, 0, "H01, H28: one load a key, and as many as callers that loaded"));
	judge(is_int(race.different, 0, "P2: all hold the same value"));
	judge(is_int(race.untold, 0, "H39: all are told the loader's own error"));
	judge(is_int(unbalanced(race.cache, &race.shelf), 0, "P17: counting adds up at rest"));
	judge(is_int(pin_until_busy(race.cache, &race.shelf), 4, "P6, P7: as many pins as the capacity"));
	judge(is_int(larder_close(race.cache), 0, "the cache closes"));
	judge(is_int(shelf_faults(&race.shelf) + shelf_alive(&race.shelf), 0,
		     "P4, P6, P10: no value has noticed anything, and all are destroyed"));
	shelf_end(&race.shelf);
	return run_end();
}
