/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h09-t - H09: one who sleeps must not stop reclamation.
 *
 * While a loader blocks with 8 followers asleep, or the predicate, or a destroy
 * callback does, or a pin is held, other threads push distinct keys of 4 KiB values
 * through a cache of 100: the values alive never exceed the capacity (P6), and the
 * cache's own memory does not grow.  Then a thread is stopped in the middle of a get,
 * wherever that is: others may have to wait for it, but nothing grows and hits go on.
 */
#include "../lib/test.h"

#include <signal.h>
#include <stdio.h>

#define CAPACITY 100
#define VALUE_BYTES 4096
/* Places for the capacity, an eighth more and 1,024 awaiting grace, in slabs of 64 KiB; records of threads, lists. */
#define OVERHEAD_MAX (3 * 65536 + 128 * 1024)

static struct larder_cache *cache;
static struct gate gate;
static _Atomic uint64_t alive, alive_max, fresh;
static _Atomic unsigned long wrong;
static _Atomic bool catch_destroy, catch_idle;

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	uint64_t now, max;

	(void)key, (void)key_len, (void)arg, (void)in_progress;
	*value = malloc(VALUE_BYTES);
	must(*value != NULL);
	memset(*value, 1, VALUE_BYTES);
	now = atomic_fetch_add(&alive, 1) + 1;
	max = atomic_load(&alive_max);
	while (now > max && !atomic_compare_exchange_weak(&alive_max, &max, now))
		;
	return 0;
}

static int load_gated(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	gate_wait(&gate);
	return load(key, key_len, arg, value, in_progress);
}

static void destroy(void *value, void *ctx)
{
	(void)ctx;
	if (atomic_exchange(&catch_destroy, false))
		gate_wait(&gate);
	memset(value, 2, VALUE_BYTES);
	free(value);
	atomic_fetch_sub(&alive, 1);
}

static int idle(void *value, void *ctx)
{
	(void)value, (void)ctx;
	if (atomic_exchange(&catch_idle, false))
		gate_wait(&gate);
	return 1;
}

static void get(uint64_t number, larder_load_fn *loader, bool may_be_refused)
{
	struct key key = key_make(number, 16);
	struct larder_ref ref;
	int r = larder_get(cache, key.bytes, key.len, loader, NULL, &ref);

	if (r == 0)
		larder_release(&ref);
	else if (r != LARDER_EBUSY || !may_be_refused)
		count_up(&wrong);
}

static void *get_blocked(void *arg)
{
	get(UINT64_C(1) << 40, load_gated, false);
	return arg;
}

static void *get_one(void *arg)
{
	get(UINT64_C(1) << 41 | atomic_fetch_add(&fresh, 1), load, false);
	return arg;
}

static void push(struct worker *worker)
{
	unsigned long n = *(unsigned long *)worker->arg;

	for (unsigned long i = 0; i < n; i++)
		get(atomic_fetch_add(&fresh, 1), load, false);
}

static uint64_t resident_bytes(void)
{
	unsigned long long size, resident = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file == NULL || fscanf(file, "%llu %llu", &size, &resident) != 2)
		resident = 0;
	if (file != NULL)
		fclose(file);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Push n keys twice and compare the memory after each. */
static void push_and_measure(const char *what)
{
	unsigned long n = rounds(6000, 2500000);
	uint64_t rss;

	crew_run(2, push, &n);
	rss = resident_bytes();
	crew_run(2, push, &n);
	is_int(wrong, 0, "H09: %s: %lu keys get through", what, 4 * n);
	ok(alive_max <= CAPACITY, "H09: %s: at most %d values alive (P6), there were %lu", what, CAPACITY,
	   (unsigned long)alive_max);
	ok(stat_of(cache, overhead_bytes) <= OVERHEAD_MAX, "H09: %s: the cache's own memory is bounded: %lu KiB", what,
	   (unsigned long)(stat_of(cache, overhead_bytes) / 1024));
	if (UNDER_ASAN || UNDER_TSAN)
		skip(1, "a sanitizer keeps memory for itself");
	else
		ok(resident_bytes() <= rss + 4 * 1024 * 1024, "H09: %s: the process's too: %lu KiB", what,
		   (unsigned long)(rss / 1024));
}

static void open_cache(bool with_idle)
{
	struct larder_options options;

	larder_options_init(&options);
	options.capacity = CAPACITY;
	options.destroy = destroy;
	if (with_idle)
		options.idle = idle;
	must(larder_open(&cache, &options) == 0);
	gate_reset(&gate);
	alive_max = 0;
	for (uint64_t k = 0; k < CAPACITY; k++)
		get(atomic_fetch_add(&fresh, 1), load, false);
}

static void close_cache(const char *what)
{
	is_int(larder_close(cache), 0, "H09: %s: the cache closes", what);
	is_int(alive, 0, "H09: %s: all values are gone (P10)", what);
}

