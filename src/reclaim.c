/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * reclaim.c - making room.  The essay is in reclaim.h.
 */
#include "reclaim.h"

#include <pthread.h>
#include <sched.h>

#define BATCH_MAX 512
#define LOOKS 8          /* passes that found units on their way, before they are reported */
#define LOOKS_AT_ALL 256 /* passes that found candidates which others then took */
#define ASK_AGAIN 16     /* refused ones that one admission asks */
#define STALE_MAX 1024   /* so many more than the capacity: a predicate that gets what it is asked about */

/* ---- setting up ---------------------------------------------------------- */

static uint64_t batch_for(uint64_t capacity)
{
	/*
	 * One barrier a batch costs every running thread an interrupt: the larger the
	 * better, as long as few of the nominees are got again before they are taken.  A
	 * quarter of the capacity against a sixteenth: 1,550 -> 1,100 ns a request, two
	 * threads, capacity 1,000, 62 % misses, 56 instead of 12 rescues a thousand
	 * evictions (2-core virtual machine under other load; medians of 8 runs each).
	 */
	uint64_t batch = capacity / 4;

	return batch < 1 ? 1 : batch > BATCH_MAX ? BATCH_MAX : batch;
}

bool reclaim_setup(struct larder_cache *cache)
{
	struct reclaim *r = &cache->reclaim;
	struct memory *memory = &cache->memory;
	uint64_t cells = 8;

	r->batch = batch_for(cache->room.capacity);
	/* Refilled when less than a batch is left; what was passed over is merged into it. */
	while (cells < (r->batch <= 64 ? 4 : 2) * r->batch)
		cells *= 2;
	r->mask = cells - 1;
	r->cell_entry = memory_get(memory, cells * sizeof(r->cell_entry[0]), CACHE_LINE);
	r->cell_word = memory_get(memory, cells * sizeof(r->cell_word[0]), CACHE_LINE);
	r->scratch = memory_get(memory, (cells + r->batch) * sizeof(r->scratch[0]), CACHE_LINE);
	r->pend = memory_get(memory, r->batch * sizeof(r->pend[0]), CACHE_LINE);
	select_setup(&r->select, memory);
	return r->cell_entry != NULL && r->cell_word != NULL && r->scratch != NULL && r->pend != NULL;
}

void reclaim_close(struct larder_cache *cache)
{
	struct reclaim *r = &cache->reclaim;
	struct memory *memory = &cache->memory;
	uint64_t cells = r->mask + 1;

	memory_put(memory, (void *)r->cell_entry, cells * sizeof(r->cell_entry[0]), CACHE_LINE);
	memory_put(memory, (void *)r->cell_word, cells * sizeof(r->cell_word[0]), CACHE_LINE);
	memory_put(memory, r->scratch, (cells + r->batch) * sizeof(r->scratch[0]), CACHE_LINE);
	memory_put(memory, r->pend, r->batch * sizeof(r->pend[0]), CACHE_LINE);
	memory_put(memory, r->passed, r->passed_room * sizeof(r->passed[0]), CACHE_LINE);
	memory_put(memory, r->refused, r->refused_room * sizeof(r->refused[0]), CACHE_LINE);
	select_close(&r->select);
}

/* Role.  Room for one element more in a growing array, or false. */
static bool reserve(struct memory *memory, void **array, uint64_t count, uint64_t *room, size_t size)
{
	uint64_t more = *room == 0 ? 64 : 2 * *room;
	void *new;

	if (count < *room)
		return true;
	new = memory_get(memory, more * size, CACHE_LINE);
	if (new == NULL)
		return false;
	if (*array != NULL)
		memcpy(new, *array, count * size);
	memory_put(memory, *array, *room * size, CACHE_LINE);
	*array = new;
	*room = more;
	return true;
}

static void count_one(_Atomic(uint64_t) *counter)
{
	store_relaxed(counter, load_relaxed(counter) + 1); /* the role's, or the grace lock's */
}

/* ---- the ring ------------------------------------------------------------ */

/*
 * A cell is overwritten only when the head has passed it, so a popper that read a
 * torn or younger pair loses its compare-and-swap.  Acquire of tail pairs with the
 * release in ring_push.
 */
static bool ring_pop(struct reclaim *r, struct ticket *ticket)
{
	uint64_t head = load_acquire(&r->head);

	while (head != load_acquire(&r->tail)) {
		ticket->entry = (struct entry *)load_relaxed(&r->cell_entry[head & r->mask]);
		ticket->word = load_relaxed(&r->cell_word[head & r->mask]);
		if (cas_acq_rel(&r->head, &head, head + 1))
			return true;
	}
	return false;
}

static uint64_t ring_count(const struct reclaim *r)
{
	uint64_t head = load_acquire(&((struct reclaim *)(uintptr_t)r)->head);

	return load_acquire(&((struct reclaim *)(uintptr_t)r)->tail) - head;
}

