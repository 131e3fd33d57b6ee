/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pin.pml - a pin against nominate, barrier, search, prove, take; rescue; tickets.
 *
 * One entry.  Its value may be destroyed only by one who took it while nobody had
 * pinned it and found it READY.
 *
 * What is modelled, and where it is in src/:
 *   process R (two)   pin, look, rescue; use; release      pin.h pin_set() pin_leave(), larder.c hit() find(),
 *                                                          entry.c entry_rescue()
 *   process N         nominate, barrier, search, prove,    entry.c entry_nominate() entry_held() entry_prove(),
 *                     twice; pushes tickets                reclaim.c refill() barrier_and_search() prove()
 *   process K         takes a ticket, kills                reclaim.c take(), entry.c entry_take()
 *
 * The store to a slot waits in a store buffer (slot is what others see; buffered is
 * what is on its way), because the pin has no fence between it and the look: that is
 * the point of the barrier.  The buffer drains at any moment, at a compare-and-swap of
 * its thread, and when N's membarrier hits its processor.  One buffered store is
 * enough: a thread's next store to its slot comes after a drain here, which a longer
 * buffer would not change, since a slot goes empty, entry, empty.
 *
 * MUTANT  1 no look at the word after the pin      2 no barrier
 *         3 slots searched before the barrier      4 a ticket is good for a nominee that is not
 *         5 a ticket is honoured whatever the word is   PROVEN again, after rescue and nomination
 *         6 proven without a search                7 rescue by a store, not by a compare-and-swap
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#define READERS 2
#define ROUNDS 2
#define USES 2

mtype = { READY, NOM, PROVEN, DEAD };

mtype ph = READY;
byte ver = 0;
bool slot[READERS];
bool waiting[READERS], buffered[READERS]; /* a store of `buffered` is on its way */
bool using[READERS], destroyed;           /* ghosts: what users do with the value, and its end */
byte ticket[ROUNDS];                      /* version of the PROVEN word, 0: none */

#define TO(p) ph = p; ver++
#define DRAIN(i) if :: waiting[i] -> slot[i] = buffered[i]; waiting[i] = false :: else fi

/* Store buffers drain by themselves. */
proctype Buffers()
{
end:
	do
	:: atomic { waiting[0] -> DRAIN(0) }
	:: atomic { waiting[1] -> DRAIN(1) }
	od
}

proctype R(byte i)
{
	byte n = 0, s;
	mtype p;

	do
	:: n < USES ->
		n++;
		atomic { !waiting[i] -> buffered[i] = true; waiting[i] = true };
look:
		atomic { p = ph; s = ver };
		if
#if MUTANT == 1
		:: p != DEAD -> using[i] = true
#else
		:: p == READY -> using[i] = true
		:: p == NOM || p == PROVEN ->
			/* a compare-and-swap also drains the buffer */
			atomic {
				DRAIN(i);
				if
#if MUTANT == 7
				:: true -> TO(READY); using[i] = true
#else
				:: ph == p && ver == s -> TO(READY); using[i] = true
				:: else
#endif
				fi
			};
			if
			:: !using[i] -> goto look
			:: else
			fi
#endif
		:: p == DEAD
		fi;
		if
		:: using[i] ->
			/* the user's accesses to the value */
			assert(!destroyed);
			assert(!destroyed);
			using[i] = false
		:: else
		fi;
		atomic { !waiting[i] -> buffered[i] = false; waiting[i] = true };
		p = 0; s = 0
	:: else -> break
	od
}

proctype N()
{
	byte round = 0, s, i;
	bool held;

	do
	:: round < ROUNDS ->
		atomic {
			if
			:: ph == READY -> TO(NOM); s = ver
			:: else -> s = 0
			fi
		};
		if
		:: s != 0 ->
			held = false;
#if MUTANT == 3
			held = slot[0];
			held = held || slot[1];
#endif
#if MUTANT != 2
			/* one processor after the other */
			atomic { DRAIN(0) };
			atomic { DRAIN(1) };
#endif
#if MUTANT != 3 && MUTANT != 6
			held = slot[0];
			held = held || slot[1];
#endif
			atomic {
				if
				:: ph == NOM && ver == s && held -> TO(READY)
				:: ph == NOM && ver == s && !held -> TO(PROVEN); ticket[round] = ver
				:: else
				fi
			}
		:: else
		fi;
		round++
	:: else -> break
	od
}

proctype K()
{
	byte round = 0, t;

	do
	:: round < ROUNDS ->
		if
		:: ticket[round] != 0 ->
			t = ticket[round];
			atomic {
				if
#if MUTANT == 4
				:: ph == PROVEN || ph == NOM
#elif MUTANT == 5
				:: ph != DEAD
#else
				:: ph == PROVEN && ver == t
#endif
				   -> assert(!using[0] && !using[1]); TO(DEAD); destroyed = true
				:: else
				fi
			}
		:: true /* nobody needs room */
		fi;
		round++
	:: else -> break
	od
}

init {
	atomic { run Buffers(); run R(0); run R(1); run N(); run K() }
}
