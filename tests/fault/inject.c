/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * inject.c - memory that runs out when a test wants it to.  See inject.h.
 */
#include "inject.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../lib/threads.h"

static _Thread_local unsigned countdown, failed, paused;
static _Thread_local bool all_fail;
static _Thread_local struct rng chance_rng;
static atomic_uint chance;
static _Atomic uint64_t blocks, bytes;

void inject_arm(unsigned n, bool all)
{
	countdown = n;
	all_fail = all;
	failed = 0;
}

void inject_chance(unsigned n)
{
	atomic_store(&chance, n);
}

unsigned inject_disarm(void)
{
	countdown = 0;
	return failed;
}

void inject_pause(void)
{
	paused++;
}

void inject_resume(void)
{
	paused--;
}

bool inject_fails(void)
{
	static _Atomic uint64_t threads;
	unsigned n = atomic_load_explicit(&chance, memory_order_relaxed);

	if (paused != 0)
		return false;
	if (n != 0) {
		if (chance_rng.state == 0)
			chance_rng = rng_make((UINT64_C(1) << 50) + atomic_fetch_add(&threads, 1));
		return rng_once_in(&chance_rng, n);
	}
	if (countdown == 0)
		return false;
	if (countdown > 1) {
		countdown--;
		return false;
	}
	if (!all_fail)
		countdown = 0;
	failed++;
	return true;
}

void balance_add(size_t n)
{
	atomic_fetch_add_explicit(&blocks, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&bytes, n, memory_order_relaxed);
}

void balance_sub(size_t n)
{
	atomic_fetch_sub_explicit(&blocks, 1, memory_order_relaxed);
	atomic_fetch_sub_explicit(&bytes, n, memory_order_relaxed);
}

struct balance balance(void)
{
	struct balance b = { atomic_load_explicit(&blocks, memory_order_relaxed),
			     atomic_load_explicit(&bytes, memory_order_relaxed) };

	return b;
}

bool balance_is(struct balance before)
{
	struct balance b = balance();

	return b.blocks == before.blocks && b.bytes == before.bytes;
}

void *user_alloc(size_t size, size_t align, void *ctx)
{
	void *ptr;

	(void)ctx;
	if (inject_fails())
		return NULL;
	ptr = aligned_alloc(align, size);
	if (ptr == NULL)
		return NULL;
	memset(ptr, 0, size);
	balance_add(size);
	return ptr;
}

void user_free(void *ptr, size_t size, void *ctx)
{
	(void)ctx;
	memset(ptr, 0xdb, size);
	free(ptr);
	balance_sub(size);
}
