/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What probes of Linux AIO share: its calls, by their numbers. */
#ifndef PROBE_AIO_H
#define PROBE_AIO_H

#include <linux/aio_abi.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "probe.h"

enum { PAGE = 4096 };

static inline long submit(aio_context_t context, long count, struct iocb **blocks)
{
	return syscall(SYS_io_submit, context, count, blocks);
}

static inline long events(aio_context_t context, long least, long most, struct io_event *into)
{
	return syscall(SYS_io_getevents, context, least, most, into, NULL);
}

static inline aio_context_t context_of(unsigned requests)
{
	aio_context_t context = 0;

	if (syscall(SYS_io_setup, requests, &context))
		die("io_setup");
	return context;
}

static inline struct iocb block_of(int fd, int opcode, void *buffer, long long offset)
{
	struct iocb block = { 0 };

	block.aio_fildes = (uint32_t)fd;
	block.aio_lio_opcode = (uint16_t)opcode;
	block.aio_buf = (uintptr_t)buffer;
	block.aio_nbytes = PAGE;
	block.aio_offset = offset;
	block.aio_data = (uint64_t)offset + 7;
	return block;
}

#endif
