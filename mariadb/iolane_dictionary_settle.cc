/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a crash has left of statements: which tables of the store, and which paths, are nobody's.
 */
#include "iolane_definitions.h"
#include "iolane_dictionary.h"

namespace iolane {

using dictionary_rows::Change;

/* Lines of the server's log about tables of which it has no definition, each time it starts. */
static const size_t TOLD_MAX = 20;

int Dictionary::read_renames()
{
	return dictionary_rows::read_renames([&](const std::string &path, const std::string &from) {
		renames_[path] = from;
		return 0;
	});
}

/*
 * The server renames a table's partitions one by one, and then its `.par` file. What stopped it
 * in between has left partitions where no file leads to, and its own recovery goes by the file.
 */
int Dictionary::undo_renames()
{
	std::vector<std::string> back, over;
	Change change;

	for (auto &[path, from] : renames_) {
		auto found = entries_.find(path);

		if (found == entries_.end() || definitions::has_par(definitions::table_of(path))) {
			change.remove_rename(path);
			over.push_back(path);
		} else if (!entries_.count(from) && definitions::is_listed(from)) {
			change.remove(path);
			change.put(found->second.row(from));
			if (found->second.layouts)
				change.put_layouts(from, *found->second.layouts);
			back.push_back(path);
		}
	}
	if (back.empty() && over.empty())
		return 0;
	int code = change.commit(IOLANE_SYNCED);

	if (code)
		return code;
	for (const std::string &path : back) {
		auto moved = entries_.extract(path);

		moved.key() = renames_[path];
		entries_.insert(std::move(moved));
		renames_.erase(path);
	}
	for (const std::string &path : over)
		renames_.erase(path);
	return 0;
}

void Dictionary::note_definitions()
{
	for (auto &[key, entry] : entries_) {
		if (!entry.temporary && definitions::is_partition(key)) {
			defined_ = definitions::all();
			return;
		}
	}
}

/* Whether there are all rows of a table that the server has a definition of. */
bool Dictionary::has_rows_of(const std::string &table) const
{
	std::set<std::string> listed = definitions::partitions_of(table);

	for (const std::string &name : listed)
		if (!entries_.count(table + definitions::PARTITION + name))
			return false;
	return !listed.empty() || entries_.count(table);
}

/*
 * Whether each definition that has come since this was loaded has its rows. One without may be
 * that of a table whose rows have not been renamed with it.
 */
bool Dictionary::has_all_renamed(const std::set<std::string> &defined) const
{
	for (const std::string &table : defined)
		if (!defined_.count(table) && !has_rows_of(table))
			return false;
	return true;
}

/*
 * Of a partition, the files of its table decide. Nobody can want the rows in two cases. The server
 * has removed `.frm` since the engine was loaded: it has undone a CREATE, or finished a DROP, in its
 * own recovery. Or `.par` is gone as well, of a table that has its name in the middle of a statement
 * only: it goes before the partitions do. Elsewhere somebody may have removed or moved files.
 */
Dictionary::Fate Dictionary::fate_of(const std::string &key, const std::set<std::string> &listed, bool is_sure) const
{
	std::string table = definitions::table_of(key);

	if (definitions::has_frm(key))
		return Fate::STAYS;
	if (definitions::has_frm(table))
		return listed.count(definitions::partition_of(key)) ? Fate::STAYS : Fate::UNCERTAIN;
	if (table == key || !is_sure || renames_.count(key) || !definitions::has_database(key) ||
	    definitions::has_shadow(table))
		return Fate::UNCERTAIN;
	if (definitions::is_of_statement(table))
		return definitions::has_par(table) ? Fate::UNCERTAIN : Fate::GOES;
	return defined_.count(table) ? Fate::GOES : Fate::UNCERTAIN;
}

void Dictionary::tell_undefined(const std::set<std::string> &tables) const
{
	size_t told = 0;

	for (const std::string &table : tables) {
		if (told++ == TOLD_MAX) {
			sql_print_warning("IOLANE: and so of %zu more tables", tables.size() - TOLD_MAX);
			break;
		}
		sql_print_warning("IOLANE: the server has no definition of %s, whose rows are kept; bring its files back, or "
				  "DROP TABLE %s", table.c_str(), definitions::quoted(table).c_str());
	}
}

/* Takes out what the server has no definition of, or tells. */
int Dictionary::forget_undefined()
{
	bool is_sure = defined_.empty() || has_all_renamed(definitions::all());
	std::set<std::string> listed, uncertain, dropped;
	std::vector<std::string> gone;
	std::string last;

	for (auto &[key, entry] : entries_) {
		std::string table = definitions::table_of(key);

		if (entry.temporary)
			continue;
		if (table != key && table != last) {
			listed = definitions::partitions_of(table);
			last = table;
		}
		switch (fate_of(key, listed, is_sure)) {
		case Fate::STAYS:
			break;
		case Fate::GOES:
			gone.push_back(key);
			dropped.insert(table);
			break;
		case Fate::UNCERTAIN:
			uncertain.insert(definitions::has_frm(table) ? key : table);
			break;
		}
	}
	tell_undefined(uncertain);
	for (const std::string &key : gone) {
		int code = remove(key);

		if (code)
			return code;
	}
	/* One that stays is in nobody's way. */
	for (const std::string &table : dropped)
		definitions::remove_par(table);
	return 0;
}

/* Drops tables that nothing leads to, and temporary ones of before. */
int Dictionary::drop_orphans()
{
	std::vector<std::string> temporary;
	std::set<uint64_t> known;
	Row names;
	size_t count;

	for (auto &[key, entry] : entries_) {
		if (entry.temporary)
			temporary.push_back(key);
		else
			known.insert(entry.table());
	}
	for (auto &key : temporary) {
		int code = remove(key);

		if (code)
			return code;
	}
	int code = iolane_store_tables(store, names.get());

	if (code)
		return code;
	const iolane_value *values = names.values(&count);

	for (size_t i = 0; i < count; i++) {
		uint64_t number = number_of(values[i]);

		if (number && !known.count(number))
			drop_table(number);
	}
	return 0;
}

int Dictionary::settle()
{
	Changing changing(this);
	Row prepared;
	size_t count = 0;
	int code = iolane_store_prepared(store, prepared.get());

	if (code)
		return code;
	prepared.values(&count);
	is_settled_ = true;
	/* One of these may lead to a table that nothing leads to now. */
	if (count)
		return 0;
	code = read_entries();
	if (!code)
		code = forget_undefined();
	defined_.clear();
	return code ? code : drop_orphans();
}

} /* namespace iolane */
