/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The handler: rows of many ranges (MRR). The store reads together what is not in memory: a
 * join by BKA, and a list of primary keys, waits for a few rounds of the disk, and not for one
 * row after the other.
 */
#include "ha_iolane.h"
#include "iolane_key.h"

using namespace iolane;

/*
 * Ranges that are handed over to the store at a time, which sorts them: what the join's
 * buffer holds, so that it comes to a page once for all rows in it, but not more than
 * some tens of megabytes of them.
 */
static const size_t RANGES_AT_ONCE = 1 << 17;
static const size_t KEY_BYTES_AT_ONCE = 16 << 20;

/* What the server says of ranges, on its way to who asks for them. */
struct watched_ranges {
	RANGE_SEQ_IF *ranges;
	void *parameter;
	range_seq_t at;
	size_t count;
	/* Each has one row at most. */
	bool are_keys;
};

static range_seq_t begin_watched(void *watched, uint count, uint flags)
{
	auto *it = (watched_ranges *) watched;

	it->count = 0;
	it->are_keys = true;
	it->at = it->ranges->init(it->parameter, count, flags);
	return (range_seq_t) it;
}

static bool next_watched(range_seq_t watched, KEY_MULTI_RANGE *range)
{
	auto *it = (watched_ranges *) watched;
	bool is_end = it->ranges->next(it->at, range);

	if (!is_end) {
		it->count++;
		it->are_keys &= (range->range_flag & (UNIQUE_RANGE | NULL_RANGE)) == UNIQUE_RANGE;
	}
	return is_end;
}

/*
 * A list of primary keys: their rows come in the order of the keys, one by one or together. What
 * the server reads sorted is such a list, as only its ranges are taken from the server's own way.
 */
ha_rows ha_iolane::multi_range_read_info_const(uint key, RANGE_SEQ_IF *ranges, void *parameter,
					       uint count, uint *buffer_bytes, uint *flags,
					       Cost_estimate *cost)
{
	watched_ranges watched = { ranges, parameter, nullptr, 0, false };
	RANGE_SEQ_IF of_watched = { nullptr, begin_watched, next_watched, nullptr, nullptr };
	bool is_usual = (*flags & (HA_MRR_USE_DEFAULT_IMPL | HA_MRR_INDEX_ONLY)) || lock_ != IOLANE_LOCK_NONE;
	ha_rows rows = handler::multi_range_read_info_const(key, &of_watched, &watched, count,
							    buffer_bytes, flags, cost);

	if (!is_usual && is_primary(key) && watched.are_keys && watched.count > 1)
		*flags &= ~HA_MRR_USE_DEFAULT_IMPL;
	return rows;
}

/* For a join that has collected keys. */
ha_rows ha_iolane::multi_range_read_info(uint key, uint ranges, uint rows, uint parts,
					 uint *buffer_bytes, uint *flags, Cost_estimate *cost)
{
	bool is_usual = (*flags & (HA_MRR_SORTED | HA_MRR_INDEX_ONLY)) || ranges < 2;
	ha_rows found = handler::multi_range_read_info(key, ranges, rows, parts, buffer_bytes, flags,
						       cost);

	if (!is_usual)
		*flags &= ~HA_MRR_USE_DEFAULT_IMPL;
	return found;
}

int ha_iolane::multi_range_read_init(RANGE_SEQ_IF *ranges, void *parameter, uint count,
				     uint flags, HANDLER_BUFFER *buffer)
{
	close_many();
	/* Rows are locked one after the other. */
	reads_many_ = !(flags & HA_MRR_USE_DEFAULT_IMPL) && lock_ == IOLANE_LOCK_NONE;
	is_in_memory_ = flags & HA_MRR_SORTED;
	ranges_max_ = std::min((size_t) count, RANGES_AT_ONCE);
	/* Not where the server wants to know of which range a row is. */
	locks_ranges_ = lock_ != IOLANE_LOCK_NONE && (flags & HA_MRR_NO_ASSOCIATION) && count > 1;
	if (is_joined_)
		close_cursor();
	return handler::multi_range_read_init(ranges, parameter, count, flags, buffer);
}

void ha_iolane::close_many()
{
	iolane_many_free(many_);
	many_ = nullptr;
}

/* Where a range begins, and behind where it ends. */
struct wanted_range {
	std::string lower, upper;
	/* It is one primary key: the store need not look for it before it reads its row. */
	bool is_key;
	iolane_value values[2];
};

