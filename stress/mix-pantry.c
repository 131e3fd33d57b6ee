/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mix-pantry.c - caches with random options, their callbacks, and what must hold at rest.
 */
#include "mix.h"

#include <time.h>

struct pantry pantry[PANTRIES];

/* A little more than the library may need; see pantry_rest(). */
#define OVERHEAD_MAX (UINT64_C(1) << 20)

#define RANK_SHIFT 48

uint64_t rank_of(const struct pantry *p, uint64_t number)
{
	return ((uint64_t)p->index << RANK_SHIFT) + number;
}

struct key pantry_key(const struct pantry *p, uint64_t number)
{
	return p->key_len != 0 ? key_make(number, p->key_len) : key_mixed(number);
}

/* ---- the loader ------------------------------------------------------------------------------ */

/* A load that runs; ends by whatever road its loader is left. */
struct lead {
	struct plan *plan;
	struct self *self;
	bool returns;
};

static void lead_begin(struct plan *plan, const void *key, size_t key_len)
{
	struct self *self = me();
	uint64_t number;

	plan->runs++;
	if (!key_number(key, key_len, &number) || number != plan->number)
		broken(OUTCOMES, "a loader was called for another key");
	if (plan->number < KEYS_MAX &&
	    atomic_exchange_explicit(&plan->p->loading[plan->number], 1, memory_order_relaxed) != 0)
		broken(ONE_LOAD, "two loaders run for key %" PRIu64, plan->number);
	load_begin(&plan->p->shelf);
	must(self->leads < LEADS_MAX);
	self->lead[self->leads++] = rank_of(plan->p, plan->number);
}

static void lead_end(struct lead *lead)
{
	struct plan *plan = lead->plan;

	lead->self->leads--;
	if (plan->number < KEYS_MAX)
		atomic_store_explicit(&plan->p->loading[plan->number], 0, memory_order_relaxed);
	if (plan->value == NULL)
		load_end(&plan->p->shelf);
	if (!lead->returns)
		lead->self->tally[plan->p->index].abandoned++;
}

static void sleep_ns(uint64_t ns)
{
	struct timespec t = { 0, (long)ns };

	clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL); /* a cancellation point */
}

/* Something to get while `rank` is being loaded: of a higher rank, so that no two wait for each other. */
static bool pick_above(struct rng *rng, uint64_t rank, struct pantry **p, uint64_t *number)
{
	unsigned index = (unsigned)(rank >> RANK_SHIFT);
	uint64_t at = rank & ((UINT64_C(1) << RANK_SHIFT) - 1);

	if (index + 1 < PANTRIES && (at >= pantry[index].keys || rng_once_in(rng, 2))) {
		*p = &pantry[index + 1 + rng_below(rng, PANTRIES - index - 1)];
		*number = 1 + rng_below(rng, (*p)->keys);
		return true;
	}
	if (at >= pantry[index].keys)
		return false;
	*p = &pantry[index];
	*number = at + 1 + rng_below(rng, pantry[index].keys - at);
	return true;
}

static void nest(struct self *self)
{
	struct larder_ref ref __attribute__((cleanup(drop))) = { NULL, NULL };
	enum load_kind kind = AT_ONCE;
	struct pantry *p;
	uint64_t number;

	if (!pick_above(&self->rng, self->lead[self->leads - 1], &p, &number))
		return;
	if (self->leads < LEADS_MAX / 2)
		kind = pick(&self->rng, now.load, FOR_ALL);
	if (self->disposable && self->depth == 0 && rng_once_in(&self->rng, 3))
		kind = EXIT; /* out of two loaders at once */
	if (get(p, number, kind, &ref) == 0 && rng_once_in(&self->rng, 4))
		sched_yield();
}

static void nest_own(struct plan *plan)
{
	struct larder_ref ref = { NULL, NULL };

	if (get(plan->p, plan->number, AT_ONCE, &ref) == 0)
		drop(&ref);
	if (peek(plan->p, plan->number, &ref) == 0)
		drop(&ref);
}

