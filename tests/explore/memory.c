/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * memory.c - which values may a load see, and is there a data race?
 *
 * The heap and the subject's static data are watched, stacks are not.
 *
 * Clocks.  Thread t counts its own progress in now[t].of[t], a step for each
 * operation that publishes something.  now[t].of[u] is how much of thread u happens
 * before thread t's present (C11, 5.1.2.4).  A release store leaves the clock with
 * the value; an acquire load that reads it joins the clock.  Read-modify-writes
 * continue a release sequence; relaxed loads and stores count when a fence follows
 * or precedes, as in C11.  Sequentially consistent operations have one order, that
 * of execution; a sequentially consistent read-modify-write is NOT a fence for the
 * accesses around it, in C11 nor here.
 *
 * Stale values.  Memory itself always holds the latest value.  Beside it each
 * atomic location has the last HISTORY stores.  A load may return any of them unless
 *   - a later one happens before the load, or was stored by this very thread;
 *   - this thread, or a read that happens before this load, has read a later one;
 *   - a fence (seq_cst) after the later store came before a fence of this thread
 *     ("visible" is "now", and what fences add to it);
 *   - both are seq_cst.
 * Which one is sched.c's choice.  Read-modify-writes read the latest; a
 * compare-and-swap that fails reads like a load, so it may fail on a stale value.
 *
 * Races.  For each group of bytes that are always accessed together there is the
 * last plain write, and for each thread its last plain read and atomic access.  Two
 * accesses of which one writes and one is plain, neither before the other: reported,
 * in whatever order the schedule had them.  Freeing counts as a write.
 *
 * Shared locations.  Where a schedule begins, most atomic objects that exist are a
 * thread's own, or are never written while threads run (slots of pins that nobody
 * uses, counters).  Which ones are shared is learned from some schedules of the
 * scenario; at others the order of steps makes no difference, and runtime.c does
 * not call them scheduling points.  DFS begins anew when it learns of another.
 *
 * The heap hands out addresses upwards and never again in the same schedule, with
 * space between blocks: an access to freed memory or beside a block is reported,
 * atomic or not.
 *
 * NOT simulated: loads that return a value which a later step of the schedule
 * stores (load buffering), an order of stores to one location other than that of
 * execution, consume (is acquire), stores older than HISTORY, atomics of 16 bytes,
 * atomics of different sizes on the same bytes (reported), anything about memory that
 * is not watched (a thread's stack is taken to be its own), plain reads of old values
 * (a race is reported instead).  The kernel's look at a futex word reads the latest
 * value and orders nothing.
 */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HISTORY 8u
#define ARENA_BASE ((uintptr_t)0x010000000000)
#define ARENA_SIZE ((size_t)16 << 20)
#define GAP 64
#define GRANULE 8
#define BLOCKS 4096
#define GRANULES 65536
#define SEGMENTS 65536
#define LOCATIONS 8192

struct store {
	uint64_t value;
	int by;              /* thread, or -1: was there when the schedule began */
	uint32_t at;         /* its clock */
	uint32_t sequential; /* place in the order of seq_cst operations, or 0 */
	struct clock release;
	uint32_t seen[THREADS]; /* who has read it, when first; 0: not */
};

/* The atomic object at an address. */
struct location {
	struct location *next;
	uint8_t offset, size;
	uint8_t users; /* threads, a bit each */
	bool stored;
	uint32_t count; /* of stores; the last HISTORY are kept */
	struct store store[HISTORY];
};

/* Bytes of one granule that have been accessed together only. */
struct segment {
	struct segment *next;
	uint8_t mask;
	int8_t write_by; /* -1: nobody */
	uint32_t write_at;
	uint32_t read_at[THREADS], atomic_at[THREADS], atomic_write_at[THREADS];
	const void *write_pc, *read_pc[THREADS], *atomic_pc[THREADS];
};

struct block {
	uintptr_t address;
	size_t size;
	enum heap heap;
	bool freed;
	const void *freed_pc;
	unsigned freed_by;
};

/* Eight bytes. */
struct granule {
	uint32_t *home;
	struct block *block;
	struct segment *segments;
	struct location *locations;
};

struct region {
	uintptr_t begin;
	size_t size;
	uint32_t *map; /* granule of address, plus 1; 0: none yet */
	bool *shared;  /* several threads use an atomic object there, and one writes */
};

extern char subject_data_begin[], subject_data_end[], subject_bss_begin[], subject_bss_end[];

struct watched watched[REGIONS];
static struct region regions[REGIONS]; /* the heap first */
static bool *freed;                    /* for each granule of the heap */

static struct granule granule[GRANULES];
static struct segment segment[SEGMENTS];
static struct location location[LOCATIONS];
static struct block block[BLOCKS];
static uint32_t granules, segments, locations, blocks;
static uintptr_t arena_next;
static struct block *last_block;
static uintptr_t arena_threads; /* from here on: allocated while threads run */
static bool learning, learned;

static struct clock now[THREADS];      /* what happens before a thread's present */
static struct clock visible[THREADS];  /* what a thread's loads must not miss: at least `now` */
static struct clock acquired[THREADS]; /* from relaxed loads, for an acquire fence to come */
static struct clock fenced[THREADS];   /* `now` at the last release fence */
static struct clock sequential_fences; /* joined by all seq_cst fences so far */
static uint32_t sequential_count;      /* seq_cst operations so far */
static uint32_t sequential_fence_at[THREADS];
static struct {
	struct clock call, answers;
} barrier[THREADS];

/* ---- clocks ---- */

void memory_join(struct clock *into, const struct clock *from)
{
	for (unsigned i = 0; i < THREADS; i++)
		if (from->of[i] > into->of[i])
			into->of[i] = from->of[i];
}

static void learn(unsigned t, const struct clock *c)
{
	memory_join(&now[t], c);
	memory_join(&visible[t], c);
}

static void tick(unsigned t)
{
	visible[t].of[t] = ++now[t].of[t];
}

static bool acquires(int order)
{
	return order == CONSUME || order == ACQUIRE || order == ACQ_REL || order == SEQ_CST;
}

static bool releases(int order)
{
	return order == RELEASE || order == ACQ_REL || order == SEQ_CST;
}

static void full_fence(unsigned t)
{
	memory_join(&now[t], &acquired[t]);
	memory_join(&visible[t], &now[t]);
	memory_join(&visible[t], &sequential_fences);
	memory_join(&sequential_fences, &visible[t]);
	sequential_fence_at[t] = ++sequential_count;
	fenced[t] = now[t];
	tick(t);
}

void memory_release(struct clock *clock)
{
	if (serial)
		return;
	memory_join(clock, &now[current]);
	tick(current);
}

void memory_acquire(const struct clock *clock)
{
	if (!serial)
		learn(current, clock);
}

void memory_fence(int order)
{
	unsigned t = current;

	if (serial)
		return;
	if (order == SEQ_CST) {
		full_fence(t);
		return;
	}
	if (acquires(order))
		learn(t, &acquired[t]);
	if (releases(order)) {
		fenced[t] = now[t];
		tick(t);
	}
}

/*
 * The process-wide barrier is a handshake: what the caller did before the call comes
 * before the rest of the other thread, and what that did before it was interrupted
 * comes before the return.  Nothing orders two of the others.
 */
void memory_barrier_begin(unsigned caller)
{
	full_fence(caller);
	barrier[caller].call = fenced[caller];
	memset(&barrier[caller].answers, 0, sizeof(barrier[caller].answers));
}

void memory_barrier_deliver(unsigned caller, unsigned thread)
{
	learn(thread, &barrier[caller].call);
	full_fence(thread);
	memory_join(&barrier[caller].answers, &fenced[thread]);
}

void memory_barrier_end(unsigned caller)
{
	learn(caller, &barrier[caller].answers);
	full_fence(caller);
}

/* ---- what is watched ---- */

static inline struct region *region_of(uintptr_t a)
{
	for (unsigned i = 0; i < REGIONS; i++)
		if (a - watched[i].begin < watched[i].size)
			return &regions[i];
	return NULL;
}

static struct block *block_at(uintptr_t a)
{
	uint32_t low = 0, high = blocks;

	if (last_block != NULL && a - last_block->address < last_block->size)
		return last_block;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (block[middle].address + block[middle].size <= a)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == blocks || a < block[low].address)
		return NULL;
	last_block = &block[low];
	return last_block;
}

