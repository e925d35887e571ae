/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The handler: what a table is, how it comes and goes, and what a statement locks.
 */
#include "ha_iolane.h"
#include "iolane_key.h"
#include "iolane_settings.h"

using namespace iolane;

/* Of an encoded key: what the store takes, less what it adds to it and a row's own. */
static const uint ENCODED_KEY_BYTES_MAX = 3072;

ha_iolane::ha_iolane(handlerton *hton, TABLE_SHARE *share) : handler(hton, share) {}

ha_iolane::~ha_iolane()
{
	iolane_load_free(load_);
	iolane_many_free(many_);
	iolane_cursor_free(cursor_);
}

/* Whether entries of all keys give the values of the primary key. */
bool ha_iolane::has_decodable_primary_key() const
{
	const TABLE_SHARE *share = table_share;

	if (!share || !share->key_info || share->primary_key >= share->keys)
		return false;
	const KEY *key = &share->key_info[share->primary_key];

	return can_decode(key, key->user_defined_key_parts);
}

bool ha_iolane::is_in_primary_key(uint column) const
{
	if (!has_primary_key())
		return false;
	const KEY *key = &table->key_info[table_share->primary_key];

	for (uint part = 0; part < key->user_defined_key_parts; part++)
		if (key->key_part[part].fieldnr == column + 1u)
			return true;
	return false;
}

handler::Table_flags ha_iolane::table_flags() const
{
	/*
	 * Rows between others are not locked: statements cannot be repeated elsewhere. And no HA_CAN_BIT_FIELD: of bits beside those
	 * for NULL the server gives the next group's value where it groups by a key.
	 */
	Table_flags flags = HA_NULL_IN_KEY | HA_CAN_INDEX_BLOBS | HA_CAN_SQL_HANDLER | HA_CAN_GEOMETRY |
	       HA_PRIMARY_KEY_REQUIRED_FOR_POSITION | HA_REC_NOT_IN_SEQ | HA_BINLOG_ROW_CAPABLE |
	       HA_CAN_VIRTUAL_COLUMNS | HA_CAN_ONLINE_BACKUPS |
	       HA_CAN_SKIP_LOCKED | HA_ONLINE_ANALYZE | HA_CRASH_SAFE | HA_TABLE_SCAN_ON_INDEX |
	       HA_CONCURRENT_OPTIMIZE;

	/*
	 * Rows of the same key are in the order of the primary one: an UPDATE that changes it would
	 * come to a row again, which the server looks for in an open table. While it reads the
	 * definition it asks whether a key alone gives the primary one, too.
	 */
	return table || has_decodable_primary_key() ? flags | HA_PRIMARY_KEY_IN_READ_INDEX : flags;
}

/*
 * Partitions are merged by their records, in which the server has not computed virtual
 * columns yet: a key over one gives no order there.
 */
static bool is_merged_wrongly(const TABLE_SHARE *share, uint key)
{
	if (!share->partition_info_str || key >= share->keys)
		return false;
	for (uint part = 0; part < share->key_info[key].user_defined_key_parts; part++) {
		const Field *field = share->key_info[key].key_part[part].field;

		/* There is none yet while the definition is read. */
		if (field && !field->stored_in_db())
			return true;
	}
	return false;
}

/* When the server reads a definition, it asks for flags before it knows which columns are virtual. */
static void forget_wrong_orders(TABLE *table)
{
	for (uint key = 0; key < table->s->keys; key++) {
		if (!is_merged_wrongly(table->s, key))
			continue;
		for (uint part = 0; part < table->key_info[key].user_defined_key_parts; part++)
			table->field[table->key_info[key].key_part[part].fieldnr - 1]->part_of_sortkey.clear_bit(key);
	}
}

/*
 * While the server reads a definition it does not know the primary key yet, which is the first one then, if any: by its
 * name, or as the first that is unique and without NULL.
 */
bool ha_iolane::will_be_primary(uint key) const
{
	if (table)
		return is_primary(key);
	if (key != 0 || !table_share->keys || !(table_share->key_info->flags & HA_NOSAME) ||
	    table_share->key_info->algorithm == HA_KEY_ALG_LONG_HASH)
		return false;
	for (uint part = 0; part < table_share->key_info->user_defined_key_parts; part++) {
		const KEY_PART_INFO *info = &table_share->key_info->key_part[part];

		if (table_share->field[info->fieldnr - 1]->null_ptr)
			return false;
	}
	return true;
}

ulong ha_iolane::index_flags(uint key, uint part, bool) const
{
	ulong flags = HA_READ_NEXT | HA_READ_PREV | HA_READ_RANGE;

	if (!is_merged_wrongly(table_share, key))
		flags |= HA_READ_ORDER;
	/* The primary key has all of the row. */
	if (will_be_primary(key))
		return flags | HA_CLUSTERED_INDEX | HA_KEYREAD_ONLY;
	if (key < table_share->keys && can_decode(&table_share->key_info[key], part + 1))
		flags |= HA_KEYREAD_ONLY;
	return flags;
}