int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *running)
{
	struct plan *plan = arg;
	struct self *self = me();
	struct lead lead __attribute__((cleanup(lead_end))) = { plan, self, false };
	struct larder_ref ref = { NULL, NULL };
	struct pantry *p = plan->p;

	(void)running;
	lead_begin(plan, key, key_len);
	switch (plan->kind) {
	case SPIN:
	case FAIL_LATE:
		spin_ns(rng_below(&self->rng, 20000));
		break;
	case GIVE_WAY:
		sched_yield();
		break;
	case SLEEP:
		sleep_ns(1000 + rng_below(&self->rng, 100000));
		break;
	case NEST:
		nest(self);
		break;
	case NEST_OWN:
		nest_own(plan);
		break;
	case RELEASE:
		fetch(&pantry[rng_below(&self->rng, PANTRIES)], (unsigned)rng_below(&self->rng, BOXES));
		break;
	case TRIM:
		trim(p, 1 + rng_below(&self->rng, p->shelf.capacity));
		break;
	case LOOK:
		snapshot(p);
		if (peek(p, 1 + rng_below(&self->rng, p->keys), &ref) == 0)
			drop(&ref);
		break;
	case EXIT:
		if (rng_once_in(&self->rng, 2))
			sched_yield();
		pthread_exit(NULL);
	case CANCEL_SELF:
		pthread_cancel(pthread_self());
		pthread_testcancel();
		break;
	case AWAIT_CANCEL:
		for (unsigned i = 0; i < 200; i++) /* it may come when we are over */
			sleep_ns(20000);
		break;
	default:
		break;
	}
	lead.returns = true;
	if (plan->kind == FAIL || plan->kind == FAIL_LATE) {
		plan->error = (int)plan->number + 1000;
		return plan->error;
	}
	plan->value = value_make(&p->shelf, key, key_len);
	*value = plan->value;
	return 0;
}

/* ---- the other callbacks ------------------------------------------------------------------------ */

/* Both sides are sequentially consistent: after pantry_calm() has seen 0, no callback misbehaves. */
static bool callback_begin(struct pantry *p)
{
	atomic_fetch_add(&p->acting, 1);
	me()->depth++;
	return atomic_load(&p->calm) == 0;
}

static void callback_end(struct pantry *p)
{
	me()->depth--;
	atomic_fetch_sub(&p->acting, 1);
}

static void peek_and_drop(struct pantry *p, uint64_t number)
{
	struct larder_ref ref = { NULL, NULL };

	if (peek(p, number, &ref) == 0)
		drop(&ref);
}

static int idle(void *value, void *ctx)
{
	struct pantry *p = ctx;
	struct value *v = value;
	bool wild = callback_begin(p), yes;
	struct rng *rng = &me()->rng;

	value_check(&p->shelf, v, v->number);
	count_up(&v->asked);
	yes = atomic_load_explicit(&v->busy, memory_order_acquire) == 0;
	if (wild && p->moody && rng_once_in(rng, 3))
		yes = false;
	if (wild && rng_once_in(rng, 8)) {
		switch (rng_below(rng, 5)) {
		case 0:
			peek_and_drop(p, 1 + rng_below(rng, p->keys));
			break;
		case 1:
			peek_and_drop(p, v->number); /* rescues it */
			break;
		case 2:
			fetch(&pantry[rng_below(rng, PANTRIES)], (unsigned)rng_below(rng, BOXES));
			break;
		case 3:
			snapshot(p);
			break;
		default:
			sched_yield();
		}
	}
	value_check(&p->shelf, v, v->number);
	callback_end(p);
	return yes;
}

