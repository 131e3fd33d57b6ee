/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * origin-plan-t - the first origin's own two tests, number by number, and what its
 * comments promise besides.
 *
 * The origin is hrx's plan cache: bounded, one preparation however many ask, only
 * idle plans are evicted, least recently used first.  Its statistics count entries
 * (ready and in progress), hits (joins included), misses (elected preparations,
 * failures included) and evictions; here they are computed from larder's.
 */
#include "../lib/test.h"

struct origin_statistics {
	uint64_t entries, hits, misses, evictions;
};

static struct origin_statistics statistics(struct larder_cache *cache)
{
	struct larder_stats s = stats_of(cache);
	struct origin_statistics o = { s.resident + s.loading, s.hits + s.joins, s.misses,
				       s.evicted_room + s.evicted_trim + s.evicted_ahead };

	return o;
}

static int load_number(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	(void)key, (void)key_len, (void)load;
	*value = arg;
	return 0;
}

static _Atomic unsigned unreachable;

static int load_unreachable(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	(void)key, (void)key_len, (void)arg, (void)value, (void)load;
	count_up(&unreachable);
	return 1;
}

static int prepare(struct larder_cache *cache, uintptr_t key, larder_load_fn *loader, uintptr_t number,
		   struct larder_ref *ref)
{
	return larder_get(cache, &key, sizeof(key), loader, (void *)number, ref);
}

static int prepare_and_drop(struct larder_cache *cache, uintptr_t key, uintptr_t number)
{
	struct larder_ref ref;
	int r = prepare(cache, key, load_number, number, &ref);

	if (r == 0 && (uintptr_t)larder_value(&ref) != number)
		r = -1;
	return r != 0 ? r : larder_release(&ref);
}

static struct larder_cache *open_cache(uint64_t capacity)
{
	struct larder_options options;
	struct larder_cache *cache;

	larder_options_init(&options);
	options.capacity = capacity;
	must(larder_open(&cache, &options) == 0);
	return cache;
}

/* "pinned values apply backpressure and idle entries are LRU" */
static void test_pinned_and_lru(void)
{
	struct larder_cache *cache = open_cache(2);
	struct larder_outcome outcome;
	struct larder_ref pinned, third, ref;
	uintptr_t key = 4;

	is_int(prepare(cache, 1, load_number, 1, &pinned), 0, "P4: 1 is prepared and stays pinned");
	is_int(prepare_and_drop(cache, 2, 2), 0, "2 is prepared and dropped");
	is_int(prepare_and_drop(cache, 3, 3), 0, "P6: 3 is prepared in its place");
	is_int(statistics(cache).evictions, 1, "P5: one eviction, and not of the pinned one");
	is_int(prepare(cache, 3, load_unreachable, 0, &third), 0, "3 is there");
	is_int((uintptr_t)larder_value(&third), 3, "with its value");
	larder_outcome_init(&outcome);
	is_int(larder_get_with(cache, &key, sizeof(key), load_unreachable, NULL, NULL, &ref, &outcome), LARDER_EBUSY,
	       "P7: 4 is refused while both are pinned");
	ok(outcome.refusal.pinned == 2 && outcome.refusal.loading == 0 && outcome.refusal.refused == 0 &&
		   outcome.refusal.in_transit == 0,
	   "P7: and is told so: two are pinned");
	is_int((uintptr_t)larder_value(&pinned), 1, "P4: 1 is still itself");
	is_int(larder_release(&pinned), 0, "1 is dropped");
	is_int(larder_release(&third), 0, "3 is dropped");
	is_int(prepare_and_drop(cache, 4, 4), 0, "4 is prepared now");
	is_int(statistics(cache).entries, 2, "P6: two entries");
	is_int(prepare(cache, 3, load_unreachable, 0, &third), 0, "P8: 3, got later than 1, is still there");
	is_int(larder_release(&third), 0, "3 is dropped");
	is_int(larder_peek(cache, &(uintptr_t){ 1 }, sizeof(uintptr_t), &ref), LARDER_ENOENT, "P8: 1 is not");
	is_int(unreachable, 0, "no loader ran that must not");
	is_int(larder_close(cache), 0, "close");
}

/* "concurrent preparation is single flight and failures retry" */
struct eight {
	struct larder_cache *cache;
	_Atomic unsigned starts;
	_Atomic unsigned wrong;
};

static int load_seven(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct eight *eight = arg;

	(void)key, (void)key_len, (void)load;
	count_up(&eight->starts);
	*value = (void *)(uintptr_t)7;
	return 0;
}

static void one_of_eight(struct worker *worker)
{
	struct eight *eight = worker->arg;
	uintptr_t key = 1;
	struct larder_ref ref;

	meeting_wait(&worker->crew->meeting);
	if (larder_get(eight->cache, &key, sizeof(key), load_seven, eight, &ref) != 0 ||
	    (uintptr_t)larder_value(&ref) != 7 || larder_release(&ref) != 0)
		count_up(&eight->wrong);
}

