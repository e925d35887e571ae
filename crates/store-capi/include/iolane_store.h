/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * libiolane_store: a transactional store of tables, all of whose I/O has a
 * priority.
 *
 * Generated from crates/store-capi/src/sys by cbindgen: change it there.
 *
 * Errors: functions that return int32_t give a negative enum iolane_store_error on
 * failure. iolane_store_last_error() has a sentence about the last failure on the
 * calling thread.
 *
 * Threads: each function says from which it may be called. An object must not be
 * used while, or after, it is freed.
 *
 * Memory: what a function gives is freed by the function that it names. Bytes and
 * strings that a function takes are its caller's again when it returns.
 *
 * fork: a child process must not use what its parent has made.
 *
 * Units: lengths and sizes are bytes; names of times end with their unit.
 */

#ifndef IOLANE_STORE_H
#define IOLANE_STORE_H

#include <stddef.h>
#include <stdint.h>

/**
 * Why a call failed.
 */
typedef enum iolane_store_error {
        /**
         * It did not.
         */
        IOLANE_STORE_OK = 0,
        /**
         * An argument is NULL or out of range.
         */
        IOLANE_STORE_ERROR_ARGUMENT = -1,
        /**
         * There is a row with this key; iolane_store_last_key() says which key that is.
         */
        IOLANE_STORE_ERROR_DUPLICATE = -2,
        /**
         * Another transaction has changed the row since this one began to read. Roll
         * back and try again.
         */
        IOLANE_STORE_ERROR_CONFLICT = -3,
        /**
         * Waiting for the row would never have ended. The transaction has been rolled
         * back.
         */
        IOLANE_STORE_ERROR_DEADLOCK = -4,
        /**
         * Another transaction kept the row for too long.
         */
        IOLANE_STORE_ERROR_LOCK_TIMEOUT = -5,
        /**
         * Another transaction has the row locked, and was not to be waited for.
         */
        IOLANE_STORE_ERROR_LOCKED = -6,
        /**
         * As many rows are locked as may be.
         */
        IOLANE_STORE_ERROR_TOO_MANY_LOCKS = -7,
        /**
         * As many transactions write as may.
         */
        IOLANE_STORE_ERROR_TOO_MANY_WRITERS = -8,
        /**
         * A prepared transaction has this name already.
         */
        IOLANE_STORE_ERROR_PREPARED_EXISTS = -9,
        /**
         * No prepared transaction has this name.
         */
        IOLANE_STORE_ERROR_UNKNOWN_PREPARED = -10,
        /**
         * No such table.
         */
        IOLANE_STORE_ERROR_UNKNOWN_TABLE = -11,
        /**
         * No such index.
         */
        IOLANE_STORE_ERROR_UNKNOWN_INDEX = -12,
        /**
         * There is a table of this name.
         */
        IOLANE_STORE_ERROR_TABLE_EXISTS = -13,
        /**
         * Transactions that have used the table have not ended.
         */
        IOLANE_STORE_ERROR_TABLE_IN_USE = -14,
        /**
         * Columns, keys or values that do not fit the table.
         */
        IOLANE_STORE_ERROR_SCHEMA = -15,
        /**
         * A row or key that is longer than can be stored.
         */
        IOLANE_STORE_ERROR_TOO_LARGE = -16,
        /**
         * The transaction has been rolled back, after a deadlock or a failure.
         */
        IOLANE_STORE_ERROR_ENDED = -17,
        /**
         * The transaction has no such savepoint.
         */
        IOLANE_STORE_ERROR_UNKNOWN_SAVEPOINT = -18,
        /**
         * The row was changed by a transaction that cannot be rolled back until damaged
         * tables are dropped and the store is opened again.
         */
        IOLANE_STORE_ERROR_UNFINISHED = -19,
        /**
         * There is a store in this directory already.
         */
        IOLANE_STORE_ERROR_EXISTS = -20,
        /**
         * Files that are missing, foreign, open elsewhere, or refused by the system.
         */
        IOLANE_STORE_ERROR_FILES = -21,
        /**
         * What was to be read is damaged.
         */
        IOLANE_STORE_ERROR_DAMAGED = -22,
        /**
         * Pages cannot be had; if the store has failed, it must be opened again.
         */
        IOLANE_STORE_ERROR_PAGES = -23,
        /**
         * A defect of the library. What the call was to do may be half done: close the
         * store and open it again.
         */
        IOLANE_STORE_ERROR_PANIC = -24,
        /**
         * An error of a later version of the store.
         */
        IOLANE_STORE_ERROR_OTHER = -25,
        /**
         * Somebody has ended the wait for a row that another transaction has locked.
         */
        IOLANE_STORE_ERROR_CANCELLED = -26,
        /**
         * The program did not want it to go on.
         */
        IOLANE_STORE_ERROR_STOPPED = -27,
} iolane_store_error;

/**
 * When a commit is acknowledged.
 */
typedef enum iolane_durability {
        /**
         * At once; it is on the disk about a second later. A crash of the program or
         * the machine may lose the last commits.
         */
        IOLANE_LAZY = 0,
        /**
         * When it is on the disk.
         */
        IOLANE_SYNCED = 1,
        /**
         * When it is in the log's file; on the disk about a second later. It survives
         * the end of the program; a crash of the machine may lose the last commits.
         */
        IOLANE_WRITTEN = 2,
} iolane_durability;

/**
 * What a value is.
 */
