/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * place.c - slabs, free and retired places.  The essay is in place.h.
 */
#include "place.h"

#define FIRST_ROOM 4

uint32_t place_batch = PLACE_BATCH;
uint64_t place_retire_limit;

static uint64_t set_start(uintptr_t slab, uint64_t mask)
{
	return ((slab / SLAB_SIZE) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & mask;
}

static void set_add(struct slab_directory *d, struct slab *slab)
{
	uint64_t i = set_start((uintptr_t)slab, d->set_mask);

	while (load_relaxed(&d->set[i]) != 0)
		i = (i + 1) & d->set_mask;
	store_release(&d->set[i], (uintptr_t)slab);
}

bool place_is_ours(const struct places *places, uintptr_t address)
{
	struct slab_directory *d = load_acquire(&((struct places *)(uintptr_t)places)->directory);
	uintptr_t slab = address & ~(uintptr_t)(SLAB_SIZE - 1), found;
	uint64_t i;

	if (d == NULL)
		return false;
	for (i = set_start(slab, d->set_mask); (found = load_acquire(&d->set[i])) != 0; i = (i + 1) & d->set_mask)
		if (found == slab)
			return true;
	return false;
}

void place_setup(struct places *places, struct memory *memory, void *owner, uint64_t capacity)
{
	places->memory = memory;
	places->owner = owner;
	/* Small caches keep few, so that scans stay short; large ones pay for few grace periods. */
	places->retire_limit = capacity < 128 ? 64 : capacity < 1024 ? capacity / 2 : 512 + capacity / 16;
	if (places->retire_limit > 8192)
		places->retire_limit = 8192;
	if (place_retire_limit != 0)
		places->retire_limit = place_retire_limit;
	places->limit = capacity + capacity / 8 + 1024;
}

/* Lock held.  Room for one slab more in the directory. */
static struct slab_directory *directory_with_room(struct places *places)
{
	struct slab_directory *old = load_relaxed(&places->directory), *d;
	uint64_t room = old == NULL ? FIRST_ROOM : 2 * old->room, set_size = 4;
	size_t bytes;

	if (old != NULL && places->slabs < old->room)
		return old;
	while (set_size < 2 * room)
		set_size *= 2;
	bytes = sizeof(*d) + (size_t)room * sizeof(d->slab[0]) + (size_t)set_size * sizeof(d->set[0]);
	d = memory_get(places->memory, bytes, CACHE_LINE);
	if (d == NULL)
		return NULL;
	d->older = old;
	d->bytes = bytes;
	d->room = room;
	d->set_mask = set_size - 1;
	d->set = (_Atomic(uintptr_t) *)(void *)&d->slab[room];
	for (uint64_t i = 0; i < places->slabs; i++) {
		struct slab *slab = load_relaxed(&old->slab[i]);

		store_relaxed(&d->slab[i], slab);
		set_add(d, slab);
	}
	store_release(&places->directory, d); /* pairs with the acquire in scans and in place_is_ours */
	return d;
}

/* Lock held.  One slab more. */
static bool grow(struct places *places)
{
	struct slab_directory *d = directory_with_room(places);
	struct slab *slab;

	if (d == NULL)
		return false;
	slab = memory_get(places->memory, SLAB_SIZE, SLAB_SIZE);
	if (slab == NULL)
		return false;
	slab->owner = places->owner;
	set_add(d, slab);
	store_release(&d->slab[places->slabs], slab);
	places->slabs++;
	return true;
}

static struct entry *refill(struct places *places, struct place_share *share, bool beyond)
{
	lock_enter(&places->lock);
	while (places->free != NULL && share->spare_count < place_batch) {
		struct entry *e = places->free;

		places->free = place_next(e);
		share->spare[share->spare_count++] = e;
	}
	if (share->spare_count == 0) {
		uint64_t used = load_relaxed(&places->used);

		if (used < places->slabs * SLAB_PLACES || ((beyond || used < places->limit) && grow(places))) {
			const struct slab_directory *d = load_relaxed(&places->directory);

			while (share->spare_count < place_batch && used < places->slabs * SLAB_PLACES)
				share->spare[share->spare_count++] = place_at(d, used++);
			store_release(&places->used, used);
		}
	}
	lock_leave(&places->lock);
	return share->spare_count != 0 ? share->spare[--share->spare_count] : NULL;
}

struct entry *place_get(struct places *places, struct place_share *share, bool beyond)
{
	if (LIKELY(share->spare_count != 0))
		return share->spare[--share->spare_count];
	return refill(places, share, beyond);
}

static void forget_key(struct places *places, struct entry *e)
{
	if (e->key_len > KEY_INLINE)
		memory_put(places->memory, e->key.beside, e->key_len, 8);
	e->key_len = 0;
}

void place_put(struct places *places, struct place_share *share, struct entry *e)
{
	forget_key(places, e);
	if (word_phase(load_relaxed(&e->word)) != FREE)
		entry_free(e);
	if (share->spare_count < place_batch) {
		share->spare[share->spare_count++] = e;
		return;
	}
	lock_enter(&places->lock);
	place_link(e, places->free);
	places->free = e;
	lock_leave(&places->lock);
}

/* Lock held. */
static void retire_locked(struct places *places, struct entry *e)
{
	place_link(e, NULL);
	if (places->retired_last != NULL)
		place_link(places->retired_last, e);
	else
		places->retired = e;
	places->retired_last = e;
}

static void flush_dead(struct places *places, struct place_share *share)
{
	uint64_t count = load_relaxed(&places->retired_count);

	for (uint32_t i = 0; i < share->dead_count; i++)
		retire_locked(places, share->dead[i]);
	store_relaxed(&places->retired_count, count + share->dead_count);
	share->dead_count = 0;
}

bool place_retire(struct places *places, struct place_share *share, struct entry *e)
{
	bool many;

	share->dead[share->dead_count++] = e;
	if (share->dead_count < place_batch)
		return false;
	lock_enter(&places->lock);
	flush_dead(places, share);
	many = load_relaxed(&places->retired_count) >= places->retire_limit;
	lock_leave(&places->lock);
	return many;
}

void place_return(struct places *places, struct place_share *share)
{
	lock_enter(&places->lock);
	flush_dead(places, share);
	while (share->spare_count != 0) {
		struct entry *e = share->spare[--share->spare_count];

		place_link(e, places->free);
		places->free = e;
	}
	lock_leave(&places->lock);
}

struct entry *place_take_retired(struct places *places)
{
	struct entry *list;

	lock_enter(&places->lock);
	list = places->retired;
	places->retired = NULL;
	places->retired_last = NULL;
	store_relaxed(&places->retired_count, 0);
	lock_leave(&places->lock);
	return list;
}

void place_free(struct places *places, struct entry *list, bool (*held)(struct entry *e))
{
	struct entry *first = NULL, *last = NULL, *kept = NULL;
	uint64_t kept_count = 0;

	while (list != NULL) {
		struct entry *e = list;

		list = place_next(e);
		if (held(e)) {
			place_link(e, kept);
			kept = e;
			kept_count++;
			continue;
		}
		forget_key(places, e);
		entry_free(e);
		place_link(e, first);
		first = e;
		if (last == NULL)
			last = e;
	}
	lock_enter(&places->lock);
	if (last != NULL) {
		place_link(last, places->free);
		places->free = first;
	}
	while (kept != NULL) {
		struct entry *e = kept;

		kept = place_next(e);
		retire_locked(places, e);
	}
	store_relaxed(&places->retired_count, load_relaxed(&places->retired_count) + kept_count);
	lock_leave(&places->lock);
}

void place_close(struct places *places)
{
	struct slab_directory *d = load_relaxed(&places->directory);
	uint64_t used = load_relaxed(&places->used);

	for (uint64_t i = 0; i < used; i++)
		forget_key(places, place_at(d, i));
	for (uint64_t i = 0; i < places->slabs; i++)
		memory_put(places->memory, load_relaxed(&d->slab[i]), SLAB_SIZE, SLAB_SIZE);
	while (d != NULL) {
		struct slab_directory *older = d->older;

		memory_put(places->memory, d, d->bytes, CACHE_LINE);
		d = older;
	}
}
