/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The handler: one open table of a statement.
 *
 * A table of the server is a table of the store with these columns:
 *
 *   k		the primary key as bytes; without one, a number of eight bytes
 *   r		the record
 *   k<n>	key n as bytes
 *   u<n>	of a unique key that can be NULL: 1, or null where a part of it is, as rows
 *		with nulls are never the same for the store
 *
 * and an index k<n> over k<n> and u<n> for each key but the primary one.
 */
#ifndef HA_IOLANE_H
#define HA_IOLANE_H

#include "iolane_dictionary.h"
#include "iolane_engine.h"
#include "iolane_key.h"
#include "iolane_record.h"
#include "iolane_transaction.h"

#include <atomic>

namespace iolane {

/* What all handlers of a table share. */
class Share : public Handler_share {
public:
	Share(const char *name, std::shared_ptr<Place> place, uint64_t next,
	      std::shared_ptr<const Layouts> layouts);
	/* Gives back values that were reserved and not used. */
	~Share() override;

	const std::string path;
	/* The table of the store; another one after TRUNCATE, or when it has been filled. */
	const std::shared_ptr<Place> place;
	/* What rows may lack; nullptr where all are as the definition says. */
	const std::shared_ptr<const Layouts> layouts;

	/* Auto-increment: the next value, and up to where the dictionary knows. */
	std::mutex mutex;
	uint64_t next_value;
	uint64_t reserved;

	/* Sizes, when they were looked at, and rows that were added (less those removed) since. */
	std::mutex statistics_mutex;
	std::atomic<int64_t> rows_added = 0;
	iolane_table_statistics statistics = {};
	time_t looked_at = 0;

	/*
	 * How many rows have the same value in the first part of each key, the first two, and so on, 0 where
	 * there is no row; when that was looked at, and how many rows there were.
	 */
	std::vector<std::vector<ulong>> rows_per_value;
	time_t keys_looked_at = 0;
	std::atomic<uint64_t> rows_then = 0;
	/* When the server was told of it last; 0 if there was no row then. */
	std::atomic<time_t> keys_told_at = 0;
};

/* Whether rows say beside a key that a part of it is NULL. */
inline bool takes_null_mark(const KEY *key)
{
	return (key->flags & HA_NOSAME) && (key->flags & HA_NULL_PART_KEY);
}

/* Which value of a row of the store is which key; that of the primary one is the first. */
std::vector<size_t> places_of_keys(const TABLE *table);

/* Whether a table may have rows that a view does not see, and that the server does not lock. */
bool may_have_unseen_rows();

} /* namespace iolane */

class ha_iolane final : public handler {
public:
	ha_iolane(handlerton *hton, TABLE_SHARE *share);
	~ha_iolane() override;

	Table_flags table_flags() const override;
	ulong index_flags(uint key, uint part, bool all_parts) const override;
	uint max_supported_keys() const override { return MAX_KEY; }
	uint max_supported_key_parts() const override { return MAX_REF_PARTS; }
	uint max_supported_key_length() const override { return KEY_LENGTH_MAX; }
	uint max_supported_key_part_length() const override { return KEY_LENGTH_MAX; }
	const char *index_type(uint) override { return "BTREE"; }
	/* The server's table locks are not needed: rows are locked. */
	uint lock_count() const override { return 0; }
	uint8 table_cache_type() override { return HA_CACHE_TBL_NOCACHE; }
	enum row_type get_row_type() const override { return ROW_TYPE_DYNAMIC; }

	int open(const char *name, int mode, uint test_if_locked) override;
	handler *clone(const char *name, MEM_ROOT *memory) override;
	int close() override;
	int create(const char *name, TABLE *form, HA_CREATE_INFO *info) override;
	int delete_table(const char *name) override;
	int rename_table(const char *from, const char *to) override;
	int truncate() override;
	void update_create_info(HA_CREATE_INFO *info) override;
	bool check_if_incompatible_data(HA_CREATE_INFO *info, uint changes) override;

