/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * hits - loads a few values, then hits them, for syscalls-t to look on.
 *
 *	hits COUNT [nothread]
 *
 * The system calls getppid() before and getpid() after the hits are marks in the
 * trace: between them the main thread does nothing but COUNT hits, half of them by
 * larder_get() and half by larder_peek(), and as many releases.
 */
#include <larder.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#define KEYS 8u

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	(void)key, (void)key_len, (void)in_progress;
	*value = arg;
	return 0;
}

static int load_no_more(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	(void)key, (void)key_len, (void)arg, (void)value, (void)in_progress;
	return 1;
}

int main(int argc, char **argv)
{
	uint64_t count = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
	struct larder_options options;
	struct larder_cache *cache;
	struct larder_stats stats;
	struct larder_ref ref;
	uint64_t wrong = 0;

	larder_options_init(&options);
	options.capacity = KEYS;
	options.flags = argc > 2 ? LARDER_NO_THREAD : 0;
	if (larder_open(&cache, &options) != 0)
		return 1;
	for (unsigned i = 0; i < KEYS; i++) {
		if (larder_get(cache, &i, sizeof(i), load, &wrong, &ref) != 0 || larder_release(&ref) != 0)
			return 1;
	}
	(void)syscall(SYS_getppid);
	for (uint64_t n = 0; n < count; n++) {
		unsigned i = (unsigned)(n / 2 % KEYS);
		int code = n % 2 == 0 ? larder_get(cache, &i, sizeof(i), load_no_more, NULL, &ref)
				      : larder_peek(cache, &i, sizeof(i), &ref);

		if (code != 0 || larder_value(&ref) != &wrong || larder_release(&ref) != 0)
			wrong++;
	}
	(void)syscall(SYS_getpid);
	larder_stats_init(&stats);
	if (larder_stats(cache, &stats) != 0 || stats.hits != count || wrong != 0)
		return 1;
	printf("%llu hits\n", (unsigned long long)stats.hits);
	return larder_close(cache) == 0 ? 0 : 1;
}
