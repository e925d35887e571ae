/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Whether the server has a definition for a path of the dictionary: the files that it keeps
 * in a database's directory, a table's `.frm`, and `.par` with the names of its partitions.
 */
#ifndef IOLANE_DEFINITIONS_H
#define IOLANE_DEFINITIONS_H

#include <set>
#include <string>

namespace iolane {

namespace definitions {

/* Behind the path of a table, before the name of a partition. */
constexpr char PARTITION[] = "#P#";

/* The path of the table that a path belongs to: without the partition. */
std::string table_of(const std::string &path);

/* The partition's name as the server has it; empty if the path is no partition's. */
std::string partition_of(const std::string &path);

bool is_partition(const std::string &path);

/* Of a statement that runs, or ran when the server stopped: no table has such a name for good. */
bool is_of_statement(const std::string &path);

/* Whether a table has the file of its definition; of its partitions. */
bool has_frm(const std::string &table);
bool has_par(const std::string &table);

/* Whether the definition of a table says that it has partitions. */
bool is_partitioned(const std::string &table);

/* The partitions that a table's `.par` names; none if it cannot be read, or is not whole. */
std::set<std::string> partitions_of(const std::string &table);

/* Whether a path is that of such a partition, or may be: its table is there, but not what it lists. */
bool may_be_listed(const std::string &path);

/* All tables of the server, of every engine, and its views: those with a `.frm` file. Returns 0, or errno. */
int all(std::set<std::string> *tables);

/* Renames a table's `.par` file, or removes it. Returns 0, or errno. */
int rename_par(const std::string &from, const std::string &to);
int remove_par(const std::string &table);

/* Makes what was renamed in the directory of a path's database durable, if it is there. Returns 0, or errno. */
int sync_database(const std::string &path);

/* Whether a statement that changed a table's partitions has left another definition of it, or may have. */
bool has_shadow(const std::string &table);

/* Whether the database's directory is there. */
bool has_database(const std::string &path);

/* As a statement names it, where the server has no definition. */
std::string quoted(const std::string &path);

} /* namespace definitions */

} /* namespace iolane */

#endif
