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

/* A `.frm` file of a table (datadict.cc, dd_frm_type): these, a version, and the kind of its engine. */
static const std::string FRM_HEAD = "\376\1";
static const size_t FRM_ENGINE_AT = 3;

/* Of a filesystem whose top is the data folder; the server cannot read it. A database's would be lost@002bfound. */
static const char LOST[] = "lost+found";

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

int sync_database(const std::string &path)
{
	int error = sync_directory(data_folder() + path.substr(0, name_at(path)));

	return error == ENOENT ? 0 : error;
}

static bool ends_with(const std::string &text, const std::string &ending)
{
	return text.size() > ending.size() && !text.compare(text.size() - ending.size(), ending.size(), ending);
}

int all(std::set<std::string> *tables)
{
	std::vector<std::string> databases, names;

	if (int error = list_directory(data_folder(), &databases))
		return error;
	for (const std::string &database : databases) {
		if (database[0] == RESERVED || database == LOST)
			continue;
		int error = list_directory(data_folder() + database, &names);

		/* A file; a database that has been dropped meanwhile. */
		if (error == ENOTDIR || error == ENOENT)
			continue;
		if (error)
			return error;
		for (const std::string &name : names)
			if (ends_with(name, FRM))
				tables->insert(database + "/" + name.substr(0, name.size() - FRM.size()));
	}
	return 0;
}

bool has_database(const std::string &path)
{
	return is_there(path.substr(0, name_at(path)));
}

static size_t word_at(const std::string &text, size_t at)
{
	return at + WORD_BYTES <= text.size() ? uint4korr((const uchar *) text.data() + at) : 0;
}

/* Whether all words that the first one counts are there, with their checksum. */
static bool is_whole(const std::string &text)
{
	size_t words = word_at(text, 0), sum = 0;

	if (!words || words > text.size() / WORD_BYTES)
		return false;
	for (size_t word = 0; word < words; word++)
		sum ^= word_at(text, word * WORD_BYTES);
	return !sum;
}

bool is_partitioned(const std::string &table)
{
	std::string text;

	return !read_file(data_folder() + table + FRM, &text) && text.size() > FRM_ENGINE_AT &&
	       !text.compare(0, FRM_HEAD.size(), FRM_HEAD) && (uchar) text[FRM_ENGINE_AT] == DB_TYPE_PARTITION_DB;
}

std::set<std::string> partitions_of(const std::string &table)
{
	std::set<std::string> names;
	std::string text;

	if (read_file(data_folder() + table + PAR, &text) || !is_whole(text))
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

bool may_be_listed(const std::string &path)
{
	if (!is_partition(path))
		return false;
	std::string table = table_of(path);
	std::set<std::string> listed = partitions_of(table);

	return listed.empty() ? has_frm(table) || has_par(table) : listed.count(partition_of(path));
}

/* The server's name of a database or a table, of that of its file. */
static std::string name_of(const std::string &file)
{
	char name[FN_REFLEN];

	filename_to_tablename(file.c_str(), name, sizeof(name), true);
	return name;
}

bool has_shadow(const std::string &table)
{
	size_t at = name_at(table);
	std::string file = table.substr(at), name = name_of(file);
	std::vector<std::string> found;

	if (int error = list_directory(data_folder() + table.substr(0, at), &found))
		return error != ENOENT;
	/* The server puts the name into theirs as it is, not as in a file's. */
	for (const std::string &each : found)
		for (const std::string &kind : { FRM, PAR })
			if (each[0] == RESERVED && (ends_with(each, "-" + name + kind) || ends_with(each, "-" + file + kind)))
				return true;
	return false;
}

static std::string in_quotes(const std::string &name)
{
	std::string text = "`";

	for (char each : name)
		text += each == '`' ? "``" : std::string(1, each);
	return text + "`";
}

std::string quoted(const std::string &path)
{
	size_t at = name_at(path);
	std::string database = name_of(path.substr(0, at ? at - 1 : 0)), file = path.substr(at);
	/* The server takes a name with `#mysql50#` before it as that of a file. */
	bool is_file = file.find(RESERVED) != std::string::npos;

	return in_quotes(database) + "." + in_quotes(is_file ? "#mysql50#" + file : name_of(file));
}

} /* namespace definitions */

} /* namespace iolane */
