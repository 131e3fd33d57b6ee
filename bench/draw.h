/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * draw.h - bars and numbers for people.
 *
 * Bars are made of block characters where the locale's encoding is UTF-8, of
 * '#' elsewhere, and are never wider than they are told.
 */
#ifndef BENCH_DRAW_H
#define BENCH_DRAW_H

#include <stdint.h>

/* Room for draw_count(). */
#define DRAW_COUNT 28

/* Take the locale from the environment.  Call once, first. */
void draw_begin(void);

/* Columns of the terminal that standard output is, else $COLUMNS, else 80. */
unsigned draw_width(void);

/* A bar of @value in a field of @width columns that stands for @max. */
void draw_bar(double value, double max, unsigned width);

/* 95607 as "95,607". */
const char *draw_count(char text[DRAW_COUNT], uint64_t count);

/* A group of bars in the picture: one label, one value for each of the two series. */
struct draw_group {
	char label[32];
	double value[2];
};

/*
 * Have gnuplot, if it can be found, draw @groups of bars into the PNG file @path.
 * Return: 0, 1 if there is no gnuplot, -1 if it failed.
 */
int draw_picture(const char *path, const char *title, const char *unit, const char *const series[2],
		 const struct draw_group *groups, unsigned group_count);

#endif /* BENCH_DRAW_H */