	ulonglong table_version() const override;
	enum_alter_inplace_result check_if_supported_inplace_alter(TABLE *altered,
								   Alter_inplace_info *info) override;
	bool inplace_alter_table(TABLE *altered, Alter_inplace_info *info) override;
	bool commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *info, bool commit) override;

	int external_lock(THD *thd, int lock_type) override;
	int start_stmt(THD *thd, thr_lock_type lock_type) override;
	THR_LOCK_DATA **store_lock(THD *thd, THR_LOCK_DATA **to, thr_lock_type lock_type) override;

	int info(uint flags) override;
	ha_rows records_in_range(uint key, const key_range *from, const key_range *to,
				 page_range *pages) override;
	double scan_time() override;
	double read_time(uint key, uint ranges, ha_rows rows) override;
	/* Also without LIMIT an order may come from a key: rows are in that of the primary one. */
	const key_map *keys_to_use_for_scanning() override { return &key_map_full; }
	int analyze(THD *thd, HA_CHECK_OPT *options) override;
	int optimize(THD *thd, HA_CHECK_OPT *options) override;
	int check(THD *thd, HA_CHECK_OPT *options) override;
	bool get_error_message(int error, String *text) override;
	void print_error(int error, myf flags) override;

	int rnd_init(bool scan) override;
	int rnd_end() override;
	int rnd_next(uchar *record) override;
	int rnd_pos(uchar *record, uchar *position) override;
	void position(const uchar *record) override;
	int cmp_ref(const uchar *a, const uchar *b) override;

	int index_init(uint key, bool sorted) override;
	int index_end() override;
	int index_read_map(uchar *record, const uchar *key, key_part_map parts,
			   enum ha_rkey_function how) override;
	int index_next(uchar *record) override;
	int index_prev(uchar *record) override;
	int index_first(uchar *record) override;
	int index_last(uchar *record) override;
	int index_next_same(uchar *record, const uchar *key, uint length) override;
	int prepare_range_scan(const key_range *from, const key_range *to) override;
	int read_range_first(const key_range *from, const key_range *to, bool is_one_key, bool sorted) override;
	int read_range_next() override;
	int reset() override;

	ha_rows multi_range_read_info_const(uint key, RANGE_SEQ_IF *ranges, void *parameter, uint count,
					    uint *buffer_bytes, uint *flags, Cost_estimate *cost) override;
	ha_rows multi_range_read_info(uint key, uint ranges, uint rows, uint parts,
				      uint *buffer_bytes, uint *flags, Cost_estimate *cost) override;
	int multi_range_read_init(RANGE_SEQ_IF *ranges, void *parameter, uint count, uint flags,
				  HANDLER_BUFFER *buffer) override;
	int multi_range_read_next(range_id_t *range) override;
	int multi_range_read_explain_info(uint flags, char *text, size_t bytes) override;

	void start_bulk_insert(ha_rows rows, uint flags) override;
	int end_bulk_insert() override;
	int extra(enum ha_extra_function operation) override;
	int write_row(const uchar *record) override;
	int update_row(const uchar *before, const uchar *after) override;
	int delete_row(const uchar *record) override;

	void get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted,
				ulonglong *first, ulonglong *reserved) override;
	int reset_auto_increment(ulonglong value) override;

