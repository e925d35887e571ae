/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the probes share: programs that take the name of a pattern and a directory, and print
 * what each call gave, so that a run with the library can be held against one without.
 */
#ifndef PROBE_H
#define PROBE_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DIRECT_BYTES = 4096 }; /* what direct I/O is aligned to */

struct pattern {
	const char *name;
	void (*run)(void);
};

static const char *directory;

static inline void die(const char *what)
{
	perror(what);
	exit(3);
}

static inline void check(int ok, const char *what)
{
	if (!ok)
		die(what);
}

#define SHOW(call)                                                             \
	do {                                                                   \
		errno = 0;                                                     \
		long result_ = (long)(call);                                   \
		printf("%s = %ld, errno %d\n", #call, result_, errno);         \
	} while (0)

/* Of a call that leaves errno as it comes. */
#define SHOW_RESULT(call) printf("%s = %ld\n", #call, (long)(call))

static inline int open_file(const char *name, int flags)
{
	char path[4096];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	fd = open(path, flags | O_CREAT, 0600);
	if (fd < 0)
		die(path);
	return fd;
}

/* Another process says something by a file. */
static inline int has_file(const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return access(path, F_OK) == 0;
}

/* On and on, until another process says that it is enough, and once more: how much was wrong. */
static inline void run_until_told(long (*once)(void))
{
	long wrong = 0;
	int is_last;

	alarm(100);
	do {
		is_last = has_file("go");
		wrong += once();
		close(open_file("begun", O_WRONLY));
	} while (!is_last);
	SHOW_RESULT(wrong);
}

/* For direct I/O. */
static inline char *aligned(size_t bytes)
{
	void *memory;

	if (posix_memalign(&memory, DIRECT_BYTES, bytes))
		die("posix_memalign");
	memset(memory, 'm', bytes);
	return memory;
}

/* What a child of vfork does, in its parent's memory: closes all that it has, and executes a program. */
static inline void close_and_execute(int fd)
{
	close(fd);
	close_range(3, ~0U, 0);
	execl("/bin/true", "true", (char *)NULL);
	_exit(2);
}

/* The pattern that the arguments name. */
static inline const struct pattern *find_pattern(const struct pattern *patterns, size_t patterns_count,
						 int count, char **arguments)
{
	if (count != 3) {
		fprintf(stderr, "usage: %s PATTERN DIRECTORY\n", arguments[0]);
		exit(2);
	}
	directory = arguments[2];
	/* Whoever waits for what never comes ends, also on a machine that is emulated. */
	alarm(300);
	/* A child must not print again what its parent has printed. */
	setvbuf(stdout, NULL, _IONBF, 0);
	for (size_t i = 0; i < patterns_count; i++)
		if (strcmp(patterns[i].name, arguments[1]) == 0)
			return &patterns[i];
	fprintf(stderr, "there is no pattern %s\n", arguments[1]);
	exit(2);
}

#define FIND_PATTERN(patterns, count, arguments) \
	find_pattern(patterns, sizeof(patterns) / sizeof((patterns)[0]), count, arguments)

static volatile int foreground_begun, foreground_over;

static inline void *read_on(void *unused)
{
	int fd = open_file("foreground", O_RDWR | O_DIRECT);
	char *page = aligned(DIRECT_BYTES);

	(void)unused;
	if (pwrite(fd, page, DIRECT_BYTES, 0) != DIRECT_BYTES)
		die("pwrite");
	while (!foreground_over) {
		if (pread(fd, page, DIRECT_BYTES, 0) != DIRECT_BYTES)
			die("pread");
		foreground_begun = 1;
	}
	free(page);
	close(fd);
	return NULL;
}

/* Beside a thread that reads on and on, so that requests of lower levels have to wait. */
static inline void run_beside_foreground(const struct pattern *pattern)
{
	pthread_t foreground;

	if (pthread_create(&foreground, NULL, read_on, NULL))
		die("pthread_create");
	while (!foreground_begun)
		usleep(1000);
	pattern->run();
	foreground_over = 1;
	pthread_join(foreground, NULL);
}

#endif
