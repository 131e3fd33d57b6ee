/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * entry-t.c - the state machine of src/entry.h with one struct on the stack: each
 * transition is made where it is allowed and refused everywhere else, and each change
 * of the phase makes an old word stale.
 */
#include "../../src/entry.h"

#include "../lib/tap.h"

enum step { NOMINATE, RENOMINATE, WANT, HELD, PROVE, TAKE, SPARE, UNNOMINATE, STEPS };

static struct entry fresh(enum phase phase)
{
	struct entry e;
	uint64_t word;

	memset(&e, 0, sizeof(e));
	if (phase == FREE)
		return e;
	entry_begin(&e);
	entry_inserted(&e);
	if (phase == LOADING)
		return e;
	if (phase == FAILED) {
		entry_fail(&e);
		return e;
	}
	entry_publish(&e);
	if (phase == READY)
		return e;
	entry_nominate(&e);
	if (phase == NOMINATED)
		return e;
	entry_prove(&e, &word);
	if (phase == PROVEN)
		return e;
	entry_ask(&e, word);
	entry_take(&e, word);
	return e;
}

static bool try(struct entry *e, enum step step)
{
	uint64_t word = entry_look(e), proven;

	switch (step) {
	case NOMINATE:
		return entry_nominate(e);
	case RENOMINATE:
		return entry_renominate(e);
	case WANT:
		return entry_want(e);
	case HELD:
		return entry_held(e);
	case PROVE:
		return entry_prove(e, &proven);
	case TAKE:
		return word_phase(word) == PROVEN && entry_ask(e, word) && entry_take(e, word);
	case SPARE:
		return word_phase(word) == PROVEN && entry_spare(e, word);
	default:
		return entry_unnominate(e);
	}
}

int main(void)
{
	/* Where each step may be made, and to which phase it leads. */
	static const struct {
		const char *name;
		enum phase from, to;
	} allowed[STEPS] = {
		{ "nominate", READY, NOMINATED }, { "renominate", PROVEN, NOMINATED }, { "want", LOADING, LOADING },
		{ "held", NOMINATED, READY },     { "prove", NOMINATED, PROVEN },      { "take", PROVEN, DEAD },
		{ "spare", PROVEN, READY },       { "unnominate", NOMINATED, READY },
	};
	struct entry e;
	uint64_t word, ticket;

	plan(STEPS * 7 + 24);
	for (unsigned step = 0; step < STEPS; step++) {
		for (unsigned phase = FREE; phase <= DEAD; phase++) {
			enum phase after;
			bool done, right;

			e = fresh((enum phase)phase);
			done = try(&e, (enum step)step);
			after = word_phase(entry_look(&e));
			right = allowed[step].from == (enum phase)phase ? done && after == allowed[step].to
									: !done && after == (enum phase)phase;
			ok(right, "%s in phase %u", allowed[step].name, phase);
		}
	}

	e = fresh(PROVEN);
	ticket = entry_look(&e);
	word = ticket;
	ok(entry_rescue(&e, &word), "a proven nominee is rescued");
	is_int(word_phase(entry_look(&e)), READY, "and is READY");
	ok(!entry_ask(&e, ticket), "the ticket of a rescued nominee is stale");
	entry_nominate(&e);
	entry_prove(&e, &word);
	ok(!entry_ask(&e, ticket), "and stays so when it is nominated and proven again");
	ok(entry_ask(&e, word) && entry_take(&e, word), "the new ticket is good");
	ok(!entry_ask(&e, word), "once");

	e = fresh(LOADING);
	word = entry_look(&e);
	ok(entry_await(&e, &word), "a follower marks the load");
	ok((entry_look(&e) & WAITERS) != 0, "as awaited");
	entry_want(&e);
	word = entry_publish(&e);
	ok((word & WAITERS) != 0, "publication tells the leader of followers");
	ok((word & WANTED) != 0, "and of those who need room");
	ok((entry_look(&e) & WANTED) != 0, "P7: publication keeps WANTED, so that the release tells");

	memset(&e, 0, sizeof(e));
	entry_begin(&e);
	ok(!entry_want(&e), "P7: a load that is not inserted yet is in transit, not loading");
	entry_inserted(&e);
	ok(entry_want(&e), "one that is inserted has its unit, and is WANTED");
	ok((entry_spend(&e) & WANTED) != 0, "its leader learns it before the unit goes back");
	ok(!entry_want(&e), "P7: a load without its unit is not counted as loading");

	e = fresh(NOMINATED);
	word = entry_look(&e);
	ok(entry_leave(&e, &word), "a pin ends while its entry is a nominee");
	ok(entry_held(&e), "the search had seen it");
	is_int(entry_look(&e) & WANTED, 0, "nobody is left whose release would tell: not WANTED");

	e = fresh(PROVEN);
	ticket = entry_look(&e);
	ok(entry_refuse(&e, &ticket), "the predicate said no");
	ok(!entry_renominate(&e), "a refused nominee keeps its ticket in a complete look");
	ok(entry_refuse(&e, &ticket) && entry_ask(&e, ticket), "it may be refused again, and asked about");
	ok(entry_ask(&e, ticket), "by several threads at once");
	ok(!entry_take(&e, ticket), "P5: while another thread asks it is not taken");
	entry_unask(&e);
	ok(entry_take(&e, ticket), "but when the other one has ended");
	return done();
}