/* Role. */
static bool ring_push(struct reclaim *r, struct ticket ticket)
{
	uint64_t tail = load_relaxed(&r->tail);

	if (tail - load_acquire(&r->head) > r->mask)
		return false;
	store_relaxed(&r->cell_entry[tail & r->mask], (uintptr_t)ticket.entry);
	store_relaxed(&r->cell_word[tail & r->mask], ticket.word);
	store_release(&r->tail, tail + 1);
	return true;
}

/* Role.  What the last complete look counted has changed. */
static void void_verdict(struct reclaim *r)
{
	r->verdict_valid = false;
	store_release(&r->verdict_number, load_relaxed(&r->verdict_number) + 1);
}

/*
 * Role.  Let go of everything that is not refused: nominees and those passed over are
 * plainly READY again and will be selected anew, in order.
 */
static void begin_anew(struct reclaim *r)
{
	struct ticket ticket;

	while (ring_pop(r, &ticket))
		(void)entry_spare(ticket.entry, ticket.word);
	for (uint64_t i = 0; i < r->passed_count; i++) {
		struct entry *e = r->passed[i].entry;
		uint64_t word = entry_look(e);

		while (word_phase(word) == READY && (word & WANTED) != 0 && !entry_unwant(e, &word))
			;
	}
	r->passed_count = 0;
	void_verdict(r);
	r->lost = false;
	select_from(&r->select, 0);
}

/* Role.  Push; if the ring is full, the caller has to begin anew at the end. */
static void ring_push_or_spare(struct reclaim *r, struct ticket ticket)
{
	if (!ring_push(r, ticket)) {
		(void)entry_spare(ticket.entry, ticket.word);
		r->lost = true;
	}
}

/* ---- barrier and search --------------------------------------------------- */

struct search {
	struct larder_cache *cache;
	uint64_t held;
	bool blind; /* the barrier was refused: nothing is proven */
};

/* Role. */
static void pass_over(struct larder_cache *cache, struct entry *e)
{
	struct reclaim *r = &cache->reclaim;
	void *array = r->passed;

	if (reserve(&cache->memory, &array, r->passed_count, &r->passed_room, sizeof(r->passed[0]))) {
		r->passed = array;
		r->passed[r->passed_count].entry = e;
		r->passed[r->passed_count].stamp = load_relaxed(&e->stamp);
		r->passed_count++;
	} else {
		r->lost = true;
	}
}

static void visit_nominee(void *arg, uintptr_t address)
{
	struct search *search = arg;
	struct entry *e = (struct entry *)address;

	if (!place_is_ours(&search->cache->places, address) || word_phase(entry_look(e)) != NOMINATED)
		return;
	if (entry_held(e)) {
		pass_over(search->cache, e);
		search->held += (entry_look(e) & ASKERS_MASK) == 0;
	}
}

/* Role.  The kernel refused the barrier (a filter, no memory): whoever is nominated may be pinned. */
static void disprove_all(struct larder_cache *cache)
{
	const struct slab_directory *d = load_acquire(&cache->places.directory);
	uint64_t used = load_acquire(&cache->places.used);

	for (uint64_t i = 0; i < used; i++)
		if (word_phase(entry_look(place_at(d, i))) == NOMINATED)
			entry_unnominate(place_at(d, i));
	cache->reclaim.lost = true; /* they are in no list now */
}

/* Role.  The barrier, and every nominee that a slot holds back to READY | WANTED. */
static uint64_t barrier_and_search(struct larder_cache *cache)
{
	struct search search = { cache, 0, false };

	if (FAULT(FAULT_SEARCH_FIRST))
		pin_search(visit_nominee, &search, false);
	search.blind = !pin_barrier();
	count_one(&cache->reclaim.proofs);
	if (search.blind)
		disprove_all(cache);
	else if (!FAULT(FAULT_SEARCH_FIRST) && !FAULT(FAULT_TAKEN_UNPROVEN))
		pin_search(visit_nominee, &search, false);
	return search.held;
}

/* Role.  Nominate e if it is READY and was not got since it had this stamp. */
static bool nominate(struct reclaim *r, struct entry *e, uint64_t stamp)
{
	if (load_relaxed(&e->stamp) != stamp || !entry_nominate(e))
		return false;
	count_one(&r->nominations);
	return true;
}

