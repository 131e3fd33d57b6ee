/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * value.c - values that notice when the cache breaks a promise.  See value.h.
 */
#include "value.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"
#include "watch.h"

#define HEAD UINT64_C(0x68656164c0ffee01)
#define TAIL UINT64_C(0x7461696cc0ffee02)
#define POISON 0xdb
#define ALIVE 0x600du
#define DESTROYED 0xdeadu
#define FAULTS_PRINTED 10

#define get_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define add_relaxed(p, n) atomic_fetch_add_explicit((p), (n), memory_order_relaxed)
#define sub_relaxed(p, n) atomic_fetch_sub_explicit((p), (n), memory_order_relaxed)

/* ---- the shelf ------------------------------------------------------------------ */

void shelf_setup(struct shelf *shelf, uint64_t capacity)
{
	memset(shelf, 0, sizeof(*shelf));
	shelf->capacity = capacity;
}

void shelf_end(struct shelf *shelf)
{
	for (unsigned i = 0; i < QUARANTINE; i++)
		free(atomic_exchange(&shelf->quarantine[i], NULL));
}

void shelf_fault(struct shelf *shelf, const char *what, ...)
{
	char text[256];
	va_list args;

	va_start(args, what);
	vsnprintf(text, sizeof(text), what, args);
	va_end(args);
	if (add_relaxed(&shelf->faults, 1) < FAULTS_PRINTED)
		note("fault: %s", text);
}

uint64_t shelf_faults(struct shelf *shelf)
{
	return get_relaxed(&shelf->faults);
}

uint64_t shelf_alive(struct shelf *shelf)
{
	return get_relaxed(&shelf->loads) - get_relaxed(&shelf->destroyed);
}

/* ---- keys -------------------------------------------------------------------------- */

static unsigned char key_byte(uint64_t number, size_t i)
{
	return (unsigned char)((number * UINT64_C(0x9e3779b97f4a7c15) >> (8 * (i & 7))) + i);
}

struct key key_make(uint64_t number, size_t len)
{
	struct key key = { len, { 0 } };

	must(len >= 8 && len <= KEY_BYTES);
	for (size_t i = 0; i < 8; i++)
		key.bytes[i] = (unsigned char)(number >> (8 * i));
	for (size_t i = 8; i < len; i++)
		key.bytes[i] = key_byte(number, i);
	return key;
}

struct key key_mixed(uint64_t number)
{
	static const size_t len[] = { 16, 8, 16, 24, 16, 25, 16, 40, 16, 100 };

	return key_make(number, len[number % (sizeof(len) / sizeof(len[0]))]);
}

bool key_number(const void *bytes, size_t len, uint64_t *number)
{
	const unsigned char *b = bytes;

	*number = 0;
	if (len < 8 || len > KEY_BYTES)
		return false;
	for (size_t i = 0; i < 8; i++)
		*number |= (uint64_t)b[i] << (8 * i);
	for (size_t i = 8; i < len; i++)
		if (b[i] != key_byte(*number, i))
			return false;
	return true;
}

/* ---- loads -------------------------------------------------------------------------- */

void load_begin(struct shelf *shelf)
{
	uint64_t units = add_relaxed(&shelf->units, 1) + 1, max = get_relaxed(&shelf->units_max);

	add_relaxed(&shelf->started, 1);
	while (units > max && !atomic_compare_exchange_weak_explicit(&shelf->units_max, &max, units,
								     memory_order_relaxed, memory_order_relaxed))
		;
	if (units > shelf->capacity)
		shelf_fault(shelf, "P6: %" PRIu64 " values alive or being loaded, capacity %" PRIu64, units,
			    shelf->capacity);
}

void load_end(struct shelf *shelf)
{
	sub_relaxed(&shelf->units, 1);
}

struct value *value_make(struct shelf *shelf, const void *key, size_t key_len)
{
	struct value *v = calloc(1, sizeof(*v));

	if (v == NULL)
		bail_out("no memory for a value");
	if (!key_number(key, key_len, &v->number))
		shelf_fault(shelf, "a loader got a key that nobody has made, %zu bytes", key_len);
	v->head = HEAD;
	v->key_len = key_len;
	v->shelf = shelf;
	v->load = add_relaxed(&shelf->loads, 1) + 1;
	for (unsigned i = 0; i < VALUE_WORDS; i++)
		v->word[i] = v->load;
	v->tail = TAIL;
	atomic_store_explicit(&v->alive, ALIVE, memory_order_relaxed);
	return v;
}

int value_load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	(void)load;
	load_begin(arg);
	*value = value_make(arg, key, key_len);
	return 0;
}

