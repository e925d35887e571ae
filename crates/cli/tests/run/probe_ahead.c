// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A file like one of InnoDB's, of which leaf after leaf is read in the order of
 * its branch page, and which is changed in one way per name just before the next
 * leaves are read. Prints what was read. What was read ahead must never show.
 *
 *   probe_ahead WAY DIRECTORY
 */
#define _GNU_SOURCE
#include <aio.h>
#include <linux/aio_abi.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sched.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "probe.h"

enum { PAGE = 16384, LEAVES = 401, FIRST_LEAF = 2, CHANGED = 3, BEFORE = 60, PASSES = 4 };

extern char **environ;
static char path[4096], self[4096];
static char *buffer;

static void put2(char *page, int at, unsigned value)
{
	page[at] = (char)(value >> 8);
	page[at + 1] = (char)value;
}

static void put4(char *page, int at, uint32_t value)
{
	put2(page, at, value >> 16);
	put2(page, at + 2, value & 0xffff);
}

static char *new_page(void)
{
	return aligned(PAGE);
}

/* The leaf at a place in the order: another order than that of the file. */
static uint32_t leaf_at(int place)
{
	return FIRST_LEAF + (uint32_t)(place * 53 % LEAVES);
}

static void head(char *page, uint32_t number, uint32_t next, unsigned level)
{
	memset(page, 0, 120);
	put4(page, 4, number);
	put4(page, 8, 0xffffffff);
	put4(page, 12, next);
	put2(page, 24, 17855);
	put4(page, 34, 9);
	put2(page, 42, 0x8002);
	put2(page, 64, level);
	page[73] = 77;
}

/* Every byte behind the head is the version. */
static void make_leaf(char *page, int place, int version)
{
	memset(page, version, PAGE);
	head(page, leaf_at(place), place + 1 < LEAVES ? leaf_at(place + 1) : 0xffffffff, 0);
}

static void make_branch(char *page)
{
	int before = 99, key = 8, size = 5 + key + 4;

	memset(page, 0, PAGE);
	head(page, 1, 0xffffffff, 1);
	for (int place = 0; place < LEAVES; place++) {
		int here = 120 + place * size + 5;

		put2(page, before - 2, (unsigned)(here - before) & 0xffff);
		memset(page + here, 0x80 | place, (size_t)key);
		put4(page, here + key, leaf_at(place));
		before = here;
	}
	put2(page, before - 2, (unsigned)(112 - before) & 0xffff);
	put2(page, 40, (unsigned)(120 + LEAVES * size));
	put2(page, 54, LEAVES);
}

static off_t offset_of(int place)
{
	return (off_t)leaf_at(place) * PAGE;
}

static void write_all(int fd, int version)
{
	make_branch(buffer);
	check(pwrite(fd, buffer, PAGE, PAGE) == PAGE, "pwrite");
	for (int place = 0; place < LEAVES; place++) {
		make_leaf(buffer, place, version);
		check(pwrite(fd, buffer, PAGE, offset_of(place)) == PAGE, "pwrite");
	}
}

static int open_pages(void)
{
	int fd = open(path, O_RDWR | O_CREAT | O_DIRECT, 0600);

	check(fd >= 0, path);
	return fd;
}

/* The version of all of a leaf; -1 if it has several, -2 if there is none. */
static int version_at(int fd, int place)
{
	ssize_t got = pread(fd, buffer, PAGE, offset_of(place));

	if (got != PAGE)
		return -2;
	for (int at = 120; at < PAGE; at++)
		if (buffer[at] != buffer[PAGE - 1])
			return -1;
	return buffer[PAGE - 1];
}

static void nap(long ms)
{
	struct timespec time = { 0, ms * 1000000 };

	nanosleep(&time, NULL);
}

/* Reads leaves in their order, slowly enough that the next are read ahead. */
static void scan(int fd, int from, int to)
{
	for (int place = from; place < to; place++) {
		if (version_at(fd, place) != 1)
			die("a leaf is not as it was written");
		if (place % 4 == 0)
			nap(1);
	}
	nap(20);
}

static void show(int fd, int from)
{
	for (int place = from; place < from + CHANGED; place++)
		printf("leaf %d: version %d\n", place, version_at(fd, place));
}

static void change_by(int fd, int from, ssize_t (*change)(int, void *, size_t, off_t))
{
	char *page = new_page();

	for (int place = from; place < from + CHANGED; place++) {
		make_leaf(page, place, 2);
		check(change(fd, page, PAGE, offset_of(place)) == PAGE, "change");
	}
	free(page);
}

