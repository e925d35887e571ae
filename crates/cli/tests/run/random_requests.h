/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Of probe_random.c: batches of asynchronous requests, by Linux AIO and by io_uring, each on a region
 * of its own of one file. Between their submission and their end sometimes something else is done.
 */
#ifndef RANDOM_REQUESTS_H
#define RANDOM_REQUESTS_H

#if __has_include(<liburing.h>)
#include <liburing.h>
#define HAS_RING 1
#endif

enum {
	REGIONS = 24,
	REGION = 64 << 10,
	ENTRIES = 32, /* of a ring */
	EVENTS = 64, /* of a context */
	NONE = INT_MIN, /* no result yet */
};

static char *regions;
static aio_context_t context;
/* Requests of the parent are under way on the file: its child lets it be. */
static int is_busy;

static void fork_one(void);
static char *path_of(const char *name);
static int any_fd(void);

static int is_started(void)
{
	int fd;

	if (is_busy)
		return 0;
	if (regions)
		return 1;
	regions = aligned(REGIONS * REGION);
	fd = open(path_of("requests"), O_RDWR | O_CREAT, 0600);
	check(fd >= 0 && !ftruncate(fd, REGIONS * REGION), "ftruncate");
	check(pwrite(fd, stuff, STUFF, 0) == STUFF && !fsync(fd), "pwrite");
	close(fd);
	return 1;
}

struct batch {
	int count, fd, event, needs_file, closes;
	long results[REGIONS];
	int is_read[REGIONS];
	struct iovec pieces[REGIONS][2];
};

static void begin(struct batch *batch)
{
	static const int flags[] = { O_DIRECT, O_DIRECT, O_DIRECT | O_DSYNC, 0, O_DSYNC };

	memset(batch, 0, sizeof(*batch));
	batch->count = 1 + (int)below(chance(4) ? REGIONS : 8);
	batch->fd = open(path_of("requests"), O_RDWR | flags[below(5)]);
	batch->event = eventfd(0, EFD_NONBLOCK);
	check(batch->fd >= 0 && batch->event >= 0, "open");
	for (int i = 0; i < batch->count; i++)
		batch->results[i] = NONE;
}

/* A request's part of its region, as pieces and as one. */
static size_t part(struct batch *batch, int i, char **memory, off_t *place)
{
	size_t length = (1 + below(REGION / DIRECT_BYTES)) * DIRECT_BYTES, first;
	off_t from = (off_t)below((REGION - length) / DIRECT_BYTES + 1) * DIRECT_BYTES;

	if (chance(20))
		length -= below(300);
	*memory = regions + i * REGION + from;
	*place = i * REGION + from;
	first = length / 2 & -(size_t)DIRECT_BYTES;
	batch->pieces[i][0] = (struct iovec){ *memory, first };
	batch->pieces[i][1] = (struct iovec){ *memory + first, length - first };
	return length;
}

/* While requests are under way; some kinds may look for their file only later. */
static void between(struct batch *batch)
{
	int both[2], kind = (int)below(12);

	is_busy = 1;
	switch (batch->needs_file && kind < 3 ? -1 : kind) {
	case 0:
		SAY("close", close(batch->fd));
		batch->fd = -1;
		break;
	case 1:
		SAY("pipe", pipe(both));
		SAY_NUMBER("dup2", dup2(both[0], batch->fd));
		close(both[0]);
		close(both[1]);
		break;
	case 5:
		if (!is_child && !batch->closes)
			fork_one();
		break;
	case 3:
		SAY("fsync", fsync(batch->fd));
		break;
	case 4:
		read_some(any_fd());
		break;
	case 2:
		SAY("close_range", close_range((unsigned)batch->fd, (unsigned)batch->fd, 0));
		batch->fd = -1;
		break;
	default:
		break;
	}
	is_busy = 0;
}

static void finish(struct batch *batch)
{
	uint64_t count = 0;
	int fd;

	for (int i = 0; i < batch->count; i++) {
		char *memory = batch->pieces[i][0].iov_base;
		size_t length = batch->pieces[i][0].iov_len + batch->pieces[i][1].iov_len;
		long result = batch->results[i];

		SAY("result", result);
		if (batch->is_read[i] && result > 0 && (size_t)result <= length)
			SAY("bytes", (long)digest(memory, (size_t)result));
	}
	if (read(batch->event, &count, sizeof(count)) == sizeof(count))
		SAY("signalled", (long)count);
	close(batch->event);
	if (batch->fd >= 0)
		close(batch->fd);
	fd = open(path_of("requests"), O_RDONLY);
	check(pread(fd, arena, REGIONS * REGION, 0) == REGIONS * REGION, "pread");
	SAY("all", (long)digest(arena, REGIONS * REGION));
	close(fd);
}

