// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A random course of calls over several files, by a seed: prints what each call gave, so that a run
 * with the library can be held against one without. Where the kernel is free in what it does (the
 * order of completions, what RWF_NOWAIT finds in the page cache), what is printed is not.
 *
 *   probe_random SEED DIRECTORY [STEPS]
 */
#define _GNU_SOURCE
#include <limits.h>
#include <linux/aio_abi.h>
#include <linux/falloc.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "probe.h"

enum {
	SLOTS = 10,
	THREADS = 3,
	STEPS = 120,
	STEPS_OF_CHILD = 8,
	PIECES = 8,
	PIECES_MAX = 1024, /* IOV_MAX */
	PART = 128 << 10, /* of a file, for each thread */
};

/* Names that the rules of several profiles match. */
static const char *const names[] = { "a.ibd", "ib_logfile0", "ibdata1", "b.MYD", "plain", "log" };

enum { NAMES = sizeof(names) / sizeof(names[0]) };

/* What the course uses: files, and what else has a descriptor. */
static int slots[SLOTS];
static int is_child;
static char **own_arguments;

#include "random.h"
#include "random_requests.h"

static int *any_slot(void)
{
	return &slots[below(SLOTS)];
}

static int any_fd(void)
{
	int fd = *any_slot();

	for (int i = 0; fd < 0 && i < 4; i++)
		fd = *any_slot();
	return chance(40) ? (chance(2) ? -1 : 9999) : fd;
}

/* Takes the place of what was there. */
static void put(int fd)
{
	int *slot = any_slot();

	if (fd < 0)
		return;
	if (*slot >= 0)
		SAY("close", close(*slot));
	*slot = fd;
}

static char *path_of(const char *name)
{
	static _Thread_local char paths[2][4096];
	static _Thread_local int turn;
	char *path = paths[turn ^= 1];

	snprintf(path, sizeof(paths[0]), "%s/%s", directory, name);
	return path;
}

static char *any_path(void)
{
	return path_of(names[below(NAMES)]);
}

static void open_one(void)
{
	static const int access[] = { O_RDWR, O_RDWR, O_RDWR, O_RDONLY, O_WRONLY };
	int flags = access[below(5)] | (chance(4) ? 0 : O_CREAT) | (chance(3) ? O_DIRECT : 0) |
		    (chance(5) ? O_APPEND : 0) | (chance(5) ? O_DSYNC : 0) | (chance(12) ? O_SYNC : 0) |
		    (chance(12) ? O_TRUNC : 0) | (chance(8) ? O_CLOEXEC : 0);
	char *path = any_path();

	switch (below(8)) {
	case 0:
		put(SAY_NUMBER("openat", openat(AT_FDCWD, path, flags, 0600)));
		break;
	case 1:
		put(SAY_NUMBER("open64", open64(path, flags, 0600)));
		break;
	case 2:
		put(SAY_NUMBER("by number", (int)syscall(SYS_openat, AT_FDCWD, path, flags, 0600)));
		break;
	case 3:
		if (chance(4)) {
			put(SAY_NUMBER("creat", creat(path, 0600)));
			break;
		}
		/* fall through */
	default:
		put(SAY_NUMBER("open", open(path, flags, 0600)));
	}
}

static void close_one(void)
{
	int *slot = any_slot(), fd = *slot;

	*slot = -1;
	switch (below(4)) {
	case 0:
		if (fd >= 0)
			SAY("close_range", close_range((unsigned)fd, (unsigned)fd, 0));
		break;
	case 1:
		SAY("close by number", syscall(SYS_close, fd));
		break;
	default:
		SAY("close", close(fd));
	}
}