int value_load_fails(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	(void)key, (void)key_len, (void)value, (void)load;
	load_begin(arg);
	load_end(arg);
	return LOAD_ERROR;
}

int value_load_never(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load)
{
	uint64_t number;

	(void)value, (void)load;
	key_number(key, key_len, &number);
	shelf_fault(arg, "a loader ran that had no reason to, key %" PRIu64, number);
	return LOAD_ERROR;
}

/* ---- callbacks ------------------------------------------------------------------------- */

static void check_words(struct shelf *shelf, const struct value *v, const char *when)
{
	if (v->head != HEAD || v->tail != TAIL)
		shelf_fault(shelf, "%s: canaries %" PRIx64 " and %" PRIx64, when, v->head, v->tail);
	for (unsigned i = 0; i < VALUE_WORDS; i++) {
		if (v->word[i] != v->load) {
			shelf_fault(shelf, "%s: word %u is %" PRIx64 ", not %" PRIu64, when, i, v->word[i], v->load);
			return;
		}
	}
}

void value_destroy(void *value, void *ctx)
{
	struct value *v = value;
	struct shelf *shelf = ctx;
	uint32_t pins = get_relaxed(&v->pins);
	uint32_t was = atomic_exchange_explicit(&v->alive, DESTROYED, memory_order_relaxed);

	if (was != ALIVE) {
		shelf_fault(shelf, "P10: destroyed a value that is not alive: %x", was);
		return;
	}
	if (v->shelf != shelf)
		shelf_fault(shelf, "destroyed a value of another cache");
	if (pins != 0)
		shelf_fault(shelf, "P4: key %" PRIu64 " is destroyed while %u pins are held", v->number, pins);
	if (get_relaxed(&v->busy) != 0)
		shelf_fault(shelf, "P5: key %" PRIu64 " is destroyed while it is in use", v->number);
	check_words(shelf, v, "P4: when destroyed");
	memset(v->word, POISON, sizeof(v->word));
	v->head = v->tail = v->number = UINT64_C(0xdbdbdbdbdbdbdbdb);
	add_relaxed(&shelf->destroyed, 1);
	sub_relaxed(&shelf->units, 1);
	if (UNDER_ASAN || UNDER_TSAN)
		free(v); /* they see a late reader better */
	else
		free(atomic_exchange_explicit(&shelf->quarantine[add_relaxed(&shelf->quarantined, 1) % QUARANTINE], v,
					      memory_order_acq_rel));
}

int value_idle(void *value, void *ctx)
{
	struct value *v = value;

	if (get_relaxed(&v->alive) != ALIVE)
		shelf_fault(ctx, "P5: the predicate is asked about a value that is not alive");
	add_relaxed(&v->asked, 1);
	return get_relaxed(&v->busy) == 0;
}

struct larder_options shelf_options(struct shelf *shelf)
{
	struct larder_options options;

	larder_options_init(&options);
	options.capacity = shelf->capacity;
	options.destroy = value_destroy;
	options.ctx = shelf;
	return options;
}

struct larder_cache *shelf_open(struct larder_options *options)
{
	struct larder_cache *cache;
	int r = larder_open(&cache, options);

	if (r != 0)
		bail_out("larder_open: %s", larder_strerror(r));
	return cache;
}

/* ---- pins ------------------------------------------------------------------------------- */

void value_check(struct shelf *shelf, const struct value *v, uint64_t number)
{
	if (v == NULL) {
		shelf_fault(shelf, "P2: success without a value, key %" PRIu64, number);
		return;
	}
	if (get_relaxed(&((struct value *)(uintptr_t)v)->alive) != ALIVE)
		shelf_fault(shelf, "P4: a pinned value is not alive, key %" PRIu64, number);
	if (v->number != number)
		shelf_fault(shelf, "asked for key %" PRIu64 ", got the value of %" PRIu64, number, v->number);
	check_words(shelf, v, "P4: when looked at");
}

struct value *value_hold(struct shelf *shelf, const struct larder_ref *ref, uint64_t number)
{
	struct value *v = larder_value(ref);

	value_check(shelf, v, number);
	if (v != NULL)
		add_relaxed(&v->pins, 1);
	return v;
}

void value_drop(struct shelf *shelf, struct larder_ref *ref)
{
	struct value *v = larder_value(ref);
	int r;

	if (v != NULL) {
		value_check(shelf, v, v->number);
		sub_relaxed(&v->pins, 1);
	}
	r = larder_release(ref);
	if (r != 0)
		shelf_fault(shelf, "larder_release: %s", larder_strerror(r));
}

