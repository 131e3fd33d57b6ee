/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h07-t - H07 and P10: every value is destroyed exactly once, on every road.
 *
 * Each successful load hands out a numbered token.  Roads: eviction for room, trims,
 * headroom, a full cache, failed reloads, closing with what is left.  At the end the
 * tokens destroyed are the tokens handed out, each once, all by the time that
 * larder_close() has returned.
 */
#include "../lib/test.h"

struct tokens {
	struct larder_cache *cache;
	unsigned long rounds;
	_Atomic uint32_t *ended; /* by number */
	uint64_t room;
	_Atomic uint64_t next;
	_Atomic unsigned long wrong;
};

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	struct tokens *t = arg;
	uint64_t number;

	(void)key, (void)key_len, (void)in_progress;
	number = atomic_fetch_add(&t->next, 1);
	must(number < t->room);
	*value = (void *)(uintptr_t)(number + 1);
	return 0;
}

static int load_fails(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	(void)key, (void)key_len, (void)arg, (void)in_progress;
	*value = (void *)(uintptr_t)1; /* not handed over: it fails */
	return 1;
}

static void destroy(void *value, void *ctx)
{
	struct tokens *t = ctx;
	uint64_t number = (uint64_t)(uintptr_t)value - 1;

	if (number >= t->room || atomic_fetch_add(&t->ended[number], 1) != 0)
		count_up(&t->wrong);
}

static void run(struct worker *worker)
{
	struct tokens *t = worker->arg;
	struct larder_ref held[4] = { { NULL, NULL } };

	for (unsigned long i = 0; i < t->rounds; i++) {
		uint64_t number = rng_below(&worker->rng, 40);
		struct key key = key_mixed(number);
		unsigned at = (unsigned)rng_below(&worker->rng, ELEMENTS(held));
		struct larder_ref ref;
		int r;

		if (rng_once_in(&worker->rng, 40)) {
			larder_trim(t->cache, 1 + rng_below(&worker->rng, 4));
			continue;
		}
		r = larder_get(t->cache, key.bytes, key.len, rng_once_in(&worker->rng, 5) ? load_fails : load, t, &ref);
		if (r != 0) {
			if (held[at].private_slot != NULL) /* make room for somebody */
				larder_release(&held[at]);
			continue;
		}
		if (count_of(&t->ended[(uint64_t)(uintptr_t)larder_value(&ref) - 1]) != 0)
			count_up(&t->wrong); /* pinned, and yet destroyed */
		if (held[at].private_slot != NULL)
			larder_release(&held[at]);
		held[at] = ref;
	}
	for (unsigned i = 0; i < ELEMENTS(held); i++)
		if (held[i].private_slot != NULL)
			larder_release(&held[i]);
}

static void test(uint64_t capacity, uint64_t headroom, uint32_t flags, unsigned long n)
{
	struct tokens t = { .rounds = n };
	struct larder_options options;
	unsigned long missing = 0;

	t.room = 4 * n + 1;
	t.ended = calloc(t.room, sizeof(*t.ended));
	must(t.ended != NULL);
	larder_options_init(&options);
	options.capacity = capacity;
	options.headroom = headroom;
	options.flags = flags;
	options.destroy = destroy;
	options.ctx = &t;
	must(larder_open(&t.cache, &options) == 0);
	crew_run(4, run, &t);
	is_int(larder_close(t.cache), 0, "H07: capacity %" PRIu64 ", headroom %" PRIu64 ", flags %u: closes", capacity,
	       headroom, flags);
	for (uint64_t i = 0; i < t.next; i++)
		missing += t.ended[i] != 1;
	is_int(missing, 0, "H07: each of %" PRIu64 " values was destroyed once (P10)", (uint64_t)t.next);
	is_int(t.wrong, 0, "H07: none while it was pinned, and none that was never made");
	ok(t.next > capacity, "H07: there were enough of them");
	free((void *)t.ended);
}

int main(void)
{
	plan(7 * 4);
	test(1, 0, 0, rounds(4000, 1000000));
	test(20, 0, 0, rounds(8000, 1000000));
	test(20, 5, 0, rounds(8000, 1000000));
	test(20, 19, 0, rounds(4000, 1000000));
	test(20, 0, LARDER_NO_THREAD, rounds(8000, 1000000));
	test(20, 3, LARDER_OWN_THREAD, rounds(8000, 1000000));
	test(100, 0, 0, rounds(4000, 1000000)); /* nothing is evicted for room: closing ends them all */
	return done();
}
