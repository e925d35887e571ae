// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Asynchronous reads of a page each, submitted one by one: one pattern per name.
 * Prints what each read gave.
 *
 *   probe_gather PATTERN DIRECTORY
 */
#define _GNU_SOURCE
#include <linux/aio_abi.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>

#include "probe.h"

enum { PAGE = 16384, EXTENT = 64, EXTENTS = 8, PAGES = EXTENT * EXTENTS, THREADS = 3 };

static char *memory;
static struct iocb blocks[PAGES + 8];
static int ended[PAGES + 8];
/* What is read is not looked at: that takes as long as reading it. */
static int trusts;

/* Every word of a page is its number. */
static void fill(char *page, uint32_t number)
{
	for (int at = 0; at < PAGE; at += 4)
		memcpy(page + at, &number, 4);
}

static int is_page(const char *page, uint32_t number)
{
	for (int at = 0; at < PAGE; at += 4)
		if (memcmp(page + at, &number, 4))
			return 0;
	return 1;
}

static int made_file(void)
{
	int fd = open_file("extents", O_RDWR | O_DIRECT);

	for (uint32_t number = 0; number < PAGES; number++) {
		fill(memory, number);
		check(pwrite(fd, memory, PAGE, (off_t)number * PAGE) == PAGE, "pwrite");
	}
	memset(memory, 0x77, (size_t)PAGE * (PAGES + 8));
	return fd;
}

static aio_context_t new_context(void)
{
	aio_context_t context = 0;

	check(!syscall(SYS_io_setup, PAGES + 8, &context), "io_setup");
	return context;
}

static char *buffer_of(int place)
{
	return memory + (size_t)place * PAGE;
}

/* One read into its place. */
static long submit(aio_context_t context, int fd, int place, char *buffer, long long offset)
{
	struct iocb *block = &blocks[place], *list[1] = { block };

	memset(block, 0, sizeof(*block));
	block->aio_fildes = (uint32_t)fd;
	block->aio_lio_opcode = IOCB_CMD_PREAD;
	block->aio_buf = (uintptr_t)buffer;
	block->aio_nbytes = PAGE;
	block->aio_offset = offset;
	block->aio_data = (uint64_t)place * 3 + 1;
	return syscall(SYS_io_submit, context, 1, list);
}

static long submit_page(aio_context_t context, int fd, int place)
{
	return submit(context, fd, place, buffer_of(place), (long long)place * PAGE);
}

static long events(aio_context_t context, long least, long most, struct io_event *into,
		   struct timespec *timeout)
{
	return syscall(SYS_io_getevents, context, least, most, into, timeout);
}

/* Asks once, so that the library knows that completions are asked for. */
static void ask(aio_context_t context)
{
	struct timespec none = { 0, 0 };
	struct io_event event;

	check(events(context, 0, 1, &event, &none) == 0, "io_getevents");
}

/* The place of an event's read; every one comes once. */
static int place_of(const struct io_event *event)
{
	struct iocb *block = (struct iocb *)(uintptr_t)event->obj;
	int place = (int)(block - blocks);

	check(event->data == (uint64_t)place * 3 + 1, "data");
	check(__atomic_fetch_add(&ended[place], 1, __ATOMIC_SEQ_CST) == 0, "an event came twice");
	return place;
}

/* Takes so many events, at most `most` at a time. Counts pages that are wrong. */
static int take(aio_context_t context, int count, long least, long most)
{
	struct io_event done[PAGES];
	int wrong = 0;

	while (count > 0) {
		long got = events(context, least < count ? least : count, most, done, NULL);

		check(got >= (least < count ? least : count) && got <= most, "io_getevents");
		for (long at = 0; at < got; at++) {
			int place = place_of(&done[at]);

			wrong += done[at].res != PAGE || (!trusts && !is_page(buffer_of(place), (uint32_t)place));
		}
		count -= (int)got;
	}
	return wrong;
}

