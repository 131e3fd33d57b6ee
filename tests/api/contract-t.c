/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * contract-t - each function with good and bad arguments: its codes, and what it
 * leaves untouched.  What needs several threads, no memory or a full cache is tested
 * where the promise in question is.
 */
#include "../lib/test.h"

static unsigned loads;
static unsigned ended, ended_null;

static int load_arg(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	(void)key, (void)key_len, (void)load;
	loads++;
	*value = arg;
	return 0;
}

static int load_nothing(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	(void)key, (void)key_len, (void)arg, (void)value, (void)load;
	loads++;
	return 0; /* *value is not written */
}

static int load_fails(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	(void)key, (void)key_len, (void)load;
	loads++;
	*value = arg; /* of no consequence: it has failed */
	return *(int *)arg;
}

static void destroy(void *value, void *ctx)
{
	(void)ctx;
	ended++;
	ended_null += value == NULL;
}

static struct larder_cache *const untouched = (struct larder_cache *)&loads;
static const struct larder_ref marked = { &loads, &ended };

static bool ref_is_marked(const struct larder_ref *ref)
{
	return memcmp(ref, &marked, sizeof(marked)) == 0;
}

static void free_it(void *ptr, size_t size, void *ctx)
{
	(void)size, (void)ctx;
	free(ptr);
}

static void *alloc_it(size_t size, size_t align, void *ctx)
{
	void *ptr = aligned_alloc(align, size);

	(void)ctx;
	return ptr != NULL ? memset(ptr, 0, size) : NULL;
}

/* ---- larder_open ------------------------------------------------------------------ */

static void refuses_to_open(const struct larder_options *options, const char *why)
{
	struct larder_cache *cache = untouched;
	int r = larder_open(&cache, options);

	ok(r == LARDER_EINVAL && cache == untouched, "open refuses %s", why);
}

static void test_open(void)
{
	struct {
		struct larder_options options;
		unsigned char tail[24];
	} newer;
	struct larder_options good, o;
	struct larder_cache *cache;

	larder_options_init(&good);
	is_int(good.size, sizeof(good), "options_init sets the size");
	good.capacity = 4;
	is_int(larder_open(NULL, &good), LARDER_EINVAL, "open refuses to open into nothing");
	refuses_to_open(NULL, "no options");
	o = good, o.size = sizeof(o) - 1;
	refuses_to_open(&o, "a size smaller than any released");
	o = good, o.size = 0;
	refuses_to_open(&o, "size 0");
	o = good, o.capacity = 0;
	refuses_to_open(&o, "capacity 0");
	o = good, o.capacity = LARDER_CAPACITY_MAX + 1;
	refuses_to_open(&o, "a capacity above the maximum");
	o = good, o.headroom = 4;
	refuses_to_open(&o, "headroom as large as the capacity");
	o = good, o.flags = 1u << 3;
	refuses_to_open(&o, "an unknown flag");
	o = good, o.flags = 1u << 31 | LARDER_SEED;
	refuses_to_open(&o, "an unknown flag beside a known one");
	o = good, o.reserved = 1;
	refuses_to_open(&o, "a reserved member that is not 0");
	o = good, o.flags = LARDER_NO_THREAD | LARDER_OWN_THREAD;
	refuses_to_open(&o, "no thread and a thread of its own");
	o = good, o.flags = LARDER_NO_THREAD, o.headroom = 1;
	refuses_to_open(&o, "headroom without a thread");
	o = good, o.alloc = alloc_it;
	refuses_to_open(&o, "alloc without free");
	o = good, o.free = free_it;
	refuses_to_open(&o, "free without alloc");

	memset(&newer, 0, sizeof(newer));
	newer.options = good;
	newer.options.size = sizeof(newer);
	newer.tail[sizeof(newer.tail) - 1] = 1;
	refuses_to_open(&newer.options, "a newer program's option that it does not know");
	newer.tail[sizeof(newer.tail) - 1] = 0;
	ok(larder_open(&cache, &newer.options) == 0 && larder_close(cache) == 0,
	   "open takes a newer program's options if the unknown ones are 0");
	o = good, o.alloc = alloc_it, o.free = free_it;
	ok(larder_open(&cache, &o) == 0 && larder_close(cache) == 0, "open takes both alloc and free");
	o = good, o.headroom = 3;
	ok(larder_open(&cache, &o) == 0 && larder_close(cache) == 0, "open takes headroom just below the capacity");
	is_int(larder_close(NULL), LARDER_EINVAL, "close refuses no cache");
	is_int(larder_close_report(NULL, NULL), LARDER_EINVAL, "close_report refuses no cache");
}

