// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Linux AIO, one pattern per name, beside a thread that reads on and on, so that
 * requests of lower levels have to wait. Prints what each call gave.
 *
 *   probe_aio PATTERN DIRECTORY
 */
#define _GNU_SOURCE
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "probe_aio.h"

enum { PAGES = 64, THREADS = 4, BATCH = 4, CHILDREN = 100, OTHERS = 50 };

static volatile int over;
/* Other contents each time. */
static int shift;

static int open_direct(const char *name)
{
	return open_file(name, O_RDWR | O_DIRECT);
}

static char *pages(int count)
{
	return aligned((size_t)count * PAGE);
}

/* Each thread has a context and a part of the file. Counts what is wrong. */
static void *pages_main(void *number)
{
	long mine = (long)number, wrong = 0;
	int fd = open_direct("pages");
	char *memory = pages(BATCH);
	aio_context_t context = context_of(BATCH);
	struct iocb blocks[BATCH], *list[BATCH];
	struct io_event done[BATCH];

	for (int pass = 0; pass < 2; pass++) {
		for (int first = (int)mine * PAGES; first < ((int)mine + 1) * PAGES; first += BATCH) {
			for (int i = 0; i < BATCH; i++) {
				if (pass == 0)
					memset(memory + i * PAGE, 'A' + (first + i + shift) % 26, PAGE);
				else
					memset(memory + i * PAGE, 0, PAGE);
				blocks[i] = block_of(fd, pass == 0 ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD,
						     memory + i * PAGE, (long long)(first + i) * PAGE);
				list[i] = &blocks[i];
			}
			wrong += submit(context, BATCH, list) != BATCH;
			wrong += events(context, BATCH, BATCH, done) != BATCH;
			for (int i = 0; i < BATCH; i++) {
				struct iocb *block = (struct iocb *)(uintptr_t)done[i].obj;

				wrong += block < blocks || block >= blocks + BATCH;
				wrong += done[i].res != PAGE;
				wrong += block >= blocks && block < blocks + BATCH &&
					 done[i].data != block->aio_data;
				wrong += memory[i * PAGE + 5] != 'A' + (first + i + shift) % 26;
			}
		}
	}
	wrong += syscall(SYS_io_destroy, context) != 0;
	wrong += close(fd) != 0;
	free(memory);
	return (void *)wrong;
}

static long run_several(void)
{
	pthread_t all[THREADS];
	long sum = 0;
	void *wrong;

	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&all[i], NULL, pages_main, (void *)i))
			die("pthread_create");
	for (int i = 0; i < THREADS; i++) {
		pthread_join(all[i], &wrong);
		sum += (long)wrong;
	}
	shift++;
	return sum;
}

static void several(void)
{
	SHOW_RESULT(run_several());
}

static void lasting(void)
{
	run_until_told(run_several);
}

/* Warms up: a context that has been asked for events. */
static aio_context_t used_context(int fd, char *memory)
{
	aio_context_t context = context_of(64);
	struct iocb block = block_of(fd, IOCB_CMD_PWRITE, memory, 0), *list = &block;
	struct io_event done;

	SHOW(submit(context, 1, &list));
	SHOW(events(context, 1, 1, &done));
	SHOW(done.res);
	SHOW(done.obj == (uintptr_t)&block);
	return context;
}

/*
 * A request that is on its way, and one that may still wait for leave: the kernel cancels neither,
 * as it cancels no request of a file, and both end.
 */
