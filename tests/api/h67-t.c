/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h67-t - H67 and P7: busy although there are idle entries.
 *
 * Capacity 64, of which 40 at most are pinned or loading at any time, by a semaphore of
 * the test: so 24 are idle or free.  Not one of many gets is refused.  Then tighter: 63
 * of 64.
 */
#include "../lib/test.h"

#include <semaphore.h>

#define CAPACITY 64

struct crowd {
	struct larder_cache *cache;
	struct shelf shelf;
	sem_t sem;
	unsigned long rounds;
	_Atomic unsigned long busy, in_transit, wrong;
};

static void run(struct worker *worker)
{
	struct crowd *c = worker->arg;
	struct larder_ref held = { NULL, NULL };

	for (unsigned long i = 0; i < c->rounds; i++) {
		struct key key = key_mixed(rng_below(&worker->rng, 1000));
		struct larder_outcome o;
		struct larder_ref ref;
		int r;

		/* Never wait for a unit with one in hand. */
		if (sem_trywait(&c->sem) != 0) {
			if (held.private_slot != NULL) {
				value_drop(&c->shelf, &held);
				sem_post(&c->sem);
			}
			sched_yield();
			continue;
		}
		r = shelf_get(c->cache, &c->shelf, &key, value_load, &c->shelf, &ref, &o);
		if (r != 0) {
			sem_post(&c->sem);
			if (r != LARDER_EBUSY) {
				count_up(&c->wrong);
				continue;
			}
			count_up(&c->busy);
			if (o.refusal.in_transit != 0)
				count_up(&c->in_transit);
			continue;
		}
		if (held.private_slot != NULL && rng_once_in(&worker->rng, 2)) {
			struct larder_ref swap = held;

			held = ref;
			ref = swap;
		} else if (held.private_slot == NULL) {
			held = ref;
			continue;
		}
		value_drop(&c->shelf, &ref);
		sem_post(&c->sem);
		if (worker->index == 0)
			watch_pat();
	}
	if (held.private_slot != NULL) {
		value_drop(&c->shelf, &held);
		sem_post(&c->sem);
	}
}

static void test(unsigned units, unsigned threads, unsigned long n)
{
	static struct crowd c;
	struct larder_options options;

	memset(&c, 0, sizeof(c));
	shelf_setup(&c.shelf, CAPACITY);
	options = shelf_options(&c.shelf);
	c.cache = shelf_open(&options);
	sem_init(&c.sem, 0, units);
	c.rounds = n;
	crew_run(threads, run, &c);
	is_int(c.busy, 0, "H67: %u of 64 in use at most, %u threads, %lu calls each: not one busy (P7)", units, threads,
	       n);
	if (c.busy != 0)
		note("%lu of them saw units in transit", (unsigned long)c.in_transit);
	is_int(c.wrong, 0, "H67: and no other code");
	ok(stat_of(c.cache, evicted_room) > n / 10, "H67: there was much to evict");
	at_rest(c.cache, &c.shelf, "H67");
	close_shelf(c.cache, &c.shelf, "H67");
	sem_destroy(&c.sem);
}

int main(void)
{
	plan(2 * 9);
	test(40, 32, rounds(6000, 320000));
	test(62, 8, rounds(20000, 1000000));
	return done();
}
