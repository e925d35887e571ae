/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A store from C: rows, cursors, savepoints, two-phase commit, locks between two
 * threads, errors, and that everything is freed. The last argument is an empty folder.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iolane_store.h"

#define CHECK(condition)                                                                  \
	do {                                                                              \
		if (!(condition)) {                                                       \
			fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, \
				iolane_store_last_error());                               \
			exit(1);                                                          \
		}                                                                         \
	} while (0)

#define LOCK_TIMEOUT_MS 100
#define ROWS 500

static const char SCHEMA[] =
	"{\"name\": \"person\", \"columns\": ["
	"{\"name\": \"id\", \"type\": \"integer\"}, {\"name\": \"name\", \"type\": \"blob\"}], "
	"\"primary_key\": [\"id\"], "
	"\"indexes\": [{\"name\": \"by_name\", \"columns\": [\"name\"], \"unique\": true}]}";

static iolane_store *store;

static struct iolane_value integer(int64_t number)
{
	struct iolane_value value = { .kind = IOLANE_INTEGER, .integer = number };

	return value;
}

static struct iolane_value blob(const char *text)
{
	struct iolane_value value = { .kind = IOLANE_BLOB, .bytes = text, .length = strlen(text) };

	return value;
}

static iolane_transaction *begin(void)
{
	iolane_transaction *transaction;

	CHECK(!iolane_transaction_begin(store, IOLANE_REPEATABLE_READ, 0, LOCK_TIMEOUT_MS,
					&transaction));
	return transaction;
}

static int insert(iolane_transaction *transaction, int64_t id, const char *name)
{
	struct iolane_value row[] = { integer(id), blob(name) };

	return iolane_transaction_insert(transaction, "person", row, 2);
}

static int get(iolane_transaction *transaction, int64_t id, int lock, iolane_row *row)
{
	struct iolane_value key = integer(id);

	return iolane_transaction_get(transaction, "person", &key, 1, lock, IOLANE_WAIT, row);
}

static int64_t id_of(const iolane_row *row)
{
	const struct iolane_value *values;
	size_t count;

	CHECK(!iolane_row_values(row, &values, &count));
	CHECK(count == 2 && values[0].kind == IOLANE_INTEGER && values[1].kind == IOLANE_BLOB);
	return values[0].integer;
}

static void fill(void)
{
	iolane_transaction *transaction = begin();
	char name[32];
	int id;

	for (id = 0; id < ROWS; id++) {
		snprintf(name, sizeof(name), "name %04d", ROWS - id);
		CHECK(!insert(transaction, id, name));
	}
	CHECK(!iolane_transaction_commit(transaction, IOLANE_SYNCED));
}

static void check_errors(void)
{
	iolane_transaction *transaction = begin();
	iolane_row *row;

	CHECK(!iolane_row_new(&row));
	CHECK(insert(transaction, 1, "new") == IOLANE_STORE_ERROR_DUPLICATE);
	CHECK(!strcmp(iolane_store_last_key(), "primary key"));
	CHECK(insert(transaction, ROWS, "name 0001") == IOLANE_STORE_ERROR_DUPLICATE);
	CHECK(!strcmp(iolane_store_last_key(), "by_name"));
	CHECK(strstr(iolane_store_last_error(), "person"));
	CHECK(get(transaction, ROWS, IOLANE_LOCK_NONE, row) == 0);
	CHECK(get(NULL, 1, IOLANE_LOCK_NONE, row) == IOLANE_STORE_ERROR_ARGUMENT);
	CHECK(iolane_store_table_create(store, SCHEMA) == IOLANE_STORE_ERROR_TABLE_EXISTS);
	CHECK(iolane_store_table_create(store, "{") == IOLANE_STORE_ERROR_ARGUMENT);
	CHECK(iolane_store_table_drop(store, "nobody") == IOLANE_STORE_ERROR_UNKNOWN_TABLE);
	CHECK(iolane_transaction_rollback_to(transaction, 0) < 0);
	iolane_row_free(row);
	CHECK(!iolane_transaction_rollback(transaction));
}

/* Both ways, by the primary key and by an index of the reverse order. */
static void check_cursor(const char *index)
{
	iolane_transaction *transaction = begin();
	struct iolane_range range = { .index = index, .lock = IOLANE_LOCK_SHARED };
	int64_t first = index ? ROWS - 1 : 0, step = index ? -1 : 1;
	iolane_cursor *cursor;
	iolane_row *row;
	int at;

	CHECK(!iolane_row_new(&row));
	CHECK(!iolane_cursor_open(transaction, "person", &range, &cursor));
	for (at = 0; at < ROWS; at++) {
		CHECK(iolane_cursor_next(cursor, transaction, row) == 1);
		CHECK(id_of(row) == first + step * at);
	}
	CHECK(iolane_cursor_next(cursor, transaction, row) == 0);
	CHECK(!iolane_cursor_turn(cursor, transaction, 1));
	CHECK(iolane_cursor_next(cursor, transaction, row) == 1);
	CHECK(id_of(row) == first + step * (ROWS - 2));
	CHECK(!iolane_transaction_rollback(transaction));
	/* It may be freed after its transaction. */
	iolane_cursor_free(cursor);
	iolane_row_free(row);
}

