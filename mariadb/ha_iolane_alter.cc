/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The handler: changes of a definition without a copy by the server.
 *
 * What only the server knows (names, defaults, comments) changes at once, and so do
 * columns that are added behind the others: rows are left as they are, and the dictionary
 * notes what they lack. Keys come and go with another table of the store, which gets the
 * rows as they are, page by page, and the entries of keys sorted. The dictionary leads
 * to it in the transaction that has filled it: so a crash leaves the one table or the
 * other. Which one, the server is told by its version.
 */
#include "ha_iolane.h"
#include "iolane_key.h"
#include "iolane_record.h"

using namespace iolane;

/* What is done here; of all else handler::check_if_supported_inplace_alter() says whether the server can do it. */
static const alter_table_operations COLUMNS = ALTER_ADD_STORED_BASE_COLUMN;
static const alter_table_operations KEYS = ALTER_ADD_NON_UNIQUE_NON_PRIM_INDEX |
	ALTER_DROP_NON_UNIQUE_NON_PRIM_INDEX | ALTER_ADD_UNIQUE_INDEX | ALTER_DROP_UNIQUE_INDEX |
	ALTER_INDEX_ORDER;

ulonglong ha_iolane::table_version() const
{
	return dictionary.version_of(share_->path.c_str());
}

/* Whether a column is at the same place of the bits before a record. */
static bool has_same_bits(const TABLE *table, const Field *field, const TABLE *altered,
			  const Field *same)
{
	if (field->null_bit != same->null_bit)
		return false;
	if (field->null_ptr &&
	    field->null_ptr - table->record[0] != same->null_ptr - altered->record[0])
		return false;
	if (field->type() != MYSQL_TYPE_BIT)
		return true;
	const Field_bit *bits = (const Field_bit *) field, *others = (const Field_bit *) same;

	return bits->bit_len == others->bit_len && bits->bit_ofs == others->bit_ofs &&
	       (!bits->bit_len ||
		bits->bit_ptr - table->record[0] == others->bit_ptr - altered->record[0]);
}

/* Whether rows of before are laid out as the server would lay them out now: BIT columns were once among the bits before a record. */
static bool has_same_layout(const TABLE *table, const TABLE *altered)
{
	for (uint i = 0; i < std::min(table->s->fields, altered->s->fields); i++)
		if (!has_same_bits(table, table->field[i], altered, altered->field[i]))
			return false;
	return true;
}

enum_alter_inplace_result ha_iolane::check_if_supported_inplace_alter(TABLE *altered,
								       Alter_inplace_info *info)
{
	alter_table_operations wanted = info->handler_flags;
	/* Columns get keys by a copy, as they are not in rows yet. */
	alter_table_operations own = wanted & COLUMNS ? COLUMNS : KEYS;

	info->handler_flags = wanted & ~own;
	enum_alter_inplace_result others = handler::check_if_supported_inplace_alter(altered, info);

	info->handler_flags = wanted;
	if (others != HA_ALTER_INPLACE_NO_LOCK)
		return others;
	if (!has_same_layout(table, altered))
		return HA_ALTER_INPLACE_NOT_SUPPORTED;
	if (wanted & COLUMNS && !can_add_columns(altered, info))
		return HA_ALTER_INPLACE_NOT_SUPPORTED;
	if (wanted & KEYS)
		return can_change_keys(altered, info) ? HA_ALTER_INPLACE_COPY_LOCK :
							HA_ALTER_INPLACE_NOT_SUPPORTED;
	return HA_ALTER_INPLACE_INSTANT;
}

/* Whether all rows of before get the same value of a column that is added. */
static bool has_constant_default(const Field *field)
{
	return field->stored_in_db() && !field->vcol_info && !field->default_value &&
	       field->unireg_check == Field::NONE && !field->vers_sys_field();
}

/* Whether new columns stand behind the others, whose bits stay where they are. */
bool ha_iolane::can_add_columns(TABLE *altered, const Alter_inplace_info *info) const
{
	List_iterator<Create_field> definitions(info->alter_info->create_list);
	uint before = table_share->fields;

	/*
	 * Each part of a table has a path of its own; a date that all rows get may be refused;
	 * and the bits of a table without columns of variable length begin elsewhere.
	 */
	if (table_share->partition_info_str || info->error_if_not_empty ||
	    ((table_share->db_create_options ^ altered->s->db_create_options) & HA_OPTION_PACK_RECORD) ||
	    (share_->layouts && share_->layouts->old.size() == LAYOUTS_MAX) ||
	    info->alter_info->create_list.elements != altered->s->fields)
		return false;
	for (uint i = 0; i < altered->s->fields; i++) {
		const Create_field *definition = definitions++;
		const Field *field = altered->field[i];

		if (i >= before ? definition->field || !has_constant_default(field) :
				  definition->field != table->field[i] ||
					  !has_same_bits(table, table->field[i], altered, field))
			return false;
	}
	return altered->s->fields > before;
}

