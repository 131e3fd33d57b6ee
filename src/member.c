/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * member.c - threads and caches meet.  The essay is in member.h.
 */
#include "member.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#define FIRST_MAP 8

static struct lock registry_lock;
static struct members *open_caches; /* registry lock */
static uint64_t next_id = 1;        /* registry lock */
static bool key_made;               /* registry lock to write */
static pthread_key_t end_key;

static struct known_cache knows_none; /* id 0 is no cache */

/* Registry lock held. */
static struct members *find_open(uint64_t id)
{
	struct members *m = open_caches;

	while (m != NULL && m->id != id)
		m = m->next_open;
	return m;
}

/* The thread ends: its records and its pins' slots wait for the next one. */
static void thread_end(void *arg)
{
	struct thread *self = arg;

	lock_enter(&registry_lock);
	for (uint64_t i = 0; i <= self->known_mask; i++) {
		struct members *m = self->known[i].id != 0 ? find_open(self->known[i].id) : NULL;

		if (m != NULL) {
			place_return(m->places, &self->known[i].member->share);
			store_release(&self->known[i].member->owner, NULL);
		}
	}
	lock_leave(&registry_lock);
	if (self->known != &knows_none)
		free(self->known);
	self->known = &knows_none;
	self->known_mask = 0;
	pin_detach(self);
}

int member_setup(struct members *members, struct memory *memory, struct places *places)
{
	int r = 0;

	members->memory = memory;
	members->places = places;
	lock_enter(&registry_lock);
	if (!key_made) {
		r = -pthread_key_create(&end_key, thread_end);
		key_made = r == 0;
	}
	if (r == 0) {
		members->id = next_id++;
		members->next_open = open_caches;
		open_caches = members;
	}
	lock_leave(&registry_lock);
	return r;
}

void member_unlist(struct members *members)
{
	struct members **at;

	lock_enter(&registry_lock);
	for (at = &open_caches; *at != members; at = &(*at)->next_open)
		;
	*at = members->next_open;
	lock_leave(&registry_lock);
}

void member_close(struct members *members)
{
	struct member *member = load_acquire(&members->first);

	while (member != NULL) {
		struct member *next = member->next;

		memory_put(members->memory, member, sizeof(*member), 2 * CACHE_LINE);
		member = next;
	}
}

struct member *member_find_displaced(struct thread *self, uint64_t id)
{
	for (uint64_t i = 0; i <= self->known_mask; i++) {
		struct known_cache *known = &self->known[(id + i) & self->known_mask];

		if (known->id == id)
			return known->member;
		if (known->id == 0)
			break;
	}
	return NULL;
}

static void map_add(struct known_cache *map, uint64_t mask, uint64_t id, struct member *member)
{
	uint64_t i = id & mask;

	while (map[i].id != 0)
		i = (i + 1) & mask;
	map[i].id = id;
	map[i].member = member;
}

/* Room for one pair more, at most half full, closed caches dropped. */
static bool map_reserve(struct thread *self)
{
	uint64_t open = 0, used = 0, size = FIRST_MAP;
	struct known_cache *map;

	for (uint64_t i = 0; i <= self->known_mask; i++)
		used += self->known[i].id != 0;
	if (self->known != &knows_none && 2 * (used + 1) <= self->known_mask + 1)
		return true;
	lock_enter(&registry_lock);
	for (uint64_t i = 0; i <= self->known_mask; i++) {
		if (self->known[i].id != 0 && find_open(self->known[i].id) == NULL)
			self->known[i].member = NULL; /* closed; still in the way of others' probes */
		open += self->known[i].id != 0 && self->known[i].member != NULL;
	}
	lock_leave(&registry_lock);
	while (size < 2 * (open + 1))
		size *= 2;
	map = calloc(size, sizeof(*map));
	if (map == NULL)
		return false;
	for (uint64_t i = 0; i <= self->known_mask; i++)
		if (self->known[i].id != 0 && self->known[i].member != NULL)
			map_add(map, size - 1, self->known[i].id, self->known[i].member);
	if (self->known != &knows_none)
		free(self->known);
	self->known = map;
	self->known_mask = size - 1;
	return true;
}

static struct member *take_over(struct members *members, struct thread *self)
{
	for (struct member *m = load_acquire(&members->first); m != NULL; m = m->next) {
		struct thread *nobody = NULL;

		/* Acquire pairs with the release in thread_end. */
		if (load_relaxed(&m->owner) == NULL && cas_acq_rel(&m->owner, &nobody, self))
			return m;
	}
	return NULL;
}

struct member *member_enter(struct members *members)
{
	struct thread *self = pin_self;
	struct member *member;

	if (self == NULL) {
		self = pin_attach();
		if (self == NULL)
			return NULL;
		self->known = &knows_none;
		self->known_mask = 0;
		if (pthread_setspecific(end_key, self) != 0) {
			pin_detach(self);
			return NULL;
		}
	}
	member = member_find(self, members->id);
	if (member != NULL)
		return member;
	if (!map_reserve(self))
		return NULL;
	member = take_over(members, self);
	if (member == NULL) {
		member = memory_get(members->memory, sizeof(*member), 2 * CACHE_LINE);
		if (member == NULL)
			return NULL;
		store_relaxed(&member->owner, self);
		member->next = load_relaxed(&members->first);
		while (!cas_acq_rel(&members->first, &member->next, member))
			;
	}
	recency_view_setup(&member->view);
	map_add(self->known, self->known_mask, members->id, member);
	return member;
}