/* Extent after extent, forwards and backwards, and asked for in several ways. */
static void extents(void)
{
	const long asked[EXTENTS][2] = { { 1, 64 }, { 64, 64 }, { 1, 1 }, { 3, 5 }, { 7, 256 }, { 1, 3 }, { 64, 256 }, { 2, 2 } };
	int fd = made_file(), wrong = 0;
	aio_context_t context = new_context();

	ask(context);
	for (int extent = 0; extent < EXTENTS; extent++) {
		for (int at = 0; at < EXTENT; at++) {
			int place = extent * EXTENT + (extent % 2 ? EXTENT - 1 - at : at);

			check(submit_page(context, fd, place) == 1, "io_submit");
		}
		wrong += take(context, EXTENT, asked[extent][0], asked[extent][1]);
	}
	ask(context);
	printf("%d of %d pages wrong\n", wrong, PAGES);
}

static void show(aio_context_t context, int first, int count)
{
	struct io_event done[16];
	long results[16] = { 0 };
	long got = events(context, count, 16, done, NULL);

	check(got == count, "io_getevents");
	for (long at = 0; at < got; at++)
		results[place_of(&done[at]) - first] = (long)done[at].res;
	for (int at = 0; at < count; at++)
		printf("read %d: %ld\n", at, results[at]);
}

/* Some before the end of the file, some across it, some behind it. */
static void ends(void)
{
	int fd = made_file();
	aio_context_t context = new_context();

	check(!ftruncate(fd, (off_t)(PAGES - 4) * PAGE + 4096), "ftruncate");
	ask(context);
	for (int place = PAGES - 8; place < PAGES; place++)
		check(submit_page(context, fd, place) == 1, "io_submit");
	show(context, PAGES - 8, 8);
	for (int place = PAGES - 8; place < PAGES - 4; place++)
		printf("page %d\n", is_page(buffer_of(place), (uint32_t)place));
}

/* One among neighbours that cannot be read: into no memory, or not aligned. */
static void wrong(void)
{
	int fd = made_file();
	aio_context_t context = new_context();
	char *nowhere = (char *)4096;

	ask(context);
	for (int place = 0; place < 8; place++) {
		char *buffer = place == 3 ? nowhere : place == 5 ? buffer_of(place) + 1 : buffer_of(place);

		check(submit(context, fd, place, buffer, (long long)place * PAGE) == 1, "io_submit");
	}
	show(context, 0, 8);
	for (int place = 0; place < 8; place++)
		printf("page %d\n", place != 5 && is_page(buffer_of(place), (uint32_t)place));
}

/* The descriptor is closed, and its number another file's, with reads under way. */
static void shut(void)
{
	int fd = made_file(), other;
	aio_context_t context = new_context();

	ask(context);
	for (int place = 0; place < EXTENT; place++)
		check(submit_page(context, fd, place) == 1, "io_submit");
	close(fd);
	other = open("/dev/null", O_RDONLY);
	printf("the number is the same: %d\n", other == fd);
	printf("%d of %d pages wrong\n", take(context, EXTENT, 1, 64), EXTENT);
}

static void by_close(int fd, int other)
{
	close(fd);
	check(dup(other) == fd, "dup");
}

static void by_close_range(int fd, int other)
{
	check(!close_range((unsigned)fd, (unsigned)fd, 0) && dup(other) == fd, "close_range");
}

static void by_dup2(int fd, int other)
{
	check(dup2(other, fd) == fd, "dup2");
}

static void by_dup3(int fd, int other)
{
	check(dup3(other, fd, O_CLOEXEC) == fd, "dup3");
}

static void by_number(int fd, int other)
{
	check(!syscall(SYS_close, fd) && dup(other) == fd, "close");
}

/*
 * The number of the descriptor is another file's when the events are taken, of reads across the
 * file's end and of reads of which one goes into no memory. Some have ended before, some have not.
 */
