/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mix-s - everything at once, and a look at everything whenever it stops.
 *
 * Eight threads (THREADS=n) work on four small caches with random options: capacity 1
 * to 64, with or without a predicate, a background thread shared, of their own or none,
 * headroom, a hash that makes chains, long keys, an allocator.  The keys are few, so
 * that they collide.  Loaders succeed, fail, dawdle, get other keys, ask for their own,
 * trim, and in threads made for it leave by pthread_exit() and cancellation, out of two
 * loads at once if need be.  Threads end holding pins that others release; pins go
 * from thread to thread through boxes; values are marked as in use though nobody pins
 * them; destroy callbacks and predicates call the library.
 *
 * After each round (a fifth of a second) all meet at a barrier and one looks: nobody
 * holds anything; P17 adds up, also against what the threads have counted themselves;
 * exactly `capacity` new keys can be pinned; and of three times the capacity of new
 * keys, got in turn, the last are all there (else a unit is held by an entry that is
 * never evicted any more).  After some rounds the caches are closed, which a pin must
 * prevent, and others opened.
 *
 *	SECONDS=n SEED=n ROUND=n THREADS=n stress/mix-s
 *
 * What a failure looks like: lines "# fault: ..." (a value noticed it: P4, P5, P6, P10)
 * or "# broken: ...", the caches' options, and "# round R of SEED=S failed"; then the
 * program ends with "not ok".  A hang: "Bail out!" after 60 s, 300 s under a sanitizer,
 * with all stacks if gdb is there.  To replay: SEED=S ROUND=R takes the same options, the
 * same parameters and the same random numbers in each thread, beginning with the caches
 * of that round; how the threads interleave is not replayed, so give it time.
 */
#include "mix.h"

#include <stdarg.h>
#include <stdio.h>

#include "run.h"

#define THREADS 8
#define THREADS_MAX 64
#define ROUNDS_TOGETHER 12 /* with the same caches */
#define ROUND_S 0.2
#define BROKEN_PRINTED 12

struct round now;

static struct {
	unsigned threads;
	unsigned long first_round;
	struct start_line line;
	struct gate gate[2];
	bool over, failed;
	_Atomic uint64_t broken[PROMISES];
	uint64_t faults, units_over;
	unsigned long rounds, caches;
	struct larder_stats total;
	uint64_t disposed;
} mix;

void broken(enum promise promise, const char *what, ...)
{
	char text[320];
	va_list args;

	va_start(args, what);
	vsnprintf(text, sizeof(text), what, args);
	va_end(args);
	if (atomic_fetch_add_explicit(&mix.broken[promise], 1, memory_order_relaxed) < BROKEN_PRINTED)
		note("broken: %s", text);
}

/* ---- selves ------------------------------------------------------------------------------ */

static _Thread_local struct self *self_here;
static _Atomic(struct self *) selves;

void self_enlist(struct self *self)
{
	struct self *first = atomic_load(&selves);

	do
		self->next = first;
	while (!atomic_compare_exchange_weak(&selves, &first, self));
}

void self_enter(struct self *self)
{
	self_here = self;
}

struct self *me(void)
{
	static _Atomic uint64_t foreigners;

	if (self_here == NULL) {
		struct self *self = calloc(1, sizeof(*self));

		must(self != NULL);
		self->rng = rng_make((UINT64_C(3) << 56) + atomic_fetch_add(&foreigners, 1));
		self->foreign = true;
		self_here = self;
		self_enlist(self);
	}
	return self_here;
}

struct self *self_first(void)
{
	return atomic_load(&selves);
}

void self_forget_foreign(void)
{
	struct self *self = atomic_exchange(&selves, NULL);

	while (self != NULL) {
		struct self *next = self->next;

		if (self->foreign)
			free(self);
		else
			self_enlist(self);
		self = next;
	}
}

/* ---- rounds -------------------------------------------------------------------------------- */

