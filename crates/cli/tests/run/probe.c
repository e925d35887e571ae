// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Calls a program may make, one pattern per name. Prints what each gave, so
 * that a run with the library can be held against one without.
 *
 *   probe PATTERN DIRECTORY
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "probe.h"

enum { PAGE = 4096, PAGES = 64, THREADS = 8 };

static char *page; /* aligned for direct I/O */

static char *path_of(const char *name)
{
	char *path;

	if (asprintf(&path, "%s/%s", directory, name) < 0)
		die("asprintf");
	return path;
}

static void fill(char byte)
{
	memset(page, byte, PAGE);
}

/* What a page of the file holds: its bytes are all the same, or 0. */
static int holds(int fd, int index)
{
	if (pread(fd, page, PAGE, (off_t)index * PAGE) != PAGE)
		return -1;
	for (int i = 1; i < PAGE; i++)
		if (page[i] != page[0])
			return -2;
	return page[0];
}

static void plain(void)
{
	struct iovec two[2] = { { page, 100 }, { page + 100, 200 } };
	int fd = open_file("plain", O_RDWR);

	fill('a');
	SHOW(write(fd, page, 1000));
	SHOW(writev(fd, two, 2));
	SHOW(pwrite(fd, page, PAGE, 5000));
	SHOW(pwritev(fd, two, 2, 20000));
	SHOW(pwritev2(fd, two, 2, -1, 0));
	SHOW(lseek(fd, 0, SEEK_CUR));
	SHOW(fdatasync(fd));
	SHOW(lseek(fd, 0, SEEK_SET));
	SHOW(read(fd, page, 10));
	SHOW(readv(fd, two, 2));
	SHOW(pread(fd, page, PAGE, 19000)); /* short: the file ends */
	SHOW(pread(fd, page, PAGE, 30000)); /* behind the end */
	SHOW(preadv(fd, two, 2, 0));
	SHOW(preadv2(fd, two, 2, -1, 0));
	SHOW(preadv2(fd, two, 2, 0, RWF_NOWAIT) > 0);
	SHOW(lseek(fd, 0, SEEK_CUR));
	SHOW(ftruncate(fd, 100));
	SHOW(pread(fd, page, PAGE, 0));
	SHOW(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 50) <= 0);
	SHOW(pread(fd, page, PAGE, 0));
	SHOW(fsync(fd));
	SHOW(close(fd));
}

/* The pieces are not there, or the last one is not. */
static void vectored_nowhere(int fd)
{
	int direct = open_file("wrong_direct", O_RDWR | O_DIRECT);
	char *two = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct iovec *last;

	check(two != MAP_FAILED && munmap(two + PAGE, PAGE) == 0, "mmap");
	last = (struct iovec *)(two + PAGE) - 1;
	*last = (struct iovec){ page, PAGE };
	for (int i = 0; i < 2; i++, fd = direct) {
		struct iovec *const places[] = { last, last + 1, (struct iovec *)8 };

		for (int each = 0; each < 3; each++) {
			SHOW(readv(fd, places[each], 2));
			SHOW(writev(fd, places[each], 2));
			SHOW(preadv(fd, places[each], 2, 0));
			SHOW(pwritev(fd, places[each], 2, 0));
			SHOW(preadv2(fd, places[each], 2, 0, 0));
			SHOW(pwritev2(fd, places[each], 2, 0, 0));
		}
		SHOW(pwritev(fd, last, 1, 0));
		SHOW(preadv(fd, last, 1, 0));
	}
}

static void wrong(void)
{
	int fd = open_file("wrong", O_RDWR);
	int reads = open_file("wrong", O_RDONLY);
	struct iovec none = { page, 10 };
	/* What the compiler must not know. */
	volatile int minus = -1, many = 5000;
	char *volatile nowhere = NULL;

	SHOW(write(fd, page, 10));
	SHOW(pread(-1, page, 1, 0));
	SHOW(pread(fd, page, 1, minus));
	SHOW(pread(fd, nowhere, 1, 0));
	SHOW(pread(fd, page, 0, 0));
	SHOW(readv(fd, &none, minus));
	SHOW(readv(fd, &none, many));
	vectored_nowhere(fd);
	SHOW(write(reads, page, 1));
	SHOW(pwrite(reads, page, 1, 0));
	SHOW(fsync(-1));
	SHOW(fdatasync(99999));
	SHOW(close(reads));
	SHOW(pread(reads, page, 1, 0));
	SHOW(open(path_of("no/such"), O_RDONLY));
	SHOW(close(-1));
	SHOW(dup2(-1, 7));
}