static int load_retry(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	(void)key, (void)key_len, (void)arg, (void)value, (void)load;
	return -5; /* "retry" */
}

/* What a panic is in C: the thread leaves the loader without an outcome. */
static int load_unwinds(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	(void)key, (void)key_len, (void)value, (void)load;
	count_up((_Atomic unsigned *)arg);
	pthread_exit(arg);
}

static _Atomic unsigned unwound;

static void *get_two_unwinding(void *arg)
{
	uintptr_t key = 2;
	struct larder_ref ref;

	(void)larder_get(arg, &key, sizeof(key), load_unwinds, &unwound, &ref);
	return NULL; /* never comes here */
}

static void test_single_flight(void)
{
	unsigned long n = rounds(200, 20000), again_wrong = 0, again_starts = 0;
	struct larder_cache *cache = NULL;
	struct eight eight;
	struct larder_outcome outcome;
	struct origin_statistics s;
	struct larder_ref ref;
	uintptr_t key = 2;

	/* A race shows itself seldom: the same on a new cache, again and again; the last one stays. */
	for (unsigned long i = 0; i < n; i++) {
		if (cache != NULL)
			must(larder_close(cache) == 0);
		cache = open_cache(1);
		eight = (struct eight){ cache, 0, 0 };
		crew_run(8, one_of_eight, &eight);
		again_wrong += eight.wrong;
		again_starts += eight.starts;
	}
	is_int(again_wrong, 0, "P2: eight threads ask for 1 at once and each gets 7, %lu times", n);
	is_int(again_starts, n, "P1: after one load");
	s = statistics(cache);
	ok(s.misses == 1 && s.hits == 7 && s.entries == 1 && s.evictions == 0,
	   "P17: one miss, seven hits or joins, one entry, no eviction");
	larder_outcome_init(&outcome);
	is_int(larder_get_with(cache, &key, sizeof(key), load_retry, NULL, NULL, &ref, &outcome), LARDER_ELOAD,
	       "P3: the loader of 2 fails");
	ok(outcome.load_error == -5 && outcome.how == LARDER_LOADED, "P3: with its own error");
	ok(thread_join(thread_start(get_two_unwinding, cache)) == &unwound,
	   "P16: then it unwinds, and the unwinding goes on up to the end of its thread");
	is_int(unwound, 1, "from within the loader");
	is_int(prepare(cache, 2, load_number, 9, &ref), 0, "P3: then it succeeds, on the same key");
	is_int((uintptr_t)larder_value(&ref), 9, "with 9");
	is_int(larder_release(&ref), 0, "2 is dropped");
	s = statistics(cache);
	ok(s.misses == 4 && s.hits == 7 && s.entries == 1 && s.evictions == 1,
	   "P17: four elected preparations, failures included, and 1 was evicted for them");
	is_int(larder_close(cache), 0, "close");
}

/* "Set the maximum number of resident/preparing plans, never zero." */
static void test_capacity_zero(void)
{
	struct larder_options options;
	struct larder_cache *cache = NULL;

	larder_options_init(&options);
	ok(larder_open(&cache, &options) == LARDER_EINVAL && cache == NULL, "a capacity of zero is an error");
}

/* "other keys may prepare concurrently"; what prepares counts as an entry and as a reason to refuse */
struct gated {
	struct larder_cache *cache;
	struct gate gate;
	_Atomic unsigned busy;
};

static int load_gated(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	(void)key, (void)key_len, (void)load;
	gate_wait(&((struct gated *)arg)->gate);
	*value = arg;
	return 0;
}

static void get_gated(struct worker *worker)
{
	struct gated *gated = worker->arg;
	uintptr_t key = 100 + worker->index;
	struct larder_ref ref;

	if (larder_get(gated->cache, &key, sizeof(key), load_gated, gated, &ref) != 0 || larder_release(&ref) != 0)
		count_up(&gated->busy);
}

static void test_preparing(void)
{
	struct gated gated = { .cache = open_cache(2) };
	struct larder_outcome outcome;
	struct larder_ref ref;
	struct crew crew;
	uintptr_t key = 1;

	crew_start(&crew, 2, get_gated, &gated);
	until(atomic_load(&gated.gate.arrived) == 2);
	is_int(statistics(gated.cache).entries, 2, "P1: two keys prepare at the same time, and count as entries");
	larder_outcome_init(&outcome);
	is_int(larder_get_with(gated.cache, &key, sizeof(key), load_unreachable, NULL, NULL, &ref, &outcome),
	       LARDER_EBUSY, "P7: a third is refused meanwhile");
	ok(outcome.refusal.loading == 2 && outcome.refusal.pinned == 0, "P7: since two are loading");
	gate_open(&gated.gate);
	crew_join(&crew);
	is_int(gated.busy, 0, "both were prepared");
	is_int(prepare_and_drop(gated.cache, 1, 1), 0, "and the third can be, now");
	is_int(larder_close(gated.cache), 0, "close");
}

int main(void)
{
	plan(37);
	test_pinned_and_lru();
	test_single_flight();
	test_capacity_zero();
	test_preparing();
	return done();
}