static ssize_t by_pwrite(int fd, void *page, size_t size, off_t offset)
{
	return pwrite(fd, page, size, offset);
}

static ssize_t by_pwritev(int fd, void *page, size_t size, off_t offset)
{
	struct iovec pieces[2] = { { page, 4096 }, { (char *)page + 4096, size - 4096 } };

	return pwritev(fd, pieces, 2, offset);
}

/* In one call that must not wait, with the 8 pages before it: more than one granule. */
static ssize_t by_no_wait(int fd, void *page, size_t size, off_t offset)
{
	enum { MANY = 9 };
	char *all = aligned(MANY * PAGE);
	struct iovec piece = { all, MANY * PAGE };
	int number = (int)(offset / PAGE), first = number - MANY + 1;

	check(first >= FIRST_LEAF, "a leaf with so many before it");
	for (int place = 0; place < LEAVES; place++) {
		int at = (int)leaf_at(place) - first;

		if (at >= 0 && at < MANY)
			make_leaf(all + at * PAGE, place, at == MANY - 1 ? 2 : 1);
	}
	/* Not all kernels and file systems do that. */
	if (pwritev2(fd, &piece, 1, (off_t)first * PAGE, RWF_NOWAIT) != MANY * PAGE)
		check(pwrite(fd, page, size, offset) == (ssize_t)size, "pwrite");
	free(all);
	return (ssize_t)size;
}

static ssize_t by_write(int fd, void *page, size_t size, off_t offset)
{
	lseek(fd, offset, SEEK_SET);
	return write(fd, page, size);
}

static ssize_t by_number(int fd, void *page, size_t size, off_t offset)
{
	return syscall(SYS_pwrite64, fd, page, size, offset);
}

static ssize_t by_aio(int fd, void *page, size_t size, off_t offset)
{
	static aio_context_t context;
	struct iocb block = { 0 }, *list[1] = { &block };
	struct io_event event;

	if (!context)
		check(!syscall(SYS_io_setup, 4, &context), "io_setup");
	block.aio_fildes = (uint32_t)fd;
	block.aio_lio_opcode = IOCB_CMD_PWRITE;
	block.aio_buf = (uintptr_t)page;
	block.aio_nbytes = size;
	block.aio_offset = offset;
	check(syscall(SYS_io_submit, context, 1, list) == 1, "io_submit");
	check(syscall(SYS_io_getevents, context, 1, 1, &event, NULL) == 1, "io_getevents");
	return (ssize_t)event.res;
}

/* Through the page cache: nobody sees the end. Of another file: this one is still read ahead. */
static void write_other_by_aio(void)
{
	char other[sizeof(path) + 8];
	int fd;

	snprintf(other, sizeof(other), "%s.other", path);
	fd = open(other, O_RDWR | O_CREAT, 0600);
	check(fd >= 0 && by_aio(fd, buffer, PAGE, 0) == PAGE, "a write to another file");
}

/* A thread of the C library does it. */
static ssize_t by_posix_aio(int fd, void *page, size_t size, off_t offset)
{
	struct aiocb block = { .aio_fildes = fd, .aio_buf = page, .aio_nbytes = size, .aio_offset = offset };

	check(!aio_write(&block), "aio_write");
	while (aio_error(&block) == EINPROGRESS)
		nap(1);
	return aio_return(&block);
}

static ssize_t by_list_of_posix_aio(int fd, void *page, size_t size, off_t offset)
{
	struct aiocb block = { .aio_fildes = fd, .aio_buf = page, .aio_nbytes = size, .aio_offset = offset,
			       .aio_lio_opcode = LIO_WRITE };
	struct aiocb *list[1] = { &block };

	check(!lio_listio(LIO_WAIT, list, 1, NULL), "lio_listio");
	return aio_return(&block);
}

/* From memory that is not there, or ends in the middle of a branch page. */
static ssize_t by_aio_from_nowhere(int fd, void *page, size_t size, off_t offset)
{
	char *part = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(part != MAP_FAILED && !munmap(part + 4096, 2 * size - 4096), "mmap");
	make_branch(page);
	memcpy(part, page, 4096);
	check(by_aio(fd, part, size, PAGE) == -EFAULT, "a write of a part");
	check(by_aio(fd, (char *)4096, size, offset) == -EFAULT, "a write of nothing");
	return (ssize_t)size;
}