typedef enum iolane_type {
        /**
         * Nothing.
         */
        IOLANE_NULL = 0,
        /**
         * A signed number of 64 bits.
         */
        IOLANE_INTEGER = 1,
        /**
         * A number of 64 bits by IEEE 754, but no NaN.
         */
        IOLANE_REAL = 2,
        /**
         * UTF-8, ordered by its bytes.
         */
        IOLANE_TEXT = 3,
        /**
         * Any bytes.
         */
        IOLANE_BLOB = 4,
} iolane_type;

/**
 * What a transaction sees of others, and what it changes.
 */
typedef enum iolane_isolation {
        /**
         * It sees what was committed when it first read something, and changes nothing
         * else: IOLANE_STORE_ERROR_CONFLICT.
         */
        IOLANE_SNAPSHOT = 0,
        /**
         * It sees what was committed when it first read something without locking it, and
         * changes and locks the newest version of a row.
         */
        IOLANE_REPEATABLE_READ = 1,
        /**
         * It sees what was committed when the statement first read something, and
         * changes and locks the newest version of a row.
         */
        IOLANE_READ_COMMITTED = 2,
} iolane_isolation;

/**
 * How rows are locked that are read.
 */
typedef enum iolane_lock {
        /**
         * They are not.
         */
        IOLANE_LOCK_NONE = 0,
        /**
         * Others cannot change them.
         */
        IOLANE_LOCK_SHARED = 1,
        /**
         * Others cannot lock them.
         */
        IOLANE_LOCK_EXCLUSIVE = 2,
} iolane_lock;

/**
 * What a read does with a row that another transaction has locked.
 */
typedef enum iolane_when_locked {
        /**
         * It waits.
         */
        IOLANE_WAIT = 0,
        /**
         * It fails with IOLANE_STORE_ERROR_LOCKED.
         */
        IOLANE_REFUSE = 1,
        /**
         * It passes over the row.
         */
        IOLANE_SKIP = 2,
} iolane_when_locked;

/**
 * Whether a range has an end, and whether that is in it.
 */
typedef enum iolane_bound {
        /**
         * It goes to the end of the index.
         */
        IOLANE_UNBOUNDED = 0,
        /**
         * With the bound: all rows that begin with its values.
         */
        IOLANE_INCLUDED = 1,
        /**
         * Without the bound: no row that begins with its values.
         */
        IOLANE_EXCLUDED = 2,
} iolane_bound;

/**
 * A store as it is at one moment, to be copied. For one thread at a time.
 */
typedef struct iolane_backup iolane_backup;

/**
 * How far a transaction has come in a range. For one thread at a time.
 */
typedef struct iolane_cursor iolane_cursor;

/**
 * A table that is being made and filled. For one thread at a time.
 */
typedef struct iolane_load iolane_load;

/**
 * How far a transaction has come in many ranges. For one thread at a time.
 */
typedef struct iolane_many iolane_many;

/**
 * Room for a row, or a list of values, that the library fills.
 */
typedef struct iolane_row iolane_row;

/**
 * An open store of tables.
 */
typedef struct iolane_store iolane_store;

/**
 * A transaction. For one thread at a time.
 */
typedef struct iolane_transaction iolane_transaction;

/**
 * How a store is made and opened; iolane_store_options_init() fills it.
 */
typedef struct iolane_store_options {
        /**
         * Bytes of a page, when it is made: a power of two from 4 to 64 KiB.
         */
        uint64_t page_bytes;
        /**
         * Bytes of pages kept in memory.
         */
        uint64_t pool_bytes;
        /**
         * Bytes of the redo log, when it is made.
         */
        uint64_t log_bytes;
        /**
         * Files of tables that are kept open.
         */
        uint64_t files_max;
        /**
         * Whether these are read and written past the page cache: 1 or 0.
         */
        int32_t direct;
        /**
         * Of enum iolane_durability, for commits that say nothing else.
         */
        int32_t durability;
        /**
         * How long a transaction waits for others, unless it says otherwise.
         */
        uint64_t lock_timeout_ms;
        /**
         * Rows that may be locked at a time.
         */
        uint64_t locks_max;
        /**
         * Transactions that may write at a time.
         */
        uint32_t writers_max;
        /**
         * Whether it reads ahead of scans and indexes, and writes changed pages before
         * their memory is needed: 1, or 0 for what InnoDB does.
         */
        int32_t read_ahead;
        /**
         * Whether requests carry the level of what they are for: 1 or 0.
         */
        int32_t priorities;
        /**
         * Whether the pages that are in memory when the store is closed are read again
         * when it is opened, in the background: 1 or 0.
         */
        int32_t preload;
} iolane_store_options;

/**
 * One value.
 */
typedef struct iolane_value {
        /**
         * Of enum iolane_type.
         */
        int32_t kind;
        /**
         * Of IOLANE_INTEGER.
         */
        int64_t integer;
        /**
         * Of IOLANE_REAL.
         */
        double real;
        /**
         * Of IOLANE_TEXT and IOLANE_BLOB; NULL is allowed for none.
         */
        const void *bytes;
        /**
         * Their number.
         */
        size_t length;
} iolane_value;

/**
 * Which rows, in which order. Bounds have values for the first columns of the
 * index, or all. Zeros mean all rows of the table in the order of its primary key.
 */
