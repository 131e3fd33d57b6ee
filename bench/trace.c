/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * trace.c - reading traces, numbering their keys, simulating LRU on the numbers.
 */
#include "trace.h"
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#define KEY_BYTES sizeof(uint64_t)
#define SUFFIX ".u64.gz"
#define NOBODY UINT32_MAX /* no key has this number */

static int complain(char why[TRACE_WHY], const char *sentence)
{
	snprintf(why, TRACE_WHY, "%s", sentence);
	return -1;
}

/* What zlib has against the file. */
static int complain_gzip(char why[TRACE_WHY], gzFile file)
{
	int error;
	const char *text = gzerror(file, &error);

	if (error == Z_ERRNO)
		return complain(why, strerror(errno));
	if (error == Z_BUF_ERROR)
		return complain(why, "the file is truncated: gzip data end too early");
	if (error == Z_MEM_ERROR)
		return complain(why, "no memory");
	snprintf(why, TRACE_WHY, "the gzip data are damaged (%s)", text);
	return -1;
}

/* All bytes of an open file; *size tells how many.  NULL after a complaint. */
static unsigned char *bytes_read(gzFile file, size_t *size, char why[TRACE_WHY])
{
	size_t room = 1 << 20, used = 0;
	unsigned char *bytes = malloc(room);
	int error = Z_OK, got = 1;

	while (bytes != NULL && got > 0) {
		if (used == room) {
			unsigned char *grown = realloc(bytes, room * 2);

			if (grown == NULL)
				break;
			bytes = grown;
			room *= 2;
		}
		errno = 0;
		got = gzread(file, bytes + used, (unsigned)(room - used < 1 << 30 ? room - used : 1 << 30));
		if (got > 0)
			used += (size_t)got;
	}
	if (bytes == NULL || got > 0) {
		complain(why, "no memory");
		free(bytes);
		return NULL;
	}
	/* a short file is an error that only shows here */
	gzerror(file, &error);
	if (got < 0 || (error != Z_OK && error != Z_STREAM_END)) {
		complain_gzip(why, file);
		free(bytes);
		return NULL;
	}
	*size = used;
	return bytes;
}

static int bytes_judge(gzFile file, size_t size, char why[TRACE_WHY])
{
	if (size == 0)
		return complain(why, gzdirect(file) ? "the file is empty" : "the trace holds no requests");
	if (gzdirect(file))
		return complain(why, "this is not a gzip file");
	if (size % KEY_BYTES != 0) {
		snprintf(why, TRACE_WHY, "%zu bytes are no whole number of 8-byte keys", size);
		return -1;
	}
	if (size / KEY_BYTES >= NOBODY)
		return complain(why, "more requests than this program can number");
	return 0;
}

