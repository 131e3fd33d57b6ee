/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * atomic.h - C11 atomics under names that tell their memory order.
 *
 * No file of the library uses an atomic without an order in its name, and no
 * file uses inline assembly for memory access: so that thread sanitizers and
 * the schedule explorer of tests/explore see every access with its order.
 * concurrencykit's ck_pr is not used for these for that reason: its loads are
 * plain volatile reads there, and races to a checker.
 */
#ifndef LARDER_ATOMIC_H
#define LARDER_ATOMIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define load_relaxed(p) atomic_load_explicit((p), memory_order_relaxed)
#define load_acquire(p) atomic_load_explicit((p), memory_order_acquire)
#define store_relaxed(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define store_release(p, v) atomic_store_explicit((p), (v), memory_order_release)
#define exchange_acq_rel(p, v) atomic_exchange_explicit((p), (v), memory_order_acq_rel)
#define add_relaxed(p, v) atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
#define add_acq_rel(p, v) atomic_fetch_add_explicit((p), (v), memory_order_acq_rel)
#define sub_relaxed(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_relaxed)
#define sub_acq_rel(p, v) atomic_fetch_sub_explicit((p), (v), memory_order_acq_rel)
#define or_acq_rel(p, v) atomic_fetch_or_explicit((p), (v), memory_order_acq_rel)
#define or_seq_cst(p, v) atomic_fetch_or_explicit((p), (v), memory_order_seq_cst)
#define and_acq_rel(p, v) atomic_fetch_and_explicit((p), (v), memory_order_acq_rel)
#define and_seq_cst(p, v) atomic_fetch_and_explicit((p), (v), memory_order_seq_cst)
/* A failed compare-and-swap reads with acquire: callers look at what they found. */
#define cas_relaxed(p, old, new) \
	atomic_compare_exchange_strong_explicit((p), (old), (new), memory_order_relaxed, memory_order_relaxed)
#define cas_acquire(p, old, new) \
	atomic_compare_exchange_strong_explicit((p), (old), (new), memory_order_acquire, memory_order_acquire)
#define cas_acq_rel(p, old, new) \
	atomic_compare_exchange_strong_explicit((p), (old), (new), memory_order_acq_rel, memory_order_acquire)
#define cas_seq_cst(p, old, new) \
	atomic_compare_exchange_strong_explicit((p), (old), (new), memory_order_seq_cst, memory_order_acquire)
#define fence_seq_cst() atomic_thread_fence(memory_order_seq_cst)
/* Orders nothing in hardware; keeps the compiler from moving accesses across it. */
#define fence_compiler() atomic_signal_fence(memory_order_seq_cst)

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#define NOINLINE __attribute__((noinline))
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define FLATTEN __attribute__((flatten)) /* all that it calls inline, for the hit path */
#define HIDDEN __attribute__((visibility("hidden")))

/* Two lines: the neighbour is prefetched with its pair on x86. */
#define CACHE_LINE 64
#define FAR_APART __attribute__((aligned(2 * CACHE_LINE)))

_Static_assert(sizeof(void *) == 8, "pointers of 64 bits carry 16 bits of hash");

#endif
