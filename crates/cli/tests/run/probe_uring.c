// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * io_uring by liburing, one pattern per name, beside a thread that reads on and on, so that
 * requests of lower levels have to wait. Prints what each request gave.
 *
 *   probe_uring PATTERN DIRECTORY
 */
#define _GNU_SOURCE
#include <liburing.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "probe.h"

enum { PAGE = 4096, PAGES = 64, THREADS = 4, PASSES = 4, ENTRIES = 128 };

/* As a library does that makes its system calls itself. */
static void close_unseen(int fd)
{
#ifdef __x86_64__
	long result = SYS_close;

	__asm__ volatile("syscall" : "+a"(result) : "D"((long)fd) : "rcx", "r11", "memory");
#else
	register long number __asm__("x8") = SYS_close;
	register long result __asm__("x0") = fd;

	__asm__ volatile("svc 0" : "+r"(result) : "r"(number) : "memory");
#endif
	check(result == 0, "close");
}

static char *pages(int count)
{
	return aligned((size_t)count * PAGE);
}

static void make(struct io_uring *ring, unsigned flags)
{
	int result = io_uring_queue_init(ENTRIES, ring, flags);

	/* As liburing's own tests say that something is not there. */
	if (result < 0)
		exit(77);
}

static void possible(void)
{
	struct io_uring ring;

	make(&ring, 0);
	io_uring_queue_exit(&ring);
}

static struct io_uring_sqe *entry(struct io_uring *ring, uint64_t data)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	if (!sqe)
		die("io_uring_get_sqe");
	/* What a preparation does not set stays. */
	sqe->user_data = data;
	return sqe;
}

#define ADD(ring, data, what, ...)                                             \
	({                                                                     \
		struct io_uring_sqe *sqe_ = entry(ring, 0);                    \
		io_uring_prep_##what(sqe_, ##__VA_ARGS__);                     \
		io_uring_sqe_set_data64(sqe_, data);                           \
		sqe_;                                                          \
	})

/* Waits for so many and stores the result of each where its data say. */
static void collect(struct io_uring *ring, int count, long *results)
{
	for (int i = 0; i < count; i++) {
		struct io_uring_cqe *cqe;
		int result;

		do
			result = io_uring_wait_cqe(ring, &cqe);
		while (result == -EINTR);
		if (result)
			die("io_uring_wait_cqe");
		results[cqe->user_data] = cqe->res;
		io_uring_cqe_seen(ring, cqe);
	}
}

static void show(const char *what, const long *results, int count)
{
	printf("%s:", what);
	for (int i = 0; i < count; i++)
		printf(" %ld", results[i]);
	printf("\n");
}

static long wrong_bytes(const char *memory, char expected, size_t bytes)
{
	long wrong = 0;

	for (size_t i = 0; i < bytes; i++)
		wrong += memory[i] != expected;
	return wrong;
}

/* All of a file, written and read in batches; gives how much is wrong. */
static long write_and_read(struct io_uring *ring, int fd, int first)
{
	char *memory = pages(PAGES);
	struct iovec pieces[PAGES];
	long results[PAGES], wrong = 0;

	for (int pass = 0; pass < PASSES; pass++) {
		for (int i = 0; i < PAGES; i++) {
			char *page = memory + i * PAGE;
			off_t offset = (off_t)(first + i) * PAGE;

			memset(page, 'a' + (first + i + pass) % 26, PAGE);
			pieces[i] = (struct iovec){ page, PAGE };
			if (i % 2)
				ADD(ring, i, write, fd, page, PAGE, offset);
			else
				ADD(ring, i, writev, fd, pieces + i, 1, offset);
		}
		wrong += io_uring_submit(ring) != PAGES;
		/* Pieces are the program's again. */
		memset(pieces, 0, sizeof(pieces));
		collect(ring, PAGES, results);
		for (int i = 0; i < PAGES; i++)
			wrong += results[i] != PAGE;
		ADD(ring, 0, fsync, fd, pass % 2 ? IORING_FSYNC_DATASYNC : 0);
		wrong += io_uring_submit(ring) != 1;
		collect(ring, 1, results);
		wrong += results[0] != 0;
		memset(memory, 0, (size_t)PAGES * PAGE);
		for (int i = 0; i < PAGES; i += 2) {
			char *page = memory + i * PAGE;
			off_t offset = (off_t)(first + i) * PAGE;

			pieces[i] = (struct iovec){ page, PAGE };
			pieces[i + 1] = (struct iovec){ page + PAGE, PAGE };
			if (i % 4) {
				ADD(ring, i, read, fd, page, PAGE, offset);
				ADD(ring, i + 1, read, fd, page + PAGE, PAGE, offset + PAGE);
			} else {
				ADD(ring, i, readv, fd, pieces + i, 2, offset);
				ADD(ring, i + 1, nop);
			}
		}
		wrong += io_uring_submit_and_wait(ring, PAGES) != PAGES;
		memset(pieces, 0, sizeof(pieces));
		collect(ring, PAGES, results);
		for (int i = 0; i < PAGES; i++) {
			long expected = i % 4 == 0 ? 2 * PAGE : i % 4 == 1 ? 0 : PAGE;

			wrong += results[i] != expected;
			wrong += wrong_bytes(memory + i * PAGE, 'a' + (first + i + pass) % 26, PAGE);
		}
	}
	free(memory);
	return wrong;
}