typedef struct iolane_range {
        /**
         * A secondary index; NULL for the primary key.
         */
        const char *index;
        /**
         * Values of the lower bound.
         */
        const struct iolane_value *lower;
        /**
         * Their number.
         */
        size_t lower_count;
        /**
         * Of enum iolane_bound.
         */
        int32_t lower_bound;
        /**
         * Of enum iolane_bound.
         */
        int32_t upper_bound;
        /**
         * Values of the upper bound.
         */
        const struct iolane_value *upper;
        /**
         * Their number.
         */
        size_t upper_count;
        /**
         * 1: from the upper bound down.
         */
        int32_t backward;
        /**
         * Of enum iolane_lock: whether each row is locked when it comes.
         */
        int32_t lock;
        /**
         * Of enum iolane_when_locked.
         */
        int32_t when_locked;
        /**
         * 1: with an index, and without locks, rows have its columns and those of the primary
         * key only, all others are null. Mostly the rows need not be read then.
         */
        int32_t only_keys;
        /**
         * 1: with locks, it is the first of several, which follow by iolane_cursor_go_on().
         */
        int32_t one_of_many;
} iolane_range;

/**
 * Is asked for every row whether to go on: it should be quick. Returns 0 to stop.
 */
typedef int32_t (*iolane_go_on)(void *context);

/**
 * Is told that the transaction of one owner is going to wait for that of another one;
 * 0: nobody's. Returns 0, or another number if it shall not wait:
 * IOLANE_STORE_ERROR_CANCELLED.
 */
typedef int32_t (*iolane_wait_observer)(void *context, uint64_t waiter, uint64_t blocker);

/**
 * Counts of a store since it was opened, and what it holds now.
 */
typedef struct iolane_store_statistics {
        /**
         * Pages found in memory.
         */
        uint64_t pool_hits;
        /**
         * Pages that had to be waited for.
         */
        uint64_t pool_misses;
        /**
         * Pages read.
         */
        uint64_t pool_reads;
        /**
         * Pages read ahead.
         */
        uint64_t pool_prefetches;
        /**
         * Of these, pages that nobody came for.
         */
        uint64_t pool_prefetches_wasted;
        /**
         * Frames of the pool.
         */
        uint64_t pool_frames;
        /**
         * Of these, free.
         */
        uint64_t pool_free;
        /**
         * Of these, changed and not written.
         */
        uint64_t pool_dirty;
        /**
         * Pages written.
         */
        uint64_t pages_written;
        /**
         * Syncs of tables' files.
         */
        uint64_t syncs;
        /**
         * Checkpoints.
         */
        uint64_t checkpoints;
        /**
         * Where the log ends.
         */
        uint64_t log_end;
        /**
         * Where recovery would begin.
         */
        uint64_t log_checkpoint;
        /**
         * Waits for room in the log.
         */
        uint64_t log_waits;
        /**
         * Waits for a free frame.
         */
        uint64_t frame_waits;
        /**
         * Transactions committed that had changed something.
         */
        uint64_t committed;
        /**
         * Rolled back.
         */
        uint64_t rolled_back;
        /**
         * Deadlocks.
         */
        uint64_t deadlocks;
        /**
         * Transactions that have changed something and not ended.
         */
        uint64_t writing;
        /**
         * Views that are open.
         */
        uint64_t views;
        /**
         * Row locks held.
         */
        uint64_t locks;
        /**
         * Transactions that have ended and whose old versions are not purged.
         */
        uint64_t unpurged;
        /**
         * Bytes of undo of these.
         */
        uint64_t unpurged_bytes;
        /**
         * Kernel name of the disk that the store lies on ("vda"), or "anonymous-MINOR" for
         * file systems without one. A longer name is cut short.
         */
        char device_name[32];
        /**
         * The learned window: transfers of the lower levels that may be in flight there,
         * rounded.
         */
        uint64_t window_transfers;
        /**
         * Shortest latency of a transfer there that was seen lately.
         */
        uint64_t window_service_ns;
        /**
         * Transfers a second that the volume was seen to allow, while keeping below that
         * pays; otherwise 0.
         */
        uint64_t rate_limit_transfers;
        /**
         * Bytes a second, in the same way.
         */
        uint64_t rate_limit_bytes;
        /**
         * 1 where the limit is one of reads, and as much of writes; 0 where it is of both
         * together, or there is none.
         */
        uint64_t rate_limit_each;
        /**
         * Most writes of the lower levels between two flushes that somebody waits for, while
         * that pays; otherwise 0.
         */
        uint64_t unflushed_max;
} iolane_store_statistics;

/**
 * Sizes of a table, or of one of its indexes.
 */
typedef struct iolane_table_statistics {
        /**
         * Rows or entries, about.
         */
        uint64_t rows;
        /**
         * Levels of its tree.
         */
        uint64_t height;
        /**
         * Pages of its tree that are leaves.
         */
        uint64_t leaf_pages;
        /**
         * Pages of its tree that are branches.
         */
        uint64_t branch_pages;
        /**
         * Pages of the table's file.
         */
        uint64_t file_pages;
        /**
         * Of these, in use.
         */
        uint64_t used_pages;
        /**
         * Of these, pages of long values.
         */
        uint64_t long_pages;
} iolane_table_statistics;

/**
 * Tells how many parts are whole in bytes that the first column of a key begins with.
 */
typedef size_t (*iolane_whole_parts)(void *context, const void *bytes, size_t length);

/**
 * Requests of one role, level and kind to the device under a store.
 */
