/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libiolane: prioritized asynchronous I/O for databases on Linux.
 *
 * Generated from crates/capi/src/sys by cbindgen: change it there.
 *
 * Errors: functions that return int or int64_t give a negative enum
 * iolane_error on failure. iolane_last_error() has a sentence about the last
 * failure on the calling thread, iolane_last_os_error() its errno.
 *
 * Threads: an object may be used from any thread, by several at once, unless
 * its functions say otherwise. It must not be used while, or after, it is freed.
 *
 * fork: in a child process the objects of its parent are useless, but harmless.
 * Requests, and waiting for them, fail at once with IOLANE_ERROR_FORKED; the
 * functions that free objects may be called, and leave the parent undisturbed.
 * The child makes an engine of its own. Inside a callback a child may only call
 * exec or _exit.
 *
 * Units: offsets, lengths and sizes are bytes, times are nanoseconds.
 */

#ifndef IOLANE_H
#define IOLANE_H

#include <stddef.h>
#include <stdint.h>

/**
 * Why a call failed. iolane_error_text() has a sentence for each.
 */
typedef enum iolane_error {
        /**
         * It did not.
         */
        IOLANE_OK = 0,
        /**
         * The kernel refused: EIO, ENOSPC and the like. iolane_last_os_error() has
         * the errno.
         */
        IOLANE_ERROR_OS = -1,
        /**
         * An argument is NULL or out of range.
         */
        IOLANE_ERROR_ARGUMENT = -2,
        /**
         * An earlier sync of the file failed, so what was written before may be
         * lost, although the kernel would call the next sync good. Close all handles
         * of the file, and recover its contents.
         */
        IOLANE_ERROR_POISONED = -3,
        /**
         * The file is open for direct I/O, and offset, length or buffer are no
         * multiples of what iolane_file_offset_alignment() and
         * iolane_file_memory_alignment() say.
         */
        IOLANE_ERROR_MISALIGNED = -4,
        /**
         * Longer than one request can be (1 GiB), or beyond 2^63 bytes.
         */
        IOLANE_ERROR_TOO_LONG = -5,
        /**
         * The level has as many requests queued as it may (only inside callbacks;
         * elsewhere the call waits), or the completion queue as many outstanding.
         */
        IOLANE_ERROR_FULL = -6,
        /**
         * A callback cannot block: it runs on the thread that completes requests.
         */
        IOLANE_ERROR_IN_CALLBACK = -7,
        /**
         * The device took a part of a write and then nothing more.
         */
        IOLANE_ERROR_SHORT_WRITE = -8,
        /**
         * The engine was freed.
         */
        IOLANE_ERROR_CLOSED = -9,
        /**
         * This process is a child of the one that made the object.
         */
        IOLANE_ERROR_FORKED = -10,
        /**
         * The request was withdrawn by iolane_request_cancel().
         */
        IOLANE_ERROR_CANCELLED = -11,
        /**
         * Neither io_uring nor Linux AIO nor threads can be had here.
         */
        IOLANE_ERROR_NO_BACKEND = -12,
        /**
         * Neither a regular file nor a block device, or open for appending.
         */
        IOLANE_ERROR_NOT_A_FILE = -13,
        /**
         * The filesystem has no direct I/O.
         */
        IOLANE_ERROR_NO_DIRECT = -14,
        /**
         * The engine's settings do not go together.
         */
        IOLANE_ERROR_SETTINGS = -15,
        /**
         * The memory is not to be had.
         */
        IOLANE_ERROR_MEMORY = -16,
        /**
         * An error of a later version of the engine.
         */
        IOLANE_ERROR_OTHER = -17,
} iolane_error;

/**
 * How urgent a request is.
 */
typedef enum iolane_level {
        /**
         * A commit waits for it: writes and syncs of the log.
         */
        IOLANE_CRITICAL = 0,
        /**
         * A query waits for it: a physical read, the write of a stolen page.
         */
        IOLANE_FOREGROUND = 1,
        /**
         * Unclassified.
         */
        IOLANE_NORMAL = 2,
        /**
         * Work ahead of need: read-ahead, preflush.
         */
        IOLANE_PREFETCH = 3,
        /**
         * Nobody waits: checkpoint without pressure, backup, scrub.
         */
        IOLANE_BACKGROUND = 4,
} iolane_level;

/**
 * What a request does.
 */