/* Into memory that is not there, is there in part, or must not be written. */
static void into_nowhere(int fd, int from)
{
	char *part = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *fixed = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *where[] = { (char *)4096, part, fixed };

	check(part != MAP_FAILED && fixed != MAP_FAILED && !munmap(part + 4096, 2 * PAGE - 4096), "mmap");
	for (int place = from; place < from + CHANGED; place++)
		for (size_t i = 0; i < sizeof(where) / sizeof(*where); i++) {
			ssize_t got = pread(fd, where[i], PAGE, offset_of(place));

			printf("leaf %d into nowhere: %zd %d\n", place, got, got < 0 ? errno : 0);
		}
}

static ssize_t by_stdio(int fd, void *page, size_t size, off_t offset)
{
	FILE *file = fopen(path, "r+");
	size_t written;

	(void)fd;
	check(file != NULL, "fopen");
	fseek(file, offset, SEEK_SET);
	written = fwrite(page, 1, size, file);
	fclose(file);
	return (ssize_t)written;
}

static ssize_t by_other(int fd, void *page, size_t size, off_t offset)
{
	int other = open(path, O_WRONLY);
	ssize_t written = pwrite(other, page, size, offset);

	(void)fd;
	close(other);
	return written;
}

static ssize_t by_map(int fd, void *page, size_t size, off_t offset)
{
	char *map = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);

	check(map != MAP_FAILED, "mmap");
	memcpy(map, page, size);
	munmap(map, size);
	return (ssize_t)size;
}

static ssize_t by_copy(int fd, void *page, size_t size, off_t offset)
{
	FILE *from = tmpfile();
	off_t start = 0;
	ssize_t copied;

	check(fwrite(page, 1, size, from) == size && !fflush(from), "fwrite");
	copied = copy_file_range(fileno(from), &start, fd, &offset, size, 0);
	/* Between file systems, not all kernels do that. */
	if (copied < 0)
		copied = pwrite(fd, page, size, offset);
	fclose(from);
	return copied;
}

/* Ways of beginning a program that inherits the file, some of them one that is otherwise closed. */
static void inherited(const char *how, int fd, int from)
{
	char place[16], number[16], text[3 * sizeof(path)];
	char *const words[] = { self, "other-inherits", number, place, NULL };
	int status, has_other = !strcmp(how, "inherited_otherwise");
	posix_spawn_file_actions_t actions;
	pid_t child;
	FILE *pipe;

	snprintf(number, sizeof(number), "%d", has_other ? 77 : fd);
	snprintf(place, sizeof(place), "%d", from);
	snprintf(text, sizeof(text), "%s other-inherits %s %s", self, number, place);
	if (!strcmp(how, "inherited_by_system")) {
		check(system(text) == 0, "system");
		return;
	}
	if (!strcmp(how, "inherited_by_popen")) {
		pipe = popen(text, "r");
		check(pipe && pclose(pipe) == 0, "popen");
		return;
	}
	posix_spawn_file_actions_init(&actions);
	if (has_other) {
		check(!fcntl(fd, F_SETFD, FD_CLOEXEC), "fcntl");
		posix_spawn_file_actions_adddup2(&actions, fd, 77);
	}
	if (!strcmp(how, "inherited_by_vfork")) {
		check(!fcntl(fd, F_SETFD, FD_CLOEXEC), "fcntl");
		child = vfork();
		if (child == 0) {
			fcntl(fd, F_SETFD, 0);
			execv(self, words);
			_exit(1);
		}
	} else
		check(!posix_spawn(&child, self, &actions, NULL, words, environ), "posix_spawn");
	posix_spawn_file_actions_destroy(&actions);
	check(waitpid(child, &status, 0) == child && status == 0, "the other process");
}

/* What another process does: this program with another name of a way. */
static void spawn(const char *way, int from)
{
	char place[16];
	char *const words[] = { self, (char *)way, path, place, NULL };
	int status;
	pid_t child;

	snprintf(place, sizeof(place), "%d", from);
	check(!posix_spawn(&child, self, NULL, NULL, words, environ), "posix_spawn");
	check(waitpid(child, &status, 0) == child && status == 0, "the other process");
}