static void direct(void)
{
	int fd = open_file("direct", O_RDWR | O_DIRECT);

	for (int i = 0; i < 4; i++) {
		fill('a' + i);
		SHOW(pwrite(fd, page, PAGE, i * PAGE));
	}
	SHOW(pread(fd, page, PAGE, PAGE));
	SHOW(pread(fd, page + 1, PAGE, 0));
	SHOW(pread(fd, page, 100, 0));
	SHOW(pwrite(fd, page, PAGE, 1));
	SHOW(pread(fd, page, PAGE, 3 * PAGE));
	SHOW(pread(fd, page, PAGE, 4 * PAGE));
	SHOW(fsync(fd));
	for (int i = 0; i < 4; i++)
		SHOW(holds(fd, i));
	SHOW(fcntl(fd, F_SETFL, 0));
	SHOW(pread(fd, page, 100, 10));
	SHOW(fcntl(fd, F_SETFL, O_DIRECT));
	SHOW(pread(fd, page, 100, 10));
}

static volatile int over;

/* Somebody waits for the disk. */
static void *wait_for_disk(void *unused)
{
	int fd = open_file("waiting", O_RDWR | O_DIRECT);
	char *other;

	(void)unused;
	if (posix_memalign((void **)&other, PAGE, PAGE))
		die("posix_memalign");
	memset(other, 'w', PAGE);
	while (!over)
		if (pwrite(fd, other, PAGE, 0) != PAGE)
			die("pwrite");
	free(other);
	close(fd);
	return NULL;
}

/* Reads of many pages at once, beside it: whole, short, behind the end, skewed. */
static void large(void)
{
	enum { LARGE = 1 << 20, LONG = LARGE + 3 * PAGE };
	int fd = open_file("large", O_RDWR | O_DIRECT);
	pthread_t waiting;
	char *memory, *half;
	long wrong = 0;

	if (posix_memalign((void **)&memory, PAGE, LONG))
		die("posix_memalign");
	for (int i = 0; i < LONG; i++)
		memory[i] = (char)(i / 512 % 251);
	SHOW(pwrite(fd, memory, LONG, 0));
	if (pthread_create(&waiting, NULL, wait_for_disk, NULL))
		die("pthread_create");
	usleep(20000);
	for (int i = 0; i < 8; i++) {
		memset(memory, 0xee, LONG);
		wrong += pread(fd, memory, LONG, 0) != LONG;
		for (int j = 0; j < LONG; j++)
			wrong += memory[j] != (char)(j / 512 % 251);
	}
	SHOW(wrong);
	SHOW(pread(fd, memory, LONG, LARGE));
	SHOW(pread(fd, memory, LONG, 2 * LARGE));
	SHOW(pread(fd, memory + 1, LARGE, 0));
	SHOW(pread(fd, memory, LARGE, -1));
	SHOW(pread(fd, memory, LARGE, 1));
	SHOW(pread(fd, memory, LARGE - 100, 0));
	/* Only its first half is there. */
	half = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	check(half != MAP_FAILED && !mprotect(half + LARGE / 2, LARGE / 2, PROT_NONE), "mprotect");
	SHOW(pread(fd, half, LARGE, 0));
	SHOW(pread(open_file("large", O_RDONLY), half, LARGE, 0));
	over = 1;
	pthread_join(waiting, NULL);
	free(memory);
}

