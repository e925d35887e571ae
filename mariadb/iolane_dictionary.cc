/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which table of the store belongs to which name of the server.
 */
#include "iolane_dictionary.h"
#include "iolane_definitions.h"
#include "iolane_key.h"

namespace iolane {

using dictionary_rows::Change;

Dictionary dictionary;

/* The entry that counts rows without a primary key; no path begins so. */
static const char ROWS_ENTRY[] = "\1rows";
/* Numbers of rows are reserved by so many: one small transaction for each lot. */
static const uint64_t ROWS_AT_ONCE = 1 << 20;

std::string Dictionary::name_of(uint64_t table)
{
	return "t" + std::to_string(table);
}

uint64_t Dictionary::number_of(const iolane_value &name)
{
	std::string text((const char *) name.bytes, name.length);

	return text[0] == 't' ? strtoull(text.c_str() + 1, nullptr, 10) : 0;
}

/* "./test/t1" is "test/t1"; a temporary table has its whole path. */
std::string Dictionary::key_of(const char *path)
{
	return path[0] == '.' && path[1] == '/' ? path + 2 : path;
}

int Dictionary::put(const std::string &key, const Entry &entry)
{
	/* What has been called so does not come back. */
	std::string replaced = renamed_from(key);
	Change change;

	change.put(entry.row(key));
	change.remove_rename(replaced);
	int code = change.commit(IOLANE_SYNCED);

	if (code)
		return code;
	entries_[key] = entry;
	forget_rename(replaced);
	return 0;
}

int Dictionary::remove(const std::string &key)
{
	Change change;

	change.remove(key);
	int code = change.commit(IOLANE_SYNCED);

	if (code)
		return code;
	entries_.erase(key);
	forget_rename(key);
	return 0;
}

int Dictionary::read_entries()
{
	return dictionary_rows::read_entries([&](const dictionary_rows::Entry &row) {
		auto known = entries_.find(row.path);

		if (row.path == ROWS_ENTRY) {
			next_row_ = rows_reserved_ = std::max(next_row_, row.next_value);
		} else if (known == entries_.end()) {
			entries_[row.path] = { std::make_shared<Place>(row.number), row.next_value, row.temporary,
					       row.key_format };
		} else {
			known->second.place->table = row.number;
			known->second.next_value = row.next_value;
		}
		return 0;
	});
}

int Dictionary::read_layouts()
{
	return dictionary_rows::read_layouts([&](const std::string &path, std::shared_ptr<Layouts> layouts) {
		auto known = entries_.find(path);

		if (known == entries_.end())
			return 0;
		next_table_ = std::max(next_table_, layouts->version + 1);
		known->second.layouts = layouts;
		return 0;
	});
}

/* Tables that are made from now on get numbers that none has. */
int Dictionary::count_tables()
{
	Row names;
	size_t count;
	int code = iolane_store_tables(store, names.get());

	if (code)
		return code;
	const iolane_value *values = names.values(&count);

	for (size_t i = 0; i < count; i++)
		next_table_ = std::max(next_table_, number_of(values[i]) + 1);
	return 0;
}

int Dictionary::load()
{
	Changing changing(this);
	int code = dictionary_rows::make_tables();

	if (!code)
		code = read_entries();
	if (!code)
		code = read_layouts();
	if (!code)
		code = read_renames();
	if (!code)
		code = mend_renames();
	note_definitions();
	return code ? code : count_tables();
}

int Dictionary::reload()
{
	std::lock_guard<std::mutex> guard(mutex_);

	return read_entries();
}

int Dictionary::find(const char *path, std::shared_ptr<Place> *place, uint64_t *next_value,
		     std::shared_ptr<const Layouts> *layouts)
{
	std::lock_guard<std::mutex> guard(mutex_);
	auto found = entries_.find(key_of(path));

	if (found == entries_.end())
		return HA_ERR_NO_SUCH_TABLE;
	if (found->second.key_format != KEY_FORMAT)
		return HA_ERR_TABLE_NEEDS_UPGRADE;
	*place = found->second.place;
	*next_value = found->second.next_value;
	*layouts = found->second.layouts;
	return 0;
}

/*
 * The store drops tables when nobody waits for the dictionary any more: the filesystem
 * may take a while to free a large file. What cannot be dropped waits until its last
 * transaction has ended.
 */
Dictionary::Changing::~Changing()
{
	std::set<uint64_t> dropped;

	dropped.swap(dictionary_->dropped_);
	dictionary_->next_seen_ = dictionary_->next_table_;
	lock_.unlock();
	for (uint64_t table : dropped) {
		int code = iolane_store_table_drop(store, name_of(table).c_str());

		if (code == IOLANE_STORE_ERROR_TABLE_IN_USE) {
			lock_.lock();
			dictionary_->waiting_.insert(table);
			lock_.unlock();
		} else if (code) {
			log_failure("a dropped table's file stays until the plugin is loaded again");
		}
	}
}

void Dictionary::drop_waiting()
{
	dropped_.merge(waiting_);
	waiting_.clear();
}

int Dictionary::make_table(std::string schema, uint64_t *table)
{
	drop_waiting();
	*table = next_table_++;
	schema.replace(schema.find('@'), 1, name_of(*table));
	return iolane_store_table_create(store, schema.c_str());
}

int Dictionary::create(const char *path, std::string schema, bool temporary, uint64_t next_value,
		       uint64_t *table)
{
	Changing changing(this);
	std::string key = key_of(path);

	finish_renames();
	if (entries_.count(key))
		return HA_ERR_TABLE_EXIST;
	int code = make_table(schema, table);

	if (code)
		return error_of(code, nullptr);
	code = put(key, { std::make_shared<Place>(*table), next_value, temporary, KEY_FORMAT });
	if (code)
		drop_table(*table);
	return code ? error_of(code, nullptr) : 0;
}

/* The schema of the table that a path has, with "@" for its name. */
int Dictionary::schema_like(uint64_t table, std::string *schema)
{
	Row row;
	size_t count;
	int code = iolane_store_table_schema(store, name_of(table).c_str(), row.get());

	if (code)
		return code;
	const iolane_value *values = row.values(&count);
	std::string name = "\"" + name_of(table) + "\"";

	schema->assign((const char *) values[0].bytes, values[0].length);
	schema->replace(schema->find(name), name.size(), "\"@\"");
	return 0;
}

/*
 * A prepared transaction of before the server was started, or of a connection that has ended, may have changed the table: the
 * server's locks do not keep statements out then. What it has changed must be there when it is committed, so they fail, as with
 * InnoDB. What the server recovers, it has begun before.
 */
int Dictionary::keep_prepared(uint64_t table) const
{
	int32_t is_changed = 0;

	if (!mysqld_server_started)
		return 0;
	int code = iolane_store_is_changed_by_prepared(store, name_of(table).c_str(), &is_changed);

	/* One that cannot be read can be dropped. */
	return !code && is_changed ? HA_ERR_LOCK_WAIT_TIMEOUT : 0;
}

int Dictionary::replace(const char *path)
{
	Changing changing(this);
	std::string key = key_of(path), schema;
	auto found = entries_.find(key);
	uint64_t table = 0;

	if (found == entries_.end())
		return HA_ERR_NO_SUCH_TABLE;
	uint64_t old = found->second.table();
	int error = keep_prepared(old);

	if (error)
		return error;
	std::shared_ptr<Place> place = found->second.place;
	int code = schema_like(old, &schema);

	if (!code)
		code = make_table(schema, &table);
	Entry entry = found->second;

	entry.place = std::make_shared<Place>(table);
	entry.next_value = 1;
	if (!code && (code = put(key, entry)))
		drop_table(table);
	if (code)
		return error_of(code, nullptr);
	place->table = table;
	place->since = table;
	entries_[key].place = place;
	drop_table(old);
	return 0;
}

int Dictionary::prepare_fill(const char *path, uint64_t *table, std::string *schema)
{
	Changing changing(this);
	auto found = entries_.find(key_of(path));

	if (found == entries_.end())
		return HA_ERR_NO_SUCH_TABLE;
	int code = schema_like(found->second.table(), schema);

	if (code)
		return error_of(code, nullptr);
	*table = next_table_++;
	schema->replace(schema->find('@'), 1, name_of(*table));
	return 0;
}

int Dictionary::lead_to(const std::vector<Filled> &filled, iolane_transaction *transaction)
{
	std::lock_guard<std::mutex> guard(mutex_);
	int code = 0;

	for (const Filled &each : filled) {
		auto found = entries_.find(key_of(each.path.c_str()));

		if (found == entries_.end() || found->second.table() != each.old_table)
			return IOLANE_STORE_ERROR_UNKNOWN_TABLE;
		dictionary_rows::Entry row = found->second.row(found->first);

		row.number = each.new_table;
		code = dictionary_rows::put(transaction, row);
		if (code)
			break;
	}
	return code;
}

void Dictionary::fill(const std::vector<Filled> &filled)
{
	Changing changing(this);

	for (const Filled &each : filled) {
		auto found = entries_.find(key_of(each.path.c_str()));

		if (found != entries_.end())
			found->second.place->table = each.new_table;
		drop_table(each.old_table);
	}
	drop_waiting();
}

void Dictionary::discard(const std::vector<Filled> &filled)
{
	Changing changing(this);

	for (const Filled &each : filled)
		drop_table(each.new_table);
	drop_waiting();
}

uint64_t Dictionary::new_number()
{
	Changing changing(this);

	return next_table_++;
}

int Dictionary::change_table(const char *path, uint64_t table, iolane_transaction *transaction)
{
	Changing changing(this);
	auto found = entries_.find(key_of(path));

	if (found == entries_.end())
		return HA_ERR_NO_SUCH_TABLE;
	Entry &entry = found->second;
	uint64_t old = entry.table();
	dictionary_rows::Entry row = entry.row(found->first);

	row.number = table;
	int code = dictionary_rows::put(transaction, row);

	if (code)
		iolane_transaction_rollback(transaction);
	else
		code = iolane_transaction_commit(transaction, IOLANE_SYNCED);
	if (code)
		return error_of(code, nullptr);
	entry.place->table = table;
	/* Views of before do not see the rows, also those that were opened after it got its number. */
	entry.place->since = next_table_++;
	drop_table(old);
	return 0;
}

void Dictionary::renew(const std::vector<std::string> &paths)
{
	Changing changing(this);

	for (const std::string &path : paths) {
		auto found = entries_.find(key_of(path.c_str()));

		if (found != entries_.end())
			found->second.place->since = next_table_++;
	}
}

int Dictionary::add_layout(const char *path, Layouts layouts)
{
	Changing changing(this);
	auto found = entries_.find(key_of(path));

	if (found == entries_.end())
		return HA_ERR_NO_SUCH_TABLE;
	Change change;

	layouts.version = next_table_++;
	change.put_layouts(found->first, layouts);
	int code = change.commit(IOLANE_SYNCED);

	if (code)
		return error_of(code, nullptr);
	found->second.layouts = std::make_shared<const Layouts>(std::move(layouts));
	return 0;
}

uint64_t Dictionary::version_of(const char *path)
{
	std::lock_guard<std::mutex> guard(mutex_);
	auto found = entries_.find(key_of(path));

	if (found == entries_.end())
		return 0;
	const Entry &entry = found->second;

	return std::max(entry.table(), entry.layouts ? entry.layouts->version : 0);
}

uint8_t Dictionary::key_format_of(const char *path)
{
	std::lock_guard<std::mutex> guard(mutex_);
	auto found = entries_.find(key_of(path));

	return found == entries_.end() ? KEY_FORMAT : found->second.key_format;
}

int Dictionary::drop_undefined(const char *table)
{
	Changing changing(this);
	std::string key = key_of(table), partition = key + definitions::PARTITION;
	std::vector<std::map<std::string, Entry>::iterator> found;
	Change change;

	if (definitions::has_frm(key) || definitions::has_par(key))
		return HA_ERR_NO_SUCH_TABLE;
	for (auto each = entries_.lower_bound(partition); each != entries_.end(); each++) {
		if (each->first.compare(0, partition.size(), partition))
			break;
		/* `#mysql50#t#P#p` is a table's name, too. */
		if (definitions::has_frm(each->first))
			continue;
		change.remove(each->first);
		found.push_back(each);
	}
	if (found.empty())
		return HA_ERR_NO_SUCH_TABLE;
	int code = change.commit(IOLANE_SYNCED);

	if (code)
		return error_of(code, nullptr);
	for (auto each : found) {
		drop_table(each->second.table());
		forget_rename(each->first);
		entries_.erase(each);
	}
	return 0;
}

int Dictionary::drop(const char *path, uint64_t *table)
{
	Changing changing(this);
	std::string key = key_of(path);
	auto found = entries_.find(key);

	if (found == entries_.end())
		return HA_ERR_NO_SUCH_TABLE;
	*table = found->second.table();
	/* Of a table with partitions the server has removed a file already. */
	int error = definitions::is_partition(key) ? 0 : keep_prepared(*table);

	if (error)
		return error;
	finish_renames();
	int code = remove(key);

	if (code)
		return error_of(code, nullptr);
	drop_waiting();
	drop_table(*table);
	return 0;
}

std::vector<std::string> Dictionary::lasting_paths()
{
	std::lock_guard<std::mutex> guard(mutex_);
	std::vector<std::string> paths;

	for (auto &[key, entry] : entries_)
		if (!entry.temporary)
			paths.push_back(key);
	return paths;
}

int Dictionary::set_next_value(const char *path, uint64_t table, uint64_t next_value)
{
	std::lock_guard<std::mutex> guard(mutex_);
	auto found = entries_.find(key_of(path));

	if (found == entries_.end() || found->second.table() != table)
		return HA_ERR_NO_SUCH_TABLE;
	Entry entry = found->second;
	Change change;

	entry.next_value = next_value;
	change.put(entry.row(found->first));
	/* What uses the values is committed later, so it is not durable before this. */
	int code = change.commit(IOLANE_LAZY);

	if (code)
		return error_of(code, nullptr);
	found->second = entry;
	return 0;
}

int Dictionary::next_row_number(uint64_t *number)
{
	std::lock_guard<std::mutex> guard(rows_mutex_);

	if (next_row_ == rows_reserved_) {
		uint64_t reserved = rows_reserved_ + ROWS_AT_ONCE;
		Change change;

		change.put({ ROWS_ENTRY, 0, reserved, false, 0 });
		int code = change.commit(IOLANE_LAZY);

		if (code)
			return error_of(code, nullptr);
		rows_reserved_ = reserved;
	}
	*number = next_row_++;
	return 0;
}

} /* namespace iolane */
