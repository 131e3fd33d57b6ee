/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * larder.h - a bounded cache of expensively prepared values, for many threads.
 *
 * larder_get() returns a pinned value.  If the value is there, that takes a
 * few nanoseconds and writes no cache line that another thread's hit on the
 * same key writes.  If it is not, exactly one caller runs its loader while the
 * others wait and share the outcome.  The cache never holds more values than
 * its capacity, loads in progress included, and evicts, least recently used
 * first, only what is idle: not pinned, and released by the user's predicate.
 *
 *	struct larder_options options;
 *	struct larder_cache *cache;
 *	struct larder_ref ref;
 *
 *	larder_options_init(&options);
 *	options.capacity = 128;
 *	options.destroy = plan_free;
 *	if (larder_open(&cache, &options) == 0) {
 *		if (larder_get(cache, "key", 3, plan_compile, NULL, &ref) == 0) {
 *			plan_run(larder_value(&ref));
 *			larder_release(&ref);
 *		}
 *		larder_close(cache);
 *	}
 *
 * Conventions.  Functions that can fail return 0 or a negative LARDER_E code,
 * which is a negative errno value.  Out-parameters are untouched on error,
 * except where a comment says otherwise.  Any thread may call anything; no
 * registration is needed, and a thread may end while it holds pins.  Nothing
 * here may be called from a signal handler, and longjmp() must not leave a
 * callback: it would skip the library's clean-up.  Times are nanoseconds,
 * sizes are bytes.  Linux only: the library needs futex(2), and is fast where
 * membarrier(2) is allowed.
 */
#ifndef LARDER_H
#define LARDER_H

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

#define LARDER_VERSION_MAJOR 0
#define LARDER_VERSION_MINOR 1
#define LARDER_VERSION_PATCH 0

#if defined(__GNUC__)
#define LARDER_API __attribute__((visibility("default")))
#else
#define LARDER_API
#endif

/* Longest key, in bytes; the shortest is the empty key. */
#define LARDER_KEY_MAX 65535u
/* Largest capacity, in values. */
#define LARDER_CAPACITY_MAX (UINT64_C(1) << 31)

/* What a call can say.  larder_strerror() has a sentence for each. */
enum larder_code {
	LARDER_OK = 0,
	LARDER_EINVAL = -EINVAL,           /* an argument is out of its range */
	LARDER_ENOMEM = -ENOMEM,           /* no memory; nothing was changed */
	LARDER_EBUSY = -EBUSY,             /* everything is pinned, loading or refused */
	LARDER_ENOENT = -ENOENT,           /* peek: the key is not here */
	LARDER_EINPROGRESS = -EINPROGRESS, /* peek: the key is being loaded */
	LARDER_EDEADLK = -EDEADLK,         /* the caller would wait for itself */
	LARDER_ELOAD = -EIO,               /* the loader failed; see load_error */
	LARDER_EABANDONED = -ECANCELED,    /* the loader's thread left it without an outcome */
	LARDER_ETHREAD = -EAGAIN,          /* the background thread cannot be created */
	LARDER_ECLOSED = -ESHUTDOWN        /* the cache is being closed */
};

/* A cache.  Opaque. */
struct larder_cache;

/* A load in progress, as its loader sees it.  Opaque. */
struct larder_load;

/*
 * A pin on a value.  The caller owns the 16 bytes, which may be copied or
 * moved by memcpy as long as exactly one copy is released.  All zero means
 * "holds nothing".  The members are private.
 */
struct larder_ref {
	void *private_slot;
	void *private_value;
};

/**
 * larder_load_fn - prepare the value of a key.
 * @key:     @key_len bytes, the cache's own copy; valid until the load ends.
 * @arg:     what the caller gave to larder_get().
 * @value:   on success, the value; NULL is a legal value.  The cache owns it
 *           from then on and ends it with the destroy callback.
 * @load:    identifies this load; nothing takes it yet.
 *
 * Return: 0, or any other number for failure, which every caller of this
 * load finds in larder_outcome.load_error beside the code LARDER_ELOAD.
 *
 * Threads: runs on the thread of the elected caller, with no lock held and
 * outside any read-side section.  It may call the library, for other keys
 * too; asking for its own key gives LARDER_EDEADLK.  It may leave by
 * pthread_exit(), by cancellation or by a C++ exception: the load then counts
 * as abandoned, its followers get LARDER_EABANDONED, and the unwinding goes on.
 * It must not leave by longjmp().  Since 0.1.
 */
typedef int larder_load_fn(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load);