typedef struct iolane_ledger_line {
        /**
         * What they were for: "log", "read", "scan" and so on; in static memory.
         */
        const char *role;
        /**
         * Their priority: "critical", "foreground", "normal", "prefetch" or "background";
         * in static memory.
         */
        const char *level;
        /**
         * "read", "write" or "sync"; in static memory.
         */
        const char *kind;
        /**
         * Completed, failed ones included.
         */
        uint64_t requests;
        /**
         * Bytes that were transferred.
         */
        uint64_t bytes;
        /**
         * Failed.
         */
        uint64_t errors;
        /**
         * From submission to hand-over to the device, on average.
         */
        uint64_t queued_ns;
        /**
         * From hand-over to completion, on average.
         */
        uint64_t device_ns;
        /**
         * 99 of 100 took no longer from hand-over to completion.
         */
        uint64_t device_p99_ns;
} iolane_ledger_line;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/**
 * The last failure on the calling thread: what, where and why, with what to do
 * about it; "" before the first. The string stays until the next failure on the
 * same thread. Never blocks, never fails. From any thread.
 */
const char *iolane_store_last_error(void);

/**
 * The key of which the last failure on the calling thread was a duplicate:
 * "primary key" or the name of an index; "" after other failures. The string stays
 * until the next failure on the same thread. Never blocks, never fails. From any
 * thread.
 */
const char *iolane_store_last_key(void);

/**
 * The version of the library, as "0.2.0", in static memory. Never blocks, never
 * fails. From any thread.
 */
const char *iolane_store_version(void);

/**
 * Fills `options` with the defaults. Never blocks; fails with
 * IOLANE_STORE_ERROR_ARGUMENT where it is NULL. From any thread.
 */
int32_t iolane_store_options_init(struct iolane_store_options *options);

/**
 * Makes room for a row, to be freed by iolane_row_free(). Never blocks; fails with
 * IOLANE_STORE_ERROR_ARGUMENT where `row` is NULL. From any thread.
 */
int32_t iolane_row_new(struct iolane_row **row);

/**
 * Frees it; NULL is allowed. Never blocks. Not while another thread uses it.
 */
void iolane_row_free(struct iolane_row *row);

/**
 * The values in it, in the order of the table's columns. They stay until the row is
 * filled again or freed. Never blocks; fails with IOLANE_STORE_ERROR_ARGUMENT. Not
 * while another thread fills it.
 */
int32_t iolane_row_values(const struct iolane_row *row,
                          const struct iolane_value **values,
                          size_t *count);

/**
 * Makes an empty store in the directory `path`, which is made if need be, and opens
 * it. To be closed by iolane_store_close(). Blocks until it is on the disk. Fails
 * with IOLANE_STORE_ERROR_EXISTS where there is one, _FILES, _ARGUMENT. From any
 * thread.
 */
int32_t iolane_store_create(const char *path,
                            const struct iolane_store_options *settings,
                            struct iolane_store **store);

/**
 * Opens a store: brings its pages to the end of the log, and rolls back what was
 * neither committed nor prepared. To be closed by iolane_store_close(). Blocks as
 * long as that takes. Fails with IOLANE_STORE_ERROR_FILES, _DAMAGED, _PAGES,
 * _ARGUMENT. From any thread.
 */
int32_t iolane_store_open(const char *path,
                          const struct iolane_store_options *settings,
                          struct iolane_store **store);

/**
 * Writes everything that is changed, and closes it; NULL is allowed. Blocks as long
 * as that takes. All its transactions and cursors are to be freed before; otherwise
 * the store stays open until the last one is, which this function says with
 * IOLANE_STORE_ERROR_TABLE_IN_USE. Also fails with _PAGES: what was committed
 * durably is in the log. `store` cannot be used any more, however it ends. From any
 * thread.
 */
int32_t iolane_store_close(struct iolane_store *store);

/**
 * Makes an empty table, for good when this returns. `schema` is JSON, as in
 * docs/store.md: name, columns, primary_key, indexes. It is no part of a
 * transaction. Blocks until it is on the disk. Fails with
 * IOLANE_STORE_ERROR_TABLE_EXISTS, _SCHEMA, _ARGUMENT, _FILES, _PAGES, _DAMAGED. From
 * any thread.
 */
int32_t iolane_store_table_create(const struct iolane_store *store, const char *schema);

/**
 * Drops a table with all its rows, for good when this returns; also a damaged one.
 * Blocks until it is on the disk. Fails with IOLANE_STORE_ERROR_UNKNOWN_TABLE,
 * _TABLE_IN_USE, _FILES, _PAGES, _ARGUMENT. From any thread.
 */
int32_t iolane_store_table_drop(const struct iolane_store *store, const char *name);

/**
 * Fills `row` with the names of all tables, in their order, as texts. Never blocks
 * for long; fails with IOLANE_STORE_ERROR_ARGUMENT. From any thread.
 */
int32_t iolane_store_tables(const struct iolane_store *store, struct iolane_row *row);

/**
 * Fills `row` with the schema of a table: one text, as
 * iolane_store_table_create() takes it. May read the table's description, which
 * blocks; fails with IOLANE_STORE_ERROR_UNKNOWN_TABLE, _DAMAGED, _PAGES, _ARGUMENT.
 * From any thread.
 */
int32_t iolane_store_table_schema(const struct iolane_store *store,
                                  const char *name,
                                  struct iolane_row *row);

/**
 * Fills `row` with the names of all prepared transactions, as blobs. Never blocks
 * for long; fails with IOLANE_STORE_ERROR_ARGUMENT. From any thread.
 */
int32_t iolane_store_prepared(const struct iolane_store *store, struct iolane_row *row);

