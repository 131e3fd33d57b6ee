/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * oracle.c - what the library promised, counted from outside.
 *
 * The scenarios tell what they see and do; each function here takes no time in the
 * schedule and orders nothing, so asking does not hide a fault.
 *
 *   P1   at most one loader of a key at a time
 *   P4   a value with pins is not destroyed
 *   P5   the predicate is asked about live values without pins, and outside any
 *        read-side section, as are loaders and destroy
 *   P6   values alive and loads that run are never more than the capacity
 *   P7   a request is not refused while one and the same entry stays idle throughout
 *        it, nor while a unit is free and nobody else does anything
 *   P10  each value is destroyed once
 *
 * "Idle throughout": the predicate agrees, no call that could pin the key's value was
 * running during the request, and none of its pins was held.  A hit pins an entry
 * before it compares the keys, and may be on its way in a chain that has changed: so a
 * call for a key that is, or has been, in the cache may pin any entry for a moment, and
 * any call may if all keys have one hash.  Time is a count of such events; where loads
 * have returned old values it is no time that all threads agree about, and P7 is only
 * looked at when one thread is left.
 */
#include "engine.h"

#include <string.h>

#define VALUES_MAX 256
#define CALLS_MAX 8

struct life {
	const struct value *value;
	uint64_t key;
	unsigned pins;
	bool alive, dying;
	uint64_t touched; /* time of the last event about it */
};

static struct life life[VALUES_MAX];
static unsigned lives;
static struct oracle_totals totals;
static uint64_t capacity, time;
static unsigned loading;
static bool is_loading[KEYS_MAX];
static unsigned loads[KEYS_MAX];
static bool in_use[KEYS_MAX];      /* the predicate says no, or said so lately */
static unsigned calls[KEYS_MAX];   /* running, for the key */
static uint64_t touched[KEYS_MAX]; /* when such a call last began or ended */
static struct {
	unsigned calls; /* running in this thread: a loader calls, too */
	unsigned straying;
	bool strays[CALLS_MAX];
} own[THREADS + 1];
static uint64_t began[THREADS + 1]; /* the thread's present call */
static bool one_hash;
static unsigned running;                 /* calls of any kind */
static unsigned straying;                /* those that may pin entries of other keys */
static uint64_t strayed_at[THREADS + 1]; /* when such a call was last running in another thread */
static uint64_t others_at[THREADS + 1];  /* when another thread last had a call, as seen by this one */

void oracle_begin(void)
{
	lives = 0;
	memset(&totals, 0, sizeof(totals));
	capacity = time = 0;
	loading = running = straying = 0;
	one_hash = false;
	memset(is_loading, 0, sizeof(is_loading));
	memset(loads, 0, sizeof(loads));
	memset(in_use, 0, sizeof(in_use));
	memset(calls, 0, sizeof(calls));
	memset(touched, 0, sizeof(touched));
	memset(began, 0, sizeof(began));
	memset(others_at, 0, sizeof(others_at));
	memset(strayed_at, 0, sizeof(strayed_at));
	memset(own, 0, sizeof(own));
}

void oracle_capacity(uint64_t units)
{
	capacity = units;
}

void oracle_one_hash(void)
{
	one_hash = true;
}

static struct life *life_of(const struct value *value)
{
	for (unsigned i = lives; i-- > 0;)
		if (life[i].value == value)
			return &life[i];
	explore_fail("a value that no loader made: %p", (const void *)value);
}

unsigned oracle_load_begins(uint64_t key)
{
	time++;
	if (explore_reading())
		explore_fail("the loader is called inside a read-side section");
	if (is_loading[key])
		explore_fail("P1: two loaders of key %u at once", (unsigned)key);
	is_loading[key] = true;
	loading++;
	if (totals.alive + loading > capacity)
		explore_fail("P6: %u values and %u loads with a capacity of %u", (unsigned)totals.alive, loading,
			     (unsigned)capacity);
	return ++loads[key];
}

void oracle_load_ends(uint64_t key, const struct value *value, bool abandoned)
{
	time++;
	is_loading[key] = false;
	loading--;
	if (value == NULL) {
		totals.loads_failed += !abandoned;
		totals.loads_abandoned += abandoned;
		return;
	}
	if (lives == VALUES_MAX)
		explore_fail("the explorer itself: too many values");
	memset(&life[lives], 0, sizeof(life[0]));
	life[lives].value = value;
	life[lives].key = key;
	life[lives].alive = true;
	life[lives].touched = time;
	lives++;
	totals.loads_ok++;
	totals.alive++;
}

