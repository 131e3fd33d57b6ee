/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h26-t - H26: readers see a value that is half written.
 *
 * The loader fills 4 KiB with its own stamp in many plain stores and publishes; readers
 * that hit compare all words as soon as they have it.  Plain memory throughout: a
 * thread sanitizer checks the order, too.
 */
#include "../lib/test.h"

#define WORDS 512
#define KEYS 64
#define CAPACITY 48

struct page {
	uint64_t key;
	uint64_t word[WORDS];
};

static struct larder_cache *cache;
static unsigned long n;
static _Atomic uint64_t stamp, loads;
static _Atomic unsigned long torn, foreign, wrong;
static _Atomic bool over;

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	struct page *page = malloc(sizeof(*page));
	uint64_t own = atomic_fetch_add_explicit(&stamp, 1, memory_order_relaxed);

	(void)arg, (void)in_progress;
	must(page != NULL);
	key_number(key, key_len, &page->key);
	for (unsigned i = 0; i < WORDS; i++)
		page->word[(i * 37) % WORDS] = own;
	*value = page;
	count_up(&loads);
	return 0;
}

static void destroy(void *value, void *ctx)
{
	struct page *page = value;

	(void)ctx;
	for (unsigned i = 0; i < WORDS; i++)
		page->word[i] = UINT64_MAX - i;
	free(page);
}

static void look(const struct larder_ref *ref, uint64_t number)
{
	const struct page *page = larder_value(ref);
	uint64_t first = page->word[0];

	for (unsigned i = 1; i < WORDS; i++) {
		if (page->word[i] != first) {
			count_up(&torn);
			break;
		}
	}
	if (page->key != number)
		count_up(&foreign);
}

static void run(struct worker *worker)
{
	bool reader = worker->index >= 2;

	for (unsigned long i = 0; reader ? !atomic_load(&over) : i < n; i++) {
		uint64_t number = rng_below(&worker->rng, KEYS);
		struct key key = key_mixed(number);
		struct larder_ref ref;
		int r = reader ? larder_peek(cache, key.bytes, key.len, &ref)
			       : larder_get(cache, key.bytes, key.len, load, NULL, &ref);

		if (r == 0) {
			look(&ref, number);
			larder_release(&ref);
		} else if (!reader || (r != LARDER_ENOENT && r != LARDER_EINPROGRESS)) {
			count_up(&wrong);
		}
		if (worker->index == 0)
			watch_pat();
	}
	if (worker->index == 0)
		atomic_store(&over, true);
}

int main(void)
{
	struct larder_options options;
	unsigned long published;

	plan(5);
	larder_options_init(&options);
	options.capacity = CAPACITY;
	options.destroy = destroy;
	must(larder_open(&cache, &options) == 0);
	n = rounds(60000, 10000000);
	crew_run(6, run, NULL);
	published = count_of(&loads);
	ok(published > n / 8, "H26: %lu values were published", published);
	is_int(torn, 0, "H26: no reader saw one half written");
	is_int(foreign, 0, "H26: or of another key");
	is_int(wrong, 0, "H26: all gets succeeded");
	is_int(larder_close(cache), 0, "H26: the cache closes");
	return done();
}
