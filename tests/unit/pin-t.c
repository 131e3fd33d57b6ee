/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pin-t.c - P4, P15: slots.  A search finds exactly what is pinned, whoever pinned it
 * and whoever gives it back; slots are used again; a thread's slots outlive it.
 */
#include "../../src/pin.h"

#include <pthread.h>
#include <stdlib.h>

#include "../lib/tap.h"

#define MANY 10000

static uint64_t objects[MANY]; /* stand for entries: only their addresses count */
static slot_t *slots[MANY];

static void count(void *arg, uintptr_t entry)
{
	uintptr_t first = (uintptr_t)objects;

	if (entry >= first && entry < first + sizeof(objects))
		++*(unsigned *)arg;
}

static unsigned pinned(void)
{
	unsigned n = 0;

	pin_search(count, &n, false);
	return n;
}

static slot_t *pin(const void *object)
{
	slot_t *slot = pin_slot(pin_self);

	pin_keep(pin_self, pin_set(slot, object));
	return slot;
}

static void unpin(slot_t *slot)
{
	pin_leave(slot, load_relaxed(slot));
	pin_return(slot);
}

static void *give_back_half(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < MANY; i += 2)
		unpin(slots[i]); /* without a record of its own */
	return NULL;
}

static void *pin_and_end(void *arg)
{
	struct thread **record = arg;

	*record = pin_attach();
	slots[0] = pin(&objects[0]);
	slots[1] = pin(&objects[1]);
	pin_detach(pin_self);
	return NULL;
}

static unsigned slots_in_use(void)
{
	unsigned n = 0;

	for (slot_t *s = pin_self->free; s != NULL; s = (slot_t *)(load_relaxed(s) & ~SLOT_ODD))
		n++;
	return n;
}

int main(void)
{
	struct thread *first, *record, *again;
	unsigned before, leaving = 0;
	pthread_t thread;
	uintptr_t link;
	slot_t *slot;

	plan(17);
	pin_setup();
	first = pin_attach();
	must(first != NULL);
	is_int(pinned(), 0, "nothing is pinned at first");

	if (!pin_fenced) {
		is_int(load_relaxed(first->home), SLOT_ODD, "the home slot is free");
		pin_set_home(first->home, &objects[0]);
		is_int(pinned(), 1, "a pin in the home slot is found");
		unpin(first->home);
		is_int(load_relaxed(first->home), SLOT_ODD, "and it is free again");
	} else {
		ok(load_relaxed(first->home) != SLOT_ODD, "in the fenced mode no home slot is ever free");
		skip(3, "no home slots in the fenced mode");
	}

	slot = pin_slot(first);
	link = pin_set(slot, &objects[0]);
	is_int(pinned(), 1, "a pin that is being looked at is found");
	pin_undo(slot, link);
	is_int(pinned(), 0, "and not after it is undone");
	ok(pin_slot(first) == slot, "the slot is the next to be used");

	for (unsigned i = 0; i < MANY; i++)
		slots[i] = pin(&objects[i]);
	is_int(pinned(), MANY, "P4: pins are limited by memory alone");
	pin_leave(slots[7], load_relaxed(slots[7]));
	is_int(pinned(), MANY - 1, "a pin that is being given back is none");
	pin_search(count, &leaving, true);
	is_int(leaving, 1, "but can be seen by close");
	pin_return(slots[7]);
	slots[7] = pin(&objects[7]);

	before = slots_in_use();
	must(pthread_create(&thread, NULL, give_back_half, NULL) == 0);
	pthread_join(thread, NULL);
	is_int(pinned(), MANY / 2, "P15: another thread, without a record, gives half of them back");
	for (unsigned i = 0; i < MANY; i += 2)
		slots[i] = pin(&objects[i]);
	is_int(pinned(), MANY, "the owner uses those slots again");
	ok(slots_in_use() <= before, "and needs no new ones for it");
	for (unsigned i = 0; i < MANY; i++)
		unpin(slots[i]);
	is_int(pinned(), 0, "all are given back");

	must(pthread_create(&thread, NULL, pin_and_end, &record) == 0);
	pthread_join(thread, NULL);
	is_int(pinned(), 2, "P15: a thread ends and its pins stay");
	must(pthread_create(&thread, NULL, pin_and_end, &again) == 0);
	pthread_join(thread, NULL);
	ok(again == record, "the next thread takes its record over");
	is_int(pinned(), 4, "with the pins in it");
	return done();
}
