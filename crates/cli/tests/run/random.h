/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Of probe_random.c: the dice, what is printed, and calls that transfer bytes.
 */
#ifndef RANDOM_H
#define RANDOM_H

enum {
	FILE_MAX = 3 << 20, /* no file grows beyond */
	ARENA = 4 << 20, /* what is read into */
	STUFF = 1 << 20, /* what is written from */
	GUARD = 64,
	UNCHANGED = 77, /* no error that a call gives here: errno stays so where it succeeds */
};

/* Threads at once have dice of their own. */
static uint64_t common_dice;
static _Thread_local uint64_t *dice = &common_dice;
/* Memory that cannot be reached follows both. */
static char *arena, *stuff;

/* splitmix64 */
static uint64_t next(void)
{
	uint64_t z = *dice += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

static uint64_t below(uint64_t end)
{
	return next() % end;
}

static int chance(uint64_t one_in)
{
	return below(one_in) == 0;
}

/* FNV-1a */
static uint32_t digest(const char *bytes, size_t count)
{
	uint32_t hash = 2166136261;

	for (size_t i = 0; i < count; i++)
		hash = (hash ^ (unsigned char)bytes[i]) * 16777619;
	return hash;
}

static long say(const char *what, long result, int error)
{
	char line[256], *from = line;
	int length = snprintf(line, sizeof(line), "%s = %ld", what, result);

	if (error != UNCHANGED)
		length += snprintf(line + length, sizeof(line) - (size_t)length, ", errno %d", error);
	line[length++] = '\n';
	while (length > 0) {
		ssize_t count = write(1, from, (size_t)length);

		check(count > 0 || errno == EINTR, "write");
		from += count > 0 ? count : 0;
		length -= count > 0 ? (int)count : 0;
	}
	return result;
}

#define SAY(what, call)                                                        \
	({                                                                     \
		errno = UNCHANGED;                                             \
		long result_ = (long)(call);                                   \
		say(what, result_, errno);                                     \
	})

/*
 * What the kernel refuses of what waited for leave has an end by means of a file of the library's, which
 * is there for a moment (sys/aio.rs, `empty_file`): a number may be the next one then.
 */
static int may_be_another;

#define SAY_NUMBER(what, call)                                                 \
	({                                                                     \
		errno = UNCHANGED;                                             \
		int number_ = (int)(call);                                     \
		say(what, may_be_another && number_ >= 0 ? 0 : number_, errno); \
		number_;                                                       \
	})

/* Memory before some that cannot be reached. */
static char *guarded(size_t bytes)
{
	char *memory = mmap(NULL, bytes + DIRECT_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	check(memory != MAP_FAILED, "mmap");
	check(!mprotect(memory + bytes, DIRECT_BYTES, PROT_NONE), "mprotect");
	return memory;
}

static void begin_random(uint64_t seed)
{
	*dice = seed;
	arena = guarded(ARENA);
	stuff = guarded(STUFF);
	for (int i = 0; i < STUFF; i += 8)
		*(uint64_t *)(stuff + i) = next();
}

static off_t any_place(void)
{
	switch (below(12)) {
	case 0:
		return -(off_t)below(5000);
	case 1:
		return chance(2) ? INT64_MAX - (off_t)below(5000) : (off_t)1 << 40;
	case 2:
		return 0;
	case 3:
	case 4:
	case 5:
		return (off_t)below(1 << 20);
	default:
		return (off_t)below(1 << 8) * DIRECT_BYTES;
	}
}

static size_t any_length(void)
{
	switch (below(12)) {
	case 0:
		return 0;
	case 1:
		return below(100);
	case 2:
	case 3:
		return below(8192);
	case 4:
		return below(700000);
	case 5:
		return below(16) * 512;
	case 6:
		return chance(6) ? (chance(2) ? SIZE_MAX : SSIZE_MAX) : 100;
	default:
		return (1 + below(chance(5) ? 160 : 16)) * DIRECT_BYTES;
	}
}

/* So many bytes of some memory; sometimes they are not all there. */
static char *any_buffer(char *memory, size_t bytes, size_t length)
{
	size_t free = length < bytes ? bytes - length : 0;

	switch (below(24)) {
	case 0:
		return (char *)8;
	case 1:
		return memory + bytes - below(9000);
	case 2:
	case 3:
	case 4:
		return memory + below(free + 1);
	default:
		return memory + below(free / DIRECT_BYTES + 1) * DIRECT_BYTES;
	}
}

/* Makes pieces of a buffer; gives how many. */
static int cut(struct iovec *pieces, char *buffer, size_t length)
{
	int count = (int)below(PIECES + 1);
	size_t grain = chance(3) ? 1 : DIRECT_BYTES, most = length < STUFF ? length : STUFF;

	memset(pieces, 0, PIECES_MAX * sizeof(*pieces));
	for (int i = 0; i < count; i++) {
		size_t part = i == count - 1 || most > length ? length : below(most / grain + 1) * grain;

		pieces[i] = (struct iovec){ buffer, part };
		buffer += part;
		length -= part;
	}
	if (chance(30))
		return chance(2) ? -1 : PIECES_MAX + 1;
	return chance(30) ? PIECES_MAX : count;
}

static int any_flags(void)
{
	static const int flags[] = { 0, RWF_HIPRI, RWF_DSYNC, RWF_SYNC, RWF_NOWAIT, RWF_NOWAIT, RWF_APPEND,
				     0x20 /* RWF_NOAPPEND */, 0x40 /* RWF_ATOMIC */, 0x80 /* RWF_DONTCACHE */,
				     1 << 20 };

	return flags[below(sizeof(flags) / sizeof(flags[0]))];
}

/* What the page cache has is not the same in each run: what is not there at once is asked for again. */
static ssize_t at_once_or_later(ssize_t (*call)(int, const struct iovec *, int, off_t, int), int fd,
				const struct iovec *pieces, int count, off_t place, size_t length, int flags)
{
	ssize_t result;

	if (flags & RWF_NOWAIT && (place < 0 || fcntl(fd, F_GETFL) & O_APPEND))
		flags &= ~RWF_NOWAIT;
	errno = UNCHANGED;
	result = call(fd, pieces, count, place, flags);
	if (flags & RWF_NOWAIT && (result < 0 || (size_t)result < length)) {
		errno = UNCHANGED;
		result = call(fd, pieces, count, place, flags & ~RWF_NOWAIT);
	}
	return result;
}

static void read_some(int fd)
{
	size_t length = any_length();
	off_t place = any_place();
	char *buffer = any_buffer(arena, ARENA, length);
	size_t room = buffer < arena ? 0 : (size_t)(arena + ARENA - buffer);
	size_t filled = length < FILE_MAX ? length + GUARD : 0;
	struct iovec pieces[PIECES_MAX + 1];
	int count = cut(pieces, buffer, length), is_whole = 1;
	long result;

	memset(buffer < arena ? arena : buffer, 0xee, filled < room ? filled : room);
	switch (below(7)) {
	case 0:
		result = SAY("read", read(fd, buffer, length));
		break;
	case 1:
		result = SAY("pread by number", syscall(SYS_pread64, fd, buffer, length, place));
		break;
	case 2:
		result = SAY("readv", readv(fd, pieces, count));
		is_whole = count > 0;
		break;
	case 3:
		result = SAY("preadv", preadv(fd, pieces, count, place));
		break;
	case 4:
		place = chance(4) ? -1 : place;
		result = SAY("preadv2", at_once_or_later(preadv2, fd, pieces, count, place, length, any_flags()));
		break;
	default:
		result = SAY("pread", pread(fd, buffer, length, place));
	}
	if (result > 0 && is_whole)
		SAY("bytes", (long)digest(buffer, (size_t)result));
	if (buffer >= arena && filled && filled < room)
		for (size_t i = length; i < filled; i++)
			if ((unsigned char)buffer[i] != 0xee)
				SAY("beyond", (long)i);
}

static void write_some(int fd)
{
	size_t length = any_length();
	off_t place = any_place();
	char *buffer = any_buffer(stuff, STUFF, length);
	struct iovec pieces[PIECES_MAX + 1];
	int count = cut(pieces, buffer, length);

	if (buffer >= stuff && buffer + 8 <= stuff + STUFF)
		memcpy(buffer, &(uint64_t){ next() }, 8);
	switch (below(7)) {
	case 0:
		SAY("write", write(fd, buffer, length));
		break;
	case 1:
		SAY("pwrite by number", syscall(SYS_pwrite64, fd, buffer, length, place));
		break;
	case 2:
		SAY("writev", writev(fd, pieces, count));
		break;
	case 3:
		SAY("pwritev", pwritev(fd, pieces, count, place));
		break;
	case 4:
		place = chance(4) ? -1 : place;
		SAY("pwritev2", at_once_or_later(pwritev2, fd, pieces, count, place, length, any_flags()));
		break;
	default:
		SAY("pwrite", pwrite(fd, buffer, length, place));
	}
}

static void sync_some(int fd)
{
	switch (below(4)) {
	case 0:
		SAY("fsync", fsync(fd));
		break;
	case 1:
		SAY("fdatasync", fdatasync(fd));
		break;
	default:
		SAY("sync_file_range",
		    sync_file_range(fd, any_place(), (off_t)any_length(), (unsigned)below(chance(9) ? 16 : 8)));
	}
}

static void seek_some(int fd)
{
	static const int whence[] = { SEEK_SET, SEEK_SET, SEEK_CUR, SEEK_END };
	struct stat stat;

	if (chance(2))
		SAY("lseek", lseek(fd, any_place(), whence[below(4)]));
	else
		SAY("where", lseek(fd, 0, SEEK_CUR));
	if (SAY("fstat", fstat(fd, &stat)) == 0 && S_ISREG(stat.st_mode))
		SAY("size", stat.st_size);
}

#endif
