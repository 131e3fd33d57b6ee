/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * lru-oracle-t - P8 and H68: the victims are those of a simple model, one by one.
 *
 * One thread does random things with caches of every capacity from 1 to 64: hits,
 * misses, pins held and released in any order, duplicates, failing loads, loads inside
 * loads, a predicate that refuses up to 16 entries at a time (those counted that have
 * relented but not been asked since), trims, steps.  The model
 * keeps the time of each key's last get and knows nothing of nominations:
 *
 *   the victim is the idle entry whose last get lies farthest back;
 *   idle: not pinned, and the predicate would say yes;
 *   busy if and only if there is none, and then pinned, loading and refused are as counted;
 *   a get is a hit, a hit of peek, or a load at its publication; a dup or a release is none.
 *
 * A failure prints the capacity, the operation and the seed; SEED=n repeats it.
 */
#include "../lib/test.h"

#define KEYS_MAX 200
#define PINS_MAX 200
#define REFUSED_MAX 16

struct model {
	struct larder_cache *cache;
	uint64_t capacity, keys, now;
	struct {
		bool here, loading, refuses;
		unsigned pins;
		uint64_t got;
	} key[KEYS_MAX];
	uint64_t here, loading, refusing;
	uint64_t relented; /* say yes again, but have perhaps not been asked since */
	struct {
		struct larder_ref ref;
		uint64_t key;
	} pin[PINS_MAX];
	unsigned pins;
	/* The operation that runs. */
	const char *operation;
	uint64_t number;
	unsigned expected, victims;
	/* Over all. */
	uint64_t wrong, evictions, busy;
};

static struct model m;
static struct rng rng;

static void wrong(const char *what, uint64_t got, uint64_t want)
{
	if (m.wrong++ < 5)
		note("capacity %" PRIu64 ", operation %" PRIu64 " (%s): %s %" PRIu64 ", the model says %" PRIu64,
		     m.capacity, m.number, m.operation, what, got, want);
}

static void want_int(const char *what, int64_t got, int64_t want)
{
	if (got != want)
		wrong(what, (uint64_t)got, (uint64_t)want);
}

static bool is_idle(uint64_t k)
{
	return m.key[k].here && m.key[k].pins == 0 && !m.key[k].refuses;
}

/* The key of a value: values are numbers, 0 is NULL. */
static uint64_t key_of(const void *value)
{
	return (uint64_t)(uintptr_t)value - 1;
}

static void got(uint64_t k)
{
	m.key[k].got = ++m.now;
}

/* ---- callbacks ----------------------------------------------------------------------- */

static int idle(void *value, void *ctx)
{
	uint64_t k = key_of(value);

	(void)ctx;
	if (!m.key[k].here || m.key[k].pins != 0)
		wrong("P5: the predicate is asked about a key that is pinned or gone,", k, 0);
	return !m.key[k].refuses;
}

static void destroy(void *value, void *ctx)
{
	uint64_t k = key_of(value);

	(void)ctx;
	if (m.operation == NULL) { /* closing: no order is promised */
		m.key[k].here = false;
		return;
	}
	if (m.victims++ >= m.expected)
		wrong("one victim more than needed, key", k, m.expected);
	if (!is_idle(k)) {
		wrong("the victim is not idle, key", k, 0);
	} else {
		for (uint64_t other = 0; other < m.keys; other++) {
			if (is_idle(other) && m.key[other].got < m.key[k].got) {
				wrong("the victim is key", k, other);
				break;
			}
		}
	}
	m.key[k].here = false;
	m.here--;
	m.evictions++;
	if (m.key[k].refuses) {
		m.key[k].refuses = false;
		m.refusing--;
	}
}

static uint64_t idle_count(void)
{
	uint64_t n = 0;

	for (uint64_t k = 0; k < m.keys; k++)
		n += is_idle(k);
	return n;
}

/* ---- operations ---------------------------------------------------------------------- */