/* Role, after the search.  False if the nominee is held, or was got in time. */
static bool prove(struct larder_cache *cache, struct entry *e, uint64_t stamp, struct ticket *ticket)
{
	uint64_t word;

	/*
	 * Got between the look at its stamp and the nomination: whoever did it
	 * stored the new stamp before he ended his pin, so it is visible.
	 */
	if (load_relaxed(&e->stamp) != stamp) {
		if (entry_unnominate(e) && load_relaxed(&e->stamp) <= cache->reclaim.select.low) {
			pass_over(cache, e);
			reclaim_attend(cache);
		}
		return false;
	}
	ticket->entry = e;
	if (entry_prove(e, &ticket->word))
		return true;
	/*
	 * READY with the old stamp: the search found it held; or it was rescued by a
	 * larder_dup(), which is no use, or by a get that has not stamped it yet.  The
	 * search has put the first kind on the list; the others must not be lost.
	 */
	word = entry_look(e);
	if (word_phase(word) == READY && (word & WANTED) == 0 && load_relaxed(&e->stamp) == stamp) {
		pass_over(cache, e);
		reclaim_attend(cache);
	}
	return false;
}

/*
 * Role.  Nominate and prove a batch of the least recent.  The oldest goes to
 * *mine, if that is given, the others into the ring.  False: nothing is READY but
 * what is pinned.
 */
static bool refill(struct larder_cache *cache, struct ticket *mine)
{
	struct reclaim *r = &cache->reclaim;
	uint64_t barren = 0;
	bool any = false;

	/* As many batches as there are entries, all pinned or got again: a complete look is cheaper now. */
	while (!any && barren++ < cache->room.capacity / r->batch + 2) {
		uint64_t n = 0, chosen = 0, stamp;
		struct ticket ticket;
		struct entry *e;

		/* Those that turn out to be pinned come on top of a batch: hence the loop. */
		while (n < r->batch) {
			e = select_next(&r->select, &cache->places, &cache->recency, &stamp);
			if (e == NULL)
				break;
			chosen++;
			if (nominate(r, e, stamp)) {
				r->pend[n].entry = e;
				r->pend[n++].stamp = stamp;
			}
		}
		if (n == 0)
			return false;
		barrier_and_search(cache);
		for (uint64_t i = 0; i < n; i++) {
			if (!prove(cache, r->pend[i].entry, r->pend[i].stamp, &ticket))
				continue;
			if (mine != NULL && !any)
				*mine = ticket;
			else
				ring_push_or_spare(r, ticket);
			any = true;
		}
		select_ahead(&r->select, &cache->places, &cache->recency, chosen);
		if (r->lost) {
			begin_anew(r);
			break;
		}
	}
	return any;
}

/* ---- what was passed over -------------------------------------------------- */

/* Role.  Merge proven tickets, in order of stamp, into the ring. */
static void merge(struct reclaim *r, struct ticket *fresh, uint64_t fresh_count)
{
	struct ticket *old = r->scratch + r->batch;
	uint64_t old_count = 0, i = 0, j = 0;

	/* A stale one has the stamp of a later get: it would spoil the order. */
	while (ring_pop(r, &old[old_count]))
		old_count += entry_is(old[old_count].entry, old[old_count].word);
	while (i < fresh_count || j < old_count) {
		bool take_fresh = j == old_count || (i < fresh_count && load_relaxed(&fresh[i].entry->stamp) <=
										load_relaxed(&old[j].entry->stamp));

		ring_push_or_spare(r, take_fresh ? fresh[i++] : old[j++]);
	}
}

/* Role.  Prove the n nominees in pend and merge them. */
static void prove_and_merge(struct larder_cache *cache, uint64_t n)
{
	struct reclaim *r = &cache->reclaim;
	uint64_t proven = 0;

	barrier_and_search(cache);
	for (uint64_t i = 0; i < n; i++) {
		struct ticket ticket;
		uint64_t j;

		if (!prove(cache, r->pend[i].entry, r->pend[i].stamp, &ticket))
			continue;
		for (j = proven++; j != 0 && load_relaxed(&r->scratch[j - 1].entry->stamp) > r->pend[i].stamp; j--)
			r->scratch[j] = r->scratch[j - 1];
		r->scratch[j] = ticket;
	}
	if (proven != 0)
		merge(r, r->scratch, proven);
}

/* Role.  Something was released that had been passed over: nominate it again. */
static void look_at_passed(struct larder_cache *cache)
{
	struct reclaim *r = &cache->reclaim;
	uint64_t count, kept, n;

	do {
		/*
		 * Cleared first: a release that comes later sets it again, one that
		 * came before is seen below, where its word is read.
		 */
		(void)and_seq_cst(&r->attention, ~ATTEND_CHANGED);
		void_verdict(r);
		count = r->passed_count;
		kept = n = 0;
		for (uint64_t i = 0; i < count; i++) {
			struct passed p = r->passed[i];
			uint64_t word = entry_look(p.entry);

			if (word_phase(word) != READY || load_relaxed(&p.entry->stamp) != p.stamp)
				continue; /* got again, or gone: no business of ours */
			if ((word & WANTED) != 0 || n == r->batch) {
				r->passed[kept++] = p;
			} else if (nominate(r, p.entry, p.stamp)) {
				r->pend[n++] = p;
			}
		}
		r->passed_count = kept;
		if (n != 0)
			prove_and_merge(cache, n);
		if (r->lost)
			begin_anew(r);
	} while (n == r->batch);
}