private:
	/* Most bytes of a key of the server's; what a key becomes as bytes is bounded, too. */
	static const uint KEY_LENGTH_MAX = 3072;
	/* Bytes before the key in a position: its length. */
	static const uint POSITION_HEAD_BYTES = 2;

	/* A column that is said to be in a key though rows must be read for it. */
	struct MarkedPart {
		Field *field;
		uint key;
	};

	/* What is walked: bounds as bytes of a key. */
	struct Range {
		bool has_lower = false;
		bool has_upper = false;
		std::string lower, upper;
		bool upper_included = false;
		bool backward = false;
		/* It ends before its index does. */
		bool is_narrow = false;
		/* It goes backwards, and ends where the server's range begins: nothing before that is asked for. */
		bool ends_with_range = false;
	};

	static std::string schema_of(TABLE *form);
	bool has_primary_key() const { return table_share->primary_key < MAX_KEY; }
	bool is_primary(uint key) const { return key == table_share->primary_key; }
	bool will_be_primary(uint key) const;
	bool has_decodable_primary_key() const;
	bool is_in_primary_key(uint column) const;
	bool has_columns_of(uint key) const;
	void note_primary_key_in_others();
	void find_keys_of_rows();
	std::string name() const;
	template<typename Call> int on_table(Call call) const;
	iolane_transaction *transaction();
	int fail(int code);
	const iolane::Session::Failure *failure() const;
	int refuse_foreign_keys();
	int begin_statement(THD *thd);
	void note_when_locked(THD *thd, thr_lock_type lock_type);

	/* Scans. */
	std::string search_key(uint key, const uchar *value, key_part_map parts, iolane::Bound bound);
	bool is_whole(uint key, key_part_map parts) const;
	std::string first_key(uint key, const key_range &from);
	std::string end_key(uint key, const key_range &to, bool is_one_key);
	int check_readable();
	void bound_by_end_of_range(Range *range);
	void bound_by_begin_of_range(Range *range);
	int open_cursor(uint key, const Range &range);
	void close_cursor();
	void forget_range();
	int leave_end(uchar *record, bool backward);
	int fetch(uchar *record);
	int take(uchar *record, bool only_keys = false);
	bool reads_keys() const { return keyread_enabled_for(active_index) && !is_primary(active_index); }
	bool keyread_enabled_for(uint key) const { return keyread < MAX_KEY && keyread == key; }
	int take_keys(const iolane_value *values, uchar *record);
	int walk(uchar *record, bool backward);
	int get(uchar *record, const std::string &key);

	/* Rows of many ranges. */
	int open_many();
	int next_of_list(range_id_t *range);
	int next_of_many(range_id_t *range);
	void close_many();
	int next_of_joined(range_id_t *range);
	void compute_virtual_columns();

	/* Changes. */
	std::string key_of(const uchar *record);
	bool has_room_for(const std::string &key) const;
	void fill_row(const uchar *record, const std::string &key);
	void fill_values(const uchar *record, const std::string &key);
	int insert(const uchar *record, const std::string &key);
	int replace(const uchar *record, const std::string &old_key, const std::string &key);
	int note_auto_increment(const uchar *record);

	/* Changes of the definition. */
	bool can_add_columns(TABLE *altered, const Alter_inplace_info *info) const;
	bool can_change_keys(TABLE *altered, const Alter_inplace_info *info) const;
	int add_columns(TABLE *altered);

	/* Many rows into an empty table. */
	bool can_fill();
	bool keep_others_out();
	bool is_only_ours();
	int begin_fill();
	int fill_with(const uchar *record, const std::string &key);
	int finish_fill();
	void give_up_fill();

	/* Sizes. */
	int look_at_statistics(bool now);
	bool stands_for_all(uint flags) const;
	std::vector<ulong> rows_per_value(uint key, uint64_t rows, int *code) const;
	int look_at_keys(bool now);
	void tell_rows_per_value();
	void mark_parts();
	void unmark_parts();
	int check_key(THD *thd, uint key, uint64_t *rows);

	int get_share(const char *name);
	int set_next_value(uint64_t next_value);

	std::vector<MarkedPart> marked_parts_;

	iolane::Share *share_ = nullptr;
	iolane::Session *session_ = nullptr;

	/* How rows are locked that are read, and what is done where they are locked. */
	int lock_ = IOLANE_LOCK_NONE;
	int when_locked_ = IOLANE_WAIT;
	/* The former, as the statement that the server has locked the table for reads it. */
	int locked_for_read_ = IOLANE_LOCK_NONE;

	iolane_cursor *cursor_ = nullptr;
	bool backward_ = false;
	/* It ends before its index does, as the server asked for one key. */
	bool is_narrow_ = false;
	/* Its rows have no more than the columns of the key and of the primary one. */
	bool only_keys_ = false;
	/* Its rows all have the key that was searched for. */
	bool is_one_key_ = false;
	/* As of its Range. */
	bool ends_with_range_ = false;
	/* Where the range begins that the server is about to read backwards, for one read; empty: with the index. */
	std::string begin_;
	bool has_row_ = false;
	/* What was searched for, as the beginning of a key. */
	std::string search_;
	/*
	 * Where it is when no row came: before or behind all rows, where those of search_ would be, or behind
	 * these. HANDLER goes on from there, in either direction.
	 */
	enum class End { NONE, BEFORE_ALL, BEHIND_ALL, IN_PLACE, BEHIND_SEARCH } end_ = End::NONE;
	/* It is an earlier statement's. */
	bool is_old_ = false;
	/* The statement locks several ranges, which one cursor goes through. */
	bool locks_ranges_ = false;
	/* The server asks for the next row of these. */
	bool joins_ranges_ = false;
	/* The cursor is that one. */
	bool is_joined_ = false;
	iolane::Row row_;
	/* The row that came last, by its primary key. */
	std::string current_;

	/* Rows of many ranges, which are read together: what the server calls these ranges. */
	bool reads_many_ = false;
	/* Of a list of keys, all rows so far were. */
	bool is_in_memory_ = false;
	iolane_many *many_ = nullptr;
	/* As the server says, if it knows. */
	size_t ranges_max_ = 0;
	std::vector<range_id_t> ranges_;

	/* Which value of a row of the store is which key. */
	std::vector<size_t> key_values_;
	/* How many parts of each key can be decoded. */
	std::vector<uint> decodable_;
	/* A row on its way to the store. */
	std::string packed_, packed_before_;
	std::vector<std::string> keys_;
	std::vector<iolane_value> values_;
	/* A record of search keys. */
	std::vector<uchar> scratch_;

	/* A statement may fill an empty table; so many rows it has inserted until now. */
	bool may_fill_ = false;
	uint64_t inserted_ = 0;
	/* The server knows what to do with rows that are there already. */
	bool handles_duplicates_ = false;
	/* What is being filled, and the number of that table. */
	iolane_load *load_ = nullptr;
	uint64_t filled_table_ = 0;
};

/* Where a filled table has taken its place just now, that one is meant. */
template<typename Call> int ha_iolane::on_table(Call call) const
{
	std::string table = name();
	int code = call(table.c_str());

	if (code == IOLANE_STORE_ERROR_UNKNOWN_TABLE && table != name())
		code = call(name().c_str());
	return code;
}

#endif
