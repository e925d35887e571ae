/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which table of the store belongs to which name of the server.
 */
#ifndef IOLANE_DICTIONARY_H
#define IOLANE_DICTIONARY_H

#include "iolane_dictionary_rows.h"
#include "iolane_engine.h"
#include "iolane_record.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <tuple>
#include <vector>

namespace iolane {

/* The table of the store that a path has: whoever has the path open sees it change. */
struct Place {
	explicit Place(uint64_t number) : table(number), since(number) {}

	std::atomic<uint64_t> table;
	/* Views that are older than the table of this number do not see into it. */
	std::atomic<uint64_t> since;
};

/* A table that a transaction has filled, to take the place of another one. */
struct Filled {
	std::string path;
	uint64_t old_table;
	uint64_t new_table;
	/* The savepoint of the statement that did it. */
	uint64_t savepoint;
};

/*
 * A table of the store has a number; this one leads from names to numbers. What
 * changes a name is one transaction on one row, so a rename happens or does not. A
 * table that nothing leads to is what a crash, or a transaction that still used it,
 * has left of a drop: it is dropped when the plugin is loaded next, or with the next
 * table.
 */
class Dictionary {
public:
	/*
	 * Reads it, or makes it in a new store. A table with partitions that was being renamed when
	 * the server stopped has `.par` and its partitions where `.frm` is then: the server's own
	 * recovery, which follows, goes by these files.
	 */
	int load();

	/* Reads it again, after a transaction of before was committed. */
	int reload();

	/*
	 * All such transactions have ended, and so has the server's own recovery: drops what
	 * nothing leads to, and what it leads to though the server has no definition any more.
	 * Where that is uncertain it is kept, and the server's log says so. Where some transactions
	 * have not ended, nothing is dropped. That waits for the next time, but for partitions whose
	 * table the server's recovery has just removed: next time nobody knows, and they are kept.
	 */
	int settle();
	bool is_settled() const { return is_settled_; }

	/*
	 * The table of a path of the server, its auto-increment, and what its rows may lack;
	 * or HA_ERR_NO_SUCH_TABLE. HA_ERR_TABLE_NEEDS_UPGRADE: its keys were made by another
	 * rule than this engine's, so searches would miss rows.
	 */
	int find(const char *path, std::shared_ptr<Place> *place, uint64_t *next_value,
		 std::shared_ptr<const Layouts> *layouts);

	/*
	 * Makes a table of the store, by `schema`, which has "@" for its name, and gives
	 * it to a path. A temporary one is dropped when the plugin is loaded next.
	 */
	int create(const char *path, std::string schema, bool temporary, uint64_t next_value,
		   uint64_t *table);

	/* Puts a new, empty table in the place of the one that a path has. */
	int replace(const char *path);

	/*
	 * The name and the schema of a new table like the one that a path has, for a
	 * transaction that fills it.
	 */
	int prepare_fill(const char *path, uint64_t *table, std::string *schema);

	/* Leads from paths to filled tables, as a change of the transaction. */
	int lead_to(const std::vector<Filled> &filled, iolane_transaction *transaction);

	/* That is committed: they are in their places. */
	void fill(const std::vector<Filled> &filled);

	/* That is undone: drops them. */
	void discard(const std::vector<Filled> &filled);

	/* A number for a table that is going to be made. */
	uint64_t new_number();

	/*
	 * Leads from a path to another table, which a transaction has filled, and commits that.
	 * Frees it.
	 */
	int change_table(const char *path, uint64_t table, iolane_transaction *transaction);

	/* Views that were opened until now do not see into the tables of these paths. */
	void renew(const std::vector<std::string> &paths);

	/* Notes that rows of a path may lack columns; gives `layouts` a version of their own. */
	int add_layout(const char *path, Layouts layouts);

	/* Greater after each change of a path's table and of what its rows may lack; 0: there is none. */
	uint64_t version_of(const char *path);

	/* The rule of a path's keys; KEY_FORMAT if there is no such path. */
	uint8_t key_format_of(const char *path);

	int rename(const char *from, const char *to);
	int drop(const char *path, uint64_t *table);

