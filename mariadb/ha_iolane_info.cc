/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The handler: sizes, estimates, checks.
 */
#include "ha_iolane.h"
#include "iolane_key.h"
#include "iolane_record.h"

#include "partition_info.h"

#include <algorithm>

using namespace iolane;

/* Sizes are looked at so often at the most, as that reads pages. */
static const time_t STATISTICS_SECONDS = 1;
/* What keys have is looked at again when so much of the rows has come or gone. */
static const double ROWS_CHANGED = 0.1;
/* A row costs about as much as so many pages of a scan when it is read by itself. */
static const double ROWS_PER_READ = 1.0;

int ha_iolane::look_at_statistics(bool now)
{
	std::lock_guard<std::mutex> guard(share_->statistics_mutex);
	time_t time = my_time(0);

	if (!now && share_->looked_at && time - share_->looked_at < STATISTICS_SECONDS)
		return 0;
	share_->rows_added = 0;
	int code = on_table([&](const char *table) {
		return iolane_store_table_statistics(store, table, nullptr, &share_->statistics);
	});

	if (code)
		return fail(code);
	share_->looked_at = time;
	return 0;
}

/*
 * Whether what its keys have is what the server is to know of the table's: of partitions that is one with
 * as many rows as others. With HA_STATUS_CONST the server asks the largest one.
 */
bool ha_iolane::stands_for_all(uint flags) const
{
	if (!table->part_info || (flags & HA_STATUS_CONST))
		return true;
	return table->file && stats.records * table->part_info->get_tot_partitions() >= table->file->stats.records;
}

static size_t whole_parts(void *key, const void *bytes, size_t length)
{
	return count_whole_parts(static_cast<const KEY *>(key), static_cast<const uchar *>(bytes), length);
}

/* Of each number of a key's first parts, how many rows have the same value, on average. */
std::vector<ulong> ha_iolane::rows_per_value(uint key, uint64_t rows, int *code) const
{
	KEY *info = &table->key_info[key];
	uint parts = info->user_defined_key_parts;
	std::string index = "k" + std::to_string(key);
	std::vector<uint64_t> distinct(parts);
	std::vector<ulong> result(parts);
	uint64_t entries = 0;

	*code = on_table([&](const char *name) {
		return iolane_store_key_statistics(store, name, is_primary(key) ? nullptr : index.c_str(), parts,
						   whole_parts, info, &entries, distinct.data());
	});
	for (uint i = 0; i < parts; i++) {
		double each = (double) entries / (double) std::max<uint64_t>(distinct[i], 1);

		result[i] = (ulong) std::clamp(each + 0.5, 1.0, (double) rows);
	}
	/* No more than one, but of those with NULL, which no value finds. */
	if (info->flags & HA_NOSAME)
		result[parts - 1] = 1;
	return result;
}

/* Looks at the keys when it is asked for, for the first time, or when the table has become another one. */
int ha_iolane::look_at_keys(bool now)
{
	std::lock_guard<std::mutex> guard(share_->statistics_mutex);
	time_t time = my_time(0);
	uint64_t rows = (uint64_t) std::max<int64_t>((int64_t) share_->statistics.rows + share_->rows_added, 0);
	uint64_t then = share_->rows_then;
	bool is_known = share_->keys_looked_at != 0;

	if (!now && is_known && then && time - share_->keys_looked_at < STATISTICS_SECONDS)
		return 0;
	if (!now && is_known && (double) std::max(rows, then) - (double) std::min(rows, then) <= ROWS_CHANGED * (double) then)
		return 0;
	std::vector<std::vector<ulong>> all(table_share->keys);
	int code = 0;

	for (uint i = 0; !code && rows && i < table_share->keys; i++)
		all[i] = rows_per_value(i, rows, &code);
	if (code)
		return fail(code);
	share_->rows_per_value.swap(all);
	share_->keys_looked_at = time;
	share_->rows_then = rows;
	return 0;
}

