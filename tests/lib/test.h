/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * test.h - all that a test written in C needs.
 */
#ifndef TESTS_TEST_H
#define TESTS_TEST_H

#include <larder.h>

#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tap.h"
#include "threads.h"
#include "value.h"
#include "watch.h"

#define count_up(p) ((void)atomic_fetch_add_explicit((p), 1, memory_order_relaxed))
#define count_of(p) atomic_load_explicit((p), memory_order_relaxed)
#define ELEMENTS(array) (sizeof(array) / sizeof((array)[0]))

#endif