/* ---- larder_get, larder_get_with, larder_peek ---------------------------------------- */

static unsigned char long_key[LARDER_KEY_MAX + 1];

static void test_get_arguments(struct larder_cache *cache)
{
	struct larder_stats before, after;
	struct larder_ref ref = marked;

	must(larder_peek(cache, "k", 1, &ref) == LARDER_ENOENT); /* this thread is known from now on */
	before = stats_of(cache);
	loads = 0;
	is_int(larder_get(NULL, "k", 1, load_arg, NULL, &ref), LARDER_EINVAL, "get refuses no cache");
	is_int(larder_get(cache, "k", 1, NULL, NULL, &ref), LARDER_EINVAL, "get refuses no loader");
	is_int(larder_get(cache, "k", 1, load_arg, NULL, NULL), LARDER_EINVAL, "get refuses no ref");
	is_int(larder_get(cache, NULL, 1, load_arg, NULL, &ref), LARDER_EINVAL, "get refuses no key of one byte");
	is_int(larder_get(cache, NULL, 16, load_arg, NULL, &ref), LARDER_EINVAL, "get refuses no key of 16 bytes");
	is_int(larder_get(cache, long_key, LARDER_KEY_MAX + 1, load_arg, NULL, &ref), LARDER_EINVAL,
	       "get refuses a key of 65,536 bytes");
	is_int(larder_get(cache, long_key, SIZE_MAX, load_arg, NULL, &ref), LARDER_EINVAL,
	       "get refuses a key of SIZE_MAX bytes");
	is_int(larder_peek(NULL, "k", 1, &ref), LARDER_EINVAL, "peek refuses no cache");
	is_int(larder_peek(cache, "k", 1, NULL), LARDER_EINVAL, "peek refuses no ref");
	is_int(larder_peek(cache, NULL, 1, &ref), LARDER_EINVAL, "peek refuses no key of one byte");
	is_int(larder_peek(cache, long_key, LARDER_KEY_MAX + 1, &ref), LARDER_EINVAL,
	       "peek refuses a key of 65,536 bytes");
	is_int(larder_peek(cache, "k", 1, &ref), LARDER_ENOENT, "peek does not find an absent key");
	ok(ref_is_marked(&ref), "the ref is untouched by all of these");
	is_int(loads, 0, "no loader ran");
	after = stats_of(cache);
	before.absent++;
	is_int(memcmp(&before, &after, sizeof(before)), 0, "refused arguments change nothing in the statistics");
}

