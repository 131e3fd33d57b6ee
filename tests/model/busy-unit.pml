/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * busy-unit.pml - the verdict "busy", in the form that is promised (P7):
 *
 *   a request is refused only when each unit of capacity was, at some instant of the
 *   request, pinned, being pinned, loading (or refused by the predicate), and at some
 *   instant no unit was on its way.  So it is never refused while one and the same
 *   entry stays idle throughout.
 *
 * What is modelled, and where it is in src/:
 *   process A   hits: pin, look, rescue; release     larder.c hit() find(), reclaim.h
 *                                                    reclaim_release(), reclaim.c reclaim_unpinned(),
 *                                                    entry.c entry_rescue() entry_leave() entry_unwant()
 *   process T   takes a unit, free or by eviction,   reclaim.c reclaim_evict() refill() kill_nominee(),
 *               loads; the load is published, or     larder.c lead() run_loader() end_without(),
 *               it has no value, or it loses the     entry.c entry_ask() entry_take() entry_spend()
 *               insertion to another
 *   process B   two requests, the second of which    reclaim.c judge() pass() visit_nominee(),
 *               may use the verdict of the first     entry.c entry_nominate() entry_want() entry_held()
 *
 * The role is a lock (role).  The membarrier is one step: as a model of sequentially
 * consistent memory this is enough (pin.pml has it between a store and a load).  There
 * is no count of units on their way: what the pass has found must add up to the
 * capacity.  A pass is repeated LOOKS times, then the missing units are reported as in
 * transit; that is no refusal in the sense of the assertion.
 *
 * Ghost: just[p], the entry in place p has not been idle throughout the present request
 * of B; calm, at some instant of it no unit was on its way.
 *
 * Not modelled: the predicate, trimming, failing allocations, more than two slots of A.
 *
 * MUTANT  1 what was found need not add up         2 a slot counts whatever the word says
 *         3 WANTED is not set on loading ones      4 slots are searched before the nomination
 *         5 releasing a WANTED entry does not set `changed`
 *         6 a place that loses the insertion does not look at WANTED
 *         7 the slot of a taker, who holds a ticket and looks whether it is good, counts
 *           as a pin like any other
 *         8 publication drops WANTED and tells nobody
 *         9 a release sets `changed` only after it has taken the flag WANTED away
 */
#ifndef MUTANT
#define MUTANT 0
#endif
#ifndef OPS
#define OPS 3
#endif
#ifndef LOADS
#define LOADS 1
#endif
#define CAP 2
#define PLACES 3
#define NONE 7
#define LOOKS 2

mtype = { FREE, LOADING, READY, NOM, PROVEN, DEAD };

mtype ph[PLACES];
byte ticket = NONE;           /* the entry whose exact word T holds: any change makes it void */
byte seen[2];                 /* the entry whose exact word A, T has seen; likewise */
bool wanted[PLACES], left[PLACES], spent[PLACES];
byte slot[3];                 /* 0, 1: A's; 2: T's */
bool kept[3];                 /* the look has confirmed the pin */
bool taker;                   /* T's slot is that of one who asks */
byte free_;
byte transit;                 /* ghost: units that neither `free_` nor an entry has */
bool changed, valid, role;
byte v_pinned, v_loading;

/* ghosts */
bool incall, calm, just[PLACES];
byte leaving[3];              /* slot given back, release still running */
bool ending;                  /* T has spent a load that is WANTED and has not told yet */
byte busy;

#if MUTANT == 1
#define ADDS_UP true
#else
#define ADDS_UP (pinned + loading == CAP)
#endif

/* A pin lasts until its release returns, a load until its end has been told. */
#if MUTANT == 3
#define COUNTED(p) !spent[p]
#else
#define COUNTED(p) (wanted[p] && !spent[p])
#endif

#if MUTANT == 7
#define COUNTS(i) true
#else
#define COUNTS(i) !(i == 2 && taker)
#endif

#define HELD(p) (slot[0] == p || slot[1] == p || (slot[2] == p && !taker) || \
		 leaving[0] == p || leaving[1] == p || leaving[2] == p)
#define GHOST_1(p) if :: HELD(p) || (ph[p] == LOADING && (!spent[p] || ending)) -> just[p] = true :: else fi
#define GHOST                                                        \
	if                                                           \
	:: incall -> GHOST_1(0); GHOST_1(1); GHOST_1(2);             \
		if :: transit == 0 -> calm = true :: else fi         \
	:: else                                                      \
	fi

/* The word of e changes: what others know about it is out of date. */
#define CHANGE(e)                                    \
	if :: ticket == e -> ticket = NONE :: else fi; \
	if :: seen[0] == e -> seen[0] = NONE :: else fi; \
	if :: seen[1] == e -> seen[1] = NONE :: else fi
#define TO(e, p) ph[e] = p; wanted[e] = false; left[e] = false; CHANGE(e)

/*
 * reclaim_unpinned(): the pin on e has just ended.  `changed` is set before the flag
 * goes, else another release could find no flag, and a verdict still good, between the
 * two; and after it, for the role that has cleared it meanwhile and seen the flag.
 */