typedef enum iolane_operation {
        /**
         * Read `length` bytes at `offset`.
         */
        IOLANE_READ = 0,
        /**
         * Write `length` bytes at `offset`.
         */
        IOLANE_WRITE = 1,
        /**
         * Make durable what was written by requests that have completed, with the
         * metadata needed to read it (fdatasync(2)).
         */
        IOLANE_SYNC_DATA = 2,
        /**
         * The same with all metadata (fsync(2)).
         */
        IOLANE_SYNC_ALL = 3,
} iolane_operation;

/**
 * Which rule picks the next request of a device.
 */
typedef enum iolane_policy {
        /**
         * The default: the highest level with room goes first; lower levels share
         * a learned window.
         */
        IOLANE_LANES = 0,
        /**
         * Hall and Bonnet (2005): one list per level with a deadline by level,
         * expired first, otherwise position order.
         */
        IOLANE_PRIO_DEADLINE = 1,
        /**
         * The deadline scheduler of Linux 2.6; ignores levels.
         */
        IOLANE_DEADLINE = 2,
        /**
         * First in, first out; ignores levels.
         */
        IOLANE_NOOP = 3,
} iolane_policy;

/**
 * What carries requests to the kernel.
 */
typedef enum iolane_backend {
        /**
         * The first of the others that works.
         */
        IOLANE_AUTO = 0,
        /**
         * io_uring(7).
         */
        IOLANE_IO_URING = 1,
        /**
         * io_submit(2).
         */
        IOLANE_LINUX_AIO = 2,
        /**
         * A pool of threads that make blocking calls.
         */
        IOLANE_THREADS = 3,
} iolane_backend;

/**
 * How to open a file: any of these together.
 */
typedef enum iolane_open {
        /**
         * For reading.
         */
        IOLANE_OPEN_READ = 1,
        /**
         * For writing.
         */
        IOLANE_OPEN_WRITE = 2,
        /**
         * Make it if it does not exist.
         */
        IOLANE_OPEN_CREATE = 4,
        /**
         * Make it, and fail if it exists.
         */
        IOLANE_OPEN_CREATE_NEW = 8,
        /**
         * Empty it.
         */
        IOLANE_OPEN_TRUNCATE = 16,
        /**
         * Past the page cache. Requests must fit the file's alignments then.
         */
        IOLANE_OPEN_DIRECT = 32,
        /**
         * Every write is durable when it has completed (O_DSYNC).
         */
        IOLANE_OPEN_DATA_SYNC = 64,
        /**
         * Of a block device: fail if it is mounted or in use otherwise.
         */
        IOLANE_OPEN_EXCLUSIVE = 128,
} iolane_open;

/**
 * One large mapping, on huge pages where possible, that buffers come from.
 */
typedef struct iolane_arena iolane_arena;

/**
 * Aligned memory for direct I/O. Requests take any memory; this is aligned.
 */
typedef struct iolane_buffer iolane_buffer;

/**
 * Opens files, and owns the devices that they lie on: each has one scheduler
 * and one thread.
 */
typedef struct iolane_engine iolane_engine;

/**
 * An open file or block device.
 */
typedef struct iolane_file iolane_file;

/**
 * Settings of an engine.
 */
typedef struct iolane_options iolane_options;

/**
 * A queue that requests complete into, and any number of threads take
 * completions from.
 */
typedef struct iolane_queue iolane_queue;

/**
 * A hold on one submitted request.
 */
typedef struct iolane_request iolane_request;

/**
 * The end of a request that was submitted with a queue.
 */
typedef struct iolane_completion {
        /**
         * As in its struct iolane_io.
         */
        void *user;
        /**
         * Bytes transferred: of a read fewer than asked for at the end of the file
         * only, of a write always all, of a sync 0. Or a negative enum iolane_error.
         */
        int64_t result;
        /**
         * The errno that belongs to IOLANE_ERROR_OS and IOLANE_ERROR_POISONED;
         * otherwise 0.
         */
        int32_t os_error;
} iolane_completion;

/**
 * Learns of a completion: of its result, as in struct iolane_completion. It
 * runs on the thread of the file's device, and may submit more there, but must
 * not block: all other requests of the device wait for it. (It runs inside
 * iolane_submit() or iolane_request_cancel() where a request ends there.)
 */
typedef void (*iolane_callback)(void *user, int64_t result);

