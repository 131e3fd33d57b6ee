/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h17-t - H17: loaders of different keys block each other because they share a lock.
 *
 * Key n needs key n / 2, loaded from within its own loader, by 32 threads at once; all
 * keys in one bucket, then with the default hash.  Each loader runs once.
 */
#include "../lib/test.h"

struct tree {
	struct larder_cache *cache;
	uint64_t keys;
	_Atomic unsigned long wrong, loads;
	_Atomic uint32_t *loaded;
};

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress);

static uint64_t value_of(uint64_t n)
{
	return n * 3 + 1;
}

static int get(struct tree *tree, uint64_t n)
{
	struct key key = key_mixed(n);
	struct larder_ref ref;
	int r = larder_get(tree->cache, key.bytes, key.len, load, tree, &ref);

	if (r != 0)
		return r;
	if ((uint64_t)(uintptr_t)larder_value(&ref) != value_of(n))
		count_up(&tree->wrong);
	return larder_release(&ref);
}

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	struct tree *tree = arg;
	uint64_t n;

	(void)in_progress;
	if (!key_number(key, key_len, &n) || n > tree->keys)
		count_up(&tree->wrong);
	if (n > 0 && get(tree, n / 2) != 0)
		count_up(&tree->wrong);
	if (atomic_fetch_add(&tree->loaded[n], 1) != 0)
		count_up(&tree->wrong);
	count_up(&tree->loads);
	*value = (void *)(uintptr_t)value_of(n);
	return 0;
}

static uint64_t one_bucket(const void *key, size_t key_len, uint64_t seed, void *ctx)
{
	(void)key, (void)key_len, (void)seed, (void)ctx;
	return 4711;
}

static void run(struct worker *worker)
{
	struct tree *tree = worker->arg;
	uint64_t n = tree->keys + 1;

	for (uint64_t i = 0; i < n; i++)
		if (get(tree, (i + worker->index * n / worker->crew->count) % n) != 0)
			count_up(&tree->wrong);
}

static void test(larder_hash_fn *hash, uint64_t keys)
{
	struct tree tree = { .keys = keys };
	struct larder_options options;

	tree.loaded = calloc(keys + 1, sizeof(*tree.loaded));
	must(tree.loaded != NULL);
	larder_options_init(&options);
	options.capacity = 20000;
	options.hash = hash;
	must(larder_open(&tree.cache, &options) == 0);
	crew_run(32, run, &tree);
	is_int(tree.loads, keys + 1, "H17: %s, %" PRIu64 " keys, 32 threads: each loader ran once (P1)",
	       hash != NULL ? "one bucket" : "the default hash", keys + 1);
	is_int(tree.wrong, 0, "H17: all values are right");
	is_int(stat_of(tree.cache, misses), keys + 1, "H17: and counted (P17)");
	is_int(larder_close(tree.cache), 0, "H17: the cache closes");
	free((void *)tree.loaded);
}

int main(void)
{
	plan(8);
	test(one_bucket, rounds(400, 10000));
	test(NULL, rounds(10000, 10000));
	return done();
}
