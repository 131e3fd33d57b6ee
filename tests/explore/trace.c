/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * trace.c - what happened in a schedule, step by step, with file and line.
 *
 * Code addresses are turned into lines by addr2line (binutils); where that is
 * missing they stay numbers.
 */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EVENTS 65536
#define PLACES 4096

struct event {
	uint32_t step;
	unsigned thread;
	const char *what;
	char name[48];
	uint64_t a, b;
	int order;
	const void *pc;
};

bool tracing;

static struct event *event;
static uint32_t events;
static struct {
	const void *pc;
	char text[96];
} place[PLACES];

void trace_begin(void)
{
	if (tracing && event == NULL)
		event = calloc(EVENTS, sizeof(*event));
	events = 0;
}

void trace_event(const char *what, const void *p, uint64_t a, uint64_t b, int order, const void *pc)
{
	struct event *e;

	if (event == NULL || events == EVENTS)
		return;
	e = &event[events++];
	e->step = (uint32_t)sched_steps();
	e->thread = current;
	e->what = what;
	e->name[0] = '\0';
	if (p != NULL)
		heap_name(p, e->name, sizeof(e->name));
	e->a = a;
	e->b = b;
	e->order = order;
	e->pc = pc;
}

/* "table.c:97 (find_from) < larder.c:120" from what addr2line says. */
static void look_up(const void *pc, char *text, size_t size)
{
	char command[320], program[256], function[128], line[512];
	ssize_t n = readlink("/proc/self/exe", program, sizeof(program) - 1);
	FILE *pipe;
	size_t used = 0;

	snprintf(text, size, "%p", pc);
	if (n <= 0)
		return;
	program[n] = '\0';
	snprintf(command, sizeof(command), "addr2line -fie '%.220s' %p 2>/dev/null", program, (const char *)pc - 1);
	pipe = popen(command, "r");
	if (pipe == NULL)
		return;
	while (used + 4 < size && fgets(function, sizeof(function), pipe) != NULL &&
	       fgets(line, sizeof(line), pipe) != NULL) {
		const char *file = strrchr(line, '/');

		file = file != NULL ? file + 1 : line;
		function[strcspn(function, "\n")] = '\0';
		line[strcspn(line, " \n")] = '\0';
		if (file[0] == '?')
			break;
		used += (size_t)snprintf(text + used, size - used, used == 0 ? "%s (%s)" : " < %s (%s)", file,
					 function);
	}
	(void)pclose(pipe);
}

const char *trace_place(const void *pc)
{
	size_t i = ((uintptr_t)pc >> 2) % PLACES;

	if (pc == NULL)
		return "nowhere";
	while (place[i].pc != NULL && place[i].pc != pc)
		i = (i + 1) % PLACES;
	if (place[i].pc == NULL) {
		look_up(pc, place[i].text, sizeof(place[i].text));
		place[i].pc = pc;
	}
	return place[i].text;
}

void trace_print(void)
{
	static const char *const order[] = { "relaxed", "consume", "acquire", "release", "acq_rel", "seq_cst" };

	for (uint32_t i = 0; i < events; i++) {
		const struct event *e = &event[i];

		printf("%5u  ", e->step);
		if (e->thread == MAIN)
			printf("main");
		else
			printf("%*sT%u%*s", (int)(2 * e->thread), "", e->thread, (int)(2 * (THREADS - e->thread)), "");
		printf(" %-16s %-22s %16lx %16lx %-8s %s\n", e->what, e->name, (unsigned long)e->a, (unsigned long)e->b,
		       e->order >= 0 && e->order <= SEQ_CST ? order[e->order] : "", trace_place(e->pc));
	}
}