/* ---- taking --------------------------------------------------------------- */

enum taken { TAKEN, STALE, SAID_NO, TAKE_WISHED, TAKE_NOMEM };

/* Call the predicate, and the destroy callback, with cancellation held back. */
static bool ask(struct larder_cache *cache, void *value)
{
	int state, yes;

	if (cache->idle == NULL)
		return true;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	yes = cache->idle(value, cache->ctx);
	pthread_setcancelstate(state, NULL);
	return yes != 0;
}

void reclaim_destroy(struct larder_cache *cache, void *value)
{
	int state;

	if (cache->destroy == NULL)
		return;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	cache->destroy(value, cache->ctx);
	pthread_setcancelstate(state, NULL);
}

/*
 * Kill the nominee, if the predicate agrees.  Our own pin keeps it from dying while we
 * read its key and its value.  What the caller wishes to load it must not evict: the key
 * may have come, and become a nominee, since he looked.
 */
static enum taken kill_nominee(struct larder_cache *cache, const struct wish *wish, struct ticket *ticket)
{
	struct thread *self = pin_self;
	struct entry *e = ticket->entry;
	slot_t *slot = pin_slot(self);
	enum taken result;
	uintptr_t link;
	uint64_t word;

	if (slot == NULL) {
		/* A ticket must not be lost: let the entry be found by a new scan. */
		lock_enter(&cache->reclaim.role);
		if (entry_spare(e, ticket->word))
			begin_anew(&cache->reclaim);
		lock_leave(&cache->reclaim.role);
		return TAKE_NOMEM;
	}
	/*
	 * First asker, then pin, then the look: an asker keeps a complete look from
	 * counting our pin as a user's, and other holders of the ticket from taking.
	 */
	if (!entry_ask(e, ticket->word) && !FAULT(FAULT_TICKET_UNCHECKED))
		return STALE; /* got or taken */
	link = pin_set(slot, e);
	if (!entry_is(e, ticket->word) && !FAULT(FAULT_TICKET_UNCHECKED)) {
		pin_undo(slot, link);
		word = entry_look(e);
		if (word_phase(word) != READY || (word & WANTED) != 0)
			reclaim_unpinned(e, word);
		entry_unask(e);
		return STALE;
	}
	pin_keep(self, link);
	if (wish != NULL && entry_has_key(e, wish->key, wish->key_len))
		result = TAKE_WISHED; /* without a ticket now, but the caller is about to rescue it */
	else if (!ask(cache, (void *)load_relaxed(&e->value)))
		result = entry_refuse(e, &ticket->word) ? SAID_NO : STALE;
	else if (entry_take(e, ticket->word))
		result = TAKEN;
	else if ((ticket->word & REFUSED) == 0 && entry_refuse(e, &ticket->word))
		result = SAID_NO; /* somebody has not taken back his count yet: ask again later */
	else
		result = STALE; /* got; or another thread is asking, and the ticket is on the list */
	/*
	 * The slot goes first: as long as it holds e the count says whose it is.  And as
	 * long as the count stands nobody takes e, so the word is still its own.
	 */
	reclaim_release(slot, e);
	if (result != TAKEN)
		entry_unask(e);
	return result;
}

/* Honour a ticket.  TAKEN: the value is destroyed and its unit in the caller's hands. */
static enum taken take(struct larder_cache *cache, struct member *member, enum cause cause, const struct wish *wish,
		       struct ticket *ticket)
{
	static const enum counter counters[] = { COUNT_EVICTED_ROOM, COUNT_EVICTED_TRIM, COUNT_EVICTED_AHEAD };
	struct entry *e = ticket->entry;
	enum taken result = kill_nominee(cache, wish, ticket);

	if (result != TAKEN)
		return result;
	table_read_begin();
	table_unlink(&cache->table, e);
	table_read_end();
	member_count(member, counters[cause]);
	reclaim_destroy(cache, (void *)load_relaxed(&e->value));
	member_count(member, COUNT_DESTROYED);
	reclaim_retire(cache, member, e);
	return TAKEN;
}

#define NOT_REMEMBERED UINT64_MAX

