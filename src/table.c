/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * table.c - the hash table, and the only caller of liburcu.
 *
 * liburcu 0.13 orders its readers and grace periods by means that a thread
 * sanitizer does not see.  A build for one (LARDER_TSAN) tells it: what a section
 * did lies before its end, and the end of a grace period lies after that.  It is
 * not told that a section's begin comes after anything: that would order all
 * readers, and hide our own faults.
 */
#include "table.h"

#include <pthread.h>
#include <urcu/urcu-bp.h>

#ifdef LARDER_TSAN
void __tsan_acquire(void *address);
void __tsan_release(void *address);
static char grace_mark;
#define SECTION_ENDS() __tsan_release(&grace_mark)
#define GRACE_ENDS() __tsan_acquire(&grace_mark)
#else
#define SECTION_ENDS() ((void)0)
#define GRACE_ENDS() ((void)0)
#endif

/* Twice the capacity, so that chains are short; once above this, to save memory. */
#define DOUBLE_UP_TO 65536

static uint64_t table_buckets(uint64_t capacity)
{
	uint64_t wanted = capacity <= DOUBLE_UP_TO ? 2 * capacity : capacity, n = 8;

	while (n < wanted)
		n *= 2;
	return n;
}

bool table_setup(struct table *table, struct memory *memory, uint64_t capacity)
{
	uint64_t n = table_buckets(capacity);

	table->bucket = memory_get(memory, (size_t)n * sizeof(table->bucket[0]), CACHE_LINE);
	table->mask = n - 1;
	return table->bucket != NULL;
}

void table_close(struct table *table, struct memory *memory)
{
	memory_put(memory, (void *)table->bucket, (size_t)(table->mask + 1) * sizeof(table->bucket[0]), CACHE_LINE);
}

void table_read_begin(void)
{
	urcu_bp_read_lock();
}

void table_read_end(void)
{
	SECTION_ENDS();
	urcu_bp_read_unlock();
}

void table_grace(void)
{
	int state;

	if (FAULT(FAULT_NO_GRACE))
		return;
	/* It may sleep in poll(), which is a cancellation point, with liburcu's lock held. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	urcu_bp_synchronize_rcu();
	pthread_setcancelstate(state, NULL);
	GRACE_ENDS();
}

static struct entry *find_from(uintptr_t link, uint64_t hash, const void *key, size_t key_len)
{
	struct entry *e;

	for (; (e = link_entry(link)) != NULL; link = table_next(e)) {
		enum phase phase;

		if (!link_matches(link, hash))
			continue;
		phase = word_phase(entry_look(e));
		if (phase != FREE && phase != FAILED && phase != DEAD && entry_has_key(e, key, key_len))
			return e;
	}
	return NULL;
}

struct entry *table_find(const struct table *table, uint64_t hash, const void *key, size_t key_len)
{
	return find_from(table_first(table, hash), hash, key, key_len);
}

struct entry *table_insert(struct table *table, uint64_t hash, struct entry *e)
{
	_Atomic(uintptr_t) *bucket = &table->bucket[hash & table->mask];
	uintptr_t link = ((uintptr_t)e & LINK_ADDRESS) | (hash & LINK_HASH), head = load_acquire(bucket);

	e->bucket = (uint32_t)(hash & table->mask);
	for (;;) {
		struct entry *other = find_from(head, hash, entry_key(e), e->key_len);

		if (other != NULL)
			return other;
		if (FAULT(FAULT_INSERT_UNSEARCHED))
			head = load_acquire(bucket);
		/* Release: a hit that still stands on this place may follow the link. */
		store_release(&e->next, head);
		if (cas_acq_rel(bucket, &head, link))
			return NULL;
	}
}

void table_unlink(struct table *table, struct entry *e)
{
	_Atomic(uintptr_t) *bucket = &table->bucket[e->bucket], *before;
	uintptr_t link, next;

	(void)or_acq_rel(&e->next, LINK_MARK); /* nothing is linked behind e any more */
again:
	before = bucket;
	for (link = load_acquire(before); link_entry(link) != NULL;) {
		struct entry *x = link_entry(link);

		next = load_acquire(&x->next);
		if ((next & LINK_MARK) == 0) {
			before = &x->next;
			link = next;
			continue;
		}
		/* If before was marked or changed, this fails: from the bucket again. */
		if (!cas_acq_rel(before, &link, next & ~LINK_MARK))
			goto again;
		if (x == e)
			return;
		link = next & ~LINK_MARK;
	}
}
