/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h02-t - H02: the loader leaves by an unexpected road, and the key is wedged.
 *
 * Roads: an error; success with NULL; pthread_exit; cancellation asked for before or
 * while the loader sleeps.  Eight followers wait each time; they return with the
 * outcome, the next caller's loader runs and succeeds, no capacity is lost (P2, P3,
 * P16).  C++ exceptions leave in exception-t.  longjmp is forbidden.
 */
#include "../lib/test.h"

#define FOLLOWERS 8
#define KEYS 100

enum road { ERROR, SUCCESS_NULL, EXIT, CANCEL, CANCEL_ASLEEP, ROADS };

static const char *const road_name[ROADS] = { "an error", "success with NULL", "pthread_exit", "its own cancellation",
					      "cancellation while it sleeps" };

struct wedge {
	struct larder_cache *cache;
	struct shelf shelf;
	struct meeting begin, end;
	unsigned long rounds;
	enum road road;
	_Atomic uint64_t key;
	_Atomic bool over;
	_Atomic unsigned long wrong_follower, wrong_leader, wrong_next;
	_Atomic unsigned cleaned;
};

static void cleaned_up(void *arg)
{
	count_up((_Atomic unsigned *)arg);
}

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	struct wedge *w = arg;

	(void)key, (void)key_len, (void)in_progress;
	until(stat_of(w->cache, following) == FOLLOWERS);
	switch (w->road) {
	case ERROR:
		return LOAD_ERROR;
	case SUCCESS_NULL:
		*value = NULL;
		return 0;
	case EXIT:
		pthread_exit(arg);
	case CANCEL:
		pthread_cancel(pthread_self());
		break;
	default:
		break;
	}
	pthread_cleanup_push(cleaned_up, &w->cleaned); /* the unwinding runs the program's own clean-up, too */
	await_cancellation();
	pthread_cleanup_pop(0);
	return 0;
}

static void *lead(void *arg)
{
	struct wedge *w = arg;
	struct key key = key_mixed(w->key);
	struct larder_outcome outcome;
	struct larder_ref ref;
	int r;

	larder_outcome_init(&outcome);
	r = larder_get_with(w->cache, key.bytes, key.len, load, w, NULL, &ref, &outcome);
	if (outcome.how != LARDER_LOADED)
		return NULL;
	if (w->road == ERROR)
		return r == LARDER_ELOAD && outcome.load_error == LOAD_ERROR ? arg : NULL;
	return r == 0 && larder_value(&ref) == NULL && larder_release(&ref) == 0 ? arg : NULL;
}

static void follow(struct worker *worker)
{
	struct wedge *w = worker->arg;

	for (;;) {
		struct larder_outcome outcome;
		struct larder_ref ref;
		struct key key;
		bool right;
		int r;

		meeting_wait(&w->begin);
		if (w->over)
			return;
		until(stat_of(w->cache, loading) == 1);
		key = key_mixed(w->key);
		larder_outcome_init(&outcome);
		r = larder_get_with(w->cache, key.bytes, key.len, value_load_never, &w->shelf, NULL, &ref, &outcome);
		right = outcome.how == LARDER_JOINED;
		if (w->road == ERROR)
			right = right && r == LARDER_ELOAD && outcome.load_error == LOAD_ERROR;
		else if (w->road == SUCCESS_NULL)
			right = right && r == 0 && larder_value(&ref) == NULL && larder_release(&ref) == 0;
		else
			right = right && r == LARDER_EABANDONED && outcome.load_error == 0;
		if (!right)
			count_up(&w->wrong_follower);
		meeting_wait(&w->end);
	}
}

static void end_value(void *value, void *ctx)
{
	if (value != NULL) /* a legal value, which has nothing to end */
		value_destroy(value, ctx);
}

static void test(enum road road, unsigned long n)
{
	static struct wedge w;
	struct larder_options options;
	struct crew crew;

	memset(&w, 0, sizeof(w));
	shelf_setup(&w.shelf, KEYS);
	options = shelf_options(&w.shelf);
	options.destroy = end_value;
	w.cache = shelf_open(&options);
	w.road = road;
	meeting_setup(&w.begin, FOLLOWERS + 1);
	meeting_setup(&w.end, FOLLOWERS + 1);
	crew_start(&crew, FOLLOWERS, follow, &w);
	for (unsigned long i = 0; i < n; i++) {
		pthread_t leader;
		struct key key;
		struct larder_outcome outcome;
		struct larder_ref ref;
		void *want = road == CANCEL || road == CANCEL_ASLEEP ? PTHREAD_CANCELED : &w;

		atomic_store(&w.key, i % KEYS);
		leader = thread_start(lead, &w);
		meeting_wait(&w.begin);
		if (road == CANCEL_ASLEEP) {
			until(stat_of(w.cache, following) == FOLLOWERS);
			pthread_cancel(leader);
		}
		if (thread_join(leader) != want)
			count_up(&w.wrong_leader);
		meeting_wait(&w.end);
		/* What the failure left: nothing.  (A NULL has to go before the key is loaded anew.) */
		key = key_mixed(w.key);
		if (road == SUCCESS_NULL && larder_trim(w.cache, 1) != 1)
			count_up(&w.wrong_next);
		if (shelf_get(w.cache, &w.shelf, &key, value_load, &w.shelf, &ref, &outcome) != 0 ||
		    outcome.how != LARDER_LOADED)
			count_up(&w.wrong_next);
		else
			value_drop(&w.shelf, &ref);
		if (larder_trim(w.cache, 1) != 1)
			count_up(&w.wrong_next);
		watch_pat();
	}
	atomic_store(&w.over, true);
	meeting_wait(&w.begin);
	crew_join(&crew);
	is_int(w.wrong_follower, 0, "H02: the loader leaves by %s, %lu times: its followers are told", road_name[road],
	       n);
	is_int(w.wrong_leader, 0, "H02: the leader goes the way it chose");
	is_int(w.wrong_next, 0, "H02: the next caller loads the key, every time");
	is_int(w.cleaned, road == CANCEL || road == CANCEL_ASLEEP ? n : 0, "H02: the loader's own clean-up has run");
	is_int(pin_until_busy(w.cache, &w.shelf), KEYS, "H02: no capacity is lost");
	is_int(shelf_faults(&w.shelf), 0, "H02: no promise was broken");
	is_int(larder_close(w.cache), 0, "H02: the cache closes");
	shelf_end(&w.shelf);
}

int main(void)
{
	plan(ROADS * 7);
	for (enum road road = 0; road < ROADS; road++)
		test(road, rounds(60, 10000));
	return done();
}