static void make_round(unsigned long number)
{
	static const unsigned act[ACTS] = { 400, 100, 100, 50, 60, 50, 80, 6, 6, 6, 20, 40, 3 };
	static const unsigned load[FOR_ALL] = { 60, 10, 10, 3, 12, 4, 8, 2, 4, 1, 2 };
	static const unsigned times[] = { 0, 1, 1, 1, 4 };
	static const uint64_t hold_ns[] = { 0, 0, 2000, 20000, UINT64_MAX };
	struct rng rng = rng_make((UINT64_C(1) << 56) + number);

	now.number = number;
	for (unsigned i = 0; i < ACTS; i++)
		now.act[i] = act[i] * times[rng_below(&rng, ELEMENTS(times))];
	now.act[VISIT] += 50;
	now.act[LET_GO] += 20;
	for (unsigned i = 0; i < FOR_ALL; i++)
		now.load[i] = load[i] * times[rng_below(&rng, ELEMENTS(times))];
	now.load[AT_ONCE] += 10;
	now.skew = (unsigned)rng_below(&rng, 3);
	now.hold_ns = hold_ns[rng_below(&rng, ELEMENTS(hold_ns))];
	now.holds = rng_once_in(&rng, 3) ? HELD_MAX : 1 + (unsigned)rng_below(&rng, 2);
	now.boxes = rng_once_in(&rng, 3) ? BOXES : 1;
	now.told = rng_once_in(&rng, 2);
	now.acts = UNDER_TSAN ? 4000 : UNDER_ASAN ? 10000 : 40000;
	now.end = run_seconds() + ROUND_S * (UNDER_TSAN || UNDER_ASAN ? 2 : 1);
}

static void open_all(unsigned long number)
{
	struct rng rng = rng_make((UINT64_C(2) << 56) + number / ROUNDS_TOGETHER);

	note("round %lu:", number);
	for (unsigned i = 0; i < PANTRIES; i++) {
		pantry_open(&pantry[i], i, &rng);
		pantry_describe(&pantry[i]);
		mix.caches++;
	}
}

static void sum_up(const struct pantry *p)
{
	struct larder_stats s = stats_of(p->cache), *t = &mix.total;

	t->hits += s.hits;
	t->misses += s.misses;
	t->joins_shared += s.joins_shared;
	t->joins_failed += s.joins_failed;
	t->joins_abandoned += s.joins_abandoned;
	t->refused_busy += s.refused_busy;
	t->refused_deadlock += s.refused_deadlock;
	t->in_progress += s.in_progress;
	t->absent += s.absent;
	t->loads_failed += s.loads_failed;
	t->loads_abandoned += s.loads_abandoned;
	t->evicted_room += s.evicted_room;
	t->evicted_trim += s.evicted_trim;
	t->evicted_ahead += s.evicted_ahead;
	t->rescues += s.rescues;
	t->graces += s.graces;
	t->verdicts += s.verdicts;
}

static void close_all(void)
{
	for (unsigned i = 0; i < PANTRIES; i++)
		sum_up(&pantry[i]);
	for (unsigned i = 0; i < PANTRIES; i++) {
		pantry_close(&pantry[i]);
		mix.faults += shelf_faults(&pantry[i].shelf);
	}
	self_forget_foreign();
	for (struct self *self = self_first(); self != NULL; self = self->next) {
		memset(self->seen, 0, sizeof(self->seen));
		memset(self->tally, 0, sizeof(self->tally));
		memset(self->silent, 0, sizeof(self->silent));
	}
}

/* One thread, while the others sleep at a gate: what was this round, and what is the next? */
static void between_rounds(bool first)
{
	static unsigned long number;
	uint64_t wrong = 0;

	watch_pat();
	if (!first) {
		for (unsigned i = 0; i < PANTRIES; i++)
			atomic_store(&pantry[i].calm, 1);
		for (unsigned i = 0; i < PANTRIES; i++)
			pantry_rest(&pantry[i]);
		for (unsigned i = 0; i < PANTRIES; i++)
			wrong += shelf_faults(&pantry[i].shelf);
		for (unsigned i = 0; i < PROMISES; i++)
			wrong += count_of(&mix.broken[i]);
		mix.rounds++;
		if (wrong != 0) {
			for (unsigned i = 0; i < PANTRIES; i++) {
				pantry_describe(&pantry[i]);
				mix.faults += shelf_faults(&pantry[i].shelf);
			}
			note("round %lu of SEED=%" PRIu64 " failed; to replay: SEED=%" PRIu64 " ROUND=%lu THREADS=%u",
			     number, test_seed(), test_seed(), number, mix.threads);
			mix.failed = mix.over = true;
			return;
		}
		number++;
		if (number % ROUNDS_TOGETHER == 0)
			close_all();
		if (!run_goes_on(1)) {
			mix.over = true;
			if (number % ROUNDS_TOGETHER != 0)
				close_all();
			return;
		}
	} else {
		number = mix.first_round;
	}
	if (first || number % ROUNDS_TOGETHER == 0)
		open_all(number);
	make_round(number);
	for (unsigned i = 0; i < PANTRIES; i++)
		atomic_store(&pantry[i].calm, 0);
}