const char *heap_name(const void *p, char *buffer, size_t size)
{
	static const char *const kind[HEAPS] = { "process", "cache", "value" };
	struct block *b = block_at((uintptr_t)p);

	if (b == NULL)
		snprintf(buffer, size, "%p", p);
	else
		snprintf(buffer, size, "%s#%u(%zu)+%zu", kind[b->heap], (unsigned)(b - block), b->size,
			 (size_t)((uintptr_t)p - b->address));
	return buffer;
}

static void check_block(const struct block *b, const void *p, const void *pc)
{
	char name[64];

	if (b == NULL)
		explore_fail("access outside any block, at %s", trace_place(pc));
	if (b->freed)
		explore_fail("use after free of %s at %s, freed by T%u at %s", heap_name(p, name, sizeof(name)),
			     trace_place(pc), b->freed_by, trace_place(b->freed_pc));
}

static struct granule *granule_at(struct region *r, uintptr_t a, const void *pc)
{
	uint32_t *home = &r->map[(a - r->begin) / GRANULE];
	struct granule *g;

	if (*home != 0) {
		g = &granule[*home - 1];
	} else {
		if (granules == GRANULES)
			explore_fail("the explorer itself: too many granules");
		g = &granule[granules++];
		*home = granules;
		g->home = home;
		g->segments = NULL;
		g->locations = NULL;
		g->block = r == &regions[0] ? block_at(a) : NULL;
	}
	if (r == &regions[0] && (g->block == NULL || g->block->freed))
		check_block(g->block, (const void *)a, pc);
	return g;
}

