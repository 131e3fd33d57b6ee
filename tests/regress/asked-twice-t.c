/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * asked-twice-t - the predicate was called on a value that another thread destroyed
 * meanwhile.
 *
 * Tickets of refused entries were asked by several threads at once, each with a copy of
 * the same exact word; one heard "yes" and took the entry while another was still
 * inside the predicate with its value.  A pin does not change the word.
 *
 * Here one thread stands in the predicate, at a gate, asking about an entry that was
 * refused before; a second needs room, and hears "yes" from everybody.
 */
#include "../lib/test.h"

static struct larder_cache *cache;
static struct gate gate;
static _Atomic bool refuse, catch_one;
static _Atomic(void *) inside; /* the value that a predicate is looking at */
static _Atomic unsigned destroyed_inside;

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	(void)key, (void)key_len, (void)arg, (void)in_progress;
	*value = malloc(1);
	return *value == NULL;
}

static int idle(void *value, void *ctx)
{
	(void)ctx;
	if (atomic_exchange(&catch_one, false)) {
		atomic_store(&inside, value);
		gate_wait(&gate);
		atomic_store(&inside, NULL);
	}
	return !atomic_load(&refuse);
}

static void destroy(void *value, void *ctx)
{
	(void)ctx;
	if (value == atomic_load(&inside))
		count_up(&destroyed_inside);
	free(value);
}

static int visit(uint64_t number)
{
	struct larder_ref ref;
	int r = larder_get(cache, &number, sizeof(number), load, NULL, &ref);

	return r != 0 ? r : larder_release(&ref);
}

static void *visit_slowly(void *arg)
{
	*(int *)arg = visit(1000);
	return NULL;
}

int main(void)
{
	int codes_slow = 4711, wrong = 0;

	plan(4 * 4);
	for (uint64_t capacity = 1; capacity <= 4; capacity++) {
		struct larder_options options;
		pthread_t slow;

		larder_options_init(&options);
		options.capacity = capacity;
		options.idle = idle;
		options.destroy = destroy;
		must(larder_open(&cache, &options) == 0);
		for (uint64_t k = 0; k < capacity; k++)
			must(visit(k) == 0);
		atomic_store(&refuse, true);
		is_int(visit(500), LARDER_EBUSY, "capacity %" PRIu64 ": all are refused", capacity);
		atomic_store(&refuse, false);
		gate_reset(&gate);
		atomic_store(&catch_one, true);
		slow = thread_start(visit_slowly, &codes_slow);
		until(atomic_load(&gate.arrived) == 1);
		for (uint64_t k = 0; k < 2 * capacity; k++) {
			int r = visit(2000 + k);

			wrong += r != 0 && r != LARDER_EBUSY;
		}
		wrong += larder_trim(cache, capacity) < 0;
		is_int(destroyed_inside, 0, "P5: no value ends while a predicate looks at it");
		gate_open(&gate);
		thread_join(slow);
		is_int(wrong + (codes_slow != 0 && codes_slow != LARDER_EBUSY), 0, "all calls succeed or are busy");
		is_int(larder_close(cache), 0, "close");
	}
	return done();
}
