/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * sweep.h - each call of the library with its 1st, 2nd, 3rd ... allocation failing.
 *
 * Twice: that one alone fails, or all from there on.  After each the code is
 * LARDER_ENOMEM (or the call has found a way without), what it would have written is
 * untouched, the same call again takes no memory more if it fails again and succeeds
 * when memory is back, counting adds up, as many pins as the capacity can be had, the
 * cache closes, and all its memory is back.
 */
#ifndef TESTS_FAULT_SWEEP_H
#define TESTS_FAULT_SWEEP_H

#include <stdbool.h>

#define SWEEP_TESTS (2 * 5 * 13 + 5 + 6)

/* With the library's allocator or with functions of ours. */
void sweep(bool user);

#endif
