/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h71-t - H71: the background thread loops for nothing, or skips the last element.
 *
 * An idle cache (empty, one entry, full; all pinned; all refused) costs the thread no
 * processor time while a while goes by; 10 s of it with LONG.  A trim of all takes all,
 * also the last one.  The time that goes by is what is measured: nothing waits for it.
 */
#include "../lib/test.h"

#include <dirent.h>
#include <stdio.h>
#include <time.h>

#define CAPACITY 1000

/* Nanoseconds of processor time of the threads named larder; -1 if the kernel does not tell. */
static int64_t background_ns(void)
{
	DIR *dir = opendir("/proc/self/task");
	struct dirent *task;
	int64_t sum = -1;

	while (dir != NULL && (task = readdir(dir)) != NULL) {
		char path[64], name[32] = "";
		unsigned long long ns = 0;
		FILE *file;

		if (task->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%.16s/comm", task->d_name);
		file = fopen(path, "r");
		if (file == NULL || fscanf(file, "%31s", name) != 1)
			name[0] = '\0';
		if (file != NULL)
			fclose(file);
		if (strcmp(name, "larder") != 0)
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%.16s/schedstat", task->d_name);
		file = fopen(path, "r");
		if (file != NULL && fscanf(file, "%llu", &ns) == 1)
			sum = (sum < 0 ? 0 : sum) + (int64_t)ns;
		if (file != NULL)
			fclose(file);
	}
	if (dir != NULL)
		closedir(dir);
	return sum;
}

static void is_quiet(const char *what)
{
	struct timespec nap = { watch_long() ? 10 : 0, 200000000 };
	uint64_t wall_ns = (uint64_t)nap.tv_sec * 1000000000u + (uint64_t)nap.tv_nsec;
	int64_t before, used;

	clock_nanosleep(CLOCK_MONOTONIC, 0, &(struct timespec){ 0, 20000000 }, NULL); /* what was going on ends */
	before = background_ns();
	clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
	used = background_ns() - before;
	if (before < 0) {
		skip(1, "/proc does not tell a thread's processor time");
		return;
	}
	ok((uint64_t)used * 100 < wall_ns, "H71: %s: the background thread used %lu us in %lu ms", what,
	   (unsigned long)used / 1000, (unsigned long)(wall_ns / 1000000));
}

static uint32_t busy;

static int idle(void *value, void *ctx)
{
	return value_idle(value, ctx) && !busy;
}

static void test_quiet(uint32_t flags, uint64_t headroom)
{
	struct larder_options options;
	struct larder_cache *cache;
	struct larder_ref ref[50];
	struct shelf shelf;

	shelf_setup(&shelf, 50);
	options = shelf_options(&shelf);
	options.idle = idle;
	options.flags = flags;
	options.headroom = headroom;
	cache = shelf_open(&options);
	is_quiet("an empty cache");
	shelf_visit(cache, &shelf, 0);
	is_quiet("one entry");
	for (uint64_t k = 0; k < 50; k++)
		shelf_visit(cache, &shelf, k);
	is_quiet("a full cache");
	for (uint64_t k = 100; k < 150; k++) {
		struct key key = key_mixed(k);

		/* With headroom this one takes what the thread has just freed. */
		ref[k - 100] = (struct larder_ref){ NULL, NULL };
		(void)shelf_get(cache, &shelf, &key, value_load, &shelf, &ref[k - 100], NULL);
	}
	is_quiet("all pinned");
	for (unsigned i = 0; i < 50; i++)
		if (ref[i].private_slot != NULL)
			value_drop(&shelf, &ref[i]);
	busy = 1;
	for (uint64_t k = 100; k < 150; k++)
		shelf_visit(cache, &shelf, k);
	is_quiet("all refused by the predicate");
	busy = 0;
	is_int(shelf_faults(&shelf), 0, "H71: no promise was broken");
	is_int(larder_close(cache), 0, "H71: it closes");
	shelf_end(&shelf);
}

static void test_trim(void)
{
	static const uint64_t entries[] = { 1, 2, 3, CAPACITY };
	struct larder_options options;
	struct larder_cache *cache;
	struct shelf shelf;

	shelf_setup(&shelf, CAPACITY);
	options = shelf_options(&shelf);
	cache = shelf_open(&options);
	for (unsigned i = 0; i < ELEMENTS(entries); i++) {
		for (uint64_t k = 0; k < entries[i]; k++)
			must(shelf_visit(cache, &shelf, k) == 0);
		is_int(larder_trim(cache, UINT64_MAX), entries[i], "H71: a trim takes all %" PRIu64 ", also the last",
		       entries[i]);
		is_int(shelf_alive(&shelf), 0, "H71: none is left alive");
	}
	at_rest(cache, &shelf, "H71");
	close_shelf(cache, &shelf, "H71");
}

int main(void)
{
	plan(4 * 7 + 14);
	test_quiet(0, 0);
	test_quiet(0, 5);
	test_quiet(LARDER_OWN_THREAD, 0);
	test_quiet(LARDER_OWN_THREAD, 49);
	test_trim();
	return done();
}