static int do_get(uint64_t k, struct larder_ref *ref, unsigned depth);

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	unsigned *depth = arg;
	uint64_t k;

	(void)in_progress;
	if (!key_number(key, key_len, &k) || k >= m.keys || m.key[k].here || !m.key[k].loading)
		wrong("loader of key", k, k);
	want_int("victims before the load", m.victims, m.expected);
	m.expected = m.victims = 0;
	if (*depth < 3 && rng_once_in(&rng, 20)) { /* a load that needs another key */
		struct larder_ref ref;
		uint64_t other = rng_below(&rng, m.keys);

		if (!m.key[other].loading && do_get(other, &ref, *depth + 1) == 0)
			larder_release(&ref);
	}
	m.loading--;
	m.key[k].loading = false;
	if (rng_once_in(&rng, 10))
		return LOAD_ERROR;
	m.key[k].here = true;
	m.here++;
	got(k);
	*value = (void *)(uintptr_t)(k + 1);
	return 0;
}

static void expect_busy(const struct larder_outcome *o)
{
	uint64_t pinned = 0, refused = 0;

	for (uint64_t k = 0; k < m.keys; k++) {
		pinned += m.key[k].here && m.key[k].pins != 0;
		refused += m.key[k].here && m.key[k].pins == 0;
	}
	want_int("P7: pinned", (int64_t)o->refusal.pinned, (int64_t)pinned);
	want_int("P7: loading", (int64_t)o->refusal.loading, (int64_t)m.loading);
	want_int("P7: refused", (int64_t)o->refusal.refused, (int64_t)refused);
	want_int("P7: in transit", (int64_t)o->refusal.in_transit, 0);
	m.busy++;
}

static int do_get(uint64_t k, struct larder_ref *ref, unsigned depth)
{
	struct key key = key_mixed(k);
	struct larder_outcome o;
	bool full = m.here + m.loading == m.capacity, hit = m.key[k].here, none = full && !hit && idle_count() == 0;
	int r;

	m.expected = !hit && full && !none;
	m.victims = 0;
	if (hit) {
		got(k);
		m.key[k].pins++; /* before the call: nothing may ask about it meanwhile */
	} else if (!none) {
		m.key[k].loading = true;
		m.loading++;
	}
	larder_outcome_init(&o);
	r = larder_get_with(m.cache, key.bytes, key.len, load, &depth, NULL, ref, &o);
	want_int("victims", m.victims, m.expected);
	if (full && !hit)
		m.relented = 0;
	if (hit) {
		want_int("P7: code of a hit", r, 0);
		want_int("how", o.how, LARDER_HIT);
		m.key[k].pins--;
	} else if (none) {
		want_int("P7: code where none is idle", r, LARDER_EBUSY);
		if (r == LARDER_EBUSY)
			expect_busy(&o);
	} else {
		want_int("how", o.how, LARDER_LOADED);
		want_int("P7: code of a load", r, m.key[k].here ? 0 : LARDER_ELOAD);
	}
	if (r == 0)
		want_int("value", (int64_t)(uintptr_t)larder_value(ref), (int64_t)k + 1);
	return r;
}

static void keep_or_drop(uint64_t k, struct larder_ref *ref)
{
	if (m.pins == PINS_MAX || !rng_once_in(&rng, 4)) {
		want_int("release", larder_release(ref), 0);
		return;
	}
	m.pin[m.pins].ref = *ref;
	m.pin[m.pins++].key = k;
	m.key[k].pins++;
}

static void op_get(void)
{
	/* Some keys are asked for more often than others. */
	uint64_t k = rng_once_in(&rng, 3) ? rng_below(&rng, m.keys) : rng_below(&rng, 1 + rng_below(&rng, m.keys));
	struct larder_ref ref;

	m.operation = "get";
	if (do_get(k, &ref, 0) == 0)
		keep_or_drop(k, &ref);
}

static void op_peek(void)
{
	uint64_t k = rng_below(&rng, m.keys);
	struct key key = key_mixed(k);
	struct larder_ref ref;
	int r;

	m.operation = "peek";
	r = larder_peek(m.cache, key.bytes, key.len, &ref);
	want_int("code", r, m.key[k].here ? 0 : LARDER_ENOENT);
	if (r != 0)
		return;
	got(k);
	keep_or_drop(k, &ref);
}

