/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The handler: sizes, estimates, checks.
 */
#include "ha_iolane.h"
#include "iolane_key.h"
#include "iolane_record.h"

using namespace iolane;

/* Sizes are looked at so often at the most, as that reads pages. */
static const time_t STATISTICS_SECONDS = 1;
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
	for (uint i = 0; (flags & HA_STATUS_CONST) && i < table_share->keys; i++) {
		KEY *key = &table->key_info[i];

		if ((key->flags & HA_NOSAME) && !(key->flags & HA_NULL_PART_KEY))
			key->rec_per_key[key->user_defined_key_parts - 1] = 1;
	}
	return 0;
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

int ha_iolane::analyze(THD *, HA_CHECK_OPT *)
{
	return look_at_statistics(true) ? HA_ADMIN_FAILED : HA_ADMIN_OK;
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
