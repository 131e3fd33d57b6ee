/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * threads-t - P15 any thread, no ceremony: threads come and go, use the cache while they
 * end, load within loads, start threads within loaders and destroy callbacks.
 */
#include "../lib/test.h"

struct box {
	struct larder_cache *cache;
	struct shelf shelf;
	_Atomic unsigned long wrong, calls;
	pthread_key_t key;
};

static struct box box;

static void visit(uint64_t number)
{
	if (shelf_visit(box.cache, &box.shelf, number) != 0)
		count_up(&box.wrong);
	count_up(&box.calls);
}

static void setup(uint64_t capacity, larder_destroy_fn *destroy)
{
	struct larder_options options;

	memset(&box, 0, sizeof(box));
	shelf_setup(&box.shelf, capacity);
	options = shelf_options(&box.shelf);
	if (destroy != NULL)
		options.destroy = destroy;
	box.cache = shelf_open(&options);
}

/* ---- short lives ------------------------------------------------------------------------ */

static void *visit_and_return(void *arg)
{
	visit((uint64_t)(uintptr_t)arg % 40);
	return NULL;
}

static void *visit_and_exit(void *arg)
{
	visit((uint64_t)(uintptr_t)arg % 40);
	pthread_exit(NULL);
}

static void *visit_and_be_cancelled(void *arg)
{
	visit((uint64_t)(uintptr_t)arg % 40);
	pthread_cancel(pthread_self());
	await_cancellation();
}

/* Runs while the thread ends: before or after the library's own end of thread, and again if it asks for it. */
static void visit_at_the_end(void *arg)
{
	uintptr_t left = (uintptr_t)arg;

	visit(left % 40);
	if (left % 4 != 0)
		pthread_setspecific(box.key, (void *)(left - 1));
}

static void *visit_and_leave_a_destructor(void *arg)
{
	pthread_setspecific(box.key, (void *)((uintptr_t)arg | 1));
	visit((uint64_t)(uintptr_t)arg % 40);
	return NULL;
}

static void test_short_lives(void)
{
	static void *(*const life[])(void *) = { visit_and_return, visit_and_exit, visit_and_be_cancelled,
						 visit_and_leave_a_destructor };
	unsigned long n = rounds(800, 100000);
	uint64_t overhead = 0;

	setup(16, NULL);
	must(pthread_key_create(&box.key, visit_at_the_end) == 0);
	for (unsigned long i = 0; i < n; i++) {
		pthread_t thread[4];

		for (unsigned j = 0; j < 4; j++)
			thread[j] = thread_start(life[j], (void *)(uintptr_t)(4 * i));
		for (unsigned j = 0; j < 4; j++)
			thread_join(thread[j]);
		if (i == n / 2)
			overhead = stat_of(box.cache, overhead_bytes);
		watch_pat();
	}
	is_int(box.wrong, 0, "P15: %lu threads that live for one get, and end in four ways", 4 * n);
	ok(box.calls >= 6 * n - 1, "P15: some of them use the cache while they end");
	ok(stat_of(box.cache, overhead_bytes) <= overhead + 65536,
	   "P15: their records are used again: %lu KiB after half of them, %lu KiB after all",
	   (unsigned long)overhead / 1024, (unsigned long)stat_of(box.cache, overhead_bytes) / 1024);
	at_rest(box.cache, &box.shelf, "P15");
	close_shelf(box.cache, &box.shelf, "P15");
	pthread_key_delete(box.key);
}

/* ---- a thread that ends after its cache --------------------------------------------------- */

static struct gate outlive;

static void *outlive_cache(void *arg)
{
	visit(1);
	gate_wait(&outlive);
	return arg;
}

static void test_outlive(void)
{
	pthread_t thread;

	setup(4, NULL);
	gate_reset(&outlive);
	thread = thread_start(outlive_cache, NULL);
	until(atomic_load(&outlive.arrived) == 1);
	close_shelf(box.cache, &box.shelf, "P15: a thread outlives a cache it has used");
	setup(4, NULL); /* perhaps at the same address */
	gate_open(&outlive);
	thread_join(thread);
	visit(2);
	is_int(box.wrong, 0, "P15: and ends after the next has been opened");
	close_shelf(box.cache, &box.shelf, "P15");
}

/* ---- threads within callbacks ------------------------------------------------------------------ */

static void *visit_other(void *arg)
{
	visit((uint64_t)(uintptr_t)arg);
	return NULL;
}

static int load_by_thread(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	uint64_t number;

	key_number(key, key_len, &number);
	thread_join(thread_start(visit_other, (void *)(uintptr_t)(number + 100000)));
	return value_load(key, key_len, arg, value, load);
}

static _Atomic unsigned nested;

