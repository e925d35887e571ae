/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The tables of the store that the dictionary is kept in.
 */
#include "iolane_dictionary_rows.h"

namespace iolane {

namespace dictionary_rows {

static const char TABLE[] = "dictionary";
static const char TABLE_SCHEMA[] = "{\"name\": \"dictionary\", \"columns\": ["
	"{\"name\": \"path\", \"type\": \"blob\"}, {\"name\": \"number\", \"type\": \"integer\"}, "
	"{\"name\": \"next_value\", \"type\": \"integer\"}, {\"name\": \"flags\", \"type\": \"integer\"}], "
	"\"primary_key\": [\"path\"]}";
enum { COLUMN_PATH, COLUMN_NUMBER, COLUMN_NEXT_VALUE, COLUMN_FLAGS, COLUMNS };
static const int64_t FLAG_TEMPORARY = 1;
/* Eight bits of the flags; none of them was set before there were formats of keys. */
static const int KEY_FORMAT_SHIFT = 8;
static const int64_t KEY_FORMAT_MASK = 0xFF;

static const char LAYOUTS[] = "layouts";
static const char LAYOUTS_SCHEMA[] = "{\"name\": \"layouts\", \"columns\": ["
	"{\"name\": \"path\", \"type\": \"blob\"}, {\"name\": \"layouts\", \"type\": \"blob\"}], "
	"\"primary_key\": [\"path\"]}";
enum { LAYOUTS_PATH, LAYOUTS_BYTES, LAYOUTS_COLUMNS };

static const char RENAMES[] = "renames";
static const char RENAMES_SCHEMA[] = "{\"name\": \"renames\", \"columns\": ["
	"{\"name\": \"path\", \"type\": \"blob\"}, {\"name\": \"from\", \"type\": \"blob\"}], "
	"\"primary_key\": [\"path\"]}";
enum { RENAMES_PATH, RENAMES_FROM, RENAMES_COLUMNS };

/* Rows are locked for moments only. */
static const uint64_t LOCK_TIMEOUT_MS = 50000;

int make_tables()
{
	for (const char *schema : { TABLE_SCHEMA, LAYOUTS_SCHEMA, RENAMES_SCHEMA }) {
		int code = iolane_store_table_create(store, schema);

		if (code && code != IOLANE_STORE_ERROR_TABLE_EXISTS)
			return code;
	}
	return 0;
}

int put(iolane_transaction *transaction, const Entry &entry)
{
	int64_t flags = (entry.temporary ? FLAG_TEMPORARY : 0) | (int64_t) entry.key_format << KEY_FORMAT_SHIFT;
	iolane_value row[COLUMNS] = { blob(entry.path), integer((int64_t) entry.number),
				      integer((int64_t) entry.next_value), integer(flags) };
	int code = iolane_transaction_update(transaction, TABLE, row, COLUMNS);

	if (code == 0)
		code = iolane_transaction_insert(transaction, TABLE, row, COLUMNS);
	return code < 0 ? code : 0;
}

int forget(iolane_store *copy, const std::vector<std::string> &paths)
{
	iolane_transaction *transaction = nullptr;
	int code = iolane_transaction_begin(copy, IOLANE_READ_COMMITTED, 0, LOCK_TIMEOUT_MS, &transaction);

	for (const std::string &path : paths) {
		iolane_value key = blob(path);

		if (code < 0)
			break;
		code = iolane_transaction_delete(transaction, TABLE, &key, 1);
	}
	if (code >= 0)
		return iolane_transaction_commit(transaction, IOLANE_SYNCED);
	iolane_transaction_rollback(transaction);
	return code;
}

static std::string text_of(const iolane_value &value)
{
	return std::string((const char *) value.bytes, value.length);
}

/* Calls `take` with the values of each row of a table of the store, until it returns an error. */
template <typename Take>
static int read_table(const char *name, Take take)
{
	iolane_transaction *transaction = nullptr;
	iolane_cursor *cursor = nullptr;
	iolane_range range = {};
	Row row;
	size_t count;
	int code = iolane_transaction_begin(store, IOLANE_SNAPSHOT, 0, 0, &transaction);

	if (!code)
		code = iolane_cursor_open(transaction, name, &range, &cursor);
	while (!code && (code = iolane_cursor_next(cursor, transaction, row.get())) == 1)
		code = take(row.values(&count));
	iolane_cursor_free(cursor);
	iolane_transaction_rollback(transaction);
	return code;
}

int read_entries(const std::function<int(const Entry &)> &take)
{
	return read_table(TABLE, [&](const iolane_value *values) {
		int64_t flags = values[COLUMN_FLAGS].integer;

		return take({ text_of(values[COLUMN_PATH]), (uint64_t) values[COLUMN_NUMBER].integer,
			      (uint64_t) values[COLUMN_NEXT_VALUE].integer, (flags & FLAG_TEMPORARY) != 0,
			      (uint8_t) (flags >> KEY_FORMAT_SHIFT & KEY_FORMAT_MASK) });
	});
}

int read_layouts(const std::function<int(const std::string &path, std::shared_ptr<Layouts>)> &take)
{
	return read_table(LAYOUTS, [&](const iolane_value *values) {
		const iolane_value &bytes = values[LAYOUTS_BYTES];
		auto layouts = std::make_shared<Layouts>();

		if (!layouts->decode((const uchar *) bytes.bytes, bytes.length))
			return (int) IOLANE_STORE_ERROR_DAMAGED;
		return take(text_of(values[LAYOUTS_PATH]), layouts);
	});
}

int read_renames(const std::function<int(const std::string &path, const std::string &from)> &take)
{
	return read_table(RENAMES, [&](const iolane_value *values) {
		return take(text_of(values[RENAMES_PATH]), text_of(values[RENAMES_FROM]));
	});
}

Change::Change()
{
	code_ = iolane_transaction_begin(store, IOLANE_READ_COMMITTED, 0, LOCK_TIMEOUT_MS, &transaction_);
}

Change::~Change()
{
	iolane_transaction_rollback(transaction_);
}

void Change::put(const Entry &entry)
{
	if (code_ >= 0)
		code_ = dictionary_rows::put(transaction_, entry);
}

void Change::remove(const std::string &path)
{
	iolane_value value = blob(path);

	if (code_ >= 0)
		code_ = iolane_transaction_delete(transaction_, TABLE, &value, 1);
	if (code_ >= 0)
		code_ = iolane_transaction_delete(transaction_, LAYOUTS, &value, 1);
	remove_rename(path);
}

void Change::put_layouts(const std::string &path, const Layouts &layouts)
{
	std::string bytes = layouts.encode();
	iolane_value row[LAYOUTS_COLUMNS] = { blob(path), blob(bytes) };

	if (code_ >= 0)
		code_ = iolane_transaction_update(transaction_, LAYOUTS, row, LAYOUTS_COLUMNS);
	if (code_ == 0)
		code_ = iolane_transaction_insert(transaction_, LAYOUTS, row, LAYOUTS_COLUMNS);
}

void Change::put_rename(const std::string &path, const std::string &from)
{
	iolane_value row[RENAMES_COLUMNS] = { blob(path), blob(from) };

	if (code_ >= 0)
		code_ = iolane_transaction_insert(transaction_, RENAMES, row, RENAMES_COLUMNS);
}

void Change::remove_rename(const std::string &path)
{
	iolane_value value = blob(path);

	if (code_ >= 0)
		code_ = iolane_transaction_delete(transaction_, RENAMES, &value, 1);
}

int Change::commit(int durability)
{
	if (code_ < 0)
		return code_;
	iolane_transaction *transaction = transaction_;

	transaction_ = nullptr;
	return iolane_transaction_commit(transaction, durability);
}

} /* namespace dictionary_rows */

} /* namespace iolane */