static void renumbered(void)
{
	void (*const ways[])(int, int) = { by_close, by_close_range, by_dup2, by_dup3, by_number };
	int fd = made_file(), other = open_file("other", O_RDWR | O_DIRECT);
	aio_context_t context = new_context();

	for (int place = 0; place < PAGES; place++) {
		fill(memory, (uint32_t)place + 7777);
		check(pwrite(other, memory, PAGE, (off_t)place * PAGE) == PAGE, "pwrite");
	}
	check(!ftruncate(fd, (off_t)(PAGES - 4) * PAGE + 4096), "ftruncate");
	ask(context);
	for (unsigned turn = 0; turn < 4 * sizeof(ways) / sizeof(ways[0]); turn++) {
		int is_short = turn % 2, first = is_short ? PAGES - 8 : 8, used = dup(fd);

		memset(ended, 0, sizeof(ended));
		for (int place = first; place < first + 8; place++) {
			char *buffer = !is_short && place == first + 3 ? (char *)4096 : buffer_of(place);

			check(submit(context, used, place, buffer, (long long)place * PAGE) == 1, "io_submit");
		}
		if (turn / 2 % 2)
			usleep(30000);
		ways[turn / 4](used, other);
		show(context, first, 8);
		for (int place = first; place < first + (is_short ? 4 : 3); place++)
			printf("page %d\n", is_page(buffer_of(place), (uint32_t)place));
		close(used);
	}
}

static void destroyed(void)
{
	int fd = made_file(), wrong_ones = 0;
	aio_context_t context = new_context();

	ask(context);
	for (int place = 0; place < EXTENT; place++)
		check(submit_page(context, fd, place) == 1, "io_submit");
	check(!syscall(SYS_io_destroy, context), "io_destroy");
	/* It has waited for them. */
	for (int place = 0; place < EXTENT; place++)
		wrong_ones += !is_page(buffer_of(place), (uint32_t)place);
	printf("%d of %d pages wrong\n", wrong_ones, EXTENT);
}

/* Reads that tell an eventfd go by themselves. */
static void told(void)
{
	int fd = made_file(), event = eventfd(0, 0);
	aio_context_t context = new_context();
	uint64_t count = 0, all = 0;

	ask(context);
	for (int place = 0; place < EXTENT; place++) {
		struct iocb *block = &blocks[place], *list[1] = { block };

		*block = (struct iocb){ .aio_fildes = (uint32_t)fd, .aio_lio_opcode = IOCB_CMD_PREAD,
					.aio_buf = (uintptr_t)buffer_of(place), .aio_nbytes = PAGE,
					.aio_offset = (long long)place * PAGE, .aio_data = (uint64_t)place * 3 + 1,
					.aio_flags = IOCB_FLAG_RESFD, .aio_resfd = (uint32_t)event };
		check(syscall(SYS_io_submit, context, 1, list) == 1, "io_submit");
	}
	while (all < EXTENT) {
		check(read(event, &count, sizeof(count)) == sizeof(count), "read");
		all += count;
	}
	printf("%d of %d pages wrong\n", take(context, EXTENT, EXTENT, EXTENT), EXTENT);
}

static aio_context_t shared_context;
static atomic_int left = PAGES, wrong_pages;

static void *take_main(void *most)
{
	struct timespec moment = { 0, 2000000 };
	struct io_event done[8];

	while (left > 0) {
		long got = events(shared_context, 1, (long)most, done, &moment);

		check(got >= 0, "io_getevents");
		for (long at = 0; at < got; at++) {
			int place = place_of(&done[at]);

			wrong_pages += done[at].res != PAGE || !is_page(buffer_of(place), (uint32_t)place);
			left--;
		}
	}
	return NULL;
}

/* Several threads take the events of one context, each with little room. */
static void takers(void)
{
	int fd = made_file();
	pthread_t threads[THREADS];

	shared_context = new_context();
	ask(shared_context);
	for (long at = 0; at < THREADS; at++)
		check(!pthread_create(&threads[at], NULL, take_main, (void *)(at + 1)), "pthread_create");
	for (int place = 0; place < PAGES; place++)
		check(submit_page(shared_context, fd, place) == 1, "io_submit");
	for (int at = 0; at < THREADS; at++)
		pthread_join(threads[at], NULL);
	printf("%d of %d pages wrong\n", wrong_pages, PAGES);
}