static void duplicate_one(void)
{
	int from = any_fd(), *to = any_slot(), made;

	switch (below(7)) {
	case 0:
		put(SAY_NUMBER("dup", dup(from)));
		break;
	case 1:
		put(SAY_NUMBER("F_DUPFD", fcntl(from, F_DUPFD, (int)below(60))));
		break;
	case 2:
		put(SAY_NUMBER("F_DUPFD_CLOEXEC", fcntl(from, F_DUPFD_CLOEXEC, (int)below(60))));
		break;
	case 3:
		SAY_NUMBER("dup3", dup3(from, *to, chance(2) ? O_CLOEXEC : 0));
		break;
	case 4:
		SAY_NUMBER("dup2 by number", syscall(SYS_dup3, from, *to, 0));
		break;
	case 5:
		/* A range, perhaps only to be closed later. */
		made = (int)SAY_NUMBER("F_DUPFD", fcntl(from, F_DUPFD, 100 + (int)below(50)));
		if (made >= 100) {
			SAY("close_range", close_range(100, ~0U, chance(2) ? CLOSE_RANGE_CLOEXEC : 0));
			read_some(made);
			SAY("close_range", close_range(100, 65535, 0));
		}
		break;
	default:
		SAY_NUMBER("dup2", dup2(from, *to));
	}
}

static void change_flags(void)
{
	int fd = any_fd(), flags = (int)SAY("F_GETFL", fcntl(fd, F_GETFL));
	static const int toggled[] = { O_DIRECT, O_DIRECT, O_APPEND };
	struct stat stat;

	/* Not of pipes: that would make packets of what is written. */
	if (flags >= 0 && !fstat(fd, &stat) && S_ISREG(stat.st_mode))
		SAY("F_SETFL", fcntl(fd, F_SETFL, flags ^ toggled[below(3)]));
}

static void change_file(void)
{
	int fd = any_fd();
	off_t at = any_place() % (1 << 20), length = (off_t)below(1 << 18);
	static const int modes[] = { 0, FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				     FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, FALLOC_FL_ZERO_RANGE,
				     FALLOC_FL_COLLAPSE_RANGE, FALLOC_FL_INSERT_RANGE };

	switch (below(9)) {
	case 0:
	case 1:
		SAY("ftruncate", ftruncate(fd, at + length));
		break;
	case 2:
		SAY("truncate", truncate(any_path(), at + length));
		break;
	case 3:
		SAY("posix_fallocate", posix_fallocate(fd, at, length));
		break;
	case 4:
		SAY("unlink", unlink(any_path()));
		break;
	case 5:
		SAY("rename", rename(any_path(), any_path()));
		break;
	default:
		if (chance(2)) {
			at &= -4096;
			length &= -4096;
		}
		SAY("fallocate", fallocate(fd, modes[below(7)], at, length));
	}
}

/* What is no file, sometimes on the number of one. */
static void open_stream(void)
{
	int both[2], *slot;

	switch (below(3)) {
	case 0:
		SAY("pipe2", pipe2(both, O_NONBLOCK));
		break;
	case 1:
		SAY("socketpair", socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, both));
		break;
	default:
		both[0] = (int)SAY_NUMBER("eventfd", eventfd(3, EFD_NONBLOCK));
		both[1] = (int)SAY_NUMBER("dup", dup(both[0]));
	}
	for (int i = 0; i < 2; i++) {
		slot = any_slot();
		if (*slot >= 0 && chance(2)) {
			SAY_NUMBER("dup2", dup2(both[i], *slot));
			SAY("close", close(both[i]));
		} else {
			put(both[i]);
		}
	}
}

static void copy_between(void)
{
	int from = any_fd(), to = any_fd();
	off_t in = any_place() % (1 << 20), out = any_place() % (1 << 20);
	size_t length = below(1 << 18);
	off_t *in_place = chance(2) ? &in : NULL, *out_place = chance(2) ? &out : NULL;

	switch (below(3)) {
	case 0:
		SAY("sendfile", sendfile(to, from, in_place, length));
		break;
	case 1:
		SAY("copy_file_range", copy_file_range(from, in_place, to, out_place, length, 0));
		break;
	default:
		SAY("splice", splice(from, in_place, to, out_place, length, SPLICE_F_NONBLOCK));
	}
	SAY("places", in + 3 * out);
}