static void destroy(void *value, void *ctx)
{
	struct pantry *p = ctx;
	bool wild = callback_begin(p);
	struct self *self = me();
	struct rng *rng = &self->rng;
	struct larder_ref ref = { NULL, NULL };

	if (wild && rng_once_in(rng, 8)) {
		switch (rng_below(rng, 6)) {
		case 0:
			peek_and_drop(p, 1 + rng_below(rng, p->keys));
			break;
		case 1:
			fetch(&pantry[rng_below(rng, PANTRIES)], (unsigned)rng_below(rng, BOXES));
			break;
		case 2:
			snapshot(p);
			break;
		case 3:
			sched_yield();
			break;
		case 4:
			/* Only what no load of ours can be waiting for; not on the library's threads. */
			if (!self->foreign && self->depth == 1 && self->leads < LEADS_MAX / 2) {
				struct pantry *q = p;
				uint64_t number = 1 + rng_below(rng, p->keys);

				if (self->leads != 0 && !pick_above(rng, self->lead[self->leads - 1], &q, &number))
					break;
				if (get(q, number, rng_once_in(rng, 2) ? FAIL_LATE : GIVE_WAY, &ref) == 0)
					drop(&ref);
			}
			break;
		default:
			spin_ns(rng_below(rng, 10000));
		}
	}
	value_destroy(value, &p->shelf);
	callback_end(p);
}

static uint64_t hash(const void *key, size_t key_len, uint64_t seed, void *ctx)
{
	struct pantry *p = ctx;
	uint64_t number;

	(void)seed;
	if (!key_number(key, key_len, &number))
		broken(OUTCOMES, "the hash function is asked about a key that nobody has made");
	return p->hash == ONE_CHAIN ? 0 : number % 3;
}

static void *allocate(size_t size, size_t align, void *ctx)
{
	struct pantry *p = ctx;
	void *ptr = aligned_alloc(align, size);

	must(ptr != NULL);
	memset(ptr, 0, size);
	count_up(&p->blocks);
	atomic_fetch_add_explicit(&p->bytes, size, memory_order_relaxed);
	return ptr;
}

static void give_back(void *ptr, size_t size, void *ctx)
{
	struct pantry *p = ctx;

	memset(ptr, 0xdb, size);
	free(ptr);
	atomic_fetch_sub_explicit(&p->blocks, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&p->bytes, size, memory_order_relaxed);
}

/* ---- opening and closing --------------------------------------------------------------------------- */

void pantry_open(struct pantry *p, unsigned index, struct rng *rng)
{
	static const uint64_t capacities[] = { 1, 1, 2, 2, 3, 4, 5, 8, 16, 33, 64 };
	static const uint32_t flags[] = { 0, LARDER_NO_THREAD, LARDER_OWN_THREAD };
	struct larder_options o;
	uint64_t capacity = capacities[rng_below(rng, ELEMENTS(capacities))];

	memset(p, 0, sizeof(*p));
	shelf_setup(&p->shelf, capacity);
	p->index = index;
	p->keys = rng_once_in(rng, 6) ? 1 + rng_below(rng, capacity) : capacity + 1 + rng_below(rng, 2 * capacity + 2);
	p->flags = flags[rng_below(rng, ELEMENTS(flags))];
	if (p->flags != LARDER_NO_THREAD && capacity > 1 && rng_once_in(rng, 2))
		p->headroom = 1 + rng_below(rng, capacity / 2);
	p->hash = rng_once_in(rng, 2) ? OWN_HASH : (enum hash_kind)rng_below(rng, HASH_KINDS);
	p->key_len = rng_once_in(rng, 4) ? 16 : rng_once_in(rng, 4) ? KEY_BYTES : 0;
	p->asks = rng_once_in(rng, 2);
	p->moody = rng_once_in(rng, 3);
	p->allocates = rng_once_in(rng, 2);
	p->fresh = UINT64_C(1) << 40;
	atomic_store(&p->calm, 1);

	o = shelf_options(&p->shelf);
	o.flags = p->flags;
	o.headroom = p->headroom;
	o.destroy = destroy;
	o.ctx = p;
	if (p->asks)
		o.idle = idle;
	if (p->hash != OWN_HASH)
		o.hash = hash;
	if (p->allocates) {
		o.alloc = allocate;
		o.free = give_back;
		o.alloc_ctx = p;
	}
	p->cache = shelf_open(&o);
	p->base = stats_of(p->cache);
}

