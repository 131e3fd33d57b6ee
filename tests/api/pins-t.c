/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pins-t - P4 pins hold, and P15: whoever ends them, and whatever became of the thread
 * that took them.
 */
#include "../lib/test.h"

#define KEYS 100u
#define CAPACITY 128u

struct pins {
	struct larder_cache *cache;
	struct shelf shelf;
	struct larder_ref *ref;
	size_t count;
	_Atomic size_t next;
	_Atomic unsigned bad;
};

static void setup(struct pins *p, uint64_t capacity, size_t count)
{
	struct larder_options options;

	memset(p, 0, sizeof(*p));
	shelf_setup(&p->shelf, capacity);
	options = shelf_options(&p->shelf);
	p->cache = shelf_open(&options);
	p->count = count;
	p->ref = calloc(count, sizeof(*p->ref));
	must(p->ref != NULL);
}

static void end(struct pins *p, const char *tag)
{
	is_int(p->bad, 0, "%s: every call did as it should", tag);
	is_int(stat_of(p->cache, pinned), 0, "%s: no pin is left", tag);
	at_rest(p->cache, &p->shelf, tag);
	close_shelf(p->cache, &p->shelf, tag);
	free(p->ref);
}

static void shuffle(struct rng *rng, struct larder_ref *ref, size_t count)
{
	for (size_t i = count; i > 1; i--) {
		size_t j = rng_below(rng, i);
		struct larder_ref swap = ref[i - 1];

		ref[i - 1] = ref[j];
		ref[j] = swap;
	}
}

static void pin(struct pins *p, struct larder_ref *ref, uint64_t number)
{
	struct key key = key_mixed(number);

	if (shelf_get(p->cache, &p->shelf, &key, value_load, &p->shelf, ref, NULL) != 0)
		count_up(&p->bad);
}

static void churn(struct pins *p, unsigned count)
{
	static _Atomic uint64_t fresh = 1000000;

	while (count-- != 0)
		if (shelf_visit(p->cache, &p->shelf, atomic_fetch_add(&fresh, 1)) != 0)
			count_up(&p->bad);
}

/* ---- many pins of one thread --------------------------------------------------------- */

static void test_many(size_t count)
{
	struct rng rng = rng_make(1);
	struct pins p;

	setup(&p, CAPACITY, count);
	for (size_t i = 0; i < count; i++) {
		if (i % 3 != 2) {
			pin(&p, &p.ref[i], i % KEYS);
			continue;
		}
		if (larder_dup(&p.ref[i - 1], &p.ref[i]) != 0)
			count_up(&p.bad);
		value_hold(&p.shelf, &p.ref[i], (i - 1) % KEYS);
	}
	is_int(stat_of(p.cache, pinned), count, "P4: one thread holds %zu pins", count);
	churn(&p, 1000);
	ok(stat_of(p.cache, evicted_room) >= 1000 - (CAPACITY - KEYS), "P4: other keys come and go");
	for (size_t i = 0; i < count; i++)
		value_check(&p.shelf, larder_value(&p.ref[i]), (i % 3 == 2 ? i - 1 : i) % KEYS);
	is_int(shelf_faults(&p.shelf), 0, "P4: the pinned ones are all there, and whole");
	shuffle(&rng, p.ref, count);
	for (size_t i = 0; i < count; i++) {
		value_drop(&p.shelf, &p.ref[i]);
		if (i % 1000 == 0)
			churn(&p, 5);
	}
	end(&p, "P4");
}

/* ---- pins that travel ------------------------------------------------------------------ */

/* Each thread pins what it likes and hands it to the next, which lets it go. */
#define BELT 64
struct belt {
	struct pins pins;
	unsigned long rounds;
	struct larder_ref *slot; /* one row of BELT a worker */
};

static void run_belt(struct worker *worker)
{
	struct belt *belt = worker->arg;
	struct pins *p = &belt->pins;
	unsigned count = worker->crew->count, from = (worker->index + 1) % count;
	struct larder_ref *mine = belt->slot + worker->index * BELT, *theirs = belt->slot + from * BELT;

	for (unsigned long round = 0; round < belt->rounds; round++) {
		size_t n = 1 + (size_t)rng_below(&worker->rng, BELT);

		for (size_t i = 0; i < n; i++)
			pin(p, &mine[i], rng_below(&worker->rng, 12));
		if (rng_once_in(&worker->rng, 4)) { /* some are let go here, the others farther on */
			n--;
			value_drop(&p->shelf, &mine[n]);
		}
		meeting_wait(&worker->crew->meeting);
		shuffle(&worker->rng, theirs, BELT);
		for (size_t i = 0; i < BELT; i++)
			if (theirs[i].private_slot != NULL)
				value_drop(&p->shelf, &theirs[i]);
		meeting_wait(&worker->crew->meeting);
	}
}

