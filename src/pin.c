/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * pin.c - threads' records, their chunks of slots, and the heavy barrier.
 */
#include "pin.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "park.h"

_Thread_local struct thread *pin_self;
bool pin_fenced;

static struct lock setup_lock;
static bool setup_done;
static _Atomic(struct chunk *) all_chunks;
static _Atomic(struct thread *) all_threads;

void pin_setup(void)
{
	lock_enter(&setup_lock);
	if (!setup_done) {
		const char *wish = secure_getenv("LARDER_MEMBARRIER"); /* "0": do without, for tests */

		pin_fenced = (wish != NULL && strcmp(wish, "0") == 0) ||
			     syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) != 0;
		setup_done = true;
	}
	lock_leave(&setup_lock);
}

/* The home of every thread in the fenced mode: never free. */
static slot_t no_home;

/* A chunk for self; its slots from the second on are free and linked. */
static struct chunk *chunk_new(struct thread *self)
{
	struct chunk *chunk = aligned_alloc(CHUNK_SIZE, sizeof(*chunk));
	struct chunk *head;

	if (chunk == NULL)
		return NULL;
	memset(chunk, 0, sizeof(*chunk));
	chunk->owner = self;
	for (size_t i = 1; i + 1 < CHUNK_SLOTS; i++)
		store_relaxed(&chunk->slot[i], (uintptr_t)&chunk->slot[i + 1] | SLOT_ODD);
	store_relaxed(&chunk->slot[CHUNK_SLOTS - 1], SLOT_ODD);
	/*
	 * Listed before its first slot is used, so a search that begins after a
	 * pin and a barrier finds it: the head of the list is read after the barrier.
	 */
	head = load_relaxed(&all_chunks);
	do
		chunk->next = head;
	while (!cas_acq_rel(&all_chunks, &head, chunk));
	return chunk;
}

struct thread *pin_attach(void)
{
	struct thread *self;
	struct chunk *chunk;

	for (self = load_acquire(&all_threads); self != NULL; self = self->next) {
		uint32_t idle = 0;

		/* Acquire pairs with the release in pin_detach: its lists are ours now. */
		if (load_relaxed(&self->live) == 0 && cas_acq_rel(&self->live, &idle, 1)) {
			pin_self = self;
			return self;
		}
	}
	self = aligned_alloc(2 * CACHE_LINE, sizeof(*self));
	if (self == NULL)
		return NULL;
	memset(self, 0, sizeof(*self));
	chunk = chunk_new(self);
	if (chunk == NULL) {
		free(self);
		return NULL;
	}
	self->free = &chunk->slot[1];
	self->home = pin_fenced ? &no_home : &chunk->slot[0];
	store_relaxed(&chunk->slot[0], SLOT_ODD);
	store_relaxed(&self->live, 1);
	self->next = load_relaxed(&all_threads);
	while (!cas_acq_rel(&all_threads, &self->next, self))
		;
	pin_self = self;
	return self;
}

void pin_detach(struct thread *self)
{
	pin_self = NULL;
	store_release(&self->live, 0); /* pairs with the compare-and-swap in pin_attach */
}

slot_t *pin_more(struct thread *self)
{
	/* Acquire pairs with the push: the links of the stack are readable. */
	uintptr_t first = exchange_acq_rel(&self->remote, 0);
	struct chunk *chunk;

	if (first != 0) {
		self->free = (slot_t *)first;
		return self->free;
	}
	chunk = chunk_new(self);
	if (chunk != NULL)
		self->free = &chunk->slot[1];
	return self->free;
}

void pin_return_listed(slot_t *slot)
{
	struct chunk *chunk = (struct chunk *)((uintptr_t)slot & ~(uintptr_t)(CHUNK_SIZE - 1));
	struct thread *owner = chunk->owner;
	uintptr_t first;

	if (owner == pin_self) {
		store_release(slot, (uintptr_t)owner->free | SLOT_ODD);
		owner->free = slot;
		return;
	}
	first = load_relaxed(&owner->remote);
	do
		store_release(slot, first | SLOT_ODD);
	while (!cas_acq_rel(&owner->remote, &first, (uintptr_t)slot));
}

bool pin_barrier(void)
{
	bool done = true;

	if (FAULT(FAULT_NO_MEMBARRIER))
		return true;
	if (!pin_fenced) {
		/* It can fail for want of memory, and a filter installed since may forbid it. */
		for (unsigned i = 0; i < 100; i++) {
			done = syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) == 0;
			if (done || errno != ENOMEM)
				break;
			sched_yield();
		}
	}
	fence_seq_cst(); /* ours; and in the fenced mode the partner of pin_light() */
	return done;
}

void pin_search(void (*visit)(void *arg, uintptr_t entry), void *arg, bool leaving)
{
	for (struct chunk *chunk = load_acquire(&all_chunks); chunk != NULL; chunk = chunk->next) {
		for (size_t i = 0; i < CHUNK_SLOTS; i++) {
			uintptr_t v = FAULT(FAULT_SEARCH_RELAXED) ? load_relaxed(&chunk->slot[i])
								  : load_acquire(&chunk->slot[i]);

			if (v > SLOT_ODD && ((v & SLOT_ODD) != 0) == leaving)
				visit(arg, v & ~SLOT_ODD);
		}
	}
}
