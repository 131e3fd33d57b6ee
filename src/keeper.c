/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * keeper.c - the background thread.  See keeper.h.
 *
 * Locks: `shared_lock` orders the first join and the last leave of the process's
 * keeper, and is never taken by a keeper.  A keeper's own lock guards its list of
 * caches and says which one it is working on; it is not held during the work, which
 * may run the user's callbacks.
 */
#include "keeper.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "reclaim.h"

struct keeper {
	struct lock lock;
	struct larder_cache *first;        /* lock */
	struct larder_cache *now;          /* lock to write: the cache that is worked on */
	_Atomic(uint32_t) turns FAR_APART; /* raised, and woken, after each piece of work */
	_Atomic(uint32_t) kicks FAR_APART; /* raised, and woken, when there is work */
	_Atomic(uint32_t) stop;
	uint64_t users; /* shared_lock, or the one cache's own */
	pthread_t thread;
};

/* So many pieces of work for one cache before it is another's turn. */
#define TURN 64

static struct lock shared_lock;
static struct keeper *shared; /* shared_lock */

/* The next cache with work, marked as worked on; NULL: none. */
static struct larder_cache *pick(struct keeper *keeper)
{
	struct larder_cache **at, *cache;

	lock_enter(&keeper->lock);
	for (at = &keeper->first; (cache = *at) != NULL; at = &cache->next_kept) {
		if (load_relaxed(&cache->work) == 0)
			continue;
		/* Cleared before the work: a kick that comes later brings us back. */
		store_relaxed(&cache->work, 0);
		fence_seq_cst();
		/* To the end of the list: the others have their turn first next time. */
		*at = cache->next_kept;
		while (*at != NULL)
			at = &(*at)->next_kept;
		*at = cache;
		cache->next_kept = NULL;
		break;
	}
	keeper->now = cache;
	lock_leave(&keeper->lock);
	return cache;
}

static void put_down(struct keeper *keeper)
{
	lock_enter(&keeper->lock);
	keeper->now = NULL;
	lock_leave(&keeper->lock);
	add_acq_rel(&keeper->turns, 1);
	park_wake(&keeper->turns, INT32_MAX);
}

/* Is somebody waiting for us to leave this cache? */
static bool unwelcome(struct keeper *keeper, struct larder_cache *cache)
{
	struct larder_cache *c;

	lock_enter(&keeper->lock);
	for (c = keeper->first; c != NULL && c != cache; c = c->next_kept)
		;
	lock_leave(&keeper->lock);
	return c == NULL;
}

static void *keep(void *arg)
{
	struct keeper *keeper = arg;

	for (;;) {
		uint32_t kicks = load_acquire(&keeper->kicks);
		struct larder_cache *cache = pick(keeper);

		if (cache != NULL) {
			struct member *member = member_enter(&cache->members);
			unsigned pieces = TURN;

			/* No record, no memory: requests do the work. */
			while (member != NULL && reclaim_work(cache, member, false) && !unwelcome(keeper, cache))
				if (--pieces == 0) {
					store_relaxed(&cache->work, 1);
					break;
				}
			put_down(keeper);
			continue;
		}
		if (load_acquire(&keeper->stop) != 0)
			return NULL;
		park_wait(&keeper->kicks, kicks, NULL);
	}
}

static void kick(struct keeper *keeper)
{
	add_acq_rel(&keeper->kicks, 1);
	park_wake(&keeper->kicks, 1);
}

void keeper_kick_slow(struct larder_cache *cache)
{
	if (exchange_acq_rel(&cache->work, 1) == 0)
		kick(cache->keeper);
}

static int start(struct keeper **result)
{
	struct keeper *keeper = aligned_alloc(2 * CACHE_LINE, sizeof(*keeper));
	sigset_t all, before;
	int r;

	if (keeper == NULL)
		return LARDER_ENOMEM;
	memset(keeper, 0, sizeof(*keeper));
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before); /* the thread inherits it: no signal is for us */
	r = pthread_create(&keeper->thread, NULL, keep, keeper);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (r != 0) {
		free(keeper);
		return LARDER_ETHREAD;
	}
	pthread_setname_np(keeper->thread, "larder");
	*result = keeper;
	return 0;
}

static void end(struct keeper *keeper)
{
	int state;

	store_release(&keeper->stop, 1);
	kick(keeper);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state); /* pthread_join is a cancellation point */
	pthread_join(keeper->thread, NULL);
	pthread_setcancelstate(state, NULL);
	free(keeper);
}

static void enlist(struct keeper *keeper, struct larder_cache *cache)
{
	lock_enter(&keeper->lock);
	cache->next_kept = keeper->first;
	keeper->first = cache;
	lock_leave(&keeper->lock);
}

/* Off the list, and wait until the keeper has put the cache down. */
static void delist(struct keeper *keeper, struct larder_cache *cache)
{
	struct larder_cache **at;

	lock_enter(&keeper->lock);
	for (at = &keeper->first; *at != cache; at = &(*at)->next_kept)
		;
	*at = cache->next_kept;
	lock_leave(&keeper->lock);
	for (;;) {
		uint32_t turns = load_acquire(&keeper->turns);
		bool at_it;

		lock_enter(&keeper->lock);
		at_it = keeper->now == cache;
		lock_leave(&keeper->lock);
		if (!at_it)
			return;
		park_wait(&keeper->turns, turns, NULL);
	}
}

int keeper_join(struct larder_cache *cache, bool own)
{
	int r = 0;

	if (own) {
		r = start(&cache->keeper);
	} else {
		lock_enter(&shared_lock);
		if (shared == NULL)
			r = start(&shared);
		if (r == 0) {
			shared->users++;
			cache->keeper = shared;
		}
		lock_leave(&shared_lock);
	}
	if (r == 0)
		enlist(cache->keeper, cache);
	return r;
}

void keeper_leave(struct larder_cache *cache)
{
	struct keeper *keeper = cache->keeper;

	if (keeper == NULL)
		return;
	cache->keeper = NULL;
	lock_enter(&shared_lock);
	if (keeper == shared) {
		if (--keeper->users == 0)
			shared = NULL;
		else
			keeper = NULL;
	}
	lock_leave(&shared_lock);
	if (keeper != NULL)
		end(keeper);
}

void keeper_pause(struct larder_cache *cache)
{
	if (cache->keeper != NULL)
		delist(cache->keeper, cache);
}

void keeper_resume(struct larder_cache *cache)
{
	if (cache->keeper == NULL)
		return;
	enlist(cache->keeper, cache);
	if (load_relaxed(&cache->work) != 0) /* a kick may have found it unlisted */
		kick(cache->keeper);
}
