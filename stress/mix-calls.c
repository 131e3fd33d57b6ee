/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mix-calls.c - the library's calls, each checked against what is known and tallied.
 */
#include "mix.h"

#include <stddef.h>

/* ---- get and peek --------------------------------------------------------------------- */

static const struct larder_ref untouched = { (void *)(uintptr_t)0x5a5a5a5a, (void *)(uintptr_t)0xa5a5a5a5 };

static bool is_untouched(const struct larder_ref *ref)
{
	return memcmp(ref, &untouched, sizeof(*ref)) == 0;
}

static bool leads(const struct self *self, uint64_t rank)
{
	for (unsigned i = 0; i < self->leads; i++)
		if (self->lead[i] == rank)
			return true;
	return false;
}

static uint64_t refusal_sum(const struct larder_refusal *refusal)
{
	return refusal->pinned + refusal->loading + refusal->refused + refusal->in_transit;
}

/* Does the outcome fit the code, and both fit what our loader did? */
static void check_outcome(const struct plan *plan, int r, const struct larder_outcome *o, const void *value)
{
	uint64_t capacity = plan->p->shelf.capacity, sum = refusal_sum(&o->refusal);
	bool ran = plan->runs != 0, fits;

	switch (r) {
	case LARDER_OK:
		fits = o->how == (ran                    ? LARDER_LOADED
				  : o->how == LARDER_HIT ? LARDER_HIT
							 : LARDER_JOINED) &&
		       o->load_error == 0 && sum == 0 && (!ran || value == plan->value);
		break;
	case LARDER_ELOAD:
		/* Errors are made of the key: see load(). */
		fits = o->how == (ran ? LARDER_LOADED : LARDER_JOINED) && sum == 0 &&
		       o->load_error == (int)plan->number + 1000 && (!ran || plan->error == o->load_error);
		break;
	case LARDER_EABANDONED:
		fits = o->how == LARDER_JOINED && !ran && sum == 0 && o->load_error == 0;
		break;
	case LARDER_EBUSY:
		fits = o->how == LARDER_NONE && !ran && sum == capacity && o->load_error == 0;
		break;
	default:
		fits = o->how == LARDER_NONE && !ran && sum == 0 && o->load_error == 0;
	}
	if (!fits)
		broken(OUTCOMES,
		       "%s: how %d, the loader ran %u times and made %p, load_error %d; value %p; pinned %" PRIu64
		       " loading %" PRIu64 " refused %" PRIu64 " in transit %" PRIu64 " of %" PRIu64,
		       larder_strerror(r), o->how, plan->runs, (void *)plan->value, o->load_error, value,
		       o->refusal.pinned, o->refusal.loading, o->refusal.refused, o->refusal.in_transit, capacity);
}

/* Without an outcome: the same, as far as it can be known.  What is not told is `silent`. */
static void guess_outcome(struct self *self, const struct plan *plan, int r, struct larder_outcome *o)
{
	bool ran = plan->runs != 0;

	larder_outcome_init(o);
	switch (r) {
	case LARDER_OK:
		if (ran)
			o->how = LARDER_LOADED;
		else
			self->silent[plan->p->index]++;
		break;
	case LARDER_ELOAD:
		o->how = ran ? LARDER_LOADED : LARDER_JOINED;
		break;
	case LARDER_EABANDONED:
		o->how = LARDER_JOINED;
		break;
	default:
		break;
	}
}

int get(struct pantry *p, uint64_t number, enum load_kind kind, struct larder_ref *ref)
{
	struct self *self = me();
	struct plan plan = { p, number, kind, 0, 0, NULL };
	struct key key = pantry_key(p, number);
	bool own = leads(self, rank_of(p, number));
	struct larder_ref got = untouched;
	struct larder_outcome outcome;
	struct tally *tally = &self->tally[p->index];
	int r;

	if (now.told) {
		larder_outcome_init(&outcome);
		r = larder_get_with(p->cache, key.bytes, key.len, load, &plan, NULL, &got, &outcome);
		check_outcome(&plan, r, &outcome, larder_value(&got));
		tally_get(tally, r, &outcome);
	} else {
		r = larder_get(p->cache, key.bytes, key.len, load, &plan, &got);
		guess_outcome(self, &plan, r, &outcome);
		if (r != 0 || plan.runs != 0)
			tally_get(tally, r, &outcome);
	}
	if (own != (r == LARDER_EDEADLK))
		broken(OUTCOMES, "%s for a key that this thread is%s loading", larder_strerror(r), own ? "" : " not");
	if (plan.runs > 1)
		broken(OUTCOMES, "one call ran its loader %u times", plan.runs);
	if (r != 0 && !is_untouched(&got))
		broken(OUTCOMES, "%s, but the ref was touched", larder_strerror(r));
	if (r != 0)
		return r;
	*ref = got;
	value_hold(&p->shelf, ref, number);
	return 0;
}