int shelf_get(struct larder_cache *cache, struct shelf *shelf, const struct key *key, larder_load_fn *loader, void *arg,
	      struct larder_ref *ref, struct larder_outcome *outcome)
{
	uint64_t number;
	int r;

	if (outcome != NULL) {
		larder_outcome_init(outcome);
		r = larder_get_with(cache, key->bytes, key->len, loader, arg, NULL, ref, outcome);
	} else {
		r = larder_get(cache, key->bytes, key->len, loader, arg, ref);
	}
	if (r == 0) {
		key_number(key->bytes, key->len, &number);
		value_hold(shelf, ref, number);
	}
	return r;
}

int shelf_visit(struct larder_cache *cache, struct shelf *shelf, uint64_t number)
{
	struct key key = key_mixed(number);
	struct larder_ref ref;
	int r = shelf_get(cache, shelf, &key, value_load, shelf, &ref, NULL);

	if (r == 0)
		value_drop(shelf, &ref);
	return r;
}

int shelf_peek(struct larder_cache *cache, struct shelf *shelf, uint64_t number)
{
	struct key key = key_mixed(number);
	struct larder_ref ref;
	int r = larder_peek(cache, key.bytes, key.len, &ref);

	if (r == 0) {
		value_hold(shelf, &ref, number);
		value_drop(shelf, &ref);
	}
	return r;
}

/* ---- at rest ------------------------------------------------------------------------------ */

struct larder_stats stats_of(struct larder_cache *cache)
{
	struct larder_stats stats;

	larder_stats_init(&stats);
	if (larder_stats(cache, &stats) != 0)
		bail_out("larder_stats fails");
	return stats;
}

static unsigned differ(const char *what, uint64_t a, uint64_t b)
{
	if (a == b)
		return 0;
	note("P17: %s: %" PRIu64 " and %" PRIu64, what, a, b);
	return 1;
}

unsigned unbalanced(struct larder_cache *cache, struct shelf *shelf)
{
	struct larder_stats s;
	unsigned wrong = 0;

	/* The background thread may be in the middle of an eviction: that ends. */
	until((s = stats_of(cache), s.destroyed == s.evicted_room + s.evicted_trim + s.evicted_ahead));
	wrong += differ("misses = loads_ok + loads_failed + loads_abandoned", s.misses,
			s.loads_ok + s.loads_failed + s.loads_abandoned);
	wrong += differ("joins = joins_shared + joins_failed + joins_abandoned", s.joins,
			s.joins_shared + s.joins_failed + s.joins_abandoned);
	wrong += differ("loads_ok = resident + evicted", s.loads_ok,
			s.resident + s.evicted_room + s.evicted_trim + s.evicted_ahead);
	wrong += differ("loading", s.loading, 0);
	wrong += differ("following", s.following, 0);
	wrong += differ("capacity", s.capacity, shelf->capacity);
	wrong += differ("values handed over", s.loads_ok, get_relaxed(&shelf->loads));
	wrong += differ("destroy callbacks", s.destroyed, get_relaxed(&shelf->destroyed));
	wrong += differ("values alive = resident", shelf_alive(shelf), s.resident);
	wrong += differ("units in use = resident", get_relaxed(&shelf->units), s.resident);
	if (s.resident > s.capacity) {
		note("P6: resident %" PRIu64 ", capacity %" PRIu64, s.resident, s.capacity);
		wrong++;
	}
	return wrong;
}

uint64_t pin_until_busy(struct larder_cache *cache, struct shelf *shelf)
{
	static _Atomic uint64_t fresh = UINT64_C(1) << 48;
	uint64_t room = shelf->capacity + 8, pinned = 0;
	struct larder_ref *ref = calloc(room, sizeof(*ref));
	struct larder_outcome outcome;
	int r;

	if (ref == NULL)
		bail_out("no memory for pins");
	for (;;) {
		struct key key = key_mixed(atomic_fetch_add(&fresh, 1));

		must(pinned < room);
		r = shelf_get(cache, shelf, &key, value_load, shelf, &ref[pinned], &outcome);
		if (r != 0)
			break;
		pinned++;
	}
	if (r != LARDER_EBUSY)
		shelf_fault(shelf, "pin until busy: %s", larder_strerror(r));
	else if (outcome.refusal.pinned != pinned || outcome.refusal.loading != 0 || outcome.refusal.refused != 0 ||
		 outcome.refusal.in_transit != 0)
		shelf_fault(shelf,
			    "P7: %" PRIu64 " pins are held, but busy says pinned %" PRIu64 " loading %" PRIu64
			    " refused %" PRIu64 " in transit %" PRIu64,
			    pinned, outcome.refusal.pinned, outcome.refusal.loading, outcome.refusal.refused,
			    outcome.refusal.in_transit);
	for (uint64_t i = 0; i < pinned; i++)
		value_drop(shelf, &ref[i]);
	free(ref);
	return pinned;
}

