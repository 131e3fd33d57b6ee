/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * flight.pml - one load, several followers: nobody sleeps for ever.
 *
 * What is modelled, and where it is in src/:
 *   process Leader     publish, fail or be unwound      flight.c flight_publish() flight_fail(),
 *                                                       larder.c run_loader() end_without() load_left()
 *   process Follower   pin, look, WAITERS, sleep,       flight.c flight_follow(), entry.c entry_await()
 *                      pass the baton, release
 *   process Role       sets WANTED beside WAITERS       entry.c entry_want()
 *
 * The word is its phase, its flags and a version; a futex wait compares the word and
 * falls asleep in one step (the kernel's lock of the bucket), a wake wakes any one of
 * those who sleep.  A sleep may also end for no reason.  A load that is abandoned is a
 * failed one with another outcome.
 *
 * Every process ends by itself, so one that sleeps for ever is an invalid end state.
 * Checked besides: the outcome is written before anyone reads it (P2); the unit of a
 * failed load is back before a follower is told (P3); the place is not freed while a
 * follower has it pinned.
 *
 * MUTANT  1 publication and failure wake nobody     2 WAITERS is looked at before the change
 *         3 a woken follower does not wake the next 4 WANTED replaces WAITERS instead of joining it
 *         5 the unit comes back after the change    6 followers sleep on the phase read before WAITERS was set
 *         7 WAITERS is set by a store: publication in between is lost
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef FOLLOWERS
#define FOLLOWERS 3
#endif

mtype = { LOADING, READY, FAILED };

mtype ph = LOADING;
bool waiters = false, wanted = false, spent = false;
byte ver = 0;                  /* of the whole word, flags included: what a futex compares */
bool asleep[FOLLOWERS];
byte nasleep = 0;
bool outcome = false;          /* the value or the error is written */
bool unit = true;              /* the entry has a unit of capacity */
byte pins = 1;
bool freed = false;

inline wake_one()
{
	atomic {
		if
		:: nasleep == 0
		:: asleep[0] -> asleep[0] = false; nasleep--
		:: asleep[1] -> asleep[1] = false; nasleep--
#if FOLLOWERS > 2
		:: asleep[2] -> asleep[2] = false; nasleep--
#endif
#if FOLLOWERS > 3
		:: asleep[3] -> asleep[3] = false; nasleep--
#endif
		fi
	}
}

inline end_load(to)
{
#if MUTANT == 2
	w = waiters;
	atomic { ph = to; waiters = false; ver++ };
#else
	atomic { w = waiters; ph = to; waiters = false; ver++ };
#endif
#if MUTANT != 1
	if
	:: w -> wake_one()
	:: else
	fi
#endif
}

proctype Leader()
{
	bool w;

	if
	:: outcome = true;
		end_load(READY)
	:: outcome = true;
		atomic { spent = true; ver++ };
#if MUTANT != 5
		unit = false;
#endif
		end_load(FAILED);
#if MUTANT == 5
		unit = false
#endif
	fi;
	pins--
}

proctype Role()
{
	atomic {
		if
		:: ph == LOADING && !spent ->
			wanted = true; ver++;
#if MUTANT == 4
			waiters = false
#endif
		:: else
		fi
	}
}

proctype Follower(byte me)
{
	bool slept = false;
	byte s;

	/* pinned, and LOADING when it looked; who comes later is not of this flight */
	atomic {
		if
		:: ph == LOADING -> pins++
		:: else -> goto gone
		fi
	};
	do
	:: atomic { ph != LOADING -> break }
	:: atomic { ph == LOADING -> s = ver };
		/* entry_await() */
#if MUTANT == 7
		atomic { ph = LOADING; waiters = true; ver++; s = ver };
#else
		if
		:: atomic { ver == s && !waiters -> waiters = true; ver++;
#if MUTANT != 6
			s = ver
#endif
			}
		:: atomic { ver == s && waiters }
		:: atomic { ver != s -> goto again }
		fi;
#endif
		/* park_wait(): compare and sleep */
		if
#if MUTANT == 6
		:: atomic { ph == LOADING -> skip }; atomic { asleep[me] = true; nasleep++ }
#else
		:: atomic { ver == s -> asleep[me] = true; nasleep++ }
#endif
			if
			:: !asleep[me]
			:: atomic { asleep[me] && me == 0 -> asleep[me] = false; nasleep-- } /* for no reason */
			fi;
		:: atomic { ver != s -> skip }
		fi;
		slept = true;
again:
		s = 0
	od;
	assert(outcome);
	assert(!freed);
	assert(ph == READY || !unit);
#if MUTANT != 3
	if
	:: slept -> wake_one()
	:: else
	fi;
#endif
	pins--;
gone:
	skip
}

init {
	byte i;

	atomic {
		run Leader();
		run Role();
		i = 0;
		do
		:: i < FOLLOWERS -> run Follower(i); i++
		:: else -> break
		od
	};
	/* the place may be freed when no slot holds it */
	atomic { pins == 0 -> freed = true };
	(_nr_pr == 1);
	assert(nasleep == 0 && (ph == READY || !unit))
}
