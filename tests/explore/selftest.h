/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * selftest.h - small programs of which it is known what a checker must say.
 */
#ifndef SELFTEST_H
#define SELFTEST_H

#include "explore.h"

struct selftest {
	struct scenario scenario;
	const char *finds; /* part of the report that must come; NULL: nothing may be found */
};

extern const struct selftest selftests[];
extern const unsigned selftest_count;

#endif
