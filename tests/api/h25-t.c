/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h25-t - H25: the caller's key buffer is used again while or after the call.
 *
 * The contract: the key is the caller's again on return.  Each thread has one buffer,
 * overwritten at once after each call, also by followers and by callers whose load
 * failed; the entries stay in reach under their own bytes, long keys too.
 */
#include "../lib/test.h"

#define KEYS 64

struct box {
	struct larder_cache *cache;
	struct shelf shelf;
	struct gate gate;
	unsigned long rounds;
	_Atomic unsigned long wrong, foreign;
};

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	uint64_t number;

	if (!key_number(key, key_len, &number))
		count_up(&((struct box *)arg)->wrong);
	if (number % 7 == 6)
		return LOAD_ERROR;
	sched_yield(); /* so that some follow */
	return value_load(key, key_len, &((struct box *)arg)->shelf, value, in_progress);
}

static void scribble(struct key *scratch, struct rng *rng)
{
	for (size_t i = 0; i < sizeof(scratch->bytes); i++)
		scratch->bytes[i] = (unsigned char)rng_next(rng);
}

static void run(struct worker *worker)
{
	struct box *box = worker->arg;
	struct key *scratch = malloc(sizeof(*scratch));

	must(scratch != NULL);
	for (unsigned long i = 0; i < box->rounds; i++) {
		uint64_t number = rng_below(&worker->rng, KEYS);
		struct larder_ref ref;
		int r;

		*scratch = key_mixed(number);
		r = larder_get(box->cache, scratch->bytes, scratch->len, load, box, &ref);
		scribble(scratch, &worker->rng);
		if (r == 0) {
			struct key want = key_mixed(number);
			const void *bytes;
			size_t len;

			value_hold(&box->shelf, &ref, number);
			bytes = larder_key(&ref, &len);
			if (len != want.len || memcmp(bytes, want.bytes, len) != 0)
				count_up(&box->foreign);
			value_drop(&box->shelf, &ref);
		} else if (number % 7 != 6 || r != LARDER_ELOAD) {
			count_up(&box->wrong);
		}
	}
	free(scratch);
}

/* A buffer on a stack that is gone by the time the key is compared. */
static int get_from_a_deep_stack(struct box *box, uint64_t number, struct larder_ref *ref)
{
	volatile unsigned char padding[2048];
	struct key key = key_mixed(number);
	int r;

	padding[0] = padding[2047] = 1;
	r = larder_get(box->cache, key.bytes, key.len, load, box, ref);
	memset(&key, 0xee, sizeof(key));
	return padding[0] == 1 ? r : -1;
}

int main(void)
{
	static struct box box;
	struct larder_options options;
	struct larder_ref ref;
	unsigned missing = 0, wrong_key = 0;

	plan(11);
	shelf_setup(&box.shelf, KEYS);
	options = shelf_options(&box.shelf);
	box.cache = shelf_open(&options);
	for (uint64_t k = 0; k < KEYS; k++)
		if (get_from_a_deep_stack(&box, k, &ref) == 0)
			larder_release(&ref);
	for (uint64_t k = 0; k < KEYS; k++)
		missing += shelf_peek(box.cache, &box.shelf, k) != (k % 7 == 6 ? LARDER_ENOENT : 0);
	is_int(missing, 0, "H25: keys that lay on a stack are found when that is gone");
	box.rounds = rounds(5000, 500000);
	crew_run(8, run, &box);
	is_int(box.wrong, 0, "H25: 8 threads overwrite their one buffer after each of %lu calls", box.rounds);
	is_int(box.foreign, 0, "H25: each holds an entry with the key it asked for");
	missing = 0;
	for (uint64_t k = 0; k < KEYS; k++) {
		struct key want = key_mixed(k);
		size_t len;

		if (k % 7 == 6)
			continue;
		if (larder_peek(box.cache, want.bytes, want.len, &ref) != 0) {
			missing++;
			continue;
		}
		wrong_key += memcmp(larder_key(&ref, &len), want.bytes, want.len) != 0 || len != want.len;
		larder_release(&ref);
	}
	is_int(missing, 0, "H25: all entries are in reach under their own bytes");
	is_int(wrong_key, 0, "H25: which are the keys that they show");
	at_rest(box.cache, &box.shelf, "H25");
	close_shelf(box.cache, &box.shelf, "H25");
	return done();
}
