/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A child of fork: what is its parent's fails at once, what it makes itself
 * works, and the parent goes on.
 */
#include "test.h"
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_SECONDS_MAX	60
#define CHILDREN		10

static char page[PAGE];

/*
 * AddressSanitizer's allocator has locks that fork does not know (until GCC 13):
 * one that another thread holds stays locked in the child. Under it, children are
 * made when the other threads sleep.
 */
static void before_fork(void)
{
#ifdef __SANITIZE_ADDRESS__
	usleep(50000);
#endif
}

static struct iolane_io read_of(struct iolane_file *file, void *into)
{
	struct iolane_io io = { .file = file, .buffer = into, .length = PAGE };

	io.level = IOLANE_NORMAL;
	return io;
}

static void read_by_itself(struct iolane_engine *engine, const char *folder)
{
	struct iolane_file *file = new_file(engine, folder, "fork", 0);
	struct iolane_request *request;
	struct iolane_io io = read_of(file, page);

	memset(page, 0, PAGE);
	expect(iolane_submit(&io, 1, &request) == 1);
	expect(iolane_request_wait(request) == PAGE);
	expect(page[PAGE - 1] == 'f');
	expect(iolane_request_free(request) == 0);
	expect(iolane_read(file, page, PAGE, 0, 0) == PAGE);
	iolane_file_free(file);
}

static void in_child(struct iolane_engine *engine, struct iolane_file *file,
		     struct iolane_queue *queue, struct iolane_request *outstanding,
		     const char *folder)
{
	struct iolane_completion completion;
	struct iolane_statistics statistics;
	struct iolane_request *request;
	struct iolane_io io = read_of(file, page);
	struct iolane_engine *own;
	struct iolane_file *opened;

	expect(iolane_read(file, page, PAGE, 0, 0) == IOLANE_ERROR_FORKED);
	expect_text("make one after the fork");
	expect(iolane_write(file, page, PAGE, 0, 0) == IOLANE_ERROR_FORKED);
	expect(iolane_sync(file, IOLANE_SYNC_DATA, 0) == IOLANE_ERROR_FORKED);
	expect(iolane_submit(&io, 1, &request) == 1);
	expect(iolane_request_wait(request) == IOLANE_ERROR_FORKED);
	expect(iolane_request_free(request) == 0);
	io.queue = queue;
	expect(iolane_submit(&io, 1, NULL) == IOLANE_ERROR_FORKED);
	expect(iolane_queue_take(queue, &completion, 1, 1, -1) == IOLANE_ERROR_FORKED);
	expect(iolane_queue_descriptor(queue) == IOLANE_ERROR_FORKED);
	expect(iolane_request_done(outstanding) == 1);
	expect(iolane_request_wait(outstanding) == IOLANE_ERROR_FORKED);
	expect(iolane_request_promote(outstanding, 0) == 0);
	expect(iolane_request_cancel(outstanding) == 0);
	expect(iolane_file_open(engine, "x", IOLANE_OPEN_READ, 0, &opened) == IOLANE_ERROR_FORKED);
	expect(iolane_file_backend(file) == IOLANE_ERROR_FORKED);
	expect(iolane_file_statistics(file, 0, 0, &statistics) == 0 && statistics.requests == 0);
	expect(iolane_file_outstanding(file) == 0);

	expect(iolane_engine_new(NULL, &own) == 0);
	read_by_itself(own, folder);

	expect(iolane_request_free(outstanding) == 0);
	iolane_queue_free(queue);
	iolane_file_free(file);
	iolane_engine_free(engine);
	read_by_itself(own, folder);
	iolane_engine_free(own);
}

int main(int argc, char **argv)
{
	struct iolane_request *outstanding;
	struct iolane_engine *engine;
	struct iolane_queue *queue;
	struct iolane_file *file;
	static char other[PAGE];
	struct iolane_io io;
	int at, status;

	expect(argc == 2);
	expect(iolane_engine_new(NULL, &engine) == 0);
	file = new_file(engine, argv[1], "fork", 0);
	memset(page, 'f', PAGE);
	expect(iolane_write(file, page, PAGE, 0, 0) == PAGE);
	expect(iolane_queue_new(CHILDREN, &queue) == 0);
	for (at = 0; at < CHILDREN; at++) {
		pid_t child;

		io = read_of(file, other);
		expect(iolane_submit(&io, 1, &outstanding) == 1);
		before_fork();
		child = fork();
		expect(child >= 0);
		if (child == 0) {
			alarm(CHILD_SECONDS_MAX);
			in_child(engine, file, queue, outstanding, argv[1]);
			_exit(0);
		}
		expect(waitpid(child, &status, 0) == child);
		expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
		expect(iolane_request_wait(outstanding) == PAGE);
		expect(iolane_request_free(outstanding) == 0);
	}
	read_by_itself(engine, argv[1]);
	iolane_queue_free(queue);
	iolane_file_free(file);
	iolane_engine_free(engine);
	return 0;
}
