/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sweep.c - each call of the library with its allocations failing.  See sweep.h.
 */
#include "sweep.h"

#include "../lib/test.h"
#include "inject.h"

#define STEPS_MAX 400 /* no call allocates so often */
#define AGAIN 20
#define HELD_MAX 512

static bool user_allocates;

struct stage {
	struct shelf shelf;
	struct larder_cache *cache;
	struct larder_ref held[HELD_MAX];
	unsigned holds;
	_Atomic uint32_t refuses; /* the predicate says no about keys below this */
	uint64_t key;
	struct larder_ref ref; /* what the call under test gets */
};

/* What the call under test is, and what comes before it. */
struct scene {
	const char *name;
	uint64_t capacity;
	uint32_t flags;
	bool fresh_thread; /* on a thread that has never called */
	int normal;        /* the code, with memory */
	unsigned least[2]; /* so many allocations there are to fail: the C library's, the user's */
	void (*prepare)(struct stage *s);
	int (*call)(struct stage *s);
};

static const struct larder_ref untouched = { (void *)(uintptr_t)0x5a5a5a5a, (void *)(uintptr_t)0xa5a5a5a5 };

/* ---- callbacks ------------------------------------------------------------------------ */

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *running)
{
	int r;

	inject_pause();
	r = value_load(key, key_len, arg, value, running);
	inject_resume();
	return r;
}

static void destroy(void *value, void *ctx)
{
	struct stage *s = ctx;

	inject_pause();
	value_destroy(value, &s->shelf);
	inject_resume();
}

static int idle(void *value, void *ctx)
{
	struct stage *s = ctx;
	struct value *v = value;

	return v->number >= count_of(&s->refuses);
}

/* ---- calls under test --------------------------------------------------------------------- */

static int get_key(struct stage *s, const struct key *key, struct larder_ref *ref)
{
	struct larder_ref got = untouched;
	int r = larder_get(s->cache, key->bytes, key->len, load, &s->shelf, &got);

	if (r != 0) {
		if (memcmp(&got, &untouched, sizeof(got)) != 0)
			shelf_fault(&s->shelf, "larder_get: %s, but the ref was touched", larder_strerror(r));
		return r;
	}
	*ref = got;
	value_hold(&s->shelf, ref, ((struct value *)larder_value(ref))->number);
	return 0;
}

static int get_short(struct stage *s)
{
	struct key key = key_make(s->key, 16);

	return get_key(s, &key, &s->ref);
}

static int get_long(struct stage *s)
{
	struct key key = key_make(s->key, KEY_BYTES);

	return get_key(s, &key, &s->ref);
}

/* The outcome is written whatever happens. */
static int get_with(struct stage *s)
{
	struct key key = key_make(s->key, 16);
	struct larder_ref got = untouched;
	struct larder_outcome outcome;
	int r;

	memset(&outcome, 0x5a, sizeof(outcome));
	outcome.size = sizeof(outcome);
	r = larder_get_with(s->cache, key.bytes, key.len, load, &s->shelf, NULL, &got, &outcome);
	if (r == LARDER_ENOMEM && (outcome.how != LARDER_NONE || outcome.load_error != 0 ||
				   outcome.refusal.pinned + outcome.refusal.refused + outcome.refusal.loading != 0))
		shelf_fault(&s->shelf, "no memory, but the outcome says more");
	if (r != 0 && memcmp(&got, &untouched, sizeof(got)) != 0)
		shelf_fault(&s->shelf, "larder_get_with: %s, but the ref was touched", larder_strerror(r));
	if (r != 0)
		return r;
	s->ref = got;
	value_hold(&s->shelf, &s->ref, s->key);
	return 0;
}