static void op_dup(void)
{
	struct larder_ref ref;
	unsigned i;

	m.operation = "dup";
	if (m.pins == 0)
		return;
	i = (unsigned)rng_below(&rng, m.pins);
	want_int("code", larder_dup(&m.pin[i].ref, &ref), 0);
	keep_or_drop(m.pin[i].key, &ref);
}

static void release_one(void)
{
	unsigned i = (unsigned)rng_below(&rng, m.pins);

	want_int("release", larder_release(&m.pin[i].ref), 0);
	m.key[m.pin[i].key].pins--;
	m.pin[i] = m.pin[--m.pins];
}

static void op_release(void)
{
	uint64_t n = rng_once_in(&rng, 20) ? m.pins : 1;

	m.operation = "release";
	while (n-- != 0 && m.pins != 0)
		release_one();
}

static void op_flip(void)
{
	uint64_t k = rng_below(&rng, m.keys);

	m.operation = "flip";
	if (m.key[k].refuses) {
		m.key[k].refuses = false;
		m.refusing--;
		m.relented++;
	} else if (m.key[k].here && m.refusing + m.relented < REFUSED_MAX) {
		m.key[k].refuses = true;
		m.refusing++;
	}
}

static void op_trim(void)
{
	uint64_t n = 1 + rng_below(&rng, rng_once_in(&rng, 5) ? m.capacity + 2 : 2), all = idle_count();
	int64_t r;

	m.operation = "trim";
	m.expected = (unsigned)(n < all ? n : all);
	m.victims = 0;
	r = larder_trim(m.cache, n);
	m.relented = 0;
	want_int("victims", m.victims, m.expected);
	want_int("returned", r, m.expected);
}

static void op_step(void)
{
	m.operation = "step";
	m.expected = m.victims = 0;
	want_int("more to do", larder_step(m.cache, UINT64_MAX), 0);
	want_int("victims", m.victims, 0);
}

static void check_gauges(void)
{
	struct larder_stats s = stats_of(m.cache);

	m.operation = "statistics";
	want_int("P17: resident", (int64_t)s.resident, (int64_t)m.here);
	want_int("P17: pinned", (int64_t)s.pinned, m.pins);
	want_int("P17: evicted = destroyed", (int64_t)(s.evicted_room + s.evicted_trim), (int64_t)s.destroyed);
}

static void run(uint64_t capacity, uint64_t keys, unsigned long operations, uint32_t flags)
{
	struct larder_options options;

	memset(m.key, 0, sizeof(m.key));
	m.capacity = capacity;
	m.keys = keys;
	m.here = m.loading = m.refusing = m.relented = m.pins = 0;
	larder_options_init(&options);
	options.capacity = capacity;
	options.flags = flags;
	options.idle = idle;
	options.destroy = destroy;
	must(larder_open(&m.cache, &options) == 0);
	for (m.number = 0; m.number < operations; m.number++) {
		uint64_t what = rng_below(&rng, 1000);

		if (what < 600)
			op_get();
		else if (what < 700)
			op_peek();
		else if (what < 740)
			op_dup();
		else if (what < 930)
			op_release();
		else if (what < 970)
			op_flip();
		else if (what < 990)
			op_trim();
		else if (what < 995)
			op_step();
		else
			check_gauges();
	}
	m.operation = "end";
	while (m.pins != 0)
		release_one();
	check_gauges();
	m.operation = NULL;
	want_int("close", larder_close(m.cache), 0);
	for (uint64_t k = 0; k < m.keys; k++)
		if (m.key[k].here)
			wrong("P10: still alive after close, key", k, 0);
}

/* ---- plain patterns ---------------------------------------------------------------------- */

static uint64_t order[64];
static unsigned ordered;

static void destroy_in_order(void *value, void *ctx)
{
	(void)ctx;
	order[ordered++] = key_of(value);
}

