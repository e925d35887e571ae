// SPDX-License-Identifier: GPL-2.0
/*
 * Load on a block device: load DEVICE SECONDS JOB..., one JSON line per job.
 *
 * JOB is name:threads:depth:kind:bytes:priority[:engine[:pause_ms]], kind one
 * of randread, randwrite, read, write (sequential, each thread in a part of its
 * own). The priority is the thread's, and that of each request with the engines
 * aio (default) and uring; sync has depth 1. With aio-request or uring-request it
 * is that of each request only.
 *
 * With a pause, random and of that mean, sync waits so long after each request;
 * aio submits as many requests as its depth at the times of a Poisson process,
 * and the next ones when these are done: a sustained rate, in portions.
 */
#include "aio.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <math.h>
#include <pthread.h>
#include <sys/ioctl.h>

#include "uring.h"

enum { JOBS_MAX = 16, THREADS_MAX = 256, DEPTH_MAX = 1024 };
/* 32 buckets per power of two: values within 3 percent. */
enum { SUB_BITS = 5, BUCKETS = 64 << SUB_BITS };
/* The first requests find an idle device and empty queues. */
static const double warm_up_share = 0.1;

enum engine { ENGINE_AIO, ENGINE_URING, ENGINE_SYNC };

struct job {
	char name[32];
	unsigned int threads, depth, bytes;
	int write, sequential, ioprio;
	/* Whether the thread has it, too. */
	int thread_ioprio;
	double pause_ns;
	enum engine engine;
	/* Results of all its threads. */
	pthread_mutex_t lock;
	uint64_t count, sum_ns, max_ns;
	uint64_t buckets[BUCKETS];
};

struct worker {
	pthread_t thread;
	struct job *job;
	uint64_t begin, end, position, seed, next_ns;
	uint64_t count, sum_ns, max_ns;
	uint64_t *buckets;
};

static const char *device;
static uint64_t start_ns, measure_ns, stop_ns;

static unsigned int bucket_of(uint64_t value)
{
	unsigned int power;

	if (value < (1 << SUB_BITS))
		return value;
	power = 63 - __builtin_clzll(value);
	return ((power - SUB_BITS + 1) << SUB_BITS) +
	       ((value >> (power - SUB_BITS)) & ((1 << SUB_BITS) - 1));
}

static uint64_t bucket_most(unsigned int bucket)
{
	unsigned int power = bucket >> SUB_BITS;
	uint64_t sub = bucket & ((1 << SUB_BITS) - 1);

	if (!power)
		return sub;
	return ((((1ULL << SUB_BITS) + sub + 1) << (power - 1)) - 1);
}

static void completed(struct worker *worker, uint64_t submitted_ns)
{
	uint64_t now = now_ns();
	uint64_t took = now - submitted_ns;

	/* Who starves ends with the others, after the time is over. */
	if (took > worker->max_ns)
		worker->max_ns = took;
	if (now < measure_ns || now > stop_ns)
		return;
	worker->count++;
	worker->sum_ns += took;
	worker->buckets[bucket_of(took)]++;
}

static uint64_t next_offset(struct worker *worker)
{
	uint64_t bytes = worker->job->bytes;
	uint64_t blocks = (worker->end - worker->begin) / bytes;
	uint64_t offset;

	if (!worker->job->sequential)
		return worker->begin +
		       random_next(&worker->seed) % blocks * bytes;
	offset = worker->position;
	worker->position += bytes;
	if (worker->position + bytes > worker->end)
		worker->position = worker->begin;
	return offset;
}

/* Until a random time, on average the job's pause after @from_ns. */
static void pause_after(struct worker *worker, uint64_t from_ns)
{
	double share = (random_next(&worker->seed) % 1000000 + 1) / 1e6;
	uint64_t now = now_ns();
	struct timespec rest;

	if (!worker->job->pause_ns)
		return;
	worker->next_ns = from_ns - worker->job->pause_ns * log(share);
	if (worker->next_ns <= now)
		return;
	rest.tv_sec = (worker->next_ns - now) / 1000000000;
	rest.tv_nsec = (worker->next_ns - now) % 1000000000;
	nanosleep(&rest, NULL);
}

static void *new_buffer(const struct job *job)
{
	void *buffer;

	if (posix_memalign(&buffer, 4096, job->bytes))
		die("posix_memalign");
	memset(buffer, 0x5a, job->bytes);
	return buffer;
}

static void check(int64_t result, const struct job *job)
{
	if (result != job->bytes) {
		fprintf(stderr, "%s: a request for %u bytes gave %lld\n",
			job->name, job->bytes, (long long)result);
		exit(1);
	}
}

