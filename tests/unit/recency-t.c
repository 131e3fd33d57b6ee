/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * recency-t.c - P8: the order of stamps is the order of gets, as far as recency.h
 * promises it.  Several views on one thread stand for several threads, so the order is
 * exactly known.
 */
#include "../../src/recency.h"

#include "../lib/tap.h"

#define ENTRIES 64

static struct recency recency;
static struct entry entries[ENTRIES];

static uint64_t touch(struct recency_view *view, unsigned i)
{
	recency_touch(&recency, view, &entries[i]);
	return load_relaxed(&entries[i].stamp);
}

static void begin(struct recency_view *views, unsigned n)
{
	memset(&recency, 0, sizeof(recency));
	memset(entries, 0, sizeof(entries));
	recency_setup(&recency, 1000);
	for (unsigned i = 0; i < n; i++) {
		recency_view_setup(&views[i]);
		views[i].countdown = 1000000; /* no epoch by time: that would depend on this machine's haste */
	}
}

int main(void)
{
	struct recency_view views[40];
	uint64_t last, stamp, threshold;
	unsigned wrong;

	plan(12);

	begin(views, 1);
	last = wrong = 0;
	for (unsigned i = 0; i < 100000; i++) {
		stamp = touch(&views[0], i % ENTRIES);
		wrong += stamp <= last;
		last = stamp;
	}
	is_int(wrong, 0, "P8: one thread is exact over 100,000 gets, sequences that overflow included");

	begin(views, 2);
	last = wrong = 0;
	for (unsigned turn = 0; turn < 16; turn++) {
		for (unsigned i = 0; i < 3; i++) {
			stamp = touch(&views[turn % 2], (3 * turn + i) % ENTRIES);
			wrong += stamp <= last;
			last = stamp;
		}
	}
	is_int(wrong, 0, "P8: two threads that take turns 16 times within an epoch are exact");

	begin(views, 40);
	last = 0;
	wrong = 0;
	for (unsigned i = 0; i < 40; i++) {
		stamp = touch(&views[i], i);
		wrong += stamp < last;
		last = stamp;
	}
	is_int(wrong, 0, "P8: stamps never go backwards, however many threads take turns");
	ok(recency_saturated(&views[39]), "the tickets of an epoch are used up");
	stamp = load_relaxed(&entries[39].stamp);
	is_int(touch(&views[38], 39), stamp, "P9: an entry that is current is not written again");

	threshold = recency_threshold(&recency);
	wrong = 0;
	for (unsigned i = 0; i < 40; i++)
		wrong += load_relaxed(&entries[i].stamp) > threshold;
	is_int(wrong, 0, "all stamps so far are at most the threshold");
	for (unsigned i = 0; i < 40; i++)
		wrong += touch(&views[i], i) <= threshold;
	is_int(wrong, 0, "all later ones are above it");
	ok(!recency_saturated(&views[0]), "a threshold begins an epoch: there are tickets again");

	/* A stamp that was stored late: a thread read the clock, slept, and stored. */
	begin(views, 2);
	touch(&views[0], 0);
	touch(&views[1], 1);
	threshold = recency_threshold(&recency);
	touch(&views[1], 1);
	store_relaxed(&entries[2].stamp, 1);
	recency_settle(&recency, &entries[2]);
	ok(load_relaxed(&entries[2].stamp) > threshold, "P8: a late stamp is raised above every threshold");

	/* Loads begin epochs when saturated. */
	begin(views, 40);
	for (unsigned i = 0; i < 40; i++)
		touch(&views[i], i);
	ok(recency_saturated(&views[20]), "saturated");
	for (unsigned i = 0; i < 62; i++) /* 1,000 / 16 */
		recency_load(&recency, &views[20]);
	is_int(load_relaxed(&recency.epochs), 1, "capacity / 16 loads of a saturated thread begin an epoch");
	ok(!recency_saturated(&views[20]), "and its first ticket is that thread's");
	return done();
}
