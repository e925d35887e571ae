/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tables get other names. The server renames a table's partitions one by one, then `.par`, then
 * `.frm`, and its log of definitions cannot undo a rename that stopped before the last of these:
 * ha_partition finds no partitions without `.frm` (get_def_part_engine). So a table is where its
 * `.frm` is: what stopped a rename leaves records, by which the rest is brought there.
 */
#include "iolane_definitions.h"
#include "iolane_dictionary.h"

namespace iolane {

using dictionary_rows::Change;

static std::string path_of(const std::string &table, const std::string &partition)
{
	return table + definitions::PARTITION + partition;
}

int Dictionary::read_renames()
{
	return dictionary_rows::read_renames([&](const std::string &path, const std::string &from) {
		renames_[{ definitions::table_of(path), definitions::table_of(from) }].insert(definitions::partition_of(path));
		return 0;
	});
}

/* Without its record a partition is never brought back: what the record tells of must be durable before. */
static bool make_durable(const std::string &to, const std::string &from)
{
	return !definitions::sync_database(to) && !definitions::sync_database(from);
}

/* Lost in a crash, they are found to be over. */
static int forget_renames(const std::string &table, const std::set<std::string> &names)
{
	Change change;

	for (const std::string &name : names)
		change.remove_rename(path_of(table, name));
	return change.commit(IOLANE_LAZY);
}

/* Of a partition whose row has been taken out of the store. */
void Dictionary::forget_rename(const std::string &key)
{
	std::string table = definitions::table_of(key), name = definitions::partition_of(key);

	for (auto each = renames_.lower_bound({ table, "" }); each != renames_.end() && each->first.to == table;) {
		each->second.erase(name);
		each = each->second.empty() ? renames_.erase(each) : std::next(each);
	}
}

bool Dictionary::is_renamed(const std::string &key) const
{
	std::string table = definitions::table_of(key), name = definitions::partition_of(key);

	for (auto each = renames_.lower_bound({ table, "" }); each != renames_.end() && each->first.to == table; each++)
		if (each->second.count(name))
			return true;
	return false;
}

/* The partition whose record says that it was called so; empty if there is none. */
std::string Dictionary::renamed_from(const std::string &key) const
{
	std::string table = definitions::table_of(key), name = definitions::partition_of(key);

	for (const auto &[rename, names] : renames_)
		if (rename.from == table && names.count(name))
			return path_of(rename.to, name);
	return "";
}

/*
 * Nobody tells when the server has renamed `.frm`, its last step. So renames that are over are
 * forgotten before the next name comes, changes or goes: no record outlives what it is about, and
 * what is lost in a power cut is at most one rename. Where that fails, the records stay.
 */
void Dictionary::finish_renames()
{
	for (auto each = renames_.begin(); each != renames_.end();) {
		const Rename &rename = each->first;
		bool is_over = definitions::has_frm(rename.to) && definitions::has_par(rename.to);

		is_over = is_over && make_durable(rename.to, rename.from) && !forget_renames(rename.to, each->second);
		each = is_over ? renames_.erase(each) : std::next(each);
	}
}

int Dictionary::rename(const char *from, const char *to)
{
	Changing changing(this);
	std::string old_key = key_of(from), new_key = key_of(to), name = definitions::partition_of(old_key);
	Rename there = { definitions::table_of(new_key), definitions::table_of(old_key) };
	auto found = entries_.find(old_key);

	if (found == entries_.end())
		return HA_ERR_NO_SUCH_TABLE;
	if (entries_.count(new_key))
		return HA_ERR_TABLE_EXIST;
	int error = keep_prepared(found->second.table());

	if (error)
		return error;
	finish_renames();
	Entry entry = found->second;
	Change change;

	change.remove(old_key);
	change.put(entry.row(new_key));
	if (entry.layouts)
		change.put_layouts(new_key, *entry.layouts);
	auto before = renames_.find({ there.from, there.to });
	/* What has been called so does not come back. */
	std::string replaced = renamed_from(new_key);
	/* It goes back where the server has given up: `.frm` has not come. */
	bool is_back = before != renames_.end() && before->second.count(name) && !definitions::has_frm(there.from);
	/* Where only the partition's name changes, the server logs what it does. */
	bool is_of_table = definitions::is_partition(new_key) && definitions::partition_of(new_key) == name &&
			   there.to != there.from;

	if (is_of_table && !is_back)
		change.put_rename(new_key, old_key);
	change.remove_rename(replaced);
	int code = change.commit(IOLANE_SYNCED);

	if (code)
		return error_of(code, nullptr);
	forget_rename(old_key);
	forget_rename(replaced);
	if (is_of_table && !is_back)
		renames_[there].insert(name);
	entries_.erase(old_key);
	entries_[new_key] = entry;
	return 0;
}

int Dictionary::rename_partitioned(const char *from, const char *to)
{
	std::string old_key = key_of(from), new_key = key_of(to);
	int error = HA_ERR_NO_SUCH_TABLE;

	if (!definitions::has_par(old_key) || definitions::has_par(new_key))
		return error;
	for (const std::string &name : definitions::partitions_of(old_key)) {
		error = rename(path_of(old_key, name).c_str(), path_of(new_key, name).c_str());
		if (error)
			break;
	}
	/* What is renamed by halves is found so when the dictionary is loaded. */
	return error ? error : definitions::rename_par(old_key, new_key);
}

/* Whether a table with all these partitions has been renamed, and nothing is in the place of before. */
bool Dictionary::has_moved(const Rename &rename, const std::set<std::string> &names) const
{
	return std::all_of(names.begin(), names.end(), [&](const std::string &name) {
		return entries_.count(path_of(rename.to, name)) && !entries_.count(path_of(rename.from, name));
	});
}

/*
 * Brings `.par` to where `.frm` is, if that is a table with partitions that lacks it, and the file
 * lists what has been renamed, no less and no more. Returns 0, or errno.
 */
int Dictionary::bring_par(const Rename &rename, const std::set<std::string> &names) const
{
	bool is_there = definitions::has_frm(rename.to);
	const std::string &home = is_there ? rename.to : rename.from, &away = is_there ? rename.from : rename.to;

	if (definitions::has_frm(away) || definitions::has_par(home) || !definitions::has_par(away) ||
	    !definitions::is_partitioned(home) || definitions::partitions_of(away) != names || !has_moved(rename, names))
		return 0;
	return definitions::rename_par(away, home);
}

static void tell_stays(const std::string &to, const std::string &from, int error)
{
	char text[MYSYS_STRERROR_SIZE];

	my_strerror(text, sizeof(text), error);
	sql_print_warning("IOLANE: a RENAME of %s to %s was not finished, and its file of the partitions cannot be brought to its definition: %s",
			  from.c_str(), to.c_str(), text);
}

int Dictionary::mend_renames()
{
	/* Where each goes to, and from where. */
	std::map<std::string, std::string> back;
	std::vector<std::string> over;
	Change change;

	for (const auto &[rename, names] : renames_) {
		if (int error = bring_par(rename, names)) {
			tell_stays(rename.to, rename.from, error);
			continue;
		}
		if (!make_durable(rename.to, rename.from))
			continue;
		bool is_there = definitions::has_frm(rename.to);
		bool is_only_there = is_there && !definitions::has_frm(rename.from);
		bool is_over = is_there && (definitions::has_par(rename.to) ||
					    (is_only_there && !definitions::has_par(rename.from)));
		std::set<std::string> listed = is_only_there ? std::set<std::string>() : definitions::partitions_of(rename.from);

		for (const std::string &name : names) {
			std::string path = path_of(rename.to, name), before = path_of(rename.from, name);
			auto found = entries_.find(path);

			if (is_over || found == entries_.end() || (is_there && entries_.count(before))) {
				change.remove_rename(path);
				over.push_back(path);
			} else if (listed.count(name) && !entries_.count(before) && back.emplace(before, path).second) {
				change.remove(path);
				change.put(found->second.row(before));
				if (found->second.layouts)
					change.put_layouts(before, *found->second.layouts);
			}
		}
	}
	if (back.empty() && over.empty())
		return 0;
	int code = change.commit(IOLANE_SYNCED);

	if (code)
		return code;
	for (const auto &[before, path] : back) {
		auto moved = entries_.extract(path);

		moved.key() = before;
		entries_.insert(std::move(moved));
		forget_rename(path);
	}
	for (const std::string &path : over)
		forget_rename(path);
	return 0;
}

} /* namespace iolane */