/* The same for the primary key, which all other keys have. */
void ha_iolane::note_primary_key_in_others()
{
	if (!has_decodable_primary_key())
		return;
	const KEY *key = &table->key_info[table_share->primary_key];

	for (uint part = 0; part < key->user_defined_key_parts; part++)
		key->key_part[part].field->part_of_key.merge(table_share->keys_for_keyread);
}

/* The transaction, where the statement has told that it uses the table. */
iolane_transaction *ha_iolane::transaction()
{
	return session_ ? session_->transaction() : nullptr;
}

int ha_iolane::fail(int code)
{
	Session *session = Session::of(ha_thd());

	if (session) {
		session->failure = { iolane_store_last_error(), MAX_KEY };
		if (code == IOLANE_STORE_ERROR_DUPLICATE) {
			const char *key = iolane_store_last_key();

			session->failure.duplicate_key = key[0] == 'k' ? (uint) atoi(key + 1) : table_share->primary_key;
		}
	}
	return error_of(code, ha_thd());
}

/* What failed last in the connection; nullptr if nothing has. */
const Session::Failure *ha_iolane::failure() const
{
	const Session *session = (const Session *) thd_get_ha_data(ha_thd(), hton);

	return session ? &session->failure : nullptr;
}

/* For errors of which the server knows nothing but their number. */
bool ha_iolane::get_error_message(int error, String *text)
{
	const Session::Failure *last = failure();

	if (error == HA_ERR_INTERNAL_ERROR && last)
		text->append(last->message.data(), last->message.size(), system_charset_info);
	return false;
}

/* The server would advise REPAIR, which must read the table. */
void ha_iolane::print_error(int error, myf flags)
{
	const Session::Failure *last = failure();

	if (error == HA_ERR_TABLE_NEEDS_UPGRADE && last)
		my_printf_error(ER_TABLE_NEEDS_UPGRADE, "%s", flags, last->message.c_str());
	else
		handler::print_error(error, flags);
}

/* The table as the connection sees it: one that it has filled is only its own. */
std::string ha_iolane::name() const
{
	const Session *session = (const Session *) thd_get_ha_data(ha_thd(), hton);
	uint64_t table = share_->place->table;

	return Dictionary::name_of(session ? session->table_of(table) : table);
}

Share::Share(const char *name, std::shared_ptr<Place> place, uint64_t next,
	     std::shared_ptr<const Layouts> layouts)
	: path(name), place(std::move(place)), layouts(std::move(layouts)), next_value(next),
	  reserved(next)
{
}

Share::~Share()
{
	if (store && reserved > next_value)
		dictionary.set_next_value(path.c_str(), place->table, next_value);
}

int ha_iolane::get_share(const char *name)
{
	int error = 0;

	lock_shared_ha_data();
	share_ = static_cast<Share *>(get_ha_share_ptr());
	if (!share_) {
		std::shared_ptr<Place> place;
		std::shared_ptr<const Layouts> layouts;
		uint64_t next_value;

		error = dictionary.find(name, &place, &next_value, &layouts);
		if (!error) {
			share_ = new Share(name, place, next_value, layouts);
			set_ha_share_ptr(share_);
		}
	}
	unlock_shared_ha_data();
	return error;
}

/* For print_error(). */
static void note_key_format(THD *thd, const char *name)
{
	Session *session = Session::of(thd);
	std::string format = std::to_string(dictionary.key_format_of(name));

	if (session)
		session->failure.message = "Keys of " + Dictionary::key_of(name) + " have format " + format +
			", this version of IOLANE reads format " + std::to_string(KEY_FORMAT) +
			" only: dump the table with the version that made it, DROP it, and load the dump";
}

int ha_iolane::open(const char *name, int, uint)
{
	int error = get_share(name);

	if (error == HA_ERR_TABLE_NEEDS_UPGRADE)
		note_key_format(ha_thd(), name);
	if (error)
		return error;
	forget_wrong_orders(table);
	note_primary_key_in_others();
	find_keys_of_rows();
	/* A scan of the table goes by it: an UPDATE that changes it must not come to a row again. */
	key_used_on_scan = table_share->primary_key;
	/* Its length, then the primary key, or the number of the row. */
	ref_length = POSITION_HEAD_BYTES + 8;
	if (has_primary_key()) {
		const KEY *key = &table->key_info[table_share->primary_key];

		ref_length = POSITION_HEAD_BYTES + (uint) std::min<size_t>(key_bytes_max(key), ENCODED_KEY_BYTES_MAX);
	}
	stats.block_size = 16 << 10;
	/* Of the partitions of a table, the server asks one for the keys when all are open. */
	return info(HA_STATUS_NO_LOCK | HA_STATUS_VARIABLE | (table->part_info ? 0 : HA_STATUS_CONST));
}