static void run_aio(struct worker *worker, int fd)
{
	struct job *job = worker->job;
	struct iocb *iocbs = calloc(job->depth, sizeof(*iocbs));
	uint64_t *submitted = calloc(job->depth, sizeof(*submitted));
	struct io_event events[DEPTH_MAX];
	struct iocb *batch[DEPTH_MAX];
	void **buffers = calloc(job->depth, sizeof(*buffers));
	unsigned int i, outstanding = 0, ready = job->depth;
	aio_context_t context = 0;

	if (aio_setup(job->depth, &context))
		die("io_setup");
	for (i = 0; i < job->depth; i++) {
		buffers[i] = new_buffer(job);
		batch[i] = &iocbs[i];
	}
	for (;;) {
		int got;

		if (job->pause_ns && !outstanding)
			pause_after(worker, worker->next_ns);
		if (now_ns() < stop_ns && ready &&
		    (!job->pause_ns || !outstanding)) {
			uint64_t now = now_ns();
			unsigned int sent = 0;

			for (i = 0; i < ready; i++) {
				unsigned int slot = batch[i] - iocbs;

				prepare(batch[i], fd, job->write, buffers[slot],
					job->bytes, next_offset(worker),
					job->ioprio);
				submitted[slot] = now;
			}
			while (sent < ready) {
				got = aio_submit(context, ready - sent,
						 batch + sent);
				if (got < 0)
					die("io_submit");
				sent += got;
			}
			outstanding += ready;
			ready = 0;
		}
		if (!outstanding)
			break;
		got = aio_wait(context, 1, job->depth, events, NULL);
		if (got < 0)
			die("io_getevents");
		for (i = 0; i < (unsigned int)got; i++) {
			struct iocb *iocb = (void *)(uintptr_t)events[i].obj;

			check(events[i].res, job);
			completed(worker, submitted[iocb - iocbs]);
			batch[ready++] = iocb;
		}
		outstanding -= got;
	}
}

static void run_uring(struct worker *worker, int fd)
{
	struct job *job = worker->job;
	uint64_t *submitted = calloc(job->depth, sizeof(*submitted));
	void **buffers = calloc(job->depth, sizeof(*buffers));
	unsigned int free_slots[DEPTH_MAX];
	unsigned int i, ready = job->depth, outstanding = 0;
	struct uring ring;

	uring_open(&ring, job->depth);
	for (i = 0; i < job->depth; i++) {
		buffers[i] = new_buffer(job);
		free_slots[i] = i;
	}
	for (;;) {
		unsigned int queued = 0;
		uint64_t now = now_ns();
		int64_t result;
		uint64_t slot;

		while (now < stop_ns && ready) {
			slot = free_slots[--ready];
			uring_push(&ring, job->write, fd, buffers[slot],
				   job->bytes, next_offset(worker),
				   job->ioprio, slot);
			submitted[slot] = now;
			queued++;
		}
		outstanding += queued;
		if (!outstanding)
			break;
		uring_enter(&ring, queued, 1);
		while (uring_pop(&ring, &slot, &result)) {
			check(result, job);
			completed(worker, submitted[slot]);
			free_slots[ready++] = slot;
			outstanding--;
		}
	}
}

static void run_sync(struct worker *worker, int fd)
{
	struct job *job = worker->job;
	void *buffer = new_buffer(job);

	while (now_ns() < stop_ns) {
		uint64_t offset = next_offset(worker);
		uint64_t submitted = now_ns();
		ssize_t done = job->write ?
			pwrite(fd, buffer, job->bytes, offset) :
			pread(fd, buffer, job->bytes, offset);

		check(done, job);
		completed(worker, submitted);
		pause_after(worker, now_ns());
	}
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	struct job *job = worker->job;
	int fd = open(device, O_RDWR | O_DIRECT);
	unsigned int i;

	if (fd < 0)
		die(device);
	/* Some schedulers look at the thread's only. */
	if (job->thread_ioprio && set_ioprio(job->thread_ioprio))
		die("ioprio_set");
	worker->buckets = calloc(BUCKETS, sizeof(*worker->buckets));
	if (job->engine == ENGINE_AIO)
		run_aio(worker, fd);
	else if (job->engine == ENGINE_URING)
		run_uring(worker, fd);
	else
		run_sync(worker, fd);
	close(fd);

	pthread_mutex_lock(&job->lock);
	job->count += worker->count;
	job->sum_ns += worker->sum_ns;
	if (worker->max_ns > job->max_ns)
		job->max_ns = worker->max_ns;
	for (i = 0; i < BUCKETS; i++)
		job->buckets[i] += worker->buckets[i];
	pthread_mutex_unlock(&job->lock);
	return NULL;
}