/* ---- races ---- */

enum access { READ, WRITE, ATOMIC_READ, ATOMIC_WRITE };

static void race(const char *what, unsigned other, const void *other_pc, const char *mine, const void *p,
		 const void *pc)
{
	char name[64];

	explore_fail("data race on %s: %s by T%u at %s, %s at %s", heap_name(p, name, sizeof(name)), what, other,
		     trace_place(other_pc), mine, trace_place(pc));
}

static void check_segment(struct segment *s, enum access access, const void *p, const void *pc)
{
	static const char *const name[] = { "read", "write", "atomic read", "atomic write" };
	unsigned t = current;

	if (s->write_by >= 0 && s->write_by != (int)t && s->write_at > now[t].of[s->write_by])
		race("write", (unsigned)s->write_by, s->write_pc, name[access], p, pc);
	if (access == WRITE || access == ATOMIC_WRITE)
		for (unsigned u = 0; u < THREADS; u++)
			if (u != t && s->read_at[u] > now[t].of[u])
				race("read", u, s->read_pc[u], name[access], p, pc);
	if (access == WRITE)
		for (unsigned u = 0; u < THREADS; u++)
			if (u != t && s->atomic_at[u] > now[t].of[u])
				race("atomic access", u, s->atomic_pc[u], name[access], p, pc);
	if (access == READ)
		for (unsigned u = 0; u < THREADS; u++)
			if (u != t && s->atomic_write_at[u] > now[t].of[u])
				race("atomic write", u, s->atomic_pc[u], name[access], p, pc);
	switch (access) {
	case READ:
		s->read_at[t] = now[t].of[t];
		s->read_pc[t] = pc;
		break;
	case WRITE:
		s->write_by = (int8_t)t;
		s->write_at = now[t].of[t];
		s->write_pc = pc;
		break;
	case ATOMIC_WRITE:
		s->atomic_write_at[t] = now[t].of[t];
		/* fall through */
	case ATOMIC_READ:
		s->atomic_at[t] = now[t].of[t];
		s->atomic_pc[t] = pc;
		break;
	}
}

static struct segment *segment_new(struct granule *g, uint8_t mask, const struct segment *like)
{
	struct segment *s;

