/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A request with a deadline of its own goes ahead of others of its level. */
#include "test.h"
#include <pthread.h>

#define REQUESTS	3
/* Too far from each other to be merged. */
#define APART		(8 << 20)

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static uintptr_t order[REQUESTS];
static int done;

/* Keeps the device's thread, so that what is submitted meanwhile queues. */
static void hold(void *user, int64_t result)
{
	expect(user == NULL && result == PAGE);
	pthread_mutex_lock(&gate);
	pthread_mutex_unlock(&gate);
}

static void note(void *user, int64_t result)
{
	expect(result == PAGE);
	order[done++] = (uintptr_t)user;
}

int main(int argc, char **argv)
{
	static char pages[REQUESTS][PAGE], first[PAGE];
	struct iolane_options *options = iolane_options_new();
	struct iolane_request *requests[REQUESTS], *inside;
	struct iolane_io io = { .buffer = first, .length = PAGE, .callback = hold };
	struct iolane_io ios[REQUESTS];
	struct iolane_engine *engine;
	struct iolane_file *file;
	uintptr_t at;

	expect(argc == 2);
	expect(iolane_options_set_policy(options, IOLANE_PRIO_DEADLINE) == 0);
	expect(iolane_options_set_window(options, 1) == 0);
	expect(iolane_options_set_deadline(options, IOLANE_BACKGROUND, 3600000000000) == 0);
	expect(iolane_engine_new(options, &engine) == 0);
	iolane_options_free(options);
	file = new_file(engine, argv[1], "deadline", REQUESTS * APART);
	io.file = file;

	pthread_mutex_lock(&gate);
	expect(iolane_submit(&io, 1, &inside) == 1);
	expect(iolane_request_wait(inside) == PAGE);
	memset(ios, 0, sizeof(ios));
	for (at = 0; at < REQUESTS; at++)
		ios[at] = (struct iolane_io){
			.file = file, .buffer = pages[at], .length = PAGE,
			.offset = at * APART, .level = IOLANE_BACKGROUND,
			.callback = note, .user = (void *)at,
		};
	/* Passed when it comes; that of its level is an hour away. */
	ios[2].deadline_ns = 1;
	expect(iolane_submit(ios, REQUESTS, requests) == REQUESTS);
	pthread_mutex_unlock(&gate);
	for (at = 0; at < REQUESTS; at++) {
		expect(iolane_request_wait(requests[at]) == PAGE);
		expect(iolane_request_free(requests[at]) == 0);
	}
	expect(iolane_request_free(inside) == 0);
	iolane_file_free(file);
	/* Waits for the device's thread: all callbacks have run. */
	iolane_engine_free(engine);
	expect(done == REQUESTS);
	expect(order[0] == 2 && order[1] == 0 && order[2] == 1);
	return 0;
}