static void other_process(const char *way, int from)
{
	if (!strcmp(way, "other-inherits"))
		change_by(atoi(path), from, by_pwrite);
	else if (!strcmp(way, "other-writes"))
		change_by(open_pages(), from, by_pwrite);
	else if (!strcmp(way, "other-truncates"))
		check(!truncate(path, PAGE) && !truncate(path, (off_t)PAGE * (FIRST_LEAF + LEAVES)), "truncate");
	else
		exit(4);
	exit(0);
}

static int child_of_clone(void *from)
{
	int fd = 3;

	change_by(fd, *(int *)from, by_pwrite);
	_exit(0);
}

static pid_t early;
static int go[2];

/* A child that changes the file when the pipe is closed. */
static void fork_early(int fd, int from)
{
	char byte;

	check(!pipe(go), "pipe");
	early = fork();
	if (early)
		return;
	close(go[1]);
	if (read(go[0], &byte, 1) == 0)
		change_by(fd, from, by_pwrite);
	_exit(0);
}

static void forked(int fd, int from)
{
	int status;

	if (!early)
		fork_early(fd, from);
	close(go[1]);
	check(waitpid(early, &status, 0) == early && status == 0, "the child");
}

static void cloned(int fd, int from)
{
	static char stack[1 << 16] __attribute__((aligned(16)));
	int status;
	pid_t child;

	check(dup2(fd, 3) == 3, "dup2");
	child = clone(child_of_clone, stack + sizeof(stack), SIGCHLD, &from);
	check(child > 0 && waitpid(child, &status, 0) == child && status == 0, "the child");
}

/* A thread stands for the process that the descriptor is sent to. */
static void sent(int fd, int from)
{
	char control[CMSG_SPACE(sizeof(int))] = { 0 }, byte = 'x';
	struct iovec piece = { &byte, 1 };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);
	int ends[2], got;

	check(!socketpair(AF_UNIX, SOCK_STREAM, 0, ends), "socketpair");
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(int));
	check(sendmsg(ends[0], &message, 0) == 1, "sendmsg");
	check(recvmsg(ends[1], &message, 0) == 1, "recvmsg");
	memcpy(&got, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
	change_by(got, from, by_pwrite);
}

static int reopened(int fd, int from)
{
	close(fd);
	spawn("other-writes", from);
	return open_pages();
}

static void cut(int fd)
{
	check(!ftruncate(fd, PAGE), "ftruncate");
	check(!ftruncate(fd, (off_t)PAGE * (FIRST_LEAF + LEAVES)), "ftruncate");
}

static void punched(int fd, int from)
{
	for (int place = from; place < from + CHANGED; place++)
		check(!fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset_of(place), PAGE), "fallocate");
}

/* As before there was fallocate(2); `struct space_resv` and the command are of the kernel alone. */
static void zeroed(int fd, int from)
{
	struct {
		int16_t type, whence;
		int64_t start, length;
		uint32_t more[6];
	} space = { .length = PAGE };

	for (int place = from; place < from + CHANGED; place++) {
		space.start = offset_of(place);
		/* Not all file systems do that. */
		if (ioctl(fd, _IOW('X', 57, space), &space))
			check(!fallocate(fd, FALLOC_FL_ZERO_RANGE, space.start, PAGE), "fallocate");
	}
}

/* What readers and writers agree on: a page has a lock and a version. */
static pthread_mutex_t locks[LEAVES];
static int versions[LEAVES];
static atomic_int over, wrong;
static int shared_fd;

struct writer {
	uint32_t seed;
	ssize_t (*change)(int, void *, size_t, off_t);
};

static uint32_t draw(uint32_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 17;
	*seed ^= *seed << 5;
	return *seed;
}

static void *write_main(void *argument)
{
	struct writer *writer = argument;
	char *page = new_page();

	while (!over) {
		int place = (int)(draw(&writer->seed) % LEAVES);

		pthread_mutex_lock(&locks[place]);
		make_leaf(page, place, versions[place] % 100 + 1);
		check(writer->change(shared_fd, page, PAGE, offset_of(place)) == PAGE, "write");
		versions[place] = versions[place] % 100 + 1;
		pthread_mutex_unlock(&locks[place]);
		if (draw(&writer->seed) % 8 == 0)
			nap(1);
	}
	return NULL;
}