void pantry_describe(const struct pantry *p)
{
	static const char *const hashes[] = { "", ", one chain", ", three chains" };

	note("  %u: capacity %" PRIu64 ", %" PRIu64 " keys%s%s, headroom %" PRIu64 "%s%s%s%s", p->index,
	     p->shelf.capacity, p->keys,
	     p->key_len == 16  ? " of 16 bytes"
	     : p->key_len != 0 ? " of 128 bytes"
			       : "",
	     hashes[p->hash], p->headroom,
	     p->flags == LARDER_NO_THREAD    ? ", no thread"
	     : p->flags == LARDER_OWN_THREAD ? ", a thread of its own"
					     : "",
	     p->asks ? ", predicate" : "", p->asks && p->moody ? " (moody)" : "", p->allocates ? ", allocator" : "");
}

static uint64_t fresh_pin(struct pantry *p, struct larder_ref *ref, int *code)
{
	uint64_t number = p->fresh++;

	*code = get(p, number, AT_ONCE, ref);
	return number;
}

static void fresh_visit(struct pantry *p)
{
	struct larder_ref ref = { NULL, NULL };
	int r;

	fresh_pin(p, &ref, &r);
	if (r == 0)
		drop(&ref);
	else
		broken(PROBE, "at rest, a new key: %s", larder_strerror(r));
}

/* ---- at rest ------------------------------------------------------------------------------------------- */

static uint64_t evicted(const struct larder_stats *s)
{
	return s->evicted_room + s->evicted_trim + s->evicted_ahead;
}

/* Wait for the background thread; it has 60 s for what takes it microseconds. */
#define in_time(cond)                                         \
	({                                                    \
		struct timespec t_;                           \
		time_t end_;                                  \
		bool is_;                                     \
		clock_gettime(CLOCK_MONOTONIC, &t_);          \
		end_ = t_.tv_sec + 60;                        \
		while (!(is_ = (cond)) && t_.tv_sec < end_) { \
			sched_yield();                        \
			clock_gettime(CLOCK_MONOTONIC, &t_);  \
		}                                             \
		is_;                                          \
	})

static void settle(struct pantry *p)
{
	struct larder_stats s;

	for (unsigned i = 0; i < BOXES; i++) {
		fetch(p, i);
		unuse(p, i);
	}
	if (!in_time(atomic_load(&p->acting) == 0))
		broken(NO_PINS, "callbacks still run");
	if (p->headroom != 0) {
		fresh_visit(p); /* a miss tells the background thread */
		if (!in_time((s = stats_of(p->cache), s.resident + p->headroom <= s.capacity)))
			broken(PROBE, "resident %" PRIu64 " of %" PRIu64 ", headroom %" PRIu64 " is not restored",
			       s.resident, s.capacity, p->headroom);
	}
	if (!in_time((s = stats_of(p->cache), s.destroyed == evicted(&s))))
		broken(BALANCE, "evicted %" PRIu64 ", destroyed %" PRIu64, evicted(&s), s.destroyed);
	if (!in_time(atomic_load(&p->acting) == 0))
		broken(NO_PINS, "callbacks still run");
	if (p->flags == LARDER_NO_THREAD ? stat_of(p->cache, pinned) != 0 : !in_time(stat_of(p->cache, pinned) == 0))
		broken(NO_PINS, "%" PRIu64 " pins, %" PRIu64 " loads are left", stat_of(p->cache, pinned),
		       stat_of(p->cache, loading));
}