inline unpinned(me, e, done) {
	done = false;
	do
	:: atomic {
		ph[e] == NOM || (ph[e] == READY && wanted[e]) -> seen[me] = e
#if MUTANT != 9 && MUTANT != 5
		; changed = true
#endif
		};
		atomic {
			if
			:: seen[me] == e ->
				if
				:: ph[e] == NOM -> left[e] = true
				:: ph[e] == READY -> wanted[e] = false
				:: else
				fi;
				seen[me] = NONE; CHANGE(e); done = true
			:: else
			fi
		};
		if
		:: atomic { done -> done = false;
#if MUTANT != 5
			changed = true;
#endif
			break }
		:: atomic { !done -> skip }
		fi
	:: atomic { !(ph[e] == NOM || (ph[e] == READY && wanted[e])) -> seen[me] = NONE; break }
	od
}

/* entry_spend(): the load has no value; who counts on it is told */
inline spend(e) {
	atomic {
		spent[e] = true; w = wanted[e]; ending = w;
		if
		:: w
		:: else -> transit++
		fi;
		GHOST
	};
	if
	:: w -> atomic { changed = true; ending = false; transit++; w = false; GHOST }
	:: else
	fi
}

/* Nobody whose pin was confirmed may lose his value. */
#define TAKE_SAFELY(e) assert(!(kept[0] && slot[0] == e) && !(kept[1] && slot[1] == e)); TO(e, DEAD)

proctype A()
{
	byte n = 0, e, i;
	bool tell;

	do
	:: n < OPS ->
		atomic {
			n++;
			if :: i = 0 :: i = 1 fi;
			if
			:: slot[i] != NONE ->
				e = slot[i]; slot[i] = NONE; kept[i] = false; leaving[i] = e; GHOST
			:: slot[i] == NONE ->
				if :: e = 0 :: e = 1 :: e = 2 fi;
				slot[i] = e; GHOST
			fi
		};
		if
		:: atomic { slot[i] == NONE -> skip }
		:: atomic { slot[i] != NONE ->
			if
			:: ph[e] == READY -> kept[i] = true
			:: ph[e] == NOM || ph[e] == PROVEN -> TO(e, READY); kept[i] = true
			:: else
			fi };
			if
			:: atomic { !kept[i] -> slot[i] = NONE; leaving[i] = e; GHOST }
			:: atomic { kept[i] -> skip }
			fi
		fi;
		if
		:: slot[i] == NONE -> unpinned(0, e, tell); atomic { leaving[i] = NONE; GHOST }
		:: else
		fi;
		atomic { e = 0; i = 0 }
	:: else -> break
	od
}

proctype T()
{
	byte n = 0, e;
	bool tell, mine, w;

	do
	:: n < LOADS ->
		n++;
		/* a unit */
		if
		:: atomic { free_ > 0 -> free_--; transit++; mine = true; GHOST }
		:: atomic {
			free_ == 0 && !role -> role = true;
			/* settle() forgets a verdict that is out of date; with a good one nobody nominates */
			if
			:: changed -> changed = false; valid = false
			:: else
			fi;
			if :: e = 0 :: e = 1 fi;
			if
			:: !valid && ph[e] == READY && !wanted[e] -> TO(e, NOM)
			:: else -> role = false; e = NONE
			fi };
			if
			:: e != NONE ->
				atomic {
					if
					:: ph[e] == NOM && (slot[0] == e || slot[1] == e) ->
						w = left[e]; TO(e, READY); wanted[e] = !w; w = false
					:: ph[e] == NOM && slot[0] != e && slot[1] != e -> TO(e, PROVEN); ticket = e
					:: else
					fi;
					role = false
				}
			:: else
			fi;
			/* kill_nominee() */
			if
			:: ticket != NONE ->
				atomic { taker = true; slot[2] = e };
				if
				:: atomic { ticket != NONE -> skip };
					atomic {
						if
						:: ticket != NONE -> TAKE_SAFELY(e); transit++; mine = true; GHOST
						:: else
						fi
					}
				:: atomic { ticket == NONE -> skip }
				fi;
				atomic { slot[2] = NONE; taker = false };
				unpinned(1, e, tell);
				if
				:: mine -> TO(e, FREE)
				:: else
				fi
			:: else
			fi
		fi;
		if
		:: mine ->
			/* a place, LOADING, pinned */
			atomic {
				mine = false;
				if
				:: ph[0] == FREE -> e = 0
				:: ph[0] != FREE && ph[1] == FREE -> e = 1
				:: ph[0] != FREE && ph[1] != FREE && ph[2] == FREE -> e = 2
				fi;
				TO(e, LOADING); spent[e] = false; transit--; slot[2] = e; GHOST
			};
			if
			:: /* published */
#if MUTANT != 8
				atomic { w = wanted[e]; TO(e, READY); wanted[e] = w; kept[2] = true; GHOST };
				if
				:: w -> atomic { changed = true; w = false }
				:: else
				fi;
#else
				atomic { TO(e, READY); kept[2] = true; GHOST };
#endif
				atomic { slot[2] = NONE; kept[2] = false; leaving[2] = e; GHOST };
				unpinned(1, e, tell);
				atomic { leaving[2] = NONE; GHOST }
			:: /* no value */
				spend(e);
				atomic { free_++; transit--; GHOST };
				ph[e] = DEAD;
				atomic { slot[2] = NONE; TO(e, FREE); GHOST }
			:: /* the insertion is lost */
#if MUTANT != 6
				spend(e);
				atomic { slot[2] = NONE; TO(e, FREE); GHOST };
#else
				atomic { slot[2] = NONE; TO(e, FREE); transit++; GHOST };
#endif
				atomic { free_++; transit--; GHOST }
			fi
		:: else
		fi;
		atomic { e = 0; w = false; mine = false; ticket = NONE }
	:: else -> break
	od
}