/**
 * One request to be submitted. Set all of it to 0 first: later versions may use
 * what is reserved.
 */
typedef struct iolane_io {
        /**
         * On which file.
         */
        const struct iolane_file *file;
        /**
         * Memory that stays until the request has completed, and that nobody
         * changes (nor, of a read, looks at) meanwhile. NULL for a sync.
         */
        void *buffer;
        /**
         * Bytes; 0 for a sync.
         */
        size_t length;
        /**
         * First byte in the file; 0 for a sync.
         */
        uint64_t offset;
        /**
         * An enum iolane_operation.
         */
        int32_t operation;
        /**
         * An enum iolane_level, 0 to 4.
         */
        int32_t level;
        /**
         * What runs when it has completed, or NULL.
         */
        iolane_callback callback;
        /**
         * Where its completion goes, or NULL. Not together with `callback`.
         */
        const struct iolane_queue *queue;
        /**
         * Given to the callback, or found in the completion.
         */
        void *user;
        /**
         * Its own deadline: how many ns after its submission it should go to the device
         * at the latest. 0, or more than its level has
         * (iolane_options_set_deadline()): that of its level.
         */
        uint64_t deadline_ns;
        /**
         * 0.
         */
        uint64_t reserved;
} iolane_io;

/**
 * A distribution of times, in nanoseconds; 0 where nothing was counted.
 */
typedef struct iolane_latency {
        /**
         * Arithmetic mean.
         */
        uint64_t mean;
        /**
         * Half of them took no longer.
         */
        uint64_t p50;
        /**
         * 99 of 100 took no longer.
         */
        uint64_t p99;
        /**
         * 999 of 1000 took no longer.
         */
        uint64_t p999;
        /**
         * The longest.
         */
        uint64_t max;
} iolane_latency;

/**
 * Requests of one kind on one level of a device, since the engine first used
 * it.
 */
typedef struct iolane_statistics {
        /**
         * Completed, failed ones included.
         */
        uint64_t requests;
        /**
         * Bytes that were transferred.
         */
        uint64_t bytes;
        /**
         * Of `requests`: went to the device inside a transfer with others.
         */
        uint64_t merged;
        /**
         * Of `requests`: failed.
         */
        uint64_t errors;
        /**
         * From submission to hand-over to the device.
         */
        struct iolane_latency queued;
        /**
         * From hand-over to completion.
         */
        struct iolane_latency device;
} iolane_statistics;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * What an error means: a sentence in static memory, "unknown error" for a
 * number that is none. Never blocks, never fails.
 */
const char *iolane_error_text(int32_t error);

/**
 * The last failure on the calling thread: what, where and why, with what to do
 * about it; "" before the first. Inside a callback with a negative result, that
 * result. The string stays until the next call of this function on the same
 * thread. Never blocks, never fails.
 */
const char *iolane_last_error(void);

/**
 * The errno of the last failure on the calling thread; 0 where the kernel had
 * no part in it. Never blocks, never fails.
 */
int32_t iolane_last_os_error(void);

/**
 * The version of the library, as "0.1.0", in static memory. Never blocks, never
 * fails.
 */
const char *iolane_version(void);

/**
 * The default settings, to be changed by the functions below and given to
 * iolane_engine_new(). One thread at a time may change them. Never blocks,
 * never fails. To be freed by iolane_options_free().
 */
struct iolane_options *iolane_options_new(void);

/**
 * Frees settings; engines that were made with them keep what they need. NULL
 * is allowed. Never blocks.
 */
void iolane_options_free(struct iolane_options *options);

/**
 * Which enum iolane_backend carries requests; IOLANE_AUTO by default. Never
 * blocks. Fails with IOLANE_ERROR_ARGUMENT for any other number.
 */
int32_t iolane_options_set_backend(struct iolane_options *options, int32_t backend);

/**
 * Which enum iolane_policy picks requests; IOLANE_LANES by default. Never
 * blocks. Fails with IOLANE_ERROR_ARGUMENT for any other number.
 */
int32_t iolane_options_set_policy(struct iolane_options *options, int32_t policy);

/**
 * Whether levels are handed on to the kernel as I/O priorities (ioprio_set(2)),
 * so that its schedulers can help: 1, the default, or 0. Never blocks. Fails
 * with IOLANE_ERROR_ARGUMENT.
 */