/* From `lower` up to one less than `upper`. */
static void check_next(iolane_cursor *cursor, iolane_transaction *transaction, int64_t lower,
		       int64_t upper)
{
	iolane_row *row;

	CHECK(!iolane_row_new(&row));
	for (; lower < upper; lower++) {
		CHECK(iolane_cursor_next(cursor, transaction, row) == 1);
		CHECK(id_of(row) == lower);
	}
	CHECK(iolane_cursor_next(cursor, transaction, row) == 0);
	iolane_row_free(row);
}

/* One cursor through two ranges, the second of which goes to the end. */
static void check_ranges(int lock)
{
	iolane_transaction *transaction = begin();
	struct iolane_value lower = integer(3), upper = integer(9);
	struct iolane_range range = {
		.lower = &lower,
		.lower_count = 1,
		.lower_bound = IOLANE_INCLUDED,
		.upper = &upper,
		.upper_count = 1,
		.upper_bound = IOLANE_EXCLUDED,
		.lock = lock,
		.one_of_many = 1,
	};
	iolane_cursor *cursor;

	CHECK(!iolane_cursor_open(transaction, "person", &range, &cursor));
	check_next(cursor, transaction, 3, 9);
	lower = integer(ROWS - 4);
	range.upper_bound = IOLANE_UNBOUNDED;
	CHECK(!iolane_cursor_go_on(cursor, transaction, &range));
	check_next(cursor, transaction, ROWS - 4, ROWS);
	range.lower_bound = 7;
	CHECK(iolane_cursor_go_on(cursor, transaction, &range) == IOLANE_STORE_ERROR_ARGUMENT);
	CHECK(iolane_cursor_go_on(NULL, transaction, &range) == IOLANE_STORE_ERROR_ARGUMENT);
	CHECK(!iolane_cursor_go_on(cursor, transaction, NULL));
	check_next(cursor, transaction, ROWS, ROWS);
	iolane_cursor_free(cursor);
	CHECK(!iolane_transaction_rollback(transaction));
}

static const char TOWNS[] =
	"{\"name\": \"town\", \"columns\": [{\"name\": \"id\", \"type\": \"integer\"}, "
	"{\"name\": \"people\", \"type\": \"integer\"}, {\"name\": \"name\", \"type\": \"blob\"}], "
	"\"primary_key\": [\"id\"], "
	"\"indexes\": [{\"name\": \"by_people\", \"columns\": [\"people\"], \"unique\": false}]}";

/* What an index does not have is null; not where rows are locked. */
static void check_only_keys(void)
{
	iolane_transaction *transaction = begin();
	struct iolane_range range = { .index = "by_people", .only_keys = 1 };
	struct iolane_value town[] = { integer(1), integer(1000), blob("Ulm") };
	const struct iolane_value *values;
	iolane_cursor *cursor;
	iolane_row *row;
	size_t count;
	int lock;

	CHECK(!iolane_row_new(&row));
	CHECK(!iolane_store_table_create(store, TOWNS));
	CHECK(!iolane_transaction_insert(transaction, "town", town, 3));
	for (lock = IOLANE_LOCK_NONE; lock <= IOLANE_LOCK_SHARED; lock++) {
		range.lock = lock;
		CHECK(!iolane_cursor_open(transaction, "town", &range, &cursor));
		CHECK(iolane_cursor_next(cursor, transaction, row) == 1);
		CHECK(!iolane_row_values(row, &values, &count) && count == 3);
		CHECK(values[0].integer == 1 && values[1].integer == 1000);
		CHECK(values[2].kind == (lock == IOLANE_LOCK_NONE ? IOLANE_NULL : IOLANE_BLOB));
		CHECK(iolane_cursor_next(cursor, transaction, row) == 0);
		iolane_cursor_free(cursor);
	}
	iolane_row_free(row);
	CHECK(!iolane_transaction_rollback(transaction));
	CHECK(!iolane_store_table_drop(store, "town"));
}