/* The server keeps it for all who have the table open. */
void ha_iolane::tell_rows_per_value()
{
	std::lock_guard<std::mutex> guard(share_->statistics_mutex);
	/* There may be a few rows less than when it was looked at. */
	ulong rows = (ulong) std::max<ha_rows>(stats.records, 1);

	for (uint i = 0; i < table_share->keys && i < share_->rows_per_value.size(); i++) {
		const std::vector<ulong> &known = share_->rows_per_value[i];
		const KEY *key = &table->key_info[i];

		for (uint part = 0; part < key->user_defined_key_parts; part++)
			key->rec_per_key[part] = part < known.size() ? std::min(known[part], rows) : 0;
	}
}

int ha_iolane::info(uint flags)
{
	if (flags & HA_STATUS_ERRKEY) {
		const Session::Failure *last = failure();

		errkey = last ? last->duplicate_key : MAX_KEY;
	}
	if (flags & HA_STATUS_AUTO) {
		std::lock_guard<std::mutex> guard(share_->mutex);

		stats.auto_increment_value = share_->next_value;
	}
	if (!(flags & (HA_STATUS_VARIABLE | HA_STATUS_CONST)))
		return 0;
	/* Who shows them to a user wants them as they are. */
	int error = look_at_statistics((flags & HA_STATUS_TIME) != 0);

	if (error)
		return error;
	const iolane_table_statistics &seen = share_->statistics;

	stats.records = (ha_rows) std::max<int64_t>((int64_t) seen.rows + share_->rows_added, 0);
	/*
	 * No estimate says that there is none: the server believes that. A partition is asked with HA_STATUS_OPEN
	 * only to find where history goes, the last one that has any.
	 */
	if (stats.records == 0 && !(flags & (HA_STATUS_TIME | HA_STATUS_OPEN)))
		stats.records = 1;
	stats.deleted = 0;
	stats.data_file_length = (seen.leaf_pages + seen.branch_pages + seen.long_pages) * stats.block_size;
	stats.index_file_length = (seen.used_pages * stats.block_size) - std::min<ulonglong>(
		seen.used_pages * stats.block_size, stats.data_file_length);
	stats.delete_length = (seen.file_pages - seen.used_pages) * stats.block_size;
	stats.mean_rec_length = (ulong) (stats.data_file_length / std::max<ha_rows>(stats.records, 1));
	if (!stands_for_all(flags))
		return 0;
	/* Each statement comes here, and what is told is one memory for all. */
	time_t now = my_time(0);

	if (!(flags & HA_STATUS_CONST) && share_->keys_told_at == now)
		return 0;
	error = look_at_keys(false);
	if (!error)
		tell_rows_per_value();
	share_->keys_told_at = error || !share_->rows_then ? 0 : now;
	return error;
}

ha_rows ha_iolane::records_in_range(uint key, const key_range *from, const key_range *to, page_range *)
{
	iolane_range range = {};
	std::string index = "k" + std::to_string(key), lower, upper;
	iolane_value lower_value, upper_value;
	uint64_t rows;

	if (!is_primary(key))
		range.index = index.c_str();
	if (from)
		lower = first_key(key, *from);
	if (to)
		upper = end_key(key, *to, from && from->flag == HA_READ_KEY_EXACT);
	lower_value = blob(lower);
	upper_value = blob(upper);
	set_bounds(&range, &lower_value, &upper_value);
	if (from && to && !upper.empty() && lower > upper)
		return 1;
	int code = on_table([&](const char *table) {
		return iolane_store_estimate(store, table, &range, &rows);
	});

	if (code)
		return HA_POS_ERROR;
	/* None is believed to be none. */
	return rows ? (ha_rows) rows : 1;
}

double ha_iolane::scan_time()
{
	return (double) share_->statistics.leaf_pages + 1;
}

