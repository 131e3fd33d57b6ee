/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * memory-t - all memory that belongs to one cache comes from the functions in its
 * options and goes back to them, with the sizes it was asked for; and P9, a hit asks
 * for none.
 */
#include "../lib/test.h"

#define BLOCKS 65536

struct store {
	pthread_mutex_t lock;
	struct {
		void *ptr;
		size_t size;
	} block[BLOCKS];
	uint64_t held, bytes, most, calls;
	_Atomic unsigned long wrong;
};

static struct store store = { .lock = PTHREAD_MUTEX_INITIALIZER };

static uint64_t place_of(const void *ptr)
{
	return ((uint64_t)(uintptr_t)ptr >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 48;
}

static void *take(size_t size, size_t align, void *ctx)
{
	void *ptr;
	uint64_t i;

	if (ctx != &store || align == 0 || (align & (align - 1)) != 0 || align > 65536 || size == 0 ||
	    size % align != 0)
		count_up(&store.wrong);
	ptr = aligned_alloc(align < sizeof(void *) ? sizeof(void *) : align, size);
	if (ptr == NULL)
		return NULL;
	memset(ptr, 0, size);
	pthread_mutex_lock(&store.lock);
	for (i = place_of(ptr); store.block[i].ptr != NULL; i = (i + 1) % BLOCKS)
		;
	store.block[i].ptr = ptr;
	store.block[i].size = size;
	store.held++;
	store.calls++;
	store.bytes += size;
	if (store.bytes > store.most)
		store.most = store.bytes;
	must(store.held < BLOCKS / 2);
	pthread_mutex_unlock(&store.lock);
	return ptr;
}

static void give(void *ptr, size_t size, void *ctx)
{
	uint64_t i, hole;

	pthread_mutex_lock(&store.lock);
	for (i = place_of(ptr); store.block[i].ptr != ptr; i = (i + 1) % BLOCKS) {
		if (store.block[i].ptr == NULL) { /* it was not ours */
			count_up(&store.wrong);
			pthread_mutex_unlock(&store.lock);
			return;
		}
	}
	if (ctx != &store || store.block[i].size != size)
		count_up(&store.wrong);
	store.held--;
	store.bytes -= store.block[i].size;
	/* Close the hole for those that were displaced over it. */
	for (hole = i; store.block[i = (i + 1) % BLOCKS].ptr != NULL;) {
		uint64_t home = place_of(store.block[i].ptr);

		if ((i - home) % BLOCKS >= (i - hole) % BLOCKS) {
			store.block[hole] = store.block[i];
			hole = i;
		}
	}
	store.block[hole].ptr = NULL;
	pthread_mutex_unlock(&store.lock);
	memset(ptr, 0xdb, size);
	free(ptr);
}

struct box {
	struct larder_cache *cache;
	struct shelf shelf;
	unsigned long rounds;
	_Atomic unsigned long wrong;
};

static void run(struct worker *worker)
{
	struct box *box = worker->arg;

	for (unsigned long i = 0; i < box->rounds; i++) {
		uint64_t number = rng_below(&worker->rng, 4 * box->shelf.capacity);
		struct key key = key_mixed(number);
		struct larder_ref ref;
		int r = shelf_get(box->cache, &box->shelf, &key, number % 9 == 0 ? value_load_fails : value_load,
				  &box->shelf, &ref, NULL);

		if (r == 0)
			value_drop(&box->shelf, &ref);
		else if (r != LARDER_ELOAD && r != LARDER_EBUSY)
			count_up(&box->wrong);
		if (rng_once_in(&worker->rng, 100))
			larder_trim(box->cache, 3);
	}
}

static void setup(struct box *box, uint64_t capacity, uint64_t headroom, uint32_t flags)
{
	struct larder_options options;

	memset(box, 0, sizeof(*box));
	shelf_setup(&box->shelf, capacity);
	options = shelf_options(&box->shelf);
	options.headroom = headroom;
	options.flags = flags;
	options.alloc = take;
	options.free = give;
	options.alloc_ctx = &store;
	box->cache = shelf_open(&options);
}

static void test(uint64_t capacity, uint64_t headroom, uint32_t flags)
{
	static struct box box;
	struct larder_stats s;

	store.most = 0;
	store.wrong = 0;
	setup(&box, capacity, headroom, flags);
	box.rounds = rounds(6000, 200000);
	crew_run(4, run, &box);
	is_int(box.wrong, 0, "capacity %" PRIu64 ": 4 threads with short and long keys", capacity);
	s = stats_of(box.cache);
	pthread_mutex_lock(&store.lock);
	note("%" PRIu64 " bytes at most, %" PRIu64 " now, overhead_bytes %" PRIu64, store.most, store.bytes,
	     s.overhead_bytes);
	pthread_mutex_unlock(&store.lock);
	if (headroom == 0 || flags == LARDER_NO_THREAD)
		is_int(s.overhead_bytes, store.bytes, "overhead_bytes is what the cache holds");
	else
		ok(s.overhead_bytes > 0, "overhead_bytes is there (the background thread may just be freeing)");
	is_int(unbalanced(box.cache, &box.shelf), 0, "P17: counting adds up");
	close_shelf(box.cache, &box.shelf, "user's memory");
	is_int(store.held, 0, "P16: every piece has come back");
	is_int(store.wrong, 0, "with the size it had, and none that was not given");
}

static void hit(struct worker *worker)
{
	struct box *box = worker->arg;
	struct larder_ref ref;

	/* A thread's first call may ask for memory: let it. */
	for (unsigned long i = 0; i < 64; i++)
		if (shelf_peek(box->cache, &box->shelf, i % 32) != 0)
			count_up(&box->wrong);
	meeting_wait(&worker->crew->meeting);
	if (worker->index == 0)
		store.calls = 0;
	meeting_wait(&worker->crew->meeting);
	for (unsigned long i = 0; i < box->rounds; i++) {
		struct key key = key_mixed(rng_below(&worker->rng, 32));
		struct larder_ref more[8];

		if (larder_get(box->cache, key.bytes, key.len, value_load_never, &box->shelf, &ref) != 0)
			count_up(&box->wrong);
		else if (i % 8 == 0) {
			for (unsigned j = 0; j < 8; j++)
				if (larder_dup(&ref, &more[j]) != 0)
					count_up(&box->wrong);
			for (unsigned j = 0; j < 8; j++)
				larder_release(&more[j]);
		}
		larder_release(&ref);
	}
}

static void test_hits(void)
{
	static struct box box;

	setup(&box, 32, 0, 0);
	for (uint64_t k = 0; k < 32; k++)
		must(shelf_visit(box.cache, &box.shelf, k) == 0);
	box.rounds = rounds(50000, 5000000);
	crew_run(4, hit, &box);
	is_int(box.wrong, 0, "P9: 4 threads, %lu hits each, some of them pinned many times", box.rounds);
	is_int(store.calls, 0, "P9: not one of them asks for memory");
	is_int(larder_close(box.cache), 0, "close");
	shelf_end(&box.shelf);
}

static unsigned high_freed;

static void *take_high(size_t size, size_t align, void *ctx)
{
	(void)size, (void)align, (void)ctx;
	return (void *)(UINT64_C(1) << 52); /* no such memory, but the address is what counts */
}

static void give_high(void *ptr, size_t size, void *ctx)
{
	(void)size, (void)ctx;
	high_freed += ptr == (void *)(UINT64_C(1) << 52);
}

int main(void)
{
	struct larder_options options;
	struct larder_cache *cache = NULL;

	plan(4 * 8 + 3 + 2);
	test(50, 0, 0);
	test(50, 0, LARDER_NO_THREAD);
	test(50, 10, LARDER_OWN_THREAD);
	test(3000, 0, 0);
	test_hits();
	larder_options_init(&options);
	options.capacity = 1;
	options.alloc = take_high;
	options.free = give_high;
	ok(larder_open(&cache, &options) == LARDER_ENOMEM && cache == NULL,
	   "P16: memory whose address does not fit into 48 bits is none");
	is_int(high_freed, 1, "and is given back");
	return done();
}
