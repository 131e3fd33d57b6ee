/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * recency.h - which get was later, without a shared write on each.
 *
 * One word a cache is the clock:    epoch : 47 | ticket : 5 | sequence : 12
 * of which the sequence is always 0: it is the part that a thread appends of its
 * own.  A thread keeps the clock it saw last and its own sequence.
 *
 *  - The clock is as it was at my last get: stamp = clock | ++sequence.  Plain
 *    stores, to the entry and to my own record.
 *  - It has moved: another thread drew a ticket, or a new epoch began.  I draw one
 *    myself (a compare-and-swap on the clock, repeated until it is won: a thread
 *    that adopted the value it found would share another's ticket).  There are 16
 *    an epoch, and a last one.  So as long as threads take turns no more than 16 times in an
 *    epoch, the order of the stamps is the order of the gets.
 *  - The tickets are used up: saturated.  An entry is stamped once an epoch, with
 *    the bare clock, by whoever comes first; the others see that it is current and
 *    write nothing.  Who drew the last ticket counts as saturated too: so a hot
 *    key is not written on each hit.
 *
 * A new epoch begins
 *  - when a saturated thread has loaded min(64, capacity / 16, at least 1) values;
 *  - when 1 ms has passed since the last began: a saturated thread looks at
 *    CLOCK_MONOTONIC every n-th get, n between 1 when gets are rare and 1,024 when
 *    they are dense (the coarse clock has steps of 4 ms and will not do);
 *  - when a sequence would overflow;
 *  - when the choice of victims fixes a threshold (select.h): all later stamps are
 *    then above all earlier ones.
 *
 * A late stamp.  A thread may read the clock, be stopped for a second, and store
 * an old stamp over a newer one.  So after the store it reads the clock again, and
 * if that has moved it raises the stamp to the present one (compare-and-swap,
 * never downwards).  It still holds its pin meanwhile, so the entry cannot be
 * taken in the window.  What remains is the time of a store buffer.
 *
 * Orders: all relaxed.  A stamp is a hint about time and orders no other data; a
 * get that happens before another in the program sees its clock by coherence.
 */
#ifndef LARDER_RECENCY_H
#define LARDER_RECENCY_H

#include "entry.h"

#define SEQUENCE_BITS 12
#define SEQUENCE_MAX ((UINT64_C(1) << SEQUENCE_BITS) - 1)
#define TICKET_MASK UINT64_C(31)
#define TICKETS 17u /* 16 for those who keep the order exactly, and one whose owner is saturated */

struct recency {
	_Atomic(uint64_t) clock;    /* epoch : 47 | ticket : 5; never 0 */
	_Atomic(uint64_t) began_ns; /* when an epoch was last begun by time */
	_Atomic(uint64_t) epochs;   /* begun so far, those by sequence and threshold left out */
	uint32_t loads_an_epoch;
};

/* A thread's part; only that thread touches it. */
struct recency_view {
	uint64_t clock;     /* seen last; 0: none */
	uint64_t stamp;     /* given last: clock | sequence */
	uint64_t limit;     /* the last stamp of this clock; 0 when saturated */
	uint32_t countdown; /* gets until the time is looked at */
	uint32_t period;    /* what countdown begins with */
	uint32_t loads;     /* own loads since it began an epoch */
	uint32_t unused;
	uint64_t looked_ns;
};

static inline bool recency_saturated(const struct recency_view *view)
{
	return view->limit == 0;
}

HIDDEN void recency_setup(struct recency *recency, uint64_t capacity);
HIDDEN void recency_view_setup(struct recency_view *view);
/* e, stamped before it was READY, is READY now: its stamp must not be older than a threshold. */
HIDDEN void recency_settle(struct recency *recency, struct entry *e);
/* This thread is about to publish a value. */
HIDDEN void recency_load(struct recency *recency, struct recency_view *view);
/* All stamps given so far are at most the result, all later ones above it. */
HIDDEN uint64_t recency_threshold(struct recency *recency);

/* All that recency_touch() does not do inline. */
HIDDEN void recency_touch_rare(struct recency *recency, struct recency_view *view, struct entry *e);

/* e was got now.  The caller has pinned e. */
static ALWAYS_INLINE void recency_touch(struct recency *recency, struct recency_view *view, struct entry *e)
{
	uint64_t clock = load_relaxed(&recency->clock);

	if (LIKELY(clock == view->clock)) {
		if (LIKELY(view->stamp < view->limit)) {
			store_relaxed(&e->stamp, ++view->stamp);
			if (LIKELY(load_relaxed(&recency->clock) == clock))
				return;
		} else if (recency_saturated(view) && view->countdown > 1) {
			view->countdown--;
			if (load_relaxed(&e->stamp) >= clock << SEQUENCE_BITS)
				return;
			store_relaxed(&e->stamp, clock << SEQUENCE_BITS);
			if (LIKELY(load_relaxed(&recency->clock) == clock))
				return;
		}
	}
	recency_touch_rare(recency, view, e);
}

#endif
