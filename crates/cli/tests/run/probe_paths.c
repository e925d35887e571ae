// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Files whose path is known, or is not. Each pattern writes and reads a file of the name `hot`.
 *
 *   probe_paths PATTERN DIRECTORY
 */
#define _GNU_SOURCE
#include <sched.h>
#include <sys/stat.h>

#include "probe.h"

enum { PAGES = 20, NOT_ALLOWED = 77 };

static void use_file(const char *path)
{
	char *page = aligned(DIRECT_BYTES);
	int fd = open(path, O_RDWR | O_CREAT | O_DIRECT, 0600);

	if (fd < 0)
		die(path);
	for (int i = 0; i < PAGES; i++)
		SHOW(pwrite(fd, page, DIRECT_BYTES, (off_t)i * DIRECT_BYTES));
	for (int i = 0; i < PAGES; i++)
		SHOW(pread(fd, page, DIRECT_BYTES, (off_t)i * DIRECT_BYTES));
	close(fd);
}

static void known(void)
{
	use_file("hot");
}

/* In a directory of its own, which has no /proc: root may, or who is root of a name space. */
static void enclosed(void)
{
	if (chroot(".") && (unshare(CLONE_NEWUSER) || chroot(".")))
		exit(NOT_ALLOWED);
	use_file("/hot");
}

/* A path is longer than what is held against rules. */
static void deep(void)
{
	char name[201];

	memset(name, 'd', sizeof(name) - 1);
	name[sizeof(name) - 1] = 0;
	for (int i = 0; i < 6; i++)
		check(mkdir(name, 0700) == 0 && chdir(name) == 0, "mkdir");
	use_file("hot");
}

static const struct pattern patterns[] = {
	{ "known", known },
	{ "enclosed", enclosed },
	{ "deep", deep },
};

int main(int count, char **arguments)
{
	const struct pattern *pattern = FIND_PATTERN(patterns, count, arguments);

	check(chdir(directory) == 0, "chdir");
	pattern->run();
	return 0;
}
