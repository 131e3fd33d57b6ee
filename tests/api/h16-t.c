/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h16-t - H16 (direct form) and P13: a loader asks for the key that it is loading.
 */
#include "../lib/test.h"

struct box {
	struct larder_cache *cache;
	struct shelf shelf;
	unsigned depth;
	_Atomic unsigned long wrong;
	int64_t trimmed;
};

static const uint64_t k = 1, j = 2;

static int ask(struct box *box, uint64_t number, larder_load_fn *loader)
{
	struct key key = key_mixed(number);
	struct larder_outcome o;
	struct larder_ref ref = { NULL, NULL };
	int r = shelf_get(box->cache, &box->shelf, &key, loader, box, &ref, &o);

	if (r == 0)
		value_drop(&box->shelf, &ref);
	else if (ref.private_slot != NULL || o.how == LARDER_HIT)
		count_up(&box->wrong);
	return r;
}

static int peek(struct box *box, uint64_t number)
{
	struct key key = key_mixed(number);
	struct larder_ref ref;
	int r = larder_peek(box->cache, key.bytes, key.len, &ref);

	if (r == 0)
		larder_release(&ref);
	return r;
}

static int load_asks_itself(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct box *box = arg;

	is_int(ask(box, k, load_asks_itself), LARDER_EDEADLK,
	       "H16: a loader that asks for its own key is told so (P13)");
	is_int(ask(box, k, load_asks_itself), LARDER_EDEADLK, "H16: each time");
	is_int(peek(box, k), LARDER_EINPROGRESS, "H16: a peek says in progress");
	is_int(stat_of(box->cache, loading), 1, "H16: statistics do not block, and see the load");
	box->trimmed = larder_trim(box->cache, 5);
	ok(box->trimmed >= 0, "H16: a trim does not block");
	return value_load(key, key_len, &box->shelf, value, load);
}

static int load_j(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct box *box = arg;

	is_int(ask(box, k, load_asks_itself), LARDER_EDEADLK, "H16: k needs j, which needs k: told so (P13)");
	is_int(peek(box, j), LARDER_EINPROGRESS, "H16: a peek says in progress");
	return value_load(key, key_len, &box->shelf, value, load);
}

static int load_k_by_j(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct box *box = arg;

	is_int(ask(box, j, load_j), 0, "H16: the load of j completes all the same");
	return value_load(key, key_len, &box->shelf, value, load);
}

/* Nested as deep as there is room: each loads the next, and asks for all above it. */
static int load_nested(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct box *box = arg;
	unsigned depth = ++box->depth;

	for (unsigned i = 1; i <= depth; i++)
		if (ask(box, 100 + i, load_nested) != LARDER_EDEADLK)
			count_up(&box->wrong);
	if (depth < box->shelf.capacity) {
		if (ask(box, 100 + depth + 1, load_nested) != 0)
			count_up(&box->wrong);
	} else if (ask(box, 100 + depth + 1, load_nested) != LARDER_EBUSY) {
		count_up(&box->wrong);
	}
	return value_load(key, key_len, &box->shelf, value, load);
}

/* A loader that gives its own failure back. */
static int load_fails_on_itself(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	(void)key, (void)key_len, (void)value, (void)load;
	return ask(arg, 7, load_fails_on_itself);
}

/* Another thread's load of the same key is no cycle. */
static struct gate gate;

static int load_gated(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct box *box = arg;

	gate_wait(&gate);
	return value_load(key, key_len, &box->shelf, value, load);
}

static void *get_gated(void *arg)
{
	return ask(arg, 300, load_gated) == 0 ? arg : NULL;
}

static int load_needs_300(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	struct box *box = arg;

	if (ask(box, 300, load_gated) != 0)
		count_up(&box->wrong);
	return value_load(key, key_len, &box->shelf, value, load);
}

static void *get_301(void *arg)
{
	return ask(arg, 301, load_needs_300) == 0 ? arg : NULL;
}

int main(void)
{
	static struct box box;
	struct larder_options options;
	pthread_t other, nested;
	uint64_t refused;

	plan(24);
	shelf_setup(&box.shelf, 12);
	options = shelf_options(&box.shelf);
	box.cache = shelf_open(&options);
	must(shelf_visit(box.cache, &box.shelf, 50) == 0);
	is_int(ask(&box, k, load_asks_itself), 0, "H16: and then its load completes");
	is_int(box.trimmed, 1, "H16: the trim evicted what was idle");
	is_int(ask(&box, k, value_load_never), 0, "H16: its value is there");
	larder_trim(box.cache, UINT64_MAX);
	is_int(ask(&box, k, load_k_by_j), 0, "H16: and then the load of k");
	is_int(ask(&box, j, value_load_never), 0, "H16: j is there");
	refused = stat_of(box.cache, refused_deadlock);
	is_int(refused, 3, "H16: three requests were refused for that (P17)");
	larder_trim(box.cache, UINT64_MAX);
	is_int(ask(&box, 101, load_nested), 0, "H16: twelve loads inside each other");
	ok(box.depth == 12 && box.wrong == 0, "H16: each told that it would wait for itself, the innermost busy");
	is_int(ask(&box, 7, load_fails_on_itself), LARDER_ELOAD, "H16: a loader may fail with what it was told");
	larder_trim(box.cache, UINT64_MAX);
	other = thread_start(get_gated, &box);
	until(atomic_load(&gate.arrived) == 1);
	nested = thread_start(get_301, &box);
	until(stat_of(box.cache, following) == 1);
	gate_open(&gate);
	ok(thread_join(other) != NULL && thread_join(nested) != NULL && box.wrong == 0,
	   "H16: a loader that joins another thread's load waits for it: no false alarm");
	at_rest(box.cache, &box.shelf, "H16");
	close_shelf(box.cache, &box.shelf, "H16");
	return done();
}
