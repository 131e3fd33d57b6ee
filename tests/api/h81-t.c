/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h81-t - H81: shutting down waits for the helper's nap.
 *
 * Open, do nothing or little, close, many times, closing at random moments after the
 * opening; with the shared thread, one of its own, and none.  A lost stop hangs.  With
 * LONG=1 the time of each close is looked at, too: the background thread has to go in
 * less than 50 ms, of which one close in a hundred may miss for the machine's sake.
 */
#include "../lib/test.h"

#include <dirent.h>
#include <time.h>

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static unsigned threads_alive(void)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned n = 0;

	must(dir != NULL);
	while (readdir(dir) != NULL)
		n++;
	closedir(dir);
	return n - 2;
}

static void test(uint32_t flags, unsigned entries, const char *what)
{
	struct rng rng = rng_make(flags);
	unsigned long n = rounds(300, 1000), slow = 0, failed = 0;
	unsigned before = threads_alive();
	uint64_t slowest = 0;

	for (unsigned long i = 0; i < n; i++) {
		struct larder_options options;
		struct larder_cache *cache;
		struct shelf shelf;
		uint64_t begin, took;

		shelf_setup(&shelf, 16);
		options = shelf_options(&shelf);
		options.flags = flags;
		options.headroom = flags == LARDER_NO_THREAD || i % 2 == 0 ? 0 : 4;
		cache = shelf_open(&options);
		for (unsigned k = 0; k < entries; k++)
			failed += shelf_visit(cache, &shelf, k) != 0;
		spin_ns(rng_once_in(&rng, 2) ? rng_below(&rng, 200000) : 0);
		if (i % 50 == 49)
			spin_ns(rng_below(&rng, 5000000));
		begin = now_ns();
		failed += larder_close(cache) != 0;
		took = now_ns() - begin;
		slow += took >= 50000000;
		slowest = took > slowest ? took : slowest;
		failed += shelf_faults(&shelf) != 0 || shelf_alive(&shelf) != 0;
		shelf_end(&shelf);
		watch_pat();
	}
	is_int(failed, 0, "H81: %s: opened and closed %lu times", what, n);
	is_int(threads_alive(), before, "H81: and no thread is left");
	note("slowest close: %lu us", (unsigned long)(slowest / 1000));
	if (watch_long())
		ok(slow * 100 <= n, "H81: %lu of %lu took 50 ms or more", slow, n);
	else
		skip(1, "times are looked at with LONG=1 only");
}

int main(void)
{
	plan(6 * 3);
	test(0, 0, "the shared thread, nothing done");
	test(0, 40, "the shared thread, with evictions");
	test(LARDER_OWN_THREAD, 0, "a thread of its own, nothing done");
	test(LARDER_OWN_THREAD, 40, "a thread of its own, with evictions");
	test(LARDER_NO_THREAD, 0, "no thread, nothing done");
	test(LARDER_NO_THREAD, 40, "no thread, with evictions");
	return done();
}