static void append(void)
{
	int fd = open_file("append", O_RDWR | O_APPEND | O_DSYNC);

	for (int i = 0; i < 5; i++)
		SHOW(write(fd, page, 100));
	SHOW(lseek(fd, 0, SEEK_END));
	SHOW(pwrite(fd, page, 10, 0)); /* O_APPEND: at the end (pwrite(2)) */
	SHOW(lseek(fd, 0, SEEK_END));
}

static void descriptors(void)
{
	int one = open_file("one", O_RDWR), two = open_file("two", O_RDWR), pair[2], copy;
	char byte = 'p';

	fill('1');
	SHOW(pwrite(one, page, PAGE, 0));
	fill('2');
	SHOW(pwrite(two, page, PAGE, 0));
	SHOW(dup2(two, one) == one);
	SHOW(holds(one, 0));
	copy = dup(one);
	SHOW(close(one));
	SHOW(holds(copy, 0));
	/* The number goes to a pipe, and back to a file. */
	SHOW(close(copy));
	if (pipe(pair))
		die("pipe");
	SHOW(write(pair[1], &byte, 1));
	SHOW(read(pair[0], &byte, 1));
	SHOW(pread(pair[0], &byte, 1, 0));
	SHOW(close_range(pair[0], pair[1], 0));
	one = open_file("one", O_RDONLY);
	SHOW(holds(one, 0));
}

static void passed(void)
{
	int pair[2], fd = open_file("passed", O_RDWR);
	char byte = 'x';
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct iovec piece = { &byte, 1 };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1,
				  .msg_control = &control, .msg_controllen = sizeof(control) };

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		die("socketpair");
	control.header.cmsg_level = SOL_SOCKET;
	control.header.cmsg_type = SCM_RIGHTS;
	control.header.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.header), &fd, sizeof(fd));
	SHOW(sendmsg(pair[0], &message, 0));
	SHOW(close(fd));
	SHOW(recvmsg(pair[1], &message, 0));
	memcpy(&fd, CMSG_DATA(&control.header), sizeof(fd));
	fill('q');
	SHOW(pwrite(fd, page, PAGE, 0));
	SHOW(holds(fd, 0));
	SHOW(fsync(fd));
}

static void child_writes(int fd, char byte)
{
	fill(byte);
	_exit(pwrite(fd, page, PAGE, 0) == PAGE && fsync(fd) == 0 ? 0 : 1);
}

static void forked(void)
{
	int fd = open_file("forked", O_RDWR), status;

	fill('0');
	SHOW(pwrite(fd, page, PAGE, 0));
	SHOW(fsync(fd));
	for (int i = 1; i <= 4; i++) {
		pid_t child = fork();

		if (child == 0)
			child_writes(fd, '0' + i);
		if (waitpid(child, &status, 0) != child)
			die("waitpid");
		SHOW(WEXITSTATUS(status));
		SHOW(holds(fd, 0));
	}
	pid_t child = vfork();
	if (child == 0) {
		execl("/bin/sh", "sh", "-c", "exit 9", NULL);
		_exit(1);
	}
	waitpid(child, &status, 0);
	SHOW(WEXITSTATUS(status));
	SHOW(fsync(fd));
}

static int cloned_main(void *fd)
{
	fill('c');
	return pwrite(*(int *)fd, page, PAGE, 0) == PAGE && fdatasync(*(int *)fd) == 0 ? 5 : 6;
}

static void cloned(void)
{
	int fd = open_file("cloned", O_RDWR), status;
	char *stack = malloc(1 << 16);

	SHOW(pwrite(fd, page, PAGE, 0));
	pid_t child = clone(cloned_main, stack + (1 << 16), SIGCHLD, &fd);
	if (child < 0 || waitpid(child, &status, 0) != child)
		die("clone");
	SHOW(WEXITSTATUS(status));
	SHOW(holds(fd, 0));
}

static int shared;

