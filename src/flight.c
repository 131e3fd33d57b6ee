/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * flight.c - leading and following a load.  The essay is in flight.h.
 */
#include "flight.h"

enum outcome_kind flight_follow(struct entry *e, int *error)
{
	bool slept = false;

	for (;;) {
		uint64_t s = entry_look(e);
		uintptr_t outcome;

		switch (word_phase(s)) {
		case LOADING:
			if (entry_await(e, &s)) {
				park_wait(entry_futex(e), entry_futex_value(s), NULL);
				slept = true;
			}
			continue;
		case FAILED:
			outcome = load_relaxed(&e->value); /* ordered by the look */
			if (slept && !FAULT(FAULT_BATON_DROPPED))
				park_wake(entry_futex(e), 1);
			*error = (int)(uint32_t)outcome;
			return (enum outcome_kind)(outcome >> 48);
		default:
			/* READY, or nominated meanwhile: our pin was there first. */
			CHECK(word_phase(s) == READY || word_phase(s) == NOMINATED);
			if (slept && !FAULT(FAULT_BATON_DROPPED))
				park_wake(entry_futex(e), 1);
			return OUTCOME_VALUE;
		}
	}
}

uint64_t flight_publish(struct entry *e, void *value)
{
	uint64_t flags;

	store_relaxed(&e->value, (uintptr_t)value); /* released by the change of the word */
	flags = entry_publish(e);
	if ((flags & WAITERS) != 0 && !FAULT(FAULT_WAKE_LOST))
		park_wake(entry_futex(e), 1);
	return flags;
}

uint64_t flight_spend(struct entry *e, enum outcome_kind kind, int error)
{
	store_relaxed(&e->value, (uintptr_t)kind << 48 | (uint32_t)error); /* released by the change of the word */
	return entry_spend(e);
}

void flight_fail(struct entry *e)
{
	if ((entry_fail(e) & WAITERS) != 0 && !FAULT(FAULT_WAKE_LOST))
		park_wake(entry_futex(e), 1);
}