static void cancelled(void)
{
	int fd = open_direct("cancelled"), refused = 0, ended = 0;
	char *memory = pages(PAGES);
	aio_context_t context = used_context(fd, memory);
	struct iocb blocks[PAGES], *list[PAGES], never;
	struct io_event done[PAGES];

	for (int pass = 0; pass < 4; pass++) {
		for (int i = 0; i < PAGES; i++) {
			/* Every second page, and neighbours: such that go alone and such that go together. */
			blocks[i] = block_of(fd, pass % 2 ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE, memory + i * PAGE,
					     (long long)i * (pass < 2 ? 2 : 1) * PAGE);
			list[i] = &blocks[i];
		}
		if (submit(context, PAGES, list) != PAGES)
			die("io_submit");
		for (int i = PAGES - 1; i >= 0; i--)
			refused += syscall(SYS_io_cancel, context, &blocks[i], done) == -1 && errno == EINVAL;
		if (events(context, PAGES, PAGES, done) != PAGES)
			die("io_getevents");
		for (int i = 0; i < PAGES; i++)
			ended += done[i].res == PAGE;
	}
	SHOW(refused);
	SHOW(ended);
	never = block_of(fd, IOCB_CMD_PREAD, memory, 0);
	SHOW(syscall(SYS_io_cancel, context, &blocks[0], done));
	SHOW(syscall(SYS_io_cancel, context, &never, done));
	never.aio_key = 5;
	SHOW(syscall(SYS_io_cancel, context, &never, done));
	SHOW(syscall(SYS_io_cancel, context, (struct iocb *)8, done));
	SHOW(syscall(SYS_io_cancel, (aio_context_t)1, &never, done));
	/* A key of the program's own: the kernel sets it when it takes the block. */
	list[0] = &never;
	SHOW(submit(context, 1, list));
	SHOW(never.aio_key);
	SHOW(events(context, 1, 1, done));
	SHOW(syscall(SYS_io_destroy, context));
}

static void closed(void)
{
	int fd = open_direct("closed"), other;
	char *memory = pages(16);
	aio_context_t context = used_context(fd, memory);
	struct iocb blocks[16], *list[16];
	struct io_event done[16];
	long sum = 0;

	for (int i = 0; i < 16; i++) {
		memset(memory + i * PAGE, 'a' + i, PAGE);
		blocks[i] = block_of(fd, IOCB_CMD_PWRITE, memory + i * PAGE, i * PAGE);
		list[i] = &blocks[i];
	}
	SHOW(submit(context, 16, list));
	/* The control blocks may be used again, the number goes to another file. */
	memset(blocks, 0xee, sizeof(blocks));
	SHOW(close(fd));
	other = open_direct("other");
	SHOW(other == fd);
	SHOW(events(context, 16, 16, done));
	for (int i = 0; i < 16; i++)
		sum += done[i].res;
	SHOW(sum);
	SHOW(lseek(other, 0, SEEK_END));
	SHOW(syscall(SYS_io_destroy, context));
}

static void destroyed(void)
{
	int fd = open_direct("destroyed");
	char *memory = pages(16);
	aio_context_t context = used_context(fd, memory);
	struct iocb blocks[16], *list[16];

	for (int i = 0; i < 16; i++) {
		memset(memory + i * PAGE, 'a' + i, PAGE);
		blocks[i] = block_of(fd, IOCB_CMD_PWRITE, memory + i * PAGE, i * PAGE);
		list[i] = &blocks[i];
	}
	SHOW(submit(context, 16, list));
	SHOW(syscall(SYS_io_destroy, context));
	SHOW(lseek(fd, 0, SEEK_END));
	SHOW(syscall(SYS_io_destroy, context));
}

static long result_of(const struct iocb *block, const struct io_event *done, int count)
{
	for (int i = 0; i < count; i++)
		if (done[i].obj == (uintptr_t)block)
			return done[i].res;
	return -9999;
}

