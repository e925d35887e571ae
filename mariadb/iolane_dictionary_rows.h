/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The tables of the store that the dictionary is kept in: `dictionary`, from paths to
 * numbers; `layouts`, what rows lack of the paths whose tables have been given columns
 * since; and `renames`, which paths of partitions have another one while their table is
 * renamed.
 */
#ifndef IOLANE_DICTIONARY_ROWS_H
#define IOLANE_DICTIONARY_ROWS_H

#include "iolane_engine.h"
#include "iolane_record.h"

#include <functional>
#include <memory>
#include <vector>

namespace iolane {

namespace dictionary_rows {

/* Makes the tables in a new store. */
int make_tables();

/* A row of `dictionary`. */
struct Entry {
	std::string path;
	uint64_t number;
	uint64_t next_value;
	bool temporary;
	/* By which rule its keys were made: KEY_FORMAT of that time. */
	uint8_t key_format;
};

/* Puts a row there, as a change of a transaction. */
int put(iolane_transaction *transaction, const Entry &entry);

/* Takes paths out, in a copy of the store. */
int forget(iolane_store *copy, const std::vector<std::string> &paths);

/* Call `take` with each row until it returns an error, which they return. */
int read_entries(const std::function<int(const Entry &)> &take);
int read_layouts(const std::function<int(const std::string &path, std::shared_ptr<Layouts>)> &take);
int read_renames(const std::function<int(const std::string &path, const std::string &from)> &take);

/* One change of all of them, rolled back if it is not committed. */
class Change {
public:
	Change();
	~Change();
	Change(const Change &) = delete;
	Change &operator=(const Change &) = delete;

	void put(const Entry &entry);
	void remove(const std::string &path);
	void put_layouts(const std::string &path, const Layouts &layouts);
	void put_rename(const std::string &path, const std::string &from);
	void remove_rename(const std::string &path);

	/* The first error of it all. */
	int commit(int durability);

private:
	iolane_transaction *transaction_ = nullptr;
	int code_;
};

} /* namespace dictionary_rows */

} /* namespace iolane */

#endif
