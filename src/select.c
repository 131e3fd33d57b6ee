/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * select.c - choosing victims.  The essay is in select.h.
 */
#include "select.h"

#include <stdlib.h>

#include "pin.h"

#define SAMPLE 64
#define SHARE 8          /* a list is about an eighth of the entries */
#define SMALL_CACHE 2048 /* up to so many places a list is all there is: sorting is cheap, scans are not repeated */

void select_setup(struct select *select, struct memory *memory)
{
	select->memory = memory;
	select->list = select->small[0];
	select->next = select->small[1];
	select->room = SELECT_SMALL;
	select->random = UINT64_C(88172645463325252);
}

static void drop_arrays(struct select *select)
{
	if (select->room == SELECT_SMALL)
		return;
	memory_put(select->memory, select->list, select->room * sizeof(*select->list), CACHE_LINE);
	memory_put(select->memory, select->next, select->room * sizeof(*select->next), CACHE_LINE);
}

void select_close(struct select *select)
{
	drop_arrays(select);
}

void select_from(struct select *select, uint64_t low)
{
	select->low = select->listed = low;
	select->count = select->eaten = select->next_count = 0;
	select->scanning = false;
}

static uint64_t next_random(struct select *select)
{
	/* xorshift64 (G. Marsaglia, 2003) */
	select->random ^= select->random << 13;
	select->random ^= select->random >> 7;
	select->random ^= select->random << 17;
	return select->random;
}

/* May it be listed?  What is WANTED and was listed before is on the list of those passed over. */
static bool ready(const struct select *select, const struct entry *e, uint64_t *stamp)
{
	uint64_t word = entry_look(e);

	if (word_phase(word) != READY)
		return false;
	*stamp = load_relaxed(&((struct entry *)(uintptr_t)e)->stamp);
	return *stamp > select->low && ((word & WANTED) == 0 || *stamp > select->listed);
}

static int by_stamp(const void *a, const void *b)
{
	uint64_t x = ((const struct candidate *)a)->stamp, y = ((const struct candidate *)b)->stamp;

	return x < y ? -1 : x > y;
}

/* Both arrays empty of use: make them as large as the cache deserves, if memory is to be had. */
static void grow(struct select *select, uint64_t used)
{
	uint64_t wanted = used <= SMALL_CACHE ? 2 * used : used / (SHARE / 2) + SELECT_SMALL;
	struct candidate *list, *next;

	if (used <= SELECT_SMALL || select->room >= (used <= SMALL_CACHE ? used : used / SHARE + SELECT_SMALL) ||
	    select->count != select->eaten)
		return;
	list = memory_get(select->memory, wanted * sizeof(*list), CACHE_LINE);
	next = memory_get(select->memory, wanted * sizeof(*next), CACHE_LINE);
	if (list == NULL || next == NULL) {
		memory_put(select->memory, list, wanted * sizeof(*list), CACHE_LINE);
		memory_put(select->memory, next, wanted * sizeof(*next), CACHE_LINE);
		return; /* smaller lists do as well, only oftener */
	}
	drop_arrays(select);
	select->list = list;
	select->next = next;
	select->room = wanted;
	select->count = select->eaten = 0;
}

/* A stamp below which about one entry in SHARE lies, or the threshold. */
static uint64_t quantile(struct select *select, const struct places *places, uint64_t used, uint64_t threshold)
{
	const struct slab_directory *d = load_acquire(&((struct places *)(uintptr_t)places)->directory);
	uint64_t sample[SAMPLE], stamp, n = 0;

	for (unsigned i = 0; i < SAMPLE; i++) {
		uint64_t j;

		if (!ready(select, place_at(d, next_random(select) % used), &stamp))
			continue;
		for (j = n++; j != 0 && sample[j - 1] > stamp; j--)
			sample[j] = sample[j - 1];
		sample[j] = stamp;
	}
	return n >= SHARE ? sample[n / SHARE - 1] : threshold;
}

static void scan_begin(struct select *select, const struct places *places, struct recency *recency)
{
	uint64_t used = load_acquire(&((struct places *)(uintptr_t)places)->used), threshold;

	grow(select, used);
	threshold = recency_threshold(recency);
	select->high = used <= SMALL_CACHE ? threshold : quantile(select, places, used, threshold);
	select->whole = select->high == threshold;
	if (!select->whole)
		(void)pin_barrier(); /* a hit that stored its stamp before it could see the new epoch: it is visible now
				      */
	select->tied = false;
	select->next_count = 0;
	select->scanned = 0;
	select->scanning = true;
}