static int peek(struct stage *s)
{
	struct key key = key_make(s->key, 16);
	struct larder_ref got = untouched;
	int r = larder_peek(s->cache, key.bytes, key.len, &got);

	if (r != 0) {
		if (memcmp(&got, &untouched, sizeof(got)) != 0)
			shelf_fault(&s->shelf, "larder_peek: %s, but the ref was touched", larder_strerror(r));
		return r;
	}
	s->ref = got;
	value_hold(&s->shelf, &s->ref, s->key);
	return 0;
}

static int duplicate(struct stage *s)
{
	struct larder_ref copy = untouched;
	int r = larder_dup(&s->held[0], &copy);

	if (r != 0) {
		if (memcmp(&copy, &untouched, sizeof(copy)) != 0)
			shelf_fault(&s->shelf, "larder_dup: %s, but the copy was touched", larder_strerror(r));
		return r;
	}
	s->ref = copy;
	value_hold(&s->shelf, &s->ref, ((struct value *)larder_value(&copy))->number);
	return 0;
}

static int trim(struct stage *s)
{
	int64_t done = larder_trim(s->cache, 8);

	return done < 0 ? (int)done : 0;
}

static int step(struct stage *s)
{
	int r = larder_step(s->cache, 1000000);

	return r < 0 ? r : 0;
}

/* ---- what comes before -------------------------------------------------------------------- */

static void hold_key(struct stage *s, uint64_t number)
{
	struct key key = key_make(number, 16);

	must(s->holds < HELD_MAX && get_key(s, &key, &s->held[s->holds]) == 0);
	s->holds++;
}

static void fill(struct stage *s, uint64_t from, uint64_t to)
{
	struct larder_ref ref;

	for (uint64_t number = from; number < to; number++) {
		struct key key = key_make(number, 16);

		must(get_key(s, &key, &ref) == 0);
		value_drop(&s->shelf, &ref);
	}
}

/* The thread is known to the library and to liburcu. */
static void known(struct stage *s)
{
	fill(s, 1, 2);
	s->key = 1000;
}

static void resident(struct stage *s)
{
	fill(s, 1, 2);
	s->key = 1;
}

/* Nothing, or what another thread has done. */
static void nothing(struct stage *s)
{
	s->key = 1000;
}

/* All of this thread's slots hold a pin on one entry: one more takes memory (the process's, not the cache's). */
static void slots_full(struct stage *s)
{
	struct key key = key_make(1, 16);

	hold_key(s, 1);
	for (;;) {
		int r;

		must(s->holds < HELD_MAX);
		if (user_allocates && s->holds == 100)
			break;
		inject_arm(1, true);
		r = get_key(s, &key, &s->held[s->holds]);
		inject_disarm();
		if (r == LARDER_ENOMEM)
			break;
		must(r == 0);
		s->holds++;
	}
	s->key = 1;
}

/* And the cache is full, too: who needs room has to pin a victim to ask about it. */
static void slots_and_cache_full(struct stage *s)
{
	fill(s, 2, s->shelf.capacity + 1);
	slots_full(s);
	s->key = 1000;
}

/* Many are pinned when room is needed: the list of those passed over grows. */
static void many_pinned(struct stage *s)
{
	fill(s, 1, s->shelf.capacity + 1);
	for (uint64_t number = 1; number <= 200; number++)
		hold_key(s, number);
	s->key = 1000;
}

/* Many are refused: the list of those grows. */
static void many_refused(struct stage *s)
{
	fill(s, 1, s->shelf.capacity + 1);
	atomic_store(&s->refuses, 201);
	s->key = 1000;
}

static void all_refused(struct stage *s)
{
	many_refused(s);
	atomic_store(&s->refuses, 100000);
}

/* ---- one step --------------------------------------------------------------------------------- */

struct found {
	unsigned steps, nomem, managed; /* steps; refused; succeeded without that memory */
	unsigned wrong_code, grew, not_again, out_of_order, leaked;
	bool ended;
};

