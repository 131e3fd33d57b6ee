/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * selftest.c - does the explorer see what it should, and nothing else?
 *
 * Litmus tests of C11's memory model, and one program for each kind of report.  For
 * many there are two: one in which the outcome must be found, one in which an order,
 * a fence, a barrier or a grace period forbids it.
 */
#include "selftest.h"

#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RLX memory_order_relaxed
#define ACQ memory_order_acquire
#define REL memory_order_release
#define AR memory_order_acq_rel
#define SC memory_order_seq_cst
#define load(p, o) atomic_load_explicit(p, o)
#define store(p, v, o) atomic_store_explicit(p, v, o)
#define fence(o) atomic_thread_fence(o)

/* liburcu's, by function, as the library calls them. */
void urcu_bp_read_lock(void);
void urcu_bp_read_unlock(void);
void urcu_bp_synchronize_rcu(void);

static _Atomic uint64_t x, y, counts[2];
static uint64_t plain, r[6];
static _Atomic uint32_t word;

static void light(void)
{
	atomic_signal_fence(SC);
}

static void membarrier(void)
{
	(void)syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}

static long sleep_on(uint32_t expected)
{
	return syscall(SYS_futex, &word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected, NULL, NULL,
		       FUTEX_BITSET_MATCH_ANY);
}

static void wake(int count)
{
	(void)syscall(SYS_futex, &word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, count, NULL, NULL, 0);
}

/* ---- store buffering: may both miss the other's store? ---- */

#define BUFFERING(name, mine, between, others) \
	static void name##_0(void)             \
	{                                      \
		store(&x, 1, mine);            \
		between;                       \
		r[0] = load(&y, others);       \
	}                                      \
	static void name##_1(void)             \
	{                                      \
		store(&y, 1, mine);            \
		between;                       \
		r[1] = load(&x, others);       \
	}

static void both_missed(void)
{
	if (r[0] == 0 && r[1] == 0)
		explore_fail("both missed");
}

BUFFERING(sb_plain, RLX, light(), RLX)
BUFFERING(sb_release, REL, light(), ACQ)
BUFFERING(sb_fence, RLX, fence(SC), RLX)
BUFFERING(sb_sc, SC, light(), SC)
/* Each adds to a word of its own: to the same one, the second would read from the first. */
BUFFERING(sb_rmw, RLX, (void)atomic_fetch_add_explicit(&counts[explore_self()], 1, SC), RLX)

static void sb_heavy(void)
{
	store(&y, 1, RLX);
	membarrier();
	r[1] = load(&x, RLX);
}

static void sb_heavy_missing(void)
{
	store(&y, 1, RLX);
	r[1] = load(&x, RLX);
}

static void sb_heavy_early(void)
{
	membarrier();
	store(&y, 1, RLX);
	r[1] = load(&x, RLX);
}

/* ---- message passing ---- */

#define PASSING(name, send, receive)                    \
	static void name##_0(void)                      \
	{                                               \
		plain = 42;                             \
		send;                                   \
	}                                               \
	static void name##_1(void)                      \
	{                                               \
		uint64_t seen;                          \
		receive;                                \
		if (seen != 0 && plain != 42)           \
			explore_fail("an old message"); \
	}

PASSING(mp_relaxed, store(&x, 1, RLX), seen = load(&x, ACQ))
PASSING(mp_unacquired, store(&x, 1, REL), seen = load(&x, RLX))
PASSING(mp_right, store(&x, 1, REL), seen = load(&x, ACQ))
PASSING(mp_fences, fence(REL); store(&x, 1, RLX), seen = load(&x, RLX); fence(ACQ))
PASSING(mp_cas, uint64_t zero = 0;
	(void)atomic_compare_exchange_strong_explicit(&x, &zero, 1, AR, ACQ), seen = load(&x, ACQ))

#define PASSING_ATOMIC(name, send, receive) \
	static void name##_0(void)          \
	{                                   \
		store(&y, 1, RLX);          \
		store(&x, 1, send);         \
	}                                   \
	static void name##_1(void)          \
	{                                   \
		r[0] = load(&x, receive);   \
		r[1] = load(&y, RLX);       \
	}

static void old_message(void)
{
	if (r[0] == 1 && r[1] == 0)
		explore_fail("an old message");
}

PASSING_ATOMIC(mpa_relaxed, RLX, ACQ)
PASSING_ATOMIC(mpa_right, REL, ACQ)