/* The list is full: keep its older half.  Stamps may tie; then fewer or more than half stay. */
static void halve(struct select *select)
{
	uint64_t kept = 0, high;

	qsort(select->next, select->next_count, sizeof(select->next[0]), by_stamp);
	high = select->next[select->next_count / 2].stamp;
	select->whole = false;
	if (high == select->next[0].stamp) {
		/*
		 * More than half are equally old, and equal stamps have no order:
		 * any of them may go first.  Keep half; take_list() sees to it that
		 * the next scan looks at this stamp again.
		 */
		select->next_count /= 2;
		select->high = high;
		select->tied = true;
		return;
	}
	while (select->next[kept].stamp < high)
		kept++;
	select->next_count = kept;
	select->high = high - 1;
	select->tied = false;
}

static void scan_on(struct select *select, const struct places *places, uint64_t n)
{
	uint64_t used = load_acquire(&((struct places *)(uintptr_t)places)->used);
	const struct slab_directory *d = load_acquire(&((struct places *)(uintptr_t)places)->directory);
	uint64_t end = n < used - select->scanned ? select->scanned + n : used, stamp;

	for (; select->scanned < end; select->scanned++) {
		struct entry *e = place_at(d, select->scanned);

		__builtin_prefetch(e + 12);
		if (!ready(select, e, &stamp) || stamp > select->high)
			continue;
		if (select->next_count == select->room)
			halve(select);
		if (stamp > select->high)
			continue;
		select->next[select->next_count].stamp = stamp;
		select->next[select->next_count].place = (uint32_t)select->scanned;
		select->next_count++;
	}
	if (select->scanned == used)
		select->scanning = false;
}

/* Sort a by stamp, using b; the result is in the one that is returned. */
static struct candidate *sort(struct candidate *a, struct candidate *b, uint64_t n)
{
	uint64_t varying = 0, first;

	if (n < 64) {
		for (uint64_t i = 1; i < n; i++) {
			struct candidate c = a[i];
			uint64_t j = i;

			for (; j != 0 && a[j - 1].stamp > c.stamp; j--)
				a[j] = a[j - 1];
			a[j] = c;
		}
		return a;
	}
	first = a[0].stamp;
	for (uint64_t i = 1; i < n; i++)
		varying |= a[i].stamp ^ first;
	/* Least significant digit first, 8 bits at a time, over the bits that vary. */
	for (unsigned shift = 0; shift < 64 && varying >> shift != 0; shift += 8) {
		uint64_t start[256] = { 0 }, sum = 0;
		struct candidate *t = a;

		if (((varying >> shift) & 0xff) == 0)
			continue;
		for (uint64_t i = 0; i < n; i++)
			start[(a[i].stamp >> shift) & 0xff]++;
		for (unsigned digit = 0; digit < 256; digit++) {
			uint64_t count = start[digit];

			start[digit] = sum;
			sum += count;
		}
		for (uint64_t i = 0; i < n; i++)
			b[start[(a[i].stamp >> shift) & 0xff]++] = a[i];
		a = b;
		b = t;
	}
	return a;
}

/* The scan is over: its list becomes the one that is eaten. */
static void take_list(struct select *select)
{
	struct candidate *other = select->list, *sorted = sort(select->next, other, select->next_count);

	select->next = sorted == select->next ? other : select->next;
	select->list = sorted;
	select->count = select->next_count;
	select->eaten = 0;
	select->next_count = 0;
	select->low = select->tied ? select->high - 1 : select->high;
	if (select->listed < select->low)
		select->listed = select->low;
}

struct entry *select_next(struct select *select, const struct places *places, struct recency *recency, uint64_t *stamp)
{
	const struct slab_directory *d;

	while (select->eaten == select->count) {
		bool now = !select->scanning && select->next_count == 0;

		if (now)
			scan_begin(select, places, recency);
		if (select->scanning)
			scan_on(select, places, UINT64_MAX);
		/* A whole scan that began earlier does not know what was got since. */
		if (select->next_count == 0 && select->whole && now)
			return NULL;
		take_list(select);
	}
	d = load_acquire(&((struct places *)(uintptr_t)places)->directory);
	*stamp = select->list[select->eaten].stamp;
	return place_at(d, select->list[select->eaten++].place);
}

void select_ahead(struct select *select, const struct places *places, struct recency *recency, uint64_t victims)
{
	if (load_relaxed(&((struct places *)(uintptr_t)places)->used) <= SMALL_CACHE)
		return;
	if (!select->scanning && select->next_count == 0)
		scan_begin(select, places, recency);
	if (select->scanning)
		scan_on(select, places, victims * (SHARE + 2));
}
