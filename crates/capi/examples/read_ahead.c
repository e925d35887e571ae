/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A scan reads an extent ahead, past the page cache, into a buffer of an arena.
 * A query comes to need one of its pages, and promotes it.
 *
 *	cc read_ahead.c $(pkg-config --cflags --libs iolane) && ./a.out FOLDER
 */
#include <iolane.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE	16384
#define PAGES	64
#define WANTED	41

static void check(int64_t result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", what, iolane_last_error());
		exit(1);
	}
}

/* Page n holds the number n. Without direct I/O, the file is buffered. */
static struct iolane_file *table(struct iolane_engine *engine, const char *folder,
				 char *extent)
{
	unsigned int flags = IOLANE_OPEN_READ | IOLANE_OPEN_WRITE | IOLANE_OPEN_CREATE;
	struct iolane_file *file;
	char path[4096];
	int opened, page;

	snprintf(path, sizeof(path), "%s/table", folder);
	opened = iolane_file_open(engine, path, flags | IOLANE_OPEN_DIRECT, 0, &file);
	if (opened == IOLANE_ERROR_NO_DIRECT)
		opened = iolane_file_open(engine, path, flags, 0, &file);
	check(opened, "open");
	for (page = 0; page < PAGES; page++)
		memset(extent + page * PAGE, page, PAGE);
	check(iolane_write(file, extent, PAGES * PAGE, 0, IOLANE_NORMAL), "write");
	memset(extent, 0xff, PAGES * PAGE);
	return file;
}

int main(int argc, char **argv)
{
	struct iolane_request *requests[PAGES];
	struct iolane_statistics statistics;
	struct iolane_io ios[PAGES];
	struct iolane_options *options;
	struct iolane_engine *engine;
	struct iolane_buffer *buffer;
	struct iolane_arena *arena;
	struct iolane_file *file;
	uint64_t read = 0;
	char *extent;
	int page, level;

	if (argc != 2) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 1;
	}
	check(iolane_arena_new(4 << 20, &arena), "arena");
	check(iolane_buffer_new(arena, PAGES * PAGE, 0, &buffer), "buffer");
	extent = iolane_buffer_data(buffer);

	options = iolane_options_new();
	check(iolane_options_set_arena(options, arena), "options");
	/* Read-ahead that is not there after 50 ms is late. */
	check(iolane_options_set_deadline(options, IOLANE_PREFETCH, 50000000), "options");
	check(iolane_engine_new(options, &engine), "engine");
	iolane_options_free(options);
	file = table(engine, argv[1], extent);

	memset(ios, 0, sizeof(ios));
	for (page = 0; page < PAGES; page++) {
		ios[page].file = file;
		ios[page].operation = IOLANE_READ;
		ios[page].level = IOLANE_PREFETCH;
		ios[page].buffer = extent + page * PAGE;
		ios[page].length = PAGE;
		ios[page].offset = (uint64_t)page * PAGE;
	}
	if (iolane_submit(ios, PAGES, requests) != PAGES) {
		fprintf(stderr, "submit: %s\n", iolane_last_error());
		return 1;
	}

	/* 0 if it is here already. */
	check(iolane_request_promote(requests[WANTED], IOLANE_FOREGROUND), "promote");
	check(iolane_request_wait(requests[WANTED]), "read");
	if (extent[WANTED * PAGE] != WANTED)
		return 1;

	for (page = 0; page < PAGES; page++) {
		check(iolane_request_wait(requests[page]), "read");
		check(iolane_request_free(requests[page]), "free");
		if (extent[page * PAGE] != page || extent[page * PAGE + PAGE - 1] != page)
			return 1;
	}

	for (level = IOLANE_CRITICAL; level <= IOLANE_BACKGROUND; level++) {
		check(iolane_file_statistics(file, level, IOLANE_READ, &statistics),
		      "statistics");
		read += statistics.bytes;
	}
	printf("read %llu bytes\n", (unsigned long long)read);

	iolane_file_free(file);
	iolane_engine_free(engine);
	iolane_buffer_free(buffer);
	iolane_arena_free(arena);
	return read != PAGES * PAGE;
}
