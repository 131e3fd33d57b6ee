/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * table.h - key to entry: a chained hash table under RCU.
 *
 *   bucket ---> entry.next ---> entry.next ---> 0
 *     |
 *     link = hash bits 48..63 | address bits 1..47 | mark
 *
 * A link carries 16 bits of the hash of the entry that it points to, so a
 * foreign entry is passed without a look at its key.  The mark, in entry.next,
 * says that the entry which holds this link is being unlinked.
 *
 * Insertion is one compare-and-swap at the bucket after the chain under that
 * very head was searched.  Entries are inserted nowhere else and an entry's
 * memory is not used again within a read-side section, so an unchanged head means
 * that no key was added meanwhile: one key never has two entries that can be hit.
 * Removal marks entry.next and then swings the predecessor's link past it,
 * helping with any marked entry on the way, until a pass from the bucket no
 * longer meets the entry (T. Harris, "A pragmatic implementation of non-blocking
 * linked lists", DISC 2001; M. Michael, SPAA 2002).
 *
 * Read side.  Whoever inserts, unlinks, or searches for a key that a hit did not
 * find does so inside a read-side section of liburcu's bp flavour (any thread, no
 * registration).  An unlinked entry's place is used again only after a grace
 * period (table_grace) and a search of the pins.  liburcu is called by function:
 * none of its code is inlined into ours.  These functions are its only callers.
 *
 * A hit needs no section: see larder.c.
 *
 * Orders: links are stored with release by compare-and-swap and read with
 * acquire, so whoever meets an entry sees its key.
 */
#ifndef LARDER_TABLE_H
#define LARDER_TABLE_H

#include "entry.h"
#include "memory.h"

#define LINK_MARK ((uintptr_t)1)
#define LINK_ADDRESS ((uintptr_t)0x0000fffffffffffe)
#define LINK_HASH (~(uintptr_t)0 << 48)

struct table {
	_Atomic(uintptr_t) *bucket;
	uint64_t mask;
};

HIDDEN bool table_setup(struct table *table, struct memory *memory, uint64_t capacity);
HIDDEN void table_close(struct table *table, struct memory *memory);

HIDDEN void table_read_begin(void);
HIDDEN void table_read_end(void);
/* Wait until all read-side sections that exist now have ended.  Not inside one. */
HIDDEN void table_grace(void);

/*
 * Inside a read-side section.  The entry of a key that is neither failed nor
 * dead, or NULL.  Its phase may change at once: pin it and look again.
 */
HIDDEN struct entry *table_find(const struct table *table, uint64_t hash, const void *key, size_t key_len);
/* Inside a section.  Insert e, whose key is set, or return the entry that its key has already. */
HIDDEN struct entry *table_insert(struct table *table, uint64_t hash, struct entry *e);
/* Inside a section.  e is failed or dead; on return no link leads to it. */
HIDDEN void table_unlink(struct table *table, struct entry *e);

static inline struct entry *link_entry(uintptr_t link)
{
	return (struct entry *)(link & LINK_ADDRESS);
}

static inline bool link_matches(uintptr_t link, uint64_t hash)
{
	return (link ^ hash) >> 48 == 0;
}

static inline uintptr_t table_first(const struct table *table, uint64_t hash)
{
	return load_acquire(&table->bucket[hash & table->mask]);
}

static inline uintptr_t table_next(const struct entry *e)
{
	return load_acquire(&((struct entry *)(uintptr_t)e)->next) & ~LINK_MARK;
}

/*
 * For bench/ (defined in larder.c): the least that a hit in this layout can do, hash,
 * chain and key, without pin, stamp and counters.  The value, or NULL.
 */
struct larder_cache;
HIDDEN const void *table_floor(struct larder_cache *cache, const void *key, size_t key_len);

#endif
