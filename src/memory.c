/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * memory.c - a cache's memory.
 */
#include "memory.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MMAP_FROM ((size_t)64 * 1024)
#define PAGE ((size_t)4096)

static size_t round_up(size_t size, size_t align)
{
	return (size + align - 1) & ~(align - 1);
}

/* Mapped memory aligned to `align`: map more, give the ends back. */
static void *map(size_t size, size_t align)
{
	size_t whole = align > PAGE ? size + align : size;
	unsigned char *base, *start;

	if (whole < size)
		return NULL;
	base = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (base == MAP_FAILED)
		return NULL;
	if (whole == size)
		return base;
	start = (unsigned char *)(uintptr_t)round_up((size_t)(uintptr_t)base, align);
	if (start != base)
		munmap(base, (size_t)(start - base));
	if (start + size != base + whole)
		munmap(start + size, (size_t)(base + whole - (start + size)));
	return start;
}

static void *library_alloc(size_t size, size_t align)
{
	void *ptr;

	if (size >= MMAP_FROM)
		return map(round_up(size, PAGE), align);
	ptr = aligned_alloc(align, size);
	if (ptr != NULL)
		memset(ptr, 0, size);
	return ptr;
}

static void library_free(void *ptr, size_t size)
{
	if (size >= MMAP_FROM)
		munmap(ptr, round_up(size, PAGE));
	else
		free(ptr);
}

/* Locks may be held: the user's functions are not left by cancellation. */
static void *user_alloc(const struct memory *memory, size_t size, size_t align)
{
	void *ptr;
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	ptr = memory->alloc(size, align, memory->ctx);
	pthread_setcancelstate(state, NULL);
	return ptr;
}

static void user_free(const struct memory *memory, void *ptr, size_t size)
{
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	memory->free(ptr, size, memory->ctx);
	pthread_setcancelstate(state, NULL);
}

void *memory_get(struct memory *memory, size_t size, size_t align)
{
	void *ptr;

	if (size == 0 || size > SIZE_MAX / 2)
		return NULL;
	size = round_up(size, align);
	ptr = memory->alloc != NULL ? user_alloc(memory, size, align) : library_alloc(size, align);
	if (ptr == NULL)
		return NULL;
	if (((uintptr_t)ptr + size) >> 48 != 0) { /* no room for the hash's bits */
		if (memory->alloc != NULL)
			user_free(memory, ptr, size);
		else
			library_free(ptr, size);
		return NULL;
	}
	add_relaxed(&memory->bytes, size);
	return ptr;
}

void memory_put(struct memory *memory, void *ptr, size_t size, size_t align)
{
	if (ptr == NULL)
		return;
	size = round_up(size, align);
	sub_relaxed(&memory->bytes, size);
	if (memory->alloc != NULL)
		user_free(memory, ptr, size);
	else
		library_free(ptr, size);
}
