/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h50-t - H50: extreme capacities.
 *
 * 0 and what is above the maximum are errors; 1, 2 and 3 work exactly; large ones take
 * only address space when they are opened.
 */
#include "../lib/test.h"

#include <stdio.h>

struct box {
	struct larder_cache *cache;
	struct shelf shelf;
	unsigned long rounds;
	_Atomic unsigned long wrong;
};

static void run(struct worker *worker)
{
	struct box *box = worker->arg;

	for (unsigned long i = 0; i < box->rounds; i++) {
		int r = shelf_visit(box->cache, &box->shelf, rng_below(&worker->rng, 3 * box->shelf.capacity + 1));

		if (r != 0 && r != LARDER_EBUSY)
			count_up(&box->wrong);
	}
}

static void test_small(uint64_t capacity, uint64_t headroom)
{
	static struct box box;
	struct larder_options options;

	memset(&box, 0, sizeof(box));
	shelf_setup(&box.shelf, capacity);
	options = shelf_options(&box.shelf);
	options.headroom = headroom;
	box.cache = shelf_open(&options);
	box.rounds = rounds(3000, 300000);
	crew_run(4, run, &box);
	is_int(box.wrong, 0, "H50: capacity %" PRIu64 ", headroom %" PRIu64 ", 4 threads", capacity, headroom);
	is_int(unbalanced(box.cache, &box.shelf), 0, "H50: counting adds up");
	if (headroom == 0)
		is_int(pin_until_busy(box.cache, &box.shelf), capacity, "H50: exactly so many pins succeed");
	close_shelf(box.cache, &box.shelf, "H50");
}

static uint64_t resident_kib(void)
{
	unsigned long long size, resident = 0;
	FILE *file = fopen("/proc/self/statm", "r");

	if (file == NULL || fscanf(file, "%llu %llu", &size, &resident) != 2)
		resident = 0;
	if (file != NULL)
		fclose(file);
	return resident * (uint64_t)sysconf(_SC_PAGESIZE) / 1024;
}

static void test_large(uint64_t capacity)
{
	struct larder_options options;
	struct larder_cache *cache = NULL;
	uint64_t before = resident_kib();
	struct shelf shelf;
	unsigned bad = 0;
	int r;

	shelf_setup(&shelf, capacity);
	options = shelf_options(&shelf);
	r = larder_open(&cache, &options);
	if (r == LARDER_ENOMEM) {
		ok(cache == NULL, "H50: capacity %" PRIu64 ": no memory, cleanly", capacity);
		skip(3, "no address space for capacity %" PRIu64, capacity);
		return;
	}
	is_int(r, 0, "H50: capacity %" PRIu64 " opens", capacity);
	for (uint64_t k = 0; k < 1000; k++)
		bad += shelf_visit(cache, &shelf, k) != 0 || shelf_visit(cache, &shelf, k) != 0;
	is_int(bad, 0, "H50: and works");
	if (UNDER_ASAN || UNDER_TSAN)
		skip(1, "a sanitizer takes memory of its own");
	else
		ok(resident_kib() - before < 32 * 1024, "H50: and takes memory as entries come");
	is_int(larder_close(cache), 0, "H50: and closes");
	shelf_end(&shelf);
}

static void test_error(uint64_t capacity)
{
	struct larder_options options;
	struct larder_cache *cache = NULL;

	larder_options_init(&options);
	options.capacity = capacity;
	ok(larder_open(&cache, &options) == LARDER_EINVAL && cache == NULL, "H50: capacity %" PRIu64 " is an error",
	   capacity);
}

int main(void)
{
	plan(5 + 3 * 6 + 2 * 5 + 5 * 4);
	test_error(0);
	test_error(LARDER_CAPACITY_MAX + 1);
	test_error(UINT64_C(1) << 32);
	test_error(SIZE_MAX / 2);
	test_error(SIZE_MAX);
	test_small(1, 0);
	test_small(2, 0);
	test_small(3, 0);
	test_small(2, 1);
	test_small(3, 2);
	test_large(UINT64_C(1) << 16);
	test_large((UINT64_C(1) << 16) + 1);
	test_large((UINT64_C(1) << 30) + 1);
	test_large((UINT64_C(1) << 31) - 1);
	test_large(LARDER_CAPACITY_MAX);
	return done();
}
