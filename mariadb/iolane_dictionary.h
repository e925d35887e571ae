/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which table of the store belongs to which name of the server.
 */
#ifndef IOLANE_DICTIONARY_H
#define IOLANE_DICTIONARY_H

#include "iolane_engine.h"

#include <map>
#include <mutex>
#include <set>
#include <vector>

namespace iolane {

/*
 * A table of the store has a number; this one leads from names to numbers. What
 * changes a name is one transaction on one row, so a rename happens or does not. A
 * table that nothing leads to is what a crash, or a transaction that still used it,
 * has left of a drop: it is dropped when the plugin is loaded next, or with the next
 * table.
 */
class Dictionary {
public:
	/* Reads it, makes it in a new store, and drops what nothing leads to. */
	int load();

	/* The table of a path of the server, and its auto-increment; or HA_ERR_NO_SUCH_TABLE. */
	int find(const char *path, uint64_t *table, uint64_t *next_value);

	/*
	 * Makes a table of the store, by `schema`, which has "@" for its name, and gives
	 * it to a path. A temporary one is dropped when the plugin is loaded next.
	 */
	int create(const char *path, std::string schema, bool temporary, uint64_t next_value,
		   uint64_t *table);

	/* Puts a new, empty table in the place of the one that a path has. */
	int replace(const char *path, uint64_t *table);

	int rename(const char *from, const char *to);
	int drop(const char *path);

	/* The paths of a database, or of all. */
	std::vector<std::string> paths_of(const std::string &database);

	/*
	 * Notes that the values of auto-increment below `next_value` are used, or may be,
	 * if the path still has this table.
	 */
	int set_next_value(const char *path, uint64_t table, uint64_t next_value);

	/* All tables that are made from now on have this number, or a greater one. */
	uint64_t next_table();

	/* A number for a row without a primary key, different from all others. */
	int next_row_number(uint64_t *number);

	static std::string name_of(uint64_t table);

private:
	struct Entry {
		uint64_t table;
		uint64_t next_value;
		bool temporary;
	};

	static std::string key_of(const char *path);
	int put(const std::string &key, const Entry &entry);
	int remove(const std::string &key);
	int make_table(std::string schema, uint64_t *table);
	void drop_table(uint64_t table);
	void drop_waiting();
	int drop_orphans();
	int read_entries();

	std::mutex mutex_;
	std::map<std::string, Entry> entries_;
	/* Dropped, but a transaction still uses them. */
	std::set<uint64_t> waiting_;
	uint64_t next_table_ = 1;

	std::mutex rows_mutex_;
	uint64_t next_row_ = 0;
	uint64_t rows_reserved_ = 0;
};

extern Dictionary dictionary;

} /* namespace iolane */

#endif