/* The predicate said no about a nominee: remember the ticket.  Returns how many there are. */
static uint64_t remember_refused(struct larder_cache *cache, struct ticket ticket)
{
	struct reclaim *r = &cache->reclaim;
	uint64_t count;
	void *array;

	lock_enter(&r->role);
	array = r->refused;
	if (reserve(&cache->memory, &array, r->refused_count, &r->refused_room, sizeof(r->refused[0]))) {
		r->refused = array;
		r->refused[r->refused_count++] = ticket;
		(void)or_acq_rel(&r->attention, ATTEND_REFUSED);
		void_verdict(r);
		count = r->refused_count;
	} else {
		if (entry_spare(ticket.entry, ticket.word))
			begin_anew(r);
		count = NOT_REMEMBERED;
	}
	lock_leave(&r->role);
	return count;
}

/* Role.  Forget refused tickets that are stale, from index i on, until one is not. */
static bool valid_refused(struct reclaim *r, uint64_t i)
{
	while (i < r->refused_count) {
		if (entry_is(r->refused[i].entry, r->refused[i].word))
			return true;
		r->refused[i] = r->refused[--r->refused_count];
	}
	return false;
}

/* Role.  The stamp of the oldest nominee in the ring that is still one; all ones if there is none. */
static uint64_t ring_oldest(struct reclaim *r)
{
	uint64_t head;

	while ((head = load_acquire(&r->head)) != load_acquire(&r->tail)) {
		struct entry *e = (struct entry *)load_relaxed(&r->cell_entry[head & r->mask]);
		uint64_t word = load_relaxed(&r->cell_word[head & r->mask]);
		uint64_t stamp;

		if (load_acquire(&r->head) != head)
			continue;
		stamp = load_relaxed(&e->stamp);
		if (entry_is(e, word))
			return stamp;
		(void)cas_acq_rel(&r->head, &head, head + 1);
	}
	return UINT64_MAX;
}

/*
 * Look at what was passed over, and ask some of the refused again, older ones than
 * the ring's oldest, oldest first.
 */
static enum taken settle(struct larder_cache *cache, struct member *member, enum cause cause, const struct wish *wish)
{
	struct reclaim *r = &cache->reclaim;
	struct ticket asked[ASK_AGAIN];
	uint64_t stamps[ASK_AGAIN], n = 0, oldest;

	lock_enter(&r->role);
	if ((load_acquire(&r->attention) & ATTEND_CHANGED) != 0)
		look_at_passed(cache);
	if (r->refused_count != 0) {
		oldest = ring_oldest(r);
		/* Begun anew just now, perhaps: then some that are READY may be older. */
		if (oldest == UINT64_MAX && !r->verdict_valid && refill(cache, NULL))
			oldest = ring_oldest(r);
		for (uint64_t looked = 0; looked < ASK_AGAIN && looked < r->refused_count;) {
			uint64_t stamp, j;

			if (r->refused_next >= r->refused_count)
				r->refused_next = 0;
			if (!valid_refused(r, r->refused_next))
				continue; /* that was the last one: begin anew, or there is none */
			looked++;
			stamp = load_relaxed(&r->refused[r->refused_next].entry->stamp);
			if (stamp < oldest) {
				for (j = n++; j != 0 && stamps[j - 1] > stamp; j--) {
					stamps[j] = stamps[j - 1];
					asked[j] = asked[j - 1];
				}
				stamps[j] = stamp;
				asked[j] = r->refused[r->refused_next];
			}
			r->refused_next++;
		}
		if (r->refused_count == 0)
			(void)and_seq_cst(&r->attention, ~ATTEND_REFUSED);
	}
	lock_leave(&r->role);
	for (uint64_t i = 0; i < n; i++) {
		enum taken result = take(cache, member, cause, wish, &asked[i]);

		if (result != STALE && result != SAID_NO)
			return result;
	}
	return STALE;
}

/* ---- the verdict ------------------------------------------------------------ */

enum passed_judgement {
	PASS_VERDICT, /* nothing may be idle: the counts are in verdict_* */
	PASS_MINE,    /* *mine is the oldest of what was found idle */
	PASS_AGAIN,   /* much was found idle: the selection begins anew and will find it in order */
};

/* Role.  A complete look: see the essay. */
static enum passed_judgement pass(struct larder_cache *cache, struct ticket *mine)
{
	struct reclaim *r = &cache->reclaim;
	uint64_t used = load_acquire(&cache->places.used), loading = 0, unheld = 0;
	const struct slab_directory *d = load_acquire(&cache->places.directory);
	uint64_t threshold = recency_threshold(&cache->recency);
	bool any = false;