static unsigned differ(const struct pantry *p, const char *what, uint64_t cache, uint64_t threads)
{
	if (cache == threads)
		return 0;
	note("pantry %u: %s: the cache says %" PRIu64 ", the threads %" PRIu64, p->index, what, cache, threads);
	return 1;
}

/* What all threads have counted against what the cache has, since the round began. */
static void compare_tallies(struct pantry *p)
{
	struct larder_stats s = stats_of(p->cache), *b = &p->base;
	struct tally t = { 0 };
	uint64_t silent = 0;
	unsigned wrong = 0;

	for (struct self *self = self_first(); self != NULL; self = self->next) {
		tally_add(&t, &self->tally[p->index]);
		silent += self->silent[p->index];
	}
	t.hits += count_of(&p->found);
	t.absent += count_of(&p->absent);
	t.in_progress += count_of(&p->in_progress);
#define SINCE(column) (s.column - b->column)
	wrong += differ(p, "hits and joins shared", SINCE(hits) + SINCE(joins_shared), t.hits + t.joined + silent);
	wrong += differ(p, "misses", SINCE(misses), t.loaded + t.load_failed + t.abandoned);
	wrong += differ(p, "loads_ok", SINCE(loads_ok), t.loaded);
	wrong += differ(p, "loads_failed", SINCE(loads_failed), t.load_failed);
	wrong += differ(p, "loads_abandoned", SINCE(loads_abandoned), t.abandoned);
	wrong += differ(p, "joins_failed", SINCE(joins_failed), t.join_failed);
	wrong += differ(p, "joins_abandoned", SINCE(joins_abandoned), t.join_abandoned);
	wrong += differ(p, "refused_busy", SINCE(refused_busy), t.busy);
	wrong += differ(p, "refused_nomem", SINCE(refused_nomem), t.nomem);
	wrong += differ(p, "refused_deadlock", SINCE(refused_deadlock), t.deadlock);
	wrong += differ(p, "refused_closed", SINCE(refused_closed), t.closed);
	wrong += differ(p, "absent", SINCE(absent), t.absent);
	wrong += differ(p, "in_progress", SINCE(in_progress), t.in_progress);
	wrong += differ(p, "codes that no call may return", 0, t.other);
	if (SINCE(hits) < t.hits || SINCE(joins_shared) < t.joined)
		wrong += differ(p, "hits", SINCE(hits), t.hits);
#undef SINCE
	if (wrong != 0)
		broken(BALANCE, "%u columns of the statistics are not what the threads have counted", wrong);
}

static void begin_tallies(struct pantry *p)
{
	p->base = stats_of(p->cache);
	for (struct self *self = self_first(); self != NULL; self = self->next) {
		memset(&self->tally[p->index], 0, sizeof(self->tally[p->index]));
		self->silent[p->index] = 0;
	}
	atomic_store(&p->found, 0);
	atomic_store(&p->absent, 0);
	atomic_store(&p->in_progress, 0);
}

/* Pin new keys until busy. */
static void probe(struct pantry *p)
{
	struct larder_ref pin[64 + 1];
	uint64_t pins = 0, tries = 0;
	int r;

	while (pins < ELEMENTS(pin)) {
		fresh_pin(p, &pin[pins], &r);
		if (r == 0)
			pins++;
		else if (r == LARDER_EBUSY && pins < p->shelf.capacity && p->headroom != 0 && tries++ < 100000)
			sched_yield(); /* the background thread has a unit in its hands */
		else
			break;
	}
	if (r != LARDER_EBUSY || pins != p->shelf.capacity)
		broken(PROBE, "%" PRIu64 " pins, capacity %" PRIu64 ", then: %s", pins, p->shelf.capacity,
		       larder_strerror(r));
	while (pins != 0)
		drop(&pin[--pins]);
}

/*
 * One thread, three times the capacity of new keys: then the last of them are resident,
 * unless some units are held by entries that are never evicted any more.
 */