/*
 * How often something is done here is not the same in each run: it has dice of its own, so that the
 * course is.
 */
#define APART(what)                                                            \
	do {                                                                   \
		uint64_t own_ = next(), *before_ = dice;                       \
                                                                               \
		dice = &own_;                                                  \
		what;                                                          \
		dice = before_;                                                \
	} while (0)

static void note(struct batch *batch, uint64_t number, long result)
{
	if (number >= (uint64_t)batch->count || batch->results[number] != NONE)
		SAY("unexpected end", (long)number);
	else
		batch->results[number] = result;
}

static void prepare_block(struct batch *batch, int i, struct iocb *block)
{
	char *memory;
	off_t place;
	size_t length = part(batch, i, &memory, &place);
	unsigned kind = (unsigned)below(20);

	memset(block, 0, sizeof(*block));
	block->aio_fildes = (uint32_t)batch->fd;
	block->aio_data = (uint64_t)i;
	block->aio_buf = (uintptr_t)memory;
	block->aio_nbytes = length;
	block->aio_offset = place;
	batch->is_read[i] = 0;
	if (kind < 6) {
		block->aio_lio_opcode = IOCB_CMD_PREAD;
		batch->is_read[i] = 1;
	} else if (kind < 12) {
		block->aio_lio_opcode = IOCB_CMD_PWRITE;
	} else if (kind < 16) {
		batch->is_read[i] = kind < 14;
		block->aio_lio_opcode = kind < 14 ? IOCB_CMD_PREADV : IOCB_CMD_PWRITEV;
		block->aio_buf = (uintptr_t)batch->pieces[i];
		block->aio_nbytes = 2;
	} else if (kind < 18) {
		block->aio_lio_opcode = kind == 16 ? IOCB_CMD_FSYNC : IOCB_CMD_FDSYNC;
		block->aio_buf = block->aio_nbytes = 0;
		block->aio_offset = 0;
	} else {
		block->aio_lio_opcode = (uint16_t)(kind == 18 ? IOCB_CMD_PREAD : below(12));
		block->aio_fildes = chance(3) ? 9999 : (uint32_t)batch->fd;
		block->aio_buf = chance(3) ? 8 : block->aio_buf;
		block->aio_offset = chance(3) ? any_place() | 1 << 30 : block->aio_offset;
		block->aio_reserved2 = chance(6);
		block->aio_nbytes = chance(6) ? 0 : block->aio_nbytes;
		may_be_another = 1;
	}
	if (kind < 18 && chance(3) == 0)
		return;
	may_be_another = 1;
	switch (below(8)) {
	case 0:
		block->aio_flags = IOCB_FLAG_RESFD;
		block->aio_resfd = chance(6) ? 9999 : (uint32_t)batch->event;
		break;
	case 1:
		block->aio_flags = IOCB_FLAG_IOPRIO;
		block->aio_reqprio = (int16_t)(below(9) << 13 | below(9));
		break;
	case 2:
		block->aio_rw_flags = chance(2) ? RWF_DSYNC : RWF_HIPRI;
		break;
	case 3:
		block->aio_key = (uint32_t)next();
	}
}

static void collect_events(struct batch *batch, int count)
{
	struct io_event done[REGIONS];

	while (count > 0) {
		long least = (long)below((uint64_t)count + 1), most = count + (long)below(2);
		struct timespec time = { 0, chance(2) ? 0 : 1000000 };
		long result = syscall(SYS_io_getevents, context, least, most > REGIONS ? REGIONS : most, done,
				      chance(2) ? NULL : &time);

		if (result < 0 && errno != EINTR)
			SAY("io_getevents", -errno);
		for (long i = 0; i < result; i++)
			note(batch, done[i].data, done[i].res);
		count -= result > 0 ? (int)result : 0;
	}
}

static int submit_blocks(struct batch *batch, struct iocb **list)
{
	int at = 0, under_way = 0;

	while (at < batch->count) {
		int more = 1 + (int)below((uint64_t)(batch->count - at));
		long result = syscall(SYS_io_submit, context, (long)more, list + at);

		/* What is refused at once is an end, too: with the library it may come as one. */
		if (result <= 0) {
			note(batch, (uint64_t)at++, result < 0 ? -errno : -1);
		} else {
			under_way += (int)result;
			at += (int)result;
		}
	}
	return under_way;
}