enum { CHURNERS = 8, CHURN_ROUNDS = 40, CHURN_READS = 16 };

static int churned_fd;
static atomic_int churned_wrong;

/* A context for a few reads, destroyed after that: while that lasts, another thread is given the number. */
static void *churn_main(void *argument)
{
	uint32_t seed = (uint32_t)(uintptr_t)argument;
	struct iocb mine[CHURN_READS], *list[CHURN_READS];
	struct io_event events[CHURN_READS];
	char *buffers = aligned((size_t)CHURN_READS * PAGE);

	for (int round = 0; round < CHURN_ROUNDS; round++) {
		struct timespec most = { 5, 0 };
		aio_context_t context = new_context();
		int right = 0;
		long got;

		memset(mine, 0, sizeof(mine));
		for (int at = 0; at < CHURN_READS; at++) {
			seed = seed * 1103515245 + 12345;
			mine[at].aio_data = (seed >> 16) % PAGES;
			mine[at].aio_fildes = (uint32_t)churned_fd;
			mine[at].aio_lio_opcode = IOCB_CMD_PREAD;
			mine[at].aio_buf = (uintptr_t)(buffers + (size_t)at * PAGE);
			mine[at].aio_nbytes = PAGE;
			mine[at].aio_offset = (long long)mine[at].aio_data * PAGE;
			list[at] = &mine[at];
		}
		check(syscall(SYS_io_submit, context, CHURN_READS, list) == CHURN_READS, "io_submit");
		got = syscall(SYS_io_getevents, context, CHURN_READS, CHURN_READS, events, &most);
		for (long at = 0; at < got; at++) {
			struct iocb *block = (struct iocb *)(uintptr_t)events[at].obj;

			right += block >= mine && block < mine + CHURN_READS && events[at].res == PAGE &&
				 is_page((char *)(uintptr_t)block->aio_buf, (uint32_t)block->aio_data);
		}
		churned_wrong += CHURN_READS - right;
		check(!syscall(SYS_io_destroy, context), "io_destroy");
	}
	return NULL;
}

static void churned(void)
{
	pthread_t threads[CHURNERS];

	churned_fd = made_file();
	for (uintptr_t at = 0; at < CHURNERS; at++)
		check(!pthread_create(&threads[at], NULL, churn_main, (void *)(at * 7919 + 1)), "pthread_create");
	for (int at = 0; at < CHURNERS; at++)
		pthread_join(threads[at], NULL);
	printf("%d reads wrong\n", churned_wrong);
}

/* As InnoDB reads extents ahead, over and over. For scripts: what is measured is no test. */
static void rate(void)
{
	const int passes = 40;
	int fd = made_file(), wrong = 0;
	aio_context_t context = new_context();
	struct timespec start, end;

	ask(context);
	trusts = 1;
	clock_gettime(CLOCK_MONOTONIC, &start);
	for (int pass = 0; pass < passes; pass++) {
		memset(ended, 0, sizeof(ended));
		for (int extent = 0; extent < EXTENTS; extent++) {
			for (int at = 0; at < EXTENT; at++)
				check(submit_page(context, fd, extent * EXTENT + at) == 1, "io_submit");
			wrong += take(context, EXTENT, 1, EXTENT);
		}
	}
	clock_gettime(CLOCK_MONOTONIC, &end);
	check(wrong == 0, "pages");
	printf("%.1f MB/s\n", (double)passes * PAGES * PAGE / 1e6 /
				       ((double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) / 1e9));
}

static const struct pattern patterns[] = {
	{ "extents", extents }, { "ends", ends }, { "wrong", wrong }, { "shut", shut },
	{ "renumbered", renumbered },
	{ "destroyed", destroyed }, { "churned", churned }, { "told", told }, { "takers", takers }, { "rate", rate },
};

int main(int count, char **arguments)
{
	const struct pattern *pattern = FIND_PATTERN(patterns, count, arguments);

	memory = aligned((size_t)PAGE * (PAGES + 8));
	pattern->run();
	return 0;
}
