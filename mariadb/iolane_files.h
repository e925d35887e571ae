/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Files of a backup, durable when they are written. All functions return 0, or errno.
 */
#ifndef IOLANE_FILES_H
#define IOLANE_FILES_H

#include <string>
#include <vector>

namespace iolane {

int read_file(const std::string &path, std::string *text);
int write_file(const std::string &path, const std::string &text);

/* Copies one, unless it is not there, which *found says. */
int copy_file(const std::string &from, const std::string &to, bool *found);

/* Makes one; the directory above it is there. */
int make_directory(const std::string &path);

int sync_directory(const std::string &path);

/* Names in a directory, but for "." and "..". */
int list_directory(const std::string &path, std::vector<std::string> *names);

/* Removes one, with all that is in it, as far as that can be done. */
void remove_directory(const std::string &path);

} /* namespace iolane */

#endif