static void transfers(void)
{
	int fd = open_file("transfers", O_RDWR | O_DIRECT);
	struct io_uring ring;

	make(&ring, 0);
	SHOW_RESULT(write_and_read(&ring, fd, 0));
	SHOW_RESULT(close(fd));
	io_uring_queue_exit(&ring);
}

static void *transfers_main(void *number)
{
	int fd = open_file("threads", O_RDWR | O_DIRECT);
	struct io_uring ring;
	long wrong;

	make(&ring, 0);
	wrong = write_and_read(&ring, fd, (int)(long)number * PAGES);
	io_uring_queue_exit(&ring);
	close(fd);
	return (void *)wrong;
}

static long run_threads(void)
{
	pthread_t all[THREADS];
	long sum = 0;

	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&all[i], NULL, transfers_main, (void *)i))
			die("pthread_create");
	for (int i = 0; i < THREADS; i++) {
		void *wrong;

		pthread_join(all[i], &wrong);
		sum += (long)wrong;
	}
	return sum;
}

static void threads(void)
{
	SHOW_RESULT(run_threads());
}

static void lasting(void)
{
	run_until_told(run_threads);
}

/* What the kernel refuses, and what is shorter than asked for. */
static void mistaken(void)
{
	int fd = open_file("mistaken", O_RDWR | O_DIRECT), write_only, buffered;
	char *memory = pages(4);
	struct iovec nowhere = { (void *)8, PAGE };
	struct io_uring ring;
	long results[14];

	if (pwrite(fd, memory, 2 * PAGE, 0) != 2 * PAGE)
		die("pwrite");
	write_only = open_file("mistaken", O_WRONLY | O_DIRECT);
	buffered = open_file("mistaken", O_RDWR);
	make(&ring, 0);
	ADD(&ring, 0, read, fd, memory, PAGE, 1);
	ADD(&ring, 1, read, fd, memory + 1, PAGE, 0);
	ADD(&ring, 2, read, fd, memory, 4 * PAGE, PAGE);
	ADD(&ring, 3, read, fd, memory, PAGE, 8 * PAGE);
	ADD(&ring, 4, read, write_only, memory, PAGE, 0);
	ADD(&ring, 5, read, 9999, memory, PAGE, 0);
	ADD(&ring, 6, readv, fd, &nowhere, 1, 0);
	ADD(&ring, 7, read, fd, memory, 0, 0);
	ADD(&ring, 8, read, buffered, memory, 100, 50);
	ADD(&ring, 9, fsync, buffered, 0);
	ADD(&ring, 10, fsync, 9999, 0);
	ADD(&ring, 11, read, fd, (void *)8, PAGE, 0);
	SHOW_RESULT(io_uring_submit(&ring));
	collect(&ring, 12, results);
	/* No entry behind such a one is taken by the same call. */
	ADD(&ring, 12, readv, fd, (struct iovec *)8, 1, 0);
	SHOW_RESULT(io_uring_submit(&ring));
	ADD(&ring, 13, writev, fd, (struct iovec *)8, 3, 0);
	SHOW_RESULT(io_uring_submit(&ring));
	collect(&ring, 2, results);
	show("mistaken", results, 14);
	io_uring_queue_exit(&ring);
}

