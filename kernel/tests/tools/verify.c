// SPDX-License-Identifier: GPL-2.0
/*
 * Data integrity: verify DEVICE SECONDS SEED.
 *
 * Each thread owns a part of the device and knows what every sector of it must
 * hold: its own number and how often it was written. It writes and reads in
 * batches of neighbours (so that they merge) and strangers, at random levels;
 * within a batch no two requests touch the same sector. At the end everything
 * is read once more.
 */
#include "aio.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sys/ioctl.h>

enum { THREADS = 4, BATCH = 32, SECTORS_MAX = 64, SECTOR = 512 };
/* Even where the machine stalls for all of the time. */
enum { BATCHES_MIN = 8 };

struct cell {
	uint64_t sector;
	uint64_t generation;
	uint64_t seed;
	uint64_t pad[SECTOR / 8 - 3];
};

struct worker {
	pthread_t thread;
	uint64_t first, count, seed, checked, written;
	uint32_t *generations;
};

static const char *device;
static uint64_t stop_ns, seed_all;
static const int priorities[] = {
	0, IOPRIO(CLASS_BE, 0), IOPRIO(CLASS_BE, 2), IOPRIO(CLASS_BE, 4),
	IOPRIO(CLASS_BE, 6), IOPRIO(CLASS_BE, 7), IOPRIO(CLASS_IDLE, 0),
	IOPRIO(CLASS_RT, 0),
};

static void check_cell(struct worker *worker, const struct cell *cell,
		       uint64_t sector)
{
	uint32_t generation = worker->generations[sector - worker->first];

	worker->checked++;
	if (!generation)
		return;
	if (cell->sector != sector || cell->generation != generation ||
	    cell->seed != seed_all) {
		fprintf(stderr,
			"sector %llu: generation %u was written, sector %llu generation %llu seed %llu was read\n",
			(unsigned long long)sector, generation,
			(unsigned long long)cell->sector,
			(unsigned long long)cell->generation,
			(unsigned long long)cell->seed);
		exit(1);
	}
}

/* Lays out a batch of requests that do not overlap; returns their number. */
static unsigned int plan(struct worker *worker, uint64_t *first,
			 unsigned int *sectors)
{
	/* One piece of the part for each request, runs of them side by side. */
	uint64_t piece = worker->count / BATCH;
	uint64_t base = random_next(&worker->seed) % piece;
	int adjacent = random_next(&worker->seed) % 2;
	uint64_t at = worker->first + random_next(&worker->seed) % (piece / 2);
	unsigned int i;

	for (i = 0; i < BATCH; i++) {
		sectors[i] = random_next(&worker->seed) % SECTORS_MAX + 1;
		if (adjacent) {
			first[i] = at;
			at += sectors[i];
		} else {
			first[i] = worker->first + i * piece +
				   base % (piece - SECTORS_MAX);
		}
	}
	/* Not always upwards: front merges, too. */
	for (i = 0; i < BATCH; i++) {
		unsigned int j = random_next(&worker->seed) % BATCH;
		uint64_t other = first[i];
		unsigned int length = sectors[i];

		if (random_next(&worker->seed) % 4)
			continue;
		first[i] = first[j];
		sectors[i] = sectors[j];
		first[j] = other;
		sectors[j] = length;
	}
	return BATCH;
}

