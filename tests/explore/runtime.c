/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * runtime.c - the world as the subject sees it.
 *
 * 1. The functions that the compiler calls for -fsanitize=thread.  An atomic is a
 *    scheduling point, if its object is shared (memory.c) or the plan says all are.
 *    A plain access is one only if the plan says so: where there is no data race, and
 *    races are found without it, a switch before a plain access shows nothing that a
 *    switch before the next atomic does not.
 * 2. C library functions.  The build renames what the subject calls (symbols.txt):
 *    malloc becomes explore_malloc, and so on; the C library itself and the explorer
 *    call the real ones.
 * 3. futex(2) and membarrier(2), by way of syscall().
 *      wait   compares and sleeps in one step, with the latest value; sometimes it
 *             returns EINTR or for no reason.  Inside a read-side section: reported.
 *      wake   as many as were asked for, any of those who sleep.
 *      membarrier   a full fence in each other thread at some point between call and
 *             return; either all at once, or each at a point of its own.
 *             With plan.fenced it is refused at registration.
 * 4. liburcu's bp flavour: sections are counted; a grace period waits for those
 *    sections that it found open.  A section orders nothing except that what came
 *    before a grace period's begin is visible to sections that begin after it, and
 *    what a section did is before the end of a grace period that waited for it, or
 *    that began after it.
 * 5. Time: CLOCK_MONOTONIC is a counter that jumps now and then.
 *
 * NOT simulated: pthread_create (scenarios have their threads), mutexes and condition
 * variables (the library has none), call_rcu, system calls other than these (executed
 * in earnest), out of memory (tests/fault does that), faults of the kernel.
 */
#include "engine.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define KEYS 8
#define CHANNELS 8
#define PC __builtin_return_address(0)

/* ---- 1. accesses ---- */

static inline void plain(const void *p, size_t n, bool write, const void *pc)
{
	if (!memory_watched(p))
		return;
	if (plan.plain_points && !serial)
		sched_point();
	memory_plain(p, n, write, pc);
}

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *pc);
void __tsan_func_entry(void *pc)
{
	(void)pc;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
}

#define PLAIN(name, size, write)           \
	void __tsan_##name(void *p);       \
	void __tsan_##name(void *p)        \
	{                                  \
		plain(p, size, write, PC); \
	}