static void *thread_main(void *number)
{
	long mine = (long)number;
	char *own;

	if (posix_memalign((void **)&own, PAGE, PAGE))
		return (void *)1;
	for (int i = (int)mine; i < PAGES; i += THREADS) {
		memset(own, 'A' + i % 26, PAGE);
		if (pwrite(shared, own, PAGE, (off_t)i * PAGE) != PAGE)
			return (void *)2;
		if (pread(shared, own, PAGE, (off_t)i * PAGE) != PAGE || own[7] != 'A' + i % 26)
			return (void *)3;
		if (i % 8 == 0 && fdatasync(shared))
			return (void *)4;
	}
	free(own);
	return NULL;
}

static void threads(void)
{
	pthread_t all[THREADS];
	void *result;

	shared = open_file("threads", O_RDWR | O_DIRECT);
	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&all[i], NULL, thread_main, (void *)i))
			die("pthread_create");
	for (int i = 0; i < THREADS; i++) {
		pthread_join(all[i], &result);
		SHOW((long)result);
	}
	for (int i = 0; i < PAGES; i++)
		SHOW(holds(shared, i));
}

static void *endless(void *unused)
{
	(void)unused;
	for (;;)
		if (pread(shared, page, PAGE, 0) != PAGE)
			return NULL;
}

static void cancelled(void)
{
	pthread_t thread;
	void *result;

	shared = open_file("cancelled", O_RDWR | O_DIRECT);
	SHOW(pwrite(shared, page, PAGE, 0));
	for (int i = 0; i < 20; i++) {
		if (pthread_create(&thread, NULL, endless, NULL))
			die("pthread_create");
		usleep(1000 * (i % 4));
		SHOW(pthread_cancel(thread));
		pthread_join(thread, &result);
		SHOW(result == PTHREAD_CANCELED);
	}
	SHOW(holds(shared, 0) >= 0);
}

static volatile int rang;
static int bell;

static void ring(int signal)
{
	int saved = errno;

	(void)signal;
	rang++;
	if (pwrite(bell, "!", 1, rang % 10) != 1)
		_exit(4);
	errno = saved;
}

static void signals(void)
{
	struct sigaction action = { .sa_handler = ring };
	struct itimerval often = { { 0, 500 }, { 0, 500 } }, never = { { 0, 0 }, { 0, 0 } };
	int fd = open_file("signals", O_RDWR | O_DIRECT), wrong_ones = 0;

	bell = open_file("bell", O_RDWR | O_DSYNC);
	fill('s');
	SHOW(pwrite(fd, page, PAGE, 0));
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 300 || rang < 20; i++)
		wrong_ones += pread(fd, page, PAGE, 0) != PAGE || page[9] != 's';
	setitimer(ITIMER_REAL, &never, NULL);
	SHOW(wrong_ones);
}

static sigjmp_buf way_out;
static volatile sig_atomic_t may_jump;

static void jump(int signal)
{
	(void)signal;
	if (may_jump) {
		may_jump = 0;
		siglongjmp(way_out, 1);
	}
}

/* Calls that take too long are left by a jump, more often than there are places for requests. */
static void jumped(void)
{
	struct sigaction action = { .sa_handler = jump };
	struct itimerval never = { { 0, 0 }, { 0, 0 } };
	int fd = open_file("jumped", O_RDWR | O_DIRECT), state = -1;
	volatile int left = 0, wrong_ones = 0;

	fill('j');
	SHOW(pwrite(fd, page, PAGE, 0));
	sigaction(SIGALRM, &action, NULL);
	for (volatile int i = 0; left < 3000; i++) {
		struct itimerval soon = { { 0, 0 }, { 0, 20 + i % 150 } };

		if (sigsetjmp(way_out, 1)) {
			left++;
			continue;
		}
		may_jump = 1;
		setitimer(ITIMER_REAL, &soon, NULL);
		for (int again = 0; again < 8; again++)
			wrong_ones += pread(fd, page, PAGE, 0) != PAGE;
		may_jump = 0;
		setitimer(ITIMER_REAL, &never, NULL);
	}
	SHOW(wrong_ones);
	/* A thread that was left so can be cancelled as before. */
	SHOW_RESULT(pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &state));
	SHOW(state == PTHREAD_CANCEL_ENABLE);
	for (int i = 0; i < 2000; i++)
		wrong_ones += pread(fd, page, PAGE, 0) != PAGE;
	SHOW(wrong_ones);
}