/* The key of before that is the same one; MAX_KEY if there is none. */
static uint same_key(const TABLE *altered, uint number, const TABLE *table)
{
	const KEY *key = &altered->key_info[number];

	for (uint i = 0; i < table->s->keys; i++) {
		const KEY *old = &table->key_info[i];
		uint part = 0;

		if (old->user_defined_key_parts != key->user_defined_key_parts ||
		    (old->flags & HA_NOSAME) != (key->flags & HA_NOSAME) ||
		    (i == table->s->primary_key) != (number == altered->s->primary_key))
			continue;
		while (part < key->user_defined_key_parts) {
			const KEY_PART_INFO *a = &old->key_part[part], *b = &key->key_part[part];

			if (a->fieldnr != b->fieldnr || a->length != b->length ||
			    (a->key_part_flag & HA_REVERSE_SORT) != (b->key_part_flag & HA_REVERSE_SORT))
				break;
			part++;
		}
		if (part == key->user_defined_key_parts)
			return i;
	}
	return MAX_KEY;
}

/*
 * A prepared transaction of before the server was started may have changed rows, which
 * nobody sees yet: the server's locks do not keep it out.
 */
bool iolane::may_have_unseen_rows()
{
	Row prepared;
	size_t count = 0;

	if (iolane_store_prepared(store, prepared.get()))
		return true;
	prepared.values(&count);
	return count != 0;
}

/* Whether the primary key stays, and new keys are of columns that rows have. */
bool ha_iolane::can_change_keys(TABLE *altered, const Alter_inplace_info *info) const
{
	if (table_share->partition_info_str || info->ignore || altered->s->long_unique_table ||
	    table_share->long_unique_table || altered->s->period.unique_keys)
		return false;
	if (may_have_unseen_rows())
		return false;
	uint primary = altered->s->primary_key;

	if (has_primary_key() ? primary >= MAX_KEY || same_key(altered, primary, table) == MAX_KEY :
				primary < MAX_KEY)
		return false;
	for (uint i = 0; i < altered->s->keys; i++) {
		const KEY *key = &altered->key_info[i];

		if (key->flags & (HA_FULLTEXT | HA_SPATIAL))
			return false;
		if (same_key(altered, i, table) < MAX_KEY)
			continue;
		for (uint part = 0; part < key->user_defined_key_parts; part++)
			if (!altered->field[key->key_part[part].fieldnr - 1]->stored_in_db())
				return false;
	}
	return true;
}

/* A table of the store with other keys, until the dictionary leads to it. */
class Rebuild : public inplace_alter_handler_ctx {
public:
	Rebuild(const TABLE *table, TABLE *altered, const iolane::Share *share)
		: table_(table), altered_(altered), share_(share)
	{
	}
	~Rebuild() override;

	/* Returns an error of the server; where a row is there twice, duplicate() says of which key. */
	int fill(THD *thd, std::string schema);
	int commit();
	uint duplicate() const { return duplicate_; }

private:
	int begin(const std::string &schema);
	int copy_rows(THD *thd);
	int add(const iolane_value *values);
	int finish();

	const TABLE *table_;
	TABLE *altered_;
	const iolane::Share *share_;
	/* The table that is filled, and whether it is. */
	uint64_t number_ = 0;
	bool is_filled_ = false;
	iolane_transaction *transaction_ = nullptr;
	iolane_cursor *cursor_ = nullptr;
	iolane_load *load_ = nullptr;
	/* For each key but the primary one: which value of the old rows it is; 0: it is new. */
	std::vector<size_t> from_;
	std::vector<std::string> keys_;
	std::vector<iolane_value> values_;
	uint duplicate_ = MAX_KEY;
};

Rebuild::~Rebuild()
{
	iolane_load_free(load_);
	iolane_cursor_free(cursor_);
	iolane_transaction_rollback(transaction_);
	if (is_filled_)
		dictionary.discard({ { share_->path, share_->place->table, number_, 0 } });
}

int Rebuild::begin(const std::string &schema)
{
	std::vector<size_t> places = places_of_keys(table_);
	iolane_range range = {};

	for (uint i = 0; i < altered_->s->keys; i++) {
		uint same = same_key(altered_, i, table_);

		from_.push_back(same < MAX_KEY ? places[same] : 0);
	}
	keys_.resize(altered_->s->keys);
	/* As work that nobody waits for. */
	int code = iolane_transaction_begin(store, IOLANE_SNAPSHOT, 1, 0, &transaction_);

	if (!code)
		code = iolane_cursor_open(transaction_, Dictionary::name_of(share_->place->table).c_str(), &range, &cursor_);
	return code ? code : iolane_load_begin(transaction_, schema.c_str(), &load_);
}

