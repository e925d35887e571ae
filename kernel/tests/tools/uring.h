/* SPDX-License-Identifier: GPL-2.0 */
/* As much of io_uring as reads and writes with a priority take: io_uring(7). */
#ifndef TOOLS_URING_H
#define TOOLS_URING_H

#include <linux/io_uring.h>
#include <sys/mman.h>

struct uring {
	int fd;
	unsigned int *sq_tail, *sq_array, sq_mask;
	unsigned int *cq_head, *cq_tail, cq_mask;
	struct io_uring_sqe *sqes;
	struct io_uring_cqe *cqes;
};

static void *uring_map(int fd, size_t bytes, off_t offset)
{
	void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_POPULATE, fd, offset);

	if (map == MAP_FAILED)
		die("mmap of a ring");
	return map;
}

static void uring_open(struct uring *ring, unsigned int entries)
{
	struct io_uring_params p = { 0 };
	char *sq, *cq;

	ring->fd = syscall(SYS_io_uring_setup, entries, &p);
	if (ring->fd < 0)
		die("io_uring_setup");
	sq = uring_map(ring->fd, p.sq_off.array + p.sq_entries * 4,
		       IORING_OFF_SQ_RING);
	cq = uring_map(ring->fd, p.cq_off.cqes +
		       p.cq_entries * sizeof(struct io_uring_cqe),
		       IORING_OFF_CQ_RING);
	ring->sqes = uring_map(ring->fd,
			       p.sq_entries * sizeof(struct io_uring_sqe),
			       IORING_OFF_SQES);
	ring->sq_tail = (void *)(sq + p.sq_off.tail);
	ring->sq_array = (void *)(sq + p.sq_off.array);
	ring->sq_mask = p.sq_entries - 1;
	ring->cq_head = (void *)(cq + p.cq_off.head);
	ring->cq_tail = (void *)(cq + p.cq_off.tail);
	ring->cq_mask = p.cq_entries - 1;
	ring->cqes = (void *)(cq + p.cq_off.cqes);
}

/* There is room: never more than the ring's entries are outstanding. */
static void uring_push(struct uring *ring, int write, int fd, void *buffer,
		       uint64_t length, uint64_t offset, int ioprio,
		       uint64_t data)
{
	unsigned int tail = *ring->sq_tail;
	unsigned int index = tail & ring->sq_mask;
	struct io_uring_sqe *sqe = &ring->sqes[index];

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = write ? IORING_OP_WRITE : IORING_OP_READ;
	sqe->fd = fd;
	sqe->addr = (uintptr_t)buffer;
	sqe->len = length;
	sqe->off = offset;
	sqe->ioprio = ioprio;
	sqe->user_data = data;
	ring->sq_array[index] = index;
	__atomic_store_n(ring->sq_tail, tail + 1, __ATOMIC_RELEASE);
}

static void uring_enter(struct uring *ring, unsigned int submit,
			unsigned int wait)
{
	int done;

	do {
		done = syscall(SYS_io_uring_enter, ring->fd, submit, wait,
			       IORING_ENTER_GETEVENTS, NULL, 0);
	} while (done < 0 && errno == EINTR);
	if (done != (int)submit)
		die("io_uring_enter");
}

static int uring_pop(struct uring *ring, uint64_t *data, int64_t *result)
{
	unsigned int head = *ring->cq_head;
	struct io_uring_cqe *cqe = &ring->cqes[head & ring->cq_mask];

	if (head == __atomic_load_n(ring->cq_tail, __ATOMIC_ACQUIRE))
		return 0;
	*data = cqe->user_data;
	*result = cqe->res;
	__atomic_store_n(ring->cq_head, head + 1, __ATOMIC_RELEASE);
	return 1;
}

#endif