static void run_batch(struct worker *worker, int fd, aio_context_t context,
		      char **buffers)
{
	static const int one_priority = 1;
	struct iocb iocbs[BATCH], *list[BATCH];
	struct io_event events[BATCH];
	uint64_t first[BATCH];
	unsigned int sectors[BATCH];
	unsigned int count = plan(worker, first, sectors), i, s, sent = 0;
	int write = random_next(&worker->seed) % 2;
	int same = random_next(&worker->seed) % 2 == one_priority;
	int priority = priorities[random_next(&worker->seed) % 8];

	for (i = 0; i < count; i++) {
		struct cell *cells = (void *)buffers[i];

		if (!same)
			priority = priorities[random_next(&worker->seed) % 8];
		for (s = 0; write && s < sectors[i]; s++) {
			uint64_t sector = first[i] + s;

			cells[s].sector = sector;
			cells[s].generation =
				++worker->generations[sector - worker->first];
			cells[s].seed = seed_all;
			worker->written++;
		}
		prepare(&iocbs[i], fd, write, cells,
			(uint64_t)sectors[i] * SECTOR, first[i] * SECTOR,
			priority);
		iocbs[i].aio_data = i;
		list[i] = &iocbs[i];
	}
	while (sent < count) {
		int got = aio_submit(context, count - sent, list + sent);

		if (got < 0)
			die("io_submit");
		sent += got;
	}
	if (aio_wait(context, count, count, events, NULL) != (int)count)
		die("io_getevents");
	for (i = 0; i < count; i++) {
		unsigned int index = events[i].data;
		struct cell *cells = (void *)buffers[index];

		if (events[i].res != (int64_t)sectors[index] * SECTOR) {
			fprintf(stderr, "a request gave %lld\n",
				(long long)events[i].res);
			exit(1);
		}
		for (s = 0; !write && s < sectors[index]; s++)
			check_cell(worker, &cells[s], first[index] + s);
	}
}

static void read_all(struct worker *worker, int fd, char *buffer)
{
	uint64_t sector = worker->first;
	uint64_t end = worker->first + worker->count;

	while (sector < end) {
		unsigned int count = end - sector < SECTORS_MAX ?
				     end - sector : SECTORS_MAX;
		unsigned int s;

		if (pread(fd, buffer, count * SECTOR, sector * SECTOR) !=
		    (ssize_t)count * SECTOR)
			die("pread");
		for (s = 0; s < count; s++)
			check_cell(worker, (void *)(buffer + s * SECTOR),
				   sector + s);
		sector += count;
	}
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	/* One thread's writes are forced to the medium one by one (FUA). */
	int flags = worker->first ? 0 : O_DSYNC;
	int fd = open(device, O_RDWR | O_DIRECT | flags);
	aio_context_t context = 0;
	char *buffers[BATCH];
	unsigned int i;

	if (fd < 0)
		die(device);
	if (aio_setup(BATCH, &context))
		die("io_setup");
	for (i = 0; i < BATCH; i++)
		if (posix_memalign((void **)&buffers[i], 4096,
				   SECTORS_MAX * SECTOR))
			die("posix_memalign");
	for (i = 0; i < BATCHES_MIN || now_ns() < stop_ns; i++) {
		run_batch(worker, fd, context, buffers);
		if (i % 4 == 3 && fdatasync(fd))
			die("fdatasync");
	}
	read_all(worker, fd, buffers[0]);
	return NULL;
}

int main(int argc, char **argv)
{
	struct worker workers[THREADS];
	uint64_t bytes, sectors, checked = 0, written = 0;
	unsigned int i;
	int fd;

	if (argc != 4) {
		fprintf(stderr, "usage: verify DEVICE SECONDS SEED\n");
		return 1;
	}
	device = argv[1];
	seed_all = strtoull(argv[3], NULL, 0);
	fd = open(device, O_RDONLY);
	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &bytes))
		die(device);
	close(fd);
	sectors = bytes / SECTOR / THREADS;
	stop_ns = now_ns() + atof(argv[2]) * 1e9;
	for (i = 0; i < THREADS; i++) {
		workers[i] = (struct worker){
			.first = i * sectors, .count = sectors,
			.seed = seed_all * THREADS + i,
			.generations = calloc(sectors, 4),
		};
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			die("pthread_create");
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		checked += workers[i].checked;
		written += workers[i].written;
	}
	printf("seed %llu: %llu sectors written, %llu checked\n",
	       (unsigned long long)seed_all, (unsigned long long)written,
	       (unsigned long long)checked);
	return !checked || !written;
}
