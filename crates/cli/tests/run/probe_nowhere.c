// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Calls whose arguments lie where no memory is, or say more than is there, one pattern per name.
 * Prints what each gave: the kernel's own answer.
 *
 *   probe_nowhere PATTERN DIRECTORY
 */
#define _GNU_SOURCE
#include <limits.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "probe.h"

enum { PAGE = 4096 };

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

static const struct pattern patterns[] = {
	{ "messages", messages },
};

int main(int count, char **arguments)
{
	run_beside_foreground(FIND_PATTERN(patterns, count, arguments));
	return 0;
}