	if (segments == SEGMENTS)
		explore_fail("the explorer itself: too many segments");
	s = &segment[segments++];
	if (like != NULL) {
		*s = *like;
	} else {
		memset(s, 0, sizeof(*s));
		s->write_by = -1;
	}
	s->mask = mask;
	s->next = g->segments;
	g->segments = s;
	return s;
}

static void access_granule(struct granule *g, uint8_t mask, enum access access, const void *p, const void *pc)
{
	for (struct segment *s = g->segments; s != NULL && mask != 0; s = s->next) {
		uint8_t common = s->mask & mask;

		if (common == 0)
			continue;
		if (common != s->mask) {
			/* Split: the part that this access leaves alone goes on by itself. */
			segment_new(g, s->mask & (uint8_t)~mask, s);
			s->mask = common;
		}
		check_segment(s, access, p, pc);
		mask &= (uint8_t)~common;
	}
	if (mask != 0)
		check_segment(segment_new(g, mask, NULL), access, p, pc);
}

static uint8_t mask_of(unsigned offset, size_t n)
{
	return (uint8_t)((n >= GRANULE ? 0xffu : (1u << n) - 1) << offset);
}

/* A plain write ends the history of what it writes to. */
static void forget_locations(struct granule *g, unsigned offset, size_t n)
{
	for (struct location **l = &g->locations; *l != NULL;) {
		if ((*l)->offset < offset + n && offset < (unsigned)(*l)->offset + (*l)->size)
			*l = (*l)->next;
		else
			l = &(*l)->next;
	}
}

void memory_plain(const void *p, size_t n, bool write, const void *pc)
{
	uintptr_t a = (uintptr_t)p, end = a + n;
	struct region *r = region_of(a);

	if (r == NULL || n == 0)
		return;
	if (serial) {
		if (r == &regions[0] && freed[(a - r->begin) / GRANULE])
			check_block(block_at(a), p, pc);
		return;
	}
	while (a < end) {
		unsigned offset = a % GRANULE;
		size_t part = GRANULE - offset < end - a ? GRANULE - offset : end - a;
		struct granule *g = granule_at(r, a, pc);

		access_granule(g, mask_of(offset, part), write ? WRITE : READ, p, pc);
		if (write && g->locations != NULL)
			forget_locations(g, offset, part);
		a += part;
	}
}

/* ---- atomics ---- */

static uint64_t get(const void *p, unsigned size)
{
	switch (size) {
	case 1:
		return *(const volatile uint8_t *)p;
	case 2:
		return *(const volatile uint16_t *)p;
	case 4:
		return *(const volatile uint32_t *)p;
	default:
		return *(const volatile uint64_t *)p;
	}
}

static void put(void *p, unsigned size, uint64_t v)
{
	switch (size) {
	case 1:
		*(volatile uint8_t *)p = (uint8_t)v;
		break;
	case 2:
		*(volatile uint16_t *)p = (uint16_t)v;
		break;
	case 4:
		*(volatile uint32_t *)p = (uint32_t)v;
		break;
	default:
		*(volatile uint64_t *)p = v;
		break;
	}
}

uint32_t memory_peek32(const void *p)
{
	struct region *r = region_of((uintptr_t)p);

	if (r == &regions[0])
		check_block(block_at((uintptr_t)p), p, __builtin_return_address(0));
	return (uint32_t)get(p, 4);
}

static void note_use(struct region *r, uintptr_t a, struct location *l, bool write)
{
	bool *shared = &r->shared[(a - r->begin) / GRANULE];

	l->users |= (uint8_t)(1u << current);
	l->stored |= write;
	if (learning && !*shared && l->stored && (l->users & (l->users - 1)) != 0) {
		*shared = true;
		learned = true;
	}
}

bool memory_shared(const void *p)
{
	uintptr_t a = (uintptr_t)p;
	struct region *r = region_of(a);

	if (r == NULL || (r == &regions[0] && a >= arena_threads))
		return true;
	return r->shared[(a - r->begin) / GRANULE];
}

