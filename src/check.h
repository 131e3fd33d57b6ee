/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * check.h - what the library promises to itself, and faults on purpose.
 *
 * CHECK(x) is a cheap promise, always tested in a checking build
 * (./configure --enable-checks) and left out otherwise; a broken one means that
 * memory is corrupt or about to be, and stops the program.  A user's mistake
 * never ends here, but for one that would corrupt the cache if its timing were a
 * little different: the release of a stale copy of a ref.
 */
#ifndef LARDER_CHECK_H
#define LARDER_CHECK_H

#if defined(LARDER_CHECKS) && LARDER_CHECKS
#include <stdio.h>
#include <stdlib.h>
#define CHECK(x)                                                                        \
	do {                                                                            \
		if (!(x)) {                                                             \
			fprintf(stderr, "larder: %s:%d: %s\n", __FILE__, __LINE__, #x); \
			abort();                                                        \
		}                                                                       \
	} while (0)
#else
#define CHECK(x) ((void)sizeof(!(x)))
#endif

/*
 * LARDER_FAULT=n builds the library with one fault, to show that the checkers
 * find it (tests/explore).  Never defined in a normal build.
 */
#ifndef LARDER_FAULT
#define LARDER_FAULT 0
#endif
#define FAULT(n) (LARDER_FAULT == (n))
enum {
	FAULT_NO_LOOK = 1,       /* no look at the state after the pin */
	FAULT_NO_MEMBARRIER,     /* 2: no process-wide barrier before the search */
	FAULT_SEARCH_FIRST,      /* 3: slots searched before the barrier */
	FAULT_PUBLISH_RELAXED,   /* 4: the value is published without release */
	FAULT_RELEASE_RELAXED,   /* 5: a slot is cleared without release */
	FAULT_SEARCH_RELAXED,    /* 6: the search reads slots without acquire */
	FAULT_WAKE_LOST,         /* 7: publication wakes nobody */
	FAULT_NO_GRACE,          /* 8: places are used again without a grace period */
	FAULT_TAKEN_UNPROVEN,    /* 9: nominees are handed out without the search */
	FAULT_TICKET_UNCHECKED,  /* 10: a ticket is honoured whatever became of its entry */
	FAULT_INSERT_UNSEARCHED, /* 11: insertion does not search under the head it replaces */
	FAULT_BATON_DROPPED      /* 12: a woken follower does not wake the next */
};

#endif