static void test_travel(void)
{
	struct belt belt = { .rounds = rounds(400, 20000) };

	setup(&belt.pins, 16, 1);
	belt.slot = calloc(4 * BELT, sizeof(*belt.slot));
	must(belt.slot != NULL);
	crew_run(4, run_belt, &belt);
	free(belt.slot);
	ok(stat_of(belt.pins.cache, hits) > 0, "P15: %lu rounds of pins taken here and ended there", belt.rounds);
	end(&belt.pins, "P15");
}

/* ---- threads that end with pins ----------------------------------------------------------- */

#define LEGACY 40 /* more than a thread's first slots */

static void pin_and_end(struct worker *worker)
{
	struct pins *p = worker->arg;

	for (unsigned i = 0; i < LEGACY; i++) {
		size_t n = atomic_fetch_add(&p->next, 1);

		pin(p, &p->ref[n], n % KEYS);
	}
	if (worker->index % 2 == 0)
		pthread_exit(NULL); /* either way of ending */
}

static void *release_half(void *arg)
{
	struct pins *p = arg;

	for (size_t i = 0; i < p->count / 2; i++)
		value_drop(&p->shelf, &p->ref[i]);
	return NULL;
}

static void test_legacy(void)
{
	struct rng rng = rng_make(2);
	struct pins p;
	size_t all;

	setup(&p, CAPACITY, 3 * 8 * LEGACY);
	for (unsigned generation = 1; generation <= 3; generation++) {
		crew_run(8, pin_and_end, &p);
		churn(&p, 500);
		is_int(stat_of(p.cache, pinned), generation * 8 * LEGACY,
		       "P4: the pins of %u threads that have ended hold", generation * 8);
	}
	all = p.next;
	is_int(all, p.count, "P15: as many as were taken");
	for (size_t i = 0; i < all; i++)
		value_check(&p.shelf, larder_value(&p.ref[i]), ((struct value *)larder_value(&p.ref[i]))->number);
	shuffle(&rng, p.ref, all);
	thread_join(thread_start(release_half, &p));
	is_int(stat_of(p.cache, pinned), all - all / 2, "P15: a thread that had none of them ends half");
	for (size_t i = all / 2; i < all; i++)
		value_drop(&p.shelf, &p.ref[i]);
	end(&p, "P15");
}

/* ---- dup against the release of its source, and against eviction ------------------------- */

struct chain {
	struct pins pins;
	unsigned long rounds;
	struct larder_ref baton;
};

static void run_chain(struct worker *worker)
{
	struct chain *chain = worker->arg;
	struct pins *p = &chain->pins;
	struct larder_ref mine = { NULL, NULL };

	for (unsigned long round = 0; round < chain->rounds; round++) {
		/* Who has the turn holds the baton; it takes a copy and others then end theirs. */
		if (round % worker->crew->count == worker->index) {
			if (mine.private_slot != NULL)
				value_drop(&p->shelf, &mine);
			if (larder_dup(&chain->baton, &mine) != 0)
				count_up(&p->bad);
			value_hold(&p->shelf, &mine, 7);
			value_drop(&p->shelf, &chain->baton);
			if (larder_dup(&mine, &chain->baton) != 0)
				count_up(&p->bad);
			value_hold(&p->shelf, &chain->baton, 7);
		} else {
			churn(p, 4);
		}
		if (mine.private_slot != NULL)
			value_check(&p->shelf, larder_value(&mine), 7);
		meeting_wait(&worker->crew->meeting);
	}
	if (mine.private_slot != NULL)
		value_drop(&p->shelf, &mine);
}

static void test_dup(void)
{
	struct chain chain = { .rounds = rounds(2000, 100000) };

	/* Each worker holds a copy of one value and makes room beside it. */
	setup(&chain.pins, 8, 1);
	pin(&chain.pins, &chain.baton, 7);
	crew_run(3, run_chain, &chain);
	is_int(stat_of(chain.pins.cache, pinned), 1, "P4: the last copy is still pinned");
	is_int(((struct value *)larder_value(&chain.baton))->load, 1, "P4: and is the value of the first load");
	value_drop(&chain.pins.shelf, &chain.baton);
	end(&chain.pins, "P4");
}

int main(void)
{
	plan(54);
	test_many(UNDER_TSAN ? 2000 : 10000);
	test_many(UNDER_TSAN ? 5000 : 70000);
	test_travel();
	test_legacy();
	test_dup();
	return done();
}
