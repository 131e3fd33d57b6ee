/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * alloc-t - H27, P16: a user's allocator that runs out of memory.
 *
 * The sweep of sweep.h; then eight threads, of whose allocations one in forty fails,
 * get, follow, duplicate, trim and step.
 */
#include "../lib/test.h"

#include "inject.h"
#include "sweep.h"

struct crowd {
	struct larder_cache *cache;
	struct shelf shelf;
	unsigned long rounds;
	_Atomic unsigned long nomem, wrong, touched;
};

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *running)
{
	struct crowd *c = arg;

	if ((((const unsigned char *)key)[0] & 7) == 7) {
		load_begin(&c->shelf);
		sched_yield();
		load_end(&c->shelf);
		return LOAD_ERROR;
	}
	sched_yield(); /* others follow */
	return value_load(key, key_len, &c->shelf, value, running);
}

static void run(struct worker *worker)
{
	static const struct larder_ref empty;
	struct crowd *c = worker->arg;

	for (unsigned long i = 0; i < c->rounds; i++) {
		uint64_t number = rng_below(&worker->rng, 32);
		struct key key = key_make(number, number % 3 == 0 ? 100 : 16);
		struct larder_ref ref = { NULL, NULL }, copy = { NULL, NULL };
		int r = shelf_get(c->cache, &c->shelf, &key, load, c, &ref, NULL);

		if (r == 0) {
			r = larder_dup(&ref, &copy);
			if (r == 0)
				larder_release(&copy);
			value_drop(&c->shelf, &ref);
		} else if (memcmp(&ref, &empty, sizeof(ref)) != 0) {
			count_up(&c->touched);
		}
		if (r == LARDER_ENOMEM)
			count_up(&c->nomem);
		else if (r != 0 && r != LARDER_EBUSY && r != LARDER_ELOAD)
			count_up(&c->wrong);
		if (rng_once_in(&worker->rng, 64)) {
			int64_t done = larder_trim(c->cache, 1 + rng_below(&worker->rng, 8));

			if (done < 0 && done != LARDER_ENOMEM)
				count_up(&c->wrong);
			r = larder_step(c->cache, 0);
			if (r < 0 && r != LARDER_ENOMEM)
				count_up(&c->wrong);
		}
		if (worker->index == 0)
			watch_pat();
	}
}

static void crowd(void)
{
	static struct crowd c;
	struct larder_options options;

	shelf_setup(&c.shelf, 8);
	options = shelf_options(&c.shelf);
	options.alloc = user_alloc;
	options.free = user_free;
	c.cache = shelf_open(&options);
	c.rounds = rounds(20000, 1000000);
	inject_chance(40);
	crew_run(8, run, &c);
	inject_chance(0);
	ok(c.nomem != 0, "H27: eight threads, one allocation in 40 fails: %lu times out of memory",
	   (unsigned long)c.nomem);
	is_int(c.wrong, 0, "H27: no other code than busy and the loader's failure");
	is_int(c.touched, 0, "H27: refs of failed gets are untouched");
	at_rest(c.cache, &c.shelf, "H27");
	close_shelf(c.cache, &c.shelf, "H27");
	is_int(balance().blocks, 0, "H27: all memory is back");
}

int main(void)
{
	plan(SWEEP_TESTS + 10);
	sweep(true);
	crowd();
	return done();
}