/**
 * larder_idle_fn - may this value be evicted?
 * @value:  a value that is published, not pinned and not destroyed.
 * @ctx:    larder_options.ctx.
 *
 * Return: non-zero if nobody outside the cache uses the value, 0 if somebody
 * does.  "No" is respected; the value is asked about again at later evictions.
 *
 * Threads: any thread that needs room, no lock held, outside any read-side
 * section.  It may peek, release and read statistics, and must not load, trim
 * or close.  It must return: no exception, no pthread_exit().  Since 0.1.
 */
typedef int larder_idle_fn(void *value, void *ctx);

/**
 * larder_destroy_fn - end a value.  Called exactly once for each value that a
 * loader handed over, at the latest before larder_close() returns.
 * @value:  the value; nobody holds a pin on it and nobody can get one.
 * @ctx:    larder_options.ctx.
 *
 * Threads: any thread that needs room, trims or closes, or the background
 * thread; no lock held, so it may call the library.  It must return: no
 * exception, no pthread_exit(); cancellation is held back while it runs.
 * Since 0.1.
 */
typedef void larder_destroy_fn(void *value, void *ctx);

/**
 * larder_hash_fn - hash a key, for those who expect hostile keys.
 * @seed:  larder_options.seed, or a random number.
 * @ctx:   larder_options.ctx.
 *
 * Return: 64 bits; the library mixes them further, so a poor hash costs time
 * and nothing else.  Equal keys must have equal hashes.  Must not call the
 * library.  Since 0.1.
 */
typedef uint64_t larder_hash_fn(const void *key, size_t key_len, uint64_t seed, void *ctx);

/**
 * larder_alloc_fn, larder_free_fn - memory for what belongs to one cache.
 * @size:   bytes, a multiple of @align.
 * @align:  a power of two, at most 65,536.
 * @ptr:    what larder_alloc_fn returned for the same @size.
 * @ctx:    larder_options.alloc_ctx.
 *
 * larder_alloc_fn returns memory that is all zero, or NULL if there is none.
 * The address must fit into 48 bits; other memory is given back and counts as
 * none.  Threads: any; may be called with internal locks held, so neither may
 * call the library, and both must return: no exception, no pthread_exit();
 * cancellation is held back while they run.  Since 0.1.
 */
typedef void *larder_alloc_fn(size_t size, size_t align, void *ctx);
typedef void larder_free_fn(void *ptr, size_t size, void *ctx);

/* larder_options.flags.  Bits that are not listed are an error. */
#define LARDER_NO_THREAD (1u << 0)  /* no background thread: misses and larder_step() do its work */
#define LARDER_OWN_THREAD (1u << 1) /* a background thread of this cache's own, not the shared one */
#define LARDER_SEED (1u << 2)       /* use options.seed; without it the seed is random */

/*
 * How to open a cache.  Fill it with larder_options_init(), then set what you
 * want; everything but capacity may stay 0.
 */
struct larder_options {
	size_t size;                /* sizeof(struct larder_options) of the program */
	uint64_t capacity;          /* values alive or being made at once: 1 to LARDER_CAPACITY_MAX */
	uint64_t headroom;          /* units that the background thread keeps free; < capacity */
	uint32_t flags;             /* LARDER_NO_THREAD, LARDER_OWN_THREAD, LARDER_SEED */
	uint32_t reserved;          /* 0 */
	uint64_t seed;              /* for the hash, with LARDER_SEED */
	larder_idle_fn *idle;       /* NULL: always idle */
	larder_destroy_fn *destroy; /* NULL: nothing to do */
	void *ctx;                  /* handed to idle, destroy and hash */
	larder_hash_fn *hash;       /* NULL: XXH3 with the seed (no keyed MAC) */
	larder_alloc_fn *alloc;     /* NULL: the C library's; both or none of the two */
	larder_free_fn *free;
	void *alloc_ctx; /* handed to alloc and free */
};

/* Why a request was refused, in units of capacity.  The four add up to it. */
struct larder_refusal {
	uint64_t pinned;     /* values that somebody holds or was just taking hold of */
	uint64_t loading;    /* loads in progress */
	uint64_t refused;    /* idle values about which the predicate said no */
	uint64_t in_transit; /* on their way between two of these in each of eight looks */
};

/* larder_outcome.how */
enum larder_how {
	LARDER_NONE = 0,   /* no value: see the return code */
	LARDER_HIT = 1,    /* the value was there */
	LARDER_LOADED = 2, /* this call ran the loader */
	LARDER_JOINED = 3  /* another call was loading it, and this one shared the outcome */
};

