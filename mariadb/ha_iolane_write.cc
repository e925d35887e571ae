/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The handler: insert, update, delete, auto-increment.
 */
#include "ha_iolane.h"
#include "iolane_key.h"
#include "iolane_record.h"

using namespace iolane;

/* Values of auto-increment are reserved by so many, or by as many as a statement wants. */
static const uint64_t VALUES_AT_ONCE = 1000;

/* The primary key of a record, as bytes. */
std::string ha_iolane::key_of(const uchar *record)
{
	const KEY *key = &table->key_info[table_share->primary_key];
	std::string bytes;
	bool has_null;

	encode_key(table, key, key->user_defined_key_parts, record, &bytes, &has_null);
	return bytes;
}

/* Whether a position holds the primary key; one of rare characters may be longer. */
bool ha_iolane::has_room_for(const std::string &key) const
{
	return key.size() + POSITION_HEAD_BYTES <= ref_length;
}

/* The values of a record for the store, in values_. */
void ha_iolane::fill_row(const uchar *record, const std::string &key)
{
	pack_record(table, share_->layouts.get(), record, &packed_);
	fill_values(record, key);
}

/* The same where packed_ is the record. */
void ha_iolane::fill_values(const uchar *record, const std::string &key)
{
	keys_.resize(table_share->keys);
	values_.clear();
	values_.push_back(blob(key));
	values_.push_back(blob(packed_));
	for (uint i = 0; i < table_share->keys; i++) {
		const KEY *info = &table->key_info[i];
		bool has_null;

		if (is_primary(i))
			continue;
		keys_[i].clear();
		encode_key(table, info, info->user_defined_key_parts, record, &keys_[i], &has_null);
		values_.push_back(blob(keys_[i]));
		if (takes_null_mark(info))
			values_.push_back(has_null ? iolane_value() : integer(1));
	}
}

int ha_iolane::insert(const uchar *record, const std::string &key)
{
	if (load_)
		return fill_with(record, key);
	fill_row(record, key);
	int code = iolane_transaction_insert(transaction(), name().c_str(), values_.data(),
					     values_.size());

	if (code)
		return fail(code);
	inserted_++;
	return may_fill_ ? begin_fill() : 0;
}

int ha_iolane::write_row(const uchar *record)
{
	int error;
	std::string key;

	if (!transaction())
		return HA_ERR_INTERNAL_ERROR;
	if (table->next_number_field && record == table->record[0]) {
		error = update_auto_increment();
		if (error)
			return error;
	}
	if (has_primary_key()) {
		key = key_of(record);
	} else {
		uint64_t number;
		uchar bytes[8];

		error = dictionary.next_row_number(&number);
		if (error)
			return error;
		mi_int8store(bytes, number);
		key.assign((const char *) bytes, sizeof(bytes));
	}
	if (!has_room_for(key))
		return HA_ERR_TO_BIG_ROW;
	error = insert(record, key);
	if (error)
		return error;
	current_ = key;
	share_->rows_added.fetch_add(1, std::memory_order_relaxed);
	return note_auto_increment(record);
}

/* A row gets another primary key: all of that happens, or nothing. */
int ha_iolane::replace(const uchar *record, const std::string &old_key, const std::string &key)
{
	uint64_t savepoint;
	iolane_value old_value = blob(old_key);
	int code = iolane_transaction_savepoint(transaction(), &savepoint);

	if (code)
		return fail(code);
	code = iolane_transaction_delete(transaction(), name().c_str(), &old_value, 1);
	int error = code < 0 ? fail(code) : code == 0 ? HA_ERR_KEY_NOT_FOUND : insert(record, key);

	if (error && error != HA_ERR_LOCK_DEADLOCK) {
		code = iolane_transaction_rollback_to(transaction(), savepoint);
		if (code)
			return fail(code);
	}
	if (error != HA_ERR_LOCK_DEADLOCK)
		iolane_transaction_release(transaction(), savepoint);
	return error;
}

