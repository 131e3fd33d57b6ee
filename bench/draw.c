/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * draw.c - bars in the terminal, and a picture by gnuplot where it is installed.
 */
#include "draw.h"
#include <inttypes.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#define WIDTH_DEFAULT 80
#define WIDTH_MIN 40
#define WIDTH_MAX 160

static bool utf8;

void draw_begin(void)
{
	setlocale(LC_CTYPE, "");
	utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
}

unsigned draw_width(void)
{
	struct winsize size;
	const char *columns = getenv("COLUMNS");
	long width = WIDTH_DEFAULT;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
		width = size.ws_col;
	else if (columns != NULL && strtol(columns, NULL, 10) > 0)
		width = strtol(columns, NULL, 10);
	if (width < WIDTH_MIN)
		width = WIDTH_MIN;
	return width > WIDTH_MAX ? WIDTH_MAX : (unsigned)width;
}

void draw_bar(double value, double max, unsigned width)
{
	/* U+2588 is a full block, U+2589 seven eighths of one, to U+258F, one eighth */
	double share = max > 0 && value > 0 ? value / max : 0;
	unsigned eighths = (unsigned)lround((share > 1 ? 1 : share) * width * 8);

	if (eighths == 0 && value > 0)
		eighths = 1;
	for (unsigned i = 0; i < eighths / 8; i++)
		fputs(utf8 ? "\xe2\x96\x88" : "#", stdout);
	if (eighths % 8 != 0) {
		if (utf8)
			printf("\xe2\x96%c", (char)(0x90 - eighths % 8));
		else if (eighths % 8 >= 4 || eighths < 8)
			putchar('#');
	}
}

const char *draw_count(char text[DRAW_COUNT], uint64_t count)
{
	char digits[DRAW_COUNT];
	int length = snprintf(digits, sizeof(digits), "%" PRIu64, count);
	char *end = text;

	for (int i = 0; i < length; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			*end++ = ',';
		*end++ = digits[i];
	}
	*end = '\0';
	return text;
}

/* Whether some folder of $PATH has an executable file of this name. */
static bool program_exists(const char *name)
{
	const char *path = getenv("PATH");
	char file[4096];

	while (path != NULL && *path != '\0') {
		size_t length = strcspn(path, ":");
		struct stat about;

		if (length > 0 &&
		    (size_t)snprintf(file, sizeof(file), "%.*s/%s", (int)length, path, name) < sizeof(file) &&
		    stat(file, &about) == 0 && S_ISREG(about.st_mode) && access(file, X_OK) == 0)
			return true;
		path += length;
		path += *path == ':';
	}
	return false;
}

/* A string of gnuplot's in single quotes. */
static void quote(FILE *plot, const char *text)
{
	putc('\'', plot);
	for (; *text != '\0'; text++) {
		if (*text == '\'')
			putc('\'', plot);
		putc(*text, plot);
	}
	putc('\'', plot);
}

static void plot_write(FILE *plot, const char *path, const char *title, const char *unit, const char *const series[2],
		       const struct draw_group *groups, unsigned group_count)
{
	fprintf(plot,
		"if (strstrt(GPVAL_TERMINALS, 'pngcairo') > 0) {\n"
		"	set terminal pngcairo noenhanced size 900,520 font 'Sans,11'\n"
		"} else {\n"
		"	set terminal png noenhanced size 900,520\n"
		"}\n"
		"set output ");
	quote(plot, path);
	fprintf(plot, "\nset title ");
	quote(plot, title);
	fprintf(plot, "\nset ylabel ");
	quote(plot, unit);
	fprintf(plot,
		"\nset style data histograms\n"
		"set style histogram clustered gap 1\n"
		"set style fill solid 0.9 noborder\n"
		"set boxwidth 0.9\n"
		"set grid ytics lc rgb '#d0d0d0'\n"
		"set border 3\n"
		"set tics nomirror\n"
		"set yrange [0:*]\n"
		"set offsets 0, 0, graph 0.08, 0\n"
		"set key top left\n"
		"$bars << END\n");
	for (unsigned i = 0; i < group_count; i++)
		fprintf(plot, "\"%s\" %.3f %.3f\n", groups[i].label, groups[i].value[0], groups[i].value[1]);
	fprintf(plot, "END\nplot $bars using 2:xtic(1) lc rgb '#1f77b4' title ");
	quote(plot, series[0]);
	fprintf(plot, ", '' using 3 lc rgb '#b0b0b0' title ");
	quote(plot, series[1]);
	fprintf(plot,
		", '' using ($0 - 0.17):2:(sprintf('%%.1f', $2)) with labels offset 0,0.7 notitle"
		", '' using ($0 + 0.17):3:(sprintf('%%.1f', $3)) with labels offset 0,0.7 notitle\n");
}

int draw_picture(const char *path, const char *title, const char *unit, const char *const series[2],
		 const struct draw_group *groups, unsigned group_count)
{
	struct sigaction ignore = { .sa_handler = SIG_IGN }, before;
	FILE *plot;
	int status = -1;

	if (!program_exists("gnuplot"))
		return 1;
	/* a gnuplot that ends early is no reason to be killed */
	sigaction(SIGPIPE, &ignore, &before);
	plot = popen("gnuplot", "w");
	if (plot != NULL) {
		plot_write(plot, path, title, unit, series, groups, group_count);
		status = pclose(plot) == 0 ? 0 : -1;
	}
	sigaction(SIGPIPE, &before, NULL);
	return status;
}