	count_one(&r->verdicts);
	(void)and_seq_cst(&r->attention, ~ATTEND_CHANGED);
	r->passed_count = 0; /* all of them are READY and nominated now */
	for (uint64_t i = 0; i < used; i++) {
		struct entry *e = place_at(d, i);

		switch (word_phase(entry_look(e))) {
		case READY:
			entry_nominate(e);
			break;
		case PROVEN:
			entry_renominate(e);
			break;
		case LOADING:
			entry_want(e);
			break;
		default:
			break;
		}
	}
	r->verdict_pinned = barrier_and_search(cache);
	for (uint64_t i = 0; i < used; i++) {
		struct entry *e = place_at(d, i);
		uint64_t word = entry_look(e);

		if (word_phase(word) == NOMINATED) {
			if (unheld < r->batch) {
				uint64_t stamp = load_relaxed(&e->stamp), j;

				for (j = unheld; j != 0 && r->pend[j - 1].stamp > stamp; j--)
					r->pend[j] = r->pend[j - 1];
				r->pend[j].entry = e;
				r->pend[j].stamp = stamp;
			} else {
				entry_unnominate(e);
			}
			unheld++;
		}
		if (word_phase(word) == READY && (word & WANTED) == 0 && load_relaxed(&e->stamp) <= threshold) {
			pass_over(cache, e);
			reclaim_attend(cache);
		}
		loading += word_phase(word) == LOADING && (word & (WANTED | IN_HAND)) == WANTED;
	}
	r->verdict_loading = loading;
	if (unheld > r->batch) { /* those in pend need not be the oldest */
		for (uint64_t i = 0; i < r->batch; i++)
			entry_unnominate(r->pend[i].entry);
		begin_anew(r);
		return PASS_AGAIN;
	}
	/* Everything up to the threshold is in our hands: held, refused, or proven now. */
	select_from(&r->select, threshold);
	r->verdict_valid = unheld == 0;
	for (uint64_t i = 0; i < unheld; i++) {
		struct ticket ticket;

		if (!prove(cache, r->pend[i].entry, r->pend[i].stamp, &ticket))
			continue;
		if (any)
			ring_push_or_spare(r, ticket);
		else
			*mine = ticket;
		any = true;
	}
	if (r->lost)
		begin_anew(r);
	return unheld == 0 ? PASS_VERDICT : any ? PASS_MINE : PASS_AGAIN;
}

/* Role.  All refused tickets that are not stale, copied; NULL if there are none, *nomem if no memory. */
static struct ticket *copy_refused(struct larder_cache *cache, uint64_t *count, bool *nomem)
{
	struct reclaim *r = &cache->reclaim;
	struct ticket *copy;

	*count = 0;
	*nomem = false;
	if (r->refused_count == 0)
		return NULL;
	copy = memory_get(&cache->memory, r->refused_count * sizeof(*copy), CACHE_LINE);
	if (copy == NULL) {
		*nomem = true;
		return NULL;
	}
	while (valid_refused(r, *count)) {
		copy[*count] = r->refused[*count];
		++*count;
	}
	return copy;
}

enum judged { JUDGED_TAKEN, JUDGED_WISHED, JUDGED_MINE, JUDGED_NONE, JUDGED_UNSURE, JUDGED_AGAIN, JUDGED_NOMEM };

/*
 * The role is held, and given up.  The ring is empty and the selection exhausted, or
 * an earlier verdict holds.
 */
static enum judged judge(struct larder_cache *cache, struct member *member, enum cause cause, const struct wish *wish,
			 struct larder_refusal *refusal, struct ticket *mine)
{
	struct reclaim *r = &cache->reclaim;
	uint64_t count, room, sum, number;
	struct ticket *copy;
	enum judged result = JUDGED_NONE;
	bool nomem, stale = false;

	if (!r->verdict_valid) {
		enum passed_judgement found = pass(cache, mine);

		if (found != PASS_VERDICT) {
			lock_leave(&r->role);
			return found == PASS_MINE ? JUDGED_MINE : JUDGED_AGAIN;
		}
	}
	number = load_relaxed(&r->verdict_number);
	refusal->pinned = r->verdict_pinned;
	refusal->loading = r->verdict_loading;
	refusal->refused = 0;
	refusal->in_transit = 0;
	room = r->refused_count;
	copy = copy_refused(cache, &count, &nomem);
	lock_leave(&r->role);
	if (nomem)
		return JUDGED_NOMEM;
	for (uint64_t i = 0; i < count && result == JUDGED_NONE; i++) {
		switch (take(cache, member, cause, wish, &copy[i])) {
		case TAKEN:
			result = JUDGED_TAKEN;
			break;
		case SAID_NO:
			refusal->refused++;
			break;
		case TAKE_NOMEM:
			result = JUDGED_NOMEM;
			break;
		case TAKE_WISHED:
			result = JUDGED_WISHED;
			break;
		default:
			stale = true;
		}
	}
	memory_put(&cache->memory, copy, room * sizeof(*copy), CACHE_LINE);
	if (result != JUDGED_NONE)
		return result;
	sum = refusal->pinned + refusal->loading + refusal->refused;
	/* Acquire: an end that happened before is seen, or it came after m. */
	if (!stale && load_acquire(&r->verdict_number) == number &&
	    (load_acquire(&r->attention) & ATTEND_CHANGED) == 0) {
		uint64_t free = room_free(&cache->room);

		/* Who trims does not want a free unit; they only have to be accounted for. */
		if (sum + free == cache->room.capacity && (free == 0 || cause != CAUSE_ROOM))
			return JUDGED_NONE;
	}
	if (sum < cache->room.capacity)
		refusal->in_transit = cache->room.capacity - sum;
	lock_enter(&r->role);
	void_verdict(r);
	lock_leave(&r->role);
	return JUDGED_UNSURE;
}