double ha_iolane::read_time(uint key, uint ranges, ha_rows rows)
{
	if (!is_primary(key))
		return handler::read_time(key, ranges, rows);
	/* Rows that follow each other lie in few pages. */
	double share = (double) rows / ((double) stats.records + 1);

	return ranges * ROWS_PER_READ + scan_time() * std::min(share, 1.0);
}

/*
 * ANALYZE ... PERSISTENT reads the rows of a key that has a part whose bytes do not give its value, and then
 * counts no values of that part and those behind it. It counts them where its columns are said to be in the key,
 * and gets the same rows, as has_columns_of() still knows better.
 */
void ha_iolane::mark_parts()
{
	for (uint i = 0; i < table_share->keys; i++) {
		KEY *key = &table->key_info[i];

		for (uint part = 0; part < key->user_defined_key_parts && key->algorithm != HA_KEY_ALG_LONG_HASH; part++) {
			const KEY_PART_INFO *info = &key->key_part[part];

			if (info->field->part_of_key.is_set(i))
				continue;
			if ((info->key_part_flag & HA_PART_KEY_SEG) || !info->field->stored_in_db())
				break;
			info->field->part_of_key.set_bit(i);
			marked_parts_.push_back({ info->field, i });
		}
	}
}

void ha_iolane::unmark_parts()
{
	for (const MarkedPart &part : marked_parts_)
		part.field->part_of_key.clear_bit(part.key);
	marked_parts_.clear();
}

int ha_iolane::analyze(THD *, HA_CHECK_OPT *)
{
	if (look_at_statistics(true) || look_at_keys(true))
		return HA_ADMIN_FAILED;
	share_->keys_told_at = 0;
	return info(HA_STATUS_NO_LOCK | HA_STATUS_VARIABLE) ? HA_ADMIN_FAILED : HA_ADMIN_OK;
}

int ha_iolane::optimize(THD *, HA_CHECK_OPT *)
{
	return HA_ADMIN_TRY_ALTER;
}

/* Walks a key, and looks whether each row that it leads to has the key. */
int ha_iolane::check_key(THD *thd, uint key, uint64_t *rows)
{
	uchar *record = table->record[0];
	int error = open_cursor(key, Range());
	std::string last;

	*rows = 0;
	while (!error && !(error = fetch(record))) {
		std::string bytes = current_;
		bool has_null;

		if (thd_kill_level(thd) != THD_IS_NOT_KILLED)
			return HA_ERR_ABORTED_BY_USER;
		if (key != MAX_KEY) {
			const KEY *info = &table->key_info[key];

			bytes.clear();
			encode_key(table, info, info->user_defined_key_parts, record, &bytes, &has_null);
		}
		if (*rows && bytes < last)
			return HA_ERR_INDEX_CORRUPT;
		last.swap(bytes);
		++*rows;
	}
	close_cursor();
	return error == HA_ERR_END_OF_FILE ? 0 : error;
}

int ha_iolane::check(THD *thd, HA_CHECK_OPT *)
{
	uint64_t rows, entries;
	int old_lock = lock_;
	MY_BITMAP *old_read = tmp_use_all_columns(table, &table->read_set);

	lock_ = IOLANE_LOCK_NONE;
	int error = check_key(thd, MAX_KEY, &rows);

	for (uint i = 0; !error && i < table_share->keys; i++) {
		bool has_virtual = false;

		for (uint part = 0; part < table->key_info[i].user_defined_key_parts; part++)
			has_virtual |= !table->key_info[i].key_part[part].field->stored_in_db();
		if (is_primary(i) || has_virtual)
			continue;
		error = check_key(thd, i, &entries);
		if (!error && entries != rows)
			error = HA_ERR_INDEX_CORRUPT;
	}
	lock_ = old_lock;
	tmp_restore_column_map(&table->read_set, old_read);
	if (!error)
		return HA_ADMIN_OK;
	return error == HA_ERR_ABORTED_BY_USER ? HA_ADMIN_FAILED : HA_ADMIN_CORRUPT;
}
