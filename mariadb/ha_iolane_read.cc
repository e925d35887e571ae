/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The handler: scans, and rows by their keys.
 */
#include "ha_iolane.h"
#include "iolane_key.h"
#include "iolane_record.h"

using namespace iolane;

void ha_iolane::close_cursor()
{
	iolane_cursor_free(cursor_);
	cursor_ = nullptr;
	is_joined_ = false;
	forget_range();
}

/* Of the range that it is in, not of the cursor. */
void ha_iolane::forget_range()
{
	is_narrow_ = false;
	is_one_key_ = false;
	ends_with_range_ = false;
	begin_.clear();
	only_keys_ = false;
	has_row_ = false;
	is_old_ = false;
	end_ = End::NONE;
}

/* Whether there is a transaction, and its view sees into the table. */
int ha_iolane::check_readable()
{
	if (!transaction())
		return HA_ERR_INTERNAL_ERROR;
	return session_->check_age(share_->place->since);
}

/*
 * Whether entries of a key have what is needed of its columns. The server may ask for a column that they do
 * not have, though its statement does not name it: it merges partitions by all of a key.
 */
bool ha_iolane::has_columns_of(uint key) const
{
	const KEY *info = &table->key_info[key];

	if (has_primary_key() && !has_decodable_primary_key())
		return false;
	for (uint part = decodable_[key]; part < info->user_defined_key_parts; part++) {
		uint column = info->key_part[part].fieldnr - 1;

		if (bitmap_is_set(table->read_set, column) && !is_in_primary_key(column))
			return false;
	}
	return true;
}

int ha_iolane::open_cursor(uint key, const Range &range)
{
	iolane_range bounds = {};
	std::string index = "k" + std::to_string(key);
	iolane_value lower = blob(range.lower), upper = blob(range.upper);
	bool goes_on = joins_ranges_ && is_joined_;

	if (goes_on)
		forget_range();
	else
		close_cursor();
	if (key != MAX_KEY && !is_primary(key))
		bounds.index = index.c_str();
	if (range.has_lower) {
		bounds.lower = &lower;
		bounds.lower_count = 1;
		bounds.lower_bound = IOLANE_INCLUDED;
	}
	if (range.has_upper) {
		bounds.upper = &upper;
		bounds.upper_count = 1;
		bounds.upper_bound = range.upper_included ? IOLANE_INCLUDED : IOLANE_EXCLUDED;
	}
	bounds.backward = range.backward;
	bounds.lock = lock_;
	/*
	 * Where keys are merged, the server compares the primary key of the record with ranges, and
	 * leaves out rows by that: the record must have it.
	 */
	bounds.only_keys = bounds.index && reads_keys() && lock_ == IOLANE_LOCK_NONE && has_columns_of(key);
	bounds.when_locked = when_locked_;
	bounds.one_of_many = joins_ranges_;
	backward_ = range.backward;
	int error = check_readable();

	if (error)
		return error;
	int code = goes_on ? iolane_cursor_go_on(cursor_, transaction(), &bounds) :
			     on_table([&](const char *table) {
				     return iolane_cursor_open(transaction(), table, &bounds, &cursor_);
			     });

	if (code)
		return fail(code);
	is_joined_ = joins_ranges_;
	only_keys_ = bounds.only_keys;
	is_narrow_ = range.is_narrow;
	ends_with_range_ = range.ends_with_range;
	return 0;
}

/* The row that is in row_ becomes the record. */
int ha_iolane::take(uchar *record, bool only_keys)
{
	size_t count;
	const iolane_value *values = row_.values(&count);

	current_.assign((const char *) values[0].bytes, values[0].length);
	has_row_ = true;
	if (!only_keys) {
		int error = unpack_record(table, share_->layouts.get(), (const uchar *) values[1].bytes, values[1].length, record);

		if (error || !reads_keys())
			return error;
	}
	/* The server does not compute virtual columns now. */
	return take_keys(values, record);
}

/* Where the server reads a key only, its values come from there, and the primary key's. */
int ha_iolane::take_keys(const iolane_value *values, uchar *record)
{
	for (uint key : { active_index, table_share->primary_key }) {
		if (key >= table_share->keys)
			continue;
		const iolane_value *value = &values[key_values_[key]];

		if (!decode_key(table, &table->key_info[key], decodable_[key], (const uchar *) value->bytes,
				value->length, record))
			return HA_ERR_CRASHED_ON_USAGE;
	}
	return 0;
}

