/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * larder.c - the exported functions: arguments, the order of calls, retries.
 *
 * The road of larder_get():
 *
 *   hash the key
 *   hit()      walk the chain; pin what carries the key's hash bits; look; compare
 *     |no
 *   miss()     inside a read-side section: find the key, pin, look again
 *     |          READY: hit.  NOMINATED, PROVEN: rescue it, hit.
 *     |          LOADING: follow (flight.c), unless we lead it ourselves
 *     |absent
 *   lead()     a unit of capacity (reclaim.c), a place, LOADING, insert, run the
 *              loader, publish or fail
 *
 * Why a hit needs no read-side section.  It reads only atomic members of places,
 * and a place is a place of this cache until close (place.h).  A walk may stand on a
 * place that is unlinked, or used again in another chain: it then goes on in the
 * wrong chain, and at worst does not find its key; then miss() looks again, inside a
 * section.  What it finds it pins before it looks at the word, and only when the word
 * says READY does it read the key, which cannot change any more: a place is freed
 * after a search that finds it in no slot, and READY seen after the pin means that no
 * search has missed the pin (pin.h).  If the key is right, then so is the entry: it
 * was READY, hence resident, at the moment of the look, whatever road led to it.
 * The gain: two sections a hit (1.4 ns each in the design notes), and a reader that is stopped during a
 * hit holds up no grace period.
 */
#define LARDER_NO_INLINE
#include <larder.h>

#include <sched.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "flight.h"
#include "hash.h"
#include "keeper.h"
#include "reclaim.h"
#include "stats.h"

/* A walk this long, in a hit, goes on inside a read-side section: it may be lost. */
#define WALK_MAX 64

/* The sizes of the structs in the first release. */
#define OPTIONS_SIZE_0_1 sizeof(struct larder_options)
#define OUTCOME_SIZE_0_1 sizeof(struct larder_outcome)
#define GET_OPTIONS_SIZE_0_1 sizeof(struct larder_get_options)
#define STATS_SIZE_0_1 sizeof(struct larder_stats)

/* A load that is running; on the leader's stack. */
struct larder_load {
	struct larder_cache *cache;
	struct member *member;
	struct entry *entry;
	slot_t *slot;
	bool ended;
};

/* ---- opening and closing ----------------------------------------------------- */