static uint64_t scatter(uint64_t key)
{
	key = (key ^ (key >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	key = (key ^ (key >> 27)) * UINT64_C(0x94d049bb133111eb);
	return key ^ (key >> 31);
}

/* Number the keys with the help of an open-addressed table of requests. */
static int keys_number(struct trace *trace)
{
	size_t places = 64;
	uint32_t *first; /* request in which the key of this place was seen first */

	while (places < trace->requests * 2)
		places *= 2;
	trace->ids = malloc(trace->requests * sizeof(*trace->ids));
	first = malloc(places * sizeof(*first));
	if (trace->ids == NULL || first == NULL) {
		free(first);
		return -1;
	}
	memset(first, 0xff, places * sizeof(*first));
	trace->distinct = 0;
	for (size_t i = 0; i < trace->requests; i++) {
		size_t place = scatter(trace->keys[i]) & (places - 1);

		while (first[place] != NOBODY && trace->keys[first[place]] != trace->keys[i])
			place = (place + 1) & (places - 1);
		if (first[place] == NOBODY) {
			first[place] = (uint32_t)i;
			trace->ids[i] = (uint32_t)trace->distinct++;
		} else {
			trace->ids[i] = trace->ids[first[place]];
		}
	}
	free(first);
	return 0;
}

static char *name_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *name = strdup(slash != NULL ? slash + 1 : path);
	size_t length = name != NULL ? strlen(name) : 0;

	if (length > strlen(SUFFIX) && strcmp(name + length - strlen(SUFFIX), SUFFIX) == 0)
		name[length - strlen(SUFFIX)] = '\0';
	return name;
}

int trace_read(struct trace *trace, const char *path, char why[TRACE_WHY])
{
	gzFile file;
	size_t size = 0;

	memset(trace, 0, sizeof(*trace));
	errno = 0;
	file = gzopen(path, "rb");
	if (file == NULL)
		return complain(why, errno != 0 ? strerror(errno) : "no memory");
	gzbuffer(file, 1 << 17);
	trace->keys = (uint64_t *)bytes_read(file, &size, why);
	if (trace->keys == NULL || bytes_judge(file, size, why) != 0) {
		gzclose(file);
		trace_free(trace);
		return -1;
	}
	gzclose(file);
	trace->requests = size / KEY_BYTES;
	trace->name = name_of(path);
	if (trace->name == NULL || keys_number(trace) != 0) {
		trace_free(trace);
		return complain(why, "no memory");
	}
	return 0;
}

void trace_free(struct trace *trace)
{
	free(trace->name);
	free(trace->keys);
	free(trace->ids);
	memset(trace, 0, sizeof(*trace));
}

uint64_t trace_share(const struct trace *trace, double percent)
{
	double share = round((double)trace->distinct * percent / 100);

	return share < 1 ? 1 : (uint64_t)share;
}

/* A key in the simulated cache, linked into a ring in order of use. */
struct place {
	uint32_t older;
	uint32_t newer;
	bool resident;
};

/* The place behind the last key is the ring's head: its older is the newest key, its newer the oldest. */
struct simulation {
	struct place *places;
	uint32_t head;
	uint64_t capacity;
	uint64_t resident;
	uint64_t hits;
};

static int simulation_open(struct simulation *lru, size_t distinct, uint64_t capacity)
{
	*lru = (struct simulation){ .head = (uint32_t)distinct, .capacity = capacity };
	lru->places = calloc(distinct + 1, sizeof(*lru->places));
	if (lru->places == NULL)
		return -1;
	lru->places[lru->head].older = lru->places[lru->head].newer = lru->head;
	return 0;
}

static void ring_remove(struct place *places, uint32_t id)
{
	places[places[id].older].newer = places[id].newer;
	places[places[id].newer].older = places[id].older;
}

static void simulation_request(struct simulation *lru, uint32_t id)
{
	struct place *places = lru->places;

	if (places[id].resident) {
		lru->hits++;
		ring_remove(places, id);
	} else if (lru->resident == lru->capacity) {
		uint32_t victim = places[lru->head].newer;

		ring_remove(places, victim);
		places[victim].resident = false;
	} else {
		lru->resident++;
	}
	places[id].resident = true;
	places[id].newer = lru->head;
	places[id].older = places[lru->head].older;
	places[places[id].older].newer = id;
	places[lru->head].older = id;
}

uint64_t trace_lru_hits(const struct trace *trace, uint64_t capacity)
{
	struct simulation lru;

	if (simulation_open(&lru, trace->distinct, capacity) != 0)
		return UINT64_MAX;
	for (size_t i = 0; i < trace->requests; i++)
		simulation_request(&lru, trace->ids[i]);
	free(lru.places);
	return lru.hits;
}

uint64_t trace_lru_hits_in_step(const struct trace *trace, uint64_t capacity, unsigned threads, unsigned block)
{
	/* where each thread is, and where its block ends */
	size_t *at = calloc(threads, sizeof(*at));
	size_t *end = calloc(threads, sizeof(*end));
	struct simulation lru = { 0 };
	size_t drawn = 0, left = trace->requests;

	if (at == NULL || end == NULL || simulation_open(&lru, trace->distinct, capacity) != 0) {
		lru.hits = UINT64_MAX;
		goto out;
	}
	while (left > 0) {
		for (unsigned i = 0; i < threads; i++) {
			if (at[i] == end[i]) {
				at[i] = drawn;
				drawn += trace->requests - drawn < block ? trace->requests - drawn : block;
				end[i] = drawn;
			}
			if (at[i] < end[i]) {
				simulation_request(&lru, trace->ids[at[i]++]);
				left--;
			}
		}
	}
out:
	free(lru.places);
	free(end);
	free(at);
	return lru.hits;
}