static void test_loader(void)
{
	pthread_t waiting[9];

	open_cache(false);
	for (unsigned i = 0; i < ELEMENTS(waiting); i++)
		waiting[i] = thread_start(get_blocked, NULL);
	until(stat_of(cache, following) == 8);
	push_and_measure("a loader blocks, 8 follow");
	gate_open(&gate);
	for (unsigned i = 0; i < ELEMENTS(waiting); i++)
		thread_join(waiting[i]);
	close_cache("a loader blocks");
}

static void test_callback(_Atomic bool *catch, const char *what)
{
	pthread_t caught;

	open_cache(true);
	atomic_store(catch, true);
	caught = thread_start(get_one, NULL);
	until(atomic_load(&gate.arrived) == 1);
	push_and_measure(what);
	gate_open(&gate);
	thread_join(caught);
	close_cache(what);
}

static void test_pin(void)
{
	struct key key = key_make(UINT64_C(1) << 42, 16);
	struct larder_ref ref;

	open_cache(false);
	must(larder_get(cache, key.bytes, key.len, load, NULL, &ref) == 0);
	push_and_measure("a pin is held");
	is_int(*(unsigned char *)larder_value(&ref), 1, "H09: the pinned value is whole (P4)");
	is_int(larder_release(&ref), 0, "H09: it is let go");
	close_cache("a pin is held");
}

/* ---- stopped anywhere in a get ---------------------------------------------------------- */

static _Atomic bool over;
static _Atomic uint64_t pushed;
static _Atomic unsigned long resumed;

static void stop_here(int number)
{
	(void)number;
	gate_wait(&gate);
	atomic_fetch_add(&resumed, 1);
}

static void *get_until_over(void *arg)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	while (!atomic_load(&over))
		get(rng_below(arg, 4) == 0 ? atomic_fetch_add(&fresh, 1) : 7, load, false);
	return arg;
}

static void *push_until_over(void *arg)
{
	while (!atomic_load(&over)) {
		get(atomic_fetch_add(&fresh, 1), load, false);
		atomic_fetch_add(&pushed, 1);
	}
	return arg;
}

static void test_stopped(void)
{
	struct sigaction action;
	struct rng rng = rng_make(9), theirs = rng_make(10);
	struct key key = key_make(UINT64_C(1) << 43, 16);
	unsigned long n = rounds(100, 2000), missed = 0, grown = 0, still = 0;
	struct larder_ref ref;
	sigset_t set;
	pthread_t getter, pusher;

	open_cache(false);
	must(larder_get(cache, key.bytes, key.len, load, NULL, &ref) == 0);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	memset(&action, 0, sizeof(action));
	action.sa_handler = stop_here;
	sigaction(SIGUSR1, &action, NULL);
	getter = thread_start(get_until_over, &theirs);
	pusher = thread_start(push_until_over, NULL);
	for (unsigned long i = 0; i < n; i++) {
		uint64_t before;

		spin_ns(rng_below(&rng, 50000));
		pthread_kill(getter, SIGUSR1);
		until(atomic_load(&gate.arrived) == 1);
		before = atomic_load(&pushed);
		for (unsigned j = 0; j < 200; j++) { /* a hit waits for nobody (P9) */
			struct larder_ref again;

			if (larder_peek(cache, key.bytes, key.len, &again) != 0)
				missed++;
			else
				larder_release(&again);
			if (j % 20 == 0)
				sched_yield();
		}
		grown += stat_of(cache, overhead_bytes) > OVERHEAD_MAX;
		still += atomic_load(&pushed) == before;
		gate_open(&gate);
		watch_pat();
		until(atomic_load(&resumed) == i + 1 && atomic_load(&pushed) > before + 50);
		gate_reset(&gate);
	}
	atomic_store(&over, true);
	thread_join(getter);
	thread_join(pusher);
	is_int(wrong, 0, "H09: a thread is stopped in a get %lu times: no call fails", n);
	is_int(missed, 0, "H09: hits go on meanwhile (P9)");
	is_int(grown, 0, "H09: the cache's memory stays bounded");
	ok(alive_max <= CAPACITY, "H09: and so do the values alive (P6)");
	note("others stood still in %lu of them", still);
	is_int(larder_release(&ref), 0, "H09: the pin that was hit is let go");
	close_cache("stopped in a get");
}

int main(void)
{
	plan(6 + 6 + 6 + 8 + 7);
	test_loader();
	test_callback(&catch_idle, "the predicate blocks");
	test_callback(&catch_destroy, "a destroy callback blocks");
	test_pin();
	if (UNDER_TSAN)
		skip(7, "the thread sanitizer holds signals back while a thread computes");
	else
		test_stopped();
	return done();
}
