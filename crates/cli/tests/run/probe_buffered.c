// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Files through the page cache, one pattern per name: scans, whose reading ahead the
 * library takes over, and write-back, which it does in pieces. Prints what each call gave.
 *
 *   probe_buffered PATTERN DIRECTORY
 */
#define _GNU_SOURCE
#include "probe.h"

enum { PAGE = 8192, PAGES = 500 };

static char page[PAGE];

static int make_file(const char *name)
{
	int fd = open_file(name, O_RDWR);

	for (int i = 0; i < PAGES; i++) {
		memset(page, 'a' + i % 26, PAGE);
		if (pwrite(fd, page, PAGE, (off_t)i * PAGE) != PAGE)
			die("pwrite");
	}
	return fd;
}

static void drop(int fd)
{
	if (fdatasync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED))
		die("drop");
}

/* Every page holds what was written to it. */
static void scan(void)
{
	int fd = make_file("scan"), wrong = 0;

	drop(fd);
	for (int pass = 0; pass < 2; pass++)
		for (int i = 0; i < PAGES; i++)
			wrong += pread(fd, page, PAGE, (off_t)i * PAGE) != PAGE ||
				 page[0] != 'a' + i % 26 || page[PAGE - 1] != page[0];
	SHOW(wrong);
	SHOW(pread(fd, page, PAGE, (off_t)PAGES * PAGE - 100)); /* short */
	SHOW(pread(fd, page, PAGE, (off_t)PAGES * PAGE)); /* the end */
	drop(fd);
	SHOW(lseek(fd, 0, SEEK_SET));
	for (int i = 0; i < PAGES; i++)
		wrong += read(fd, page, PAGE) != PAGE || page[9] != 'a' + i % 26;
	SHOW(wrong);
	SHOW(read(fd, page, PAGE));
	SHOW(lseek(fd, 0, SEEK_CUR));
}

static void backwards(void)
{
	int fd = make_file("backwards"), wrong = 0;

	drop(fd);
	for (int i = PAGES; i-- > 0;)
		wrong += pread(fd, page, PAGE, (off_t)i * PAGE) != PAGE || page[0] != 'a' + i % 26;
	SHOW(wrong);
}

/* Look-ups: each page alone, far from the one before. */
static void look_up(int fd)
{
	int wrong = 0;

	for (int i = 0; i < PAGES; i++) {
		int at = i * 237 % PAGES;

		wrong += pread(fd, page, PAGE, (off_t)at * PAGE) != PAGE || page[0] != 'a' + at % 26;
	}
	SHOW(wrong);
}

static void scattered(void)
{
	int fd = make_file("scattered");

	drop(fd);
	look_up(fd);
	look_up(fd);
}

static void written(void)
{
	int fd = make_file("written");

	SHOW(sync_file_range(fd, 0, 10 * PAGE, SYNC_FILE_RANGE_WRITE));
	SHOW(sync_file_range(fd, PAGE, 10 * PAGE,
			     SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
				     SYNC_FILE_RANGE_WAIT_AFTER));
	SHOW(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));
	SHOW(sync_file_range(fd, -1, 10, SYNC_FILE_RANGE_WRITE));
	SHOW(sync_file_range(fd, 0, 10, 99));
	SHOW(sync_file_range(-1, 0, 10, SYNC_FILE_RANGE_WRITE));
	SHOW(fsync(fd));
	SHOW(fsync(fd));
	SHOW(ftruncate(fd, 0));
	SHOW(fsync(fd));
}

/* Writes on and on: out of order, behind each other, over what was written just now. */
static void bulk(void)
{
	int fd = make_file("bulk"), wrong = 0;

	for (int i = 0; i < PAGES; i++) {
		int at = i * 7 % PAGES;

		memset(page, 'A' + at % 26, PAGE);
		wrong += pwrite(fd, page, PAGE, (off_t)at * PAGE) != PAGE;
	}
	SHOW(wrong);
	SHOW(lseek(fd, 0, SEEK_END));
	for (int i = 0; i < 100; i++)
		wrong += write(fd, page, PAGE) != PAGE;
	SHOW(wrong);
	SHOW(lseek(fd, 0, SEEK_CUR));
	SHOW(pwrite(fd, page, PAGE, -1));
	SHOW(write(-1, page, PAGE));
	for (int i = 0; i < PAGES; i++)
		wrong += pread(fd, page, PAGE, (off_t)i * PAGE) != PAGE || page[7] != 'A' + i % 26;
	SHOW(wrong);
	SHOW(close(fd));
}

/* A page at a time changes in a file that is synced each time. */
static void resynced(void)
{
	int fd = make_file("resynced"), wrong = fdatasync(fd);

	for (int i = 0; i < 50; i++) {
		wrong += pwrite(fd, page, PAGE, (off_t)(i * 237 % PAGES) * PAGE) != PAGE;
		wrong += fdatasync(fd);
	}
	wrong += fsync(fd);
	SHOW(wrong);
}

static const struct pattern patterns[] = { { "scan", scan }, { "backwards", backwards }, { "scattered", scattered },
	       { "written", written }, { "bulk", bulk },
	       { "resynced", resynced } };

int main(int count, char **arguments)
{
	FIND_PATTERN(patterns, count, arguments)->run();
	return 0;
}