void memory_unlearn(void)
{
	for (unsigned i = 0; i < REGIONS; i++)
		memset(regions[i].shared, 0, regions[i].size / GRANULE + 1);
}

void memory_learn(bool on)
{
	learning = on;
	learned = false;
}

bool memory_has_learned(void)
{
	bool was = learned;

	learned = false;
	return was;
}

void memory_threads_begin(void)
{
	arena_threads = arena_next;
}

/* The location at p, or NULL if it is not watched. */
static struct location *location_at(const void *p, unsigned size, bool write, const void *pc)
{
	uintptr_t a = (uintptr_t)p;
	struct region *r = region_of(a);
	unsigned offset = a % GRANULE;
	struct location *l;
	struct granule *g;

	if (r == NULL)
		return NULL;
	if (a % size != 0)
		explore_fail("atomic access that is not aligned, at %s", trace_place(pc));
	g = granule_at(r, a, pc);
	access_granule(g, mask_of(offset, size), write ? ATOMIC_WRITE : ATOMIC_READ, p, pc);
	for (l = g->locations; l != NULL; l = l->next) {
		if (l->offset == offset && l->size == size) {
			note_use(r, a, l, write);
			return l;
		}
		if (l->offset < offset + size && offset < (unsigned)l->offset + l->size)
			explore_fail("atomic accesses of different sizes, at %s", trace_place(pc));
	}
	if (locations == LOCATIONS)
		explore_fail("the explorer itself: too many atomic locations");
	l = &location[locations++];
	l->next = g->locations;
	g->locations = l;
	l->offset = (uint8_t)offset;
	l->size = (uint8_t)size;
	l->count = 1;
	l->users = 0;
	l->stored = false;
	note_use(r, a, l, write);
	memset(&l->store[0], 0, sizeof(l->store[0]));
	l->store[0].value = get(p, size);
	l->store[0].by = -1;
	return l;
}

/* Must thread t's load not miss this store? */
static bool must_see(const struct store *s, unsigned t, int order)
{
	if (s->by < 0 || s->at <= visible[t].of[s->by] || s->seen[t] != 0)
		return true;
	if (s->sequential != 0 && (order == SEQ_CST || s->sequential <= sequential_fence_at[t]))
		return true;
	if (order == SEQ_CST && s->at <= sequential_fences.of[s->by])
		return true;
	for (unsigned u = 0; u < THREADS; u++)
		if (s->seen[u] != 0 && s->seen[u] <= visible[t].of[u])
			return true;
	return false;
}

/* How many older stores than the latest a load of thread t may return. */
static uint32_t may_lag(const struct location *l, unsigned t, int order)
{
	uint32_t kept = l->count < HISTORY ? l->count : HISTORY, lag = 0;

	while (lag + 1 < kept && !must_see(&l->store[(l->count - 1 - lag) % HISTORY], t, order))
		lag++;
	return lag;
}

static uint64_t read_store(struct location *l, uint32_t lag, unsigned t, int order)
{
	struct store *s = &l->store[(l->count - 1 - lag) % HISTORY];

	if (s->seen[t] == 0)
		s->seen[t] = now[t].of[t];
	if (acquires(order))
		learn(t, &s->release);
	else
		memory_join(&acquired[t], &s->release);
	if (order == SEQ_CST)
		sequential_count++;
	return s->value;
}

static void add_store(struct location *l, unsigned t, uint64_t v, int order, const struct clock *sequence)
{
	struct store *s = &l->store[l->count++ % HISTORY];

	memset(s, 0, sizeof(*s));
	s->value = v;
	s->by = (int)t;
	s->at = now[t].of[t];
	s->seen[t] = now[t].of[t];
	if (sequence != NULL)
		s->release = *sequence;
	memory_join(&s->release, releases(order) ? &now[t] : &fenced[t]);
	if (order == SEQ_CST)
		s->sequential = ++sequential_count;
	tick(t);
}

