/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * hit-t - P9 counted from within: a hit does not sleep, wake, allocate or enter the
 * kernel; and what a load does of these, with and without followers.
 *
 * The table of park.h is replaced by one that counts, and the linker gives this program
 * the library's calls of the allocator and of syscall().
 */
#include "../../src/park.h"

#include "../lib/test.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <sys/syscall.h>

static _Atomic unsigned long allocations, kernel_calls, waits, wakes;
static _Atomic bool early;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void *__real_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset);
long __real_syscall(long number, ...);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
void *__wrap_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset);
long __wrap_syscall(long number, ...);

void *__wrap_malloc(size_t size)
{
	count_up(&allocations);
	return __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
	count_up(&allocations);
	return __real_calloc(count, size);
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
	count_up(&allocations);
	return __real_aligned_alloc(align, size);
}

void *__wrap_mmap(void *at, size_t size, int protection, int flags, int file, off_t offset)
{
	count_up(&allocations);
	return __real_mmap(at, size, protection, flags, file, offset);
}

long __wrap_syscall(long number, ...)
{
	long arg[6];
	va_list args;

	va_start(args, number);
	for (unsigned i = 0; i < 6; i++)
		arg[i] = va_arg(args, long);
	va_end(args);
	count_up(&kernel_calls);
	return __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4], arg[5]);
}

static int counting_wait(_Atomic uint32_t *word, uint32_t expected, const struct timespec *deadline)
{
	count_up(&waits);
	if (count_of(&early)) { /* as after a signal, or for no reason at all */
		sched_yield();
		return waits % 2 == 0 ? 0 : -EINTR;
	}
	return park_linux.wait(word, expected, deadline);
}

static void counting_wake(_Atomic uint32_t *word, int count)
{
	count_up(&wakes);
	park_linux.wake(word, count);
}

static const struct park_ops counting = { counting_wait, counting_wake };

static void zero(void)
{
	allocations = kernel_calls = waits = wakes = 0;
}

/* What was counted when the threads had hit for the last time: that they end is no hit. */
static unsigned long seen[4];

static void look(void)
{
	seen[0] = count_of(&allocations);
	seen[1] = count_of(&waits);
	seen[2] = count_of(&wakes);
	seen[3] = count_of(&kernel_calls);
}

static void look_back(void)
{
	allocations = seen[0];
	waits = seen[1];
	wakes = seen[2];
	kernel_calls = seen[3];
}

static void nothing_happened(const char *what)
{
	is_int(allocations, 0, "P9: %s: no allocation", what);
	is_int(waits, 0, "P9: %s: no sleep", what);
	is_int(wakes, 0, "P9: %s: no wake", what);
	is_int(kernel_calls, 0, "P9: %s: no system call", what);
}

/* ---- hits ------------------------------------------------------------------------------ */

#define KEYS 32

struct box {
	struct larder_cache *cache;
	struct shelf shelf;
	unsigned long rounds;
	_Atomic unsigned long wrong;
	struct gate gate;
	struct meeting go;
	_Atomic uint64_t number;
	bool fail;
};

static void hit(struct box *box, struct rng *rng)
{
	uint64_t number = rng_below(rng, KEYS);
	struct key key = key_mixed(number);
	struct larder_ref ref, copy, third;

	if (larder_get(box->cache, key.bytes, key.len, value_load_never, &box->shelf, &ref) != 0 ||
	    larder_dup(&ref, &copy) != 0 || larder_peek(box->cache, key.bytes, key.len, &third) != 0) {
		count_up(&box->wrong);
		return;
	}
	value_check(&box->shelf, larder_value(&copy), number);
	if (larder_release(&ref) != 0 || larder_release(&third) != 0 || larder_release(&copy) != 0)
		count_up(&box->wrong);
}

static void hit_together(struct worker *worker)
{
	struct box *box = worker->arg;

	for (unsigned i = 0; i < 16; i++)
		hit(box, &worker->rng);
	meeting_wait(&worker->crew->meeting);
	if (worker->index == 0)
		zero();
	meeting_wait(&worker->crew->meeting);
	for (unsigned long i = 0; i < box->rounds; i++)
		hit(box, &worker->rng);
	meeting_wait(&worker->crew->meeting);
	if (worker->index == 0)
		look();
	meeting_wait(&worker->crew->meeting);
}