/**
 * Says in `is_changed` whether a prepared transaction has changed a table: 1 or 0.
 * Where one is just being ended, perhaps not. May read the table's description, which
 * blocks; fails with IOLANE_STORE_ERROR_UNKNOWN_TABLE, _DAMAGED, _PAGES, _ARGUMENT.
 * From any thread.
 */
int32_t iolane_store_is_changed_by_prepared(const struct iolane_store *store,
                                            const char *table,
                                            int32_t *is_changed);

/**
 * Commits a prepared transaction. `how` is of enum iolane_durability. Blocks as long
 * as that asks for. Fails with IOLANE_STORE_ERROR_UNKNOWN_PREPARED, _PAGES,
 * _ARGUMENT. From any thread.
 */
int32_t iolane_store_commit_prepared(const struct iolane_store *store,
                                     const void *xid,
                                     size_t length,
                                     int32_t how);

/**
 * Undoes a prepared transaction. Blocks until that is durable as the store's options
 * say. Fails with IOLANE_STORE_ERROR_UNKNOWN_PREPARED, _PAGES, _ARGUMENT. From any
 * thread.
 */
int32_t iolane_store_rollback_prepared(const struct iolane_store *store,
                                       const void *xid,
                                       size_t length);

/**
 * Makes all that was changed until now durable in the log, commits above all that
 * did not wait for it. Blocks until it is. Fails with IOLANE_STORE_ERROR_PAGES,
 * _ARGUMENT. From any thread.
 */
int32_t iolane_store_sync(const struct iolane_store *store);

/**
 * Returns once all that was committed before the call is in its place in the files
 * of the tables. Blocks until it is. Fails with IOLANE_STORE_ERROR_PAGES, _ARGUMENT.
 * From any thread.
 */
int32_t iolane_store_checkpoint(const struct iolane_store *store);

/**
 * Copies all tables, as they are at one moment, to a new store in the directory
 * `path`, at the level of backups; puts the number of rows into `rows`. Blocks as
 * long as that takes. Fails with IOLANE_STORE_ERROR_EXISTS, _FILES, _PAGES, _DAMAGED,
 * _ARGUMENT; then what was copied is removed. From any thread.
 */
int32_t iolane_store_backup(const struct iolane_store *store,
                            const char *path,
                            const struct iolane_store_options *settings,
                            uint64_t *rows);

/**
 * Walks everything, beside other work and at the level of checks: pages, trees, rows
 * against index entries, undo. Fills `row` with what is wrong, a text each; nothing
 * if all is in order. Blocks as long as that takes. Fails with
 * IOLANE_STORE_ERROR_PAGES, _ARGUMENT. From any thread.
 */
int32_t iolane_store_check(const struct iolane_store *store, struct iolane_row *row);

/**
 * Begins a transaction, to be ended by iolane_transaction_commit(), _rollback() or
 * _prepare(). `isolated` is of enum iolane_isolation. With `bulk` = 1 it is work that
 * nobody waits for: its pages are read at the level of backups, behind all others.
 * It waits for others for `lock_timeout_ms` at the most. Never blocks; fails with
 * IOLANE_STORE_ERROR_ARGUMENT. From any thread; the transaction is for one at a time.
 */
int32_t iolane_transaction_begin(const struct iolane_store *store,
                                 int32_t isolated,
                                 int32_t bulk,
                                 uint64_t lock_timeout_ms,
                                 struct iolane_transaction **transaction);

/**
 * How long it waits for others from now on. Never blocks; fails with
 * IOLANE_STORE_ERROR_ARGUMENT. For one thread at a time.
 */
int32_t iolane_transaction_set_lock_timeout(struct iolane_transaction *transaction,
                                            uint64_t lock_timeout_ms);

/**
 * Whether what it does from here on is work that nobody waits for, 1 or 0: as `bulk` of
 * iolane_transaction_begin(). Cursors that are open go on as they were. Never blocks;
 * fails with IOLANE_STORE_ERROR_ARGUMENT. For one thread at a time.
 */
int32_t iolane_transaction_set_bulk(struct iolane_transaction *transaction, int32_t bulk);

/**
 * Looks now: what is committed by now is what it sees. Never blocks for long; fails
 * with IOLANE_STORE_ERROR_ENDED, _ARGUMENT. For one thread at a time.
 */
int32_t iolane_transaction_open_view(struct iolane_transaction *transaction);

/**
 * Begins a statement: with IOLANE_READ_COMMITTED it sees from now on what is
 * committed when it next reads. Never blocks; fails with IOLANE_STORE_ERROR_ENDED,
 * _ARGUMENT. For one thread at a time.
 */
int32_t iolane_transaction_begin_statement(struct iolane_transaction *transaction);

/**
 * Makes its changes visible to others, and durable as `how`, of enum
 * iolane_durability, says. Blocks as long as that asks for. Frees the transaction,
 * however it ends. Fails with IOLANE_STORE_ERROR_ENDED, _PAGES, _ARGUMENT: then it
 * is not committed, or the store has failed and shows when it is opened again. For
 * one thread.
 */
int32_t iolane_transaction_commit(struct iolane_transaction *transaction, int32_t how);

/**
 * Undoes all its changes, and frees it; NULL is allowed. Blocks while pages are read
 * for that. Fails with IOLANE_STORE_ERROR_PAGES: it is rolled back when the store is
 * opened again. For one thread.
 */
int32_t iolane_transaction_rollback(struct iolane_transaction *transaction);

