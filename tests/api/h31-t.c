/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * h31-t - H31 and P2: the value is evicted before the followers that waited for it can
 * pin it.
 *
 * Capacity 1.  The leader publishes and lets go at once; a hostile thread asks for
 * other keys without a pause.  Each of the 8 followers gets the value that it waited
 * for, pinned, whatever became of the key meanwhile.
 */
#include "../lib/test.h"

#define FOLLOWERS 8

struct race {
	struct larder_cache *cache;
	struct shelf shelf;
	unsigned long rounds;
	_Atomic uint64_t load_of_round;
	_Atomic unsigned long leader_failed, not_joined, other_value, hostile_loads, hostile_wrong;
	_Atomic bool over;
};

static int load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *in_progress)
{
	struct race *race = arg;
	int r;

	until(stat_of(race->cache, following) == FOLLOWERS);
	r = value_load(key, key_len, &race->shelf, value, in_progress);
	atomic_store(&race->load_of_round, ((struct value *)*value)->load);
	return r;
}

static void run(struct worker *worker)
{
	struct race *race = worker->arg;

	for (unsigned long i = 0; i < race->rounds; i++) {
		struct key key = key_mixed(i);
		struct larder_outcome o;
		struct larder_ref ref;
		int r;

		meeting_wait(&worker->crew->meeting);
		if (worker->index == 0) {
			/* The hostile thread may have the one unit just now. */
			while ((r = shelf_get(race->cache, &race->shelf, &key, load, race, &ref, NULL)) == LARDER_EBUSY)
				sched_yield();
			if (r != 0)
				count_up(&race->leader_failed);
			else
				value_drop(&race->shelf, &ref);
			watch_pat();
		} else {
			do
				sched_yield();
			while (larder_peek(race->cache, key.bytes, key.len, &ref) != LARDER_EINPROGRESS);
			r = shelf_get(race->cache, &race->shelf, &key, value_load_never, &race->shelf, &ref, &o);
			if (r != 0 || o.how != LARDER_JOINED) {
				count_up(&race->not_joined);
				if (r == 0)
					value_drop(&race->shelf, &ref);
				continue;
			}
			if (((struct value *)larder_value(&ref))->load != atomic_load(&race->load_of_round))
				count_up(&race->other_value);
			sched_yield();
			value_drop(&race->shelf, &ref);
		}
	}
	if (worker->index == 0)
		atomic_store(&race->over, true);
}

static void *be_hostile(void *arg)
{
	struct race *race = arg;

	for (uint64_t k = 1000000000; !atomic_load(&race->over); k++) {
		int r = shelf_visit(race->cache, &race->shelf, k);

		if (r == 0)
			count_up(&race->hostile_loads);
		else if (r != LARDER_EBUSY)
			count_up(&race->hostile_wrong);
		sched_yield();
	}
	return NULL;
}

int main(void)
{
	static struct race race;
	struct larder_options options;
	pthread_t hostile;
	struct crew crew;

	plan(11);
	shelf_setup(&race.shelf, 1);
	options = shelf_options(&race.shelf);
	race.cache = shelf_open(&options);
	race.rounds = rounds(1500, 100000);
	hostile = thread_start(be_hostile, &race);
	crew_start(&crew, FOLLOWERS + 1, run, &race);
	crew_join(&crew);
	thread_join(hostile);
	is_int(race.leader_failed, 0, "H31: %lu loads with 8 followers each, capacity 1", race.rounds);
	is_int(race.not_joined, 0, "H31: every follower gets a value, pinned, from the load that it joined");
	is_int(race.other_value, 0, "H31: the very value of that load");
	is_int(race.hostile_wrong, 0, "H31: the hostile thread succeeds or is refused");
	ok(race.hostile_loads > 0, "H31: it evicted %lu times meanwhile", (unsigned long)race.hostile_loads);
	at_rest(race.cache, &race.shelf, "H31");
	close_shelf(race.cache, &race.shelf, "H31");
	return done();
}