static void test_get_with_arguments(struct larder_cache *cache)
{
	struct {
		struct larder_get_options options;
		unsigned char tail[16];
	} newer;
	struct {
		struct larder_outcome outcome;
		unsigned char tail[16];
	} wide;
	struct larder_get_options o;
	struct larder_outcome outcome, copy;
	struct larder_ref ref = marked;
	int value;

	loads = 0;
	larder_outcome_init(&outcome);
	is_int(outcome.size, sizeof(outcome), "outcome_init sets the size");
	larder_get_options_init(&o);
	is_int(o.size, sizeof(o), "get_options_init sets the size");

	memset(&outcome, 0x55, sizeof(outcome));
	outcome.size = sizeof(outcome) - 1;
	copy = outcome;
	is_int(larder_get_with(cache, "w", 1, load_arg, NULL, NULL, &ref, &outcome), LARDER_EINVAL,
	       "get_with refuses an outcome smaller than any released");
	is_int(memcmp(&outcome, &copy, sizeof(copy)), 0, "and leaves that untouched");

	memset(&outcome, 0x55, sizeof(outcome));
	outcome.size = sizeof(outcome);
	is_int(larder_get_with(NULL, "w", 1, load_arg, NULL, NULL, &ref, &outcome), LARDER_EINVAL,
	       "get_with refuses no cache");
	ok(outcome.how == LARDER_NONE && outcome.load_error == 0 && outcome.refusal.pinned == 0 &&
		   outcome.refusal.loading == 0 && outcome.refusal.refused == 0 && outcome.refusal.in_transit == 0,
	   "the outcome is written all the same");
	memset(&outcome, 0x55, sizeof(outcome));
	outcome.size = sizeof(outcome);
	is_int(larder_get_with(cache, "w", 1, NULL, NULL, NULL, &ref, &outcome), LARDER_EINVAL,
	       "get_with refuses no loader");
	is_int(outcome.how, LARDER_NONE, "the outcome is written then, too");
	is_int(larder_get_with(cache, "w", 1, load_arg, NULL, NULL, NULL, &outcome), LARDER_EINVAL,
	       "get_with refuses no ref");
	is_int(larder_get_with(cache, long_key, LARDER_KEY_MAX + 1, load_arg, NULL, NULL, &ref, &outcome),
	       LARDER_EINVAL, "get_with refuses a key of 65,536 bytes");
	o.size = sizeof(o) - 1;
	is_int(larder_get_with(cache, "w", 1, load_arg, NULL, &o, &ref, &outcome), LARDER_EINVAL,
	       "get_with refuses options smaller than any released");
	larder_get_options_init(&o);
	o.flags = 1;
	is_int(larder_get_with(cache, "w", 1, load_arg, NULL, &o, &ref, &outcome), LARDER_EINVAL,
	       "get_with refuses an unknown flag");
	larder_get_options_init(&o);
	o.reserved = 1;
	is_int(larder_get_with(cache, "w", 1, load_arg, NULL, &o, &ref, &outcome), LARDER_EINVAL,
	       "get_with refuses a reserved member that is not 0");
	memset(&newer, 0, sizeof(newer));
	newer.options.size = sizeof(newer);
	newer.tail[0] = 1;
	is_int(larder_get_with(cache, "w", 1, load_arg, NULL, &newer.options, &ref, &outcome), LARDER_EINVAL,
	       "get_with refuses a newer program's option that it does not know");
	ok(ref_is_marked(&ref), "the ref is untouched by all of these");
	is_int(loads, 0, "no loader ran");

	newer.tail[0] = 0;
	memset(&wide, 0x55, sizeof(wide));
	wide.outcome.size = sizeof(wide);
	is_int(larder_get_with(cache, "w", 1, load_arg, &value, &newer.options, &ref, &wide.outcome), 0,
	       "get_with takes larger options and a larger outcome");
	ok(wide.outcome.how == LARDER_LOADED && wide.outcome.size == sizeof(wide), "the outcome says loaded");
	for (size_t i = 0; i < sizeof(wide.tail); i++)
		loads += wide.tail[i] != 0;
	is_int(loads, 1, "what a newer program knows of the outcome is 0");
	is_ptr(larder_value(&ref), &value, "the value is there");
	is_int(larder_release(&ref), 0, "it is released");
	memset(&outcome, 0x55, sizeof(outcome));
	outcome.size = sizeof(outcome);
	is_int(larder_get_with(cache, "w", 1, load_arg, NULL, NULL, &ref, &outcome), 0, "the same key again");
	ok(outcome.how == LARDER_HIT && outcome.load_error == 0 && outcome.refusal.pinned == 0, "the outcome says hit");
	is_int(larder_release(&ref), 0, "it is released");
	is_int(larder_get_with(cache, "w", 1, load_arg, NULL, NULL, &ref, NULL), 0, "no outcome is wanted");
	is_int(larder_release(&ref), 0, "it is released");
}

static void test_keys(struct larder_cache *cache)
{
	static const size_t lengths[] = { 0, 1, 7, 8, 9, 15, 16, 17, 23, 24, 25, 63, 64, 65, 4096, 65534, 65535 };
	struct larder_ref ref[ELEMENTS(lengths)], again;
	unsigned char mine[ELEMENTS(lengths)], other[64] = { 0 };
	unsigned bad = 0;
	const void *key;
	size_t len;

	for (size_t i = 0; i < sizeof(long_key); i++)
		long_key[i] = (unsigned char)(i * 7 + 1);
	loads = 0;
	for (unsigned i = 0; i < ELEMENTS(lengths); i++)
		bad += larder_get(cache, long_key, lengths[i], load_arg, &mine[i], &ref[i]) != 0;
	is_int(bad, 0, "keys of 0 to 65,535 bytes are keys, each the begin of the next");
	is_int(loads, ELEMENTS(lengths), "all of them different ones");
	for (unsigned i = 0; i < ELEMENTS(lengths); i++) {
		key = larder_key(&ref[i], &len);
		bad += larder_value(&ref[i]) != &mine[i] || len != lengths[i] ||
		       (len != 0 && memcmp(key, long_key, len) != 0) || key == (const void *)long_key || key == NULL ||
		       larder_key(&ref[i], NULL) != key;
		bad += larder_get(cache, long_key, lengths[i], load_arg, NULL, &again) != 0 ||
		       larder_value(&again) != &mine[i] || larder_release(&again) != 0;
		bad += larder_peek(cache, long_key, lengths[i], &again) != 0 || larder_value(&again) != &mine[i] ||
		       larder_release(&again) != 0;
		bad += larder_release(&ref[i]) != 0;
	}
	is_int(bad, 0, "each has its value and its own copy of its bytes, and is a hit afterwards");
	is_int(loads, ELEMENTS(lengths), "no loader ran for those");
	ok(larder_get(cache, NULL, 0, load_arg, NULL, &again) == 0 && larder_value(&again) == &mine[0] &&
		   larder_release(&again) == 0,
	   "the empty key may be NULL");
	/* Every byte counts, also the last one and those after a zero. */
	for (size_t i = 0; i < sizeof(other); i++) {
		int r;

		memset(other, 0, sizeof(other));
		other[i] = 1;
		r = larder_get(cache, other, sizeof(other), load_arg, &other[i], &again);
		bad += r != 0 || larder_value(&again) != &other[i] || larder_release(&again) != 0;
	}
	is_int(bad, 0, "keys that differ in one byte are different keys, whichever byte it is");
	is_int(loads, ELEMENTS(lengths) + sizeof(other), "each was loaded");
}

