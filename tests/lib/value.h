/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * value.h - values that notice when the cache breaks a promise.
 *
 * All values of one cache belong to a shelf, which counts them.  A value carries a
 * head and a tail canary, its key, the number of the load that made it, words that
 * all hold the load's stamp, a mark that says alive or destroyed, and a shadow count
 * of the pins that the test holds on it.  The destroy callback checks them, overwrites
 * the value and keeps it for a while, so that a late reader is caught without a
 * sanitizer, too.
 *
 * What is checked all the time:
 *   P4   a value is destroyed only while the shadow count is 0, and it is whole
 *        whenever the test looks at it through a pin;
 *   P6   values alive and loads running, counted from outside, never exceed the
 *        capacity;
 *   P10  a value is destroyed once.
 * What is broken is counted in `faults`, and the first few are printed.
 *
 * The counters are relaxed atomics and the words plain memory: nothing here orders
 * one thread after another, so a thread sanitizer sees whether the library does.
 */
#ifndef TESTS_VALUE_H
#define TESTS_VALUE_H

#include <larder.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VALUE_WORDS 8
#define QUARANTINE 128
#define KEY_BYTES 128

struct value;

struct shelf {
	uint64_t capacity;
	_Atomic uint64_t loads; /* values handed over */
	_Atomic uint64_t destroyed;
	_Atomic uint64_t units; /* alive or being loaded */
	_Atomic uint64_t units_max;
	_Atomic uint64_t started; /* loaders that have begun */
	_Atomic uint64_t faults;
	_Atomic(struct value *) quarantine[QUARANTINE];
	_Atomic uint64_t quarantined;
};

struct value {
	uint64_t head;
	uint64_t number; /* of the key */
	size_t key_len;
	uint64_t load; /* 1, 2, 3 ... in the order of their making */
	struct shelf *shelf;
	_Atomic uint32_t alive;
	_Atomic uint32_t pins;
	_Atomic uint32_t busy; /* for the predicate */
	_Atomic uint32_t asked;
	uint64_t word[VALUE_WORDS];
	uint64_t tail;
};

void shelf_setup(struct shelf *shelf, uint64_t capacity);
/* Free what is kept for late readers. */
void shelf_end(struct shelf *shelf);
/* Something is wrong: counted, and printed if it is among the first. */
void shelf_fault(struct shelf *shelf, const char *what, ...) __attribute__((format(printf, 2, 3)));
uint64_t shelf_faults(struct shelf *shelf);
uint64_t shelf_alive(struct shelf *shelf);

/* ---- keys: a number in so many bytes ------------------------------------------- */

struct key {
	size_t len;
	unsigned char bytes[KEY_BYTES];
};

/* len 8 to KEY_BYTES: the number, then bytes that follow from it. */
struct key key_make(uint64_t number, size_t len);
/* 16, 8, 24, 25, 40 or 100 bytes, always the same for a number: every road of the library. */
struct key key_mixed(uint64_t number);
/* The number of a key's bytes; false if they are not as key_make() has made them. */
bool key_number(const void *bytes, size_t len, uint64_t *number);

/* ---- for loaders ------------------------------------------------------------------ */

/* A loader begins: a unit of capacity is in use. */
void load_begin(struct shelf *shelf);
/* It ends without a value: to be called before it fails or leaves. */
void load_end(struct shelf *shelf);
/* It has a value for this key. */
struct value *value_make(struct shelf *shelf, const void *key, size_t key_len);

/* A larder_load_fn that succeeds at once; arg is the shelf. */
int value_load(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load);
/* One that fails with -77; arg is the shelf. */
int value_load_fails(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load);
/* One that must not be called: that is a fault. */
int value_load_never(const void *key, size_t key_len, void *arg, void **value, struct larder_load *load);
#define LOAD_ERROR (-77)

/* ---- callbacks; ctx is the shelf ---------------------------------------------------- */

void value_destroy(void *value, void *ctx);
/* Not busy?  Also checks that the value is alive. */
int value_idle(void *value, void *ctx);

/* Options with the shelf's capacity and callbacks. */
struct larder_options shelf_options(struct shelf *shelf);
/* Open a cache of this shelf with these options; ends the test if that fails. */
struct larder_cache *shelf_open(struct larder_options *options);

/* ---- pins ---------------------------------------------------------------------------- */

/* After a get: count the pin and check the value.  number: the key that was asked for. */
struct value *value_hold(struct shelf *shelf, const struct larder_ref *ref, uint64_t number);
/* Check it again, at any time. */
void value_check(struct shelf *shelf, const struct value *value, uint64_t number);
/* Check, end the shadow pin, release. */
void value_drop(struct shelf *shelf, struct larder_ref *ref);

/* get and hold: the code. */
int shelf_get(struct larder_cache *cache, struct shelf *shelf, const struct key *key, larder_load_fn *loader, void *arg,
	      struct larder_ref *ref, struct larder_outcome *outcome);
/* get, with value_load, and drop: the code. */
int shelf_visit(struct larder_cache *cache, struct shelf *shelf, uint64_t number);
/* peek and drop: the code. */
int shelf_peek(struct larder_cache *cache, struct shelf *shelf, uint64_t number);

/* ---- at rest ----------------------------------------------------------------------------- */

struct larder_stats stats_of(struct larder_cache *cache);
#define stat_of(cache, member) (stats_of(cache).member)

/* How many of P17's equations do not hold, each printed.  Nothing may be running. */
unsigned unbalanced(struct larder_cache *cache, struct shelf *shelf);
/* Pin fresh keys until busy: how many there were.  Everything must be idle; nothing may be running. */
uint64_t pin_until_busy(struct larder_cache *cache, struct shelf *shelf);

/*
 * Three tests: P17 adds up, as many pins as the capacity, no fault so far.
 * `tag` is what the test lines begin with.
 */
void at_rest(struct larder_cache *cache, struct shelf *shelf, const char *tag);
/* Three more: it closes, every value was destroyed once, still no fault.  Ends the shelf. */
void close_shelf(struct larder_cache *cache, struct shelf *shelf, const char *tag);

/* ---- what threads count for themselves ---------------------------------------------------- */

struct tally {
	uint64_t hits, loaded, load_failed, joined, join_failed, join_abandoned;
	uint64_t busy, nomem, deadlock, closed, absent, in_progress, other;
	uint64_t abandoned; /* by this thread's own loader; counted by the test */
};

void tally_get(struct tally *tally, int code, const struct larder_outcome *outcome);
void tally_peek(struct tally *tally, int code);
void tally_add(struct tally *sum, const struct tally *more);
/* How many columns of the statistics differ from the tally, each printed. */
unsigned tally_differs(const struct tally *tally, const struct larder_stats *stats);

#endif
