/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * cache.h - a cache: what the modules above the table share.
 *
 * The first lines are read by every hit and written by none after opening.
 */
#ifndef LARDER_CACHE_H
#define LARDER_CACHE_H

#include <larder.h>

#include "member.h"
#include "park.h"
#include "recency.h"
#include "room.h"
#include "select.h"
#include "table.h"

struct ticket {
	struct entry *entry;
	uint64_t word; /* the exact word of the proven nominee */
};

/* A growing array; what it holds belongs to the role. */
struct passed {
	struct entry *entry;
	uint64_t stamp;
};

struct reclaim {
	/* The ring of proven nominees: filled by the role, emptied by anybody. */
	FAR_APART _Atomic(uint64_t) head;
	FAR_APART _Atomic(uint64_t) tail;
	_Atomic(uint32_t) attention; /* ATTEND_* */
	uint64_t mask;               /* cells less 1 */
	uint64_t batch;
	_Atomic(uintptr_t) *cell_entry;
	_Atomic(uint64_t) *cell_word;
	/* The role of reclaimer. */
	FAR_APART struct lock role;
	struct select select;
	struct passed *passed; /* READY | WANTED: pinned when they were nominated */
	uint64_t passed_count, passed_room;
	bool lost;              /* one more should be on the list, but there was no memory */
	struct ticket *refused; /* PROVEN | REFUSED: the predicate said no */
	uint64_t refused_count, refused_room, refused_next;
	bool verdict_valid;
	uint64_t verdict_pinned, verdict_loading;
	_Atomic(uint64_t) verdict_number; /* raised whenever a verdict becomes void */
	struct ticket *scratch;           /* as many as the ring has cells, and a batch */
	struct passed *pend;              /* nominated, not proven yet; a batch */
	_Atomic(uint64_t) nominations, proofs, graces, verdicts;
};

struct keeper;

struct larder_cache {
	struct table table;
	uint64_t id;
	uint64_t seed;
	larder_hash_fn *hash;
	void *ctx;
	larder_idle_fn *idle;
	larder_destroy_fn *destroy;
	_Atomic(uint32_t) closing;
	struct keeper *keeper; /* NULL: none */
	FAR_APART struct recency recency;
	FAR_APART struct room room;
	struct reclaim reclaim;
	FAR_APART struct members members;
	struct places places;
	struct memory memory;
	/* keeper.c */
	FAR_APART _Atomic(uint32_t) work; /* there is something for the keeper to do */
	struct larder_cache *next_kept;   /* the keeper's lock */
	/* larder.c */
	struct lock baseline_lock;
	uint64_t baseline[COUNTERS];
	uint64_t baseline_machinery[5];
	_Atomic(uint64_t) unrecorded_nomem; /* refused before the thread had a record */
};

#endif