/* ---- values -------------------------------------------------------------------------- */

static void test_values(void)
{
	static const int errors[] = { 1, -1, 77, -77, INT32_MAX, INT32_MIN };
	struct larder_options options;
	struct larder_cache *cache;
	struct larder_outcome outcome;
	struct larder_ref ref;
	unsigned bad = 0;

	larder_options_init(&options);
	options.capacity = 4;
	options.destroy = destroy;
	must(larder_open(&cache, &options) == 0);
	ended = ended_null = 0;
	ref = marked;
	is_int(larder_get(cache, "null", 4, load_arg, NULL, &ref), 0, "NULL is a legal value");
	ok(larder_value(&ref) == NULL && ref.private_slot != NULL, "it is got and pinned like others");
	is_int(larder_release(&ref), 0, "and released");
	ok(larder_peek(cache, "null", 4, &ref) == 0 && larder_value(&ref) == NULL && larder_release(&ref) == 0,
	   "a peek finds it");
	ok(larder_get(cache, "unwritten", 9, load_nothing, NULL, &ref) == 0 && larder_value(&ref) == NULL &&
		   larder_release(&ref) == 0,
	   "a loader that succeeds and writes no value has made NULL");

	for (unsigned i = 0; i < ELEMENTS(errors); i++) {
		int error = errors[i];

		larder_outcome_init(&outcome);
		ref = marked;
		bad += larder_get_with(cache, "f", 1, load_fails, &error, NULL, &ref, &outcome) != LARDER_ELOAD ||
		       outcome.load_error != error || outcome.how != LARDER_LOADED || !ref_is_marked(&ref);
		bad += larder_get(cache, "f", 1, load_fails, &error, &ref) != LARDER_ELOAD || !ref_is_marked(&ref);
		bad += larder_peek(cache, "f", 1, &ref) != LARDER_ENOENT;
	}
	is_int(bad, 0, "a failed load: its error whatever the number, the ref untouched, nothing left");
	is_int(ended, 0, "what a failed loader left in *value is not the cache's");
	is_int(larder_close(cache), 0, "close");
	ok(ended == 2 && ended_null == 2, "NULL values are ended, too, once each");
}

/* ---- refs ------------------------------------------------------------------------------ */

static void test_refs(struct larder_cache *cache)
{
	struct larder_ref ref, copy, empty = { NULL, NULL };
	size_t len = 4711;
	int value;

	must(larder_get(cache, "refs", 4, load_arg, &value, &ref) == 0);
	is_int(sizeof(ref), 16, "a ref has 16 bytes");
	is_int(larder_dup(NULL, &copy), LARDER_EINVAL, "dup refuses no ref");
	is_int(larder_dup(&ref, NULL), LARDER_EINVAL, "dup refuses no copy");
	copy = marked;
	is_int(larder_dup(&empty, &copy), LARDER_EINVAL, "dup refuses a ref that holds nothing");
	ok(ref_is_marked(&copy), "and leaves the copy untouched");
	is_ptr(larder_value(&empty), NULL, "a ref that holds nothing has no value");
	is_ptr(larder_key(&empty, &len), NULL, "and no key");
	is_int(len, 4711, "whose length is untouched");
	is_int(larder_release(NULL), LARDER_EINVAL, "release refuses no ref");
	is_int(larder_release(&empty), LARDER_EINVAL, "release refuses a ref that holds nothing");

	is_int(larder_dup(&ref, &copy), 0, "dup");
	ok(larder_value(&copy) == &value && larder_value(&ref) == &value, "both hold the value");
	is_int(stat_of(cache, pinned), 2, "with a pin each");
	is_int(larder_release(&ref), 0, "release");
	ok(ref.private_slot == NULL && ref.private_value == NULL, "zeroes the ref");
	is_int(larder_release(&ref), LARDER_EINVAL, "a second release is noticed");
	is_ptr(larder_value(&ref), NULL, "a released ref has no value");
	is_int(stat_of(cache, pinned), 1, "the other pin stays");
	ok(larder_value(&copy) == &value && memcmp(larder_key(&copy, &len), "refs", 4) == 0 && len == 4,
	   "with its value and key");
	memcpy(&ref, &copy, sizeof(ref));
	is_int(larder_release(&ref), 0, "a ref may be moved by memcpy");
	is_int(stat_of(cache, pinned), 0, "no pin is left");
#if defined(LARDER_CHECKS) && LARDER_CHECKS
	skip(1, "a checking build stops the program when a stale copy of a ref is released");
#else
	is_int(larder_release(&copy), LARDER_EINVAL, "the stale copy's release is noticed while its slot is free");
#endif
}