int peek(struct pantry *p, uint64_t number, struct larder_ref *ref)
{
	struct self *self = me();
	struct key key = pantry_key(p, number);
	struct larder_ref got = untouched;
	int r = larder_peek(p->cache, key.bytes, key.len, &got);

	if (self->depth != 0) {
		/* In a callback, perhaps on a thread of the library's: others read its tally. */
		count_up(r == 0 ? &p->found : r == LARDER_ENOENT ? &p->absent : &p->in_progress);
	} else {
		tally_peek(&self->tally[p->index], r);
	}
	if (r != 0 && r != LARDER_ENOENT && r != LARDER_EINPROGRESS)
		broken(OUTCOMES, "peek: %s", larder_strerror(r));
	if (leads(self, rank_of(p, number)) && r != LARDER_EINPROGRESS)
		broken(OUTCOMES, "peek, in the loader of the key: %s", larder_strerror(r));
	if (r != 0) {
		if (!is_untouched(&got))
			broken(OUTCOMES, "peek: %s, but the ref was touched", larder_strerror(r));
		return r;
	}
	*ref = got;
	value_hold(&p->shelf, ref, number);
	return 0;
}

/* ---- refs --------------------------------------------------------------------------------- */

void look(const struct larder_ref *ref)
{
	struct value *v = larder_value(ref);
	size_t len = 0;
	const void *key = larder_key(ref, &len);
	uint64_t number;

	value_check(v->shelf, v, v->number);
	if (key == NULL || len != v->key_len || !key_number(key, len, &number) || number != v->number)
		broken(OUTCOMES, "larder_key() is not the key of the value");
}

void drop(struct larder_ref *ref)
{
	struct value *v = larder_value(ref);

	if (v == NULL)
		return;
	look(ref);
	value_drop(v->shelf, ref);
	if (larder_value(ref) != NULL || larder_release(ref) != LARDER_EINVAL)
		broken(OUTCOMES, "a ref is not empty after its release");
}

static void unpack(struct parcel *parcel)
{
	drop(&parcel->ref);
	free(parcel);
}

void post(struct pantry *p, struct larder_ref *ref)
{
	struct parcel *parcel = malloc(sizeof(*parcel));

	must(parcel != NULL);
	parcel->ref = *ref;
	memset(ref, 0, sizeof(*ref));
	parcel = atomic_exchange_explicit(&p->box[rng_below(&me()->rng, now.boxes)], parcel, memory_order_acq_rel);
	if (parcel != NULL)
		unpack(parcel);
}

bool fetch(struct pantry *p, unsigned box)
{
	struct parcel *parcel = atomic_exchange_explicit(&p->box[box], NULL, memory_order_acq_rel);

	if (parcel != NULL)
		unpack(parcel);
	return parcel != NULL;
}

/* ---- busy values ------------------------------------------------------------------------------ */

static void end_use(struct value *v)
{
	/* Release: the predicate acquires it, and may then destroy the value. */
	atomic_store_explicit(&v->busy, 0, memory_order_release);
}

void use(struct pantry *p, const struct larder_ref *ref)
{
	struct value *v = larder_value(ref), *other;

	/* Acquire: the uses before this one lie before whatever our end_use() releases. */
	if (!p->asks || atomic_exchange_explicit(&v->busy, 1, memory_order_acquire) != 0)
		return;
	other = atomic_exchange_explicit(&p->in_use[rng_below(&me()->rng, now.boxes)], v, memory_order_acq_rel);
	if (other != NULL)
		end_use(other);
}

bool unuse(struct pantry *p, unsigned box)
{
	struct value *v = atomic_exchange_explicit(&p->in_use[box], NULL, memory_order_acq_rel);

	if (v == NULL)
		return false;
	value_check(&p->shelf, v, v->number); /* nobody may have destroyed it */
	end_use(v);
	return true;
}

/* ---- the rest ------------------------------------------------------------------------------------ */

void trim(struct pantry *p, uint64_t count)
{
	int64_t done = larder_trim(p->cache, count);

	if (done < 0 || (uint64_t)done > count)
		broken(OUTCOMES, "larder_trim(%" PRIu64 ") says %" PRId64, count, done);
}

static uint64_t evicted(const struct larder_stats *s)
{
	return s->evicted_room + s->evicted_trim + s->evicted_ahead;
}

/* Counters are members in a row. */
static void compare_row(const struct larder_stats *before, const struct larder_stats *after, size_t from, size_t to)
{
	for (size_t i = from; i < to; i += sizeof(uint64_t)) {
		uint64_t a, b;

		memcpy(&a, (const unsigned char *)before + i, sizeof(a));
		memcpy(&b, (const unsigned char *)after + i, sizeof(b));
		if (b < a)
			broken(SNAPSHOTS, "counter %zu of the statistics went from %" PRIu64 " to %" PRIu64,
			       i / sizeof(uint64_t), a, b);
	}
}

void snapshot(struct pantry *p)
{
	struct larder_stats s = stats_of(p->cache), *seen = &me()->seen[p->index];

	if (s.capacity != p->shelf.capacity || s.resident + s.loading > s.capacity)
		broken(SNAPSHOTS, "resident %" PRIu64 " and loading %" PRIu64 " of %" PRIu64, s.resident, s.loading,
		       s.capacity);
	if (evicted(&s) > s.loads_ok || s.destroyed > evicted(&s) ||
	    s.loads_ok + s.loads_failed + s.loads_abandoned > s.misses ||
	    s.joins_shared + s.joins_failed + s.joins_abandoned > s.joins)
		broken(SNAPSHOTS, "more ends than begins");
	if (s.loads_ok > count_of(&p->shelf.loads) || s.destroyed > count_of(&p->shelf.destroyed))
		broken(SNAPSHOTS, "more values loaded or destroyed than there were");
	compare_row(seen, &s, offsetof(struct larder_stats, hits), offsetof(struct larder_stats, resident));
	compare_row(seen, &s, offsetof(struct larder_stats, nominations), sizeof(s));
	*seen = s;
}