uint64_t memory_load(const void *p, unsigned size, int order, const void *pc)
{
	struct location *l = location_at(p, size, false, pc);
	uint32_t lag;
	uint64_t v;

	if (l == NULL)
		return get(p, size);
	lag = may_lag(l, current, order);
	if (lag != 0)
		lag = sched_choose_stale(lag + 1);
	v = read_store(l, lag, current, order);
	if (tracing)
		trace_event(lag != 0 ? "load (old)" : "load", p, v, get(p, size), order, pc);
	return v;
}

void memory_store(void *p, unsigned size, uint64_t v, int order, const void *pc)
{
	struct location *l = location_at(p, size, true, pc);

	if (tracing)
		trace_event("store", p, v, get(p, size), order, pc);
	if (l != NULL)
		add_store(l, current, v, order, NULL);
	put(p, size, v);
}

uint64_t memory_rmw(void *p, unsigned size, enum rmw op, uint64_t v, int order, const void *pc)
{
	struct location *l = location_at(p, size, true, pc);
	uint64_t old = get(p, size), new = v;

	switch (op) {
	case RMW_EXCHANGE:
		break;
	case RMW_ADD:
		new = old + v;
		break;
	case RMW_SUB:
		new = old - v;
		break;
	case RMW_AND:
		new = old &v;
		break;
	case RMW_OR:
		new = old | v;
		break;
	case RMW_XOR:
		new = old ^ v;
		break;
	case RMW_NAND:
		new = ~(old & v);
		break;
	}
	if (tracing)
		trace_event("change", p, old, new, order, pc);
	if (l != NULL) {
		struct clock sequence = l->store[(l->count - 1) % HISTORY].release;

		(void)read_store(l, 0, current, order);
		add_store(l, current, new, order, &sequence);
	}
	put(p, size, new);
	return old;
}

bool memory_cas(void *p, unsigned size, uint64_t *expected, uint64_t desired, int order, int failure, bool weak,
		const void *pc)
{
	struct location *l = location_at(p, size, true, pc);
	uint64_t old = get(p, size), limit = size == 8 ? UINT64_MAX : (UINT64_C(1) << 8 * size) - 1;
	struct clock sequence;

	*expected &= limit;
	if (l == NULL) {
		bool equal = old == *expected;

		*expected = old;
		if (equal)
			put(p, size, desired);
		return equal;
	}
	if (old != *expected || (weak && sched_chance(8))) {
		*expected = read_store(l, 0, current, failure);
		if (tracing)
			trace_event("cas (failed)", p, old, desired, failure, pc);
		return false;
	}
	/* A load that fails the comparison may be an old one. */
	if (may_lag(l, current, failure) != 0) {
		uint32_t lag = sched_choose_stale(may_lag(l, current, failure) + 1);

		if (lag != 0 && l->store[(l->count - 1 - lag) % HISTORY].value != *expected) {
			*expected = read_store(l, lag, current, failure);
			if (tracing)
				trace_event("cas (failed, old)", p, *expected, desired, failure, pc);
			return false;
		}
	}
	if (tracing)
		trace_event("cas", p, old, desired, order, pc);
	sequence = l->store[(l->count - 1) % HISTORY].release;
	(void)read_store(l, 0, current, order);
	add_store(l, current, desired, order, &sequence);
	put(p, size, desired);
	return true;
}

/* ---- the heap ---- */

void *explore_alloc(size_t size, size_t align, enum heap heap)
{
	uintptr_t a;
	struct block *b;

	if (align < 16)
		align = 16;
	a = (arena_next + GAP + align - 1) & ~(uintptr_t)(align - 1);
	if (blocks == BLOCKS || a + size > ARENA_BASE + ARENA_SIZE)
		explore_fail("the explorer itself: the heap is full");
	arena_next = a + size;
	b = &block[blocks++];
	memset(b, 0, sizeof(*b));
	b->address = a;
	b->size = size;
	b->heap = heap;
	if (tracing)
		trace_event("alloc", (void *)a, size, heap, 0, __builtin_return_address(0));
	return (void *)a;
}