static void map(void)
{
	int fd = any_fd();
	struct stat stat;
	char *memory;

	if (fstat(fd, &stat) || !S_ISREG(stat.st_mode) || stat.st_size == 0)
		return;
	memory = mmap(NULL, (size_t)stat.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	SAY("mmap", memory == MAP_FAILED);
	if (memory == MAP_FAILED)
		return;
	SAY("mapped", (long)digest(memory, (size_t)stat.st_size));
	memory[below((uint64_t)stat.st_size)] ^= 0x55;
	if (chance(2))
		SAY("msync", msync(memory, (size_t)stat.st_size, MS_SYNC));
	SAY("munmap", munmap(memory, (size_t)stat.st_size));
}

/* By the C library's own way. */
static void stream(void)
{
	FILE *file = chance(2) ? fopen(any_path(), "r+") : fdopen(dup(any_fd()), "r");
	size_t count;

	if (!file)
		return;
	count = fread(arena, 1, below(20000), file);
	SAY("fread", (long)count);
	SAY("bytes", (long)digest(arena, count));
	if (chance(3))
		file = freopen(any_path(), "r", file);
	if (file)
		SAY("fclose", fclose(file));
}

static void step(void);

static void wait_for(pid_t child)
{
	int status = -1;

	while (waitpid(child, &status, 0) != child)
		check(errno == EINTR, "waitpid");
	SAY("status", status);
}

/* A child goes on with the descriptors, whose places are its parent's, too. */
static void fork_one(void)
{
	uint64_t seed = next();
	pid_t child = chance(4) ? _Fork() : fork();

	check(child >= 0, "fork");
	if (child == 0) {
		is_child = 1;
		forget_asynchronous();
		*dice = seed;
		if (chance(6)) {
			close_range(3, ~0U, 0);
			memset(slots, -1, sizeof(slots));
		}
		for (int i = 0; i < STEPS_OF_CHILD; i++)
			step();
		_exit(5);
	}
	wait_for(child);
}

/* Another program goes on with them: this one. */
static void execute_one(void)
{
	char seed[32], list[SLOTS * 12 + 1];
	char *arguments[] = { own_arguments[0], seed, own_arguments[2],
			      may_be_another ? "later" : "child", list, NULL };
	posix_spawn_file_actions_t actions;
	size_t length = 0;
	pid_t child;

	snprintf(seed, sizeof(seed), "%llu", (unsigned long long)next());
	for (int i = 0; i < SLOTS; i++)
		length += (size_t)sprintf(list + length, "%d ", slots[i]);
	if (chance(2)) {
		int closed = *any_slot(), from = *any_slot();

		check(!posix_spawn_file_actions_init(&actions), "posix_spawn_file_actions_init");
		if (closed > 2 && closed != from)
			posix_spawn_file_actions_addclose(&actions, closed);
		if (from > 2)
			posix_spawn_file_actions_adddup2(&actions, from, 60);
		check(!posix_spawn(&child, own_arguments[0], &actions, NULL, arguments, environ),
		      "posix_spawn");
		posix_spawn_file_actions_destroy(&actions);
	} else {
		int from = *any_slot(), to = *any_slot();

		child = vfork();
		if (child == 0) {
			if (from > 2 && to > 2)
				dup2(from, to);
			execv(own_arguments[0], arguments);
			_exit(2);
		}
	}
	wait_for(child);
}

/* Comes back as another number for the same file. */
static void pass_one(void)
{
	int both[2], fd = any_fd();
	char byte = 'x', room[CMSG_SPACE(sizeof(int))] = { 0 };
	struct iovec piece = { &byte, 1 };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = room,
				  .msg_controllen = sizeof(room) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	check(!socketpair(AF_UNIX, SOCK_STREAM, 0, both), "socketpair");
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &fd, sizeof(fd));
	if (SAY("sendmsg", sendmsg(both[0], &message, 0)) == 1) {
		memset(room, 0, sizeof(room));
		SAY("recvmsg", recvmsg(both[1], &message, 0));
		memcpy(&fd, CMSG_DATA(header), sizeof(fd));
		put((int)SAY_NUMBER("passed", fd));
	}
	close(both[0]);
	close(both[1]);
}

struct part {
	pthread_t thread;
	long number;
	uint64_t seed, sum;
	int is_direct;
};

