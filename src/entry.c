/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * entry.c - every change of an entry's word.  The essay is in entry.h.
 */
#include "entry.h"

_Static_assert(sizeof(_Atomic(uint64_t)) == 8, "the word has no lock beside it");

/* The word s with phase ph, the flags in keep and the askers kept, and the next version. */
static uint64_t to(uint64_t s, enum phase ph, uint64_t keep)
{
	return (s & ASKERS_MASK) | ((s + VERSION_ONE) & VERSION_MASK) | (s & keep & FLAGS_MASK) | (uint64_t)ph;
}

void entry_begin(struct entry *e)
{
	uint64_t s = load_relaxed(&e->word);

	CHECK(word_phase(s) == FREE);
	store_relaxed(&e->word, to(s, LOADING, 0) | IN_HAND); /* private; insertion releases it */
}

void entry_inserted(struct entry *e)
{
	uint64_t was = and_acq_rel(&e->word, ~IN_HAND);

	CHECK(word_phase(was) == LOADING && (was & IN_HAND) != 0);
	(void)was;
}

uint64_t entry_publish(struct entry *e)
{
	uint64_t s = load_relaxed(&e->word);

	/* A loop: followers and the role set flags beside us. */
	for (;;) {
		CHECK(word_phase(s) == LOADING);
		if (FAULT(FAULT_PUBLISH_RELAXED) ? cas_relaxed(&e->word, &s, to(s, READY, WANTED))
						 : cas_acq_rel(&e->word, &s, to(s, READY, WANTED)))
			return s & FLAGS_MASK;
	}
}

uint64_t entry_fail(struct entry *e)
{
	uint64_t s = load_relaxed(&e->word);

	for (;;) {
		CHECK(word_phase(s) == LOADING);
		if (cas_acq_rel(&e->word, &s, to(s, FAILED, 0)))
			return s & FLAGS_MASK;
	}
}

bool entry_await(struct entry *e, uint64_t *seen)
{
	CHECK(word_phase(*seen) == LOADING);
	if ((*seen & WAITERS) != 0)
		return true;
	if (!cas_relaxed(&e->word, seen, *seen | WAITERS))
		return false; /* the caller looks again, with acquire */
	*seen |= WAITERS;
	return true;
}

bool entry_rescue(struct entry *e, uint64_t *seen)
{
	uint64_t ready = to(*seen, READY, 0);

	CHECK(word_phase(*seen) == NOMINATED || word_phase(*seen) == PROVEN);
	if (!cas_acq_rel(&e->word, seen, ready))
		return false;
	*seen = ready;
	return true;
}

bool entry_unwant(struct entry *e, uint64_t *seen)
{
	CHECK(word_phase(*seen) == READY && (*seen & WANTED) != 0);
	return cas_acq_rel(&e->word, seen, *seen & ~WANTED);
}

bool entry_leave(struct entry *e, uint64_t *seen)
{
	CHECK(word_phase(*seen) == NOMINATED);
	return (*seen & LEFT) != 0 || cas_acq_rel(&e->word, seen, *seen | LEFT);
}

/* from (with none of the flags in without) -> ph, keeping no flag and setting set. */
static bool change(struct entry *e, enum phase from, uint64_t without, enum phase ph, uint64_t set, uint64_t *result)
{
	uint64_t s = load_acquire(&e->word);

	while (word_phase(s) == from && (s & without) == 0) {
		uint64_t new = to(s, ph, 0) | set;

		if (cas_seq_cst(&e->word, &s, new)) {
			if (result != NULL)
				*result = new & ~ASKERS_MASK;
			return true;
		}
	}
	return false;
}

bool entry_nominate(struct entry *e)
{
	return change(e, READY, 0, NOMINATED, 0, NULL);
}

bool entry_renominate(struct entry *e)
{
	return change(e, PROVEN, REFUSED | ASKERS_MASK, NOMINATED, 0, NULL);
}

bool entry_unnominate(struct entry *e)
{
	return change(e, NOMINATED, 0, READY, 0, NULL);
}

bool entry_held(struct entry *e)
{
	return change(e, NOMINATED, LEFT, READY, WANTED, NULL) || change(e, NOMINATED, 0, READY, 0, NULL);
}

bool entry_prove(struct entry *e, uint64_t *proven)
{
	return change(e, NOMINATED, 0, PROVEN, 0, proven);
}

uint64_t entry_spend(struct entry *e)
{
	uint64_t s = load_relaxed(&e->word);

	for (;;) {
		CHECK(word_phase(s) == LOADING && (s & IN_HAND) == 0);
		if (cas_acq_rel(&e->word, &s, s | IN_HAND))
			return s & FLAGS_MASK;
	}
}

bool entry_want(struct entry *e)
{
	uint64_t s = load_acquire(&e->word);

	while (word_phase(s) == LOADING && (s & IN_HAND) == 0) {
		if ((s & WANTED) != 0 || cas_acq_rel(&e->word, &s, s | WANTED))
			return true;
	}
	return false;
}

/* PROVEN with the exact word ticket -> (ticket + what changes), whoever asks meanwhile. */
static bool change_exact(struct entry *e, uint64_t ticket, uint64_t new)
{
	uint64_t s = load_acquire(&e->word);

	CHECK(word_phase(ticket) == PROVEN);
	while ((s & ~ASKERS_MASK) == ticket)
		if (cas_acq_rel(&e->word, &s, new + (s & ASKERS_MASK)))
			return true;
	return false;
}

bool entry_refuse(struct entry *e, uint64_t *ticket)
{
	if (!change_exact(e, *ticket, *ticket | REFUSED))
		return false;
	*ticket |= REFUSED;
	return true;
}

bool entry_spare(struct entry *e, uint64_t ticket)
{
	return change_exact(e, ticket, to(ticket, READY, 0));
}

bool entry_ask(struct entry *e, uint64_t ticket)
{
	return change_exact(e, ticket, ticket + ASKER_ONE);
}

void entry_unask(struct entry *e)
{
	uint64_t was = sub_acq_rel(&e->word, ASKER_ONE);

	CHECK((was & ASKERS_MASK) != 0);
	(void)was;
}

bool entry_take(struct entry *e, uint64_t ticket)
{
	uint64_t s = ticket + ASKER_ONE;

	if (FAULT(FAULT_TICKET_UNCHECKED)) {
		s = load_acquire(&e->word);
		return (word_phase(s) == PROVEN || word_phase(s) == NOMINATED || word_phase(s) == READY) &&
		       cas_acq_rel(&e->word, &s, to(s & ~ASKERS_MASK, DEAD, 0));
	}
	CHECK(word_phase(ticket) == PROVEN);
	return cas_acq_rel(&e->word, &s, to(ticket, DEAD, 0));
}

bool entry_close(struct entry *e)
{
	return change(e, READY, 0, DEAD, 0, NULL) || change(e, NOMINATED, 0, DEAD, 0, NULL) ||
	       change(e, PROVEN, 0, DEAD, 0, NULL);
}

void entry_free(struct entry *e)
{
	uint64_t s = load_relaxed(&e->word);

	CHECK(word_phase(s) == FAILED || word_phase(s) == DEAD || word_phase(s) == LOADING);
	/* A compare-and-swap is not needed: nothing changes a FAILED or DEAD word. */
	store_release(&e->word, to(s, FREE, 0));
}
