/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * fault.h - included before everything else where one build is to have all faults:
 * LARDER_FAULT is then this variable.
 */
extern int explore_fault;