/* A thread that has a part of a file, and a file, of its own. */
static void *part_main(void *argument)
{
	struct part *part = argument;
	uint64_t own_dice = part->seed;
	char name[16], *memory = aligned(PART);
	int shared, own;
	off_t first = part->number * PART;

	dice = &own_dice;
	snprintf(name, sizeof(name), "part%ld", part->number);
	shared = open(path_of("parts"), O_RDWR | (part->is_direct ? O_DIRECT : 0));
	own = open(path_of(name), O_RDWR | O_CREAT | (chance(2) ? O_DSYNC : 0), 0600);
	for (int i = 0; i < 20; i++) {
		off_t at = (off_t)below(PART / DIRECT_BYTES) * DIRECT_BYTES;
		size_t length = (1 + below((uint64_t)(PART - at) / DIRECT_BYTES)) * DIRECT_BYTES;
		struct iovec pieces[2] = { { memory, length / 2 & -(size_t)DIRECT_BYTES }, { 0 } };
		ssize_t result = 0;

		pieces[1].iov_base = memory + pieces[0].iov_len;
		pieces[1].iov_len = length - pieces[0].iov_len;
		switch (below(8)) {
		case 0:
			memset(memory, (int)below(256), length);
			result = pwrite(shared, memory, length, first + at);
			break;
		case 1:
			memset(memory, (int)below(256), length);
			result = pwritev(shared, pieces, 2, first + at);
			break;
		case 2:
			result = pread(shared, memory, length, first + at);
			break;
		case 3:
			result = preadv2(shared, pieces, 2, first + at, 0);
			break;
		case 4:
			result = chance(2) ? fsync(own) : fdatasync(shared);
			break;
		case 5:
			memset(memory, (int)below(256), length);
			result = write(own, memory, below(3 * DIRECT_BYTES));
			break;
		case 6:
			close(own);
			own = open(path_of(name), O_RDWR | O_CREAT, 0600);
			result = lseek(own, (off_t)below(PART), SEEK_SET);
			break;
		default:
			result = read(own, memory, length);
		}
		part->sum = part->sum * 31 + (uint64_t)result + (uint64_t)(result < 0 ? errno : 0);
		part->sum = part->sum * 31 + digest(memory, PART);
	}
	close(shared);
	close(own);
	free(memory);
	return NULL;
}

static void run_parts(void)
{
	struct part parts[THREADS] = { 0 };
	int is_direct = chance(2), fd = open(path_of("parts"), O_RDWR | O_CREAT, 0600);

	SAY("ftruncate", ftruncate(fd, THREADS * PART));
	for (int i = 0; i < THREADS; i++) {
		parts[i].number = i;
		parts[i].seed = next();
		parts[i].is_direct = is_direct;
		check(!pthread_create(&parts[i].thread, NULL, part_main, &parts[i]), "pthread_create");
	}
	for (int i = 0; i < THREADS; i++) {
		pthread_join(parts[i].thread, NULL);
		SAY("part", (long)parts[i].sum);
	}
	close(fd);
}

static int sleeping[2] = { -1, -1 }, signal_file;
static volatile sig_atomic_t is_to_wake, wrong_in_handler;

static void on_alarm(int number)
{
	char bytes[100];
	int error = errno;

	(void)number;
	if (pread(signal_file, bytes, sizeof(bytes), 50) != sizeof(bytes) || bytes[7] != 's')
		wrong_in_handler++;
	if (is_to_wake) {
		is_to_wake = 0;
		if (write(sleeping[1], bytes, 1) != 1)
			wrong_in_handler++;
	}
	errno = error;
}

static void alarm_every(int us)
{
	struct itimerval time = { { 0, us }, { 0, us } };

	setitimer(ITIMER_REAL, &time, NULL);
}