static void mistaken(void)
{
	int fd = open_direct("mistaken");
	char *memory = pages(2);
	aio_context_t context = used_context(fd, memory);
	struct iocb good = block_of(fd, IOCB_CMD_PREAD, memory, 0);
	struct iocb bad = block_of(-1, IOCB_CMD_PREAD, memory, 0);
	struct iocb odd = block_of(fd, 99, memory, 0);
	struct iocb skewed = block_of(fd, IOCB_CMD_PREAD, memory + 1, 0);
	struct iocb behind = block_of(fd, IOCB_CMD_PREAD, memory, 1 << 20);
	struct iocb sync = block_of(fd, IOCB_CMD_FDSYNC, NULL, 0);
	/* Their pieces are not there. */
	struct iocb lost = block_of(fd, IOCB_CMD_PREADV, (char *)8, 0);
	struct iocb lost_write = block_of(fd, IOCB_CMD_PWRITEV, (char *)8, 0);
	struct iocb *first[] = { &bad, &good }, *second[] = { &good, &bad }, *third[] = { &odd },
		    *fourth[] = { &skewed, &behind, &sync }, *fifth[] = { &good, &lost },
		    *sixth[] = { &lost_write };
	struct io_event done[4];
	struct timespec soon = { 0, 1000000 };

	sync.aio_nbytes = 0;
	sync.aio_buf = 0;
	SHOW(submit(context, 2, first));
	SHOW(submit(context, 2, second));
	SHOW(events(context, 1, 4, done));
	SHOW(submit(context, 1, third));
	SHOW(submit(context, 0, first));
	SHOW(submit(context, -1, first));
	SHOW(submit(1, 1, first));
	SHOW(submit(context, 3, fourth));
	SHOW(events(context, 3, 4, done));
	/* They end in any order. */
	SHOW(result_of(&skewed, done, 3));
	SHOW(result_of(&behind, done, 3));
	SHOW(result_of(&sync, done, 3));
	lost.aio_nbytes = lost_write.aio_nbytes = 2;
	SHOW(submit(context, 2, fifth));
	SHOW(events(context, 1, 4, done));
	SHOW(submit(context, 1, sixth));
	SHOW(syscall(SYS_io_getevents, context, 1, 4, done, &soon));
	SHOW(syscall(SYS_io_setup, 0, &context) == -1);
}

static long close_unseen(int fd)
{
	long result;

#if defined(__x86_64__)
	__asm__ volatile("syscall" : "=a"(result) : "a"(SYS_close), "D"((long)fd) : "rcx", "r11", "memory");
#else
	register long number __asm__("x8") = SYS_close;
	register long first __asm__("x0") = fd;

	__asm__ volatile("svc 0" : "+r"(first) : "r"(number) : "memory");
	result = first;
#endif
	return result;
}

/* More than a window at once, for all of which the program waits. */
static void at_once(const char *name, int closes)
{
	int fd = open_direct(name);
	char *memory = pages(64);
	aio_context_t context = used_context(fd, memory);
	struct iocb blocks[64], *list[64];
	struct io_event done[64];
	long told = 0;

	for (int i = 0; i < 64; i++) {
		blocks[i] = block_of(fd, IOCB_CMD_PREAD, memory + i * PAGE, 0);
		list[i] = &blocks[i];
	}
	SHOW(submit(context, 64, list));
	if (closes)
		SHOW(close_unseen(fd));
	SHOW(events(context, 64, 64, done));
	for (int i = 0; i < 64; i++) {
		struct iocb *block = (struct iocb *)(uintptr_t)done[i].obj;
		int is_ours = block >= blocks && block < blocks + 64;

		/* Where the number is gone, the library may have it for a moment. */
		told += is_ours && done[i].data == block->aio_data &&
			(done[i].res == PAGE || closes);
	}
	SHOW(told);
	SHOW(syscall(SYS_io_destroy, context));
}

static void many(void)
{
	at_once("many", 0);
}

/* The descriptor goes in a way that no library sees: what still waits has none. */
static void refused(void)
{
	at_once("refused", 1);
}

/* The array of pieces is used again as soon as the call is back. */
static void vectored(void)
{
	int fd = open_direct("vectored");
	char *memory = pages(16);
	aio_context_t context = used_context(fd, memory);
	struct iovec pieces[2];
	struct iocb block, *list = &block;
	struct io_event done[8];

	for (int i = 0; i < 8; i++) {
		memset(memory + 2 * i * PAGE, 'a' + i, 2 * PAGE);
		pieces[0] = (struct iovec){ memory + 2 * i * PAGE, PAGE };
		pieces[1] = (struct iovec){ memory + (2 * i + 1) * PAGE, PAGE };
		block = block_of(fd, IOCB_CMD_PWRITEV, pieces, 2 * i * PAGE);
		block.aio_nbytes = 2;
		if (submit(context, 1, &list) != 1)
			die("io_submit");
		memset(pieces, 0xee, sizeof(pieces));
	}
	SHOW(events(context, 8, 8, done));
	for (int i = 0; i < 8; i++)
		SHOW(done[i].res);
	SHOW(syscall(SYS_io_destroy, context));
}