static void test_hits(struct box *box)
{
	struct rng rng = rng_make(1);
	unsigned char empty[] = "";
	struct larder_ref ref;

	for (uint64_t k = 0; k < KEYS; k++)
		must(shelf_visit(box->cache, &box->shelf, k) == 0);
	hit(box, &rng);
	zero();
	for (unsigned long i = 0; i < box->rounds; i++)
		hit(box, &rng);
	nothing_happened("one thread's hits, duplicates and releases");
	zero();
	for (unsigned long i = 0; i < 1000; i++)
		if (larder_peek(box->cache, empty, 0, &ref) != LARDER_ENOENT)
			count_up(&box->wrong);
	nothing_happened("a peek that finds nothing");
	crew_run(4, hit_together, box);
	look_back();
	nothing_happened("four threads' hits on the same keys");
	is_int(box->wrong, 0, "P9: all of these were hits");
}

/* ---- loads -------------------------------------------------------------------------------- */

static int load_gated(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct box *box = arg;

	gate_wait(&box->gate);
	if (box->fail)
		return LOAD_ERROR;
	return value_load(key, key_len, &box->shelf, value, load);
}

static void *get_gated(void *arg)
{
	struct box *box = arg;
	struct key key = key_mixed(box->number);
	struct larder_ref ref;
	int r = shelf_get(box->cache, &box->shelf, &key, load_gated, box, &ref, NULL);

	if (r == 0)
		value_drop(&box->shelf, &ref);
	if (r != (box->fail ? LARDER_ELOAD : 0))
		count_up(&box->wrong);
	return NULL;
}

static void test_flight(struct box *box, unsigned followers, bool fail, bool early_wakes)
{
	pthread_t thread[9];

	gate_reset(&box->gate);
	box->fail = fail;
	box->number++;
	zero();
	atomic_store(&early, early_wakes);
	for (unsigned i = 0; i <= followers; i++)
		thread[i] = thread_start(get_gated, box);
	until(atomic_load(&box->gate.arrived) == 1 && stat_of(box->cache, following) == followers);
	if (early_wakes)
		until(count_of(&waits) > 100 * followers);
	else
		until(count_of(&waits) >= followers);
	is_int(atomic_load(&box->gate.arrived), 1, "P1: %u followers%s: one load", followers,
	       early_wakes ? ", whose sleeps end for no reason" : "");
	is_int(stat_of(box->cache, following), followers, "P2: none of them comes back before the outcome");
	gate_open(&box->gate);
	for (unsigned i = 0; i <= followers; i++)
		thread_join(thread[i]);
	atomic_store(&early, false);
	is_int(box->wrong, 0, "P2: all of them have the outcome: %s", fail ? "failure" : "the value");
}

int main(void)
{
	static struct box box;
	struct larder_options options;
	struct larder_ref ref;

	plan(13 + 3 + 5 * 3 + 2 + 3);
	park_ops = &counting;
	shelf_setup(&box.shelf, 2 * KEYS);
	options = shelf_options(&box.shelf);
	box.cache = shelf_open(&options);
	until(count_of(&waits) == 1); /* the background thread has gone to sleep */
	box.rounds = rounds(20000, 1000000);
	test_hits(&box);

	zero();
	for (uint64_t k = 100; k < 110; k++) {
		struct key key = key_mixed(k);

		must(larder_get(box.cache, key.bytes, key.len, value_load_fails, &box.shelf, &ref) == LARDER_ELOAD);
	}
	ok(waits == 0 && wakes == 0, "a failure that nobody waits for wakes nobody");
	zero();
	for (uint64_t k = 100; k < 110; k++)
		must(shelf_visit(box.cache, &box.shelf, k) == 0);
	ok(waits == 0 && wakes == 0, "a publication that nobody waits for wakes nobody");
	is_int(kernel_calls, 0, "and with room to spare it makes no system call");

	box.number = 1000;
	test_flight(&box, 8, false, false);
	ok(wakes >= 1 && wakes <= 9, "at most one wake for each that slept, the leader's among them: %lu",
	   (unsigned long)wakes);
	test_flight(&box, 8, true, false);
	ok(wakes >= 1 && wakes <= 9, "the same for a failure: %lu", (unsigned long)wakes);
	test_flight(&box, 1, false, false);
	test_flight(&box, 4, false, true);
	test_flight(&box, 4, true, true);
	close_shelf(box.cache, &box.shelf, "P9");
	return done();
}