static void batch_of_aio(void)
{
	struct iocb blocks[REGIONS], *list[REGIONS];
	struct timespec time = { 0, 300000 };
	struct io_event none;
	struct batch batch;
	int under_way;

	if (!is_started())
		return;
	begin(&batch);
	if (!context)
		SAY("io_setup", syscall(SYS_io_setup, EVENTS, &context));
	for (int i = 0; i < batch.count; i++) {
		memset(regions + i * REGION, (int)below(256), REGION);
		prepare_block(&batch, i, &blocks[i]);
		list[i] = &blocks[i];
	}
	APART(under_way = submit_blocks(&batch, list));
	if (chance(4))
		SAY("io_cancel", syscall(SYS_io_cancel, context, list[0], &none));
	between(&batch);
	if (chance(8)) {
		SAY("io_destroy", syscall(SYS_io_destroy, context));
		context = 0;
		/* Only what they have read and written is known. */
		for (int i = 0; i < batch.count; i++) {
			batch.results[i] = 0;
			SAY("bytes", (long)digest(regions + i * REGION, REGION));
		}
	} else {
		APART(collect_events(&batch, under_way));
		while (syscall(SYS_io_getevents, context, 1L, 1L, &none, &time) && errno == EINTR)
			;
		if (chance(8))
			SAY("io_getevents", syscall(SYS_io_getevents, context, 2L, 1L, &none, &time));
	}
	finish(&batch);
}

#ifdef HAS_RING

static struct io_uring ring;
/* After an entry that drains, the kernel may look for later ones' files later, too. */
static int has_ring, ring_fd, has_drained;

static int make_ring(void)
{
	static const unsigned flags[] = { 0, 0, 0, IORING_SETUP_COOP_TASKRUN, IORING_SETUP_CLAMP };
	struct iovec buffer = { regions, REGIONS * REGION };

	if (has_ring)
		return 1;
	if (SAY("io_uring_queue_init", io_uring_queue_init(ENTRIES, &ring, flags[below(5)])) < 0)
		return 0;
	has_ring = 1;
	has_drained = 0;
	ring_fd = open(path_of("requests"), O_RDWR | O_DIRECT);
	SAY("io_uring_register_files", io_uring_register_files(&ring, &ring_fd, 1));
	SAY("io_uring_register_buffers", io_uring_register_buffers(&ring, &buffer, 1));
	close(ring_fd);
	return 1;
}

/* Whether another one must follow. */
static int prepare_entry(struct batch *batch, int i, int is_linked, int is_direct)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
	static struct __kernel_timespec soon = { 0, 500000 }, late = { 30, 0 };
	char *memory;
	off_t place;
	size_t length = part(batch, i, &memory, &place);
	unsigned kind = (unsigned)below(24), flags = 0;
	int fd = batch->fd;

	check(sqe != NULL, "io_uring_get_sqe");
	if (is_direct && chance(8)) {
		flags |= IOSQE_FIXED_FILE;
		fd = 0;
	}
	batch->is_read[i] = 0;
	if (is_linked && chance(6)) {
		io_uring_prep_link_timeout(sqe, &late, 0);
		io_uring_sqe_set_data64(sqe, (uint64_t)i);
		return 0;
	}
	if (kind < 8 || kind == 16) {
		if (kind == 16)
			place = REGIONS * REGION;
		io_uring_prep_read(sqe, fd, memory, (unsigned)length, (uint64_t)place);
		batch->is_read[i] = 1;
	} else if (kind < 12) {
		io_uring_prep_write(sqe, fd, memory, (unsigned)length, (uint64_t)place);
	} else if (kind == 12) {
		io_uring_prep_readv(sqe, fd, batch->pieces[i], 2, (uint64_t)place);
		batch->is_read[i] = 1;
	} else if (kind == 13) {
		io_uring_prep_writev(sqe, fd, batch->pieces[i], 2, (uint64_t)place);
	} else if (kind == 14) {
		io_uring_prep_read_fixed(sqe, fd, memory, (unsigned)length, (uint64_t)place, 0);
		batch->is_read[i] = 1;
	} else if (kind == 15) {
		io_uring_prep_write_fixed(sqe, fd, memory, (unsigned)length, (uint64_t)place, 0);
	} else if (kind == 17) {
		io_uring_prep_fsync(sqe, fd, chance(2) ? IORING_FSYNC_DATASYNC : 0);
		batch->needs_file = 1;
	} else if (kind == 18) {
		io_uring_prep_read(sqe, chance(2) ? 9999 : batch->fd, (char *)8, (unsigned)length, 0);
		flags = 0;
	} else if (kind == 19) {
		io_uring_prep_timeout(sqe, &soon, 0, 0);
		flags = 0;
	} else if (kind == 20) {
		io_uring_prep_cancel64(sqe, 12345, 0);
		flags = 0;
	} else if (kind == 21) {
		io_uring_prep_nop(sqe);
		flags = 0;
	} else if (kind == 22) {
		io_uring_prep_close(sqe, dup(batch->fd));
		batch->closes = 1;
		flags = 0;
	} else {
		io_uring_prep_rw(chance(2) ? 250 : IORING_OP_READ, sqe, fd, memory, (unsigned)length, 3);
	}
	io_uring_sqe_set_data64(sqe, (uint64_t)i);
	if (chance(6))
		flags |= IOSQE_ASYNC;
	if (chance(30)) {
		flags |= IOSQE_IO_DRAIN;
		has_drained = 1;
	}
	if (i + 1 < batch->count && chance(is_linked ? 2 : 7))
		flags |= chance(4) ? IOSQE_IO_HARDLINK : IOSQE_IO_LINK;
	io_uring_sqe_set_flags(sqe, flags);
	batch->needs_file |= has_drained || (flags & ~(unsigned)IOSQE_FIXED_FILE) != 0;
	return flags & (IOSQE_IO_LINK | IOSQE_IO_HARDLINK);
}