static uint64_t percentile(const struct job *job, double share)
{
	uint64_t rank = job->count * share;
	uint64_t seen = 0;
	unsigned int i;

	for (i = 0; i < BUCKETS; i++) {
		seen += job->buckets[i];
		if (seen > rank)
			return bucket_most(i) < job->max_ns ?
			       bucket_most(i) : job->max_ns;
	}
	return job->max_ns;
}

static void report(const struct job *job)
{
	double seconds = (stop_ns - measure_ns) / 1e9;
	uint64_t mean_ns = job->count ? job->sum_ns / job->count : 0;

	printf("{\"job\":\"%s\",\"count\":%llu,\"requests_per_second\":%.1f,",
	       job->name, (unsigned long long)job->count,
	       job->count / seconds);
	printf("\"bytes_per_second\":%.0f,\"mean_ns\":%llu,\"p50_ns\":%llu,",
	       job->count * (double)job->bytes / seconds,
	       (unsigned long long)mean_ns,
	       (unsigned long long)percentile(job, 0.5));
	printf("\"p99_ns\":%llu,\"p999_ns\":%llu,\"max_ns\":%llu}\n",
	       (unsigned long long)percentile(job, 0.99),
	       (unsigned long long)percentile(job, 0.999),
	       (unsigned long long)job->max_ns);
}

static void parse_job(struct job *job, const char *text)
{
	char kind[16], priority[8], engine[16] = "aio";
	double pause_ms = 0;

	if (sscanf(text, "%31[^:]:%u:%u:%15[^:]:%u:%7[^:]:%15[^:]:%lf", job->name,
		   &job->threads, &job->depth, kind, &job->bytes, priority,
		   engine, &pause_ms) < 6 ||
	    !job->threads || job->threads > THREADS_MAX || !job->depth ||
	    job->depth > DEPTH_MAX || job->bytes < 512) {
		fprintf(stderr, "'%s' is no job\n", text);
		exit(1);
	}
	job->write = !!strstr(kind, "write");
	job->sequential = !!strncmp(kind, "rand", 4);
	job->ioprio = parse_ioprio(priority);
	job->thread_ioprio = strstr(engine, "-request") ? 0 : job->ioprio;
	job->engine = !strncmp(engine, "uring", 5) ? ENGINE_URING :
		      !strcmp(engine, "sync") ? ENGINE_SYNC : ENGINE_AIO;
	job->pause_ns = pause_ms * 1e6;
	pthread_mutex_init(&job->lock, NULL);
}

static uint64_t device_bytes(void)
{
	int fd = open(device, O_RDONLY);
	uint64_t bytes;

	if (fd < 0 || ioctl(fd, BLKGETSIZE64, &bytes))
		die(device);
	close(fd);
	return bytes;
}

int main(int argc, char **argv)
{
	static struct job jobs[JOBS_MAX];
	static struct worker workers[JOBS_MAX * THREADS_MAX];
	unsigned int count = argc - 3, threads = 0, sequential = 0, i, j;
	unsigned int part = 0;
	uint64_t bytes;
	double seconds;

	if (argc < 4 || count > JOBS_MAX) {
		fprintf(stderr, "usage: load DEVICE SECONDS JOB...\n");
		return 1;
	}
	device = argv[1];
	seconds = atof(argv[2]);
	bytes = device_bytes();
	for (i = 0; i < count; i++) {
		parse_job(&jobs[i], argv[i + 3]);
		if (jobs[i].sequential)
			sequential += jobs[i].threads;
	}
	start_ns = now_ns();
	stop_ns = start_ns + seconds * 1e9;
	measure_ns = start_ns + seconds * 1e9 * warm_up_share;
	for (i = 0; i < count; i++) {
		for (j = 0; j < jobs[i].threads; j++) {
			struct worker *worker = &workers[threads];

			worker->job = &jobs[i];
			worker->seed = threads + 1;
			worker->next_ns = start_ns;
			worker->end = bytes;
			if (jobs[i].sequential) {
				uint64_t size = bytes / sequential / 4096 * 4096;

				worker->begin = size * part++;
				worker->end = worker->begin + size;
				worker->position = worker->begin;
			}
			if (pthread_create(&worker->thread, NULL, work, worker))
				die("pthread_create");
			threads++;
		}
	}
	for (i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	for (i = 0; i < count; i++)
		report(&jobs[i]);
	return 0;
}