static void destroy_by_thread(void *value, void *ctx)
{
	static _Atomic uint64_t fresh = 1000000;

	if (atomic_fetch_add(&nested, 1) == 0)
		thread_join(thread_start(visit_other, (void *)(uintptr_t)(fresh++)));
	atomic_fetch_sub(&nested, 1);
	value_destroy(value, ctx);
}

static void run_nested(struct worker *worker)
{
	unsigned long n = rounds(60, 5000);

	for (unsigned long i = 0; i < n; i++) {
		struct key key = key_mixed(worker->index * 1000 + i);
		struct larder_ref ref;

		if (shelf_get(box.cache, &box.shelf, &key, load_by_thread, &box.shelf, &ref, NULL) != 0)
			count_up(&box.wrong);
		else
			value_drop(&box.shelf, &ref);
		if (i % 4 == 0)
			larder_trim(box.cache, 1);
	}
}

static void *open_and_close(void *arg)
{
	_Atomic bool *over = arg;

	while (!atomic_load(over)) { /* grace periods, one after the other */
		struct larder_options options;
		struct larder_cache *cache;
		struct shelf shelf;

		shelf_setup(&shelf, 2);
		options = shelf_options(&shelf);
		cache = shelf_open(&options);
		for (uint64_t k = 0; k < 4; k++)
			shelf_visit(cache, &shelf, k);
		if (larder_close(cache) != 0 || shelf_faults(&shelf) != 0)
			count_up(&box.wrong);
		shelf_end(&shelf);
	}
	return NULL;
}

static void test_within_callbacks(void)
{
	static _Atomic bool over;
	pthread_t other;

	setup(64, destroy_by_thread);
	other = thread_start(open_and_close, (void *)&over);
	crew_run(8, run_nested, NULL);
	atomic_store(&over, true);
	thread_join(other);
	is_int(box.wrong, 0, "P15: threads are started and joined within loaders and destroy callbacks");
	at_rest(box.cache, &box.shelf, "P15");
	is_int(larder_trim(box.cache, 64), 64, "P15: trimming goes on while the callback loads more");
	/* While it closes, what the callback's thread asks for is refused: that is no failure here. */
	is_int(larder_close(box.cache), 0, "P15: the cache closes");
	is_int(shelf_alive(&box.shelf), 0, "P10: every value was destroyed once");
	is_int(shelf_faults(&box.shelf), 0, "P15: no promise was broken");
	shelf_end(&box.shelf);
}

/* ---- many caches ---------------------------------------------------------------------------------- */

#define CACHES 100

static struct {
	struct larder_cache *cache;
	struct shelf shelf;
} many[CACHES];

static void use_many(struct worker *worker)
{
	unsigned long n = rounds(20000, 1000000);

	for (unsigned long i = 0; i < n; i++) {
		uint64_t c = rng_below(&worker->rng, CACHES), k = rng_below(&worker->rng, 12);
		int r = shelf_visit(many[c].cache, &many[c].shelf, k);

		if (r != 0 && r != LARDER_EBUSY)
			count_up(&box.wrong);
	}
}

static void open_many(unsigned step)
{
	for (unsigned c = 0; c < CACHES; c += step) {
		struct larder_options options;

		shelf_setup(&many[c].shelf, 8);
		options = shelf_options(&many[c].shelf);
		options.flags = c % 10 == 0 ? LARDER_OWN_THREAD : c % 3 == 0 ? LARDER_NO_THREAD : 0;
		options.headroom = c % 3 == 1 ? 2 : 0;
		many[c].cache = shelf_open(&options);
	}
}

static unsigned long close_many(unsigned step)
{
	unsigned long bad = 0;

	for (unsigned c = 0; c < CACHES; c += step) {
		bad += unbalanced(many[c].cache, &many[c].shelf);
		bad += larder_close(many[c].cache) != 0;
		bad += shelf_faults(&many[c].shelf) != 0 || shelf_alive(&many[c].shelf) != 0;
		shelf_end(&many[c].shelf);
	}
	return bad;
}

static void test_many(void)
{
	unsigned long bad = 0;

	box.wrong = 0;
	open_many(1);
	crew_run(3, use_many, NULL);
	is_int(box.wrong, 0, "P15: three threads use a hundred caches");
	/* This thread's map of caches drops closed ones and takes in new ones. */
	for (unsigned again = 0; again < 5; again++) {
		for (unsigned c = 0; c < CACHES; c++)
			for (uint64_t k = 0; k < 10; k++)
				bad += shelf_visit(many[c].cache, &many[c].shelf, k) != 0;
		bad += close_many(2);
		open_many(2);
	}
	crew_run(3, use_many, NULL);
	is_int(box.wrong, 0, "P15: half of them closed and opened again, five times");
	bad += close_many(1);
	is_int(bad, 0, "P17: each cache counts right and closes");
}

int main(void)
{
	plan(9 + 7 + 8 + 3);
	test_short_lives();
	test_outlive();
	test_within_callbacks();
	test_many();
	return done();
}