/* ---- making room -------------------------------------------------------------- */

/* Less than a batch is left: refill without waiting for the role. */
static void refill_early(struct larder_cache *cache)
{
	struct reclaim *r = &cache->reclaim;

	if (ring_count(r) >= r->batch || !lock_try(&r->role))
		return;
	if (ring_count(r) < r->batch && !r->verdict_valid)
		(void)refill(cache, NULL);
	lock_leave(&r->role);
}

/* Everything that was found idle was got again before it could be taken, over and over. */
static enum evicted restless(const struct larder_cache *cache, struct larder_refusal *refusal)
{
	memset(refusal, 0, sizeof(*refusal));
	refusal->in_transit = cache->room.capacity;
	return EVICT_BUSY;
}

enum evicted reclaim_evict(struct larder_cache *cache, struct member *member, enum cause cause, const struct wish *wish,
			   struct larder_refusal *refusal)
{
	struct reclaim *r = &cache->reclaim;
	unsigned unsure = 0, looks = 0;
	uint64_t stale = 0, remembered;
	bool asked = false;

	for (;;) {
		enum taken result = STALE;
		uint32_t attention;
		struct ticket ticket;

		if (cause == CAUSE_ROOM && room_take(&cache->room))
			return EVICTED;
		attention = load_acquire(&r->attention);
		if ((attention & ATTEND_CHANGED) != 0 || ((attention & ATTEND_REFUSED) != 0 && !asked)) {
			asked = true;
			result = settle(cache, member, cause, wish);
		}
		if (result == STALE) {
			if (ring_pop(r, &ticket)) {
				refill_early(cache);
			} else {
				lock_enter(&r->role);
				if (ring_count(r) != 0 || (load_acquire(&r->attention) & ATTEND_CHANGED) != 0 ||
				    (cause == CAUSE_ROOM && room_free(&cache->room) != 0)) {
					lock_leave(&r->role); /* it changed while we waited */
					continue;
				}
				if (!r->verdict_valid && refill(cache, &ticket)) {
					lock_leave(&r->role);
				} else {
					switch (judge(cache, member, cause, wish, refusal, &ticket)) {
					case JUDGED_MINE:
						break;
					case JUDGED_TAKEN:
						return EVICTED;
					case JUDGED_WISHED:
						return EVICT_WISHED;
					case JUDGED_NONE:
						return EVICT_BUSY;
					case JUDGED_NOMEM:
						return EVICT_NOMEM;
					case JUDGED_UNSURE:
						if (++unsure == LOOKS)
							return EVICT_BUSY;
						sched_yield(); /* let those who hold units get on */
						continue;
					case JUDGED_AGAIN:
						if (++looks < LOOKS_AT_ALL)
							continue;
						return restless(cache, refusal);
					}
				}
			}
			result = take(cache, member, cause, wish, &ticket);
		}
		switch (result) {
		case TAKEN:
			return EVICTED;
		case TAKE_WISHED:
			return EVICT_WISHED;
		case TAKE_NOMEM:
			return EVICT_NOMEM;
		case SAID_NO:
			remembered = remember_refused(cache, ticket);
			if (remembered == NOT_REMEMBERED)
				return EVICT_NOMEM; /* or it would be selected and asked over and over */
			/* Few enough to ask all: one of them may be older than what is next in the ring. */
			if (remembered <= ASK_AGAIN)
				asked = false;
			break;
		case STALE:
			if (++stale > STALE_MAX + cache->room.capacity)
				return restless(cache, refusal);
			break;
		}
	}
}

void reclaim_attend(struct larder_cache *cache)
{
	(void)or_seq_cst(&cache->reclaim.attention, ATTEND_CHANGED);
}

NOINLINE void reclaim_unpinned(struct entry *e, uint64_t word)
{
	/*
	 * NOMINATED: the search may have seen our pin, or may not; LEFT tells the role
	 * that what it saw is old.  READY and WANTED: it has seen it; the flag goes, so
	 * that one release is enough.  PROVEN: it has not seen it.
	 */
	for (;;) {
		bool nominee = word_phase(word) == NOMINATED;

		if (!nominee && (word_phase(word) != READY || (word & WANTED) == 0))
			return;
		/*
		 * Before the mark changes: or a request that comes in between would trust a
		 * verdict that counts e as pinned.  And after it: or who looks in between
		 * would see e still marked and not look again.
		 */
		reclaim_attend(place_owner(e));
		if (nominee ? entry_leave(e, &word) : entry_unwant(e, &word))
			break;
	}
	reclaim_attend(place_owner(e));
}