void oracle_destroy_begins(const struct value *value)
{
	struct life *l = life_of(value);

	time++;
	if (explore_reading())
		explore_fail("destroy is called inside a read-side section");
	if (!l->alive || l->dying)
		explore_fail("P10: the value of key %u is destroyed twice", (unsigned)l->key);
	if (l->pins != 0)
		explore_fail("P4: the value of key %u is destroyed with %u pins", (unsigned)l->key, l->pins);
	l->dying = true;
}

void oracle_destroy_ends(const struct value *value)
{
	struct life *l = life_of(value);

	time++;
	l->alive = false;
	totals.alive--;
	totals.destroyed++;
}

void oracle_asked(const struct value *value, bool yes)
{
	struct life *l = life_of(value);

	time++;
	if (explore_reading())
		explore_fail("the predicate is called inside a read-side section");
	if (!l->alive || l->dying)
		explore_fail("P5: the predicate is asked about a dead value of key %u", (unsigned)l->key);
	if (!yes)
		in_use[l->key] = true;
}

void oracle_in_use(uint64_t key)
{
	in_use[key] = true;
}

/* Another thread's calls are running now, if there are any. */
static void note(uint64_t *at, unsigned all, unsigned mine, unsigned thread)
{
	for (unsigned t = 0; t <= THREADS; t++)
		if (all > (t == thread ? mine : 0))
			at[t] = time;
}

void oracle_call_begins(uint64_t key)
{
	unsigned self = explore_self();
	bool strays = one_hash || loads[key] != 0;

	if (own[self].calls == CALLS_MAX)
		explore_fail("the scenario itself: too many calls inside calls");
	began[self] = ++time;
	calls[key]++;
	touched[key] = time;
	own[self].strays[own[self].calls++] = strays;
	own[self].straying += strays;
	running++;
	straying += strays;
	note(others_at, running, own[self].calls, self);
	note(strayed_at, straying, own[self].straying, self);
}

void oracle_call_ends(uint64_t key)
{
	unsigned self = explore_self();
	bool strays;

	touched[key] = ++time;
	note(others_at, running, own[self].calls, self);
	note(strayed_at, straying, own[self].straying, self);
	calls[key]--;
	strays = own[self].strays[--own[self].calls];
	own[self].straying -= strays;
	running--;
	straying -= strays;
}

void oracle_pinned(const struct value *value)
{
	struct life *l = life_of(value);

	l->touched = ++time;
	if (!l->alive || l->dying)
		explore_fail("P4: a pin on a dead value of key %u", (unsigned)l->key);
	l->pins++;
	totals.pins++;
}

void oracle_unpinned(const struct value *value)
{
	struct life *l = life_of(value);

	l->touched = ++time;
	if (l->pins-- == 0)
		explore_fail("the scenario itself: unpinned too often");
	totals.pins--;
}

void oracle_refused(uint64_t key, uint64_t pinned, uint64_t load, uint64_t refused, uint64_t in_transit)
{
	uint64_t since = began[explore_self()];

	if (pinned + load + refused + in_transit != capacity)
		explore_fail("P7: refused key %u: %u pinned, %u loading, %u refused, %u in transit, of %u",
			     (unsigned)key, (unsigned)pinned, (unsigned)load, (unsigned)refused, (unsigned)in_transit,
			     (unsigned)capacity);
	if (explore_stale())
		return;
	for (unsigned i = 0; i < lives; i++) {
		struct life *l = &life[i];

		if (strayed_at[explore_self()] >= since)
			break;
		if (l->alive && !l->dying && !in_use[l->key] && l->pins == 0 && l->touched < since &&
		    calls[l->key] == 0 && touched[l->key] < since)
			explore_fail("P7: key %u is refused while key %u stays idle", (unsigned)key, (unsigned)l->key);
	}
	if (others_at[explore_self()] < since && totals.alive + loading < capacity)
		explore_fail("P7: key %u is refused while a unit is free", (unsigned)key);
}

void oracle_totals(struct oracle_totals *t)
{
	*t = totals;
}
