/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Each mistake gets its code, a sentence, and nothing worse. */
#include "test.h"
#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

static char page[PAGE];

static void nothing(void *user, int64_t result)
{
	(void)user;
	(void)result;
	expect(!"it was not accepted");
}

static void null_is_an_error_or_nothing(void)
{
	struct iolane_engine *engine = NULL;

	expect(iolane_engine_new(NULL, NULL) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_file_open(NULL, "x", IOLANE_OPEN_READ, 0, NULL) == IOLANE_ERROR_ARGUMENT);
	expect_text("engine is NULL");
	expect(iolane_read(NULL, page, PAGE, 0, 0) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_write(NULL, page, PAGE, 0, 0) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_sync(NULL, IOLANE_SYNC_ALL, 0) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_submit(NULL, 1, NULL) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_submit(NULL, 0, NULL) == 0);
	expect(iolane_request_wait(NULL) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_request_done(NULL) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_request_promote(NULL, 0) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_request_cancel(NULL) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_queue_take(NULL, NULL, 0, 1, 0) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_queue_descriptor(NULL) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_queue_new(0, NULL) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_options_set_policy(NULL, 0) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_file_size(NULL) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_file_backend(NULL) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_file_outstanding(NULL) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_file_statistics(NULL, 0, 0, NULL) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_buffer_data(NULL) == NULL);
	expect(iolane_buffer_length(NULL) == 0);
	expect(iolane_engine_new(NULL, &engine) == 0);
	expect(iolane_file_open(engine, NULL, IOLANE_OPEN_READ, 0, NULL) == IOLANE_ERROR_ARGUMENT);
	iolane_engine_free(engine);

	iolane_options_free(NULL);
	iolane_engine_free(NULL);
	iolane_file_free(NULL);
	iolane_arena_free(NULL);
	iolane_buffer_free(NULL);
	iolane_queue_free(NULL);
	expect(iolane_request_free(NULL) == 0);
}

static void numbers_out_of_range(struct iolane_engine *engine, struct iolane_file *file)
{
	struct iolane_options *options = iolane_options_new();
	struct iolane_engine *other;
	struct iolane_buffer *buffer;
	struct iolane_arena *arena;
	struct iolane_file *opened;
	struct iolane_queue *queue;
	struct iolane_statistics statistics;

	expect(iolane_read(file, page, PAGE, 0, 5) == IOLANE_ERROR_ARGUMENT);
	expect_text("there is no level 5");
	expect(iolane_read(file, page, PAGE, 0, -1) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_read(file, NULL, PAGE, 0, 0) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_read(file, NULL, 0, 0, 0) == 0);
	expect(iolane_read(file, page, SIZE_MAX, 0, 0) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_read(file, page, PAGE, UINT64_MAX, 0) == IOLANE_ERROR_TOO_LONG);
	expect(iolane_sync(file, IOLANE_READ, 0) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_file_open(engine, "x", 0, 0, &opened) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_file_open(engine, "x", 256, 0, &opened) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_file_adopt(engine, -1, "x", &opened) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_queue_new(0, &queue) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_queue_new((1 << 20) + 1, &queue) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_arena_new(0, &arena) == IOLANE_ERROR_MEMORY);
	expect(iolane_buffer_new(NULL, PAGE, 3, &buffer) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_file_statistics(file, 0, 3, &statistics) == IOLANE_ERROR_ARGUMENT);

	expect(iolane_options_set_policy(options, 4) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_options_set_backend(options, -1) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_options_set_deadline(options, 5, 1) == IOLANE_ERROR_ARGUMENT);
	expect(iolane_options_set_queued_max(options, 0, 0) == 0);
	expect(iolane_engine_new(options, &other) == 0);
	expect(iolane_file_open(other, "/dev/null", IOLANE_OPEN_READ, 0, &opened) ==
	       IOLANE_ERROR_NOT_A_FILE);
	expect(iolane_file_open(other, "/proc/self/exe", IOLANE_OPEN_READ, 0, &opened) ==
	       IOLANE_ERROR_SETTINGS);
	expect_text("queued_max is 0");
	iolane_engine_free(other);
	iolane_options_free(options);
}