/* Entries that belong together, wait for others, or take others back. */
static void ordered(void)
{
	int fd = open_file("ordered", O_RDWR | O_DIRECT);
	char *memory = pages(PAGES);
	struct io_uring ring;
	struct io_uring_sqe *sqe;
	long results[PAGES], wrong = 0;

	make(&ring, 0);
	for (int pass = 0; pass < 20; pass++) {
		memset(memory, 'a' + pass, PAGE);
		memset(memory + PAGE, 0, PAGE);
		sqe = ADD(&ring, 0, write, fd, memory, PAGE, 0);
		sqe->flags |= IOSQE_IO_LINK;
		sqe = ADD(&ring, 1, fsync, fd, 0);
		sqe->flags |= IOSQE_IO_LINK;
		ADD(&ring, 2, read, fd, memory + PAGE, PAGE, 0);
		ADD(&ring, 3, read, fd, memory + 2 * PAGE, PAGE, 0);
		wrong += io_uring_submit(&ring) != 4;
		collect(&ring, 4, results);
		wrong += wrong_bytes(memory + PAGE, 'a' + pass, PAGE);
	}
	SHOW_RESULT(wrong);
	/* A chain breaks where one is short. */
	sqe = ADD(&ring, 0, read, fd, memory, 4 * PAGE, 0);
	sqe->flags |= IOSQE_IO_LINK;
	ADD(&ring, 1, write, fd, memory, PAGE, 0);
	SHOW_RESULT(io_uring_submit(&ring));
	collect(&ring, 2, results);
	show("broken chain", results, 2);
	for (int pass = 0; pass < 20; pass++) {
		memset(memory, 'A' + pass, (size_t)PAGES * PAGE);
		for (int i = 0; i < PAGES / 2; i++)
			ADD(&ring, i, write, fd, memory + i * PAGE, PAGE, i * PAGE);
		/* Before the others are known to have ended. */
		if (pass % 2)
			wrong += io_uring_submit(&ring) != PAGES / 2;
		memset(memory + PAGES / 2 * PAGE, 0, (size_t)PAGES / 2 * PAGE);
		sqe = ADD(&ring, PAGES / 2, read, fd, memory + PAGES / 2 * PAGE,
			  PAGES / 2 * PAGE, 0);
		sqe->flags |= IOSQE_IO_DRAIN;
		wrong += io_uring_submit(&ring) != (pass % 2 ? 1 : PAGES / 2 + 1);
		collect(&ring, PAGES / 2 + 1, results);
		wrong += wrong_bytes(memory + PAGES / 2 * PAGE, 'A' + pass, PAGES / 2 * PAGE);
	}
	SHOW_RESULT(wrong);
	io_uring_queue_exit(&ring);
	make(&ring, 0);
	ADD(&ring, 0, read, fd, memory, PAGE, 0);
	ADD(&ring, 1, cancel64, 77, 0);
	SHOW_RESULT(io_uring_submit(&ring));
	collect(&ring, 2, results);
	show("cancelled", results, 2);
	io_uring_queue_exit(&ring);
}

/* Files and buffers that are registered, and rings of other kinds. */
static void registered(void)
{
	static const unsigned kinds[] = { 0, IORING_SETUP_SQPOLL, IORING_SETUP_COOP_TASKRUN,
					  IORING_SETUP_SINGLE_ISSUER, IORING_SETUP_SQE128,
					  IORING_SETUP_CQE32 };
	int fd = open_file("registered", O_RDWR | O_DIRECT);
	char *memory = pages(2);
	struct iovec buffer = { memory, 2 * PAGE };
	long results[4];

	if (pwrite(fd, memory, 2 * PAGE, 0) != 2 * PAGE)
		die("pwrite");
	for (size_t kind = 0; kind < sizeof(kinds) / sizeof(kinds[0]); kind++) {
		struct io_uring ring;
		struct io_uring_sqe *sqe;
		int result = io_uring_queue_init(ENTRIES, &ring, kinds[kind]);

		if (result < 0) {
			printf("kind %zu: %d\n", kind, result);
			continue;
		}
		SHOW_RESULT(io_uring_register_files(&ring, &fd, 1));
		SHOW_RESULT(io_uring_register_buffers(&ring, &buffer, 1));
		sqe = ADD(&ring, 0, read, 0, memory, PAGE, 0);
		sqe->flags |= IOSQE_FIXED_FILE;
		ADD(&ring, 1, read_fixed, fd, memory + PAGE, PAGE, PAGE, 0);
		ADD(&ring, 2, read, fd, memory, PAGE, 0);
		sqe = ADD(&ring, 3, write_fixed, 0, memory + PAGE, PAGE, 2 * PAGE, 0);
		sqe->flags |= IOSQE_FIXED_FILE;
		SHOW_RESULT(io_uring_submit(&ring));
		collect(&ring, 4, results);
		show("registered", results, 4);
		io_uring_queue_exit(&ring);
	}
}

