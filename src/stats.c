/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * stats.c - summing up.
 *
 * Counters are read from the end of the causal chain to its begin, each of all
 * members before the next: so that no snapshot shows more values evicted than
 * published, or more loads ended than begun (member.h).
 */
#include "stats.h"

#include "reclaim.h"

#define MACHINERY 5

static void sum(struct larder_cache *cache, uint64_t count[COUNTERS])
{
	for (unsigned c = COUNTERS; c-- > 0;) {
		count[c] = 0;
		for (struct member *m = load_acquire(&cache->members.first); m != NULL; m = m->next)
			count[c] += load_acquire(&m->count[c]);
	}
	count[COUNT_REFUSED_NOMEM] += load_relaxed(&cache->unrecorded_nomem);
}

static void machinery(struct larder_cache *cache, uint64_t count[MACHINERY])
{
	count[0] = load_relaxed(&cache->reclaim.nominations);
	count[1] = load_relaxed(&cache->reclaim.proofs);
	count[2] = load_relaxed(&cache->reclaim.graces);
	count[3] = load_relaxed(&cache->recency.epochs);
	count[4] = load_relaxed(&cache->reclaim.verdicts);
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

void stats_read(struct larder_cache *cache, struct larder_stats *s)
{
	uint64_t count[COUNTERS], machine[MACHINERY], pins, loads;

	sum(cache, count);
	machinery(cache, machine);
	/* Gauges first: from the whole history, not from the last reset. */
	s->resident = less(count[COUNT_LOADS_OK],
			   count[COUNT_EVICTED_ROOM] + count[COUNT_EVICTED_TRIM] + count[COUNT_EVICTED_AHEAD]);
	s->loading = less(count[COUNT_MISSES],
			  count[COUNT_LOADS_OK] + count[COUNT_LOADS_FAILED] + count[COUNT_LOADS_ABANDONED]);
	s->following = less(count[COUNT_JOINS],
			    count[COUNT_JOINS_SHARED] + count[COUNT_JOINS_FAILED] + count[COUNT_JOINS_ABANDONED]);
	/* The counters were read one after the other; the bound holds at every instant. */
	if (s->resident > cache->room.capacity)
		s->resident = cache->room.capacity;
	if (s->loading > cache->room.capacity - s->resident)
		s->loading = cache->room.capacity - s->resident;
	reclaim_count_pins(cache, &pins, &loads, NULL);
	s->pinned = pins;
	s->capacity = cache->room.capacity;
	s->overhead_bytes = load_relaxed(&cache->memory.bytes) + sizeof(*cache);

	lock_enter(&cache->baseline_lock);
	for (unsigned c = 0; c < COUNTERS; c++)
		count[c] = less(count[c], cache->baseline[c]);
	for (unsigned c = 0; c < MACHINERY; c++)
		machine[c] = less(machine[c], cache->baseline_machinery[c]);
	lock_leave(&cache->baseline_lock);
	s->hits = count[COUNT_HITS];
	s->misses = count[COUNT_MISSES];
	s->joins = count[COUNT_JOINS];
	s->refused_busy = count[COUNT_REFUSED_BUSY];
	s->refused_nomem = count[COUNT_REFUSED_NOMEM];
	s->refused_deadlock = count[COUNT_REFUSED_DEADLOCK];
	s->refused_closed = count[COUNT_REFUSED_CLOSED];
	s->absent = count[COUNT_ABSENT];
	s->in_progress = count[COUNT_IN_PROGRESS];
	s->joins_shared = count[COUNT_JOINS_SHARED];
	s->joins_failed = count[COUNT_JOINS_FAILED];
	s->joins_abandoned = count[COUNT_JOINS_ABANDONED];
	s->loads_ok = count[COUNT_LOADS_OK];
	s->loads_failed = count[COUNT_LOADS_FAILED];
	s->loads_abandoned = count[COUNT_LOADS_ABANDONED];
	s->evicted_room = count[COUNT_EVICTED_ROOM];
	s->evicted_trim = count[COUNT_EVICTED_TRIM];
	s->evicted_ahead = count[COUNT_EVICTED_AHEAD];
	s->destroyed = count[COUNT_DESTROYED];
	s->rescues = count[COUNT_RESCUES];
	s->nominations = machine[0];
	s->proofs = machine[1];
	s->graces = machine[2];
	s->epochs = machine[3];
	s->verdicts = machine[4];
}

void stats_reset(struct larder_cache *cache)
{
	uint64_t count[COUNTERS], machine[MACHINERY];

	lock_enter(&cache->baseline_lock);
	sum(cache, count);
	machinery(cache, machine);
	memcpy(cache->baseline, count, sizeof(count));
	memcpy(cache->baseline_machinery, machine, sizeof(machine));
	lock_leave(&cache->baseline_lock);
}