/* As fill_row() has them. */
std::vector<size_t> iolane::places_of_keys(const TABLE *table)
{
	std::vector<size_t> places;
	size_t place = 2;

	for (uint i = 0; i < table->s->keys; i++) {
		places.push_back(i == table->s->primary_key ? 0 : place);
		if (i != table->s->primary_key)
			place += 1 + takes_null_mark(&table->key_info[i]);
	}
	return places;
}

void ha_iolane::find_keys_of_rows()
{
	key_values_ = places_of_keys(table);
	decodable_.clear();
	/* The table's own parts are of columns that are as long as they are. */
	for (uint i = 0; i < table_share->keys; i++)
		decodable_.push_back(count_decodable(&table_share->key_info[i]));
}

/* The next row of the cursor. */
int ha_iolane::fetch(uchar *record)
{
	iolane_transaction *it = transaction();

	if (!cursor_ || !it)
		return HA_ERR_END_OF_FILE;
	int code = iolane_cursor_next(cursor_, it, row_.get());

	if (code < 0)
		return fail(code);
	if (!code && !is_narrow_)
		end_ = backward_ ? End::BEFORE_ALL : End::BEHIND_ALL;
	return code ? take(record, only_keys_) : HA_ERR_END_OF_FILE;
}

int ha_iolane::rnd_init(bool scan)
{
	if (!scan) {
		close_cursor();
		return 0;
	}
	return open_cursor(MAX_KEY, Range());
}

int ha_iolane::rnd_end()
{
	close_cursor();
	return 0;
}

int ha_iolane::rnd_next(uchar *record)
{
	return is_old_ && cursor_ ? walk(record, false) : fetch(record);
}

/* The row of a primary key; locked as the statement wants it. */
int ha_iolane::get(uchar *record, const std::string &key)
{
	iolane_value value = blob(key);
	int error = check_readable();

	if (error)
		return error;
	int code = on_table([&](const char *table) {
		return iolane_transaction_get(transaction(), table, &value, 1, lock_, when_locked_,
					      row_.get());
	});

	if (code < 0)
		return fail(code);
	return code ? take(record) : HA_ERR_KEY_NOT_FOUND;
}

int ha_iolane::rnd_pos(uchar *record, uchar *position)
{
	std::string key((const char *) position + POSITION_HEAD_BYTES, uint2korr(position));

	return get(record, key);
}

void ha_iolane::position(const uchar *record)
{
	/* Where only a key is read the record may lack the primary one. */
	const std::string &key = has_primary_key() && !keyread_enabled() ? key_of(record) : current_;

	memset(ref, 0, ref_length);
	int2store(ref, (uint16) key.size());
	memcpy(ref + POSITION_HEAD_BYTES, key.data(), key.size());
}

int ha_iolane::cmp_ref(const uchar *a, const uchar *b)
{
	uint length_a = uint2korr(a), length_b = uint2korr(b);
	int order = memcmp(a + POSITION_HEAD_BYTES, b + POSITION_HEAD_BYTES,
			   std::min(length_a, length_b));

	return order ? order : (int) length_a - (int) length_b;
}

int ha_iolane::index_init(uint key, bool)
{
	active_index = key;
	return 0;
}

int ha_iolane::index_end()
{
	active_index = MAX_KEY;
	close_many();
	close_cursor();
	return 0;
}

/* How many parts of a key a map names; HA_WHOLE_KEY names more than there are. */
static uint count_parts(const KEY *key, key_part_map parts)
{
	return std::min<uint>(my_count_bits(parts), key->user_defined_key_parts);
}

/* The first parts of a key, as the server hands them over, as bytes. */
std::string ha_iolane::search_key(uint key, const uchar *value, key_part_map parts, Bound bound)
{
	KEY *info = &table->key_info[key];
	uint count = count_parts(info, parts);
	std::string bytes;
	bool has_null;

	scratch_.resize(table->s->rec_buff_length);
	memcpy(scratch_.data(), table->s->default_values, table->s->reclength);
	restore_key(table, info, count, value, bound, scratch_.data());
	encode_key(table, info, count, scratch_.data(), &bytes, &has_null);
	return bytes;
}

/* Whether it names all parts of a key. */
bool ha_iolane::is_whole(uint key, key_part_map parts) const
{
	const KEY *info = &table->key_info[key];

	return count_parts(info, parts) == info->user_defined_key_parts;
}

/* What the key of a search is. */
static Bound bound_of(enum ha_rkey_function how)
{
	switch (how) {
	case HA_READ_KEY_OR_NEXT:
	case HA_READ_AFTER_KEY:
		return Bound::LOWER;
	case HA_READ_KEY_OR_PREV:
	case HA_READ_PREFIX_LAST_OR_PREV:
	case HA_READ_BEFORE_KEY:
		return Bound::UPPER;
	default:
		return Bound::EXACT;
	}
}