void explore_free(void *ptr, enum heap heap)
{
	const void *pc = __builtin_return_address(0);
	struct block *b;

	if (ptr == NULL)
		return;
	b = block_at((uintptr_t)ptr);
	if (b == NULL || b->address != (uintptr_t)ptr)
		explore_fail("free of what was not allocated, at %s", trace_place(pc));
	if (b->freed)
		explore_fail("double free at %s, freed first by T%u at %s", trace_place(pc), b->freed_by,
			     trace_place(b->freed_pc));
	if (b->heap != heap)
		explore_fail("freed to another heap than it came from, at %s", trace_place(pc));
	if (!serial) {
		/* Whoever touched it must have done so before; what nobody touched need not be looked at. */
		for (uintptr_t i = b->address & ~(uintptr_t)(GRANULE - 1); i < b->address + b->size; i += GRANULE) {
			uint32_t g = regions[0].map[(i - regions[0].begin) / GRANULE];

			for (struct segment *s = g != 0 ? granule[g - 1].segments : NULL; s != NULL; s = s->next)
				check_segment(s, WRITE, ptr, pc);
		}
	}
	if (tracing)
		trace_event("free", ptr, b->size, heap, 0, pc);
	memset(&freed[(b->address - ARENA_BASE) / GRANULE], true, (b->size + GRANULE - 1) / GRANULE);
	b->freed = true;
	b->freed_by = current;
	b->freed_pc = pc;
}

size_t explore_live(enum heap heap)
{
	size_t n = 0;

	for (uint32_t i = 0; i < blocks; i++)
		n += block[i].heap == heap && !block[i].freed;
	return n;
}

size_t explore_live_bytes(enum heap heap)
{
	size_t n = 0;

	for (uint32_t i = 0; i < blocks; i++)
		n += block[i].heap == heap && !block[i].freed ? block[i].size : 0;
	return n;
}

/* ---- once, and for each schedule ---- */

static void *map_pages(void *address, size_t size)
{
	void *p = mmap(address, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED) {
		fprintf(stderr, "explore: no memory\n");
		exit(2);
	}
	return p;
}

static void region_setup(unsigned i, uintptr_t begin, uintptr_t end)
{
	struct region *r = &regions[i];

	r->begin = begin & ~(uintptr_t)(GRANULE - 1);
	r->size = end - r->begin;
	r->map = map_pages(NULL, (r->size / GRANULE + 1) * sizeof(uint32_t));
	r->shared = map_pages(NULL, r->size / GRANULE + 1);
	watched[i].begin = r->begin;
	watched[i].size = r->size;
}

void memory_setup(void)
{
	uintptr_t arena = (uintptr_t)map_pages((void *)ARENA_BASE, ARENA_SIZE);

	if (arena != ARENA_BASE) {
		fprintf(stderr, "explore: the address of the heap is taken\n");
		exit(2);
	}
	freed = map_pages(NULL, ARENA_SIZE / GRANULE);
	region_setup(0, arena, arena + ARENA_SIZE);
	region_setup(1, (uintptr_t)subject_data_begin, (uintptr_t)subject_data_end);
	region_setup(2, (uintptr_t)subject_bss_begin, (uintptr_t)subject_bss_end);
}

void memory_begin(void)
{
	for (uint32_t i = 0; i < granules; i++)
		*granule[i].home = 0;
	for (uint32_t i = 0; i < blocks; i++) {
		memset((void *)block[i].address, 0, block[i].size);
		if (block[i].freed)
			memset(&freed[(block[i].address - ARENA_BASE) / GRANULE], false,
			       (block[i].size + GRANULE - 1) / GRANULE);
	}
	granules = segments = locations = blocks = 0;
	last_block = NULL;
	arena_next = ARENA_BASE;
	for (unsigned t = 0; t < THREADS; t++) {
		memset(&now[t], 0, sizeof(now[t]));
		now[t].of[t] = 1;
		visible[t] = now[t];
		memset(&acquired[t], 0, sizeof(acquired[t]));
		memset(&fenced[t], 0, sizeof(fenced[t]));
		sequential_fence_at[t] = 0;
	}
	memset(&sequential_fences, 0, sizeof(sequential_fences));
	sequential_count = 0;
}