/* What happened to a larder_get_with(); larder_outcome_init() fills it. */
struct larder_outcome {
	size_t size;                   /* sizeof(struct larder_outcome) of the program */
	int how;                       /* enum larder_how; also told on failure where it is known */
	int load_error;                /* with LARDER_ELOAD: what the loader returned, else 0 */
	struct larder_refusal refusal; /* with LARDER_EBUSY, else 0 */
};

/* How to get; larder_get_options_init() fills it. */
struct larder_get_options {
	size_t size;    /* sizeof(struct larder_get_options) of the program */
	uint32_t flags; /* 0 */
	uint32_t reserved;
};

/*
 * Statistics.  Counters count since larder_open() or the last
 * larder_stats_reset(); gauges tell the present.
 *
 * Each request (larder_get, larder_get_with with good arguments, and each
 * larder_peek that finds a value) is counted once, in exactly one of: hits,
 * misses, joins, refused_*.  When nothing runs and nothing was reset:
 *   misses  = loads_ok + loads_failed + loads_abandoned
 *   joins   = joins_shared + joins_failed + joins_abandoned
 *   loads_ok = resident + evicted_room + evicted_trim + evicted_ahead
 *   evicted_room + evicted_trim + evicted_ahead = destroyed
 * A snapshot taken while threads run errs only in the direction that keeps
 * resident, loading and following from being negative.
 */
struct larder_stats {
	size_t size; /* sizeof(struct larder_stats) of the program, set by it */
	/* counters: requests */
	uint64_t hits;             /* requests that found a value */
	uint64_t misses;           /* requests elected to load; one for each load begun */
	uint64_t joins;            /* requests that followed a load; counted when they join */
	uint64_t refused_busy;     /* LARDER_EBUSY: no unit of capacity could be had */
	uint64_t refused_nomem;    /* LARDER_ENOMEM */
	uint64_t refused_deadlock; /* LARDER_EDEADLK */
	uint64_t refused_closed;   /* LARDER_ECLOSED */
	uint64_t absent;           /* peeks that found nothing */
	uint64_t in_progress;      /* peeks that found a load in progress */
	/* counters: outcomes, counted when the call returns or the load ends */
	uint64_t joins_shared;    /* followers that got the value */
	uint64_t joins_failed;    /* followers of a load that failed */
	uint64_t joins_abandoned; /* followers of a load that was abandoned */
	uint64_t loads_ok;        /* loads that published a value */
	uint64_t loads_failed;    /* loaders that returned failure */
	uint64_t loads_abandoned; /* loaders that left without an outcome */
	/* counters: ends of values */
	uint64_t evicted_room;  /* evicted by a request that needed room */
	uint64_t evicted_trim;  /* evicted by larder_trim() */
	uint64_t evicted_ahead; /* evicted ahead of need, for the headroom */
	uint64_t destroyed;     /* values ended, with or without a destroy callback */
	/* gauges */
	uint64_t resident;       /* values published and not evicted */
	uint64_t loading;        /* loads in progress */
	uint64_t following;      /* requests waiting for a load */
	uint64_t pinned;         /* pins held (refs), loads in progress left out */
	uint64_t capacity;       /* as opened */
	uint64_t overhead_bytes; /* memory of this cache besides values; keys count */
	/* counters: the machinery, for the curious and for tests */
	uint64_t nominations; /* entries chosen as next victims */
	uint64_t rescues;     /* hits on those */
	uint64_t proofs;      /* process-wide barriers made to prove that nobody pins them */
	uint64_t graces;      /* grace periods waited for */
	uint64_t epochs;      /* steps of the recency clock by admission or time */
	uint64_t verdicts;    /* complete looks at every unit before a refusal */
};

/* Zero @options and set its size.  Since 0.1. */
static inline void larder_options_init(struct larder_options *options)
{
	memset(options, 0, sizeof(*options));
	options->size = sizeof(*options);
}

/* Zero @outcome and set its size.  Since 0.1. */
static inline void larder_outcome_init(struct larder_outcome *outcome)
{
	memset(outcome, 0, sizeof(*outcome));
	outcome->size = sizeof(*outcome);
}

/* Zero @options and set its size.  Since 0.1. */
static inline void larder_get_options_init(struct larder_get_options *options)
{
	memset(options, 0, sizeof(*options));
	options->size = sizeof(*options);
}

/* Zero @stats and set its size.  Since 0.1. */
static inline void larder_stats_init(struct larder_stats *stats)
{
	memset(stats, 0, sizeof(*stats));
	stats->size = sizeof(*stats);
}