static void find_lost(struct pantry *p)
{
	uint64_t expected = p->shelf.capacity - p->headroom, there = 0;
	struct larder_ref ref = { NULL, NULL };

	for (uint64_t i = 0; i < 3 * p->shelf.capacity; i++)
		fresh_visit(p);
	for (uint64_t i = 1; i <= expected; i++) {
		if (peek(p, p->fresh - i, &ref) == 0) {
			drop(&ref);
			there++;
		}
	}
	if (there != expected)
		broken(LOST,
		       "of the last %" PRIu64 " keys, got one after the other by one thread, only %" PRIu64
		       " are resident",
		       expected, there);
}

void pantry_rest(struct pantry *p)
{
	uint64_t overhead;
	unsigned wrong;

	settle(p);
	wrong = unbalanced(p->cache, &p->shelf);
	if (wrong != 0)
		broken(BALANCE, "%u of P17's equations do not hold", wrong);
	compare_tallies(p);
	for (unsigned i = 0; i < KEYS_MAX; i++)
		if (count_of(&p->loading[i]) != 0)
			broken(ONE_LOAD, "at rest, a loader of key %u still runs", i);
	overhead = stat_of(p->cache, overhead_bytes);
	if (overhead > OVERHEAD_MAX)
		broken(MEMORY, "%" PRIu64 " bytes of overhead", overhead);
	probe(p);
	find_lost(p);
	settle(p);
	wrong = unbalanced(p->cache, &p->shelf);
	if (wrong != 0)
		broken(BALANCE, "after the probes, %u of P17's equations do not hold", wrong);
	begin_tallies(p);
}

void pantry_close(struct pantry *p)
{
	struct larder_ref pin = { NULL, NULL };
	struct larder_refusal refusal;
	struct larder_stats s;
	int r;

	fresh_pin(p, &pin, &r);
	must(r == 0);
	memset(&refusal, 0xff, sizeof(refusal));
	r = larder_close_report(p->cache, &refusal);
	if (r != LARDER_EBUSY || refusal.pinned != 1 || refusal.loading != 0)
		broken(CLOSING, "with a pin out: %s, pinned %" PRIu64 " loading %" PRIu64, larder_strerror(r),
		       refusal.pinned, refusal.loading);
	look(&pin);
	drop(&pin);
	fresh_visit(p);
	settle(p);
	if (larder_stats_reset(p->cache) != 0)
		broken(CLOSING, "larder_stats_reset fails");
	s = stats_of(p->cache);
	if (s.hits + s.misses + s.joins + s.loads_ok + s.destroyed + s.nominations != 0 || s.resident == 0)
		broken(SNAPSHOTS,
		       "after a reset: hits %" PRIu64 " misses %" PRIu64 " loads_ok %" PRIu64 " destroyed %" PRIu64
		       " resident %" PRIu64,
		       s.hits, s.misses, s.loads_ok, s.destroyed, s.resident);
	for (struct self *self = self_first(); self != NULL; self = self->next)
		memset(&self->seen[p->index], 0, sizeof(self->seen[p->index]));
	atomic_store(&p->calm, 0); /* let the last callbacks misbehave once more */
	r = larder_close(p->cache);
	if (r != 0)
		bail_out("larder_close: %s", larder_strerror(r));
	if (count_of(&p->shelf.loads) != count_of(&p->shelf.destroyed))
		broken(CLOSING, "%" PRIu64 " values made, %" PRIu64 " destroyed", count_of(&p->shelf.loads),
		       count_of(&p->shelf.destroyed));
	if (count_of(&p->blocks) != 0 || count_of(&p->bytes) != 0)
		broken(MEMORY, "%" PRIu64 " blocks, %" PRIu64 " bytes are left after closing", count_of(&p->blocks),
		       count_of(&p->bytes));
	shelf_end(&p->shelf);
}