/* A release sequence goes on through another thread's relaxed read-modify-write. */
static void sequence_1(void)
{
	(void)atomic_fetch_add_explicit(&x, 1, RLX);
}

static void sequence_2(void)
{
	if (load(&x, ACQ) == 2 && plain != 42)
		explore_fail("an old message");
}

static void sequence_0(void)
{
	plain = 42;
	store(&x, 1, REL);
}

/* ---- coherence ---- */

static void two_stores(void)
{
	store(&x, 1, RLX);
	store(&x, 2, RLX);
}

static void two_loads(void)
{
	r[0] = load(&x, RLX);
	r[1] = load(&x, RLX);
	if (r[0] > r[1])
		explore_fail("back in time");
}

static void stale_load(void)
{
	r[0] = load(&x, RLX);
	r[1] = 1;
}

/* It is possible to read an old value although the newest is there. */
static void first_stores(void)
{
	store(&y, 1, RLX);
	store(&x, 1, RLX);
}

static void reads_backwards(void)
{
	if (load(&x, RLX) == 1 && load(&y, RLX) == 0)
		explore_fail("out of order");
}

/* ---- independent reads of independent writes ---- */

static void write_x(void)
{
	store(&x, 1, SC);
}

static void write_y(void)
{
	store(&y, 1, SC);
}

#define READER(name, first, second, at, order)   \
	static void name(void)                   \
	{                                        \
		r[at] = load(first, order);      \
		r[at + 1] = load(second, order); \
	}
READER(iriw_acq_0, &x, &y, 0, ACQ)
READER(iriw_acq_1, &y, &x, 2, ACQ)
READER(iriw_sc_0, &x, &y, 0, SC)
READER(iriw_sc_1, &y, &x, 2, SC)

static void disagree(void)
{
	if (r[0] == 1 && r[1] == 0 && r[2] == 1 && r[3] == 0)
		explore_fail("readers disagree");
}

/* ---- every interleaving ---- */

static void lossy_add(void)
{
	uint64_t v = load(&x, ACQ);

	store(&x, v + 1, REL);
}

static void lost_add(void)
{
	if (load(&x, RLX) == 1)
		explore_fail("an addition was lost");
}

static void add(void)
{
	(void)atomic_fetch_add_explicit(&x, 1, RLX);
}

/* ---- races and memory ---- */

static struct {
	_Atomic uint64_t pair;
	uint8_t bytes[8];
} packed;

static void write_low(void)
{
	packed.bytes[0] = 1;
	packed.bytes[1] = 1;
}

static void write_high(void)
{
	packed.bytes[2] = 1;
	memset(&packed.bytes[4], 1, 4);
}

static void write_across(void)
{
	memset(&packed.bytes[1], 1, 2);
}

static void write_plain(void)
{
	plain = 1;
}

static void read_plain(void)
{
	r[0] = plain;
}

static void mixed(void)
{
	(void)load((_Atomic uint32_t *)(void *)&packed.pair, RLX);
}

static void whole(void)
{
	store(&packed.pair, 1, RLX);
}

static _Atomic(uint64_t *) pointer;

static void make_object(void)
{
	uint64_t *object = malloc(sizeof(*object));

	*object = 42;
	store(&pointer, object, REL);
}

static void read_object(void)
{
	uint64_t *object;

	urcu_bp_read_lock();
	object = load(&pointer, ACQ);
	if (object != NULL)
		EXPLORE_CHECK(*object == 42);
	urcu_bp_read_unlock();
}

static void free_object(void)
{
	uint64_t *object = load(&pointer, RLX);

	store(&pointer, NULL, REL);
	urcu_bp_synchronize_rcu();
	free(object);
}

static void free_object_early(void)
{
	uint64_t *object = load(&pointer, RLX);

	store(&pointer, NULL, REL);
	free(object);
}

static void free_twice(void)
{
	free(load(&pointer, ACQ));
}

static void beyond(void)
{
	volatile uint8_t *bytes = malloc(24);

	bytes[24] = 1;
}

static void open_section(void)
{
	urcu_bp_read_lock();
	(void)load(&x, RLX);
}

static void sleeps_in_section(void)
{
	urcu_bp_read_lock();
	(void)sleep_on(0);
	urcu_bp_read_unlock();
}

static void wakes_one(void)
{
	wake(1);
}

/* ---- sleeping ---- */

