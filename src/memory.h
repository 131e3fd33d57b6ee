/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * memory.h - the memory that belongs to one cache, counted.
 *
 * Everything comes zeroed.  Without functions of the user's own, large pieces
 * come from mmap, so that a table for 2^31 entries costs address space until
 * it is used, and small ones from calloc or aligned_alloc.
 */
#ifndef LARDER_MEMORY_H
#define LARDER_MEMORY_H

#include "atomic.h"

struct memory {
	void *(*alloc)(size_t size, size_t align, void *ctx); /* NULL: the C library's */
	void (*free)(void *ptr, size_t size, void *ctx);
	void *ctx;
	_Atomic(uint64_t) bytes; /* held now */
};

/* Zeroed, the address below 2^48; NULL if there is none.  size is rounded up to align. */
HIDDEN void *memory_get(struct memory *memory, size_t size, size_t align);
/* size and align as at memory_get(); ptr may be NULL. */
HIDDEN void memory_put(struct memory *memory, void *ptr, size_t size, size_t align);

#endif