/* The other ways to submit and to wait. */
static void waits(void)
{
	int fd = open_file("waits", O_RDWR | O_DIRECT), event = eventfd(0, 0);
	char *memory = pages(1);
	struct __kernel_timespec time = { .tv_sec = 20 };
	struct io_uring ring;
	struct io_uring_cqe *cqe;
	uint64_t signalled = 0;
	long results[ENTRIES];

	if (pwrite(fd, memory, PAGE, 0) != PAGE)
		die("pwrite");
	make(&ring, 0);
	ADD(&ring, 0, read, fd, memory, PAGE, 0);
	SHOW_RESULT(io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &time, NULL));
	SHOW_RESULT(cqe->res);
	io_uring_cqe_seen(&ring, cqe);
	ADD(&ring, 0, read, fd, memory, PAGE, 0);
	SHOW_RESULT(io_uring_submit_and_get_events(&ring));
	SHOW_RESULT(io_uring_wait_cqe_timeout(&ring, &cqe, &time));
	io_uring_cqe_seen(&ring, cqe);
	SHOW_RESULT(io_uring_register_eventfd(&ring, event));
	ADD(&ring, 0, read, fd, memory, PAGE, 0);
	SHOW_RESULT(io_uring_submit(&ring));
	SHOW_RESULT(read(event, &signalled, sizeof(signalled)) == sizeof(signalled) && signalled > 0);
	collect(&ring, 1, results);
	/* More than there is room for completions: none is lost. */
	for (int pass = 0; pass < 4; pass++) {
		for (int i = 0; i < ENTRIES; i++)
			ADD(&ring, i, read, fd, memory, PAGE, 0);
		SHOW_RESULT(io_uring_submit(&ring));
	}
	usleep(100000);
	for (int pass = 0; pass < 4; pass++)
		collect(&ring, ENTRIES, results);
	SHOW_RESULT(io_uring_peek_cqe(&ring, &cqe));
	io_uring_queue_exit(&ring);
}

/* File and ring are closed with requests under way. */
static void closed(void)
{
	int fd = open_file("closed", O_RDWR | O_DIRECT);
	char *memory = pages(PAGES);
	struct io_uring ring;
	long results[PAGES], wrong = 0;

	make(&ring, 0);
	for (int i = 0; i < PAGES; i++)
		ADD(&ring, i, write, fd, memory + i * PAGE, PAGE, i * PAGE);
	SHOW_RESULT(io_uring_submit(&ring));
	SHOW_RESULT(close(fd));
	collect(&ring, PAGES, results);
	for (int i = 0; i < PAGES; i++)
		wrong += results[i] != PAGE;
	fd = open_file("closed", O_RDWR | O_DIRECT);
	for (int i = 0; i < PAGES; i++)
		ADD(&ring, i, read, fd, memory + i * PAGE, PAGE, i * PAGE);
	SHOW_RESULT(io_uring_submit(&ring));
	ADD(&ring, PAGES, close, fd);
	SHOW_RESULT(io_uring_submit(&ring));
	collect(&ring, PAGES + 1, (long[PAGES + 1]){ 0 });
	fd = open_file("closed", O_RDWR | O_DIRECT);
	for (int i = 0; i < PAGES; i++)
		ADD(&ring, i, read, fd, memory + i * PAGE, PAGE, i * PAGE);
	SHOW_RESULT(io_uring_submit(&ring));
	io_uring_queue_exit(&ring);
	SHOW_RESULT(wrong);
	/* Another ring with the same number. */
	make(&ring, 0);
	ADD(&ring, 0, nop);
	SHOW_RESULT(io_uring_submit_and_wait(&ring, 1));
	collect(&ring, 1, results);
	SHOW_RESULT(results[0]);
	io_uring_queue_exit(&ring);
}