static void waits(void)
{
	while (atomic_load_explicit(&word, ACQ) == 0)
		(void)sleep_on(0);
}

static void sets_and_wakes(void)
{
	store(&word, 1, REL);
	wake(2);
}

static void sets_and_wakes_one(void)
{
	store(&word, 1, REL);
	wake(1);
}

static void wakes_and_sets(void)
{
	wake(2);
	store(&word, 1, REL);
}

static void passes_on(void)
{
	waits();
	wake(1);
}

static void spins(void)
{
	while (load(&x, RLX) == 0)
		;
}

static void yields(void)
{
	while (load(&x, ACQ) == 0)
		sched_yield();
}

static void sets_x(void)
{
	store(&x, 1, REL);
}

static void lives(void)
{
	(void)load(&y, RLX);
}

/* ---- what belongs to a thread ---- */

static _Thread_local uint64_t own;
static pthread_key_t key;

static void thread_ends(void *arg)
{
	(void)atomic_fetch_add_explicit((_Atomic uint64_t *)arg, 1, RLX);
}

static void make_key(void)
{
	EXPLORE_CHECK(pthread_key_create(&key, thread_ends) == 0);
}

static void uses_own(void)
{
	EXPLORE_CHECK(own == 0);
	own = explore_self() + 1;
	EXPLORE_CHECK(pthread_getspecific(key) == NULL);
	EXPLORE_CHECK(pthread_setspecific(key, &x) == 0);
	(void)atomic_fetch_add_explicit(&y, 1, RLX);
	EXPLORE_CHECK(own == explore_self() + 1);
}

static void both_ended(void)
{
	EXPLORE_CHECK(load(&x, RLX) == 2);
	EXPLORE_CHECK(own == 0);
}

static void cleaned(uint64_t *flag)
{
	(void)flag;
	store(&x, 1, RLX);
}

static void unwinds(void)
{
	uint64_t guard __attribute__((cleanup(cleaned), unused)) = 0;

	if (load(&y, RLX) == 0)
		explore_leave();
	explore_fail("came back");
}

static void was_cleaned(void)
{
	EXPLORE_CHECK(load(&x, RLX) == 1);
}

static void sends(void)
{
	plain = 42;
	explore_send(0, &plain);
}

static void receives(void)
{
	EXPLORE_CHECK(*(uint64_t *)explore_receive(0) == 42);
}

static void crashes(void)
{
	*(volatile uint64_t *)(uintptr_t)16 = 1;
}

#define TEST_2(n, w, p, a, b, f, found)                                                                          \
	{                                                                                                        \
		.scenario = { .name = n, .what = w, .threads = 2, .prepare = p, .body = { a, b }, .finish = f }, \
		.finds = found,                                                                                  \
	}
#define TEST_3(n, w, p, a, b, c, f, found)                                                                          \
	{                                                                                                           \
		.scenario = { .name = n, .what = w, .threads = 3, .prepare = p, .body = { a, b, c }, .finish = f }, \
		.finds = found,                                                                                     \
	}

