// SPDX-License-Identifier: MIT OR Apache-2.0
//
// exception-t - P16 and H02 in C++: a loader leaves by an exception.  The load counts as
// abandoned, its followers are told, its unit is free, and the exception goes on to the
// caller of larder_get().
#include <larder.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../lib/tap.h"
#include "../lib/watch.h"

namespace
{

struct not_prepared : std::runtime_error {
	using std::runtime_error::runtime_error;
};

larder_cache *cache;
std::atomic<unsigned> unwound, ended;

struct guard {
	~guard()
	{
		unwound++;
	}
};

struct larder_stats stats()
{
	struct larder_stats s;

	larder_stats_init(&s);
	must(larder_stats(cache, &s) == 0);
	return s;
}

int load_throws(const void *key, size_t len, void *arg, void **, larder_load *)
{
	guard on_the_way;

	if (arg != nullptr) {
		unsigned followers = *static_cast<unsigned *>(arg);

		until(stats().following == followers);
	}
	throw not_prepared(std::string(static_cast<const char *>(key), len));
}

int load_string(const void *key, size_t len, void *, void **value, larder_load *)
{
	*value = new std::string(static_cast<const char *>(key), len);
	return 0;
}

/* A load within a load: the exception passes through both. */
int load_nested(const void *, size_t, void *, void **, larder_load *)
{
	guard on_the_way;
	larder_ref ref;

	larder_get(cache, "inner", 5, load_throws, nullptr, &ref);
	return 0;
}

void end_string(void *value, void *)
{
	delete static_cast<std::string *>(value);
	ended++;
}

std::string caught_from(const char *key, larder_load_fn *loader, void *arg)
{
	larder_ref ref = {};

	try {
		larder_get(cache, key, std::strlen(key), loader, arg, &ref);
	} catch (const not_prepared &e) {
		return ref.private_slot == nullptr ? e.what() : "the ref was touched";
	}
	return "nothing";
}

void test_one()
{
	larder_ref ref;

	is_str(caught_from("key", load_throws, nullptr).c_str(), "key", "P16: the exception reaches the caller");
	is_int(unwound, 1, "P16: having unwound the loader");
	is_int(stats().loads_abandoned, 1, "P17: the load counts as abandoned");
	is_int(stats().loading, 0, "P3: nothing is loading any more");
	is_int(larder_peek(cache, "key", 3, &ref), LARDER_ENOENT, "P3: nothing is left behind");
	is_int(larder_get(cache, "key", 3, load_string, nullptr, &ref), 0, "P3: the next call loads the same key");
	is_str(static_cast<std::string *>(larder_value(&ref))->c_str(), "key", "and has its value");
	is_int(larder_release(&ref), 0, "released");
}

void test_followers()
{
	unsigned followers = 4;
	std::atomic<unsigned> told{ 0 }, caught{ 0 };
	std::vector<std::thread> threads;

	for (unsigned i = 0; i <= followers; i++) {
		threads.emplace_back([&] {
			larder_outcome outcome;
			larder_ref ref;

			larder_outcome_init(&outcome);
			try {
				if (larder_get_with(cache, "joint", 5, load_throws, &followers, nullptr, &ref,
						    &outcome) == LARDER_EABANDONED &&
				    outcome.how == LARDER_JOINED)
					told++;
			} catch (const not_prepared &) {
				caught++;
			}
		});
	}
	for (auto &thread : threads)
		thread.join();
	is_int(caught, 1, "H02: the leader catches its exception");
	is_int(told, followers, "H02: its followers are told that the load was abandoned (P2)");
}

void test_nested()
{
	unsigned before = unwound;

	is_str(caught_from("outer", load_nested, nullptr).c_str(), "inner",
	       "P16: an exception goes through a load within a load");
	is_int(unwound, before + 2, "and unwinds both");
	is_int(stats().loading, 0, "P3: neither is loading any more");
}

void test_many()
{
	unsigned long n = rounds(2000, 100000), wrong = 0;

	for (unsigned long i = 0; i < n; i++)
		wrong += caught_from("again", load_throws, nullptr) != "again";
	is_int(wrong, 0, "H02: %lu exceptions, one after the other, never busy", n);
}

void test_capacity()
{
	std::vector<larder_ref> refs(8);
	unsigned pinned = 0;
	larder_ref ref;

	for (unsigned i = 0; i < 8; i++) {
		std::string key = "pin " + std::to_string(i);

		pinned += larder_get(cache, key.data(), key.size(), load_string, nullptr, &refs[i]) == 0;
	}
	is_int(pinned, 4, "H02: no capacity is lost: four pins succeed, the fifth is busy");
	is_int(larder_get(cache, "x", 1, load_string, nullptr, &ref), LARDER_EBUSY, "P7: busy, indeed");
	for (auto &r : refs)
		larder_release(&r);
}

} // namespace

int main()
{
	larder_options options;

	plan(18);
	larder_options_init(&options);
	options.capacity = 4;
	options.destroy = end_string;
	must(larder_open(&cache, &options) == 0);
	test_one();
	test_followers();
	test_nested();
	test_many();
	test_capacity();
	struct larder_stats s = stats();
	is_int(larder_close(cache), 0, "close");
	is_int(ended, s.loads_ok, "P10: every value was ended once");
	return done();
}