int32_t iolane_options_set_kernel_priority(struct iolane_options *options, int32_t enabled);

/**
 * How many transfers a device may have in flight: 1 to 65536, or 0 for what
 * IOLANE_LANES learns while it runs, which is its default. The others have 32,
 * IOLANE_NOOP 1024. Never blocks. Fails with IOLANE_ERROR_ARGUMENT for NULL;
 * other numbers are refused when a file is opened, with IOLANE_ERROR_SETTINGS.
 */
int32_t iolane_options_set_window(struct iolane_options *options, uint32_t transfers);

/**
 * When a request of a level should go to the device at the latest: this many
 * nanoseconds after its submission. By default 31, 82, 216, 570 and 1500 times
 * what the device needs for one request, with IOLANE_PRIO_DEADLINE 0.25 to 12
 * seconds. IOLANE_NOOP and IOLANE_DEADLINE have none. Never blocks. Fails with
 * IOLANE_ERROR_ARGUMENT.
 */
int32_t iolane_options_set_deadline(struct iolane_options *options,
                                    int32_t level,
                                    uint64_t nanoseconds);

/**
 * How many requests of a level may be queued per device, 1 to 1048576; 4096 by
 * default. Whoever submits more waits. Never blocks. Fails with
 * IOLANE_ERROR_ARGUMENT; a number out of range is refused when a file is
 * opened, with IOLANE_ERROR_SETTINGS.
 */
int32_t iolane_options_set_queued_max(struct iolane_options *options,
                                      int32_t level,
                                      uint32_t requests);

/**
 * Memory that is registered with the kernel where the backend can, so that
 * transfers to and from buffers in it cost less. The engine keeps it. Never
 * blocks. Fails with IOLANE_ERROR_ARGUMENT.
 */
int32_t iolane_options_set_arena(struct iolane_options *options, const struct iolane_arena *arena);

/**
 * Makes an engine with these settings; NULL stands for the defaults. Nothing is
 * opened or started before it is needed. Never blocks. Fails with
 * IOLANE_ERROR_ARGUMENT or IOLANE_ERROR_SETTINGS. To be freed by
 * iolane_engine_free().
 */
int32_t iolane_engine_new(const struct iolane_options *options, struct iolane_engine **engine);

/**
 * Frees an engine: requests from now on fail with IOLANE_ERROR_CLOSED; blocks
 * until those outstanding have been carried out and their callbacks have run
 * (not inside a callback, nor in a child process). Files may be freed later.
 * NULL is allowed.
 */
void iolane_engine_free(struct iolane_engine *engine);

/**
 * Opens a regular file or a block device. `flags` are of enum iolane_open, at
 * least one of IOLANE_OPEN_READ and IOLANE_OPEN_WRITE. The file is made at least
 * `size` bytes long, with the space allocated where the filesystem can; 0 leaves
 * it as it is. Blocks as open(2) does. Requests on one file that overlap, one of
 * them a write, are carried out in the order of their submission. Fails with
 * IOLANE_ERROR_OS, _ARGUMENT, _NOT_A_FILE, _NO_DIRECT, _SETTINGS or _FORKED. To
 * be freed by iolane_file_free().
 */
int32_t iolane_file_open(const struct iolane_engine *engine,
                         const char *name,
                         uint32_t flags,
                         uint64_t size,
                         struct iolane_file **file);

/**
 * Takes over a file that is open already, by its descriptor, which is closed
 * with the file, and also on failure. Access, O_DIRECT and O_DSYNC are as it was
 * opened. `name` names it in errors. Never blocks for long. Fails as
 * iolane_file_open(). To be freed by iolane_file_free().
 */
int32_t iolane_file_adopt(const struct iolane_engine *engine,
                          int32_t descriptor,
                          const char *name,
                          struct iolane_file **file);

/**
 * Frees a file. It is closed when its last request has completed. NULL is
 * allowed. Never blocks but as close(2) does.
 */
void iolane_file_free(struct iolane_file *file);

/**
 * Bytes now: a file's end, or a device's capacity. Blocks as fstat(2) does.
 * Fails with IOLANE_ERROR_OS or IOLANE_ERROR_ARGUMENT.
 */
int64_t iolane_file_size(const struct iolane_file *file);

/**
 * What offsets and lengths must be multiples of, in bytes; 1 of a file that is
 * not direct. Never blocks. Fails with IOLANE_ERROR_ARGUMENT.
 */