static void work(struct worker *worker)
{
	struct starter starter = { 0 };
	struct self *self = calloc(1, sizeof(*self));
	struct child *child = child_new();

	must(self != NULL);
	self_enter(self);
	self_enlist(self);
	for (uint64_t turn = 0;; turn++) {
		line_up(&mix.line, &starter);
		if (worker->index == 0) {
			self->rng = rng_make((UINT64_C(4) << 56) + turn);
			between_rounds(turn == 0);
			gate_reset(&mix.gate[(turn + 1) % 2]);
			gate_open(&mix.gate[turn % 2]);
		} else {
			gate_wait(&mix.gate[turn % 2]);
		}
		if (mix.over)
			break;
		self->rng = rng_make((now.number << 8) + worker->index);
		for (unsigned long i = 0; i < now.acts && (i % 32 != 0 || run_seconds() < now.end); i++)
			act(child);
		part(child);
	}
	if (worker->index == 0)
		mix.disposed = children_begun();
}

/* ---- verdict ---------------------------------------------------------------------------------- */

/* A stress that never met what it is for has not tested it. */
static unsigned columns_empty(void)
{
	const struct larder_stats *t = &mix.total;
	const struct {
		const char *name;
		uint64_t count;
	} column[] = {
		{ "hits", t->hits },
		{ "joins_shared", t->joins_shared },
		{ "joins_failed", t->joins_failed },
		{ "joins_abandoned", t->joins_abandoned },
		{ "refused_busy", t->refused_busy },
		{ "refused_deadlock", t->refused_deadlock },
		{ "absent", t->absent },
		{ "in_progress", t->in_progress },
		{ "loads_failed", t->loads_failed },
		{ "loads_abandoned", t->loads_abandoned },
		{ "evicted_room", t->evicted_room },
		{ "evicted_trim", t->evicted_trim },
		{ "evicted_ahead", t->evicted_ahead },
		{ "rescues", t->rescues },
		{ "graces", t->graces },
		{ "verdicts", t->verdicts },
		{ "threads that died", mix.disposed },
	};
	unsigned empty = 0;

	for (unsigned i = 0; i < ELEMENTS(column); i++) {
		note("%-18s %" PRIu64, column[i].name, column[i].count);
		empty += column[i].count == 0;
	}
	return empty;
}

int main(void)
{
	static const char *const promise[PROMISES] = {
		[ONE_LOAD] = "P1: one loader at a time for a key",
		[OUTCOMES] = "P2, P3: codes, outcomes and refs fit what the loaders did",
		[SNAPSHOTS] = "P17: statistics are sane while threads run",
		[NO_PINS] = "at rest nobody holds anything",
		[BALANCE] = "P17: at rest counting adds up, and to what the threads have counted",
		[PROBE] = "P6, P7: at rest as many pins as the capacity",
		[LOST] = "P8: at rest every entry can be evicted, oldest first",
		[CLOSING] = "P10: closing is refused with a pin out; every value is destroyed once",
		[MEMORY] = "P16: memory is bounded, and all given back",
	};
	const char *threads = getenv("THREADS"), *round = getenv("ROUND");

	mix.threads = threads != NULL ? (unsigned)strtoul(threads, NULL, 0) : THREADS;
	mix.first_round = round != NULL ? strtoul(round, NULL, 0) / ROUNDS_TOGETHER * ROUNDS_TOGETHER : 0;
	if (mix.threads < 1 || mix.threads > THREADS_MAX)
		plan_skip("THREADS must be 1 to %d", THREADS_MAX);
	run_begin(PROMISES + 2);
	line_setup(&mix.line, mix.threads, true);
	crew_run(mix.threads, work, NULL);
	note("%lu rounds, %lu caches, %u threads, %.0f s", mix.rounds, mix.caches, mix.threads, run_seconds());
	for (unsigned i = 0; i < PROMISES; i++)
		judge(is_int(count_of(&mix.broken[i]), 0, "%s", promise[i]));
	judge(is_int(mix.faults, 0, "P4, P5, P6, P10: no value has noticed anything"));
	if (mix.failed || mix.rounds < 2 * ROUNDS_TOGETHER)
		skip(1, "%lu rounds are too few to meet everything", mix.rounds);
	else
		judge(is_int(columns_empty(), 0, "everything it is for was met"));
	return run_end();
}