/* Where a range of the server begins; without bytes everything is behind it, or nothing. */
std::string ha_iolane::first_key(uint key, const key_range &from)
{
	std::string bytes = search_key(key, from.key, from.keypart_map, bound_of(from.flag));

	return from.flag == HA_READ_AFTER_KEY ? end_of_prefix(bytes) : bytes;
}

/* Behind where it ends; without bytes it has no end. A range of one key begins as it ends. */
std::string ha_iolane::end_key(uint key, const key_range &to, bool is_one_key)
{
	std::string bytes = search_key(key, to.key, to.keypart_map, is_one_key ? Bound::EXACT : Bound::UPPER);

	return to.flag == HA_READ_BEFORE_KEY ? bytes : end_of_prefix(bytes);
}

/* A range need not be read beyond the end that the server has told. */
void ha_iolane::bound_by_end_of_range(Range *range)
{
	if (!end_range || range->has_upper)
		return;
	std::string end = search_key(active_index, end_range->key, end_range->keypart_map, Bound::UPPER);

	switch (end_range->flag) {
	case HA_READ_BEFORE_KEY:
		break;
	case HA_READ_AFTER_KEY:
		end = end_of_prefix(end);
		if (end.empty())
			return;
		break;
	default:
		return;
	}
	range->has_upper = true;
	range->upper = end;
	range->is_narrow = true;
}

/*
 * The server tells a range before it reads it backwards. Without its begin a locking cursor would not come
 * to its end, where it looks again for rows that others have moved meanwhile.
 */
int ha_iolane::prepare_range_scan(const key_range *from, const key_range *)
{
	begin_ = from ? first_key(active_index, *from) : std::string();
	return 0;
}

void ha_iolane::bound_by_begin_of_range(Range *range)
{
	if (begin_.empty())
		return;
	range->has_lower = true;
	range->lower = begin_;
	range->is_narrow = true;
	range->ends_with_range = true;
}

int ha_iolane::index_read_map(uchar *record, const uchar *key, key_part_map parts,
			      enum ha_rkey_function how)
{
	std::string bytes = search_key(active_index, key, parts, bound_of(how));
	Range range;

	search_ = bytes;
	if (how == HA_READ_KEY_EXACT && is_primary(active_index) && is_whole(active_index, parts) && !joins_ranges_) {
		close_cursor();
		int error = get(record, bytes);

		if (error == HA_ERR_KEY_NOT_FOUND)
			end_ = End::IN_PLACE;
		return error;
	}
	switch (how) {
	case HA_READ_KEY_EXACT:
	case HA_READ_PREFIX:
	case HA_READ_PREFIX_LAST:
		range.is_narrow = true;
		range.has_lower = true;
		range.lower = bytes;
		range.upper = end_of_prefix(bytes);
		range.has_upper = !range.upper.empty();
		range.backward = how == HA_READ_PREFIX_LAST;
		break;
	case HA_READ_KEY_OR_NEXT:
		range.has_lower = true;
		range.lower = bytes;
		break;
	case HA_READ_AFTER_KEY:
		range.lower = end_of_prefix(bytes);
		range.has_lower = true;
		if (range.lower.empty()) {
			if (!joins_ranges_)
				close_cursor();
			end_ = End::BEHIND_ALL;
			return HA_ERR_KEY_NOT_FOUND;
		}
		break;
	case HA_READ_BEFORE_KEY:
		range.has_upper = true;
		range.upper = bytes;
		range.backward = true;
		break;
	case HA_READ_KEY_OR_PREV:
	case HA_READ_PREFIX_LAST_OR_PREV:
		range.upper = end_of_prefix(bytes);
		range.has_upper = !range.upper.empty();
		range.backward = true;
		break;
	default:
		return HA_ERR_WRONG_COMMAND;
	}
	if (!range.is_narrow && range.backward)
		bound_by_begin_of_range(&range);
	else if (!range.is_narrow)
		bound_by_end_of_range(&range);
	int error = open_cursor(active_index, range);

	if (error)
		return error;
	is_one_key_ = how == HA_READ_KEY_EXACT || how == HA_READ_PREFIX;
	error = fetch(record);
	if (error != HA_ERR_END_OF_FILE)
		return error;
	end_ = range.is_narrow ? End::IN_PLACE : range.backward ? End::BEFORE_ALL : End::BEHIND_ALL;
	return HA_ERR_KEY_NOT_FOUND;
}

