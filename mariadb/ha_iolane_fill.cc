/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The handler: many rows into an empty table.
 *
 * After its first rows a statement begins to fill another table of the store, page by
 * page, which has these rows, too. The dictionary leads to it as a change of the
 * transaction: so it takes its place when that commits, also after a crash, and is
 * dropped when that is rolled back. Until then only the transaction uses it. Others
 * still read the empty table, and are kept from writing by a lock of the server on its
 * name.
 */
#include "ha_iolane.h"
#include "iolane_record.h"

using namespace iolane;

/* Rows that are inserted one by one: for fewer another table is not worth its while. */
static const uint64_t ROWS_MIN = 1000;

void ha_iolane::start_bulk_insert(ha_rows rows, uint)
{
	inserted_ = 0;
	may_fill_ = (!rows || rows > ROWS_MIN) && can_fill();
}

/* Whether nobody looks at the rows before the statement has ended. */
bool ha_iolane::can_fill()
{
	THD *thd = ha_thd();

	if (!transaction() || table->triggers || thd->locked_tables_mode > LTM_LOCK_TABLES ||
	    table_share->long_unique_table || table_share->period.unique_keys)
		return false;
	/* Others of a parallel replica would wait for a lock that its order knows nothing of. */
	if (thd->slave_thread)
		return false;
	/* That lock does not outlive the connection; such a transaction does. */
	if (thd->transaction->xid_state.is_explicit_XA())
		return false;
	return true;
}

int ha_iolane::extra(enum ha_extra_function operation)
{
	switch (operation) {
	case HA_EXTRA_IGNORE_DUP_KEY:
	case HA_EXTRA_WRITE_CAN_REPLACE:
	case HA_EXTRA_INSERT_WITH_UPDATE:
		handles_duplicates_ = true;
		break;
	case HA_EXTRA_NO_IGNORE_DUP_KEY:
		handles_duplicates_ = false;
		break;
	default:
		break;
	}
	return 0;
}

/* Until the transaction ends; without a wait. A table without such a lock is only ours. */
bool ha_iolane::keep_others_out()
{
	THD *thd = ha_thd();

	if (table_share->tmp_table != NO_TMP_TABLE || !table->mdl_ticket)
		return true;
	Dummy_error_handler refused;

	thd->push_internal_handler(&refused);
	bool failed = thd->mdl_context.upgrade_shared_lock(table->mdl_ticket, MDL_SHARED_NO_WRITE, 0);

	thd->pop_internal_handler();
	return !failed;
}

/* Whether the table has the rows of the statement and nothing else. */
bool ha_iolane::is_only_ours()
{
	uint64_t count;

	return !iolane_store_records_up_to(store, name().c_str(), inserted_, &count) &&
	       count == inserted_;
}

/* The statement goes on in another table, if it can. */
int ha_iolane::begin_fill()
{
	if (inserted_ < ROWS_MIN)
		return 0;
	may_fill_ = false;
	/* Only of the primary key it is known in time whether a row is there. */
	for (uint i = 0; handles_duplicates_ && i < table_share->keys; i++)
		if (!is_primary(i) && (table->key_info[i].flags & HA_NOSAME))
			return 0;
	if (!is_only_ours() || !keep_others_out() || !is_only_ours())
		return 0;
	std::string schema;
	int error = dictionary.prepare_fill(share_->path.c_str(), &filled_table_, &schema);

	if (error)
		return error;
	int old_lock = lock_;

	/* What is there now; it is locked already. */
	lock_ = IOLANE_LOCK_EXCLUSIVE;
	error = open_cursor(MAX_KEY, Range());
	lock_ = old_lock;
	if (error)
		return error;
	int code = iolane_load_begin(transaction(), schema.c_str(), &load_);

	while (!code && (code = iolane_cursor_next(cursor_, transaction(), row_.get())) == 1) {
		size_t count;
		const iolane_value *values = row_.values(&count);

		code = iolane_load_row(load_, transaction(), values, count, 0);
		code = code < 0 ? code : 0;
	}
	error = code ? fail(code) : 0;
	close_cursor();
	if (error)
		give_up_fill();
	return error;
}

int ha_iolane::fill_with(const uchar *record, const std::string &key)
{
	fill_row(record, key);
	int code = iolane_load_row(load_, transaction(), values_.data(), values_.size(),
				   handles_duplicates_);

	if (code == 1)
		return 0;
	if (code < 0) {
		int error = fail(code);

		give_up_fill();
		return error;
	}
	/* It may be there already: from here on row by row. */
	int error = finish_fill();

	return error ? error : insert(record, key);
}

int ha_iolane::finish_fill()
{
	int code = iolane_load_finish(load_, transaction(), row_.get());
	int error = code ? fail(code) : 0;

	if (code == IOLANE_STORE_ERROR_DUPLICATE) {
		size_t count;
		const iolane_value *values = row_.values(&count);

		/* The server shows the key of this record. */
		if (count)
			unpack_record(table, share_->layouts.get(), (const uchar *) values[1].bytes, values[1].length,
				      table->record[0]);
	}
	give_up_fill();
	if (!error)
		session_->note_filled(share_->path, share_->place->table, filled_table_);
	return error;
}

/* Nothing is left of a table that is not finished. */
void ha_iolane::give_up_fill()
{
	iolane_load_free(load_);
	load_ = nullptr;
	may_fill_ = false;
}

int ha_iolane::end_bulk_insert()
{
	THD *thd = ha_thd();
	int error = 0;

	may_fill_ = false;
	if (!load_)
		return 0;
	/* The statement is going to be undone. */
	if (thd->is_error() || thd_kill_level(thd) != THD_IS_NOT_KILLED)
		give_up_fill();
	else
		error = finish_fill();
	if (error)
		my_errno = error;
	return error;
}
