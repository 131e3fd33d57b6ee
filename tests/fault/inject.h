/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * inject.h - memory that runs out when a test wants it to.
 *
 * Allocators ask inject_fails() before they do their work: those of a user (below),
 * and in libc-t the C library's own, which the linker redirects there.  Only the
 * thread that armed the fault meets it; callbacks of the test pause it, so that their
 * own memory does not fail.
 */
#ifndef TESTS_FAULT_INJECT_H
#define TESTS_FAULT_INJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From here on this thread's n-th allocation fails, 1 the next; `all`: and all that follow. */
void inject_arm(unsigned n, bool all);
/* For every thread: one allocation in n fails; 0: none. */
void inject_chance(unsigned n);
/* No more.  How many have failed. */
unsigned inject_disarm(void);
/* While paused nothing fails.  Nests. */
void inject_pause(void);
void inject_resume(void);
/* Asked by allocators. */
bool inject_fails(void);

/* What allocators have handed out and not got back. */
struct balance {
	uint64_t blocks, bytes;
};
void balance_add(size_t bytes);
void balance_sub(size_t bytes);
struct balance balance(void);
bool balance_is(struct balance before);

/* larder_options.alloc and free. */
void *user_alloc(size_t size, size_t align, void *ctx);
void user_free(void *ptr, size_t size, void *ctx);

#endif