/* The first row in a direction, where none has come. */
int ha_iolane::leave_end(uchar *record, bool backward)
{
	std::string bound = end_ == End::BEHIND_SEARCH || !backward ? end_of_prefix(search_) : search_;
	Range range;

	range.backward = backward;
	if (end_ == (backward ? End::BEFORE_ALL : End::BEHIND_ALL))
		return HA_ERR_END_OF_FILE;
	if (end_ == End::IN_PLACE || end_ == End::BEHIND_SEARCH) {
		if (bound.empty() && !backward)
			return HA_ERR_END_OF_FILE;
		(backward ? range.has_upper : range.has_lower) = !bound.empty();
		(backward ? range.upper : range.lower) = bound;
	}
	int error = open_cursor(active_index, range);

	return error ? error : fetch(record);
}

/* The next row in a direction, from the one that came last. */
int ha_iolane::walk(uchar *record, bool backward)
{
	iolane_transaction *it = transaction();

	if (!it)
		return HA_ERR_INTERNAL_ERROR;
	if (end_ != End::NONE)
		return leave_end(record, backward);
	if (!cursor_) {
		/* The row came by its primary key. */
		if (!has_row_ || !is_primary(active_index))
			return HA_ERR_END_OF_FILE;
		Range range;
		std::string from = current_;

		if (backward) {
			range.has_upper = true;
			range.upper = from;
		} else {
			range.has_lower = true;
			range.lower = from + std::string(1, '\0');
		}
		range.backward = backward;
		int error = open_cursor(active_index, range);

		return error ? error : fetch(record);
	}
	if (backward != backward_ || is_old_) {
		int code = iolane_cursor_turn(cursor_, it, backward);

		if (code)
			return fail(code);
		backward_ = backward;
		is_narrow_ = false;
		is_old_ = false;
	}
	int error = fetch(record);

	if (error == HA_ERR_END_OF_FILE && is_narrow_ && has_row_) {
		int code = iolane_cursor_turn(cursor_, it, backward);

		if (code)
			return fail(code);
		is_narrow_ = false;
		error = fetch(record);
	}
	return error;
}

int ha_iolane::index_next(uchar *record)
{
	/* Rows behind the end of a range are not asked for. */
	if (end_range && is_narrow_ && cursor_ && !backward_)
		return fetch(record);
	return walk(record, false);
}

int ha_iolane::index_prev(uchar *record)
{
	if (ends_with_range_ && cursor_)
		return fetch(record);
	return walk(record, true);
}

int ha_iolane::index_first(uchar *record)
{
	Range range;

	bound_by_end_of_range(&range);
	int error = open_cursor(active_index, range);

	return error ? error : fetch(record);
}

int ha_iolane::index_last(uchar *record)
{
	Range range;

	range.backward = true;
	bound_by_begin_of_range(&range);
	int error = open_cursor(active_index, range);

	if (error)
		return error;
	error = fetch(record);
	if (error != HA_ERR_END_OF_FILE || !range.ends_with_range)
		return error;
	/* The server would take it that the index is empty, and leave out its other ranges. */
	range = Range();
	range.backward = true;
	error = open_cursor(active_index, range);
	return error ? error : fetch(record);
}

int ha_iolane::index_next_same(uchar *record, const uchar *key, uint length)
{
	/* A row by its whole primary key has none of the same; a cursor over one key ends with it. */
	if (!cursor_ || is_one_key_) {
		int error = cursor_ ? fetch(record) : HA_ERR_END_OF_FILE;

		if (error == HA_ERR_END_OF_FILE && end_ == End::NONE)
			end_ = End::BEHIND_SEARCH;
		return error;
	}
	return handler::index_next_same(record, key, length);
}

/*
 * As the server's own, but for its look whether the row is still in the range: that goes
 * by the record, where virtual columns that nobody reads are not computed. The cursor ends
 * with the range.
 */
int ha_iolane::read_range_first(const key_range *from, const key_range *to, bool is_one_key, bool)
{
	eq_range = is_one_key;
	set_end_range(to);
	range_key_part = table->key_info[active_index].key_part;
	int error = from ? ha_index_read_map(table->record[0], from->key, from->keypart_map, from->flag) :
			   ha_index_first(table->record[0]);

	return error == HA_ERR_KEY_NOT_FOUND ? HA_ERR_END_OF_FILE : error;
}

int ha_iolane::read_range_next()
{
	if (eq_range)
		return ha_index_next_same(table->record[0], end_range->key, end_range->length);
	return ha_index_next(table->record[0]);
}

int ha_iolane::reset()
{
	give_up_fill();
	handles_duplicates_ = false;
	close_many();
	reads_many_ = false;
	locks_ranges_ = false;
	close_cursor();
	return 0;
}