static void check_savepoints(void)
{
	iolane_transaction *transaction = begin();
	iolane_row *row;
	uint64_t savepoint, later;

	CHECK(!iolane_row_new(&row));
	CHECK(!iolane_transaction_savepoint(transaction, &savepoint));
	CHECK(!insert(transaction, ROWS, "new"));
	CHECK(get(transaction, ROWS, IOLANE_LOCK_NONE, row) == 1);
	CHECK(!iolane_transaction_rollback_to(transaction, savepoint));
	CHECK(get(transaction, ROWS, IOLANE_LOCK_NONE, row) == 0);
	CHECK(!iolane_transaction_savepoint(transaction, &later));
	CHECK(!iolane_transaction_forget(transaction, savepoint));
	CHECK(iolane_transaction_forget(transaction, savepoint) == IOLANE_STORE_ERROR_UNKNOWN_SAVEPOINT);
	savepoint = later;
	CHECK(!iolane_transaction_release(transaction, savepoint));
	CHECK(iolane_transaction_release(transaction, savepoint) == IOLANE_STORE_ERROR_UNKNOWN_SAVEPOINT);
	CHECK(!iolane_transaction_commit(transaction, IOLANE_LAZY));
	iolane_row_free(row);
}

static void *wait_for_row(void *unused)
{
	iolane_transaction *transaction = begin();
	iolane_row *row;

	(void) unused;
	CHECK(!iolane_row_new(&row));
	CHECK(get(transaction, 7, IOLANE_LOCK_EXCLUSIVE, row) == IOLANE_STORE_ERROR_LOCK_TIMEOUT);
	/* The message is this thread's. */
	CHECK(strstr(iolane_store_last_error(), "locked"));
	iolane_row_free(row);
	CHECK(!iolane_transaction_rollback(transaction));
	return NULL;
}

/* A prepared transaction keeps its lock, and is decided by another thread's call. */
static void check_prepared(void)
{
	iolane_transaction *transaction = begin();
	struct iolane_value changed[] = { integer(7), blob("changed") };
	const struct iolane_value *names;
	iolane_row *row;
	pthread_t other;
	size_t count;

	CHECK(!iolane_row_new(&row));
	CHECK(iolane_transaction_update(transaction, "person", changed, 2) == 1);
	CHECK(!iolane_transaction_prepare(transaction, "xid", 3, IOLANE_SYNCED));
	CHECK(!iolane_store_prepared(store, row) && !iolane_row_values(row, &names, &count));
	CHECK(count == 1 && names[0].length == 3 && !memcmp(names[0].bytes, "xid", 3));
	CHECK(!pthread_create(&other, NULL, wait_for_row, NULL) && !pthread_join(other, NULL));
	CHECK(!iolane_store_commit_prepared(store, "xid", 3, IOLANE_SYNCED));
	CHECK(iolane_store_rollback_prepared(store, "xid", 3) == IOLANE_STORE_ERROR_UNKNOWN_PREPARED);
	transaction = begin();
	CHECK(get(transaction, 7, IOLANE_LOCK_NONE, row) == 1);
	CHECK(!iolane_row_values(row, &names, &count));
	CHECK(names[1].length == 7 && !memcmp(names[1].bytes, "changed", 7));
	CHECK(!iolane_transaction_rollback(transaction));
	iolane_row_free(row);
}

/* Each byte is a part. */
static size_t whole_parts(void *context, const void *bytes, size_t length)
{
	CHECK(context == store && (bytes || !length));
	return length;
}

static void check_sizes(void)
{
	struct iolane_value from = integer(100), to = integer(200);
	struct iolane_range range = { .lower = &from, .lower_count = 1, .lower_bound = IOLANE_INCLUDED,
				      .upper = &to, .upper_count = 1, .upper_bound = IOLANE_EXCLUDED };
	struct iolane_table_statistics sizes;
	struct iolane_store_statistics counts;
	struct iolane_ledger_line lines[4];
	uint64_t rows, distinct[2];
	size_t count;

	CHECK(!iolane_store_estimate(store, "person", &range, &rows) && rows > 0 && rows <= ROWS);
	CHECK(!iolane_store_table_statistics(store, "person", "by_name", &sizes) && sizes.rows > 0);
	CHECK(iolane_store_table_statistics(store, "person", "no", &sizes) ==
	      IOLANE_STORE_ERROR_UNKNOWN_INDEX);
	CHECK(!iolane_store_key_statistics(store, "person", "by_name", 2, whole_parts, store, &rows, distinct));
	CHECK(distinct[0] > 0 && distinct[1] >= distinct[0] && rows >= distinct[1]);
	CHECK(iolane_store_key_statistics(store, "person", "no", 2, whole_parts, store, &rows, distinct) ==
	      IOLANE_STORE_ERROR_UNKNOWN_INDEX);
	CHECK(iolane_store_key_statistics(store, "person", NULL, 2, NULL, NULL, &rows, distinct) ==
	      IOLANE_STORE_ERROR_ARGUMENT);
	CHECK(!iolane_store_get_statistics(store, &counts) && counts.committed >= 2);
	CHECK(strlen(counts.device_name) > 0 && strlen(counts.device_name) < sizeof(counts.device_name));
	CHECK(counts.window_transfers >= 1 && counts.window_service_ns > 0);
	CHECK(!counts.rate_limit_transfers || !counts.rate_limit_bytes);
	CHECK(!counts.rate_limit_each || counts.rate_limit_transfers || counts.rate_limit_bytes);
	CHECK(!iolane_store_ledger(store, lines, 4, &count) && count > 0);
	CHECK(lines[0].requests > 0 && strlen(lines[0].role) > 0);
}