/**
 * Makes its changes durable under a name of 1 to 140 bytes, and leaves them to
 * iolane_store_commit_prepared() or iolane_store_rollback_prepared(); its rows stay
 * locked until then. Blocks as long as `how`, of enum iolane_durability, asks for.
 * Frees the transaction, however it ends. Fails with
 * IOLANE_STORE_ERROR_PREPARED_EXISTS, _ENDED, _TOO_MANY_WRITERS, _PAGES, _ARGUMENT:
 * then it is rolled back, or the store has failed. For one thread.
 */
int32_t iolane_transaction_prepare(struct iolane_transaction *transaction,
                                   const void *xid,
                                   size_t length,
                                   int32_t how);

/**
 * A point that iolane_transaction_rollback_to() goes back to. Never blocks; fails
 * with IOLANE_STORE_ERROR_ENDED, _ARGUMENT. For one thread at a time.
 */
int32_t iolane_transaction_savepoint(struct iolane_transaction *transaction, uint64_t *savepoint);

/**
 * Undoes what was changed since a savepoint, which stays; later ones do not. Blocks
 * while pages are read for that. Fails with IOLANE_STORE_ERROR_UNKNOWN_SAVEPOINT,
 * _ENDED, _PAGES, _ARGUMENT. For one thread at a time.
 */
int32_t iolane_transaction_rollback_to(struct iolane_transaction *transaction, uint64_t savepoint);

/**
 * Forgets a savepoint and all later ones. Never blocks; fails with
 * IOLANE_STORE_ERROR_UNKNOWN_SAVEPOINT, _ARGUMENT. For one thread at a time.
 */
int32_t iolane_transaction_release(struct iolane_transaction *transaction, uint64_t savepoint);

/**
 * Forgets a savepoint, but none of the later ones. Never blocks; fails with
 * IOLANE_STORE_ERROR_UNKNOWN_SAVEPOINT, _ARGUMENT. For one thread at a time.
 */
int32_t iolane_transaction_forget(struct iolane_transaction *transaction, uint64_t savepoint);

/**
 * Inserts a row: values for all columns, in their order. Blocks while it waits for
 * others or reads pages. Fails with IOLANE_STORE_ERROR_DUPLICATE, _SCHEMA,
 * _TOO_LARGE, _UNKNOWN_TABLE, _CONFLICT, _DEADLOCK, _LOCK_TIMEOUT, _TOO_MANY_LOCKS,
 * _TOO_MANY_WRITERS, _ENDED, _UNFINISHED, _DAMAGED, _PAGES, _ARGUMENT; then nothing
 * was changed, and but for a deadlock the transaction can go on. For one thread at a
 * time.
 */
int32_t iolane_transaction_insert(struct iolane_transaction *transaction,
                                  const char *table,
                                  const struct iolane_value *row,
                                  size_t count);

/**
 * Replaces the row with the same primary key. Returns 1, or 0 if there is none.
 * Blocks and fails as iolane_transaction_insert(). For one thread at a time.
 */
int32_t iolane_transaction_update(struct iolane_transaction *transaction,
                                  const char *table,
                                  const struct iolane_value *row,
                                  size_t count);

/**
 * Deletes the row with a primary key. Returns 1, or 0 if there is none. Blocks and
 * fails as iolane_transaction_insert(). For one thread at a time.
 */
int32_t iolane_transaction_delete(struct iolane_transaction *transaction,
                                  const char *table,
                                  const struct iolane_value *key,
                                  size_t count);

/**
 * Fills `row` with the row of a primary key, as the transaction sees it, or with
 * `lock_mode`, of enum iolane_lock, locked and as it is then. `when` is of enum
 * iolane_when_locked. Returns 1, or 0 if there is none, or it was passed over. Blocks
 * while it waits for others or reads pages. Fails as iolane_transaction_insert(), and
 * with IOLANE_STORE_ERROR_LOCKED. For one thread at a time.
 */
int32_t iolane_transaction_get(struct iolane_transaction *transaction,
                               const char *table,
                               const struct iolane_value *key,
                               size_t count,
                               int32_t lock_mode,
                               int32_t when,
                               struct iolane_row *row);

/**
 * Makes a cursor before the first row of a range, to be freed by
 * iolane_cursor_free(), also after the transaction. Never blocks for long; fails with
 * IOLANE_STORE_ERROR_UNKNOWN_TABLE, _UNKNOWN_INDEX, _SCHEMA, _ENDED, _DAMAGED,
 * _ARGUMENT. For one thread at a time.
 */
int32_t iolane_cursor_open(struct iolane_transaction *transaction,
                           const char *table,
                           const struct iolane_range *range,
                           struct iolane_cursor **cursor);

/**
 * Fills `row` with the next row of the range. Returns 1, or 0 behind the last.
 * `transaction` is the one that the cursor was made by; between two rows it can do
 * other things. Blocks while it waits for others or reads pages. Fails as
 * iolane_transaction_get(). For one thread at a time.
 */
int32_t iolane_cursor_next(struct iolane_cursor *cursor,
                           struct iolane_transaction *transaction,
                           struct iolane_row *row);

/**
 * Goes on with another range of the same index, which has no key in common with those
 * before; of `range` only the bounds and `backward` count. Where rows are locked, a row
 * that another transaction moves meanwhile from one of the ranges to another comes once,
 * in place of the one that was there if it is in a range that has passed. With NULL no
 * range follows: iolane_cursor_next() goes on with rows that have got another primary
 * key meanwhile, and were missed where they are. iolane_cursor_turn() forgets the ranges.
 * Never blocks for long; fails with IOLANE_STORE_ERROR_SCHEMA, _ENDED, _DAMAGED,
 * _ARGUMENT. For one thread at a time.
 */
