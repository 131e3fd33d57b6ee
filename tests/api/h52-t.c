/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h52-t - H52: a slot is used again (ABA): the reader pairs the old key with the new
 * value.
 *
 * Capacity 2, three keys in one bucket, writers that alternate them as fast as they
 * can, readers that compare the key in the value and the key of the entry with what
 * they asked for.  One reader is stopped now and then wherever it is.
 */
#include "../lib/test.h"

#include <signal.h>

struct race {
	struct larder_cache *cache;
	struct shelf shelf;
	unsigned long rounds;
	struct gate gate;
	pthread_t reader;
	_Atomic bool reader_known, over;
	_Atomic unsigned writers;
	_Atomic unsigned long wrong, hits, resumed, stopped;
};

static struct race race;

static uint64_t one_bucket(const void *key, size_t key_len, uint64_t seed, void *ctx)
{
	(void)key, (void)key_len, (void)seed, (void)ctx;
	return 42;
}

static void stop_here(int number)
{
	(void)number;
	gate_wait(&race.gate);
	atomic_fetch_add(&race.resumed, 1);
}

/* On a loaded machine the writers can be through before anybody else has begun. */
static bool met_all(void)
{
	return count_of(&race.hits) != 0 && (UNDER_TSAN || count_of(&race.stopped) != 0);
}

static void write_keys(struct worker *worker)
{
	for (unsigned long i = 0; i < race.rounds || !met_all(); i++) {
		int r = shelf_visit(race.cache, &race.shelf, (i + worker->index) % 3 * 2);

		if (r != 0 && r != LARDER_EBUSY)
			count_up(&race.wrong);
		if (worker->index == 0)
			watch_pat();
	}
	if (atomic_fetch_sub(&race.writers, 1) == 1)
		atomic_store(&race.over, true);
}

static void read_keys(struct worker *worker)
{
	sigset_t set;

	if (worker->index == 2) {
		sigemptyset(&set);
		sigaddset(&set, SIGUSR1);
		pthread_sigmask(SIG_UNBLOCK, &set, NULL);
		race.reader = pthread_self();
		atomic_store(&race.reader_known, true);
	}
	while (!atomic_load(&race.over)) {
		uint64_t number = rng_below(&worker->rng, 3) * 2;
		struct key key = key_mixed(number);
		struct larder_ref ref;
		const void *bytes;
		size_t len;
		int r = larder_peek(race.cache, key.bytes, key.len, &ref);

		if (r != 0) {
			if (r != LARDER_ENOENT && r != LARDER_EINPROGRESS)
				count_up(&race.wrong);
			continue;
		}
		value_hold(&race.shelf, &ref, number);
		bytes = larder_key(&ref, &len);
		if (len != key.len || memcmp(bytes, key.bytes, len) != 0)
			count_up(&race.wrong);
		count_up(&race.hits);
		value_drop(&race.shelf, &ref);
	}
}

static void run(struct worker *worker)
{
	if (worker->index < 2)
		write_keys(worker);
	else
		read_keys(worker);
}

int main(void)
{
	struct larder_options options;
	struct sigaction action;
	struct rng rng = rng_make(5);
	struct crew crew;
	sigset_t set;

	plan(9);
	memset(&action, 0, sizeof(action));
	action.sa_handler = stop_here;
	sigaction(SIGUSR1, &action, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	shelf_setup(&race.shelf, 2);
	options = shelf_options(&race.shelf);
	options.hash = one_bucket;
	race.cache = shelf_open(&options);
	race.rounds = rounds(20000, 100000000);
	race.writers = 2;
	crew_start(&crew, 6, run, NULL);
	until(atomic_load(&race.reader_known));
	while (!UNDER_TSAN && !atomic_load(&race.over)) {
		unsigned long evicted = stat_of(race.cache, destroyed);

		spin_ns(rng_below(&rng, 200000));
		pthread_kill(race.reader, SIGUSR1);
		until(atomic_load(&race.gate.arrived) == 1);
		/* Its entry is evicted and its place used again meanwhile, unless it stands where that must wait for
		 * it. */
		for (unsigned i = 0; i < 200 && stat_of(race.cache, destroyed) < evicted + 500; i++)
			sched_yield();
		count_up(&race.stopped);
		gate_open(&race.gate);
		until(atomic_load(&race.resumed) == count_of(&race.stopped));
		gate_reset(&race.gate);
	}
	crew_join(&crew);
	is_int(race.wrong, 0, "H52: %lu loads and hits in one bucket of three keys", 2 * race.rounds);
	ok(race.hits > 0, "H52: %lu hits, each of the key that was asked for", (unsigned long)race.hits);
	if (UNDER_TSAN)
		skip(1, "the thread sanitizer holds signals back while a thread computes");
	else
		ok(race.stopped > 0, "H52: one reader was stopped %lu times in the middle",
		   (unsigned long)race.stopped);
	at_rest(race.cache, &race.shelf, "H52");
	close_shelf(race.cache, &race.shelf, "H52");
	return done();
}