/* ---- the rest ---------------------------------------------------------------------------- */

static void test_rest(struct larder_cache *cache)
{
	static const int codes[] = { LARDER_OK,         LARDER_EINVAL,      LARDER_ENOMEM,  LARDER_EBUSY,
				     LARDER_ENOENT,     LARDER_EINPROGRESS, LARDER_EDEADLK, LARDER_ELOAD,
				     LARDER_EABANDONED, LARDER_ETHREAD,     LARDER_ECLOSED };
	struct {
		struct larder_stats stats;
		unsigned char tail[16];
	} wide;
	struct larder_stats stats, copy;
	unsigned bad = 0;
	int64_t trimmed;
	int r;

	is_int(larder_trim(NULL, 1), LARDER_EINVAL, "trim refuses no cache");
	is_int(larder_trim(cache, 0), 0, "trim of nothing");
	stats = stats_of(cache);
	trimmed = larder_trim(cache, UINT64_MAX);
	is_int(trimmed, stats.resident, "trim of all says how many there were");
	is_int(larder_trim(cache, 1), 0, "and then there is nothing to trim");
	is_int(stat_of(cache, evicted_trim), trimmed, "the statistics say so, too");

	is_int(larder_step(NULL, 0), LARDER_EINVAL, "step refuses no cache");
	r = larder_step(cache, 0);
	ok(r == 0 || r == 1, "step says whether there is more to do");
	until(larder_step(cache, UINT64_C(1000000)) == 0);
	is_int(larder_step(cache, UINT64_MAX), 0, "and in the end there is not");

	memset(&stats, 0x55, sizeof(stats));
	stats.size = sizeof(stats) - 1;
	copy = stats;
	is_int(larder_stats(cache, &stats), LARDER_EINVAL, "stats refuses a size smaller than any released");
	is_int(memcmp(&stats, &copy, sizeof(copy)), 0, "and leaves the struct untouched");
	stats.size = sizeof(stats);
	is_int(larder_stats(NULL, &stats), LARDER_EINVAL, "stats refuses no cache");
	is_int(larder_stats(cache, NULL), LARDER_EINVAL, "stats refuses no struct");
	memset(&wide, 0x55, sizeof(wide));
	wide.stats.size = sizeof(wide);
	is_int(larder_stats(cache, &wide.stats), 0, "stats takes a newer program's larger struct");
	is_int(wide.stats.size, sizeof(wide), "whose size stays");
	for (size_t i = 0; i < sizeof(wide.tail); i++)
		bad += wide.tail[i] != 0;
	is_int(bad, 0, "and what it does not know is 0");
	is_int(larder_stats_reset(NULL), LARDER_EINVAL, "stats_reset refuses no cache");

	for (unsigned i = 0; i < ELEMENTS(codes); i++) {
		const char *text = larder_strerror(codes[i]);

		bad += text == NULL || text[0] == '\0' || strcmp(text, larder_strerror(12345)) == 0;
		for (unsigned j = 0; j < i; j++)
			bad += codes[i] == codes[j] || strcmp(text, larder_strerror(codes[j])) == 0;
	}
	is_int(bad, 0, "each code has a number and a sentence of its own");
	ok(larder_strerror(12345) != NULL && larder_strerror(INT32_MIN) != NULL, "unknown codes have one, too");
	is_str(larder_version(), "0.1.0", "version");
}

int main(void)
{
	struct larder_options options;
	struct larder_cache *cache;

	plan(120);
	test_open();
	larder_options_init(&options);
	options.capacity = 256;
	must(larder_open(&cache, &options) == 0);
	test_get_arguments(cache);
	test_get_with_arguments(cache);
	test_keys(cache);
	test_values();
	test_refs(cache);
	test_rest(cache);
	is_int(larder_close(cache), 0, "close");
	return done();
}
