// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What becomes of asynchronous writes that nobody asks about, one pattern per name, beside a thread that reads on and on,
 * so that they have to wait: at the end of the process, where another program takes its place, and where the kernel writes
 * before io_submit() comes back. Prints what each call gave.
 *
 *   probe_ends PATTERN DIRECTORY
 */
#define _GNU_SOURCE
#include <linux/aio_abi.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "probe.h"

enum { PAGE = 4096, PAGES = 32 };

/* A context of which events are asked for: nothing has to wait elsewhere. */
static aio_context_t context_of(unsigned requests)
{
	aio_context_t context = 0;
	struct timespec none = { 0, 0 };
	struct io_event event;

	if (syscall(SYS_io_setup, requests, &context))
		die("io_setup");
	SHOW(syscall(SYS_io_getevents, context, 0, 1, &event, &none));
	return context;
}

/* Other bytes for each page, the first at `from`. */
static int write_pages(aio_context_t context, int fd, struct iocb *blocks, char *memory)
{
	int wrong = 0;

	for (int i = 0; i < PAGES; i++) {
		struct iocb *block = &blocks[i];

		memset(memory + (size_t)i * PAGE, 'A' + i, PAGE);
		*block = (struct iocb){ 0 };
		block->aio_fildes = (uint32_t)fd;
		block->aio_lio_opcode = IOCB_CMD_PWRITE;
		block->aio_buf = (uintptr_t)(memory + (size_t)i * PAGE);
		block->aio_nbytes = PAGE;
		block->aio_offset = (long long)i * PAGE;
		wrong += syscall(SYS_io_submit, context, 1, &block) != 1;
	}
	return wrong;
}

/* A file as long as what is written to it. */
static void write_and_leave(void)
{
	static struct iocb blocks[PAGES];
	char *memory = aligned((size_t)PAGES * PAGE);
	aio_context_t context = context_of(PAGES);
	int fd = open_file("pages", O_RDWR | O_DIRECT);

	if (pwrite(fd, memory, (size_t)PAGES * PAGE, 0) != PAGES * PAGE)
		die("pwrite");
	SHOW(write_pages(context, fd, blocks, memory));
}

static void exits(void)
{
	write_and_leave();
	_exit(0);
}

static void returns(void)
{
	write_and_leave();
	exit(0);
}

static void calls(void)
{
	write_and_leave();
	syscall(SYS_exit_group, 0);
}

static void executes(void)
{
	char *const arguments[] = { "echo", "another", NULL };

	write_and_leave();
	/* It is not there, and all goes on as before. */
	SHOW(execv("/nowhere", arguments));
	write_and_leave();
	execvp("echo", arguments);
	die("execvp");
}

/* What is appended comes in its order, whatever places the blocks name. */
static void appended(void)
{
	static struct iocb blocks[PAGES];
	char *memory = aligned((size_t)PAGES * PAGE);
	aio_context_t context = context_of(PAGES);
	struct io_event ended[PAGES];
	int fd = open_file("appended", O_RDWR | O_DIRECT | O_APPEND);

	SHOW(write_pages(context, fd, blocks, memory));
	SHOW(syscall(SYS_io_getevents, context, PAGES, PAGES, ended, NULL));
}

/* What was written through the page cache is read, and how long a file is, is known. */
static void seen(void)
{
	static struct iocb blocks[PAGES];
	char *memory = aligned((size_t)PAGES * PAGE), *page = aligned(PAGE);
	aio_context_t context = context_of(PAGES);
	struct io_event ended[PAGES];
	int fd = open_file("cached", O_RDWR | O_DSYNC), wrong = 0;
	struct stat is;

	SHOW(write_pages(context, fd, blocks, memory));
	for (int i = 0; i < PAGES; i++)
		wrong += pread(fd, page, PAGE, (off_t)i * PAGE) != PAGE || memcmp(page, memory + (size_t)i * PAGE, PAGE);
	SHOW(wrong);
	SHOW(syscall(SYS_io_getevents, context, PAGES, PAGES, ended, NULL));
	fd = open_file("grows", O_RDWR | O_DIRECT);
	SHOW(write_pages(context, fd, blocks, memory));
	if (fstat(fd, &is))
		die("fstat");
	SHOW(is.st_size);
	SHOW(syscall(SYS_io_getevents, context, PAGES, PAGES, ended, NULL));
}

static const struct pattern patterns[] = {
	{ "exits", exits }, { "returns", returns }, { "calls", calls }, { "executes", executes },
	{ "appended", appended }, { "seen", seen },
};

int main(int count, char **arguments)
{
	run_beside_foreground(FIND_PATTERN(patterns, count, arguments));
	return 0;
}