/* A child has rings of its own. */
static void forked(void)
{
	int fd = open_file("forked", O_RDWR | O_DIRECT), status;
	struct io_uring ring;
	pid_t child;

	make(&ring, 0);
	SHOW_RESULT(write_and_read(&ring, fd, 0));
	child = fork();
	if (child == 0) {
		struct io_uring own;
		long wrong;

		alarm(60);
		make(&own, 0);
		wrong = write_and_read(&own, fd, PAGES);
		io_uring_queue_exit(&own);
		_exit(wrong ? 1 : 0);
	}
	SHOW_RESULT(write_and_read(&ring, fd, 2 * PAGES));
	if (waitpid(child, &status, 0) != child)
		die("waitpid");
	SHOW_RESULT(status);
	io_uring_queue_exit(&ring);
}

/* A child closes what it has, in its parent's memory, and the parent goes on. */
static void vforked(void)
{
	int fd = open_file("vforked", O_RDWR | O_DIRECT), status;
	struct io_uring ring;
	pid_t child;

	make(&ring, 0);
	SHOW_RESULT(write_and_read(&ring, fd, 0));
	child = vfork();
	if (child == 0)
		close_and_execute(fd);
	if (child < 0 || waitpid(child, &status, 0) != child)
		die("vfork");
	SHOW_RESULT(status);
	SHOW_RESULT(write_and_read(&ring, fd, PAGES));
	io_uring_queue_exit(&ring);
}

/*
 * Programs count on the lowest number that is free: how many rings there are among them. (The
 * number itself says little, as threads of the library open files now and then.)
 */
static int low_rings(void)
{
	int count = 0;

	for (int fd = 0; fd < 900; fd++) {
		char link[32], name[64];
		ssize_t length;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		length = readlink(link, name, sizeof(name) - 1);
		if (length < 0)
			continue;
		name[length] = 0;
		count += strcmp(name, "anon_inode:[io_uring]") == 0;
	}
	return count;
}

static void numbered(void)
{
	int fd = open_file("numbered", O_RDWR | O_DIRECT);
	char *memory = pages(1);
	struct io_uring ring;
	long result;

	make(&ring, 0);
	SHOW_RESULT(low_rings());
	ADD(&ring, 0, write, fd, memory, PAGE, 0);
	SHOW_RESULT(io_uring_submit(&ring));
	collect(&ring, 1, &result);
	SHOW_RESULT(result);
	SHOW_RESULT(low_rings());
	io_uring_queue_exit(&ring);
	SHOW_RESULT(low_rings());
}

/* liburing closes a ring's descriptor by itself (io_uring_close_ring_fd), and another ring gets its number. */
static void renumbered(void)
{
	int fd = open_file("renumbered", O_RDWR | O_DIRECT);
	char *memory = pages(1);
	struct io_uring first, second;
	struct io_uring_cqe *cqe;
	struct __kernel_timespec time = { .tv_sec = 5 };
	long result;

	make(&first, 0);
	ADD(&first, 0, write, fd, memory, PAGE, 0);
	SHOW_RESULT(io_uring_submit(&first));
	collect(&first, 1, &result);
	SHOW_RESULT(io_uring_register_ring_fd(&first));
	close_unseen(first.ring_fd);
	make(&second, 0);
	/* A thread of the library may have had the number for a moment. */
	for (int turn = 0; turn < 100 && second.ring_fd != first.ring_fd; turn++) {
		io_uring_queue_exit(&second);
		usleep(1000);
		make(&second, 0);
	}
	SHOW_RESULT(second.ring_fd == first.ring_fd);
	ADD(&second, 0, read, fd, memory, PAGE, 0);
	SHOW_RESULT(io_uring_submit(&second));
	SHOW_RESULT(io_uring_wait_cqe_timeout(&second, &cqe, &time));
	io_uring_queue_exit(&second);
}

static const struct pattern patterns[] = {
	{ "transfers", transfers }, { "threads", threads }, { "mistaken", mistaken },
	{ "ordered", ordered }, { "registered", registered }, { "waits", waits },
	{ "closed", closed }, { "forked", forked }, { "vforked", vforked },
	{ "possible", possible }, { "lasting", lasting },
	{ "numbered", numbered },   { "renumbered", renumbered },
};

int main(int count, char **arguments)
{
	run_beside_foreground(FIND_PATTERN(patterns, count, arguments));
	return 0;
}