int32_t iolane_cursor_go_on(struct iolane_cursor *cursor,
                            struct iolane_transaction *transaction,
                            const struct iolane_range *range);

/**
 * Goes on from the row that came last, up to the end of the index; with `backward` =
 * 1 down to its beginning. Before the first row it changes nothing. Never blocks;
 * fails with IOLANE_STORE_ERROR_ARGUMENT. For one thread at a time.
 */
int32_t iolane_cursor_turn(struct iolane_cursor *cursor,
                           struct iolane_transaction *transaction,
                           int32_t backward);

/**
 * Frees it; NULL is allowed. Never blocks for long. For one thread.
 */
void iolane_cursor_free(struct iolane_cursor *cursor);

/**
 * Prepares to read the rows of many ranges, which come in the order of their keys if each
 * range is one primary key, and otherwise in no order; what is not in memory is read
 * together. The ranges are of one index, that of the first; only their
 * bounds count beside that. To be freed by iolane_many_free(), also after the
 * transaction. Never blocks for long; fails with IOLANE_STORE_ERROR_UNKNOWN_TABLE,
 * _UNKNOWN_INDEX, _SCHEMA, _ENDED, _DAMAGED, _ARGUMENT. For one thread at a time.
 */
int32_t iolane_many_open(struct iolane_transaction *transaction,
                         const char *table,
                         const struct iolane_range *ranges,
                         size_t count,
                         struct iolane_many **many);

/**
 * How many pages the calling thread has waited for so far, in all stores. Who reads one row
 * after the other does well to read the rest together (iolane_many_open()) once this grows.
 * Never blocks, and never fails. Thread-safe.
 */
uint64_t iolane_store_pages_awaited(void);

/**
 * Fills `row` with the next row, and `number` with that of its range, from 0. Returns
 * 1, or 0 behind the last. `transaction` is the one that it was made by; between two
 * rows it can do other things. Blocks while pages are read. Fails as
 * iolane_transaction_get(). For one thread at a time.
 */
int32_t iolane_many_next(struct iolane_many *many,
                         struct iolane_transaction *transaction,
                         struct iolane_row *row,
                         size_t *number);

/**
 * Frees it; NULL is allowed. Never blocks for long. For one thread.
 */
void iolane_many_free(struct iolane_many *many);

/**
 * How many rows a range has, or entries of its index: exact within a leaf, otherwise
 * about. Reads the pages on the way to both ends, which blocks. Fails with
 * IOLANE_STORE_ERROR_UNKNOWN_TABLE, _UNKNOWN_INDEX, _SCHEMA, _DAMAGED, _PAGES,
 * _ARGUMENT. From any thread.
 */
int32_t iolane_store_estimate(const struct iolane_store *store,
                              const char *table,
                              const struct iolane_range *range,
                              uint64_t *rows);

/**
 * How many rows a table has for anybody: those of transactions that have not ended and
 * those that only old views see are counted. One more than `most` is as far as it
 * counts. Reads their pages, which blocks. Fails with IOLANE_STORE_ERROR_UNKNOWN_TABLE,
 * _DAMAGED, _PAGES, _ARGUMENT. From any thread.
 */
int32_t iolane_store_records_up_to(const struct iolane_store *store,
                                   const char *table,
                                   uint64_t most,
                                   uint64_t *count);

/**
 * Begins to make a table, and to fill it: much faster than inserting rows, and fastest
 * in the order of the primary key. `schema` is as in iolane_store_table_create(). The
 * rows are the transaction's: others see them when it has committed. The table is no
 * part of the transaction: whoever rolls back drops it. To be freed by
 * iolane_load_free(). Blocks until its file is made. Fails with
 * IOLANE_STORE_ERROR_TABLE_EXISTS, _SCHEMA, _ENDED, _TOO_MANY_WRITERS, _FILES, _PAGES,
 * _ARGUMENT. For one thread at a time.
 */
int32_t iolane_load_begin(struct iolane_transaction *transaction,
                          const char *schema,
                          struct iolane_load **load);

/**
 * Adds a row: values for all columns, in their order. With `ascending` = 1 only if all
 * rows came in the order of their primary keys and this one is behind them, so that no
 * other one has its key. Returns 1, or 0 where it is not, and nothing has happened.
 * Blocks while pages are written. After another failure it can only be freed. Fails
 * with IOLANE_STORE_ERROR_SCHEMA, _TOO_LARGE, _DUPLICATE, _ENDED, _FILES, _PAGES,
 * _ARGUMENT. For one thread at a time.
 */
int32_t iolane_load_row(struct iolane_load *load,
                        struct iolane_transaction *transaction,
                        const struct iolane_value *row,
                        size_t count,
                        int32_t ascending);

/**
 * Makes the table, for good when this returns, with all rows. After
 * IOLANE_STORE_ERROR_DUPLICATE fills `same` with one of the rows of which there are
 * two, or with nothing if that cannot be had any more. Blocks until all is on the disk.
 * Also fails with _TABLE_EXISTS, _ENDED, _FILES, _PAGES, _ARGUMENT; then nothing of it
 * is there. For one thread at a time.
 */
int32_t iolane_load_finish(struct iolane_load *load,
                           struct iolane_transaction *transaction,
                           struct iolane_row *same);

/**
 * Frees it; NULL is allowed. Of a table that was not finished nothing is left. Blocks
 * until its file is gone. For one thread.
 */
void iolane_load_free(struct iolane_load *load);