int64_t iolane_file_offset_alignment(const struct iolane_file *file);

/**
 * What addresses of buffers must be multiples of, in bytes; 1 of a file that is
 * not direct. Never blocks. Fails with IOLANE_ERROR_ARGUMENT.
 */
int64_t iolane_file_memory_alignment(const struct iolane_file *file);

/**
 * The enum iolane_backend that carries requests of the file's device. Starts
 * the device's thread if nothing did before, and waits for that. Fails with
 * IOLANE_ERROR_NO_BACKEND, _ARGUMENT or _FORKED.
 */
int32_t iolane_file_backend(const struct iolane_file *file);

/**
 * Maps `bytes` of memory and brings all of it in, on hugetlbfs pages,
 * transparent huge pages or plain ones, whichever is to be had. Blocks some
 * tenths of a second per GiB. Fails with IOLANE_ERROR_MEMORY or
 * IOLANE_ERROR_ARGUMENT. To be freed by iolane_arena_free().
 */
int32_t iolane_arena_new(uint64_t bytes, struct iolane_arena **arena);

/**
 * Frees an arena; its memory is unmapped when its last buffer and the engines
 * that know it are freed. NULL is allowed. Never blocks.
 */
void iolane_arena_free(struct iolane_arena *arena);

/**
 * A buffer of `length` bytes at a multiple of `alignment` bytes, a power of two
 * (0: 4096), from `arena`, or with NULL standing alone and zeroed. Never blocks.
 * Fails with IOLANE_ERROR_MEMORY, _ARGUMENT or _FORKED; a machine out of memory
 * ends the process. To be freed by iolane_buffer_free().
 */
int32_t iolane_buffer_new(const struct iolane_arena *arena,
                          size_t length,
                          size_t alignment,
                          struct iolane_buffer **buffer);

/**
 * First byte of a buffer; NULL for NULL. Never blocks.
 */
void *iolane_buffer_data(const struct iolane_buffer *buffer);

/**
 * Bytes of a buffer; 0 for NULL. Never blocks.
 */
size_t iolane_buffer_length(const struct iolane_buffer *buffer);

/**
 * Frees a buffer. No request may be using it. NULL is allowed. Never blocks.
 */
void iolane_buffer_free(struct iolane_buffer *buffer);

/**
 * A queue for at most `capacity` requests, outstanding or completed and not
 * taken, 1 to 1048576. Never blocks. Fails with IOLANE_ERROR_ARGUMENT. To be
 * freed by iolane_queue_free().
 */
int32_t iolane_queue_new(size_t capacity, struct iolane_queue **queue);

/**
 * Frees a queue. What completes later into it is thrown away; its buffers must
 * stay until the engine is freed. NULL is allowed. Never blocks. No thread may
 * be waiting in it.
 */
void iolane_queue_free(struct iolane_queue *queue);

/**
 * An eventfd(2) that is readable while the queue has completions: for poll,
 * epoll or io_uring. It belongs to the queue: neither read nor close it. Never
 * blocks. Fails with IOLANE_ERROR_OS, _ARGUMENT or _FORKED.
 */
int32_t iolane_queue_descriptor(const struct iolane_queue *queue);

/**
 * Takes completions, in the order in which they came: as many as there are, at
 * most `most`. Waits until there are at least `least`, but no longer than
 * `timeout` nanoseconds; a negative timeout has no end, and with 0 it never
 * blocks. Returns how many it took, fewer than `least` only after the timeout.
 * A callback must not wait. Fails with IOLANE_ERROR_ARGUMENT or _FORKED.
 */
int64_t iolane_queue_take(const struct iolane_queue *queue,
                          struct iolane_completion *completions,
                          size_t least,
                          size_t most,
                          int64_t timeout);

/**
 * Has it completed? 1 or 0. Never blocks. Fails with IOLANE_ERROR_ARGUMENT.
 */
int32_t iolane_request_done(const struct iolane_request *request);

/**
 * Blocks until it has completed. Returns bytes as struct iolane_completion
 * does, or why it failed; the same each time. Any number of threads may wait.
 * Fails with IOLANE_ERROR_IN_CALLBACK where that would wait for its own thread,
 * with IOLANE_ERROR_FORKED in a child of the process that submitted it.
 */
int64_t iolane_request_wait(const struct iolane_request *request);

