// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Calls whose arguments lie where no memory is, or say more than is there, one pattern per name.
 * Prints what each gave: the kernel's own answer.
 *
 *   probe_nowhere PATTERN DIRECTORY
 */
#define _GNU_SOURCE
#include <limits.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "probe_aio.h"

/* Where a page ends behind which there is none. */
static char *edge(void)
{
	char *two = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(two != MAP_FAILED && munmap(two + PAGE, PAGE) == 0, "mmap");
	return two + PAGE;
}

/* What the compiler must not know. */
static void *at(long address)
{
	volatile long value = address;

	return (void *)value;
}

/* A header in a message's control. */
static struct cmsghdr *head(struct msghdr *message, size_t length, int level, int type)
{
	struct cmsghdr *header = message->msg_control;

	header->cmsg_len = length;
	header->cmsg_level = level;
	header->cmsg_type = type;
	return header;
}

/* Lengths of headers, and of the control around them. */
static void lengths(int fd)
{
	static const size_t all[] = { 0, 1, 15, 16, 17, 20, 24, 40, 63, 64, 65, 1UL << 31, 1UL << 40,
				      (size_t)INT_MAX, (size_t)-24, (size_t)-7, (size_t)-1 };
	enum { ALL = sizeof(all) / sizeof(all[0]) };
	_Alignas(8) char control[64];

	for (int type = SCM_RIGHTS; type < SCM_RIGHTS + 90; type += 89) {
		for (int i = 0; i < ALL * ALL; i++) {
			struct msghdr message = { .msg_control = control, .msg_controllen = all[i % ALL] };

			memset(control, 0, sizeof(control));
			head(&message, all[i / ALL], SOL_SOCKET, type);
			SHOW(sendmsg(fd, &message, 0));
		}
	}
}

/* A header that is right, and one behind it. */
static void seconds(int fd)
{
	static const size_t all[] = { 0, 15, 16, 20, 24, 40, (size_t)-16, (size_t)-1 };
	_Alignas(8) char control[64] = { 0 };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct msghdr second = { .msg_control = control + 24 };
		struct msghdr message = { .msg_control = control, .msg_controllen = sizeof(control) };

		*(int *)CMSG_DATA(head(&message, 20, SOL_SOCKET, SCM_RIGHTS)) = fd;
		head(&second, all[i], SOL_SOCKET, SCM_RIGHTS);
		SHOW(sendmsg(fd, &message, 0));
	}
}

/* More headers, and more descriptors, than anybody sends. */
static void crowds(int fd)
{
	enum { HEADERS = 600, DESCRIPTORS = 300 };
	static _Alignas(8) char control[HEADERS * 24];
	struct msghdr message = { .msg_control = control };

	for (int count = 250; count < DESCRIPTORS; count++) {
		int *list = (int *)CMSG_DATA(head(&message, 16 + 4 * count, SOL_SOCKET, SCM_RIGHTS));

		for (int i = 0; i < count; i++)
			list[i] = fd;
		message.msg_controllen = 16 + 4 * count;
		SHOW(sendmsg(fd, &message, 0));
	}
	for (int i = 0; i < HEADERS; i++) {
		message.msg_control = control + i * 24;
		*(int *)CMSG_DATA(head(&message, 20, SOL_SOCKET, SCM_RIGHTS)) = fd;
	}
	message.msg_control = control;
	message.msg_controllen = sizeof(control);
	SHOW(sendmsg(fd, &message, 0));
}

