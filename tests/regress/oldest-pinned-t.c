/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * oldest-pinned-t - busy, in one thread, although much is idle.
 *
 * When two batches of the oldest entries were pinned and more than a batch of younger
 * ones idle, the search for victims gave up after the pinned ones, the complete look
 * found too many to sort and sent it back to the begin, and so on to the limit.  Every
 * capacity here with every number of the oldest pinned: the victim is the first that is
 * not.
 */
#include "../lib/test.h"

#define CAPACITY_MAX 70

static uint64_t last_victim;

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
	last_victim = (uint64_t)(uintptr_t)value - 1;
}

static int get(struct larder_cache *cache, uint64_t number, struct larder_ref *ref)
{
	struct key key = key_mixed(number);

	return larder_get(cache, key.bytes, key.len, load, NULL, ref);
}

int main(void)
{
	unsigned long busy = 0, disorder = 0, failed = 0, cases = 0;

	plan(3);
	for (uint64_t capacity = 2; capacity <= CAPACITY_MAX; capacity++) {
		for (uint64_t pinned = 0; pinned<capacity; pinned += capacity> 20 ? 3 : 1, cases++) {
			struct larder_ref ref[CAPACITY_MAX], one;
			struct larder_options options;
			struct larder_cache *cache;

			larder_options_init(&options);
			options.capacity = capacity;
			options.destroy = destroy;
			options.flags = LARDER_NO_THREAD;
			must(larder_open(&cache, &options) == 0);
			for (uint64_t k = 0; k < capacity; k++)
				failed += get(cache, k, &ref[k]) != 0;
			for (uint64_t k = pinned; k < capacity; k++)
				failed += larder_release(&ref[k]) != 0;
			for (uint64_t k = 0; k < 3 && k < capacity - pinned; k++) {
				if (get(cache, 1000 + k, &one) != 0) {
					busy++;
					break;
				}
				failed += larder_release(&one) != 0;
				disorder += last_victim != pinned + k;
			}
			for (uint64_t k = 0; k < pinned; k++)
				failed += larder_release(&ref[k]) != 0;
			failed += larder_close(cache) != 0;
		}
		watch_pat();
	}
	is_int(busy, 0, "P7: the oldest are pinned, the others idle: never busy, in %lu cases", cases);
	is_int(disorder, 0, "P8: the victim is the oldest that is idle");
	is_int(failed, 0, "all other calls succeed");
	return done();
}