/**
 * larder_open - make an empty cache.
 * @cache:    on 0, the cache; end it with larder_close().
 * @options:  read during the call only; the callbacks and contexts in it must
 *            stay valid until larder_close() has succeeded.
 *
 * Return: 0, or
 *   LARDER_EINVAL   a NULL argument, an unknown flag, a size smaller than any
 *                   released one, capacity 0 or above LARDER_CAPACITY_MAX,
 *                   headroom not below capacity, headroom or LARDER_OWN_THREAD
 *                   together with LARDER_NO_THREAD, or one of alloc and free
 *                   without the other;
 *   LARDER_ENOMEM   no memory;
 *   LARDER_ETHREAD  the background thread cannot be created.
 *
 * Threads: any.  Blocks: no, but for the creation of the thread.  Memory is
 * taken as entries come: opening takes only address space for the table.
 * Since 0.1.
 */
LARDER_API int larder_open(struct larder_cache **cache, const struct larder_options *options);

/**
 * larder_close - destroy every value and end the cache.
 * @cache:  from larder_open(); not to be used again after success.  No other
 *          call on it may be running or begin, except from the destroy
 *          callback, where requests get LARDER_ECLOSED.
 *
 * Return: 0, or
 *   LARDER_EINVAL  @cache is NULL;
 *   LARDER_EBUSY   pins or loads are out: nothing was done, the cache works
 *                  on.  larder_close_report() tells how many.
 *
 * Threads: any, but not from a callback of the same cache.  Blocks: waits for
 * the background thread to leave this cache, for a grace period, and for
 * calls of larder_release() that are just returning.  Since 0.1.
 */
LARDER_API int larder_close(struct larder_cache *cache);

/**
 * larder_close_report - as larder_close(), telling why it was refused.
 * @refusal:  on LARDER_EBUSY, how many pins are out, and how many requests lead
 *            or follow a load; all 0 if the kernel refused the barrier that
 *            is needed to know.  Else untouched.  May be NULL.
 * Since 0.1.
 */
LARDER_API int larder_close_report(struct larder_cache *cache, struct larder_refusal *refusal);

/**
 * larder_get - return the value of a key, pinned, loading it once however many ask.
 * @cache:    from larder_open().
 * @key:      @key_len bytes; copied only when a load begins, so the caller may
 *            reuse them on return.  May be NULL if @key_len is 0.
 * @key_len:  0 to LARDER_KEY_MAX bytes.
 * @loader:   run here if the key is absent and nobody is loading it.
 * @arg:      handed to @loader.
 * @ref:      on 0, a pin to give back with larder_release(); else untouched.
 *
 * Return: 0, or
 *   LARDER_EINVAL     a NULL argument or a key that is too long;
 *   LARDER_EBUSY      the key is absent and every unit of capacity was found
 *                     pinned, loading or refused by the predicate;
 *   LARDER_ENOMEM     no memory for an entry, for a long key, or for the pin;
 *   LARDER_EDEADLK    this thread is itself loading the key;
 *   LARDER_ELOAD      the load that this call ran or joined failed;
 *   LARDER_EABANDONED the load that this call joined was left by its thread;
 *   LARDER_ECLOSED    larder_close() is destroying the values.
 *
 * Threads: any.  Blocks: a hit never does; it makes no system call, takes no
 * lock and allocates nothing (a thread's first call on a cache and one that
 * finds all its slots full may allocate).  A miss runs the loader on this
 * thread, may wait for another thread that is choosing victims, and for some
 * 10 ms for units that are in transit, before it is refused; a join waits until
 * the load ends.  A miss may also wait for a grace period of liburcu's bp
 * flavour, so never call it inside a read-side section of that, nor from a
 * signal handler.  Not a cancellation point, except inside the loader.
 * Since 0.1.
 */
LARDER_API int larder_get(struct larder_cache *cache, const void *key, size_t key_len, larder_load_fn *loader,
			  void *arg, struct larder_ref *ref);

/**
 * larder_get_with - larder_get() with options and an outcome.
 * @options:  NULL for the defaults.
 * @outcome:  NULL if not wanted; else written whatever the return code, unless
 *            its size is wrong.  It tells hit, loaded or joined, the loader's
 *            error, and on LARDER_EBUSY how many units are pinned, loading,
 *            refused and in transit.
 *
 * Return: as larder_get(); LARDER_EINVAL also for an unknown flag and for a
 * size smaller than any released one.  Since 0.1.
 */
LARDER_API int larder_get_with(struct larder_cache *cache, const void *key, size_t key_len, larder_load_fn *loader,
			       void *arg, const struct larder_get_options *options, struct larder_ref *ref,
			       struct larder_outcome *outcome);