static void forked(void)
{
	int fd = open_direct("forked"), status;
	char *memory = pages(2);
	aio_context_t context = used_context(fd, memory);
	pid_t child = fork();

	if (child == 0) {
		pages_main((void *)1);
		_exit(pages_main((void *)0) == NULL ? 0 : 1);
	}
	if (waitpid(child, &status, 0) != child)
		die("waitpid");
	SHOW(WEXITSTATUS(status));
	SHOW(syscall(SYS_io_destroy, context));
}

/*
 * More than the context has room for, of which nobody has asked for an event when the file is
 * closed: what was accepted ends all the same.
 */
static void crowded(void)
{
	enum { ROOM = 8, TRIES = 1500 };
	int fd = open_direct("crowded"), accepted = 0, error;
	char *memory = pages(1);
	aio_context_t context = context_of(ROOM);
	static struct iocb blocks[TRIES];
	static struct io_event done[TRIES];

	if (pwrite(fd, memory, PAGE, 0) != PAGE)
		die("pwrite");
	/* Only who asks for events may be told of them later. */
	blocks[0] = block_of(fd, IOCB_CMD_PREAD, memory, 0);
	if (submit(context, 1, &(struct iocb *){ blocks }) != 1 || events(context, 1, 1, done) != 1)
		die("a read");
	for (; accepted < TRIES; accepted++) {
		blocks[accepted] = block_of(fd, IOCB_CMD_PREAD, memory, 0);
		if (submit(context, 1, &(struct iocb *){ blocks + accepted }) != 1)
			break;
	}
	error = errno;
	SHOW(accepted >= ROOM && accepted < TRIES && error == EAGAIN);
	SHOW(close(fd));
	SHOW(events(context, accepted, accepted, done) == accepted);
	SHOW(syscall(SYS_io_destroy, context));
}

/* Reads on and on, so that some are always on their way to the kernel. */
static void *keep_asking(void *number)
{
	int fd = (int)(long)number;
	char *memory = pages(64);
	aio_context_t context = context_of(64);
	struct iocb blocks[64], *list[64];
	struct io_event done[64];

	for (int i = 0; i < 64; i++) {
		blocks[i] = block_of(fd, IOCB_CMD_PREAD, memory + i * PAGE, 0);
		list[i] = &blocks[i];
	}
	while (!over)
		if (submit(context, 64, list) != 64 || events(context, 64, 64, done) != 64)
			die("reads");
	if (syscall(SYS_io_destroy, context))
		die("io_destroy");
	return NULL;
}

/* Writes on and on, which nobody takes for a scan, and leaves the disk time for others. */
static void *write_on(void *unused)
{
	int fd = open_direct("written");
	char *page = pages(1);

	(void)unused;
	/* At least once, however early it is over. */
	do {
		if (pwrite(fd, page, PAGE, 0) != PAGE)
			die("pwrite");
		usleep(2000);
	} while (!over);
	close(fd);
	return NULL;
}

/* Every second page, so that each is a request of its own, by the thread that waits for them. */
static void waited(void)
{
	enum { PASSES = 4 };
	int fd = open_direct("waited"), wrong = 0;
	char *memory = pages(2 * PAGES);
	aio_context_t context = context_of(PAGES);
	struct iocb blocks[PAGES], *list[PAGES];
	struct io_event done[PAGES];
	pthread_t writer;

	if (pwrite(fd, memory, 2 * PAGES * PAGE, 0) != 2 * PAGES * PAGE)
		die("pwrite");
	foreground_over = 1;
	if (pthread_create(&writer, NULL, write_on, NULL))
		die("pthread_create");
	for (int pass = 0; pass < PASSES; pass++) {
		memset(memory, 0, 2 * PAGES * PAGE);
		for (int i = 0; i < PAGES; i++) {
			blocks[i] = block_of(fd, IOCB_CMD_PREAD, memory + i * PAGE, 2LL * i * PAGE);
			list[i] = &blocks[i];
		}
		if (submit(context, PAGES, list) != PAGES)
			die("io_submit");
		if (events(context, PAGES, PAGES, done) != PAGES)
			die("io_getevents");
		for (int i = 0; i < PAGES; i++)
			wrong += done[i].res != PAGE || memory[i * PAGE + 9] != 'm';
	}
	SHOW(wrong);
	over = 1;
	pthread_join(writer, NULL);
	SHOW(syscall(SYS_io_destroy, context));
}