static int load_key(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	uint64_t k;

	(void)arg, (void)in_progress;
	key_number(key, key_len, &k);
	*value = (void *)(uintptr_t)(k + 1);
	return 0;
}

static void touch(struct larder_cache *cache, uint64_t k)
{
	struct key key = key_mixed(k);
	struct larder_ref ref;

	must(larder_get(cache, key.bytes, key.len, load_key, NULL, &ref) == 0 && larder_release(&ref) == 0);
}

static struct larder_cache *open_plain(uint64_t capacity)
{
	struct larder_options options;
	struct larder_cache *cache;

	larder_options_init(&options);
	options.capacity = capacity;
	options.destroy = destroy_in_order;
	must(larder_open(&cache, &options) == 0);
	ordered = 0;
	return cache;
}

static void test_patterns(void)
{
	struct larder_cache *cache = open_plain(8);
	struct larder_ref ref, copy;
	unsigned bad = 0;

	for (uint64_t k = 0; k < 27; k++)
		touch(cache, k % 9);
	for (unsigned i = 0; i < 19; i++)
		bad += order[i] != i % 9;
	ok(ordered == 19 && bad == 0, "H68: a loop over capacity + 1 keys evicts each just before its turn");
	larder_close(cache);

	cache = open_plain(16);
	for (uint64_t k = 0; k < 16; k++)
		touch(cache, k);
	for (uint64_t k = 16; k-- > 0;)
		touch(cache, k);
	must(larder_trim(cache, 16) == 16);
	bad = 0;
	for (unsigned i = 0; i < 16; i++)
		bad += order[i] != 15 - i;
	is_int(bad, 0, "H68: hit in reverse, evicted in reverse");
	larder_close(cache);

	cache = open_plain(4);
	for (uint64_t k = 0; k < 40; k++) {
		touch(cache, k);
		touch(cache, 0);
	}
	bad = 0;
	for (unsigned i = 0; i < ordered; i++)
		bad += order[i] != i + 1;
	ok(ordered == 36 && bad == 0, "H68: a key that is always hit stays, the others go in turn");
	larder_close(cache);

	/* Releases and dups are no gets. */
	cache = open_plain(4);
	for (uint64_t k = 0; k < 4; k++)
		touch(cache, k);
	must(larder_peek(cache, key_mixed(0).bytes, key_mixed(0).len, &ref) == 0);
	for (uint64_t k = 1; k < 4; k++)
		touch(cache, k);
	must(larder_dup(&ref, &copy) == 0 && larder_release(&ref) == 0 && larder_release(&copy) == 0);
	touch(cache, 4);
	ok(ordered == 1 && order[0] == 0, "P8: the last get counts, not the last release, and a dup is no get");
	larder_close(cache);
}

int main(void)
{
	unsigned long operations;

	plan(9);
	rng = rng_make(0);
	test_patterns();
	operations = rounds(1000000, 30000000) / 64;
	for (uint64_t capacity = 1; capacity <= 64; capacity++) {
		uint64_t keys = capacity + 1 + rng_below(&rng, 2 * capacity);

		run(capacity, keys, operations, capacity % 2 == 0 ? 0 : LARDER_NO_THREAD);
		watch_pat();
	}
	note("%" PRIu64 " evictions, %" PRIu64 " refusals", m.evictions, m.busy);
	is_int(m.wrong, 0, "P8: victim by victim as the model, capacities 1 to 64, %lu operations", 64 * operations);
	ok(m.evictions > 64 * operations / 20, "P8: there were many victims");
	ok(m.busy > 0, "P7: and refusals, each where the model has none idle, with its numbers");
	/* Mostly refusals: few units, many pins, many that say no. */
	m.wrong = m.busy = 0;
	for (uint64_t capacity = 1; capacity <= 16; capacity++)
		run(capacity, 3 * capacity, operations, 0);
	is_int(m.wrong, 0, "H68: the same where little is idle");
	ok(m.busy > operations / 20, "P7: refusals, above all");
	return done();
}
