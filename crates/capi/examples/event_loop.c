/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An event loop watches the eventfd of a completion queue beside its other
 * descriptors, and takes completions when poll(2) says that there are some.
 *
 *	cc event_loop.c $(pkg-config --cflags --libs iolane) && ./a.out FOLDER
 */
#include <iolane.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCK		4096
#define BLOCKS		256
#define AT_ONCE		16
#define WAIT_MS_MAX	20000

static void check(int64_t result, const char *what)
{
	if (result < 0) {
		fprintf(stderr, "%s: %s\n", what, iolane_last_error());
		exit(1);
	}
}

static void submit(struct iolane_file *file, struct iolane_queue *queue, int block,
		   char *memory)
{
	struct iolane_io io = {
		.file = file,
		.operation = IOLANE_READ,
		.level = IOLANE_NORMAL,
		.buffer = memory,
		.length = BLOCK,
		.offset = (uint64_t)block * BLOCK,
		.queue = queue,
		.user = memory,
	};

	check(iolane_submit(&io, 1, NULL), "submit");
}

int main(int argc, char **argv)
{
	static char blocks[BLOCKS * BLOCK], memory[AT_ONCE][BLOCK];
	struct iolane_completion completions[AT_ONCE];
	struct iolane_engine *engine;
	struct iolane_queue *queue;
	struct iolane_file *file;
	struct pollfd watched;
	int next = 0, done = 0;
	int64_t taken, at;
	char path[4096];

	if (argc != 2) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 1;
	}
	snprintf(path, sizeof(path), "%s/blocks", argv[1]);
	memset(blocks, 'b', sizeof(blocks));
	check(iolane_engine_new(NULL, &engine), "engine");
	check(iolane_file_open(engine, path,
			       IOLANE_OPEN_READ | IOLANE_OPEN_WRITE | IOLANE_OPEN_CREATE,
			       0, &file), "open");
	check(iolane_write(file, blocks, sizeof(blocks), 0, IOLANE_NORMAL), "write");

	check(iolane_queue_new(AT_ONCE, &queue), "queue");
	watched.fd = iolane_queue_descriptor(queue);
	watched.events = POLLIN;
	check(watched.fd, "eventfd");
	while (next < AT_ONCE) {
		submit(file, queue, next, memory[next]);
		next++;
	}

	while (done < BLOCKS) {
		if (poll(&watched, 1, WAIT_MS_MAX) != 1) {
			fprintf(stderr, "no completion in %d ms\n", WAIT_MS_MAX);
			return 1;
		}
		taken = iolane_queue_take(queue, completions, 0, AT_ONCE, 0);
		check(taken, "take");
		for (at = 0; at < taken; at++) {
			char *block = completions[at].user;

			if (completions[at].result != BLOCK || block[BLOCK - 1] != 'b') {
				fprintf(stderr, "read: %s\n",
					iolane_error_text((int)completions[at].result));
				return 1;
			}
			done++;
			if (next < BLOCKS)
				submit(file, queue, next++, block);
		}
	}
	printf("%d blocks\n", done);
	iolane_queue_free(queue);
	iolane_file_free(file);
	iolane_engine_free(engine);
	return 0;
}
