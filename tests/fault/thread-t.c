/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * thread-t - P16: the background thread cannot be created, or a thread's end cannot be
 * told to the library.
 *
 * The linker redirects the library's calls to functions here.
 */
#include "../lib/test.h"

#include "inject.h"

/* clang's thread sanitizer is linked in and meets these, too, before a thread is known to it. */
#if defined(__clang__)
#define RAW __attribute__((disable_sanitizer_instrumentation))
#else
#define RAW
#endif

static _Atomic uint32_t no_threads, no_keys;
static _Atomic uint32_t refusals;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __real_pthread_setspecific(pthread_key_t key, const void *value);
int __wrap_pthread_setspecific(pthread_key_t key, const void *value);

RAW int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	if (count_of(&no_threads) != 0) {
		count_up(&refusals);
		return EAGAIN;
	}
	return __real_pthread_create(thread, attr, run, arg);
}

RAW int __wrap_pthread_setspecific(pthread_key_t key, const void *value)
{
	if (count_of(&no_keys) != 0) {
		count_up(&refusals);
		return ENOMEM;
	}
	return __real_pthread_setspecific(key, value);
}

static int open_with(struct shelf *shelf, uint32_t flags, struct larder_cache **cache)
{
	struct larder_options options;

	shelf_setup(shelf, 4);
	options = shelf_options(shelf);
	options.flags = flags;
	options.alloc = user_alloc;
	options.free = user_free;
	return larder_open(cache, &options);
}

static void no_background_thread(uint32_t flags, const char *tag)
{
	struct larder_cache *const mark = (void *)(uintptr_t)0x5a5a5a5a;
	struct larder_cache *cache = mark;
	uint32_t before = count_of(&refusals);
	static struct shelf shelf;

	atomic_store(&no_threads, 1);
	is_int(open_with(&shelf, flags, &cache), LARDER_ETHREAD, "P16: %s: no thread can be created", tag);
	is_int(count_of(&refusals) - before, 1, "P16: %s: it was tried once", tag);
	is_ptr(cache, mark, "P16: %s: the out-parameter is untouched", tag);
	is_int(balance().blocks, 0, "P16: %s: no memory is left", tag);
	atomic_store(&no_threads, 0);
	is_int(open_with(&shelf, flags, &cache), 0, "P16: %s: the next one opens", tag);
	at_rest(cache, &shelf, tag);
	close_shelf(cache, &shelf, tag);
	is_int(balance().blocks, 0, "P16: %s: all memory is back", tag);
}

/* Caches that need no new thread open all the same. */
static void no_need_of_one(void)
{
	struct larder_cache *first, *second, *third;
	static struct shelf shelf[3];

	is_int(open_with(&shelf[0], 0, &first), 0, "P16: a cache with the shared thread");
	atomic_store(&no_threads, 1);
	is_int(open_with(&shelf[1], 0, &second), 0, "P16: a second one shares it, and creates none");
	is_int(open_with(&shelf[2], LARDER_NO_THREAD, &third), 0, "P16: one without a thread opens");
	atomic_store(&no_threads, 0);
	at_rest(second, &shelf[1], "second");
	close_shelf(first, &shelf[0], "first");
	close_shelf(second, &shelf[1], "second");
	close_shelf(third, &shelf[2], "third");
}

struct visitor {
	struct larder_cache *cache;
	struct shelf *shelf;
	int first, second;
};

static void *visit(void *arg)
{
	struct visitor *visitor = arg;

	atomic_store(&no_keys, 1);
	visitor->first = shelf_visit(visitor->cache, visitor->shelf, 1);
	atomic_store(&no_keys, 0);
	visitor->second = shelf_visit(visitor->cache, visitor->shelf, 1);
	return NULL;
}

static void no_end_of_thread(void)
{
	static struct shelf shelf;
	struct visitor visitor = { NULL, &shelf, 0, 0 };

	must(open_with(&shelf, LARDER_NO_THREAD, &visitor.cache) == 0);
	thread_join(thread_start(visit, &visitor));
	is_int(visitor.first, LARDER_ENOMEM, "P16: a thread whose end could not be noticed is refused");
	is_int(visitor.second, 0, "P16: and is welcome when that is possible again");
	is_int(stat_of(visitor.cache, refused_nomem), 1, "P17: the refusal was counted");
	at_rest(visitor.cache, &shelf, "thread's end");
	close_shelf(visitor.cache, &shelf, "thread's end");
}

int main(void)
{
	plan(2 * 12 + 15 + 9);
	no_background_thread(0, "shared thread");
	no_background_thread(LARDER_OWN_THREAD, "own thread");
	no_need_of_one();
	no_end_of_thread();
	return done();
}
