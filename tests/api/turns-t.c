/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * turns-t - P8 where several threads take turns: up to 16 turns within one epoch, the
 * victims come in the exact order of the gets.
 *
 * A round: everything is trimmed away, which begins an epoch; then threads get keys, one
 * thread at a time, each turn a few gets, 16 turns in all; then one entry after the
 * other is trimmed and must be the one whose last get lies farthest back.
 */
#include "../lib/test.h"

#define KEYS 40
#define TURNS 16
#define THREADS 5

static struct larder_cache *cache;
static uint64_t clock_of[KEYS], now; /* the model; whoever has the turn has it, too */
static uint64_t victim[KEYS];
static unsigned victims;
static unsigned long n, wrong, failed;
static _Atomic unsigned turn_of; /* whose turn it is; THREADS: the main thread's */
static unsigned turns_left;
static _Atomic bool over;

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	uint64_t number;

	(void)arg, (void)in_progress;
	key_number(key, key_len, &number);
	*value = (void *)(uintptr_t)(number + 1);
	return 0;
}

static void destroy(void *value, void *ctx)
{
	(void)ctx;
	if (victims < KEYS)
		victim[victims++] = (uint64_t)(uintptr_t)value - 1;
}

static void take_turn(struct worker *worker)
{
	unsigned gets = 1 + (unsigned)rng_below(&worker->rng, 6);

	while (gets-- != 0) {
		uint64_t number = rng_below(&worker->rng, KEYS);
		struct key key = key_mixed(number);
		struct larder_ref ref;

		if (larder_get(cache, key.bytes, key.len, load, NULL, &ref) != 0 || larder_release(&ref) != 0)
			failed++;
		clock_of[number] = ++now;
	}
}

static void run(struct worker *worker)
{
	while (!atomic_load(&over)) {
		unsigned next;

		if (atomic_load(&turn_of) != worker->index) {
			sched_yield();
			continue;
		}
		take_turn(worker);
		next = (worker->index + 1 + (unsigned)rng_below(&worker->rng, THREADS - 1)) % THREADS;
		atomic_store(&turn_of, --turns_left == 0 ? THREADS : next);
	}
}

static void check_order(void)
{
	uint64_t before = 0;
	unsigned there = 0;
	int64_t r;

	victims = 0;
	while ((r = larder_trim(cache, 1)) == 1)
		;
	for (unsigned k = 0; k < KEYS; k++)
		there += clock_of[k] != 0;
	failed += r != 0 || victims != there;
	for (unsigned i = 0; i < victims; i++) {
		if (clock_of[victim[i]] <= before) {
			if (wrong++ < 5)
				note("victim %u of %u is key %" PRIu64 ", got at %" PRIu64
				     ", after one got at %" PRIu64,
				     i, victims, victim[i], clock_of[victim[i]], before);
			return;
		}
		before = clock_of[victim[i]];
	}
}

int main(void)
{
	struct larder_options options;
	struct crew crew;
	unsigned long seen = 0;

	plan(4);
	larder_options_init(&options);
	options.capacity = KEYS;
	options.destroy = destroy;
	must(larder_open(&cache, &options) == 0);
	atomic_store(&turn_of, THREADS);
	crew_start(&crew, THREADS, run, NULL);
	n = rounds(1500, 200000);
	for (unsigned long i = 0; i < n; i++) {
		memset(clock_of, 0, sizeof(clock_of));
		now = 0;
		turns_left = TURNS;
		atomic_store(&turn_of, (unsigned)(i % THREADS));
		until(atomic_load(&turn_of) == THREADS);
		check_order();
		seen += victims;
		watch_pat();
	}
	atomic_store(&over, true);
	crew_join(&crew);
	is_int(wrong, 0, "P8: %d threads, %d turns an epoch, %lu times: victims in the order of the gets", THREADS,
	       TURNS, n);
	is_int(failed, 0, "P8: all gets and trims succeeded");
	ok(seen > 10 * n, "P8: there were %lu victims", seen);
	is_int(larder_close(cache), 0, "close");
	return done();
}
