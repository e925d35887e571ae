/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What libaio's functions do, on the kernel's AIO and on libiolane-aio alike:
 *
 *	libaio FOLDER		all that both do
 *	libaio FOLDER iolane	and what only libiolane-aio does
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libaio.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE			4096
#define PAGES			64
#define CHILD_SECONDS_MAX	60
#define FLAG_IOPRIO		(1 << 1)

#define expect(condition)						\
	do {								\
		if (!(condition)) {					\
			fprintf(stderr, "%s:%d: %s (errno %d)\n",	\
				__FILE__, __LINE__, #condition, errno);	\
			abort();					\
		}							\
	} while (0)

static const char *folder;
static char *memory;
/* O_DIRECT, the second time. */
static int extra_flags;

static int new_file(const char *name, int flags)
{
	char path[4096];
	int descriptor;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	descriptor = open(path, O_RDWR | O_CREAT | flags | extra_flags, 0600);
	expect(descriptor >= 0);
	return descriptor;
}

/* One request at a time: what comes of it. */
static long result_of(io_context_t context, struct iocb *iocb)
{
	struct iocb *list[1] = { iocb };
	struct io_event event;
	int submitted = io_submit(context, 1, list);

	if (submitted < 0)
		return submitted;
	expect(submitted == 1);
	expect(io_getevents(context, 1, 1, &event, NULL) == 1);
	expect(event.obj == iocb && event.data == iocb->data && event.res2 == 0);
	return (long)event.res;
}

static void transfers(io_context_t context)
{
	int file = new_file("transfers", 0);
	struct iovec vectors[3] = {
		{ memory, PAGE }, { memory + 2 * PAGE, 0 }, { memory + 3 * PAGE, 100 },
	};
	struct iocb iocb;

	memset(memory, 'a', 8 * PAGE);
	io_prep_pwrite(&iocb, file, memory, 2 * PAGE, PAGE);
	iocb.data = &iocb;
	expect(result_of(context, &iocb) == 2 * PAGE);
	memset(memory, 'v', PAGE);
	memset(memory + 3 * PAGE, 'w', PAGE);
	io_prep_pwritev(&iocb, file, vectors, 3, 0);
	expect(result_of(context, &iocb) == PAGE + 100);
	io_prep_fdsync(&iocb, file);
	expect(result_of(context, &iocb) == 0);
	io_prep_fsync(&iocb, file);
	expect(result_of(context, &iocb) == 0);

	memset(memory, 0, 8 * PAGE);
	io_prep_pread(&iocb, file, memory, 4 * PAGE, 0);
	expect(result_of(context, &iocb) == 3 * PAGE);
	expect(memory[0] == 'v' && memory[PAGE + 99] == 'w' && memory[PAGE + 100] == 'a');
	vectors[1].iov_len = PAGE;
	io_prep_preadv(&iocb, file, vectors, 3, PAGE + PAGE / 2);
	expect(result_of(context, &iocb) == PAGE + PAGE / 2);
	io_prep_pread(&iocb, file, memory, PAGE, 100 * PAGE);
	expect(result_of(context, &iocb) == 0);
	io_prep_pread(&iocb, file, memory, 0, 0);
	expect(result_of(context, &iocb) == 0);
	close(file);
}

static void mistakes(io_context_t context)
{
	int file = new_file("mistakes", 0), direct, reader;
	struct iocb iocb, *list[2] = { &iocb, NULL };
	struct io_event event;
	io_context_t other = NULL;
	char path[4096];

	expect(io_setup(0, &other) == -EINVAL);
	expect(io_setup(-1, &other) == -EINVAL);
	other = context;
	expect(io_setup(1, &other) == -EINVAL);
	expect(io_submit(context, -1, list) == -EINVAL);
	expect(io_submit(context, 0, list) == 0);
	expect(io_destroy((io_context_t)memory) == -EINVAL);
	expect(io_submit((io_context_t)memory, 1, list) == -EINVAL);

	io_prep_pread(&iocb, 9999, memory, PAGE, 0);
	expect(result_of(context, &iocb) == -EBADF);
	io_prep_pread(&iocb, file, memory, PAGE, 0);
	iocb.aio_lio_opcode = 99;
	expect(result_of(context, &iocb) == -EINVAL);
	io_prep_fsync(&iocb, file);
	iocb.u.c.nbytes = 1;
	expect(result_of(context, &iocb) == -EINVAL);
	io_prep_pread(&iocb, file, memory, PAGE, 0);
	iocb.u.c.flags = 1 << 7;
	expect(result_of(context, &iocb) == 0);
	io_prep_pread(&iocb, file, memory, PAGE, 0);
	io_set_eventfd(&iocb, file);
	expect(result_of(context, &iocb) == -EINVAL);

	snprintf(path, sizeof(path), "%s/mistakes", folder);
	reader = open(path, O_RDONLY);
	io_prep_pwrite(&iocb, reader, memory, PAGE, 0);
	expect(result_of(context, &iocb) == -EBADF);
	close(reader);
	direct = open(path, O_RDWR | O_DIRECT);
	if (direct >= 0) {
		expect(write(file, memory, PAGE) == PAGE);
		io_prep_pread(&iocb, direct, memory + 1, 511, 3);
		expect(result_of(context, &iocb) == -EINVAL);
		close(direct);
	}

	/* The second is refused: one was taken. */
	io_prep_pread(&iocb, file, memory, PAGE, 0);
	expect(io_submit(context, 2, list) == 1);
	expect(io_getevents(context, 1, 1, &event, NULL) == 1);
	expect(io_getevents(context, 2, 1, &event, NULL) == -EINVAL);
	expect(io_getevents(context, -1, 1, &event, NULL) == -EINVAL);
	expect(io_cancel(context, &iocb, &event) == -EINVAL);
	close(file);
}

static void waits(io_context_t context)
{
	struct timespec at_once = { 0, 0 }, soon = { 0, 20000000 }, before, after;
	struct io_event events[PAGES];
	struct iocb iocbs[PAGES], *list[PAGES];
	int file = new_file("waits", 0), at, got = 0;

	clock_gettime(CLOCK_MONOTONIC, &before);
	expect(io_getevents(context, 1, 1, events, &soon) == 0);
	clock_gettime(CLOCK_MONOTONIC, &after);
	expect((after.tv_sec - before.tv_sec) * 1000000000L + after.tv_nsec - before.tv_nsec >=
	       soon.tv_nsec);
	expect(io_getevents(context, 1, 1, events, &at_once) == 0);
	expect(io_getevents(context, 0, 1, events, NULL) == 0);

	expect(pwrite(file, memory, PAGES * PAGE, 0) == PAGES * PAGE);
	for (at = 0; at < PAGES; at++) {
		io_prep_pread(&iocbs[at], file, memory + at * PAGE, PAGE, (long long)at * PAGE);
		iocbs[at].data = (void *)(uintptr_t)at;
		list[at] = &iocbs[at];
	}
	expect(io_submit(context, PAGES, list) == PAGES);
	got = io_getevents(context, PAGES / 2, PAGES, events, NULL);
	expect(got >= PAGES / 2);
	while (got < PAGES) {
		int more = io_getevents(context, 1, PAGES - got, events + got, NULL);

		expect(more >= 1);
		got += more;
	}
	for (at = 0; at < PAGES; at++) {
		uintptr_t number = (uintptr_t)events[at].data;

		expect(events[at].res == PAGE && events[at].obj == &iocbs[number]);
		iocbs[number].data = (void *)(uintptr_t)PAGES;
		expect(number < PAGES);
	}
	close(file);
}

static void nothing(int signal)
{
	(void)signal;
}

static void signals(io_context_t context)
{
	struct sigaction action = { .sa_handler = nothing, .sa_flags = SA_RESTART };
	/* Again and again: a busy machine may be late to wait for the first. */
	struct itimerspec often = { { 0, 20000000 }, { 0, 20000000 } };
	struct itimerspec never = { { 0, 0 }, { 0, 0 } };
	struct timespec later = { CHILD_SECONDS_MAX, 0 };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	struct io_event got;
	sigset_t blocked, none;
	timer_t timer;

	expect(sigaction(SIGUSR1, &action, NULL) == 0);
	expect(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	expect(timer_settime(timer, 0, &often, NULL) == 0);
	expect(io_getevents(context, 1, 1, &got, NULL) == -EINTR);
	expect(io_getevents(context, 1, 1, &got, &later) == -EINTR);
	expect(timer_settime(timer, 0, &never, NULL) == 0);

	/* Blocked outside, open inside: it is not lost, whenever it comes. */
	sigemptyset(&none);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	expect(sigprocmask(SIG_BLOCK, &blocked, NULL) == 0);
	expect(raise(SIGUSR1) == 0);
	expect(io_pgetevents(context, 1, 1, &got, &later, &none) == -EINTR);
	later.tv_sec = 0;
	later.tv_nsec = 20000000;
	expect(raise(SIGUSR1) == 0);
	expect(io_pgetevents(context, 1, 1, &got, &later, &blocked) == 0);
	expect(io_pgetevents(context, 1, 1, &got, &later, NULL) == 0);
	expect(sigprocmask(SIG_UNBLOCK, &blocked, NULL) == 0);
	timer_delete(timer);
}

/* With a mask, too, events end the wait. */
static void masked_wait(io_context_t context)
{
	int file = new_file("masked", 0);
	struct iocb iocb, *list[1] = { &iocb };
	struct io_event event;
	sigset_t none;

	sigemptyset(&none);
	expect(pwrite(file, memory, PAGE, 0) == PAGE);
	io_prep_pread(&iocb, file, memory, PAGE, 0);
	expect(io_submit(context, 1, list) == 1);
	expect(io_pgetevents(context, 1, 1, &event, NULL, &none) == 1);
	expect(event.res == PAGE);
	close(file);
}

static void event_descriptors(io_context_t context)
{
	int file = new_file("events", 0), event = eventfd(0, EFD_NONBLOCK);
	struct pollfd watched = { .fd = event, .events = POLLIN };
	struct io_event got[2];
	struct iocb iocbs[2], *list[2] = { &iocbs[0], &iocbs[1] };
	struct timespec at_once = { 0, 0 };
	uint64_t count = 0, more;
	int at;

	expect(event >= 0 && pwrite(file, memory, 2 * PAGE, 0) == 2 * PAGE);
	for (at = 0; at < 2; at++) {
		io_prep_pread(&iocbs[at], file, memory, PAGE, (long long)at * PAGE);
		io_set_eventfd(&iocbs[at], event);
	}
	expect(io_submit(context, 2, list) == 2);
	while (count < 2) {
		expect(poll(&watched, 1, CHILD_SECONDS_MAX * 1000) == 1);
		expect(read(event, &more, sizeof(more)) == sizeof(more));
		count += more;
	}
	/* Events are there before their descriptor says so. */
	expect(count == 2 && io_getevents(context, 2, 2, got, &at_once) == 2);
	close(event);
	close(file);
}

static int called;

static void callback(io_context_t context, struct iocb *iocb, long result, long second)
{
	expect(context && iocb && result == PAGE && second == 0);
	called++;
}

static void queue_functions(void)
{
	int file = new_file("queue", 0);
	struct io_event event;
	io_context_t context;
	struct iocb iocb, *list[1] = { &iocb };

	called = 0;
	memset(&context, 0xff, sizeof(context));
	expect(io_queue_init(0, &context) == -EINVAL);
	expect(io_queue_init(1, &context) == 0);
	expect(pwrite(file, memory, PAGE, 0) == PAGE);
	io_prep_pread(&iocb, file, memory, PAGE, 0);
	io_set_callback(&iocb, callback);
	expect(io_submit(context, 1, list) == 1);
	while (called == 0)
		expect(io_queue_run(context) == 0);
	expect(called == 1);
	expect(io_getevents(context, 0, 1, &event, NULL) == 0);
	expect(io_queue_release(context) == 0);
	expect(io_queue_release(context) == -EINVAL);
	close(file);
}

/* A descriptor's number is another file's, while requests on it are out. */
static void closed_descriptors(io_context_t context)
{
	struct iocb iocbs[PAGES], *list[PAGES];
	struct io_event events[PAGES];
	char path[4096];
	int round, at;

	for (round = 0; round < 20; round++) {
		int first = new_file("first", O_TRUNC), second;

		memset(memory, '1', PAGES * PAGE);
		expect(pwrite(first, memory, PAGES * PAGE, 0) == PAGES * PAGE);
		memset(memory, 0, PAGES * PAGE);
		for (at = 0; at < PAGES; at++) {
			io_prep_pread(&iocbs[at], first, memory + at * PAGE, PAGE,
				      (long long)at * PAGE);
			list[at] = &iocbs[at];
		}
		expect(io_submit(context, PAGES, list) == PAGES);
		close(first);
		second = new_file("second", O_TRUNC);
		expect(second == first);
		expect(io_getevents(context, PAGES, PAGES, events, NULL) == PAGES);
		for (at = 0; at < PAGES; at++)
			expect(events[at].res == PAGE && memory[at * PAGE] == '1');
		/* The number now is the second file, which is empty. */
		expect(io_submit(context, 1, list) == 1);
		expect(io_getevents(context, 1, 1, events, NULL) == 1);
		expect(events[0].res == 0);
		close(second);
	}
	snprintf(path, sizeof(path), "%s/first", folder);
	expect(unlink(path) == 0);
}

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

/* A lock by fcntl goes when any descriptor of its file is closed. */
static void locks_stay(io_context_t context)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	int used = new_file("locked", 0), locked = new_file("locked", 0), round, status;
	struct timespec pause = { 0, 120000000 };
	struct iocb iocb;
	pid_t child;

	expect(pwrite(used, memory, PAGE, 0) == PAGE);
	io_prep_pread(&iocb, used, memory, PAGE, 0);
	expect(result_of(context, &iocb) == PAGE);
	close(used);
	expect(fcntl(locked, F_SETLK, &lock) == 0);
	io_prep_pread(&iocb, locked, memory, PAGE, 0);
	for (round = 0; round < 3; round++) {
		nanosleep(&pause, NULL);
		expect(result_of(context, &iocb) == PAGE);
	}
	before_fork();
	child = fork();
	expect(child >= 0);
	if (child == 0) {
		lock.l_type = F_WRLCK;
		_exit(fcntl(locked, F_SETLK, &lock) == -1 ? 0 : 1);
	}
	expect(waitpid(child, &status, 0) == child);
	expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	close(locked);
}

static void children(io_context_t context)
{
	int file = new_file("children", 0), status;
	struct iocb iocb, *list[1] = { &iocb };
	struct io_event event;
	pid_t child;

	expect(pwrite(file, memory, PAGE, 0) == PAGE);
	io_prep_pread(&iocb, file, memory, PAGE, 0);
	expect(io_submit(context, 1, list) == 1);
	before_fork();
	child = fork();
	expect(child >= 0);
	if (child == 0) {
		io_context_t own = NULL;

		alarm(CHILD_SECONDS_MAX);
		expect(io_submit(context, 1, list) == -EINVAL);
		expect(io_getevents(context, 1, 1, &event, NULL) == -EINVAL);
		expect(io_destroy(context) == -EINVAL);
		expect(io_setup(4, &own) == 0);
		expect(result_of(own, &iocb) == PAGE);
		expect(io_destroy(own) == 0);
		_exit(0);
	}
	expect(waitpid(child, &status, 0) == child);
	expect(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	expect(io_getevents(context, 1, 1, &event, NULL) == 1 && event.res == PAGE);
	close(file);
}

static void priorities(io_context_t context)
{
	int file = new_file("priorities", 0), data;
	struct iocb iocb;

	expect(pwrite(file, memory, PAGE, 0) == PAGE);
	for (data = 0; data < 8; data++) {
		io_prep_pread(&iocb, file, memory, PAGE, 0);
		iocb.u.c.flags |= FLAG_IOPRIO;
		iocb.aio_reqprio = (short)(2 << 13 | data);
		expect(result_of(context, &iocb) == PAGE);
	}
	iocb.aio_reqprio = (short)(3 << 13);
	expect(result_of(context, &iocb) == PAGE);
	iocb.aio_reqprio = (short)(5 << 13);
	expect(result_of(context, &iocb) == -EINVAL);
	for (data = 0; data < 5; data++) {
		io_prep_pread(&iocb, file, memory, PAGE, 0);
		iocb.aio_reqprio = (short)data;
		expect(result_of(context, &iocb) == PAGE);
	}
	close(file);
}

static void *submit_many(void *argument)
{
	io_context_t context = argument;
	char own[PAGE] __attribute__((aligned(PAGE)));
	int file = new_file("threads", 0), at;

	for (at = 0; at < 300; at++) {
		struct iocb iocb, *list[1] = { &iocb };
		struct io_event event;

		io_prep_pread(&iocb, file, own, PAGE, 0);
		iocb.aio_reqprio = (short)(at % 5);
		expect(io_submit(context, 1, list) == 1);
		expect(io_getevents(context, 1, 1, &event, NULL) == 1);
		expect(event.res == PAGE && event.obj == &iocb);
	}
	close(file);
	return NULL;
}

static void threads(void)
{
	int file = new_file("threads", 0), at;
	io_context_t contexts[4] = { NULL, NULL, NULL, NULL };
	pthread_t running[4];

	expect(pwrite(file, memory, PAGE, 0) == PAGE);
	for (at = 0; at < 4; at++) {
		expect(io_setup(1, &contexts[at]) == 0);
		expect(pthread_create(&running[at], NULL, submit_many, contexts[at]) == 0);
	}
	for (at = 0; at < 4; at++) {
		expect(pthread_join(running[at], NULL) == 0);
		expect(io_destroy(contexts[at]) == 0);
	}
	close(file);
}

/* What the kernel's AIO does not do, or does in another way. */
static void only_iolane(io_context_t context)
{
	struct ring {
		unsigned int id, nr, head, tail, magic, compat, incompat, length;
		struct io_event events[];
	} *ring = (struct ring *)context;
	int file = new_file("only", 0), at, cancelled = 0, done = 0;
	struct iocb iocbs[PAGES], *list[PAGES];
	struct io_event event, events[PAGES];
	struct timespec at_once = { 0, 0 };
	io_context_t small = NULL;
	int ends[2];

	/* No room: EAGAIN; the kernel has more than was asked for. */
	expect(pwrite(file, memory, PAGES * PAGE, 0) == PAGES * PAGE);
	for (at = 0; at < PAGES; at++) {
		io_prep_pread(&iocbs[at], file, memory + at * PAGE, PAGE, (long long)at * PAGE);
		list[at] = &iocbs[at];
	}
	expect(io_setup(1 << 20, &small) == -EAGAIN);
	expect(io_setup(3, &small) == 0);
	expect(io_submit(small, 5, list) == 3);
	expect(io_submit(small, 1, list) == -EAGAIN);
	expect(io_getevents(small, 3, 3, events, NULL) == 3);
	expect(io_submit(small, 2, list) == 2);
	expect(io_destroy(small) == 0);

	/* The kernel's ring, to be read without a call. */
	expect(ring->magic == 0xa10a10a1);
	expect(io_submit(context, 1, list) == 1);
	while (__atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) == ring->head)
		usleep(100);
	event = ring->events[ring->head];
	expect(event.obj == &iocbs[0] && event.res == PAGE);
	__atomic_store_n(&ring->head, (ring->head + 1) % ring->nr, __ATOMIC_RELEASE);
	expect(io_getevents(context, 0, 1, &event, &at_once) == 0);

	/* What was withdrawn says so; the rest completes. */
	for (at = 0; at < PAGES; at++)
		iocbs[at].aio_reqprio = 4;
	expect(io_submit(context, PAGES, list) == PAGES);
	for (at = PAGES - 1; at >= 0; at--) {
		int code = io_cancel(context, &iocbs[at], &event);

		expect(code == -EINPROGRESS || code == -EAGAIN || code == -EINVAL);
		cancelled += code == -EINPROGRESS;
	}
	expect(io_getevents(context, PAGES, PAGES, events, NULL) == PAGES);
	for (at = 0; at < PAGES; at++) {
		expect(events[at].res == PAGE || (long)events[at].res == -ECANCELED);
		done += events[at].res == PAGE;
	}
	expect(done + cancelled == PAGES);

	/* What is not served. */
	iocbs[0].aio_reqprio = 5;
	expect(result_of(context, &iocbs[0]) == -EINVAL);
	io_prep_preadv2(&iocbs[0], file, NULL, 0, 0, 8);
	expect(result_of(context, &iocbs[0]) == -EOPNOTSUPP);
	expect(pipe(ends) == 0);
	io_prep_pread(&iocbs[0], ends[0], memory, 1, 0);
	expect(result_of(context, &iocbs[0]) == -EINVAL);
	close(ends[0]);
	close(ends[1]);
	close(file);
}

static void whole_pages(io_context_t context)
{
	waits(context);
	masked_wait(context);
	event_descriptors(context);
	queue_functions();
	closed_descriptors(context);
	locks_stay(context);
	children(context);
	priorities(context);
	threads();
}

static int has_direct(void)
{
	char path[4096];
	int descriptor;

	snprintf(path, sizeof(path), "%s/direct", folder);
	descriptor = open(path, O_RDWR | O_CREAT | O_DIRECT, 0600);
	if (descriptor >= 0)
		close(descriptor);
	return descriptor >= 0;
}

int main(int argc, char **argv)
{
	io_context_t context = NULL;

	expect(argc >= 2);
	folder = argv[1];
	memory = aligned_alloc(PAGE, PAGES * PAGE);
	expect(memory);
	memset(memory, 'm', PAGES * PAGE);
	expect(io_setup(PAGES, &context) == 0);
	transfers(context);
	mistakes(context);
	signals(context);
	whole_pages(context);
	if (argc > 2)
		only_iolane(context);
	if (has_direct()) {
		extra_flags = O_DIRECT;
		whole_pages(context);
		if (argc > 2)
			only_iolane(context);
	}
	expect(io_destroy(context) == 0);
	expect(io_destroy(context) == -EINVAL);
	free(memory);
	return 0;
}