struct step {
	const struct scene *scene;
	unsigned n;
	bool all;
	struct found *found;
	struct gate *gate; /* a thread stays until it opens, so that the next one takes no record over */
	struct gate *at_work;
	struct stage *s;
	int code;
	unsigned failed;
};

static bool stage_open(struct stage *s, const struct scene *scene)
{
	struct larder_options o;

	memset(s, 0, sizeof(*s));
	shelf_setup(&s->shelf, scene->capacity);
	o = shelf_options(&s->shelf);
	o.flags = scene->flags;
	o.destroy = destroy;
	o.idle = idle;
	o.ctx = s;
	if (user_allocates) {
		o.alloc = user_alloc;
		o.free = user_free;
	}
	return larder_open(&s->cache, &o) == 0;
}

static void let_go(struct stage *s)
{
	if (larder_value(&s->ref) != NULL)
		value_drop(&s->shelf, &s->ref);
	while (s->holds != 0)
		value_drop(&s->shelf, &s->held[--s->holds]);
}

/* The call under test, failing; and once more, failing at once. */
static void call_without_memory(struct step *step)
{
	struct stage *s = step->s;
	struct found *found = step->found;
	struct balance before;

	inject_arm(step->n, step->all);
	step->code = step->scene->call(s);
	step->failed = inject_disarm();
	if (step->failed == 0) {
		found->ended = true;
		found->wrong_code += step->code != step->scene->normal;
		return;
	}
	found->steps++;
	if (step->code != LARDER_ENOMEM) {
		found->managed++;
		found->wrong_code += step->code != step->scene->normal;
		return;
	}
	found->nomem++;
	if (!step->all)
		return;
	before = balance();
	for (unsigned i = 0; i < AGAIN; i++) {
		inject_arm(1, true);
		step->code = step->scene->call(s);
		inject_disarm();
		if (step->code != LARDER_ENOMEM)
			return; /* it has all it needs by now */
	}
	found->grew += !balance_is(before);
}

static void *on_fresh_thread(void *arg)
{
	struct step *step = arg;

	call_without_memory(step);
	let_go(step->s);
	gate_open(step->at_work);
	gate_wait(step->gate);
	return NULL;
}

static void one_step(struct step *step, struct stage *s)
{
	const struct scene *scene = step->scene;
	struct found *found = step->found;
	struct gate at_work = { 0, 0 }, gate = { 0, 0 };
	pthread_t thread = pthread_self();
	struct balance before = balance();

	step->s = s;
	if (!stage_open(s, scene))
		bail_out("the cache cannot be opened");
	scene->prepare(s);
	if (scene->fresh_thread) {
		step->at_work = &at_work;
		step->gate = &gate;
		thread = thread_start(on_fresh_thread, step);
		gate_wait(&at_work);
		gate_open(&gate);
		thread_join(thread);
	} else {
		call_without_memory(step);
	}
	/* Memory is back. */
	if (step->code == LARDER_ENOMEM && scene->call(s) != scene->normal)
		found->not_again++;
	let_go(s);
	atomic_store(&s->refuses, 0);
	if (unbalanced(s->cache, &s->shelf) != 0 || pin_until_busy(s->cache, &s->shelf) != scene->capacity ||
	    unbalanced(s->cache, &s->shelf) != 0 || shelf_faults(&s->shelf) != 0)
		found->out_of_order++;
	if (larder_close(s->cache) != 0)
		bail_out("the cache does not close");
	if (shelf_alive(&s->shelf) != 0 || shelf_faults(&s->shelf) != 0)
		found->out_of_order++;
	shelf_end(&s->shelf);
	/* Threads' blocks are the process's; with the user's allocator all is the cache's. */
	found->leaked += user_allocates && !balance_is(before);
	watch_pat();
}

