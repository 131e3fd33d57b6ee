/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libc-t - H27, P16: the C library runs out of memory, threads' own blocks included.
 *
 * The linker redirects every call that the library makes (and the test, which pauses
 * the fault) to functions here; liburcu's and the C library's own go their way, so that
 * liburcu, which ends the program when it cannot register a thread, is not meant.
 */
#include "../lib/test.h"

#include <sys/mman.h>

#include "inject.h"
#include "sweep.h"

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_aligned_alloc(size_t align, size_t size);
void __real_free(void *ptr);
void *__real_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
int __real_munmap(void *address, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_aligned_alloc(size_t align, size_t size);
void __wrap_free(void *ptr);
void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset);
int __wrap_munmap(void *address, size_t size);

/* Blocks are counted without their size, which free() does not tell; mappings by size alone. */
static void *counted(void *ptr)
{
	if (ptr != NULL)
		balance_add(0);
	return ptr;
}

void *__wrap_malloc(size_t size)
{
	return inject_fails() ? NULL : counted(__real_malloc(size));
}

void *__wrap_calloc(size_t count, size_t size)
{
	return inject_fails() ? NULL : counted(__real_calloc(count, size));
}

void *__wrap_aligned_alloc(size_t align, size_t size)
{
	return inject_fails() ? NULL : counted(__real_aligned_alloc(align, size));
}

void __wrap_free(void *ptr)
{
	if (ptr != NULL)
		balance_sub(0);
	__real_free(ptr);
}

void *__wrap_mmap(void *address, size_t size, int protection, int flags, int file, off_t offset)
{
	void *ptr = inject_fails() ? MAP_FAILED : __real_mmap(address, size, protection, flags, file, offset);

	if (ptr != MAP_FAILED) {
		balance_add(size);
		balance_sub(0);
	}
	return ptr;
}

int __wrap_munmap(void *address, size_t size)
{
	balance_add(0);
	balance_sub(size);
	return __real_munmap(address, size);
}

int main(void)
{
	plan(SWEEP_TESTS);
	sweep(false);
	return done();
}