/* As a storage engine has them: a page is locked while it is written. */
struct buffer {
	uint32_t locked;
	char *page;
} __attribute__((aligned(256)));

static struct buffer buffers[PAGES];

static long futex(uint32_t *word, int operation, uint32_t value)
{
	return syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

static void *unlock_what_is_written(void *context)
{
	struct io_event done[PAGES];

	/* Until the context is gone. */
	for (;;) {
		long count = events((aio_context_t)context, 1, PAGES, done);

		if (count < 1)
			return NULL;
		for (long i = 0; i < count; i++) {
			struct buffer *buffer = &buffers[done[i].data / PAGE];

			if (done[i].res != PAGE)
				die("a write");
			__atomic_store_n(&buffer->locked, 0, __ATOMIC_SEQ_CST);
			futex(&buffer->locked, FUTEX_WAKE_PRIVATE, 1);
		}
	}
}

/* A thread sleeps on the locks of pages that another has submitted, the last first. */
static void locked(void)
{
	enum { PASSES = 4 };
	int fd = open_direct("locked"), wrong = 0;
	char *memory = pages(PAGES);
	aio_context_t context = context_of(PAGES);
	struct iocb blocks[PAGES], *list[PAGES];
	pthread_t writer, unlocker;

	foreground_over = 1;
	if (pthread_create(&writer, NULL, write_on, NULL) ||
	    pthread_create(&unlocker, NULL, unlock_what_is_written, (void *)context))
		die("pthread_create");
	usleep(20000);
	for (int pass = 0; pass < PASSES; pass++) {
		for (int i = 0; i < PAGES; i++) {
			memset(memory + i * PAGE, 'A' + pass, PAGE);
			buffers[i] = (struct buffer){ 1, memory + i * PAGE };
			blocks[i] = block_of(fd, IOCB_CMD_PWRITE, memory + i * PAGE, (long long)i * PAGE);
			list[i] = &blocks[i];
		}
		if (submit(context, PAGES, list) != PAGES)
			die("io_submit");
		for (int i = PAGES - 1; i >= 0; i--)
			while (__atomic_load_n(&buffers[i].locked, __ATOMIC_SEQ_CST))
				wrong += futex(&buffers[i].locked, FUTEX_WAIT_PRIVATE, 1) && errno != EAGAIN;
	}
	SHOW(wrong);
	SHOW(futex(&buffers[0].locked, FUTEX_WAIT_PRIVATE, 1));
	SHOW(futex((uint32_t *)16, FUTEX_WAIT_PRIVATE, 0));
	SHOW(futex((uint32_t *)((char *)buffers + 1), FUTEX_WAIT_PRIVATE, 0));
	over = 1;
	pthread_join(writer, NULL);
	SHOW(syscall(SYS_io_destroy, context));
	pthread_join(unlocker, NULL);
}

/*
 * Children close what their parent reads from at that moment. They have nothing to wait for:
 * time is short for one that waits at each descriptor.
 */
static void parted(void)
{
	int fd = open_direct("parted"), status, failed = 0;
	int others[OTHERS];
	char *memory = pages(1);
	pthread_t asking;

	if (pwrite(fd, memory, PAGE, 0) != PAGE)
		die("pwrite");
	/* With nothing urgent beside, requests go on as fast as they can. */
	foreground_over = 1;
	usleep(300000);
	for (int i = 0; i < OTHERS; i++)
		others[i] = dup(fd);
	if (pthread_create(&asking, NULL, keep_asking, (void *)(long)fd))
		die("pthread_create");
	for (int i = 0; i < CHILDREN; i++) {
		pid_t child;

		usleep(1000);
		child = fork();
		if (child == 0) {
			int wrong = 0;

			alarm(30);
			for (int other = 0; other < OTHERS; other++)
				wrong += close(others[other]) != 0;
			_exit(wrong + (close(fd) != 0));
		}
		if (waitpid(child, &status, 0) != child)
			die("waitpid");
		failed += status != 0;
	}
	SHOW(failed);
	over = 1;
	pthread_join(asking, NULL);
}

/*
 * A thread reads and syncs while it has not asked yet what became of what it submitted: neither
 * waits for the other.
 */
static void uncollected(void)
{
	int fd = open_direct("uncollected"), wrong = 0;
	aio_context_t context = context_of(PAGES);
	struct io_event ended[PAGES];
	struct iocb blocks[PAGES];
	char *memory = pages(PAGES), *own = pages(1);
	struct timespec none = { 0, 0 };

	/* A process that does so ends, at the latest after this. */
	alarm(60);
	SHOW(syscall(SYS_io_getevents, context, 0, 1, ended, &none));
	wrong += pwrite(fd, own, PAGE, 0) != PAGE;
	for (int round = 0; round < 2; round++) {
		/* A scan: what it reads from now on waits for leave. */
		for (int i = 0; i < 600; i++)
			wrong += pread(fd, own, PAGE, 0) != PAGE;
		for (int i = 0; i < PAGES; i++) {
			struct iocb *block = &blocks[i];

			blocks[i] = block_of(fd, round ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE,
					     memory + (size_t)i * PAGE, (long long)i * PAGE);
			wrong += submit(context, 1, &block) != 1;
		}
		for (int i = 0; i < PAGES; i += 4)
			wrong += pwrite(fd, own, PAGE, (off_t)i * PAGE) != PAGE ||
				 pread(fd, own, PAGE, (off_t)i * PAGE) != PAGE;
		SHOW(fsync(fd));
		SHOW(wrong);
		SHOW(events(context, PAGES, PAGES, ended));
		for (int i = 0; i < PAGES; i++)
			wrong += ended[i].res != PAGE;
	}
	SHOW(wrong);
	SHOW(syscall(SYS_io_destroy, context));
}

/* The thread has descriptors of its own: a number names another file for it. */
static void unshared(void)
{
	int fd = open_direct("unshared"), wrong = 0;
	char *memory = pages(PAGES);
	aio_context_t context = used_context(fd, memory);
	struct io_event ended[PAGES];
	struct iocb blocks[PAGES];

	SHOW(unshare(CLONE_FILES) + close(fd));
	SHOW(open_direct("own") == fd);
	/* The kernel writes at once what makes a file grow. */
	SHOW(pwrite(fd, memory, PAGES * PAGE, 0));
	memset(memory, 'u', PAGES * PAGE);
	for (int i = 0; i < PAGES; i++) {
		struct iocb *block = &blocks[i];
		*block = block_of(fd, IOCB_CMD_PWRITE, memory + i * PAGE, (long long)i * PAGE);
		wrong += submit(context, 1, &block) != 1;
	}
	SHOW(events(context, PAGES, PAGES, ended) + wrong);
}

static const struct pattern patterns[] = {
	{ "several", several }, { "closed", closed }, { "destroyed", destroyed },
	{ "mistaken", mistaken }, { "many", many }, { "refused", refused }, { "vectored", vectored },
	{ "crowded", crowded }, { "forked", forked }, { "parted", parted },
	{ "waited", waited }, { "locked", locked }, { "uncollected", uncollected },
	{ "lasting", lasting }, { "cancelled", cancelled }, { "unshared", unshared },
};

int main(int count, char **arguments)
{
	run_beside_foreground(FIND_PATTERN(patterns, count, arguments));
	return 0;
}