static void what_the_kernel_refuses(struct iolane_engine *engine, const char *folder)
{
	struct iolane_file *file;
	char path[4096];
	int descriptor;

	snprintf(path, sizeof(path), "%s/missing", folder);
	expect(iolane_file_open(engine, path, IOLANE_OPEN_READ, 0, &file) == IOLANE_ERROR_OS);
	expect(iolane_last_os_error() == ENOENT);
	expect_text("missing");

	snprintf(path, sizeof(path), "%s/errors", folder);
	descriptor = open(path, O_RDONLY);
	expect(iolane_file_adopt(engine, descriptor, path, &file) == 0);
	expect(iolane_write(file, page, PAGE, 0, 0) == IOLANE_ERROR_OS);
	expect(iolane_last_os_error() == EBADF);
	expect_text("write of 4096 bytes at offset 0");
	iolane_file_free(file);
	expect(close(descriptor) == -1 && errno == EBADF);
	descriptor = open(path, O_WRONLY | O_APPEND);
	expect(iolane_file_adopt(engine, descriptor, path, &file) == IOLANE_ERROR_NOT_A_FILE);
	expect(close(descriptor) == -1 && errno == EBADF);
}

static void requests_that_cannot_be(struct iolane_file *file)
{
	struct iolane_request *requests[2] = { NULL, NULL };
	struct iolane_queue *queue;
	struct iolane_completion completion;
	struct iolane_io good = { .file = file, .buffer = page, .length = PAGE };
	struct iolane_io ios[2], bad = good;

	expect(iolane_queue_new(1, &queue) == 0);
	expect(iolane_submit(&good, 1, NULL) == IOLANE_ERROR_ARGUMENT);
	expect_text("needs a callback, a queue");
	bad.callback = nothing;
	bad.queue = queue;
	expect(iolane_submit(&bad, 1, NULL) == IOLANE_ERROR_ARGUMENT);
	bad = good;
	bad.queue = queue;
	bad.length = 0;
	expect(iolane_submit(&bad, 1, NULL) == IOLANE_ERROR_OS);
	expect(iolane_last_os_error() == EINVAL);
	bad.operation = IOLANE_SYNC_ALL;
	expect(iolane_submit(&bad, 1, NULL) == IOLANE_ERROR_ARGUMENT);
	bad.operation = 4;
	expect(iolane_submit(&bad, 1, NULL) == IOLANE_ERROR_ARGUMENT);
	bad = good;
	bad.reserved = 1;
	expect(iolane_submit(&bad, 1, requests) == IOLANE_ERROR_ARGUMENT);

	/* The refused one gave its place in the queue back; the second has none. */
	ios[0] = good;
	ios[0].queue = queue;
	ios[0].user = &ios;
	ios[1] = ios[0];
	expect(iolane_submit(ios, 2, requests) == 1);
	expect_text("take some of them first");
	expect(iolane_submit(&ios[1], 1, NULL) == IOLANE_ERROR_FULL);
	expect(iolane_queue_take(queue, &completion, 1, 1, -1) == 1);
	expect(completion.user == &ios && completion.result == PAGE && completion.os_error == 0);
	expect(iolane_queue_take(queue, &completion, 1, 1, 1000000) == 0);
	expect(iolane_request_wait(requests[0]) == PAGE);
	expect(requests[1] == NULL);
	expect(iolane_request_free(requests[0]) == 0);
	expect(iolane_queue_take(queue, &completion, 2, 1, 0) == IOLANE_ERROR_ARGUMENT);
	iolane_queue_free(queue);
}

static void all_codes_have_a_text(void)
{
	int code;

	for (code = IOLANE_OK; code > IOLANE_ERROR_OTHER; code--)
		expect(strcmp(iolane_error_text(code), "unknown error") != 0);
	expect(strcmp(iolane_error_text(1), "unknown error") == 0);
	expect(strlen(iolane_version()) >= 5);
}

int main(int argc, char **argv)
{
	struct iolane_engine *engine;
	struct iolane_request *late;
	struct iolane_file *file;
	struct iolane_io io = { .buffer = page, .length = PAGE };

	expect(argc == 2);
	expect(strcmp(iolane_last_error(), "") == 0);
	all_codes_have_a_text();
	null_is_an_error_or_nothing();
	expect(iolane_engine_new(NULL, &engine) == 0);
	file = new_file(engine, argv[1], "errors", 4 * PAGE);
	numbers_out_of_range(engine, file);
	what_the_kernel_refuses(engine, argv[1]);
	requests_that_cannot_be(file);

	iolane_engine_free(engine);
	expect(iolane_read(file, page, PAGE, 0, 0) == IOLANE_ERROR_CLOSED);
	io.file = file;
	expect(iolane_submit(&io, 1, &late) == 1);
	expect(iolane_request_wait(late) == IOLANE_ERROR_CLOSED);
	expect(iolane_request_free(late) == 0);
	iolane_file_free(file);
	return 0;
}
