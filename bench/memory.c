/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * memory.c - how much memory an entry takes.
 *
 * A process of its own for each measurement, so that no heap has a past: it takes
 * its resident set from /proc/self/statm before the cache is opened and after
 * 1,000,000 keys of 16 bytes were filled in.  A value is a small number in the
 * place of a pointer, so values take no memory of their own, and the growth is
 * table, entry, key and value pointer.
 */
#include "clock.h"
#include "loop.h"
#include "measure.h"
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define ENTRIES UINT64_C(1000000)

static int load_number(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct key asked;

	(void)arg;
	(void)load;
	if (key_len != sizeof(asked))
		return -1;
	memcpy(&asked, key, sizeof(asked));
	*value = (void *)(uintptr_t)(asked.index % 255 + 1);
	return 0;
}

/* Bytes that this process has resident; 0 if the kernel does not tell. */
static uint64_t resident_bytes(void)
{
	FILE *file = fopen("/proc/self/statm", "r");
	uint64_t pages = 0;

	if (file == NULL)
		return 0;
	if (fscanf(file, "%*u %" SCNu64, &pages) != 1)
		pages = 0;
	fclose(file);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

int memory_child(const struct impl *impl)
{
	struct impl_options options = { .capacity = ENTRIES, .seed = 1 };
	uint64_t before, after, begin_ns, took_ns;
	struct counts counts;
	void *cache;

	resident_bytes(); /* the first call brings in what stdio needs */
	before = resident_bytes();
	if (before == 0 || impl->open(&cache, &options) != 0)
		return 1;
	begin_ns = clock_ns();
	for (uint64_t i = 0; i < ENTRIES; i++) {
		struct held held;
		struct key key;

		key_make(&key, i);
		if (impl->get(cache, &key, sizeof(key), load_number, NULL, &held) != 0)
			return 1;
		if ((uintptr_t)held.value != i % 255 + 1)
			return 1;
		impl->release(cache, &held);
	}
	took_ns = clock_ns() - begin_ns;
	after = resident_bytes();
	impl->counts(cache, &counts);
	printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", after - before, counts.overhead_bytes, took_ns);
	return impl->close(cache) != 0 || fflush(stdout) != 0 ? 1 : 0;
}

/* Start this program again as the child; -1, or where its output can be read. */
static int child_start(const struct impl *impl, pid_t *child)
{
	char name[64];
	char *argv[] = { (char *)"larder-bench", (char *)MEMORY_CHILD, name, NULL };
	posix_spawn_file_actions_t actions;
	int ends[2], error;

	snprintf(name, sizeof(name), "%s", impl->name);
	if (pipe(ends) != 0)
		return -1;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
	posix_spawn_file_actions_addclose(&actions, ends[0]);
	posix_spawn_file_actions_addclose(&actions, ends[1]);
	error = posix_spawn(child, "/proc/self/exe", &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(ends[1]);
	if (error == 0)
		return ends[0];
	close(ends[0]);
	return -1;
}

int measure_memory(const struct impl *impl, struct sample *sample)
{
	uint64_t grown = 0, overhead = 0, took_ns = 0;
	int status = -1, numbers = 0, output;
	pid_t child;
	FILE *file;

	*sample = (struct sample){ 0 };
	output = child_start(impl, &child);
	if (output >= 0) {
		file = fdopen(output, "r");
		if (file != NULL) {
			numbers = fscanf(file, "%" SCNu64 " %" SCNu64 " %" SCNu64, &grown, &overhead, &took_ns);
			fclose(file);
		} else {
			close(output);
		}
		while (waitpid(child, &status, 0) < 0 && errno == EINTR)
			;
	}
	if (numbers != 3 || status != 0) {
		fprintf(stderr, "memory: %s: the measuring process failed\n", impl->name);
		return -1;
	}
	sample->bytes_per_entry = (double)grown / (double)ENTRIES;
	sample->overhead_bytes = (double)overhead / (double)ENTRIES;
	sample->ns_op = (double)took_ns / (double)ENTRIES;
	sample->mops = 1000 / sample->ns_op;
	return 0;
}
