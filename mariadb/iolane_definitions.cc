/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether the server has a definition for a path of the dictionary.
 */
#include "iolane_definitions.h"
#include "iolane_engine.h"
#include "iolane_files.h"

#include <sys/stat.h>
#include <unistd.h>

namespace iolane {

namespace definitions {

static const std::string FRM = ".frm", PAR = ".par";

/*
 * A `.par` file (ha_partition::create_handler_file): words of four bytes, which are how many
 * there are, a checksum, how many partitions; a byte for each partition, filled up to a
 * word; how many bytes the names take; the names, each with a zero behind it.
 */
static const size_t WORD_BYTES = 4, PARTS_AT = 8, ENGINES_AT = 12;

/* What no name of a user's has in a path: there it is written @0023. */
static const char RESERVED = '#';

static size_t name_at(const std::string &path)
{
	size_t slash = path.rfind('/');

	return slash == std::string::npos ? 0 : slash + 1;
}

static size_t partition_at(const std::string &path)
{
	return path.find(PARTITION, name_at(path) + 1);
}

std::string table_of(const std::string &path)
{
	return path.substr(0, partition_at(path));
}

std::string partition_of(const std::string &path)
{
	size_t at = partition_at(path);

	return at == std::string::npos ? "" : path.substr(at + sizeof(PARTITION) - 1);
}

bool is_partition(const std::string &path)
{
	return partition_at(path) != std::string::npos;
}

bool is_of_statement(const std::string &path)
{
	return path[name_at(path)] == RESERVED;
}

static bool is_there(const std::string &path)
{
	struct stat found;

	/* What cannot be looked at may be there. */
	return !stat((data_folder() + path).c_str(), &found) || errno != ENOENT;
}

bool has_frm(const std::string &table)
{
	return is_there(table + FRM);
}

bool has_par(const std::string &table)
{
	return is_there(table + PAR);
}

int rename_par(const std::string &from, const std::string &to)
{
	std::string old_path = data_folder() + from + PAR, new_path = data_folder() + to + PAR;

	return ::rename(old_path.c_str(), new_path.c_str()) ? errno : 0;
}

int remove_par(const std::string &table)
{
	return unlink((data_folder() + table + PAR).c_str()) && errno != ENOENT ? errno : 0;
}

static bool ends_with(const std::string &text, const std::string &ending)
{
	return text.size() > ending.size() && !text.compare(text.size() - ending.size(), ending.size(), ending);
}

std::set<std::string> all()
{
	std::vector<std::string> databases, names;
	std::set<std::string> tables;

	list_directory(data_folder(), &databases);
	for (const std::string &database : databases) {
		/* Files are no directories. */
		if (database[0] == RESERVED || list_directory(data_folder() + database, &names))
			continue;
		for (const std::string &name : names)
			if (ends_with(name, FRM))
				tables.insert(database + "/" + name.substr(0, name.size() - FRM.size()));
	}
	return tables;
}

bool has_database(const std::string &path)
{
	return is_there(path.substr(0, name_at(path)));
}

static size_t word_at(const std::string &text, size_t at)
{
	return at + WORD_BYTES <= text.size() ? uint4korr((const uchar *) text.data() + at) : 0;
}

std::set<std::string> partitions_of(const std::string &table)
{
	std::set<std::string> names;
	std::string text;

	if (read_file(data_folder() + table + PAR, &text))
		return names;
	size_t parts = word_at(text, PARTS_AT);
	size_t length_at = ENGINES_AT + (parts + WORD_BYTES - 1) / WORD_BYTES * WORD_BYTES;
	size_t at = length_at + WORD_BYTES, end = std::min(at + word_at(text, length_at), text.size());

	while (at < end) {
		std::string each = text.substr(at, text.find('\0', at) - at);

		at += each.size() + 1;
		names.insert(std::move(each));
	}
	return names;
}

bool is_listed(const std::string &path)
{
	return is_partition(path) && partitions_of(table_of(path)).count(partition_of(path));
}

bool has_shadow(const std::string &table)
{
	size_t at = name_at(table);
	std::string ending = "-" + table.substr(at);
	std::vector<std::string> names;

	if (int error = list_directory(data_folder() + table.substr(0, at), &names))
		return error != ENOENT;
	for (const std::string &name : names)
		for (const std::string &kind : { FRM, PAR })
			if (name[0] == RESERVED && ends_with(name, ending + kind))
				return true;
	return false;
}

std::string quoted(const std::string &path)
{
	char database[NAME_LEN + 1], table[FN_REFLEN];
	size_t at = name_at(path);
	std::string folder = path.substr(0, at ? at - 1 : 0), name = path.substr(at);

	filename_to_tablename(folder.c_str(), database, sizeof(database));
	/* The server takes a name with this before it as that of a file. */
	if (name.find(RESERVED) != std::string::npos)
		return "`" + std::string(database) + "`.`#mysql50#" + name + "`";
	filename_to_tablename(name.c_str(), table, sizeof(table));
	return "`" + std::string(database) + "`.`" + table + "`";
}

} /* namespace definitions */

} /* namespace iolane */
