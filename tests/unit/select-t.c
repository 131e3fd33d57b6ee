/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * select-t.c - P8: select_next() gives every READY entry once, oldest first, also while
 * entries are got between its calls, with equal stamps, with lists too small for what a
 * bad guess puts into them, and without memory for larger lists.
 */
#include "../../src/select.h"

#include <stdlib.h>

#include "../lib/tap.h"

static struct memory memory;
static struct places places;
static struct recency recency;
static struct recency_view view;
static struct place_share share;
static struct select selection;
static bool memory_is_out;

static void *test_alloc(size_t size, size_t align, void *ctx)
{
	void *p;

	(void)ctx;
	if (memory_is_out)
		return NULL;
	p = aligned_alloc(align, size);
	if (p != NULL)
		memset(p, 0, size);
	return p;
}

static void test_free(void *p, size_t size, void *ctx)
{
	(void)size, (void)ctx;
	free(p);
}

static void begin(unsigned n)
{
	memset(&memory, 0, sizeof(memory));
	memset(&places, 0, sizeof(places));
	memset(&recency, 0, sizeof(recency));
	memset(&share, 0, sizeof(share));
	memset(&selection, 0, sizeof(selection));
	memory.alloc = test_alloc;
	memory.free = test_free;
	memory_is_out = false;
	place_setup(&places, &memory, NULL, n);
	recency_setup(&recency, n);
	recency_view_setup(&view);
	select_setup(&selection, &memory);
	for (unsigned i = 0; i < n; i++) {
		struct entry *e = place_get(&places, &share, true);

		must(e != NULL);
		entry_begin(e);
		store_relaxed(&e->stamp, 0);
		recency_touch(&recency, &view, e);
		entry_publish(e);
	}
}

static void end(void)
{
	select_close(&selection);
	place_close(&places);
}

/* Take all, getting one in `every` again meanwhile; how many came out of order, or not at all. */
static unsigned take_all(unsigned n, unsigned every)
{
	uint64_t stamp, last = 0, random = 12345;
	unsigned wrong = 0, taken = 0;
	struct entry *e;

	while ((e = select_next(&selection, &places, &recency, &stamp)) != NULL) {
		if (load_relaxed(&e->stamp) != stamp || word_phase(entry_look(e)) != READY)
			continue; /* got meanwhile: the caller forgets it */
		wrong += stamp < last;
		last = stamp;
		entry_nominate(e);
		taken++;
		if (every != 0 && taken % every == 0) {
			const struct slab_directory *d = load_relaxed(&places.directory);
			struct entry *again = place_at(d, (random = random * 6364136223846793005u + 1) % n);

			if (word_phase(entry_look(again)) == READY)
				recency_touch(&recency, &view, again);
		}
		if (taken % 16 == 0)
			select_ahead(&selection, &places, &recency, 16);
	}
	return wrong + (n - taken);
}

int main(void)
{
	static const unsigned sizes[] = { 1, 2, 3, 63, 64, 65, 500, 3000, 20000 };
	uint64_t stamp;
	unsigned n;

	plan(2 * sizeof(sizes) / sizeof(sizes[0]) + 4);
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		begin(sizes[i]);
		is_int(take_all(sizes[i], 0), 0, "P8: %u entries come oldest first, each once", sizes[i]);
		end();
		begin(sizes[i]);
		is_int(take_all(sizes[i], 3), 0, "P8: %u entries, some got meanwhile, too", sizes[i]);
		end();
	}

	begin(3000);
	memory_is_out = true;
	is_int(take_all(3000, 5), 0, "P16: also without memory for larger lists");
	is_int(selection.room, SELECT_SMALL, "they stayed small");
	memory_is_out = false;
	end();

	/* All equally old: any order, but every one of them. */
	begin(3000);
	for (unsigned i = 0; i < 3000; i++)
		store_relaxed(&place_at(load_relaxed(&places.directory), i)->stamp, 1 << SEQUENCE_BITS);
	is_int(take_all(3000, 0), 0, "3,000 entries with one stamp all come");
	for (n = 0; select_next(&selection, &places, &recency, &stamp) != NULL; n++)
		;
	is_int(n, 0, "and then none");
	end();
	return done();
}