/* Alarms while calls are under way; their handler reads, too. */
static void interrupt(void)
{
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = chance(2) ? SA_RESTART : 0 };
	char bytes[200];
	sigset_t alarms;

	memset(bytes, 's', sizeof(bytes));
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	signal_file = open(path_of("signals"), O_RDWR | O_CREAT, 0600);
	check(pwrite(signal_file, bytes, sizeof(bytes), 0) == sizeof(bytes), "pwrite");
	check(!pipe(sleeping) && !sigaction(SIGALRM, &action, NULL), "sigaction");
	is_to_wake = action.sa_flags == SA_RESTART;
	/* Other threads have it blocked. */
	pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
	alarm_every(2000);
	SAY("interrupted", read(sleeping[0], bytes, sizeof(bytes)));
	alarm_every(500);
	for (int i = 0; i < 12; i++)
		if (chance(2))
			read_some(any_fd());
		else
			chance(3) ? sync_some(any_fd()) : write_some(any_fd());
	batch_of_aio();
	alarm_every(0);
	SAY("wrong in the handler", wrong_in_handler);
	pthread_sigmask(SIG_BLOCK, &alarms, NULL);
	close(sleeping[0]);
	close(sleeping[1]);
	close(signal_file);
}

static const struct {
	int weight;
	void (*run)(void);
} kinds[] = { { 12, open_one },	      { 3, close_one },	  { 6, duplicate_one }, { 3, change_flags },
	      { 7, change_file },     { 2, open_stream }, { 4, copy_between },	{ 2, map },
	      { 2, stream },	      { 1, fork_one },	  { 1, execute_one },	{ 1, pass_one },
	      { 1, run_parts },	      { 1, interrupt },	  { 6, batch_of_aio },	{ 6, batch_of_ring },
	      { 0, NULL } };

static void step(void)
{
	int fd = any_fd(), number = (int)below(96);

	for (int i = 0; kinds[i].run; i++) {
		number -= kinds[i].weight;
		if (number >= 0)
			continue;
		/* Children have none. */
		if (is_child && (kinds[i].run == fork_one || kinds[i].run == execute_one))
			return;
		kinds[i].run();
		return;
	}
	if (number < 14)
		read_some(fd);
	else if (number < 28)
		write_some(fd);
	else if (number < 32)
		sync_some(fd);
	else
		seek_some(fd);
}

/* Threads take turns: one at a time. */
static sem_t turns[THREADS], ended;
static int is_over;

static void *turn_main(void *number)
{
	for (;;) {
		sem_wait(&turns[(long)number]);
		if (is_over)
			return NULL;
		step();
		sem_post(&ended);
	}
}

static void run_steps(int steps)
{
	pthread_t threads[THREADS];

	sem_init(&ended, 0, 0);
	for (long i = 0; i < THREADS; i++) {
		sem_init(&turns[i], 0, 0);
		check(!pthread_create(&threads[i], NULL, turn_main, (void *)i), "pthread_create");
	}
	for (int i = 0; i < steps; i++) {
		sem_post(&turns[below(THREADS)]);
		while (sem_wait(&ended))
			;
	}
	is_over = 1;
	for (int i = 0; i < THREADS; i++) {
		sem_post(&turns[i]);
		pthread_join(threads[i], NULL);
	}
}

static void course(void)
{
	run_steps(is_child ? STEPS_OF_CHILD : own_arguments[3] ? atoi(own_arguments[3]) : STEPS);
	end_asynchronous();
}

int main(int count, char **arguments)
{
	const struct rlimit limit = { FILE_MAX, FILE_MAX };
	struct pattern pattern = { "course", course };
	sigset_t alarms;

	if (count < 3) {
		fprintf(stderr, "usage: %s SEED DIRECTORY [STEPS]\n", arguments[0]);
		return 2;
	}
	own_arguments = arguments;
	directory = arguments[2];
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	check(!setrlimit(RLIMIT_FSIZE, &limit), "setrlimit");
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarms, NULL);
	begin_random(strtoull(arguments[1], NULL, 10));
	memset(slots, -1, sizeof(slots));
	is_child = count == 5;
	if (is_child) {
		char *rest = arguments[4];

		may_be_another = !strcmp(arguments[3], "later");
		for (int i = 0; i < SLOTS; i++)
			slots[i] = (int)strtol(rest, &rest, 10);
		/* Some were closed. */
		for (int i = 0; i < SLOTS; i++)
			slots[i] = fcntl(slots[i], F_GETFD) < 0 ? -1 : slots[i];
		course();
		return 4;
	}
	/* Every second course stands beside a thread that reads on and on. */
	if (chance(2))
		run_beside_foreground(&pattern);
	else
		course();
	return 0;
}
