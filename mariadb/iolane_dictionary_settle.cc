/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What a crash has left of statements: which tables of the store, and which paths, are nobody's.
 */
#include "iolane_definitions.h"
#include "iolane_dictionary.h"

namespace iolane {

/* Lines of the server's log about tables of which it has no definition, each time it starts. */
static const size_t TOLD_MAX = 20;

/* Returns whether it could. */
static bool list_definitions(std::set<std::string> *tables)
{
	int error = definitions::all(tables);
	char text[MYSYS_STRERROR_SIZE];

	if (!error)
		return true;
	my_strerror(text, sizeof(text), error);
	sql_print_warning("IOLANE: the definitions of the server's tables cannot be listed, so no partitions are dropped: %s",
			  text);
	return false;
}

void Dictionary::note_definitions()
{
	auto is_lasting_partition = [](auto &each) { return !each.second.temporary && definitions::is_partition(each.first); };

	if (std::none_of(entries_.begin(), entries_.end(), is_lasting_partition) || !list_definitions(&defined_))
		return;
	is_noted_ = true;
	for (const std::string &table : defined_)
		if (has_rows_of(table))
			had_rows_.insert(table);
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
 * Whether each definition that has come since this was loaded, or had its rows then, has them
 * now. One without may be that of a table whose rows have not been renamed with it.
 */
bool Dictionary::has_all_renamed() const
{
	std::set<std::string> defined;

	if (!is_noted_ || !list_definitions(&defined))
		return false;
	for (const std::string &table : defined)
		if ((!defined_.count(table) || had_rows_.count(table)) && !has_rows_of(table))
			return false;
	return true;
}

/*
 * A partition of a table without `.frm` is dropped in two cases: (1) `.frm` was there when the engine
 * was loaded, so the server's own recovery has removed it; (2) the table has a statement's name and no
 * `.par`, which a DROP removes before the partitions. Anything else may be a file that somebody moved.
 */
Dictionary::Fate Dictionary::fate_of(const std::string &key, const std::set<std::string> &listed, bool is_sure) const
{
	std::string table = definitions::table_of(key);

	if (definitions::has_frm(key))
		return Fate::STAYS;
	if (definitions::has_frm(table))
		return listed.count(definitions::partition_of(key)) ? Fate::STAYS : Fate::UNCERTAIN;
	if (table == key || !is_sure || is_renamed(key) || !definitions::has_database(key) ||
	    definitions::has_shadow(table))
		return Fate::UNCERTAIN;
	if (definitions::is_of_statement(table))
		return definitions::has_par(table) ? Fate::UNCERTAIN : Fate::GOES;
	return defined_.count(table) ? Fate::GOES : Fate::UNCERTAIN;
}

/* Tells what `say` makes of each name, of the first ones. */
template <typename Say> static void tell(const std::set<std::string> &names, Say say)
{
	size_t told = 0;

	for (const std::string &name : names) {
		if (told++ == TOLD_MAX) {
			sql_print_warning("IOLANE: and so of %zu more tables", names.size() - TOLD_MAX);
			break;
		}
		sql_print_warning("IOLANE: %s", say(name).c_str());
	}
}

static std::string say_undefined(const std::string &table)
{
	return "the server has no definition of " + table + ", whose rows are kept; bring its files back, or DROP TABLE " +
	       definitions::quoted(table);
}

static std::string say_unreadable(const std::string &table)
{
	return "the file of the partitions of " + table + " cannot be read; their rows are kept; bring the file back";
}

/* Takes out what the server has no definition of, where that is sure, or tells. */
int Dictionary::forget_undefined(bool is_sure)
{
	std::set<std::string> listed, uncertain, unreadable, dropped;
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
			if (!definitions::has_frm(table))
				uncertain.insert(table);
			else if (listed.empty())
				unreadable.insert(table);
			else
				uncertain.insert(key);
			break;
		}
	}
	tell(uncertain, say_undefined);
	tell(unreadable, say_unreadable);
	for (const std::string &key : gone) {
		int code = remove(key);

		if (code)
			return code;
	}
	/* One that stays is in nobody's way. */
	for (const std::string &table : dropped) {
		char text[MYSYS_STRERROR_SIZE];

		if (int error = definitions::remove_par(table)) {
			my_strerror(text, sizeof(text), error);
			sql_print_warning("IOLANE: the file of the partitions of %s, which are dropped, stays: %s",
					  table.c_str(), text);
		}
	}
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
	finish_renames();
	/* One of these may lead to a table that nothing leads to now. */
	if (count)
		return forget_undefined(false);
	code = read_entries();
	if (!code)
		code = forget_undefined(has_all_renamed());
	defined_.clear();
	had_rows_.clear();
	is_noted_ = false;
	return code ? code : drop_orphans();
}

} /* namespace iolane */
