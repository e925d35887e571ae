// SPDX-License-Identifier: GPL-2.0
/*
 * The order in which a device of depth 1 serves a burst: burst DEVICE < TRACE.
 *
 * The first request of the trace keeps the device busy while the others are
 * submitted, one by one. A line of the trace is "R|W LEVEL OFFSET LENGTH" in
 * bytes. Prints the numbers of the requests in the order of completion, which
 * is that of dispatch at depth 1. Exits with 2 when the first request was
 * already done before all others were submitted: the order then says nothing.
 */
#include "aio.h"

#include <fcntl.h>

enum { REQUESTS_MAX = 256, LENGTH_MAX = 65536, HAND_OVER_US = 20000 };

/* The inverse of the module's mapping, without privileges. */
static const int priority_of_level[] = {
	IOPRIO(CLASS_BE, 0), IOPRIO(CLASS_BE, 1), IOPRIO(CLASS_BE, 4),
	IOPRIO(CLASS_BE, 6), IOPRIO(CLASS_BE, 7),
};

int main(int argc, char **argv)
{
	static struct iocb iocbs[REQUESTS_MAX];
	struct io_event events[REQUESTS_MAX];
	struct timespec at_once = { 0, 0 };
	unsigned int count = 0, level, done, i;
	unsigned long long offset, length;
	aio_context_t context = 0;
	char direction;
	void *buffer;
	int fd;

	if (argc != 2) {
		fprintf(stderr, "usage: burst DEVICE < TRACE\n");
		return 1;
	}
	fd = open(argv[1], O_RDWR | O_DIRECT);
	if (fd < 0)
		die(argv[1]);
	if (aio_setup(REQUESTS_MAX, &context))
		die("io_setup");
	if (posix_memalign(&buffer, 4096, LENGTH_MAX))
		die("posix_memalign");
	while (count < REQUESTS_MAX &&
	       scanf(" %c %u %llu %llu", &direction, &level, &offset,
		     &length) == 4) {
		prepare(&iocbs[count], fd, direction == 'W', buffer, length,
			offset, priority_of_level[level]);
		iocbs[count].aio_data = count;
		count++;
	}
	for (i = 0; i < count; i++) {
		struct iocb *iocb = &iocbs[i];

		if (aio_submit(context, 1, &iocb) != 1)
			die("io_submit");
		/* A worker of the kernel hands the first two on. */
		if (i < 2)
			usleep(HAND_OVER_US);
	}
	if (aio_wait(context, 0, REQUESTS_MAX, events, &at_once) != 0)
		return 2;
	for (done = 0; done < count; done++) {
		if (aio_wait(context, 1, 1, events, NULL) != 1)
			die("io_getevents");
		if (events[0].res < 0)
			die("a request failed");
		printf("%llu\n", (unsigned long long)events[0].data);
	}
	return 0;
}
