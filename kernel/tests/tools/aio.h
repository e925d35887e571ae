/* SPDX-License-Identifier: GPL-2.0 */
/* Linux AIO and ioprio without libraries: system calls, see io_submit(2). */
#ifndef TOOLS_AIO_H
#define TOOLS_AIO_H

#define _GNU_SOURCE
#include <errno.h>
#include <linux/aio_abi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CLASS_NONE, CLASS_RT, CLASS_BE, CLASS_IDLE };
#define IOPRIO(class, data)	(((class) << 13) | (data))

static inline void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, strerror(errno));
	exit(1);
}

static inline int aio_setup(unsigned int depth, aio_context_t *context)
{
	return syscall(SYS_io_setup, depth, context);
}

static inline int aio_submit(aio_context_t context, long count,
			     struct iocb **iocbs)
{
	return syscall(SYS_io_submit, context, count, iocbs);
}

static inline int aio_wait(aio_context_t context, long min, long max,
			   struct io_event *events, struct timespec *timeout)
{
	int got;

	do {
		got = syscall(SYS_io_getevents, context, min, max, events,
			      timeout);
	} while (got < 0 && errno == EINTR);
	return got;
}

/* Of the calling thread. */
static inline int set_ioprio(int ioprio)
{
	return syscall(SYS_ioprio_set, 1, 0, ioprio);
}

static inline uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000ULL + ts.tv_nsec;
}

/* "rt", "be0" to "be7", "idle", "none" */
static inline int parse_ioprio(const char *name)
{
	if (!strcmp(name, "none"))
		return 0;
	if (!strcmp(name, "rt"))
		return IOPRIO(CLASS_RT, 4);
	if (!strcmp(name, "idle"))
		return IOPRIO(CLASS_IDLE, 0);
	if (!strncmp(name, "be", 2) && name[2] >= '0' && name[2] <= '7' &&
	    !name[3])
		return IOPRIO(CLASS_BE, name[2] - '0');
	fprintf(stderr, "no priority '%s': use rt, be0 to be7, idle or none\n",
		name);
	exit(1);
}

/* splitmix64: the same sequence for the same seed everywhere. */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static inline void prepare(struct iocb *iocb, int fd, int write, void *buffer,
			   uint64_t length, uint64_t offset, int ioprio)
{
	memset(iocb, 0, sizeof(*iocb));
	iocb->aio_lio_opcode = write ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD;
	iocb->aio_fildes = fd;
	iocb->aio_buf = (uintptr_t)buffer;
	iocb->aio_nbytes = length;
	iocb->aio_offset = offset;
	if (ioprio) {
		iocb->aio_flags = IOCB_FLAG_IOPRIO;
		iocb->aio_reqprio = ioprio;
	}
}

#endif