/**
 * Something now waits for it: gives it a more urgent level, never a less urgent
 * one. 1 if it was outstanding, 0 if not; what is with the device already cannot
 * be hurried. Never blocks. Fails with IOLANE_ERROR_ARGUMENT.
 */
int32_t iolane_request_promote(const struct iolane_request *request, int32_t level);

/**
 * Withdraws it, if it has not gone to the device. 1 if it was withdrawn: then
 * it has completed with IOLANE_ERROR_CANCELLED, and its callback has run, on this
 * thread. 0 if not. Never blocks. Fails with IOLANE_ERROR_ARGUMENT.
 */
int32_t iolane_request_cancel(const struct iolane_request *request);

/**
 * Frees the hold. A request with neither callback nor queue is waited for
 * first, so that its buffer can be used again; one with either goes on, and
 * nothing blocks. NULL is allowed. Fails with IOLANE_ERROR_IN_CALLBACK, and frees
 * nothing, where it would wait for its own thread.
 */
int32_t iolane_request_free(struct iolane_request *request);

/**
 * Reads into `buffer`, and returns the bytes: fewer than `length` at the end of
 * the file only. Blocks: for the device's own time when nothing more urgent is
 * ahead, and then the calling thread makes its one system call itself; otherwise
 * in the queue of the level too. Fails with IOLANE_ERROR_OS, _ARGUMENT,
 * _MISALIGNED, _TOO_LONG, _IN_CALLBACK, _CLOSED, _FORKED or _NO_BACKEND.
 */
int64_t iolane_read(const struct iolane_file *file,
                    void *buffer,
                    size_t length,
                    uint64_t offset,
                    int32_t level);

/**
 * Writes all of `buffer`, and returns its length. The data are durable after a
 * sync that begins when this has returned, or at once on a file opened with
 * IOLANE_OPEN_DATA_SYNC. Blocks as iolane_read(). Fails as that, and with
 * IOLANE_ERROR_POISONED or _SHORT_WRITE; any part of the range may have been
 * written then.
 */
int64_t iolane_write(const struct iolane_file *file,
                     const void *buffer,
                     size_t length,
                     uint64_t offset,
                     int32_t level);

/**
 * Makes durable what has been written: `operation` is IOLANE_SYNC_DATA or
 * IOLANE_SYNC_ALL. Blocks as iolane_read(), and as long as fsync(2) does. A sync
 * that fails poisons the file: all later writes and syncs, by any handle, fail
 * with IOLANE_ERROR_POISONED until all its handles are freed. Fails otherwise as
 * iolane_read().
 */
int32_t iolane_sync(const struct iolane_file *file, int32_t operation, int32_t level);

/**
 * Submits `count` requests together: the scheduler's lock is taken once, its
 * thread woken once, and what goes to the kernel at once goes in one system
 * call. If `requests` is not NULL, it gets a hold on each, to be freed by
 * iolane_request_free(); it may only be NULL if all have a callback or a queue.
 * Returns how many were accepted, in order: fewer than `count` if one cannot be,
 * which fails the call if it is the first. Each that was accepted completes
 * exactly once, also with an error. Blocks while a level has as many requests
 * queued as it may; inside a callback such requests complete with
 * IOLANE_ERROR_FULL instead. Fails with IOLANE_ERROR_ARGUMENT, _MISALIGNED,
 * _TOO_LONG, _POISONED, _OS (EBADF, EINVAL for length 0), _FULL (the completion
 * queue) or _FORKED.
 */
int64_t iolane_submit(const struct iolane_io *ios, size_t count, struct iolane_request **requests);

/**
 * What the device of `file` did of one enum iolane_level and one kind of
 * request: IOLANE_READ, IOLANE_WRITE, or IOLANE_SYNC_DATA for all syncs. A
 * promoted request counts on its new level. Takes some tens of microseconds
 * under the device's lock. Fails with IOLANE_ERROR_ARGUMENT.
 */
int32_t iolane_file_statistics(const struct iolane_file *file,
                               int32_t level,
                               int32_t operation,
                               struct iolane_statistics *statistics);

/**
 * How many requests of the file's device are outstanding: submitted and not
 * completed. Never blocks but for the device's lock. Fails with
 * IOLANE_ERROR_ARGUMENT.
 */
int64_t iolane_file_outstanding(const struct iolane_file *file);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* IOLANE_H */