const struct selftest selftests[] = {
	TEST_2("sb-relaxed", "store buffering", NULL, sb_plain_0, sb_plain_1, both_missed, "both missed"),
	TEST_2("sb-release", "release and acquire do not forbid it", NULL, sb_release_0, sb_release_1, both_missed,
	       "both missed"),
	TEST_2("sb-fence", "seq_cst fences do", NULL, sb_fence_0, sb_fence_1, both_missed, NULL),
	TEST_2("sb-seq_cst", "seq_cst accesses do", NULL, sb_sc_0, sb_sc_1, both_missed, NULL),
	TEST_2("sb-rmw", "a seq_cst read-modify-write is no fence", NULL, sb_rmw_0, sb_rmw_1, both_missed,
	       "both missed"),
	TEST_2("sb-membarrier", "a compiler barrier against membarrier", NULL, sb_plain_0, sb_heavy, both_missed, NULL),
	TEST_2("sb-no-membarrier", "without it", NULL, sb_plain_0, sb_heavy_missing, both_missed, "both missed"),
	TEST_2("sb-membarrier-early", "before the store", NULL, sb_plain_0, sb_heavy_early, both_missed, "both missed"),
	TEST_2("mp-relaxed", "message sent without release", NULL, mp_relaxed_0, mp_relaxed_1, NULL, "data race"),
	TEST_2("mp-unacquired", "received without acquire", NULL, mp_unacquired_0, mp_unacquired_1, NULL, "data race"),
	TEST_2("mp-right", "release and acquire", NULL, mp_right_0, mp_right_1, NULL, NULL),
	TEST_2("mp-fences", "relaxed accesses with fences", NULL, mp_fences_0, mp_fences_1, NULL, NULL),
	TEST_2("mp-cas", "by compare-and-swap", NULL, mp_cas_0, mp_cas_1, NULL, NULL),
	TEST_2("mp-atomic-relaxed", "relaxed stores seen out of order", NULL, mpa_relaxed_0, mpa_relaxed_1, old_message,
	       "an old message"),
	TEST_2("mp-atomic", "not with release and acquire", NULL, mpa_right_0, mpa_right_1, old_message, NULL),
	TEST_3("release-sequence", "goes on through a relaxed read-modify-write", NULL, sequence_0, sequence_1,
	       sequence_2, NULL, NULL),
	TEST_2("coherence", "one location never goes back", NULL, two_stores, two_loads, NULL, NULL),
	TEST_2("stale", "two relaxed locations, read in the other order", NULL, first_stores, reads_backwards, NULL,
	       "out of order"),
	{ .scenario = { .name = "iriw-acquire",
			.what = "two readers disagree about two writers",
			.threads = 4,
			.body = { write_x, write_y, iriw_acq_0, iriw_acq_1 },
			.finish = disagree },
	  .finds = "readers disagree" },
	{ .scenario = { .name = "iriw-seq_cst",
			.what = "not with seq_cst",
			.threads = 4,
			.body = { write_x, write_y, iriw_sc_0, iriw_sc_1 },
			.finish = disagree } },
	TEST_2("lost-add", "load and store lose an addition", NULL, lossy_add, lossy_add, lost_add, "an addition"),
	TEST_2("add", "an atomic addition does not", NULL, add, add, lost_add, NULL),
	TEST_2("bytes", "neighbouring bytes are no race", NULL, write_low, write_high, NULL, NULL),
	TEST_2("bytes-overlap", "overlapping ones are", NULL, write_low, write_across, NULL, "data race"),
	TEST_2("race", "plain write, plain read", NULL, write_plain, read_plain, NULL, "data race"),
	TEST_2("sizes", "atomics of two sizes", NULL, mixed, whole, NULL, "different sizes"),
	TEST_2("grace", "freed after a grace period", make_object, read_object, free_object, NULL, NULL),
	TEST_2("no-grace", "freed without", make_object, read_object, free_object_early, NULL, "object"),
	TEST_2("double-free", "freed by two", make_object, free_twice, free_twice, NULL, "double free"),
	TEST_2("beyond", "a write behind a block", NULL, beyond, lives, NULL, "outside any block"),
	TEST_2("open-section", "a section without an end", NULL, open_section, lives, NULL, "open at the end"),
	TEST_2("sleep-in-section", "a sleep in a section", NULL, sleeps_in_section, wakes_one, NULL, "sleeps inside"),
	TEST_3("wake-all", "set, then wake all", NULL, waits, waits, sets_and_wakes, NULL, NULL),
	TEST_3("wake-one", "wake one of two", NULL, waits, waits, sets_and_wakes_one, NULL, "deadlock"),
	TEST_3("wake-pass-on", "who is woken wakes the next", NULL, passes_on, passes_on, sets_and_wakes_one, NULL,
	       NULL),
	TEST_2("wake-early", "wake, then set", NULL, waits, wakes_and_sets, NULL, "deadlock"),
	TEST_2("livelock", "waits for what nobody does", NULL, spins, lives, NULL, "no end"),
	TEST_2("yield", "waits in a loop that yields", NULL, yields, sets_x, NULL, NULL),
	{ .scenario = { .name = "own",
			.what = "thread-local and thread-specific data",
			.threads = 2,
			.ending = true,
			.prepare = make_key,
			.body = { uses_own, uses_own },
			.finish = both_ended } },
	TEST_2("unwind", "a thread leaves by unwinding", NULL, unwinds, lives, was_cleaned, NULL),
	TEST_2("channel", "a pointer is handed over", NULL, sends, receives, NULL, NULL),
	TEST_2("crash", "a wild pointer", NULL, crashes, lives, NULL, "at address"),
	TEST_2("reads", "nothing at all", NULL, stale_load, two_stores, NULL, NULL),
};
const unsigned selftest_count = sizeof(selftests) / sizeof(selftests[0]);