/* What a newer program knows and we do not must be 0. */
static bool tail_is_zero(const void *options, size_t size, size_t known)
{
	const unsigned char *bytes = options;

	for (size_t i = known; i < size; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

static bool options_are_good(const struct larder_options *o)
{
	if (o->size < OPTIONS_SIZE_0_1 || !tail_is_zero(o, o->size, sizeof(*o)))
		return false;
	if (o->capacity == 0 || o->capacity > LARDER_CAPACITY_MAX || o->headroom >= o->capacity)
		return false;
	if ((o->flags & ~(LARDER_NO_THREAD | LARDER_OWN_THREAD | LARDER_SEED)) != 0 || o->reserved != 0)
		return false;
	if ((o->flags & LARDER_NO_THREAD) != 0 && (o->headroom != 0 || (o->flags & LARDER_OWN_THREAD) != 0))
		return false;
	return (o->alloc == NULL) == (o->free == NULL);
}

static uint64_t random_seed(void)
{
	uint64_t seed;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
		seed = hash_mix(park_now_ns() ^ (uint64_t)(uintptr_t)&seed); /* early at boot */
	return seed;
}

int larder_open(struct larder_cache **result, const struct larder_options *o)
{
	struct memory memory = { 0 };
	struct larder_cache *cache;
	int r;

	if (result == NULL || o == NULL || !options_are_good(o))
		return LARDER_EINVAL;
	memory.alloc = o->alloc;
	memory.free = o->free;
	memory.ctx = o->alloc_ctx;
	cache = memory_get(&memory, sizeof(*cache), 2 * CACHE_LINE);
	if (cache == NULL)
		return LARDER_ENOMEM;
	cache->memory.alloc = memory.alloc;
	cache->memory.free = memory.free;
	cache->memory.ctx = memory.ctx;
	cache->seed = (o->flags & LARDER_SEED) != 0 ? o->seed : random_seed();
	cache->hash = o->hash;
	cache->ctx = o->ctx;
	cache->idle = o->idle;
	cache->destroy = o->destroy;
	pin_setup();
	recency_setup(&cache->recency, o->capacity);
	room_setup(&cache->room, o->capacity, o->headroom);
	place_setup(&cache->places, &cache->memory, cache, o->capacity);
	r = LARDER_ENOMEM;
	if (!table_setup(&cache->table, &cache->memory, o->capacity))
		goto no_table;
	if (!reclaim_setup(cache))
		goto no_reclaim;
	if (member_setup(&cache->members, &cache->memory, &cache->places) != 0)
		goto no_reclaim;
	cache->id = cache->members.id;
	if ((o->flags & LARDER_NO_THREAD) == 0) {
		r = keeper_join(cache, (o->flags & LARDER_OWN_THREAD) != 0);
		if (r != 0)
			goto no_keeper;
	}
	*result = cache;
	return 0;

no_keeper:
	member_unlist(&cache->members);
no_reclaim:
	reclaim_close(cache);
	table_close(&cache->table, &cache->memory);
no_table:
	memory = cache->memory;
	memory_put(&memory, cache, sizeof(*cache), 2 * CACHE_LINE);
	return r;
}

/* All that are left, dead and out of the table; then destroyed, so that no callback can get one. */
static void destroy_all(struct larder_cache *cache)
{
	const struct slab_directory *d = load_acquire(&cache->places.directory);
	uint64_t used = load_acquire(&cache->places.used);

	for (uint64_t i = 0; i < used; i++) {
		struct entry *e = place_at(d, i);

		store_relaxed(&e->held, entry_close(e));
		if (load_relaxed(&e->held)) {
			table_read_begin();
			table_unlink(&cache->table, e);
			table_read_end();
		}
	}
	for (uint64_t i = 0; i < used; i++) {
		struct entry *e = place_at(d, i);

		if (load_relaxed(&e->held))
			reclaim_destroy(cache, (void *)load_relaxed(&e->value));
	}
}

int larder_close_report(struct larder_cache *cache, struct larder_refusal *refusal)
{
	uint64_t pins, loads, leaving;
	struct memory memory;

	if (cache == NULL)
		return LARDER_EINVAL;
	keeper_pause(cache);
	/* Every pin that was taken before this call is visible after the barrier. */
	if (!pin_barrier()) {
		keeper_resume(cache);
		if (refusal != NULL)
			memset(refusal, 0, sizeof(*refusal));
		return LARDER_EBUSY;
	}
	reclaim_count_pins(cache, &pins, &loads, NULL);
	if (pins != 0 || loads != 0) {
		keeper_resume(cache);
		if (refusal != NULL) {
			memset(refusal, 0, sizeof(*refusal));
			refusal->pinned = pins;
			refusal->loading = loads;
		}
		return LARDER_EBUSY;
	}
	store_release(&cache->closing, 1);
	destroy_all(cache);
	keeper_leave(cache);
	member_unlist(&cache->members);
	table_grace();
	/* Threads that have ended their pin and still look at the word: a few instructions. */
	for (;;) {
		(void)pin_barrier();
		reclaim_count_pins(cache, &pins, &loads, &leaving);
		if (leaving == 0)
			break;
		sched_yield();
	}
	member_close(&cache->members);
	reclaim_close(cache);
	table_close(&cache->table, &cache->memory);
	place_close(&cache->places);
	memory.alloc = cache->memory.alloc;
	memory.free = cache->memory.free;
	memory.ctx = cache->memory.ctx;
	store_relaxed(&memory.bytes, sizeof(*cache));
	memory_put(&memory, cache, sizeof(*cache), 2 * CACHE_LINE);
	return 0;
}

int larder_close(struct larder_cache *cache)
{
	return larder_close_report(cache, NULL);
}

/* ---- hits ---------------------------------------------------------------------- */

static ALWAYS_INLINE uint64_t hash_key(const struct larder_cache *cache, const void *key, size_t key_len)
{
	if (UNLIKELY(cache->hash != NULL))
		return hash_mix(cache->hash(key, key_len, cache->seed, cache->ctx));
	return hash_xxh3(key, key_len, cache->seed);
}

/* A pin that was set and not kept: end it as every pin is ended. */
static NOINLINE void undo(slot_t *slot, uintptr_t link, struct entry *e)
{
	uint64_t word;

	pin_undo(slot, link);
	word = entry_look(e);
	if (word_phase(word) != READY || (word & WANTED) != 0)
		reclaim_unpinned(e, word);
}

static ALWAYS_INLINE void got(struct larder_cache *cache, struct member *member, slot_t *slot, struct entry *e,
			      struct larder_ref *ref)
{
	ref->private_slot = (void *)slot;
	ref->private_value = (void *)load_relaxed(&e->value); /* ordered by the look */
	member_count(member, COUNT_HITS);
	recency_touch(&cache->recency, &member->view, e);
}

enum met { MET_HIT, MET_NOTHING, MET_OTHER };

/* The common case of a get.  MET_NOTHING: no entry with this hash was met; MET_OTHER: anything else. */
static ALWAYS_INLINE enum met hit(struct larder_cache *cache, uint64_t hash, const void *key, size_t key_len,
				  struct larder_ref *ref)
{
	struct thread *self = pin_self;
	struct member *member;
	unsigned steps = WALK_MAX;
	uintptr_t link, at;
	struct entry *e;
	slot_t *slot;

	if (UNLIKELY(self == NULL))
		return MET_OTHER;
	member = member_find(self, cache->id);
	slot = self->free;
	if (UNLIKELY(member == NULL || slot == NULL))
		return MET_OTHER;
	for (at = table_first(&cache->table, hash); (e = link_entry(at)) != NULL; at = table_next(e)) {
		if (UNLIKELY(steps-- == 0))
			return MET_OTHER;
		if (!link_matches(at, hash))
			continue;
		link = pin_set(slot, e);
		if (LIKELY((word_phase(entry_look(e)) == READY || FAULT(FAULT_NO_LOOK)) &&
			   entry_has_key(e, key, key_len))) {
			pin_keep(self, link);
			got(cache, member, slot, e, ref);
			return MET_HIT;
		}
		undo(slot, link, e);
		return MET_OTHER;
	}
	return MET_NOTHING;
}

/* ---- misses --------------------------------------------------------------------- */

static bool set_key(struct larder_cache *cache, struct entry *e, const void *key, size_t key_len)
{
	unsigned char *bytes = e->key.bytes;

	if (key_len > KEY_INLINE) {
		bytes = memory_get(&cache->memory, key_len, 8);
		if (bytes == NULL)
			return false;
		e->key.beside = bytes;
	}
	e->key_len = (uint16_t)key_len;
	if (key_len != 0)
		memcpy(bytes, key, key_len);
	return true;
}

/* The load has no value: its unit back, its followers told, the entry gone. */
static void end_without(struct larder_load *load, enum outcome_kind kind, int error)
{
	struct larder_cache *cache = load->cache;
	struct entry *e = load->entry;

	load->ended = true;
	member_count(load->member, kind == OUTCOME_FAILED ? COUNT_LOADS_FAILED : COUNT_LOADS_ABANDONED);
	if ((flight_spend(e, kind, error) & WANTED) != 0)
		reclaim_attend(cache);
	room_give(&cache->room);
	flight_fail(e);
	table_read_begin();
	table_unlink(&cache->table, e);
	table_read_end();
	reclaim_release(load->slot, e);
	reclaim_retire(cache, load->member, e);
}

/* Runs also when the loader is left by pthread_exit, cancellation or an exception. */
static void load_left(struct larder_load *load)
{
	if (UNLIKELY(!load->ended))
		end_without(load, OUTCOME_ABANDONED, 0);
}

static int run_loader(struct larder_load *running, larder_load_fn *loader, void *arg, struct larder_ref *ref,
		      int *load_error)
{
	struct larder_load load __attribute__((cleanup(load_left))) = *running;
	struct larder_cache *cache = load.cache;
	struct entry *e = load.entry;
	void *value = NULL;
	int error = loader(entry_key(e), e->key_len, arg, &value, &load);

	if (error != 0) {
		*load_error = error;
		end_without(&load, OUTCOME_FAILED, error);
		return LARDER_ELOAD;
	}
	load.ended = true;
	recency_load(&cache->recency, &load.member->view);
	recency_touch(&cache->recency, &load.member->view, e);
	member_count(load.member, COUNT_LOADS_OK); /* before others can evict it */
	if ((flight_publish(e, value) & WANTED) != 0)
		reclaim_attend(cache);
	recency_settle(&cache->recency, e); /* while e was LOADING, a scan may have passed it by */
	ref->private_slot = (void *)load.slot;
	ref->private_value = value;
	return 0;
}

/* What a miss needs to know all along. */
struct request {
	struct larder_cache *cache;
	struct member *member;
	const void *key;
	size_t key_len;
	uint64_t hash;
	larder_load_fn *loader;
	void *arg;
	struct larder_ref *ref;
	struct larder_outcome *outcome;
	unsigned patience; /* how often to look again while units are in transit */
};

#define PATIENCE 32
#define NAPS 20

static int refused(const struct request *q, int code, enum counter counter)
{
	member_count(q->member, counter);
	return code;
}

#define AGAIN 1

/* e is pinned in slot and was loading when we looked. */
static int follow(const struct request *q, struct entry *e, slot_t *slot)
{
	static const enum counter counters[] = { COUNT_JOINS_SHARED, COUNT_JOINS_FAILED, COUNT_JOINS_ABANDONED };
	enum outcome_kind kind;
	int error = 0;

	if (flight_is_led_by(e, pin_self)) {
		reclaim_release(slot, e);
		return refused(q, LARDER_EDEADLK, COUNT_REFUSED_DEADLOCK);
	}
	member_count(q->member, COUNT_JOINS);
	kind = flight_follow(e, &error);
	member_count(q->member, counters[kind]);
	q->outcome->how = LARDER_JOINED;
	if (kind == OUTCOME_VALUE) {
		q->ref->private_slot = (void *)slot;
		q->ref->private_value = (void *)load_relaxed(&e->value);
		return 0;
	}
	reclaim_release(slot, e);
	q->outcome->load_error = error;
	return kind == OUTCOME_FAILED ? LARDER_ELOAD : LARDER_EABANDONED;
}

/* Find the key inside a section; AGAIN: it is not here. */
static int find(const struct request *q)
{
	struct larder_cache *cache = q->cache;
	struct thread *self = pin_self;

	for (;;) {
		slot_t *slot = pin_slot(self);
		struct entry *e;
		uintptr_t link;
		uint64_t word;

		if (slot == NULL)
			return refused(q, LARDER_ENOMEM, COUNT_REFUSED_NOMEM);
		table_read_begin();
		e = table_find(&cache->table, q->hash, q->key, q->key_len);
		if (e == NULL) {
			table_read_end();
			return AGAIN;
		}
		link = pin_set(slot, e);
		word = entry_look(e);
		while (word_phase(word) == NOMINATED || word_phase(word) == PROVEN) {
			if (entry_rescue(e, &word))
				member_count(q->member, COUNT_RESCUES);
		}
		if (word_phase(word) == READY) {
			table_read_end();
			pin_keep(self, link);
			got(cache, q->member, slot, e, q->ref);
			q->outcome->how = LARDER_HIT;
			return 0;
		}
		if (word_phase(word) == LOADING) {
			table_read_end();
			if (q->loader == NULL) {
				undo(slot, link, e);
				return refused(q, LARDER_EINPROGRESS, COUNT_IN_PROGRESS);
			}
			pin_keep(self, link);
			return follow(q, e, slot);
		}
		table_read_end(); /* it has just failed or died: look anew */
		undo(slot, link, e);
	}
}

/*
 * Units are in somebody's hands, perhaps for this very key; he may have been preempted,
 * or runs a destroy callback.  Yield first, then sleep, 10 ms in all.
 */
static bool be_patient(struct request *q)
{
	if (q->patience == 0)
		return false;
	if (q->patience-- > NAPS)
		sched_yield();
	else
		park_nap(500000);
	return true;
}

/* The key is absent: load it here, unless somebody is faster (AGAIN). */
static int lead(struct request *q)
{
	struct larder_cache *cache = q->cache;
	struct larder_load load = { cache, q->member, NULL, NULL, false };
	struct wish wish = { q->key, q->key_len };
	struct thread *self = pin_self;
	struct larder_refusal refusal;
	struct entry *e, *other;
	enum evicted got;
	uintptr_t link;
	int r;

	if (UNLIKELY(load_acquire(&cache->closing) != 0))
		return refused(q, LARDER_ECLOSED, COUNT_REFUSED_CLOSED);
	got = reclaim_evict(cache, q->member, CAUSE_ROOM, &wish, &refusal);
	if (got == EVICT_WISHED)
		return AGAIN;
	if (got != EVICTED) {
		/* Refused; but the key may have come meanwhile, and a hit or a join needs no room. */
		r = find(q);
		if (r != AGAIN)
			return r;
		if (got == EVICT_NOMEM)
			return refused(q, LARDER_ENOMEM, COUNT_REFUSED_NOMEM);
		if (refusal.in_transit != 0 && be_patient(q))
			return AGAIN;
		q->outcome->refusal = refusal;
		return refused(q, LARDER_EBUSY, COUNT_REFUSED_BUSY);
	}
	e = reclaim_place(cache, q->member);
	load.slot = pin_slot(self);
	if (e == NULL || load.slot == NULL || !set_key(cache, e, q->key, q->key_len)) {
		if (e != NULL)
			place_put(&cache->places, &q->member->share, e);
		room_give(&cache->room);
		return refused(q, LARDER_ENOMEM, COUNT_REFUSED_NOMEM);
	}
	flight_lead(e, self);
	store_relaxed(&e->stamp, 0); /* it was a link; nothing may look younger than what is stamped next */
	entry_begin(e);
	link = pin_set(load.slot, e);
	table_read_begin();
	other = table_insert(&cache->table, q->hash, e);
	table_read_end();
	if (other != NULL) {
		pin_undo(load.slot, link); /* nobody else has ever seen e */
		place_put(&cache->places, &q->member->share, e);
		room_give(&cache->room);
		return AGAIN;
	}
	entry_inserted(e);
	pin_keep(self, link);
	member_count(q->member, COUNT_MISSES);
	load.entry = e;
	q->outcome->how = LARDER_LOADED;
	return run_loader(&load, q->loader, q->arg, q->ref, &q->outcome->load_error);
}

/*
 * absent: the walk of the hit has met nothing, so find() would not either, but for a
 * race; insertion notices that.  It spares a section and a walk on most misses.
 */
static NOINLINE int miss(struct larder_cache *cache, uint64_t hash, const void *key, size_t key_len,
			 larder_load_fn *loader, void *arg, struct larder_ref *ref, struct larder_outcome *outcome,
			 bool absent)
{
	struct larder_outcome unwanted = { 0 };
	struct request q = { cache, NULL, key, key_len, hash, loader, arg, ref, outcome, PATIENCE };
	int r;

	if (outcome == NULL)
		q.outcome = &unwanted;
	q.member = member_enter(&cache->members);
	if (q.member == NULL) {
		add_relaxed(&cache->unrecorded_nomem, 1);
		return LARDER_ENOMEM;
	}
	do {
		r = absent ? AGAIN : find(&q);
		absent = false;
		if (r != AGAIN)
			return r;
		if (loader == NULL)
			return refused(&q, LARDER_ENOENT, COUNT_ABSENT);
		r = lead(&q);
	} while (r == AGAIN);
	if (UNLIKELY(reclaim_has_work(cache)))
		keeper_kick(cache);
	return r;
}

static bool key_is_good(const void *key, size_t key_len)
{
	return key_len <= LARDER_KEY_MAX && (key != NULL || key_len == 0);
}

/* Any key, any length. */
static NOINLINE FLATTEN int get(struct larder_cache *cache, const void *key, size_t key_len, larder_load_fn *loader,
				void *arg, struct larder_ref *ref)
{
	uint64_t hash;
	enum met met;

	if (UNLIKELY(!key_is_good(key, key_len)))
		return LARDER_EINVAL;
	hash = hash_key(cache, key, key_len);
	met = hit(cache, hash, key, key_len, ref);
	if (LIKELY(met == MET_HIT))
		return 0;
	return miss(cache, hash, key, key_len, loader, arg, ref, NULL, met == MET_NOTHING);
}

/* The same, when larder_get() has met nothing for a key of 16 bytes. */
static NOINLINE int get_absent(struct larder_cache *cache, const void *key, uint64_t hash, larder_load_fn *loader,
			       void *arg, struct larder_ref *ref)
{
	return miss(cache, hash, key, 16, loader, arg, ref, NULL, true);
}

/* The home slot holds an entry that is not what was looked for. */
static NOINLINE int get_undo(struct larder_cache *cache, const void *key, size_t key_len, larder_load_fn *loader,
			     void *arg, struct larder_ref *ref)
{
	slot_t *home = pin_self->home;

	undo(home, SLOT_ODD, (struct entry *)load_relaxed(home));
	return get(cache, key, key_len, loader, arg, ref);
}

/*
 * hit() once more, for the commonest length as a constant and with every rarer case
 * in a tail call, so that nothing has to be saved on the stack: 192 -> 143
 * instructions a hit, its release and the loop around them included (callgrind, gcc 12,
 * -O2).
 */
FLATTEN int larder_get(struct larder_cache *cache, const void *key, size_t key_len, larder_load_fn *loader, void *arg,
		       struct larder_ref *ref)
{
	struct thread *self = pin_self;
	struct known_cache *known;
	unsigned steps = WALK_MAX;
	struct entry *e;
	uint64_t hash;
	uintptr_t at;
	slot_t *slot;

	if (UNLIKELY(cache == NULL || loader == NULL || ref == NULL))
		return LARDER_EINVAL;
	if (UNLIKELY(key_len != 16 || key == NULL || cache->hash != NULL || self == NULL))
		return get(cache, key, key_len, loader, arg, ref);
	known = &self->known[cache->id & self->known_mask];
	slot = self->home;
	/* Acquire: another thread may have given the home slot back; its reads lie before our pin. */
	if (UNLIKELY(known->id != cache->id || load_acquire(slot) != SLOT_ODD))
		return get(cache, key, key_len, loader, arg, ref);
	hash = hash_xxh3(key, 16, cache->seed);
	for (at = table_first(&cache->table, hash);; at = table_next(e)) {
		e = link_entry(at);
		if (UNLIKELY(e == NULL))
			return get_absent(cache, key, hash, loader, arg, ref);
		if (UNLIKELY(steps-- == 0))
			return get(cache, key, key_len, loader, arg, ref);
		if (LIKELY(link_matches(at, hash)))
			break;
	}
	pin_set_home(slot, e);
	if (UNLIKELY((word_phase(entry_look(e)) != READY && !FAULT(FAULT_NO_LOOK)) || !entry_has_key(e, key, 16)))
		return get_undo(cache, key, key_len, loader, arg, ref);
	got(cache, known->member, slot, e, ref);
	return 0;
}

int larder_get_with(struct larder_cache *cache, const void *key, size_t key_len, larder_load_fn *loader, void *arg,
		    const struct larder_get_options *options, struct larder_ref *ref, struct larder_outcome *outcome)
{
	uint64_t hash;
	enum met met;

	if (outcome != NULL) {
		size_t size = outcome->size;

		if (size < OUTCOME_SIZE_0_1)
			return LARDER_EINVAL;
		memset(outcome, 0, size);
		outcome->size = size;
	}
	if (cache == NULL || loader == NULL || ref == NULL || !key_is_good(key, key_len))
		return LARDER_EINVAL;
	if (options != NULL && (options->size < GET_OPTIONS_SIZE_0_1 || options->flags != 0 || options->reserved != 0 ||
				!tail_is_zero(options, options->size, sizeof(*options))))
		return LARDER_EINVAL;
	hash = hash_key(cache, key, key_len);
	met = hit(cache, hash, key, key_len, ref);
	if (LIKELY(met == MET_HIT)) {
		if (outcome != NULL)
			outcome->how = LARDER_HIT;
		return 0;
	}
	return miss(cache, hash, key, key_len, loader, arg, ref, outcome, met == MET_NOTHING);
}

int larder_peek(struct larder_cache *cache, const void *key, size_t key_len, struct larder_ref *ref)
{
	uint64_t hash;

	if (UNLIKELY(cache == NULL || ref == NULL || !key_is_good(key, key_len)))
		return LARDER_EINVAL;
	hash = hash_key(cache, key, key_len);
	if (LIKELY(hit(cache, hash, key, key_len, ref) == MET_HIT))
		return 0;
	return miss(cache, hash, key, key_len, NULL, NULL, ref, NULL, false);
}

/* ---- refs ------------------------------------------------------------------------ */

/* The entry that a ref pins, or NULL if it visibly holds nothing. */
static ALWAYS_INLINE struct entry *ref_entry(const struct larder_ref *ref)
{
	uintptr_t e;

	if (UNLIKELY(ref == NULL || ref->private_slot == NULL))
		return NULL;
	/* Stored by us, or handed to us with the ref.  Free slots and those being given back are odd. */
	e = load_relaxed((slot_t *)ref->private_slot);
	return LIKELY((e & SLOT_ODD) == 0) ? (struct entry *)e : NULL;
}

void *larder_value(const struct larder_ref *ref)
{
	return ref->private_value;
}

const void *larder_key(const struct larder_ref *ref, size_t *key_len)
{
	const struct entry *e = ref_entry(ref);

	if (e == NULL)
		return NULL;
	if (key_len != NULL)
		*key_len = e->key_len;
	return entry_key(e);
}

static NOINLINE int release_listed(slot_t *slot, struct entry *e)
{
	reclaim_release(slot, e);
	return 0;
}

static NOINLINE int release_attend(slot_t *slot, struct entry *e, uint64_t word)
{
	reclaim_unpinned(e, word);
	pin_return(slot);
	return 0;
}

int larder_release(struct larder_ref *ref)
{
	slot_t *slot;
	uintptr_t e;
	uint64_t word;

	if (UNLIKELY(ref == NULL || ref->private_slot == NULL))
		return LARDER_EINVAL;
	slot = (slot_t *)ref->private_slot;
	e = load_relaxed(slot);     /* as in ref_entry() */
	CHECK((e & SLOT_ODD) == 0); /* a stale copy of a ref is released */
	if (UNLIKELY((e & SLOT_ODD) != 0))
		return LARDER_EINVAL;
	ref->private_slot = NULL;
	ref->private_value = NULL;
	if (UNLIKELY(!pin_is_home(slot)))
		return release_listed(slot, (struct entry *)e);
	/* reclaim_release(), for a home slot, with the rarer case in a tail call. */
	pin_leave(slot, e);
	word = entry_look((struct entry *)e);
	if (UNLIKELY((word & (PHASE_MASK | WANTED)) != READY))
		return release_attend(slot, (struct entry *)e, word);
	pin_return(slot);
	return 0;
}

int larder_dup(const struct larder_ref *ref, struct larder_ref *copy)
{
	struct entry *e = ref_entry(ref);
	struct larder_cache *cache;
	slot_t *slot;
	uintptr_t link;
	uint64_t word;

	if (e == NULL || copy == NULL)
		return LARDER_EINVAL;
	cache = place_owner(e);
	if (member_enter(&cache->members) == NULL)
		return LARDER_ENOMEM;
	slot = pin_slot(pin_self);
	if (slot == NULL)
		return LARDER_ENOMEM;
	/*
	 * First the new slot, then the look.  The source's pin holds meanwhile, so e
	 * is READY or a nominee that is about to be found held; but the search may
	 * pass the new slot before it is written and the source's after it is given
	 * back: hence the rescue, which makes the nomination void.
	 */
	link = pin_set(slot, e);
	word = entry_look(e);
	while (word_phase(word) == NOMINATED && !entry_rescue(e, &word))
		;
	CHECK(word_phase(word) == READY);
	pin_keep(pin_self, link);
	copy->private_slot = (void *)slot;
	copy->private_value = ref->private_value;
	return 0;
}

/* ---- the rest --------------------------------------------------------------------- */

int64_t larder_trim(struct larder_cache *cache, uint64_t count)
{
	struct larder_refusal refusal;
	struct member *member;
	int64_t done = 0;

	if (cache == NULL)
		return LARDER_EINVAL;
	member = member_enter(&cache->members);
	if (member == NULL)
		return LARDER_ENOMEM;
	while ((uint64_t)done < count && done < INT64_MAX) {
		enum evicted result = reclaim_evict(cache, member, CAUSE_TRIM, NULL, &refusal);

		if (result == EVICT_NOMEM && done == 0)
			return LARDER_ENOMEM;
		if (result != EVICTED)
			break;
		room_give(&cache->room);
		done++;
	}
	return done;
}

int larder_step(struct larder_cache *cache, uint64_t budget_ns)
{
	uint64_t begin = park_now_ns();
	struct member *member;

	if (cache == NULL)
		return LARDER_EINVAL;
	member = member_enter(&cache->members);
	if (member == NULL)
		return LARDER_ENOMEM;
	while (reclaim_work(cache, member, true))
		if (park_now_ns() - begin >= budget_ns)
			return 1;
	return 0;
}

int larder_stats(struct larder_cache *cache, struct larder_stats *stats)
{
	if (cache == NULL || stats == NULL || stats->size < STATS_SIZE_0_1)
		return LARDER_EINVAL;
	if (stats->size > sizeof(*stats)) /* a newer program: what we do not know is 0 */
		memset((unsigned char *)stats + sizeof(*stats), 0, stats->size - sizeof(*stats));
	stats_read(cache, stats);
	return 0;
}

int larder_stats_reset(struct larder_cache *cache)
{
	if (cache == NULL)
		return LARDER_EINVAL;
	stats_reset(cache);
	return 0;
}

const char *larder_strerror(int code)
{
	switch (code) {
	case LARDER_OK:
		return "success";
	case LARDER_EINVAL:
		return "an argument is out of its range";
	case LARDER_ENOMEM:
		return "out of memory";
	case LARDER_EBUSY:
		return "everything is pinned, loading or refused by the predicate";
	case LARDER_ENOENT:
		return "the key is not in the cache";
	case LARDER_EINPROGRESS:
		return "the key is being loaded";
	case LARDER_EDEADLK:
		return "the caller would wait for itself";
	case LARDER_ELOAD:
		return "the loader failed";
	case LARDER_EABANDONED:
		return "the loader's thread left it without an outcome";
	case LARDER_ETHREAD:
		return "the background thread cannot be created";
	case LARDER_ECLOSED:
		return "the cache is being closed";
	default:
		return "unknown code";
	}
}

#define STRING_(x) #x
#define STRING(x) STRING_(x)

const char *larder_version(void)
{
	return STRING(LARDER_VERSION_MAJOR) "." STRING(LARDER_VERSION_MINOR) "." STRING(LARDER_VERSION_PATCH);
}

/* ---- for bench/ -------------------------------------------------------------------- */

/* The least that a hit in this layout can do: hash, chain, key.  No pin, no stamp. */
NOINLINE FLATTEN const void *table_floor(struct larder_cache *cache, const void *key, size_t key_len)
{
	uint64_t hash = hash_key(cache, key, key_len);
	struct entry *e;

	for (uintptr_t at = table_first(&cache->table, hash); (e = link_entry(at)) != NULL; at = table_next(e))
		if (link_matches(at, hash) && entry_has_key(e, key, key_len))
			return (const void *)load_relaxed(&e->value);
	return NULL;
}