/* Takes some more ranges of the server. */
int ha_iolane::open_many()
{
	std::vector<wanted_range> wanted;
	std::vector<iolane_range> ranges;
	std::string index = "k" + std::to_string(active_index);
	KEY_MULTI_RANGE range;
	size_t bytes = 0;
	int error = check_readable();

	if (error)
		return error;
	ranges_.clear();
	wanted.reserve(ranges_max_);
	while (wanted.size() < RANGES_AT_ONCE && bytes < KEY_BYTES_AT_ONCE &&
	       !mrr_funcs.next(mrr_iter, &range)) {
		const key_range &from = range.start_key, &to = range.end_key;
		wanted_range one;

		if (from.keypart_map) {
			one.lower = first_key(active_index, from);
			/* Nothing is behind it. */
			if (one.lower.empty())
				continue;
		}
		one.is_key = (range.range_flag & EQ_RANGE) && is_primary(active_index) &&
			     is_whole(active_index, from.keypart_map);
		if (to.keypart_map && !one.is_key)
			one.upper = end_key(active_index, to, from.flag == HA_READ_KEY_EXACT);
		bytes += one.lower.size() + one.upper.size();
		wanted.push_back(std::move(one));
		ranges_.push_back(range.ptr);
	}
	if (wanted.empty())
		return HA_ERR_END_OF_FILE;
	ranges.reserve(wanted.size());
	for (wanted_range &one : wanted) {
		iolane_range bounds = {};

		if (!is_primary(active_index))
			bounds.index = index.c_str();
		one.values[0] = blob(one.lower);
		one.values[1] = blob(one.upper);
		set_bounds(&bounds, &one.values[0], &one.values[1]);
		if (one.is_key) {
			bounds.upper = bounds.lower;
			bounds.upper_count = bounds.lower_count;
			bounds.upper_bound = IOLANE_INCLUDED;
		}
		ranges.push_back(bounds);
	}
	int code = on_table([&](const char *table) {
		return iolane_many_open(transaction(), table, ranges.data(), ranges.size(), &many_);
	});

	return code ? fail(code) : 0;
}

/*
 * One cursor goes through all ranges that a statement locks: a row that others move meanwhile from one to
 * another is not missed, and the last of them are those with another primary key.
 */
int ha_iolane::next_of_joined(range_id_t *range)
{
	joins_ranges_ = true;
	/* Behind a row of a unique key there may be an entry of one that had it before, and is in another range now. */
	if (mrr_have_range)
		mrr_cur_range.range_flag &= ~UNIQUE_RANGE;
	int error = handler::multi_range_read_next(range);

	joins_ranges_ = false;
	if (error != HA_ERR_END_OF_FILE || !is_joined_)
		return error;
	int code = iolane_cursor_go_on(cursor_, transaction(), nullptr);

	if (code)
		return fail(code);
	error = fetch(table->record[0]);
	if (!error) {
		table->status = 0;
		compute_virtual_columns();
	}
	return error;
}

/* Where the server reads rows by other calls, it does this. */
void ha_iolane::compute_virtual_columns()
{
	if (table->vfield)
		table->update_virtual_fields(this, VCOL_UPDATE_FOR_READ);
}

int ha_iolane::multi_range_read_next(range_id_t *range)
{
	int error = reads_many_	  ? (is_in_memory_ ? next_of_list(range) : next_of_many(range)) :
		    locks_ranges_ ? next_of_joined(range) :
				    handler::multi_range_read_next(range);

	/*
	 * Who reads ranges does not tell of errors: a join takes any for the end of the rows, and
	 * where keys are merged the server would say that memory is short.
	 */
	if (error && error != HA_ERR_END_OF_FILE)
		print_error(error, MYF(0));
	return error;
}

/*
 * One by one, which takes less of the processor, until one has to be waited for: then probably
 * others have to be, too.
 */
int ha_iolane::next_of_list(range_id_t *range)
{
	while (is_in_memory_) {
		uint64_t awaited = iolane_store_pages_awaited();

		if (mrr_funcs.next(mrr_iter, &mrr_cur_range))
			return HA_ERR_END_OF_FILE;
		int error = read_range_first(&mrr_cur_range.start_key, &mrr_cur_range.end_key, true, true);

		is_in_memory_ = iolane_store_pages_awaited() == awaited;
		if (error != HA_ERR_END_OF_FILE) {
			*range = mrr_cur_range.ptr;
			return error;
		}
	}
	return next_of_many(range);
}

int ha_iolane::next_of_many(range_id_t *range)
{
	for (;;) {
		int error = many_ ? 0 : open_many();
		size_t number;

		if (error)
			return error;
		int code = iolane_many_next(many_, transaction(), row_.get(), &number);

		if (code < 0)
			return fail(code);
		if (code == 0) {
			close_many();
			continue;
		}
		*range = ranges_[number];
		if (mrr_funcs.skip_record && mrr_funcs.skip_record(mrr_iter, *range, nullptr))
			continue;
		error = take(table->record[0]);
		if (!error)
			compute_virtual_columns();
		return error;
	}
}

int ha_iolane::multi_range_read_explain_info(uint flags, char *text, size_t bytes)
{
	static const char NAME[] = "Rows read together";

	if (flags & HA_MRR_USE_DEFAULT_IMPL)
		return 0;
	size_t length = std::min(bytes, sizeof(NAME) - 1);

	memcpy(text, NAME, length);
	return (int) length;
}