	/* Renames a table with partitions, as the server does it: these, and its `.par` file. */
	int rename_partitioned(const char *from, const char *to);

	/* Drops the partitions of a table of which the server has no definition; HA_ERR_NO_SUCH_TABLE if it has none. */
	int drop_undefined(const char *table);

	/* The paths of all tables but the temporary ones. */
	std::vector<std::string> lasting_paths();

	/*
	 * Notes that the values of auto-increment below `next_value` are used, or may be,
	 * if the path still has this table.
	 */
	int set_next_value(const char *path, uint64_t table, uint64_t next_value);

	/*
	 * All tables that are made from now on have this number, or a greater one. Waits for
	 * nobody who makes, changes or drops tables.
	 */
	uint64_t next_table() const { return next_seen_; }

	/* A number for a row without a primary key, different from all others. */
	int next_row_number(uint64_t *number);

	static std::string name_of(uint64_t table);

	/* The number of a table of the store; 0 if it is none of the server's. */
	static uint64_t number_of(const iolane_value &name);

	/* What a path of the server is called here. */
	static std::string key_of(const char *path);

private:
	struct Entry {
		std::shared_ptr<Place> place;
		uint64_t next_value;
		bool temporary;
		uint8_t key_format;
		std::shared_ptr<const Layouts> layouts = nullptr;

		uint64_t table() const { return place->table; }
		dictionary_rows::Entry row(const std::string &key) const
		{
			return { key, table(), next_value, temporary, key_format };
		}
	};

	/* Keeps others out; tables that are dropped meanwhile go when they are let in again. */
	class Changing {
	public:
		explicit Changing(Dictionary *dictionary) : dictionary_(dictionary), lock_(dictionary->mutex_) {}
		~Changing();

	private:
		Dictionary *dictionary_;
		std::unique_lock<std::mutex> lock_;
	};

	/* Of a table with partitions, or what was one. */
	struct Rename {
		std::string to, from;

		bool operator<(const Rename &other) const { return std::tie(to, from) < std::tie(other.to, other.from); }
	};

	/* What is to become of an entry when the server has recovered. */
	enum class Fate { STAYS, GOES, UNCERTAIN };

	int put(const std::string &key, const Entry &entry);
	int remove(const std::string &key);
	int make_table(std::string schema, uint64_t *table);
	int keep_prepared(uint64_t table) const;
	void drop_table(uint64_t table) { dropped_.insert(table); }
	void drop_waiting();
	int drop_orphans();
	int read_renames();
	int mend_renames();
	void finish_renames();
	void forget_rename(const std::string &key);
	bool is_renamed(const std::string &key) const;
	std::string renamed_from(const std::string &key) const;
	bool has_moved(const Rename &rename, const std::set<std::string> &names) const;
	int bring_par(const Rename &rename, const std::set<std::string> &names) const;
	void note_definitions();
	bool has_rows_of(const std::string &table) const;
	bool has_all_renamed() const;
	Fate fate_of(const std::string &key, const std::set<std::string> &listed, bool is_sure) const;
	int forget_undefined(bool is_sure);
	int schema_like(uint64_t table, std::string *schema);
	int count_tables();
	int read_entries();
	int read_layouts();

	std::mutex mutex_;
	std::map<std::string, Entry> entries_;
	/* The partitions that have been renamed, until it is durable that the table's files have, too. */
	std::map<Rename, std::set<std::string>> renames_;
	/*
	 * What the server had definitions of when this was loaded, and those of them that had their
	 * rows here; noted if there are partitions, and the definitions could be listed.
	 */
	std::set<std::string> defined_, had_rows_;
	bool is_noted_ = false;
	/* To be dropped; and what a transaction still uses of these. */
	std::set<uint64_t> dropped_, waiting_;
	uint64_t next_table_ = 1;
	/* As it was when the last change was over. */
	std::atomic<uint64_t> next_seen_ { 1 };
	std::atomic<bool> is_settled_ { false };

	std::mutex rows_mutex_;
	uint64_t next_row_ = 0;
	uint64_t rows_reserved_ = 0;
};

extern Dictionary dictionary;

} /* namespace iolane */

#endif