/* ---- places ---------------------------------------------------------------------- */

/*
 * A slot holds a failed or dead place: mark it.  Only who has the grace lock touches
 * the mark in these phases.
 */
static void visit_dead(void *arg, uintptr_t address)
{
	struct entry *e = (struct entry *)address;
	enum phase phase;

	if (!place_is_ours(arg, address))
		return;
	phase = word_phase(entry_look(e));
	if (phase == FAILED || phase == DEAD)
		store_relaxed(&e->held, 1);
}

static bool is_held(struct entry *e)
{
	bool held = load_relaxed(&e->held) != 0;

	store_relaxed(&e->held, 0);
	return held;
}

static bool is_kept(struct entry *e)
{
	(void)e;
	return true;
}

/*
 * A grace period for the retired places.  Not under the role: a reader that is
 * stopped inside its section must not stop those who need victims.  `wait`: also if
 * another thread is at it.
 */
static void grace(struct larder_cache *cache, bool wait)
{
	struct places *places = &cache->places;
	struct entry *list;

	if (wait)
		lock_enter(&places->grace_lock);
	else if (!lock_try(&places->grace_lock))
		return;
	list = place_take_retired(places);
	if (list != NULL) {
		table_grace();
		if (pin_barrier()) {
			pin_search(visit_dead, places, false);
			place_free(places, list, is_held);
		} else {
			place_free(places, list, is_kept);
		}
		count_one(&cache->reclaim.graces);
	}
	lock_leave(&places->grace_lock);
}

static uint64_t retired(struct larder_cache *cache)
{
	return load_relaxed(&cache->places.retired_count);
}

struct entry *reclaim_place(struct larder_cache *cache, struct member *member)
{
	struct entry *e = place_get(&cache->places, &member->share, false);

	if (LIKELY(e != NULL))
		return e;
	/* At the limit, or no memory: what is retired first, then more than the limit. */
	grace(cache, true);
	return place_get(&cache->places, &member->share, true);
}

void reclaim_retire(struct larder_cache *cache, struct member *member, struct entry *e)
{
	/*
	 * Who retires frees.  The keeper could, on another processor; but then each of
	 * its barriers interrupts this one and each of ours that one: 1,097 against 250
	 * ns a request, one thread, capacity 187, 86 % misses (oltp, 2-core virtual machine).
	 */
	if (place_retire(&cache->places, &member->share, e))
		grace(cache, false);
}

/* ---- background work ---------------------------------------------------------------- */

bool reclaim_has_work(struct larder_cache *cache)
{
	return retired(cache) >= 2 * cache->places.retire_limit || room_free(&cache->room) < cache->room.headroom;
}

bool reclaim_work(struct larder_cache *cache, struct member *member, bool all)
{
	struct reclaim *r = &cache->reclaim;
	struct larder_refusal refusal;

	if (room_free(&cache->room) < cache->room.headroom &&
	    reclaim_evict(cache, member, CAUSE_AHEAD, NULL, &refusal) == EVICTED) {
		room_give(&cache->room);
		return true;
	}
	if (retired(cache) >= (all ? 1 : cache->places.retire_limit)) {
		uint64_t before = retired(cache);

		grace(cache, false);
		if (retired(cache) < before)
			return true;
	}
	if (room_free(&cache->room) == 0 && ring_count(r) < r->batch && lock_try(&r->role)) {
		bool filled = ring_count(r) < r->batch && !r->verdict_valid && refill(cache, NULL);

		lock_leave(&r->role);
		return filled;
	}
	return false;
}

/* ---- counting pins -------------------------------------------------------------------- */

struct pins {
	const struct places *places;
	uint64_t pins, loads;
};

static void visit_pin(void *arg, uintptr_t address)
{
	struct pins *pins = arg;

	if (!place_is_ours(pins->places, address))
		return;
	if (word_phase(entry_look((struct entry *)address)) == LOADING)
		pins->loads++; /* its leader's and its followers' */
	else
		pins->pins++;
}

void reclaim_count_pins(struct larder_cache *cache, uint64_t *pins, uint64_t *loads, uint64_t *leaving)
{
	struct pins held = { &cache->places, 0, 0 }, left = { &cache->places, 0, 0 };

	pin_search(visit_pin, &held, false);
	*pins = held.pins;
	*loads = held.loads;
	if (leaving != NULL) {
		pin_search(visit_pin, &left, true);
		*leaving = left.pins + left.loads;
	}
}
