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
 *         7 who holds a ticket and asks counts as a pin
 *         8 the end of a WANTED load does not set `changed`
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
byte ver[PLACES];             /* counts changes of the phase */
bool wanted[PLACES], left[PLACES], spent[PLACES], asked[PLACES];
byte slot[3];                 /* 0, 1: A's; 2: T's */
bool kept[3];                 /* the look has confirmed the pin */
bool taker;                   /* T's slot is that of one who asks */
byte free_;
byte transit;                 /* ghost: units that neither `free_` nor an entry has */
bool changed, valid, role;
byte v_pinned, v_loading;

/* ghosts */
bool incall, calm, just[PLACES];
byte busy;

#if MUTANT == 1
#define ADDS_UP true
#else
#define ADDS_UP (pinned + loading == CAP)
#endif

#define HELD(p) (slot[0] == p || slot[1] == p || (slot[2] == p && !taker))
#define GHOST_1(p) if :: HELD(p) || (ph[p] == LOADING && !spent[p]) -> just[p] = true :: else fi
#define GHOST                                                        \
	if                                                           \
	:: incall -> GHOST_1(0); GHOST_1(1); GHOST_1(2);             \
		if :: transit == 0 -> calm = true :: else fi         \
	:: else                                                      \
	fi

/* reclaim_unpinned(): the pin on e has just ended */
inline unpinned(e, tell) {
	tell = false;
	atomic {
		if
		:: ph[e] == NOM && !left[e] -> left[e] = true; tell = true
		:: ph[e] == NOM && left[e] -> tell = true
		:: ph[e] == READY && wanted[e] ->
			wanted[e] = false;
#if MUTANT != 5
			tell = true
#endif
		:: else
		fi
	};
	if
	:: tell -> atomic { changed = true; tell = false }
	:: else
	fi
}

/* change of phase */
#define TO(e, p) ph[e] = p; ver[e] = (ver[e] + 1) % 16; wanted[e] = false; left[e] = false

/* Nobody whose pin was confirmed may lose his value. */
#define TAKE_SAFELY(e) assert(!(kept[0] && slot[0] == e) && !(kept[1] && slot[1] == e)); TO(e, DEAD)

proctype A()
{
	byte n = 0, e, i;
	bool tell;

	do
	:: n < OPS ->
		n++;
		if :: i = 0 :: i = 1 fi;
		if
		:: slot[i] != NONE ->
			e = slot[i];
			atomic { slot[i] = NONE; kept[i] = false; GHOST };
			unpinned(e, tell)
		:: slot[i] == NONE ->
			if :: e = 0 :: e = 1 :: e = 2 fi;
			atomic { slot[i] = e; GHOST };
			atomic {
				if
				:: ph[e] == READY -> kept[i] = true
				:: ph[e] == NOM || ph[e] == PROVEN -> TO(e, READY); kept[i] = true
				:: else
				fi
			};
			if
			:: !kept[i] -> atomic { slot[i] = NONE; GHOST }; unpinned(e, tell)
			:: else
			fi
		fi
	:: else -> break
	od
}

proctype T()
{
	byte n = 0, e, t;
	bool tell, mine, w;

	do
	:: n < LOADS ->
		n++;
		/* a unit */
		mine = false;
		if
		:: atomic { free_ > 0 -> free_--; transit++; mine = true; GHOST }
		:: atomic { free_ == 0 && !role -> role = true };
			if :: e = 0 :: e = 1 fi;
			t = NONE;
			atomic {
				if
				:: ph[e] == READY && !wanted[e] -> TO(e, NOM); t = ver[e]
				:: else
				fi
			};
			if
			:: t != NONE ->
				atomic {
					if
					:: ph[e] == NOM && (slot[0] == e || slot[1] == e) ->
						w = left[e]; TO(e, READY); wanted[e] = !w; t = NONE
					:: ph[e] == NOM && slot[0] != e && slot[1] != e -> TO(e, PROVEN); t = ver[e]
					:: else -> t = NONE
					fi
				}
			:: else
			fi;
			role = false;
			if
			:: t != NONE ->
				/* kill_nominee() */
				atomic { taker = true; slot[2] = e };
				atomic {
					if
					:: ph[e] == PROVEN && ver[e] == t -> asked[e] = true
					:: else -> t = NONE
					fi
				};
				if
				:: t != NONE ->
					atomic {
						if
						:: ph[e] == PROVEN && ver[e] == t ->
							TAKE_SAFELY(e); transit++; mine = true; GHOST
						:: else
						fi;
						asked[e] = false
					}
				:: else
				fi;
				atomic { slot[2] = NONE; taker = false };
				unpinned(e, tell);
				if
				:: mine -> ph[e] = FREE
				:: else
				fi
			:: else
			fi
		fi;
		if
		:: mine ->
			/* a place, LOADING, pinned */
			atomic {
				if
				:: ph[0] == FREE -> e = 0
				:: ph[1] == FREE -> e = 1
				:: ph[2] == FREE -> e = 2
				fi;
				TO(e, LOADING); spent[e] = false; transit--; slot[2] = e; GHOST
			};
			if
			:: /* published */
				atomic { w = wanted[e]; TO(e, READY); wanted[e] = w; kept[2] = true; GHOST };
				if
#if MUTANT != 8
				:: w -> changed = true
#endif
				:: else
				fi;
				atomic { slot[2] = NONE; kept[2] = false; GHOST };
				unpinned(e, tell)
			:: /* no value */
				atomic { spent[e] = true; transit++; w = wanted[e]; GHOST };
				if
				:: w -> changed = true
				:: else
				fi;
				atomic { free_++; transit--; GHOST };
				ph[e] = DEAD;
				atomic { slot[2] = NONE; GHOST };
				atomic { TO(e, FREE) }
			:: /* the insertion is lost */
#if MUTANT != 6
				atomic { spent[e] = true; transit++; w = wanted[e]; GHOST };
				if
				:: w -> changed = true
				:: else
				fi;
				atomic { slot[2] = NONE; GHOST };
				atomic { TO(e, FREE) };
#else
				atomic { slot[2] = NONE; GHOST };
				atomic { TO(e, FREE); transit++; GHOST };
#endif
				atomic { free_++; transit--; GHOST }
			fi
		:: else
		fi
	:: else -> break
	od
}