/* Scans over and over beside writers; counts leaves that are not as written last. */
static void scan_beside_writers(int fd, uint32_t seed)
{
	struct writer writers[2] = { { seed, by_pwrite }, { seed * 7 + 1, by_aio } };
	pthread_t threads[2];

	shared_fd = fd;
	for (int place = 0; place < LEAVES; place++) {
		pthread_mutex_init(&locks[place], NULL);
		versions[place] = 1;
	}
	for (int at = 0; at < 2; at++)
		check(!pthread_create(&threads[at], NULL, write_main, &writers[at]), "pthread_create");
	for (int pass = 0; pass < 50; pass++) {
		int step = 1 + (int)(draw(&seed) % 2);

		for (int place = 0; place < LEAVES; place += step) {
			pthread_mutex_lock(&locks[place]);
			if (version_at(fd, place) != versions[place])
				wrong++;
			pthread_mutex_unlock(&locks[place]);
		}
	}
	over = 1;
	for (int at = 0; at < 2; at++)
		pthread_join(threads[at], NULL);
	printf("%d leaves were wrong\n", wrong);
}

int main(int argc, char **argv)
{
	const char *way = argv[1];
	int fd, from = BEFORE;

	check(argc >= 3 && readlink("/proc/self/exe", self, sizeof(self) - 1) > 0, "usage");
	buffer = new_page();
	if (!strncmp(way, "other-", 6)) {
		snprintf(path, sizeof(path), "%s", argv[2]);
		other_process(way, atoi(argv[3]));
	}
	snprintf(path, sizeof(path), "%s/pages", argv[2]);
	fd = open_pages();
	write_all(fd, 1);
	if (!strcmp(way, "random")) {
		const char *seed = getenv("PROBE_SEED");

		scan_beside_writers(fd, seed ? (uint32_t)strtoul(seed, NULL, 0) | 1 : 1);
		return 0;
	}
	if (!strcmp(way, "buffered_beside"))
		write_other_by_aio();
	if (!strcmp(way, "forked_early"))
		fork_early(fd, from);
	/* Several times: on a busy machine nothing is read ahead yet at first. */
	for (int pass = 0; pass < PASSES; pass++)
		scan(fd, 0, from);
	if (!strcmp(way, "pwrite"))
		change_by(fd, from, by_pwrite);
	else if (!strcmp(way, "pwritev"))
		change_by(fd, from, by_pwritev);
	else if (!strcmp(way, "no_wait"))
		change_by(fd, from, by_no_wait);
	else if (!strcmp(way, "write"))
		change_by(fd, from, by_write);
	else if (!strcmp(way, "number"))
		change_by(fd, from, by_number);
	else if (!strcmp(way, "aio") || !strcmp(way, "buffered_beside"))
		change_by(fd, from, by_aio);
	else if (!strcmp(way, "posix_aio"))
		change_by(fd, from, by_posix_aio);
	else if (!strcmp(way, "list_of_posix_aio"))
		change_by(fd, from, by_list_of_posix_aio);
	else if (!strcmp(way, "aio_from_nowhere"))
		change_by(fd, from, by_aio_from_nowhere);
	else if (!strcmp(way, "into_nowhere"))
		into_nowhere(fd, from);
	else if (!strcmp(way, "stdio"))
		change_by(fd, from, by_stdio);
	else if (!strcmp(way, "other_descriptor"))
		change_by(fd, from, by_other);
	else if (!strcmp(way, "duplicate"))
		change_by(dup(fd), from, by_pwrite);
	else if (!strcmp(way, "mapped"))
		change_by(fd, from, by_map);
	else if (!strcmp(way, "copied"))
		change_by(fd, from, by_copy);
	else if (!strcmp(way, "truncated"))
		cut(fd);
	else if (!strcmp(way, "punched"))
		punched(fd, from);
	else if (!strcmp(way, "zeroed"))
		zeroed(fd, from);
	else if (!strcmp(way, "other_process"))
		spawn("other-writes", from);
	else if (!strcmp(way, "truncated_by_other"))
		spawn("other-truncates", from);
	else if (!strncmp(way, "inherited", 9))
		inherited(way, fd, from);
	else if (!strncmp(way, "forked", 6))
		forked(fd, from);
	else if (!strcmp(way, "cloned"))
		cloned(fd, from);
	else if (!strcmp(way, "sent"))
		sent(fd, from);
	else if (!strcmp(way, "reopened"))
		fd = reopened(fd, from);
	else if (!strcmp(way, "unlinked"))
		check(!unlink(path), "unlink");
	else
		check(0, "no such way");
	show(fd, from);
	return 0;
}