static int only_some(void *context)
{
	return (*(int *) context)-- > 0;
}

/* A copy that is ended leaves nothing; one of a moment has what was there by then. */
static void check_backup(const char *copy, const struct iolane_store_options *options)
{
	iolane_backup *backup;
	iolane_transaction *it;
	uint64_t rows;
	int some = 1;

	CHECK(!iolane_backup_begin(store, &backup));
	CHECK(iolane_backup_copy(backup, copy, options, only_some, &some, &rows) ==
	      IOLANE_STORE_ERROR_STOPPED);
	CHECK(iolane_backup_copy(backup, copy, options, NULL, NULL, &rows) ==
	      IOLANE_STORE_ERROR_ARGUMENT);
	iolane_backup_free(backup);
	CHECK(!iolane_backup_begin(store, &backup));
	CHECK(iolane_store_table_drop(store, "person") == IOLANE_STORE_ERROR_TABLE_IN_USE);
	CHECK(!iolane_backup_open_view(backup));
	CHECK(!iolane_transaction_begin(store, IOLANE_SNAPSHOT, 0, 1000, &it));
	CHECK(!iolane_transaction_set_bulk(it, 1) && !iolane_transaction_set_bulk(it, 0));
	CHECK(!iolane_transaction_commit(it, IOLANE_SYNCED));
	CHECK(!iolane_backup_copy(backup, copy, options, NULL, NULL, &rows) && rows == ROWS);
	iolane_backup_free(backup);
}

int main(int argc, char **argv)
{
	struct iolane_store_options options;
	char path[4096], copy[4096];
	iolane_row *findings;
	const struct iolane_value *values;
	uint64_t rows;
	size_t count;

	CHECK(argc > 1);
	snprintf(path, sizeof(path), "%s/store", argv[argc - 1]);
	snprintf(copy, sizeof(copy), "%s/copy", argv[argc - 1]);
	CHECK(!iolane_store_options_init(&options));
	options.pool_bytes = 16 << 20;
	options.log_bytes = 16 << 20;
	options.direct = 0;
	CHECK(iolane_store_open(path, &options, &store) == IOLANE_STORE_ERROR_FILES);
	CHECK(!iolane_store_create(path, &options, &store));
	CHECK(!iolane_store_table_create(store, SCHEMA));
	fill();
	check_errors();
	check_cursor(NULL);
	check_cursor("by_name");
	check_ranges(IOLANE_LOCK_NONE);
	check_ranges(IOLANE_LOCK_EXCLUSIVE);
	check_only_keys();
	check_savepoints();
	check_prepared();
	check_sizes();
	CHECK(!iolane_row_new(&findings));
	CHECK(!iolane_store_check(store, findings) && !iolane_row_values(findings, &values, &count));
	CHECK(count == 0);
	CHECK(!iolane_store_tables(store, findings) && !iolane_row_values(findings, &values, &count));
	CHECK(count == 1);
	CHECK(!iolane_store_table_schema(store, "person", findings));
	iolane_row_free(findings);
	CHECK(!iolane_store_checkpoint(store) && !iolane_store_sync(store));
	CHECK(!iolane_store_backup(store, copy, &options, &rows) && rows == ROWS);
	CHECK(iolane_store_backup(store, copy, &options, &rows) == IOLANE_STORE_ERROR_EXISTS);
	snprintf(copy, sizeof(copy), "%s/other", argv[argc - 1]);
	check_backup(copy, &options);
	CHECK(!iolane_store_close(store));
	CHECK(iolane_store_create(path, &options, &store) == IOLANE_STORE_ERROR_EXISTS);
	CHECK(!iolane_store_open(path, &options, &store));
	CHECK(!iolane_store_table_drop(store, "person"));
	CHECK(!iolane_store_close(store));
	return 0;
}