/**
 * Begins a backup, to be freed by iolane_backup_free(). Until then the store's tables
 * stay, also those that are dropped: IOLANE_STORE_ERROR_TABLE_IN_USE. Reads the
 * descriptions of all tables, which blocks. Fails with IOLANE_STORE_ERROR_DAMAGED,
 * _PAGES, _ARGUMENT. For one thread at a time.
 */
int32_t iolane_backup_begin(const struct iolane_store *store, struct iolane_backup **backup);

/**
 * Looks now: what is committed by now is copied, and nothing else. Never blocks for
 * long; fails with IOLANE_STORE_ERROR_DAMAGED, _PAGES, _ARGUMENT. For one thread at a
 * time.
 */
int32_t iolane_backup_open_view(struct iolane_backup *backup);

/**
 * Copies it to a new store in the directory `path`, at the level of backups, once;
 * puts the number of rows into `rows`. Where `page_bytes` of its settings is 0, its
 * pages are as long as the store's. NULL for `go_on`: to the end. Blocks as long as
 * that takes. Fails with IOLANE_STORE_ERROR_STOPPED, _EXISTS, _FILES, _PAGES,
 * _DAMAGED, _ARGUMENT; then what was copied is removed. For one thread at a time.
 */
int32_t iolane_backup_copy(struct iolane_backup *backup,
                           const char *path,
                           const struct iolane_store_options *settings,
                           iolane_go_on go_on,
                           void *context,
                           uint64_t *rows);

/**
 * Frees it; NULL is allowed. Never blocks for long. For one thread.
 */
void iolane_backup_free(struct iolane_backup *backup);

/**
 * Says whose a transaction is: a number of the program's, such as that of a connection
 * with one transaction at a time; 0: nobody's. Before it locks or changes a row. Never
 * blocks; fails with IOLANE_STORE_ERROR_ARGUMENT. For one thread at a time.
 */
int32_t iolane_transaction_set_owner(struct iolane_transaction *transaction, uint64_t owner);

/**
 * Has `observer` called before a transaction with an owner waits for a row, for each
 * one that it waits for, by the thread that will wait. Those do not end meanwhile; so
 * it should be quick, and must not use the store. It stays until the store is closed;
 * only the first one does. Never blocks; fails with
 * IOLANE_STORE_ERROR_ARGUMENT. From any thread.
 */
int32_t iolane_store_observe_waits(const struct iolane_store *store,
                                   iolane_wait_observer observer,
                                   void *context);

/**
 * Ends the wait for a row of an owner's transaction, which fails with
 * IOLANE_STORE_ERROR_CANCELLED and can go on. Returns 1, or 0 if it does not wait. One
 * that is about to wait asks the observer after it can be found here. Never blocks for
 * long; fails with IOLANE_STORE_ERROR_ARGUMENT. From any thread.
 */
int32_t iolane_store_cancel_wait(const struct iolane_store *store, uint64_t owner);

/**
 * Fills `row` with a text that tells of the last deadlock, or with nothing if there was
 * none, and `seconds` with when that was, since 1970. Never blocks for long; fails with
 * IOLANE_STORE_ERROR_ARGUMENT. From any thread.
 */
int32_t iolane_store_last_deadlock(const struct iolane_store *store,
                                   uint64_t *seconds,
                                   struct iolane_row *row);

/**
 * Fills `statistics`. Never blocks for long; fails with IOLANE_STORE_ERROR_ARGUMENT.
 * From any thread.
 */
int32_t iolane_store_get_statistics(const struct iolane_store *store,
                                    struct iolane_store_statistics *statistics);

/**
 * Fills `statistics` for a table and one of its indexes, or its primary key where
 * `index` is NULL. Reads branches and some leaves of its trees, which blocks. Fails
 * with IOLANE_STORE_ERROR_UNKNOWN_TABLE, _UNKNOWN_INDEX, _DAMAGED, _PAGES, _ARGUMENT.
 * From any thread.
 */
int32_t iolane_store_table_statistics(const struct iolane_store *store,
                                      const char *table,
                                      const char *index,
                                      struct iolane_table_statistics *statistics);

/**
 * Tells how many different values the first column of a key has, about, where one value is
 * put together of several `parts`: fills `distinct`, which has room for as many, with how many
 * the first part has, the first two, and so on, and `entries` with how many entries there
 * are. `index` is NULL for the primary key. `whole_parts` is called with `context` by this
 * thread for bytes that values begin with; of an integer or a real number these are eight bytes
 * that sort as it does. Reads the branches of its tree, and for each number of parts
 * up to 32 leaves, mostly the same ones, which blocks. Fails with IOLANE_STORE_ERROR_UNKNOWN_TABLE,
 * _UNKNOWN_INDEX, _DAMAGED, _PAGES, _ARGUMENT. From any thread.
 */
int32_t iolane_store_key_statistics(const struct iolane_store *store,
                                    const char *table,
                                    const char *index,
                                    size_t parts,
                                    iolane_whole_parts whole_parts,
                                    void *context,
                                    uint64_t *entries,
                                    uint64_t *distinct);

/**
 * Puts up to `room` lines, those that have requests, into `lines`, and how many there
 * are into `count`. Since the store was opened. Takes some tens of microseconds under
 * the device's lock; fails with IOLANE_STORE_ERROR_ARGUMENT. From any thread.
 */
int32_t iolane_store_ledger(const struct iolane_store *store,
                            struct iolane_ledger_line *lines,
                            size_t room,
                            size_t *count);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* IOLANE_STORE_H */