int Rebuild::add(const iolane_value *values)
{
	uchar *record = altered_->record[0];
	bool is_unpacked = false;

	values_.assign(values, values + 2);
	for (uint i = 0; i < altered_->s->keys; i++) {
		const KEY *key = &altered_->key_info[i];

		if (i == altered_->s->primary_key)
			continue;
		if (from_[i]) {
			for (size_t value = 0; value <= takes_null_mark(key); value++)
				values_.push_back(values[from_[i] + value]);
			continue;
		}
		if (!is_unpacked && unpack_record(altered_, share_->layouts.get(), (const uchar *) values[1].bytes,
						  values[1].length, record))
			return IOLANE_STORE_ERROR_DAMAGED;
		is_unpacked = true;
		bool has_null;

		keys_[i].clear();
		encode_key(altered_, key, key->user_defined_key_parts, record, &keys_[i], &has_null);
		values_.push_back(blob(keys_[i]));
		if (takes_null_mark(key))
			values_.push_back(has_null ? iolane_value() : integer(1));
	}
	int code = iolane_load_row(load_, transaction_, values_.data(), values_.size(), 0);

	return code < 0 ? code : 0;
}

int Rebuild::copy_rows(THD *thd)
{
	Row row;
	int code;

	while ((code = iolane_cursor_next(cursor_, transaction_, row.get())) == 1) {
		size_t count;

		if (thd_kill_level(thd) != THD_IS_NOT_KILLED)
			return IOLANE_STORE_ERROR_CANCELLED;
		code = add(row.values(&count));
		if (code)
			break;
	}
	return code;
}

int Rebuild::finish()
{
	Row same;
	int code = iolane_load_finish(load_, transaction_, same.get());

	is_filled_ = !code;
	if (code != IOLANE_STORE_ERROR_DUPLICATE)
		return code;
	std::string key = iolane_store_last_key();
	size_t count;
	const iolane_value *values = same.values(&count);

	duplicate_ = key[0] == 'k' ? (uint) atoi(key.c_str() + 1) : altered_->s->primary_key;
	/* The server shows the key of this record. */
	if (count)
		unpack_record(altered_, share_->layouts.get(), (const uchar *) values[1].bytes,
			      values[1].length, altered_->record[0]);
	return code;
}

int Rebuild::fill(THD *thd, std::string schema)
{
	number_ = dictionary.new_number();
	schema.replace(schema.find('@'), 1, Dictionary::name_of(number_));
	int code = begin(schema);

	if (!code)
		code = copy_rows(thd);
	iolane_cursor_free(cursor_);
	cursor_ = nullptr;
	if (!code)
		code = finish();
	if (duplicate_ < altered_->s->keys)
		return HA_ERR_FOUND_DUPP_KEY;
	return code ? error_of(code, nullptr) : 0;
}

int Rebuild::commit()
{
	iolane_transaction *transaction = transaction_;

	iolane_load_free(load_);
	load_ = nullptr;
	transaction_ = nullptr;
	/* If that fails, the dictionary may lead to it all the same when it is read again. */
	is_filled_ = false;
	return dictionary.change_table(share_->path.c_str(), number_, transaction);
}

bool ha_iolane::inplace_alter_table(TABLE *altered, Alter_inplace_info *info)
{
	if (!(info->handler_flags & KEYS))
		return false;
	Rebuild *rebuild = new Rebuild(table, altered, share_);

	info->handler_ctx = rebuild;
	int error = rebuild->fill(ha_thd(), schema_of(altered));

	if (rebuild->duplicate() < altered->s->keys)
		print_keydup_error(altered, &altered->key_info[rebuild->duplicate()], MYF(0));
	else if (error)
		print_error(error, MYF(0));
	return error != 0;
}

/* From here on rows have more columns; those that are there have what is the default now. */
int ha_iolane::add_columns(TABLE *altered)
{
	const Layouts *before = share_->layouts.get();
	Layouts layouts;

	if (before)
		layouts.old = before->old;
	layouts.old.push_back(Layout::of(table_share));
	pack_record(altered, &layouts, altered->s->default_values, &layouts.defaults);
	if (before) {
		std::string defaults;
		int error = unpack_record(altered, &layouts, (const uchar *) before->defaults.data(),
					  before->defaults.size(), altered->record[0]);

		if (error)
			return error;
		pack_record(altered, &layouts, altered->record[0], &defaults);
		layouts.defaults = defaults;
	}
	return dictionary.add_layout(share_->path.c_str(), std::move(layouts));
}

bool ha_iolane::commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *info, bool commit)
{
	int error = 0;

	if (!(info->handler_flags & (KEYS | COLUMNS)))
		return handler::commit_inplace_alter_table(altered, info, commit);
	if (commit)
		error = info->handler_ctx ? static_cast<Rebuild *>(info->handler_ctx)->commit() :
					    add_columns(altered);
	delete info->handler_ctx;
	info->handler_ctx = nullptr;
	if (error)
		print_error(error, MYF(0));
	return error != 0;
}