#define PLAIN_SIZE(size)                                  \
	PLAIN(read##size, size, false)                    \
	PLAIN(write##size, size, true)                    \
	PLAIN(read_write##size, size, true)               \
	PLAIN(unaligned_read##size, size, false)          \
	PLAIN(unaligned_write##size, size, true)          \
	PLAIN(unaligned_read_write##size, size, true)     \
	PLAIN(volatile_read##size, size, false)           \
	PLAIN(volatile_write##size, size, true)           \
	PLAIN(unaligned_volatile_read##size, size, false) \
	PLAIN(unaligned_volatile_write##size, size, true)
PLAIN_SIZE(1)
PLAIN_SIZE(2)
PLAIN_SIZE(4)
PLAIN_SIZE(8)
PLAIN_SIZE(16)

void __tsan_read_range(void *p, size_t n);
void __tsan_read_range(void *p, size_t n)
{
	plain(p, n, false, PC);
}

void __tsan_write_range(void *p, size_t n);
void __tsan_write_range(void *p, size_t n)
{
	plain(p, n, true, PC);
}

static void *copy(void *to, const void *from, size_t n, const void *pc)
{
	plain(from, n, false, pc);
	plain(to, n, true, pc);
	return memmove(to, from, n);
}

static void *set(void *to, int c, size_t n, const void *pc)
{
	plain(to, n, true, pc);
	return memset(to, c, n);
}

void *__tsan_memcpy(void *to, const void *from, size_t n);
void *__tsan_memcpy(void *to, const void *from, size_t n)
{
	return copy(to, from, n, PC);
}

void *__tsan_memmove(void *to, const void *from, size_t n);
void *__tsan_memmove(void *to, const void *from, size_t n)
{
	return copy(to, from, n, PC);
}

void *__tsan_memset(void *to, int c, size_t n);
void *__tsan_memset(void *to, int c, size_t n)
{
	return set(to, c, n, PC);
}

static inline void atomic_point(const volatile void *p)
{
	if (plan.all_points || memory_shared((const void *)(uintptr_t)p))
		sched_point();
	else
		sched_quiet_step();
}

/* While serial, atomics are simply done: nobody else could see a difference. */
#define RAW(bits) ((volatile uint##bits##_t *)(uintptr_t)p)
#define ALONE() (serial && (memory_plain((const void *)p, sizeof(*p), false, PC), true))

#define ATOMIC_RMW(bits, name, op, builtin)                                                                   \
	uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *p, uint##bits##_t v, int order); \
	uint##bits##_t __tsan_atomic##bits##_##name(volatile uint##bits##_t *p, uint##bits##_t v, int order)  \
	{                                                                                                     \
		if (ALONE())                                                                                  \
			return builtin(p, v, __ATOMIC_SEQ_CST);                                               \
		atomic_point(p);                                                                              \
		return (uint##bits##_t)memory_rmw((void *)(uintptr_t)p, bits / 8, op, v, order, PC);          \
	}

#define ATOMIC(bits)                                                                                                   \
	uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *p, int order);                        \
	uint##bits##_t __tsan_atomic##bits##_load(const volatile uint##bits##_t *p, int order)                         \
	{                                                                                                              \
		if (ALONE())                                                                                           \
			return *p;                                                                                     \
		atomic_point(p);                                                                                       \
		return (uint##bits##_t)memory_load((const void *)(uintptr_t)p, bits / 8, order, PC);                   \
	}                                                                                                              \
	void __tsan_atomic##bits##_store(volatile uint##bits##_t *p, uint##bits##_t v, int order);                     \
	void __tsan_atomic##bits##_store(volatile uint##bits##_t *p, uint##bits##_t v, int order)                      \
	{                                                                                                              \
		if (ALONE()) {                                                                                         \
			*p = v;                                                                                        \
			return;                                                                                        \
		}                                                                                                      \
		atomic_point(p);                                                                                       \
		memory_store((void *)(uintptr_t)p, bits / 8, v, order, PC);                                            \
	}                                                                                                              \
	ATOMIC_RMW(bits, exchange, RMW_EXCHANGE, __atomic_exchange_n)                                                  \
	ATOMIC_RMW(bits, fetch_add, RMW_ADD, __atomic_fetch_add)                                                       \
	ATOMIC_RMW(bits, fetch_sub, RMW_SUB, __atomic_fetch_sub)                                                       \
	ATOMIC_RMW(bits, fetch_and, RMW_AND, __atomic_fetch_and)                                                       \
	ATOMIC_RMW(bits, fetch_or, RMW_OR, __atomic_fetch_or)                                                          \
	ATOMIC_RMW(bits, fetch_xor, RMW_XOR, __atomic_fetch_xor)                                                       \
	ATOMIC_RMW(bits, fetch_nand, RMW_NAND, __atomic_fetch_nand)                                                    \
	static bool cas##bits(volatile uint##bits##_t *p, uint##bits##_t *e, uint##bits##_t v, int order, int failure, \
			      bool weak, const void *pc)                                                               \
	{                                                                                                              \
		uint64_t expected = *e;                                                                                \
		bool done;                                                                                             \
                                                                                                                       \
		if (serial) {                                                                                          \
			memory_plain((const void *)(uintptr_t)p, bits / 8, true, pc);                                  \
			return __atomic_compare_exchange_n(p, e, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);        \
		}                                                                                                      \
		atomic_point(p);                                                                                       \
		done = memory_cas((void *)(uintptr_t)p, bits / 8, &expected, v, order, failure, weak, pc);             \
		*e = (uint##bits##_t)expected;                                                                         \
		return done;                                                                                           \
	}                                                                                                              \
	int __tsan_atomic##bits##_compare_exchange_strong(volatile uint##bits##_t *p, uint##bits##_t *e,               \
							  uint##bits##_t v, int order, int failure);                   \
	int __tsan_atomic##bits##_compare_exchange_strong(volatile uint##bits##_t *p, uint##bits##_t *e,               \
							  uint##bits##_t v, int order, int failure)                    \
	{                                                                                                              \
		return cas##bits(p, e, v, order, failure, false, PC);                                                  \
	}                                                                                                              \
	int __tsan_atomic##bits##_compare_exchange_weak(volatile uint##bits##_t *p, uint##bits##_t *e,                 \
							uint##bits##_t v, int order, int failure);                     \
	int __tsan_atomic##bits##_compare_exchange_weak(volatile uint##bits##_t *p, uint##bits##_t *e,                 \
							uint##bits##_t v, int order, int failure)                      \
	{                                                                                                              \
		return cas##bits(p, e, v, order, failure, true, PC);                                                   \
	}                                                                                                              \
	uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(volatile uint##bits##_t *p, uint##bits##_t e,        \
								  uint##bits##_t v, int order, int failure);           \
	uint##bits##_t __tsan_atomic##bits##_compare_exchange_val(volatile uint##bits##_t *p, uint##bits##_t e,        \
								  uint##bits##_t v, int order, int failure)            \
	{                                                                                                              \
		(void)cas##bits(p, &e, v, order, failure, false, PC);                                                  \
		return e;                                                                                              \
	}
ATOMIC(8)
ATOMIC(16)
ATOMIC(32)
ATOMIC(64)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
	sched_point();
	memory_fence(order);
	if (tracing)
		trace_event("fence", NULL, 0, 0, order, PC);
}

/* Keeps the compiler in order, which has been here already. */
void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order)
{
	(void)order;
}

/* ---- 2. the C library ---- */

#define HEAP_FILL 0xa5

void *explore_malloc(size_t size);
void *explore_malloc(size_t size)
{
	return memset(explore_alloc(size, 16, HEAP_PROCESS), HEAP_FILL, size);
}

void *explore_calloc(size_t n, size_t size);
void *explore_calloc(size_t n, size_t size)
{
	return explore_alloc(n * size, 16, HEAP_PROCESS);
}

void *explore_aligned_alloc(size_t align, size_t size);
void *explore_aligned_alloc(size_t align, size_t size)
{
	return memset(explore_alloc(size, align, HEAP_PROCESS), HEAP_FILL, size);
}

int explore_posix_memalign(void **p, size_t align, size_t size);
int explore_posix_memalign(void **p, size_t align, size_t size)
{
	*p = explore_aligned_alloc(align, size);
	return 0;
}

void *explore_realloc(void *p, size_t size);
void *explore_realloc(void *p, size_t size)
{
	(void)p;
	(void)size;
	explore_fail("realloc is not simulated");
}

void explore_libc_free(void *p);
void explore_libc_free(void *p)
{
	explore_free(p, HEAP_PROCESS);
}

void *explore_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);
void *explore_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	(void)address;
	(void)protection;
	(void)flags;
	(void)fd;
	(void)offset;
	return explore_alloc(size, 4096, HEAP_PROCESS);
}

int explore_munmap(void *p, size_t size);
int explore_munmap(void *p, size_t size)
{
	(void)p;
	(void)size;
	explore_fail("munmap is not simulated: give the cache an allocator");
}

void *explore_memcpy(void *to, const void *from, size_t n);
void *explore_memcpy(void *to, const void *from, size_t n)
{
	return copy(to, from, n, PC);
}

void *explore_memmove(void *to, const void *from, size_t n);
void *explore_memmove(void *to, const void *from, size_t n)
{
	return copy(to, from, n, PC);
}

void *explore_memset(void *to, int c, size_t n);
void *explore_memset(void *to, int c, size_t n)
{
	return set(to, c, n, PC);
}

int explore_memcmp(const void *a, const void *b, size_t n);
int explore_memcmp(const void *a, const void *b, size_t n)
{
	plain(a, n, false, PC);
	plain(b, n, false, PC);
	return memcmp(a, b, n);
}

int explore_bcmp(const void *a, const void *b, size_t n);
int explore_bcmp(const void *a, const void *b, size_t n)
{
	plain(a, n, false, PC);
	plain(b, n, false, PC);
	return memcmp(a, b, n);
}

void explore_qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *));
void explore_qsort(void *base, size_t n, size_t size, int (*compare)(const void *, const void *))
{
	plain(base, n * size, true, PC);
	qsort(base, n, size, compare);
}

char *explore_secure_getenv(const char *name);
char *explore_secure_getenv(const char *name)
{
	(void)name;
	return NULL;
}

/* What a failing CHECK says before it aborts. */
static char last_words[256];

int explore_fprintf(FILE *file, const char *format, ...) __attribute__((format(printf, 2, 3)));
int explore_fprintf(FILE *file, const char *format, ...)
{
	va_list list;
	int n;

	(void)file;
	va_start(list, format);
	n = vsnprintf(last_words, sizeof(last_words), format, list);
	va_end(list);
	last_words[strcspn(last_words, "\n")] = '\0';
	return n;
}

_Noreturn void explore_abort(void);
_Noreturn void explore_abort(void)
{
	explore_fail("abort(): %s", last_words);
}

int explore_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg);
int explore_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*start)(void *), void *arg)
{
	(void)thread;
	(void)attr;
	(void)start;
	(void)arg;
	explore_fail("pthread_create is not simulated");
}

_Noreturn void explore_pthread_exit(void *value);
_Noreturn void explore_pthread_exit(void *value)
{
	(void)value;
	explore_leave();
}

int explore_sched_yield(void);
int explore_sched_yield(void)
{
	sched_yield_turn();
	return 0;
}

/* Thread-specific data. */
static struct {
	bool made;
	void (*destructor)(void *);
	const void *value[THREADS + 1];
} specific[KEYS];

int explore_pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int explore_pthread_key_create(pthread_key_t *key, void (*destructor)(void *))
{
	for (unsigned i = 0; i < KEYS; i++) {
		if (specific[i].made)
			continue;
		memset(&specific[i], 0, sizeof(specific[i]));
		specific[i].made = true;
		specific[i].destructor = destructor;
		*key = i;
		return 0;
	}
	return EAGAIN;
}

int explore_pthread_key_delete(pthread_key_t key);
int explore_pthread_key_delete(pthread_key_t key)
{
	specific[key].made = false;
	return 0;
}

int explore_pthread_setspecific(pthread_key_t key, const void *value);
int explore_pthread_setspecific(pthread_key_t key, const void *value)
{
	if (key >= KEYS || !specific[key].made)
		return EINVAL;
	specific[key].value[current] = value;
	return 0;
}

void *explore_pthread_getspecific(pthread_key_t key);
void *explore_pthread_getspecific(pthread_key_t key)
{
	return (void *)(uintptr_t)specific[key].value[current];
}

void runtime_thread_end(void)
{
	bool any = true;

	for (int round = 0; any && round < 4; round++) {
		any = false;
		for (unsigned i = 0; i < KEYS; i++) {
			void *value = (void *)(uintptr_t)specific[i].value[current];

			if (!specific[i].made || specific[i].destructor == NULL || value == NULL)
				continue;
			specific[i].value[current] = NULL;
			specific[i].destructor(value);
			any = true;
		}
	}
}

/* ---- 4. liburcu ---- */

static struct {
	unsigned nesting;
	uint32_t section;   /* number of the last section begun */
	struct clock ended; /* what all ended sections did */
} reader[THREADS + 1];

static struct {
	bool waiting;
	uint32_t section[THREADS]; /* the sections it found open, or 0 */
	struct clock done;         /* what those that have ended did */
} grace[THREADS + 1];

static struct clock grace_begun; /* before the begin of any grace period so far */

void urcu_bp_read_lock(void);
void urcu_bp_read_lock(void)
{
	sched_point();
	if (tracing)
		trace_event("read lock", NULL, reader[current].nesting, 0, 0, PC);
	if (reader[current].nesting++ == 0) {
		reader[current].section++;
		memory_acquire(&grace_begun);
	}
}

void urcu_bp_read_unlock(void);
void urcu_bp_read_unlock(void)
{
	sched_point();
	if (tracing)
		trace_event("read unlock", NULL, reader[current].nesting, 0, 0, PC);
	if (reader[current].nesting == 0)
		explore_fail("read-side section ended twice");
	if (reader[current].nesting == 1 && !serial) {
		for (unsigned t = 0; t < THREADS; t++)
			if (grace[t].waiting && grace[t].section[current] == reader[current].section)
				memory_release(&grace[t].done);
		memory_release(&reader[current].ended);
	}
	reader[current].nesting--;
}

static bool grace_over(unsigned thread)
{
	for (unsigned t = 0; t < THREADS; t++)
		if (grace[thread].section[t] != 0 && reader[t].nesting != 0 &&
		    reader[t].section == grace[thread].section[t])
			return false;
	return true;
}

void urcu_bp_synchronize_rcu(void);
void urcu_bp_synchronize_rcu(void)
{
	const void *pc = PC;

	sched_point();
	if (reader[current].nesting != 0)
		explore_fail("a grace period is waited for inside a read-side section, at %s", trace_place(pc));
	if (tracing)
		trace_event("grace begins", NULL, 0, 0, 0, pc);
	if (serial)
		return;
	memory_fence(SEQ_CST);
	memory_release(&grace_begun);
	memset(&grace[current], 0, sizeof(grace[current]));
	grace[current].waiting = true;
	for (unsigned t = 0; t < THREADS; t++) {
		if (reader[t].nesting != 0)
			grace[current].section[t] = reader[t].section;
		memory_join(&grace[current].done, &reader[t].ended);
	}
	sched_block(grace_over);
	grace[current].waiting = false;
	memory_acquire(&grace[current].done);
	memory_fence(SEQ_CST);
	if (tracing)
		trace_event("grace ends", NULL, 0, 0, 0, pc);
}

bool explore_reading(void)
{
	return reader[current].nesting != 0;
}

void runtime_thread_check(unsigned thread)
{
	if (reader[thread].nesting != 0)
		explore_fail("a read-side section is open at the end");
}

/* ---- 3. system calls ---- */

static bool barrier_asked[THREADS][THREADS]; /* [caller][thread] */
static unsigned barriers_asked;

static void barrier_deliver(unsigned caller, unsigned thread)
{
	barrier_asked[caller][thread] = false;
	barriers_asked--;
	memory_barrier_deliver(caller, thread);
	if (tracing)
		trace_event("barrier hits", NULL, thread, 0, 0, NULL);
}

/* The present thread goes on: is now the moment when a barrier hits it? */
void runtime_deliver(void)
{
	if (barriers_asked == 0)
		return;
	for (unsigned caller = 0; caller < THREADS; caller++)
		if (barrier_asked[caller][current] && sched_chance(2))
			barrier_deliver(caller, current);
}

static long membarrier(long command, const void *pc)
{
	unsigned self = current;

	if (command == MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) {
		if (!plan.fenced)
			return 0;
		errno = ENOSYS;
		return -1;
	}
	if (command != MEMBARRIER_CMD_PRIVATE_EXPEDITED || plan.fenced) {
		errno = EINVAL;
		return -1;
	}
	if (serial)
		return 0;
	sched_point();
	if (tracing)
		trace_event("membarrier", NULL, 0, 0, 0, pc);
	memory_barrier_begin(self);
	for (unsigned t = 0; t < THREADS; t++) {
		if (t == self)
			continue;
		barrier_asked[self][t] = true; /* also one that has nothing more to do: what it did counts */
		barriers_asked++;
	}
	for (unsigned turns = sched_chance(2) ? sched_choose_any(4) : 0; turns != 0; turns--)
		sched_point();
	for (unsigned t = 0; t < THREADS; t++)
		if (barrier_asked[self][t])
			barrier_deliver(self, t);
	memory_barrier_end(self);
	return 0;
}

static long futex(uint32_t *word, int operation, uint32_t value, const struct timespec *deadline, const void *pc)
{
	int command = operation & FUTEX_CMD_MASK;

	sched_point();
	switch (command) {
	case FUTEX_WAKE:
	case FUTEX_WAKE_BITSET: {
		int woken = sched_wake(word, (int)value);

		if (tracing)
			trace_event("futex wake", word, value, (uint64_t)woken, 0, pc);
		return woken;
	}
	case FUTEX_WAIT:
	case FUTEX_WAIT_BITSET:
		if (reader[current].nesting != 0)
			explore_fail("sleeps inside a read-side section, at %s", trace_place(pc));
		if (tracing)
			trace_event("futex wait", word, value, memory_peek32(word), 0, pc);
		if (memory_peek32(word) != value) {
			errno = EAGAIN;
			return -1;
		}
		if (sched_chance(16)) {
			errno = EINTR;
			return -1;
		}
		if (sched_chance(16))
			return 0;
		if (sched_sleep(word, deadline != NULL) == WAKE_TIMEOUT) {
			errno = ETIMEDOUT;
			return -1;
		}
		return 0;
	default:
		explore_fail("futex operation %d is not simulated", command);
	}
}

long explore_syscall(long number, ...);
long explore_syscall(long number, ...)
{
	const void *pc = PC;
	va_list list;
	long a[6];

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (number == SYS_futex)
		return futex((uint32_t *)a[0], (int)a[1], (uint32_t)a[2], (const struct timespec *)a[3], pc);
	if (number == SYS_membarrier)
		return membarrier(a[0], pc);
	return syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

/* ---- 5. time ---- */

static uint64_t time_ns;

int explore_clock_gettime(clockid_t clock, struct timespec *time);
int explore_clock_gettime(clockid_t clock, struct timespec *time)
{
	(void)clock;
	time_ns += sched_chance(8) ? 2000000 : 1000;
	time->tv_sec = (time_t)(time_ns / 1000000000);
	time->tv_nsec = (long)(time_ns % 1000000000);
	return 0;
}

/* ---- for scenarios ---- */

static struct {
	bool full;
	void *message;
	struct clock clock;
} channel[CHANNELS];
static unsigned receives_from[THREADS + 1];

unsigned explore_self(void)
{
	return current;
}

void explore_point(void)
{
	sched_point();
}

void explore_yield(void)
{
	sched_yield_turn();
}

void explore_send(unsigned c, void *message)
{
	sched_point();
	memory_release(&channel[c].clock);
	channel[c].message = message;
	channel[c].full = true;
}

static bool can_receive(unsigned thread)
{
	return channel[receives_from[thread]].full;
}

void *explore_receive(unsigned c)
{
	sched_point();
	receives_from[current] = c;
	sched_block(can_receive);
	channel[c].full = false;
	memory_acquire(&channel[c].clock);
	return channel[c].message;
}

/* ---- for each schedule ---- */

void runtime_begin(void)
{
	memset(specific, 0, sizeof(specific));
	memset(reader, 0, sizeof(reader));
	memset(grace, 0, sizeof(grace));
	memset(&grace_begun, 0, sizeof(grace_begun));
	memset(barrier_asked, 0, sizeof(barrier_asked));
	barriers_asked = 0;
	memset(channel, 0, sizeof(channel));
	last_words[0] = '\0';
	time_ns = UINT64_C(1000000000);
}
