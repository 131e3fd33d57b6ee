/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * recency.c - the clock's rarer movements.  The essay is in recency.h.
 */
#include "recency.h"

#include "park.h"

#define EPOCH_NS UINT64_C(1000000)
#define PERIOD_MAX 1024u

/* The first clock value of the next epoch: ticket 1 belongs to whoever begins it. */
static uint64_t next_epoch(uint64_t clock)
{
	return (clock | TICKET_MASK) + 2;
}

static bool exhausted(uint64_t clock)
{
	return (clock & TICKET_MASK) >= TICKETS;
}

void recency_setup(struct recency *recency, uint64_t capacity)
{
	uint64_t loads = capacity / 16;

	store_relaxed(&recency->clock, TICKET_MASK + 1); /* epoch 1, ticket 0: nobody's */
	recency->loads_an_epoch = loads < 1 ? 1 : loads > 64 ? 64 : (uint32_t)loads;
}

void recency_view_setup(struct recency_view *view)
{
	view->clock = 0;
	view->stamp = 0;
	view->limit = 0;
	view->countdown = 1;
	view->period = 1;
	view->loads = 0;
	view->looked_ns = 0;
}

static void see(struct recency_view *view, uint64_t clock, bool mine)
{
	view->clock = clock;
	view->stamp = clock << SEQUENCE_BITS;
	view->limit = !mine || exhausted(clock) ? 0 : view->stamp | SEQUENCE_MAX;
}

static void draw(struct recency *recency, struct recency_view *view)
{
	uint64_t clock = load_relaxed(&recency->clock);

	/* At most TICKETS lost turns an epoch: each loss is another's gain. */
	while (!exhausted(clock)) {
		if (cas_relaxed(&recency->clock, &clock, clock + 1)) {
			see(view, clock + 1, true);
			return;
		}
	}
	see(view, clock, false);
}

/* Begin an epoch unless another thread does, or one has just begun. */
static void begin_epoch(struct recency *recency, struct recency_view *view)
{
	uint64_t clock = load_relaxed(&recency->clock);

	if (!exhausted(clock))
		return; /* tickets are left: the next get draws one */
	if (cas_relaxed(&recency->clock, &clock, next_epoch(clock))) {
		see(view, next_epoch(clock), true);
		add_relaxed(&recency->epochs, 1);
	}
}

static void overflow(struct recency *recency, struct recency_view *view)
{
	uint64_t clock = view->clock;

	if (cas_relaxed(&recency->clock, &clock, next_epoch(clock)))
		see(view, next_epoch(clock), true);
	else
		draw(recency, view);
}

static void look_at_time(struct recency *recency, struct recency_view *view)
{
	uint64_t now = park_now_ns(), began = load_relaxed(&recency->began_ns);
	uint64_t passed = now - view->looked_ns;

	if ((int64_t)(now - began) >= (int64_t)EPOCH_NS && /* another's may be later than ours */
	    cas_relaxed(&recency->began_ns, &began, now))
		begin_epoch(recency, view);
	/* Four looks a millisecond are enough; two are too few. */
	if (passed < EPOCH_NS / 4 && view->period < PERIOD_MAX)
		view->period *= 2;
	else if (passed > EPOCH_NS)
		view->period = 1;
	else if (passed > EPOCH_NS / 2 && view->period > 1)
		view->period /= 2;
	view->looked_ns = now;
	view->countdown = view->period;
}

/* The clock has moved since a stamp was stored: at least the present one. */
static void raise_stamp(struct recency *recency, struct entry *e)
{
	uint64_t now = load_relaxed(&recency->clock) << SEQUENCE_BITS, stamp = load_relaxed(&e->stamp);

	while (stamp < now && !cas_relaxed(&e->stamp, &stamp, now))
		;
}

void recency_touch_rare(struct recency *recency, struct recency_view *view, struct entry *e)
{
	uint64_t stored;

	if (load_relaxed(&recency->clock) != view->clock)
		draw(recency, view);
	if (!recency_saturated(view) && view->stamp == view->limit)
		overflow(recency, view);
	if (recency_saturated(view)) {
		uint64_t bare = view->clock << SEQUENCE_BITS;

		stored = bare;
		if (load_relaxed(&e->stamp) < bare)
			store_relaxed(&e->stamp, bare);
		if (view->countdown <= 1)
			look_at_time(recency, view);
		else
			view->countdown--;
	} else {
		stored = ++view->stamp;
		store_relaxed(&e->stamp, stored);
	}
	if (load_relaxed(&recency->clock) != stored >> SEQUENCE_BITS)
		raise_stamp(recency, e);
}

void recency_settle(struct recency *recency, struct entry *e)
{
	/* Either the scan that follows a threshold sees e READY, or we see the threshold. */
	fence_seq_cst();
	if (load_relaxed(&e->stamp) >> SEQUENCE_BITS < load_relaxed(&recency->clock))
		raise_stamp(recency, e);
}

void recency_load(struct recency *recency, struct recency_view *view)
{
	if (!recency_saturated(view) || ++view->loads < recency->loads_an_epoch)
		return;
	view->loads = 0;
	begin_epoch(recency, view);
}

uint64_t recency_threshold(struct recency *recency)
{
	uint64_t clock = load_relaxed(&recency->clock);

	/* Ticket 0 of the new epoch: nobody's, so every thread draws. */
	while (!cas_relaxed(&recency->clock, &clock, (clock | TICKET_MASK) + 1))
		;
	fence_seq_cst(); /* pairs with the one in recency_settle */
	return (clock << SEQUENCE_BITS) | SEQUENCE_MAX;
}