/* Messages to sockets, in a process that has files. */
static void messages(void)
{
	struct mmsghdr two[2] = { { .msg_hdr = { 0 } } }, *last = (struct mmsghdr *)edge() - 1;
	int file = open_file("messages", O_RDWR | O_DIRECT), pair[2];
	char *page = aligned(PAGE), *end = edge();

	check(socketpair(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK, 0, pair) == 0, "socketpair");
	SHOW(pwrite(file, page, PAGE, 0));
	for (int fd = pair[0], pass = 0; pass < 2; pass++, fd = -1) {
		struct msghdr message = { .msg_control = end - 16, .msg_controllen = 64 };

		SHOW(sendmsg(fd, NULL, 0));
		SHOW(sendmsg(fd, at(8), 0));
		SHOW(sendmsg(fd, at(-4096), 0));
		SHOW(sendmsg(fd, at(-8), 0));
		SHOW(sendmsg(fd, (struct msghdr *)(end - 40), 0));
		head(&message, 20, SOL_SOCKET, SCM_RIGHTS);
		SHOW(sendmsg(fd, &message, 0));
		for (int back = 0; back < 16; back += 4) {
			message.msg_control = end - back;
			SHOW(sendmsg(fd, &message, 0));
		}
		message.msg_control = NULL;
		SHOW(sendmsg(fd, &message, 0));
		message.msg_control = at(-4096);
		SHOW(sendmsg(fd, &message, 0));
		message.msg_control = at(-16);
		SHOW(sendmsg(fd, &message, 0));
		SHOW(sendmmsg(fd, NULL, 2, 0));
		SHOW(sendmmsg(fd, at(-4096), 2, 0));
		SHOW(sendmmsg(fd, at(-64), 2, 0));
		SHOW(sendmmsg(fd, last, 2, 0));
		SHOW(sendmmsg(fd, last, 5000, 0));
		SHOW(sendmmsg(fd, last, -1, 0));
		SHOW(sendmmsg(fd, last + 1, 1, 0));
		SHOW(sendmmsg(fd, two, 0, 0));
		two[1].msg_hdr = message;
		SHOW(sendmmsg(fd, two, 2, 0));
		lengths(fd);
		seconds(fd);
	}
	crowds(pair[0]);
}

/* Submits, and collects what was taken. */
static void collect(aio_context_t context, long count, void *list)
{
	struct io_event done[8];
	long taken, sum = 0;

	SHOW(taken = submit(context, count, list));
	if (taken <= 0)
		return;
	SHOW(events(context, taken, 8, done));
	for (int i = 0; i < taken; i++)
		sum += done[i].res;
	SHOW_RESULT(sum);
}

/* Arrays and blocks of which not all is there, read or written. */
static void blocks_of(aio_context_t context, int fd, int opcode)
{
	struct iocb *last = (struct iocb *)edge() - 3, **list = (struct iocb **)edge() - 3;
	char *memory = aligned(3 * PAGE), *whole = aligned(3 * PAGE);
	struct iocb *across = (struct iocb *)(whole + PAGE - 36);

	for (int i = 0; i < 3; i++) {
		last[i] = block_of(fd, opcode, memory + i * PAGE, i * PAGE);
		list[i] = &last[i];
	}
	collect(context, 1, NULL);
	collect(context, 1, at(8));
	collect(context, 1, at(-4096));
	collect(context, 1, at(-8));
	collect(context, 1, list + 3);
	collect(context, 0, list + 3);
	collect(context, -1, list + 3);
	SHOW(submit(0, 1, NULL));
	SHOW(submit(0, 1, list));
	SHOW(submit((aio_context_t)8, 1, NULL));
	for (int bad = 0; bad < 5; bad++) {
		struct iocb *const places[] = { NULL, at(8), at(-64), last + 3, (void *)((char *)last + 132) };

		list[2] = places[bad];
		collect(context, 1, list + 2);
		collect(context, 3, list);
	}
	/* The array ends too early. */
	list[2] = &last[2];
	collect(context, 4, list);
	collect(context, 64, list + 1);
	collect(context, 1, (char *)list + 20);
	memmove((char *)list - 4, list, 3 * sizeof(*list));
	collect(context, 4, (char *)list - 4);
	/* A block, and a pointer to it, that lie in two pages. */
	*across = block_of(fd, opcode, memory, PAGE);
	memcpy(whole + 2 * PAGE - 4, &across, sizeof(across));
	collect(context, 1, whole + 2 * PAGE - 4);
}

/* Linux AIO, before the program has asked for events and after it has. */
static void blocks(void)
{
	aio_context_t context = context_of(64);

	for (int pass = 0; pass < 4; pass++) {
		int fd = open_file("blocks", O_RDWR | (pass % 2 ? 0 : O_DIRECT));

		blocks_of(context, fd, pass < 2 ? IOCB_CMD_PWRITE : IOCB_CMD_PREAD);
		close(fd);
	}
	SHOW(syscall(SYS_io_destroy, context));
	SHOW(syscall(SYS_io_destroy, context));
}

static const struct pattern patterns[] = {
	{ "messages", messages },
	{ "blocks", blocks },
};

int main(int count, char **arguments)
{
	run_beside_foreground(FIND_PATTERN(patterns, count, arguments));
	return 0;
}