static void sweep_scene(const struct scene *scene)
{
	static struct stage stage;

	for (int all = 0; all < 2; all++) {
		struct found found = { 0 };
		struct step step = { .scene = scene, .all = all != 0, .found = &found };

		for (step.n = 1; step.n <= STEPS_MAX && !found.ended; step.n++)
			one_step(&step, &stage);
		ok(found.ended && found.wrong_code == 0 && found.steps >= scene->least[user_allocates],
		   "P16: %s, %s: %u allocations, %u times out of memory, %u times done without", scene->name,
		   all ? "from the n-th on" : "the n-th alone", found.steps, found.nomem, found.managed);
		is_int(found.grew, 0, "P16: %s: failing again takes no more memory", scene->name);
		is_int(found.not_again, 0, "P16: %s: works when memory is back", scene->name);
		is_int(found.out_of_order, 0, "P16: %s: counting, capacity and values are in order", scene->name);
		is_int(found.leaked, 0, "P16: %s: all memory is back after closing", scene->name);
	}
}

/* ---- opening -------------------------------------------------------------------------------------- */

static void sweep_open(void)
{
	static const uint32_t flags[] = { LARDER_NO_THREAD, 0, LARDER_OWN_THREAD };
	unsigned steps = 0, wrong_code = 0, touched = 0, leaked = 0, broken = 0;

	for (unsigned f = 0; f < ELEMENTS(flags); f++) {
		for (int all = 0; all < 2; all++) {
			bool ended = false;

			for (unsigned n = 1; !ended && n <= STEPS_MAX; n++) {
				struct scene scene = { .capacity = 5, .flags = flags[f] };
				struct larder_cache *const mark = (void *)(uintptr_t)0x5a5a5a5a;
				struct larder_cache *cache = mark;
				struct balance before = balance();
				struct larder_options o;
				static struct stage s;
				unsigned failed;
				int r;

				larder_options_init(&o);
				o.capacity = 5;
				o.flags = flags[f];
				if (user_allocates) {
					o.alloc = user_alloc;
					o.free = user_free;
				}
				inject_arm(n, all != 0);
				r = larder_open(&cache, &o);
				failed = inject_disarm();
				steps += failed != 0;
				wrong_code += r != (failed != 0 ? LARDER_ENOMEM : 0);
				touched += r != 0 && cache != mark;
				if (r == 0)
					broken += larder_close(cache) != 0;
				leaked += !balance_is(before);
				ended = failed == 0;
				/* The next one works. */
				must(stage_open(&s, &scene));
				broken += pin_until_busy(s.cache, &s.shelf) != 5 || shelf_faults(&s.shelf) != 0 ||
					  larder_close(s.cache) != 0;
				shelf_end(&s.shelf);
				watch_pat();
			}
			wrong_code += !ended;
		}
	}
	ok(steps != 0, "P16: larder_open: %u times out of memory", steps);
	is_int(wrong_code, 0, "P16: larder_open: says so, and only then");
	is_int(touched, 0, "P16: larder_open: the out-parameter is untouched");
	is_int(leaked, 0, "P16: larder_open: nothing is left");
	is_int(broken, 0, "P16: larder_open: the next cache works");
}

/* ---- many pins; calls that must not need memory ------------------------------------------------------- */

#define PINS 10000