/*
 * Keys that are merged are read by a handler each, of which the server tells only the
 * first one what to lock.
 */
handler *ha_iolane::clone(const char *name, MEM_ROOT *memory)
{
	ha_iolane *copy = static_cast<ha_iolane *>(handler::clone(name, memory));

	if (copy) {
		copy->lock_ = lock_;
		copy->when_locked_ = when_locked_;
	}
	return copy;
}

int ha_iolane::close()
{
	close_cursor();
	session_ = nullptr;
	return 0;
}

/* What the server knows nothing of is silently ignored by it; here it is refused. */
int ha_iolane::refuse_foreign_keys()
{
	THD *thd = ha_thd();

	switch (thd_sql_command(thd)) {
	case SQLCOM_CREATE_TABLE:
	case SQLCOM_ALTER_TABLE:
		break;
	default:
		return 0;
	}
	List_iterator<Key> keys(thd->lex->alter_info.key_list);

	while (Key *key = keys++) {
		if (key->type == Key::FOREIGN_KEY) {
			my_error(ER_NOT_SUPPORTED_YET, MYF(0), "FOREIGN KEY with ENGINE=IOLANE");
			return HA_ERR_UNSUPPORTED;
		}
	}
	return 0;
}

static void append_column(std::string *json, const std::string &name, const char *type,
			  bool nullable)
{
	*json += ", {\"name\": \"" + name + "\", \"type\": \"" + type + "\", \"nullable\": " +
		 (nullable ? "true" : "false") + "}";
}

/* The table for the store; its name is left to the dictionary. */
std::string ha_iolane::schema_of(TABLE *form)
{
	std::string columns = "{\"name\": \"k\", \"type\": \"blob\"}, {\"name\": \"r\", \"type\": \"blob\"}";
	std::string indexes;

	for (uint i = 0; i < form->s->keys; i++) {
		const KEY *key = &form->key_info[i];
		std::string number = std::to_string(i);
		bool is_unique = key->flags & HA_NOSAME;
		bool can_be_null = is_unique && (key->flags & HA_NULL_PART_KEY);

		if (i == form->s->primary_key)
			continue;
		append_column(&columns, "k" + number, "blob", false);
		if (can_be_null)
			append_column(&columns, "u" + number, "integer", true);
		indexes += indexes.empty() ? "" : ", ";
		indexes += "{\"name\": \"k" + number + "\", \"columns\": [\"k" + number + "\"";
		if (can_be_null)
			indexes += ", \"u" + number + "\"";
		indexes += std::string("], \"unique\": ") + (is_unique ? "true}" : "false}");
	}
	return "{\"name\": \"@\", \"columns\": [" + columns + "], \"primary_key\": [\"k\"], \"indexes\": [" +
	       indexes + "]}";
}

int ha_iolane::create(const char *name, TABLE *form, HA_CREATE_INFO *info)
{
	uint64_t next_value = info->auto_increment_value ? info->auto_increment_value : 1;
	int error = refuse_foreign_keys();

	if (error)
		return error;
	if (form->s->primary_key < MAX_KEY &&
	    (form->key_info[form->s->primary_key].flags & HA_NULL_PART_KEY))
		return HA_ERR_UNSUPPORTED;
	uint64_t number;

	error = dictionary.create(name, schema_of(form), info->tmp_table(), next_value, &number);
	if (!error && (session_ = Session::of(ha_thd())))
		session_->note_made(name, number);
	return error;
}

int ha_iolane::delete_table(const char *name)
{
	return iolane::drop_table(ha_thd(), name);
}

int ha_iolane::rename_table(const char *from, const char *to)
{
	int error = dictionary.rename(from, to);

	/*
	 * After a crash of ALTER TABLE by copy the server takes the engine of the partitions for that
	 * of the table (ddl_log.cc, DDL_LOG_ALTER_TABLE_ACTION), and renames its `.frm` whatever is said.
	 */
	return error == HA_ERR_NO_SUCH_TABLE ? dictionary.rename_partitioned(from, to) : error;
}

int ha_iolane::truncate()
{
	int error = dictionary.replace(share_->path.c_str());

	if (error)
		return error;
	{
		std::lock_guard<std::mutex> guard(share_->mutex);

		share_->next_value = share_->reserved = 1;
	}
	std::lock_guard<std::mutex> guard(share_->statistics_mutex);

	share_->looked_at = share_->keys_looked_at = share_->keys_told_at = 0;
	return 0;
}