/* What a child may do that has its parent's memory until it executes its program. */
static void vforked(void)
{
	int fd = open_file("vforked", O_RDWR | O_DIRECT), status;

	for (int i = 0; i < 10; i++) {
		pid_t child = vfork();

		if (child == 0) {
			if (pwrite(fd, page, PAGE, i * PAGE) != PAGE || fdatasync(fd))
				_exit(1);
			close_and_execute(fd);
		}
		if (child < 0 || waitpid(child, &status, 0) != child)
			die("vfork");
		SHOW(status);
		SHOW(pwrite(fd, page, PAGE, (10 + i) * PAGE));
		SHOW(fdatasync(fd));
	}
	SHOW(holds(fd, 19));
}

/* A process that may only read, write and end, from then on. */
static void confined(void)
{
	int fd = open_file("confined", O_RDWR), status;
	pid_t child = fork();

	if (child == 0) {
		if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
			syscall(SYS_exit, 1);
		if (write(fd, page, PAGE) != PAGE || read(fd, page, PAGE) != 0)
			syscall(SYS_exit, 2);
		syscall(SYS_exit, 0);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		die("fork");
	SHOW(status);
	SHOW(holds(fd, 0));
}

/* A program that another one executes after it has taken system calls away from itself. */
static void sandboxed(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(filter) / sizeof(filter[0]), filter };
	int status;
	pid_t child = fork();

	if (child == 0) {
		if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
		    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
			_exit(1);
		execl("/proc/self/exe", "probe", "append", directory, NULL);
		_exit(2);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		die("fork");
	SHOW_RESULT(status);
}

/* Every file that the stream's descriptor may be goes to the disk. */
static void sync_often(FILE *stream)
{
	for (int i = 0; i < 10; i++)
		SHOW(fputc('s', stream) == EOF || fflush(stream) || fdatasync(fileno(stream)));
}

/* What the C library opens and closes by itself, whose numbers go from one to the next. */
static void streams(void)
{
	DIR *folder = opendir(directory);
	int number = dirfd(folder), pair[2];
	char bytes[8];
	FILE *stream;

	SHOW(fsync(number));
	SHOW(closedir(folder));
	stream = fopen(path_of("stream"), "w");
	SHOW(fileno(stream) == number);
	sync_often(stream);
	SHOW(fclose(stream));

	stream = fdopen(open_file("direct", O_RDWR | O_DIRECT), "r+");
	SHOW(fileno(stream) == number);
	SHOW(pwrite(number, page, PAGE, 0));
	SHOW(fclose(stream));
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
		die("socketpair");
	SHOW(pair[0] == number);
	SHOW(write(pair[1], "hello", 5));
	SHOW(read(number, bytes, sizeof(bytes)));
	SHOW(fsync(number));

	SHOW(syscall(SYS_close, number));
	stream = fopen("/dev/null", "w");
	SHOW(fileno(stream) == number);
	SHOW(fsync(number));
	stream = freopen(path_of("again"), "w", stream);
	SHOW(fileno(stream) == number);
	sync_often(stream);
	SHOW(fclose(stream));

	stream = popen("echo hello", "r");
	SHOW(fileno(stream) == number);
	SHOW(read(number, bytes, sizeof(bytes)));
	SHOW(pclose(stream));
	stream = fopen(path_of("last"), "w");
	SHOW(fileno(stream) == number);
	sync_often(stream);
	errno = 0;
	fclose(fmemopen(bytes, sizeof(bytes), "r"));
	printf("errno %d\n", errno);
}

/* The first request comes when the process can open nothing; later it can. */
static void crowded(void)
{
	struct rlimit few = { 64, 64 };
	int first = -1, last = -1, fd;

	if (setrlimit(RLIMIT_NOFILE, &few))
		die("setrlimit");
	while ((fd = open(path_of("crowded"), O_RDWR | O_CREAT | O_DSYNC, 0600)) >= 0) {
		first = first < 0 ? fd : first;
		last = fd;
	}
	SHOW(pwrite(last, page, PAGE, 0));
	while (first < last)
		close(first++);
	usleep(1200000);
	for (int i = 0; i < 50; i++)
		SHOW(pwrite(last, page, PAGE, i * PAGE));
}

/* The first request comes when another process says so, and the rest when it says so again. */
static void late(void)
{
	char *go = path_of("go");
	int fd;

	close(open_file("there", O_WRONLY));
	while (access(go, F_OK))
		usleep(1000);
	fd = open_file("late", O_RDWR | O_DSYNC);
	SHOW(pwrite(fd, page, PAGE, 0));
	close(open_file("begun", O_WRONLY));
	while (access(go, F_OK) == 0)
		usleep(1000);
	for (int i = 0; i < 400; i++) {
		SHOW(pwrite(fd, page, PAGE, i * PAGE));
		usleep(10000);
	}
}

/*
 * A daemon closes standard error, and a file of its data gets the number. It goes on when another
 * process says so.
 */
static void displaced(void)
{
	int fd;

	close(STDERR_FILENO);
	fd = open_file("displaced", O_RDWR | O_DSYNC);
	SHOW(fd);
	SHOW(pwrite(fd, page, PAGE, 0));
	close(open_file("begun", O_WRONLY));
	while (access(path_of("go"), F_OK))
		usleep(1000);
	for (int i = 0; i < 20; i++)
		SHOW(pwrite(fd, page, PAGE, i * PAGE));
	close(open_file("ended", O_WRONLY));
}

/* Processes that come and go by the thousand, some hundreds of them at a time. */
static void many(void)
{
	enum { PROCESSES = 6000, AT_A_TIME = 900 };
	int fd = open_file("many", O_RDWR | O_DSYNC), status, failed = 0;

	for (int i = 0; i < PROCESSES + AT_A_TIME; i++) {
		pid_t child = i < PROCESSES ? fork() : 1;

		if (child < 0)
			die("fork");
		if (child == 0)
			_exit(pwrite(fd, page, 512, 0) != 512);
		if (i >= AT_A_TIME)
			failed += wait(&status) < 0 || status != 0;
	}
	SHOW_RESULT(failed);
}

static void interrupt(int signal)
{
	(void)signal;
}

/* Processes that a timer interrupts all the while, also when they come. */
static void interrupted(void)
{
	struct sigaction action = { .sa_handler = interrupt, .sa_flags = SA_RESTART };
	struct itimerval often = { { 0, 30 }, { 0, 30 } };
	int status, failed = 0;

	sigaction(SIGALRM, &action, NULL);
	for (int i = 0; i < 100; i++) {
		int fd = open_file("interrupted", O_RDWR | O_DSYNC);
		pid_t child = fork();

		if (child == 0) {
			setitimer(ITIMER_REAL, &often, NULL);
			for (int again = 0; again < 3; again++)
				if (pwrite(fd, page, PAGE, i * PAGE) != PAGE)
					_exit(1);
			_exit(0);
		}
		if (child < 0 || waitpid(child, &status, 0) != child)
			die("fork");
		failed += status != 0;
		close(fd);
	}
	SHOW_RESULT(failed);
}

static const struct pattern patterns[] = {
	{ "plain", plain },	    { "wrong", wrong },	      { "direct", direct }, { "large", large },
	{ "append", append },	    { "descriptors", descriptors }, { "passed", passed },
	{ "forked", forked },	    { "cloned", cloned },     { "threads", threads },
	{ "cancelled", cancelled }, { "signals", signals },   { "jumped", jumped },
	{ "vforked", vforked },	    { "confined", confined }, { "sandboxed", sandboxed },
	{ "streams", streams },	    { "crowded", crowded },   { "interrupted", interrupted },
	{ "late", late },	    { "many", many },		      { "displaced", displaced },
};

int main(int count, char **arguments)
{
	const struct pattern *pattern = FIND_PATTERN(patterns, count, arguments);

	page = aligned(2 * PAGE);
	memset(page, 'z', 2 * PAGE);
	pattern->run();
	return 0;
}