void at_rest(struct larder_cache *cache, struct shelf *shelf, const char *tag)
{
	is_int(unbalanced(cache, shelf), 0, "%s: counting adds up at rest (P17)", tag);
	is_int(pin_until_busy(cache, shelf), shelf->capacity, "%s: pins until busy: the whole capacity, and no more",
	       tag);
	is_int(shelf_faults(shelf), 0, "%s: no promise was broken meanwhile", tag);
}

void close_shelf(struct larder_cache *cache, struct shelf *shelf, const char *tag)
{
	is_int(larder_close(cache), 0, "%s: the cache closes", tag);
	is_int(get_relaxed(&shelf->destroyed), get_relaxed(&shelf->loads), "%s: every value was destroyed once (P10)",
	       tag);
	is_int(shelf_faults(shelf), 0, "%s: no promise was broken up to the end", tag);
	shelf_end(shelf);
}

/* ---- tallies --------------------------------------------------------------------------------- */

void tally_get(struct tally *t, int code, const struct larder_outcome *outcome)
{
	switch (code) {
	case LARDER_OK:
		t->hits += outcome->how == LARDER_HIT;
		t->loaded += outcome->how == LARDER_LOADED;
		t->joined += outcome->how == LARDER_JOINED;
		t->other += outcome->how < LARDER_HIT || outcome->how > LARDER_JOINED;
		break;
	case LARDER_ELOAD:
		t->load_failed += outcome->how == LARDER_LOADED;
		t->join_failed += outcome->how == LARDER_JOINED;
		t->other += outcome->how != LARDER_LOADED && outcome->how != LARDER_JOINED;
		break;
	case LARDER_EABANDONED:
		t->join_abandoned += outcome->how == LARDER_JOINED;
		t->other += outcome->how != LARDER_JOINED;
		break;
	case LARDER_EBUSY:
		t->busy++;
		break;
	case LARDER_ENOMEM:
		t->nomem++;
		break;
	case LARDER_EDEADLK:
		t->deadlock++;
		break;
	case LARDER_ECLOSED:
		t->closed++;
		break;
	default:
		t->other++;
	}
}

void tally_peek(struct tally *t, int code)
{
	switch (code) {
	case LARDER_OK:
		t->hits++;
		break;
	case LARDER_ENOENT:
		t->absent++;
		break;
	case LARDER_EINPROGRESS:
		t->in_progress++;
		break;
	case LARDER_ENOMEM:
		t->nomem++;
		break;
	default:
		t->other++;
	}
}

void tally_add(struct tally *sum, const struct tally *more)
{
	sum->hits += more->hits;
	sum->loaded += more->loaded;
	sum->load_failed += more->load_failed;
	sum->joined += more->joined;
	sum->join_failed += more->join_failed;
	sum->join_abandoned += more->join_abandoned;
	sum->busy += more->busy;
	sum->nomem += more->nomem;
	sum->deadlock += more->deadlock;
	sum->closed += more->closed;
	sum->absent += more->absent;
	sum->in_progress += more->in_progress;
	sum->other += more->other;
	sum->abandoned += more->abandoned;
}

unsigned tally_differs(const struct tally *t, const struct larder_stats *s)
{
	unsigned wrong = 0;

	wrong += differ("hits", s->hits, t->hits);
	wrong += differ("misses", s->misses, t->loaded + t->load_failed + t->abandoned);
	wrong += differ("joins", s->joins, t->joined + t->join_failed + t->join_abandoned);
	wrong += differ("joins_shared", s->joins_shared, t->joined);
	wrong += differ("joins_failed", s->joins_failed, t->join_failed);
	wrong += differ("joins_abandoned", s->joins_abandoned, t->join_abandoned);
	wrong += differ("loads_ok", s->loads_ok, t->loaded);
	wrong += differ("loads_failed", s->loads_failed, t->load_failed);
	wrong += differ("loads_abandoned", s->loads_abandoned, t->abandoned);
	wrong += differ("refused_busy", s->refused_busy, t->busy);
	wrong += differ("refused_nomem", s->refused_nomem, t->nomem);
	wrong += differ("refused_deadlock", s->refused_deadlock, t->deadlock);
	wrong += differ("refused_closed", s->refused_closed, t->closed);
	wrong += differ("absent", s->absent, t->absent);
	wrong += differ("in_progress", s->in_progress, t->in_progress);
	wrong += differ("codes that no call may return", t->other, 0);
	return wrong;
}
