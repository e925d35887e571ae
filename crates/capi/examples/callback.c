/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A checkpoint writes pages, two at a time: each completion submits the next,
 * on the thread of the device, and the last tells the one that waits.
 *
 *	cc callback.c $(pkg-config --cflags --libs iolane) -pthread && ./a.out FOLDER
 */
#include <iolane.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAGE	16384
#define PAGES	100
#define AT_ONCE	2

struct checkpoint {
	struct iolane_file *file;
	char page[PAGE];
	pthread_mutex_t lock;
	pthread_cond_t ended;
	int next;
	int outstanding;
	int failed;
};

static void page_written(void *user, int64_t result);

/* Under the lock. */
static void write_next(struct checkpoint *checkpoint)
{
	struct iolane_io io = {
		.file = checkpoint->file,
		.operation = IOLANE_WRITE,
		.level = IOLANE_BACKGROUND,
		.buffer = checkpoint->page,
		.length = PAGE,
		.offset = (uint64_t)checkpoint->next * PAGE,
		.callback = page_written,
		.user = checkpoint,
	};

	checkpoint->next++;
	checkpoint->outstanding++;
	if (iolane_submit(&io, 1, NULL) != 1) {
		fprintf(stderr, "submit: %s\n", iolane_last_error());
		checkpoint->outstanding--;
		checkpoint->failed = 1;
	}
}

static void page_written(void *user, int64_t result)
{
	struct checkpoint *checkpoint = user;

	pthread_mutex_lock(&checkpoint->lock);
	checkpoint->outstanding--;
	if (result < 0) {
		fprintf(stderr, "write: %s\n", iolane_last_error());
		checkpoint->failed = 1;
	}
	if (checkpoint->next < PAGES && !checkpoint->failed)
		write_next(checkpoint);
	if (checkpoint->outstanding == 0)
		pthread_cond_signal(&checkpoint->ended);
	pthread_mutex_unlock(&checkpoint->lock);
}

int main(int argc, char **argv)
{
	static struct checkpoint checkpoint = {
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.ended = PTHREAD_COND_INITIALIZER,
	};
	struct iolane_engine *engine;
	char path[4096];
	int64_t size;
	int at;

	if (argc != 2) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 1;
	}
	snprintf(path, sizeof(path), "%s/checkpoint", argv[1]);
	memset(checkpoint.page, 'p', PAGE);
	if (iolane_engine_new(NULL, &engine) ||
	    iolane_file_open(engine, path, IOLANE_OPEN_WRITE | IOLANE_OPEN_CREATE, 0,
			     &checkpoint.file)) {
		fprintf(stderr, "%s\n", iolane_last_error());
		return 1;
	}

	pthread_mutex_lock(&checkpoint.lock);
	for (at = 0; at < AT_ONCE; at++)
		write_next(&checkpoint);
	while (checkpoint.outstanding > 0)
		pthread_cond_wait(&checkpoint.ended, &checkpoint.lock);
	pthread_mutex_unlock(&checkpoint.lock);

	if (iolane_sync(checkpoint.file, IOLANE_SYNC_ALL, IOLANE_NORMAL)) {
		fprintf(stderr, "%s\n", iolane_last_error());
		return 1;
	}
	size = iolane_file_size(checkpoint.file);
	printf("%d pages, %lld bytes\n", checkpoint.next, (long long)size);
	iolane_file_free(checkpoint.file);
	iolane_engine_free(engine);
	return checkpoint.failed || size != PAGES * PAGE;
}
