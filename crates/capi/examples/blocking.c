/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A record is written to a log, made durable and read again, each by a call
 * that waits.
 *
 *	cc blocking.c $(pkg-config --cflags --libs iolane) && ./a.out FOLDER
 */
#include <iolane.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int64_t result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", what, iolane_last_error());
		exit(1);
	}
}

int main(int argc, char **argv)
{
	static const char record[] = "begin; insert; commit";
	struct iolane_engine *engine;
	struct iolane_file *log;
	char path[4096], again[sizeof(record)];
	int64_t bytes;

	if (argc != 2) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 1;
	}
	snprintf(path, sizeof(path), "%s/log", argv[1]);

	check(iolane_engine_new(NULL, &engine), "engine");
	check(iolane_file_open(engine, path,
			       IOLANE_OPEN_READ | IOLANE_OPEN_WRITE | IOLANE_OPEN_CREATE,
			       1 << 20, &log), "open");

	check(iolane_write(log, record, sizeof(record), 4096, IOLANE_CRITICAL), "write");
	check(iolane_sync(log, IOLANE_SYNC_DATA, IOLANE_CRITICAL), "sync");

	bytes = iolane_read(log, again, sizeof(again), 4096, IOLANE_FOREGROUND);
	check(bytes, "read");
	printf("%s: %d bytes: %s\n", path, (int)bytes, again);
	if (bytes != sizeof(record) || memcmp(record, again, sizeof(record)) != 0)
		return 1;

	iolane_file_free(log);
	iolane_engine_free(engine);
	return 0;
}
