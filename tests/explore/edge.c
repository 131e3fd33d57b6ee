/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * edge.c - marks around the subject's static data.
 *
 * Compiled twice, as the first and the last object of the subject on the link
 * command: the linker places data in that order.  sched.c copies what lies between
 * the marks back before each schedule; memory.c watches it.
 */
#ifndef EDGE
#error "-DEDGE=begin or -DEDGE=end"
#endif
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)

char JOIN(subject_data_, EDGE)[64] __attribute__((aligned(64))) = { 1 };
char JOIN(subject_bss_, EDGE)[64] __attribute__((aligned(64)));
