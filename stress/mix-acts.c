/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * mix-acts.c - what threads do in a round, and threads that die.
 */
#include "mix.h"

/* A thread that is there for one purpose: to end in a bad moment. */
struct child {
	struct self self;
	pthread_t thread;
	bool runs;
	enum load_kind kind; /* of its last load */
};

/* ---- choosing ------------------------------------------------------------------------- */

unsigned pick(struct rng *rng, const unsigned *weight, unsigned n)
{
	uint64_t sum = 0, at;

	for (unsigned i = 0; i < n; i++)
		sum += weight[i];
	at = rng_below(rng, sum);
	for (unsigned i = 0; i < n; i++) {
		if (at < weight[i])
			return i;
		at -= weight[i];
	}
	return 0;
}

struct pantry *pick_pantry(struct rng *rng)
{
	/* One of them is crowded. */
	return rng_once_in(rng, 2) ? &pantry[now.number % PANTRIES] : &pantry[rng_below(rng, PANTRIES)];
}

uint64_t pick_key(struct rng *rng, const struct pantry *p)
{
	uint64_t few = p->shelf.capacity + 1;

	switch (now.skew) {
	case 0:
		break;
	case 1:
		if (rng_once_in(rng, 2))
			return 1;
		break;
	default:
		if (few < p->keys && !rng_once_in(rng, 8))
			return 1 + rng_below(rng, few);
	}
	return 1 + rng_below(rng, p->keys);
}

static int get_some(struct self *self, struct pantry *p, struct larder_ref *ref)
{
	return get(p, pick_key(&self->rng, p), pick(&self->rng, now.load, FOR_ALL), ref);
}

static void linger(struct self *self)
{
	if (now.hold_ns == UINT64_MAX) {
		if (rng_once_in(&self->rng, 16))
			sched_yield();
	} else if (now.hold_ns != 0 && rng_once_in(&self->rng, 4)) {
		spin_ns(rng_below(&self->rng, now.hold_ns));
	}
}

/* ---- threads that die ------------------------------------------------------------------- */

static void *live_and_die(void *arg)
{
	struct child *child = arg;
	struct self *self = &child->self;
	uint64_t gets = rng_below(&self->rng, now.holds);
	struct pantry *p;
	int state;

	/* Only the last get may be cancelled, and that only in its loader: "not a cancellation point". */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	self_enter(self);
	for (uint64_t i = 0; i < gets; i++)
		if (get_some(self, pick_pantry(&self->rng), &self->held[self->holds]) == 0)
			self->holds++;
	p = pick_pantry(&self->rng);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state);
	if (get(p, pick_key(&self->rng, p), child->kind, &self->held[self->holds]) == 0)
		self->holds++;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	return NULL;
}

/* Wait for its end, and see to the pins that it has left. */
static void bury(struct child *child, struct self *self)
{
	if (!child->runs)
		return;
	child->runs = false;
	if (child->kind == AWAIT_CANCEL) {
		spin_ns(rng_below(&self->rng, 100000));
		pthread_cancel(child->thread);
	}
	thread_join(child->thread);
	while (child->self.holds != 0) {
		struct larder_ref *ref = &child->self.held[--child->self.holds];
		struct value *v = larder_value(ref);

		look(ref);
		if (rng_once_in(&self->rng, 2))
			drop(ref);
		else
			post((struct pantry *)v->shelf, ref);
	}
	must(child->self.leads == 0 && child->self.depth == 0);
}

struct child *child_new(void)
{
	struct child *child = calloc(1, sizeof(*child));

	must(child != NULL);
	self_enlist(&child->self);
	return child;
}

static _Atomic uint64_t begun;

uint64_t children_begun(void)
{
	return count_of(&begun);
}

static void begin_child(struct child *child, struct self *self)
{
	static const enum load_kind kinds[] = { EXIT, EXIT, CANCEL_SELF, AWAIT_CANCEL, NEST, AT_ONCE };

	bury(child, self);
	child->self.rng.state = rng_next(&self->rng) | 1;
	child->self.disposable = true;
	child->kind = kinds[rng_below(&self->rng, ELEMENTS(kinds))];
	child->thread = thread_start(live_and_die, child);
	child->runs = true;
	count_up(&begun);
}

/* ---- acts ----------------------------------------------------------------------------------- */

static struct larder_ref *pick_held(struct self *self)
{
	struct larder_ref *ref = &self->held[rng_below(&self->rng, self->holds)], *last, swap;

	last = &self->held[self->holds - 1];
	swap = *ref;
	*ref = *last;
	*last = swap;
	return last;
}

static void let_go(struct self *self)
{
	if (self->holds == 0)
		return;
	drop(pick_held(self));
	self->holds--;
}

static void duplicate(struct self *self)
{
	struct larder_ref copy = { NULL, NULL }, *ref;
	struct value *v;
	int r;

	if (self->holds == 0)
		return;
	ref = pick_held(self);
	r = larder_dup(ref, &copy);
	if (r != 0) {
		broken(OUTCOMES, "larder_dup: %s", larder_strerror(r));
		return;
	}
	v = larder_value(&copy);
	if (v != larder_value(ref))
		broken(OUTCOMES, "a copy has another value");
	value_hold(v->shelf, &copy, v->number);
	if (rng_once_in(&self->rng, 2)) { /* the copy stays, the first one goes */
		struct larder_ref first = *ref;

		*ref = copy;
		copy = first;
	}
	if (rng_once_in(&self->rng, 2))
		post((struct pantry *)v->shelf, &copy);
	else
		drop(&copy);
}

void act(struct child *child)
{
	struct self *self = me();
	struct larder_ref ref = { NULL, NULL };
	struct pantry *p = pick_pantry(&self->rng);

	switch ((enum act)pick(&self->rng, now.act, ACTS)) {
	case VISIT:
		if (get_some(self, p, &ref) == 0) {
			linger(self);
			drop(&ref);
		}
		break;
	case HOLD:
		if (self->holds >= now.holds)
			let_go(self);
		if (get_some(self, p, &self->held[self->holds]) == 0)
			self->holds++;
		break;
	case LET_GO:
		let_go(self);
		break;
	case POST:
		if (get_some(self, p, &ref) == 0)
			post(p, &ref);
		break;
	case FETCH:
		fetch(p, (unsigned)rng_below(&self->rng, BOXES));
		break;
	case DUP:
		duplicate(self);
		break;
	case PEEK:
		if (peek(p, pick_key(&self->rng, p), &ref) == 0) {
			linger(self);
			drop(&ref);
		}
		break;
	case TRIM_SOME:
		trim(p, rng_once_in(&self->rng, 4) ? UINT64_MAX >> 1 : rng_below(&self->rng, 4));
		break;
	case STEP:
		if (larder_step(p->cache, rng_below(&self->rng, 20000)) < 0)
			broken(OUTCOMES, "larder_step fails");
		break;
	case STATS:
		snapshot(p);
		break;
	case USE:
		if (get_some(self, p, &ref) == 0) {
			use(p, &ref);
			drop(&ref);
		}
		break;
	case UNUSE:
		unuse(p, (unsigned)rng_below(&self->rng, BOXES));
		break;
	case DISPOSABLE:
		begin_child(child, self);
		break;
	case ACTS:
		break;
	}
}

void part(struct child *child)
{
	struct self *self = me();

	bury(child, self);
	while (self->holds != 0)
		let_go(self);
}