inline search_one(p, i) {
	atomic {
		if
#if MUTANT == 2
		:: slot[i] == p && ph[p] == NOM -> w = left[p]; TO(p, READY); wanted[p] = !w; pinned++
		:: slot[i] == p && ph[p] == READY -> pinned++
#elif MUTANT == 7
		:: slot[i] == p && ph[p] == NOM -> w = left[p]; TO(p, READY); wanted[p] = !w; pinned++
#else
		:: slot[i] == p && ph[p] == NOM ->
			w = left[p]; TO(p, READY); wanted[p] = !w;
			if
			:: asked[p]
			:: else -> pinned++
			fi
#endif
		:: else
		fi
	}
}

inline nominate_all() {
	p = 0;
	do
	:: p < PLACES ->
		atomic {
			if
			:: ph[p] == READY || ph[p] == PROVEN -> TO(p, NOM)
#if MUTANT != 3
			:: ph[p] == LOADING && !spent[p] -> wanted[p] = true
#endif
			:: else
			fi
		};
		p++
	:: else -> break
	od
}

proctype B()
{
	byte call = 0, looks, p, i, pinned, loading, seen[3];
	bool got, w;

	do
	:: call < 2 ->
		call++;
		atomic {
			incall = true; calm = false; just[0] = false; just[1] = false; just[2] = false;
			GHOST
		};
		looks = 0; got = false;
again:
		if
		:: atomic { free_ > 0 -> got = true; goto end }
		:: atomic { free_ == 0 }
		fi;
		atomic { !role -> role = true };
		if
		:: changed -> valid = false
		:: else
		fi;
		if
		:: !valid ->
			changed = false; pinned = 0; loading = 0;
#if MUTANT == 4
			seen[0] = slot[0]; seen[1] = slot[1]; seen[2] = slot[2];
			nominate_all();
			p = 0;
			do
			:: p < PLACES ->
				atomic {
					if
					:: ph[p] == NOM && (seen[0] == p || seen[1] == p || seen[2] == p) ->
						w = left[p]; TO(p, READY); wanted[p] = !w; pinned++
					:: else
					fi
				};
				p++
			:: else -> break
			od;
#else
			nominate_all();
			/* here is the barrier, instant m */
			i = 0;
			do
			:: i < 3 ->
				search_one(0, i); search_one(1, i); search_one(2, i);
				i++
			:: else -> break
			od;
#endif
			p = 0;
			do
			:: p < PLACES ->
				atomic {
					if
					:: ph[p] == NOM -> TAKE_SAFELY(p); transit++; got = true
#if MUTANT == 3
					:: ph[p] == LOADING && !spent[p] -> loading++
#else
					:: ph[p] == LOADING && wanted[p] && !spent[p] -> loading++
#endif
					:: else
					fi
				};
				if
				:: got -> ph[p] = FREE; break
				:: else -> p++
				fi
			:: else -> break
			od;
			if
			:: got -> role = false; atomic { free_++; transit-- }; goto end
			:: else -> atomic { valid = true; v_pinned = pinned; v_loading = loading }
			fi
		:: else
		fi;
		atomic { pinned = v_pinned; loading = v_loading };
		role = false;
		if
		:: atomic { !changed && free_ == 0 && ADDS_UP -> busy++ };
			/* refused: is it true? */
			assert(calm);
			assert(!(ph[0] == READY || ph[0] == NOM || ph[0] == PROVEN) || just[0]);
			assert(!(ph[1] == READY || ph[1] == NOM || ph[1] == PROVEN) || just[1]);
			assert(!(ph[2] == READY || ph[2] == NOM || ph[2] == PROVEN) || just[2])
		:: else ->
			atomic { !role -> role = true };
			valid = false;
			role = false;
			looks++;
			if
			:: looks < LOOKS -> goto again
			:: else
			fi
		fi;
end:
		incall = false
	:: else -> break
	od
}

init {
	byte i;

	atomic {
		slot[0] = NONE; slot[1] = NONE; slot[2] = NONE;
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