void ha_iolane::update_create_info(HA_CREATE_INFO *info)
{
	if (!(info->used_fields & HA_CREATE_USED_AUTO) && table->found_next_number_field) {
		std::lock_guard<std::mutex> guard(share_->mutex);

		info->auto_increment_value = share_->next_value;
	}
}

/* Another definition needs another copy, but for what the server changes alone. */
bool ha_iolane::check_if_incompatible_data(HA_CREATE_INFO *info, uint changes)
{
	if (changes != IS_EQUAL_YES || (info->used_fields & HA_CREATE_USED_AUTO))
		return COMPATIBLE_DATA_NO;
	return COMPATIBLE_DATA_YES;
}

void ha_iolane::note_when_locked(THD *thd, thr_lock_type lock_type)
{
	when_locked_ = IOLANE_WAIT;
	if (lock_type == TL_WRITE_SKIP_LOCKED || lock_type == TL_READ_SKIP_LOCKED)
		when_locked_ = IOLANE_SKIP;
	else if (lock_wait_timeout_ms(thd) == 0)
		when_locked_ = IOLANE_REFUSE;
}

/* What is locked of the rows that a statement reads. */
THR_LOCK_DATA **ha_iolane::store_lock(THD *thd, THR_LOCK_DATA **to, thr_lock_type lock_type)
{
	int command = thd_sql_command(thd);
	bool in_lock_tables = thd_in_lock_tables(thd);

	if (lock_type == TL_IGNORE)
		return to;
	note_when_locked(thd, lock_type);
	if (lock_type >= TL_FIRST_WRITE) {
		lock_ = IOLANE_LOCK_EXCLUSIVE;
		return to;
	}
	lock_ = locked_for_read_ = IOLANE_LOCK_NONE;
	if (lock_type == TL_READ_WITH_SHARED_LOCKS || lock_type == TL_READ_SKIP_LOCKED) {
		lock_ = locked_for_read_ = IOLANE_LOCK_SHARED;
		return to;
	}
	/* What is read to be written elsewhere is the newest, as with InnoDB. */
	switch (command) {
	case SQLCOM_SELECT:
	case SQLCOM_CHECKSUM:
	case SQLCOM_ANALYZE:
	case SQLCOM_LOCK_TABLES:
	case SQLCOM_FLUSH:
	case SQLCOM_CHECK:
	case SQLCOM_HA_OPEN:
	case SQLCOM_HA_READ:
		break;
	case SQLCOM_ALTER_TABLE:
	case SQLCOM_CREATE_INDEX:
	case SQLCOM_DROP_INDEX:
	case SQLCOM_OPTIMIZE:
		/* The server keeps writers out before it copies rows: a lock of each would be in vain. */
		if (may_have_unseen_rows())
			lock_ = IOLANE_LOCK_SHARED;
		break;
	default:
		if (thd_tx_isolation(thd) >= ISO_REPEATABLE_READ && !in_lock_tables)
			lock_ = locked_for_read_ = IOLANE_LOCK_SHARED;
	}
	return to;
}

int ha_iolane::external_lock(THD *thd, int lock_type)
{
	if (lock_type == F_UNLCK) {
		give_up_fill();
		unmark_parts();
		/* HANDLER goes on from there in its next statement. */
		is_old_ = true;
		return 0;
	}
	if (lock_type == F_WRLCK)
		lock_ = IOLANE_LOCK_EXCLUSIVE;
	if (thd_sql_command(thd) == SQLCOM_ANALYZE)
		mark_parts();
	return begin_statement(thd);
}

int ha_iolane::begin_statement(THD *thd)
{
	/*
	 * The server does not forget after an UPDATE or DELETE, or a SELECT before one, that no
	 * partition could have rows: the next would find none by the first of a key. It chooses
	 * partitions after this.
	 */
	table->all_partitions_pruned_away = false;
	session_ = Session::of(thd);
	if (!session_)
		return HA_ERR_OUT_OF_MEM;
	return session_->begin();
}

/*
 * Under LOCK TABLES, and in stored functions and triggers: instead of external_lock(). What a
 * statement there reads is the newest where that of the statement that called it is.
 */
int ha_iolane::start_stmt(THD *thd, thr_lock_type lock_type)
{
	if (lock_type >= TL_FIRST_WRITE)
		lock_ = IOLANE_LOCK_EXCLUSIVE;
	else if (lock_type == TL_READ_WITH_SHARED_LOCKS || lock_type == TL_READ_SKIP_LOCKED)
		lock_ = IOLANE_LOCK_SHARED;
	else if (thd_sql_command(thd) == SQLCOM_SELECT)
		lock_ = IOLANE_LOCK_NONE;
	else
		lock_ = locked_for_read_;
	note_when_locked(thd, lock_type);
	return begin_statement(thd);
}
