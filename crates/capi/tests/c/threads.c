/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Many threads share an engine, a file and a queue; requests are withdrawn,
 * promoted and waited for, and callbacks try what they must not.
 */
#include "test.h"
#include <poll.h>
#include <pthread.h>

#define THREADS		4
#define ROUNDS		200
#define BEHIND		8

static struct iolane_file *file;
static struct iolane_queue *queue;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void *submit_and_take(void *number)
{
	char mine[PAGE];
	struct iolane_completion completions[THREADS];
	struct iolane_io io = {
		.file = file, .buffer = mine, .length = PAGE,
		.offset = (uintptr_t)number * PAGE, .queue = queue, .user = number,
	};
	struct iolane_request *request;
	long taken = 0;
	int round;

	for (round = 0; round < ROUNDS; round++) {
		io.level = round % 5;
		expect(iolane_submit(&io, 1, &request) == 1);
		expect(iolane_request_promote(request, IOLANE_CRITICAL) >= 0);
		expect(iolane_request_wait(request) == PAGE);
		expect(mine[0] == (char)(uintptr_t)number);
		expect(iolane_request_done(request) == 1);
		expect(iolane_request_free(request) == 0);
		/* Whoever's they are. */
		taken += iolane_queue_take(queue, completions, 0, THREADS, 0);
	}
	return (void *)taken;
}

static void threads_share_a_queue(void)
{
	struct iolane_completion completion;
	pthread_t threads[THREADS];
	struct pollfd watched = { .events = POLLIN };
	long total = 0;
	uintptr_t at;

	watched.fd = iolane_queue_descriptor(queue);
	expect(watched.fd >= 0);
	for (at = 0; at < THREADS; at++)
		expect(pthread_create(&threads[at], NULL, submit_and_take, (void *)at) == 0);
	for (at = 0; at < THREADS; at++) {
		void *taken;

		expect(pthread_join(threads[at], &taken) == 0);
		total += (long)taken;
	}
	while (iolane_queue_take(queue, &completion, 0, 1, 0) == 1)
		total++;
	expect(total == THREADS * ROUNDS);
	expect(poll(&watched, 1, 0) == 0);
}

static struct iolane_request *inside;
static int calls;

/* Holds the device's thread until the gate opens. */
static void hold(void *user, int64_t result)
{
	char other[PAGE];
	struct iolane_request *more;
	struct iolane_io io = { .file = file, .buffer = other, .length = PAGE };

	(void)user;
	expect(result == PAGE);
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
	expect(iolane_read(file, other, PAGE, 0, 0) == IOLANE_ERROR_IN_CALLBACK);
	expect(iolane_submit(&io, 1, &more) == 1);
	expect(iolane_request_wait(more) == IOLANE_ERROR_IN_CALLBACK);
	expect(iolane_request_free(more) == IOLANE_ERROR_IN_CALLBACK);
	expect(iolane_request_cancel(more) == 1);
	expect(iolane_request_wait(more) == IOLANE_ERROR_CANCELLED);
	expect(iolane_request_free(more) == 0);
	calls++;
}

static void cancelled(void *user, int64_t result)
{
	expect(user == &calls && result == IOLANE_ERROR_CANCELLED);
	expect_text("withdrawn");
	calls++;
}

static void requests_are_withdrawn(void)
{
	static char pages[BEHIND][PAGE], first[PAGE];
	struct iolane_request *requests[BEHIND];
	struct iolane_io io = { .file = file, .buffer = first, .length = PAGE, .callback = hold };
	struct iolane_io ios[BEHIND];
	struct iolane_completion completion;
	int at;

	pthread_mutex_lock(&gate);
	expect(iolane_submit(&io, 1, &inside) == 1);
	expect(iolane_request_wait(inside) == PAGE);
	memset(ios, 0, sizeof(ios));
	for (at = 0; at < BEHIND; at++)
		ios[at] = (struct iolane_io){
			.file = file, .buffer = pages[at], .length = PAGE,
			.offset = (uint64_t)at * PAGE, .level = IOLANE_BACKGROUND,
			.user = &calls,
		};
	ios[1].callback = cancelled;
	ios[2].queue = queue;
	expect(iolane_submit(ios, BEHIND, requests) == BEHIND);
	expect(iolane_file_outstanding(file) >= BEHIND - 1);
	/* The device's thread is held, and its window is full: none has gone. */
	for (at = 1; at < 4; at++) {
		expect(iolane_request_cancel(requests[at]) == 1);
		expect(iolane_request_cancel(requests[at]) == 0);
		expect(iolane_request_wait(requests[at]) == IOLANE_ERROR_CANCELLED);
	}
	expect(calls == 1);
	expect(iolane_queue_take(queue, &completion, 1, 1, 0) == 1);
	expect(completion.result == IOLANE_ERROR_CANCELLED && completion.user == &calls);
	expect(iolane_request_promote(requests[7], IOLANE_FOREGROUND) == 1);
	expect(iolane_request_promote(requests[7], 9) == IOLANE_ERROR_ARGUMENT);
	pthread_mutex_unlock(&gate);
	for (at = 0; at < BEHIND; at++) {
		int64_t result = iolane_request_wait(requests[at]);

		expect(result == (at >= 1 && at < 4 ? IOLANE_ERROR_CANCELLED : PAGE));
		expect(iolane_request_free(requests[at]) == 0);
	}
	expect(iolane_request_free(inside) == 0);
}

int main(int argc, char **argv)
{
	struct iolane_options *options = iolane_options_new();
	struct iolane_statistics statistics;
	struct iolane_engine *engine;
	char page[PAGE];
	int at;

	expect(argc == 2);
	expect(iolane_options_set_policy(options, IOLANE_NOOP) == 0);
	/* One in flight: the others can be withdrawn. */
	expect(iolane_options_set_window(options, 1) == 0);
	expect(iolane_options_set_backend(options, IOLANE_THREADS) == 0);
	expect(iolane_options_set_kernel_priority(options, 0) == 0);
	expect(iolane_engine_new(options, &engine) == 0);
	iolane_options_free(options);
	file = new_file(engine, argv[1], "threads", 0);
	for (at = 0; at < BEHIND; at++) {
		memset(page, at, PAGE);
		expect(iolane_write(file, page, PAGE, (uint64_t)at * PAGE, 2) == PAGE);
	}
	expect(iolane_file_backend(file) == IOLANE_THREADS);
	expect(iolane_queue_new(THREADS * ROUNDS, &queue) == 0);
	threads_share_a_queue();
	requests_are_withdrawn();
	expect(iolane_file_statistics(file, IOLANE_NORMAL, IOLANE_WRITE, &statistics) == 0);
	expect(statistics.requests == BEHIND && statistics.bytes == BEHIND * PAGE);
	expect(statistics.errors == 0 && statistics.device.max >= statistics.device.p50);
	iolane_queue_free(queue);
	iolane_engine_free(engine);
	expect(calls == 2);
	iolane_file_free(file);
	return 0;
}