static void submit_ring(int count)
{
	struct __kernel_timespec time = { 0, 1000000 };
	struct io_uring_cqe *cqe = NULL;

	switch (below(5)) {
	case 0:
		io_uring_submit_and_wait(&ring, (unsigned)below((uint64_t)count + 1));
		break;
	case 1:
		io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &time, NULL);
		break;
	case 2:
		io_uring_submit_and_get_events(&ring);
		break;
	default:
		io_uring_submit(&ring);
	}
}

/* The kernel stops at one that it cannot even begin. */
static void submit_all(int count)
{
	do
		submit_ring(count);
	while (io_uring_sq_ready(&ring) > 0);
}

static void collect_ring(struct batch *batch)
{
	struct io_uring_cqe *all[REGIONS];
	struct __kernel_timespec time = { 0, 1000000 };

	for (int left = batch->count; left > 0;) {
		struct io_uring_cqe *cqe = NULL;
		unsigned count;

		switch (below(4)) {
		case 0:
			io_uring_wait_cqe_nr(&ring, &cqe, (unsigned)(1 + below((uint64_t)left)));
			break;
		case 1:
			io_uring_wait_cqe_timeout(&ring, &cqe, &time);
			break;
		case 2:
			io_uring_peek_cqe(&ring, &cqe);
			break;
		default:
			io_uring_wait_cqe(&ring, &cqe);
		}
		count = io_uring_peek_batch_cqe(&ring, all, 1 + (unsigned)below((uint64_t)left));
		for (unsigned i = 0; i < count; i++)
			note(batch, all[i]->user_data, all[i]->res);
		io_uring_cq_advance(&ring, count);
		left -= (int)count;
	}
}

static void batch_of_ring(void)
{
	struct batch batch;
	int is_linked = 0, is_direct, at = 0, is_registered = 0;

	if (!is_started() || !make_ring())
		return;
	begin(&batch);
	/* By a number of the calling thread's. */
	if (chance(4))
		is_registered = SAY("io_uring_register_ring_fd", io_uring_register_ring_fd(&ring)) == 1;
	is_direct = fcntl(batch.fd, F_GETFL) & O_DIRECT;
	while (at < batch.count) {
		int first = at, end = at + 1 + (int)below((uint64_t)(batch.count - at));

		for (; at < end || is_linked; at++) {
			memset(regions + at * REGION, (int)below(256), REGION);
			is_linked = prepare_entry(&batch, at, is_linked, is_direct);
		}
		APART(submit_all(end - first));
	}
	between(&batch);
	APART(collect_ring(&batch));
	finish(&batch);
	if (is_registered)
		SAY("io_uring_unregister_ring_fd", io_uring_unregister_ring_fd(&ring));
	if (chance(6)) {
		io_uring_queue_exit(&ring);
		has_ring = 0;
	}
}

#else

static int has_ring;

static void batch_of_ring(void)
{
}

#endif

/* A child has no contexts, and its parent's ring is not its own. */
static void forget_asynchronous(void)
{
	context = 0;
	has_ring = 0;
}

static void end_asynchronous(void)
{
	if (context)
		SAY("io_destroy", syscall(SYS_io_destroy, context));
#ifdef HAS_RING
	if (has_ring)
		io_uring_queue_exit(&ring);
#endif
}

#endif