static void many_pins(void)
{
	static struct larder_ref pin[PINS];
	static const struct scene scene = { .capacity = 4, .flags = LARDER_NO_THREAD };
	unsigned refused = 0, wrong = 0, needy = 0, n = 0;
	struct balance before = balance();
	static struct stage s;
	struct larder_stats stats;
	struct larder_ref copy;

	must(stage_open(&s, &scene));
	while (n < PINS) {
		struct key key = key_make(n % 4, 16);
		bool dups = n > 4 && n % 2 == 1;
		int r;

		pin[n] = untouched;
		inject_arm(1, true);
		r = dups ? larder_dup(&pin[n - 1], &pin[n])
			 : larder_get(s.cache, key.bytes, key.len, load, &s.shelf, &pin[n]);
		inject_disarm();
		if (r == LARDER_ENOMEM) { /* and once more, with memory */
			refused++;
			wrong += memcmp(&pin[n], &untouched, sizeof(pin[n])) != 0;
			r = dups ? larder_dup(&pin[n - 1], &pin[n])
				 : larder_get(s.cache, key.bytes, key.len, load, &s.shelf, &pin[n]);
		}
		if (r != 0)
			bail_out("pin %u: %s", n, larder_strerror(r));
		value_hold(&s.shelf, &pin[n], ((struct value *)larder_value(&pin[n]))->number);
		n++;
	}
	is_int(stat_of(s.cache, pinned), PINS, "P4: %d pins are held, %u times memory was out", PINS, refused);
	is_int(wrong, 0, "P4: refs of failed calls are untouched");
	/* What needs no memory. */
	inject_arm(1, true);
	larder_stats_init(&stats);
	needy += larder_stats(s.cache, &stats) != 0 || larder_stats_reset(s.cache) != 0;
	for (n = 0; n < PINS; n++)
		value_drop(&s.shelf, &pin[n]);
	for (unsigned i = 0; i < 4; i++) {
		struct key key = key_make(i, 16);

		needy += larder_peek(s.cache, key.bytes, key.len, &pin[0]) != 0 || larder_key(&pin[0], NULL) == NULL ||
			 larder_dup(&pin[0], &copy) != 0 || larder_release(&copy) != 0 || larder_release(&pin[0]) != 0;
	}
	needy += larder_trim(s.cache, 2) != 2;
	needy += larder_close(s.cache) != 0;
	is_int(needy, 0, "P16: statistics, hits, releases, trim and close do their work");
	is_int(inject_disarm(), 0, "P16: they ask for no memory");
	is_int(shelf_faults(&s.shelf) + shelf_alive(&s.shelf), 0, "P4: no value has noticed anything");
	ok(!user_allocates || balance_is(before), "P16: all memory is back");
	shelf_end(&s.shelf);
}

/* ---- all -------------------------------------------------------------------------------------------------- */

void sweep(bool user)
{
	static const struct scene scenes[] = {
		/* First: no thread has ended yet whose record it could take over. */
		{ "first get of a thread", 4, LARDER_NO_THREAD, true, 0, { 4, 1 }, nothing, get_short },
		{ "first hit of a thread", 4, LARDER_NO_THREAD, true, 0, { 1, 1 }, resident, peek },
		{ "first get of a cache", 4, 0, false, 0, { 3, 3 }, nothing, get_short },
		{ "get, miss, short key", 4, 0, false, 0, { 0, 0 }, known, get_with },
		{ "get, miss, long key", 4, 0, false, 0, { 1, 1 }, known, get_long },
		{ "get, hit, all slots in use", 4, 0, false, 0, { 1, 0 }, slots_full, get_short },
		{ "get, miss, all slots in use, full", 4, 0, false, 0, { 1, 0 }, slots_and_cache_full, get_with },
		{ "dup, all slots in use", 4, 0, false, 0, { 1, 0 }, slots_full, duplicate },
		{ "get, full, 200 pinned", 256, 0, false, 0, { 2, 2 }, many_pinned, get_short },
		{ "get, full, 200 refused", 256, 0, false, 0, { 3, 3 }, many_refused, get_short },
		{ "get, full, all refused", 256, 0, false, LARDER_EBUSY, { 4, 4 }, all_refused, get_short },
		{ "trim, 200 refused", 256, LARDER_NO_THREAD, false, 0, { 3, 3 }, many_refused, trim },
		{ "step, 200 refused", 256, LARDER_NO_THREAD, false, 0, { 1, 1 }, many_refused, step },
	};

	user_allocates = user;
	for (unsigned i = 0; i < ELEMENTS(scenes); i++)
		sweep_scene(&scenes[i]);
	sweep_open();
	many_pins();
}