/* visit_nominee() for what slot i holds */
inline search_slot(i) {
	atomic {
		e = slot[i];
		if
		:: e != NONE && ph[e] == NOM ->
			w = left[e]; TO(e, READY); wanted[e] = !w;
			if
			:: COUNTS(i) -> pinned++
			:: else
			fi
#if MUTANT == 2
		:: e != NONE && ph[e] == READY -> pinned++
#endif
		:: else
		fi;
		e = NONE; w = false
	}
}

inline nominate(p) {
	atomic {
		if
		:: ph[p] == READY || ph[p] == PROVEN -> TO(p, NOM)
#if MUTANT != 3
		:: ph[p] == LOADING && !spent[p] -> wanted[p] = true
#endif
		:: else
		fi
	}
}

/* the second look: NOM is unheld, and taken */
inline look(p) {
	atomic {
		if
		:: got
		:: !got && ph[p] == NOM -> TAKE_SAFELY(p); TO(p, FREE); transit++; got = true
		:: !got && ph[p] == LOADING && COUNTED(p) -> loading++
		:: else
		fi
	}
}

proctype B()
{
	byte call = 0, looks, e = NONE, pinned, loading;
	bool got, w;
#if MUTANT == 4
	byte p, old[3];
#endif

	do
	:: call < 2 ->
		call++;
		atomic {
			incall = true; calm = false; just[0] = false; just[1] = false; just[2] = false;
			looks = 0; got = false; GHOST
		};
again:
		if
		:: atomic { free_ > 0 -> goto end }
		:: atomic { free_ == 0 }
		fi;
		atomic {
			!role -> role = true;
			if
			:: changed -> valid = false
			:: else
			fi
		};
		if
		:: !valid ->
			atomic { changed = false; pinned = 0; loading = 0 };
#if MUTANT == 4
			atomic { old[0] = slot[0]; old[1] = slot[1]; old[2] = slot[2] };
			nominate(0); nominate(1); nominate(2);
			atomic {
				p = 0;
				do
				:: p < 3 ->
					e = old[p];
					if
					:: e != NONE && ph[e] == NOM -> TO(e, READY); wanted[e] = true; pinned++
					:: else
					fi;
					p++
				:: else -> break
				od;
				p = 0; e = NONE; old[0] = 0; old[1] = 0; old[2] = 0
			};
#else
			nominate(0); nominate(1); nominate(2);
			/* here is the barrier, instant m */
			search_slot(0); search_slot(1); search_slot(2);
#endif
			look(0); look(1); look(2);
			if
			:: got -> atomic { role = false; free_++; transit--; GHOST; goto end }
			:: else -> atomic { valid = true; v_pinned = pinned; v_loading = loading }
			fi
		:: else
		fi;
		atomic { pinned = v_pinned; loading = v_loading; role = false };
		if
		:: atomic { !changed && free_ == 0 && ADDS_UP -> busy++ };
			/* refused: is it true? */
			assert(calm);
			assert(!(ph[0] == READY || ph[0] == NOM || ph[0] == PROVEN) || just[0]);
			assert(!(ph[1] == READY || ph[1] == NOM || ph[1] == PROVEN) || just[1]);
			assert(!(ph[2] == READY || ph[2] == NOM || ph[2] == PROVEN) || just[2])
		:: else ->
			atomic { !role -> valid = false; looks++ };
			if
			:: looks < LOOKS -> goto again
			:: else
			fi
		fi;
end:
		atomic { incall = false; got = false; calm = false; just[0] = false; just[1] = false; just[2] = false }
	:: else -> break
	od
}

init {
	byte i;

	atomic {
		slot[0] = NONE; slot[1] = NONE; slot[2] = NONE;
		leaving[0] = NONE; leaving[1] = NONE; leaving[2] = NONE;
		seen[0] = NONE; seen[1] = NONE;
		ph[0] = READY; ph[2] = FREE;
		if
		:: ph[1] = READY; free_ = 0
		:: ph[1] = FREE; free_ = 1
		fi;
		if
		:: slot[0] = 0; kept[0] = true
		:: skip
		fi;
		run A(); run T(); run B()
	}
}