int ha_iolane::update_row(const uchar *before, const uchar *after)
{
	if (!transaction())
		return HA_ERR_INTERNAL_ERROR;
	std::string old_key = has_primary_key() ? key_of(before) : current_;
	std::string key = has_primary_key() ? key_of(after) : old_key;
	int error;

	/* Bytes of no value, such as those of a NULL, may differ. */
	pack_record(table, share_->layouts.get(), before, &packed_before_);
	pack_record(table, share_->layouts.get(), after, &packed_);
	if (packed_ == packed_before_)
		return HA_ERR_RECORD_IS_THE_SAME;
	if (!has_room_for(key))
		return HA_ERR_TO_BIG_ROW;
	if (key != old_key) {
		error = replace(after, old_key, key);
	} else {
		fill_values(after, key);
		int code = iolane_transaction_update(transaction(), name().c_str(), values_.data(),
						     values_.size());

		error = code < 0 ? fail(code) : code == 0 ? HA_ERR_KEY_NOT_FOUND : 0;
	}
	return error ? error : note_auto_increment(after);
}

int ha_iolane::delete_row(const uchar *record)
{
	if (!transaction())
		return HA_ERR_INTERNAL_ERROR;
	std::string key = has_primary_key() ? key_of(record) : current_;
	iolane_value value = blob(key);
	int code = iolane_transaction_delete(transaction(), name().c_str(), &value, 1);

	if (code > 0)
		share_->rows_added.fetch_sub(1, std::memory_order_relaxed);
	return code < 0 ? fail(code) : code == 0 ? HA_ERR_KEY_NOT_FOUND : 0;
}

/* The next value; reserves more where the dictionary does not know of it. Locked. */
int ha_iolane::set_next_value(uint64_t next_value)
{
	if (next_value > share_->reserved) {
		uint64_t reserved = next_value + VALUES_AT_ONCE;

		if (reserved < next_value)
			reserved = next_value;
		int error = dictionary.set_next_value(share_->path.c_str(), share_->place->table, reserved);

		if (error)
			return error;
		share_->reserved = reserved;
	}
	share_->next_value = next_value;
	return 0;
}

void ha_iolane::get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted,
				   ulonglong *first, ulonglong *reserved)
{
	std::lock_guard<std::mutex> guard(share_->mutex);
	ulonglong value = share_->next_value;
	ulonglong max = table->next_number_field->get_max_int_value();

	if (increment > 1) {
		/* The least offset + n * increment that is not below it. */
		if (offset > increment)
			offset = 0;
		if (value <= offset)
			value = offset ? offset : value;
		else
			value = (value - offset + increment - 1) / increment * increment + offset;
	}
	*first = value;
	*reserved = wanted ? wanted : 1;
	if (value < share_->next_value) {
		*first = ULONGLONG_MAX;
		*reserved = 0;
		return;
	}
	/* The server refuses it, or takes the greatest one, by the mode of SQL. */
	if (value > max) {
		*reserved = 1;
		return;
	}
	ulonglong next = value + *reserved * increment;

	if (next < value || next > max)
		next = max == ULONGLONG_MAX ? max : max + 1;
	if (set_next_value(next)) {
		*first = ULONGLONG_MAX;
		*reserved = 0;
	}
}

/* A value that was given is not given by itself later. */
int ha_iolane::note_auto_increment(const uchar *record)
{
	Field *field = table->found_next_number_field;

	if (!field || (record != table->record[0] && record != table->record[1]))
		return 0;
	my_ptrdiff_t moved = record - table->record[0];

	field->move_field_offset(moved);
	longlong value = field->val_int();
	bool is_unsigned = (field->flags & UNSIGNED_FLAG) != 0;

	field->move_field_offset(-moved);
	if (!is_unsigned && value <= 0)
		return 0;
	std::lock_guard<std::mutex> guard(share_->mutex);
	uint64_t next = (uint64_t) value == UINT64_MAX ? UINT64_MAX : (uint64_t) value + 1;

	return next > share_->next_value ? set_next_value(next) : 0;
}

int ha_iolane::reset_auto_increment(ulonglong value)
{
	std::lock_guard<std::mutex> guard(share_->mutex);

	share_->reserved = 0;
	return set_next_value(value ? value : 1);
}