/**
 * larder_peek - return the value of a key, pinned, if it is there.
 * Never loads and never waits.  A value found this way counts as used and as a
 * hit.
 *
 * Return: 0, or
 *   LARDER_ENOENT       the key is not here;
 *   LARDER_EINPROGRESS  the key is being loaded;
 *   LARDER_EINVAL       a NULL argument or a key that is too long;
 *   LARDER_ENOMEM       the pin could not be recorded.
 * Threads: any.  Blocks: no.  Since 0.1.
 */
LARDER_API int larder_peek(struct larder_cache *cache, const void *key, size_t key_len, struct larder_ref *ref);

/**
 * larder_value - the value that a ref pins; NULL for an empty ref.
 * The value stays valid and where it is until the ref is released.
 * Threads: any that has the ref.  Blocks: no.  Since 0.1.
 */
#ifndef LARDER_NO_INLINE
static inline void *larder_value(const struct larder_ref *ref)
{
	return ref->private_value;
}
#else
LARDER_API void *larder_value(const struct larder_ref *ref);
#endif

/**
 * larder_key - the key of the entry that a ref pins.
 * @key_len:  receives its length; may be NULL.
 * Return: the cache's copy of the key, valid until the ref is released; NULL
 * for an empty ref, @key_len then untouched.
 * Threads: any that has the ref.  Blocks: no.  Since 0.1.
 */
LARDER_API const void *larder_key(const struct larder_ref *ref, size_t *key_len);

/**
 * larder_dup - pin the same value once more.
 * @ref:   holds a pin, and keeps it.
 * @copy:  on 0, a second, independent pin; else untouched.
 * Return: 0, LARDER_EINVAL (NULL, or @ref holds nothing) or LARDER_ENOMEM.
 * Does not count as use for the order of eviction.
 * Threads: any that has the ref.  Blocks: no.  Since 0.1.
 */
LARDER_API int larder_dup(const struct larder_ref *ref, struct larder_ref *copy);

/**
 * larder_release - give a pin back.
 * @ref:  is zeroed; the value must not be used through it any more.
 *
 * Return: 0, or LARDER_EINVAL if @ref is NULL or holds nothing, as after a
 * first release, or if its slot is visibly free.  Releasing two copies of one
 * ref is a programming error that can corrupt the cache.
 *
 * Threads: any, not only the one that got the ref.  Blocks: no.  Since 0.1.
 */
LARDER_API int larder_release(struct larder_ref *ref);

/**
 * larder_trim - evict idle values now, oldest first.
 * @count:  how many at most.
 * Return: how many were evicted and destroyed, fewer than @count only if no
 * more were idle; or LARDER_EINVAL or LARDER_ENOMEM.
 * Threads: any, not from the predicate.  Blocks: as a miss does.  Since 0.1.
 */
LARDER_API int64_t larder_trim(struct larder_cache *cache, uint64_t count);

/**
 * larder_step - do the background thread's work for a while.
 * @budget_ns:  stop beginning new pieces of work after this many nanoseconds.
 *
 * For caches opened with LARDER_NO_THREAD, from the program's own loop; it may
 * be called on others too.  Frees entry memory whose grace period has passed
 * and keeps the next victims ready.
 *
 * Return: 1 if there is more to do, 0 if not, or LARDER_EINVAL.
 * Threads: any, not from a callback.  Blocks: for a grace period at a time.
 * Since 0.1.
 */
LARDER_API int larder_step(struct larder_cache *cache, uint64_t budget_ns);

/**
 * larder_stats - read the statistics.
 * @stats:  its size must be set, as larder_stats_init() does.
 * Return: 0 or LARDER_EINVAL.
 * Threads: any, also from callbacks.  Cost: proportional to the number of
 * threads and slots, not of entries.  Since 0.1.
 */
LARDER_API int larder_stats(struct larder_cache *cache, struct larder_stats *stats);

/**
 * larder_stats_reset - let all counters begin at 0 again, for every reader.
 * Gauges are not touched.  Return: 0 or LARDER_EINVAL.  Threads: any.
 * Since 0.1.
 */
LARDER_API int larder_stats_reset(struct larder_cache *cache);

/**
 * larder_strerror - a sentence for a return code.
 * Return: a constant string, never NULL.  Threads: any.  Since 0.1.
 */
LARDER_API const char *larder_strerror(int code);

/**
 * larder_version - the version of the library at run time, "0.1.0".
 * Return: a constant string.  Threads: any.  Since 0.1.
 */
LARDER_API const char *larder_version(void);

#ifdef __cplusplus
}
#endif

#endif /* LARDER_H */
