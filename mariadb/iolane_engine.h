/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What all parts of the engine share: the server's headers, the store, errors.
 */
#ifndef IOLANE_ENGINE_H
#define IOLANE_ENGINE_H

#define MYSQL_SERVER 1
#include <my_global.h>
#include "sql_priv.h"
#include "sql_class.h"
#include "handler.h"
#include "field.h"
#include "key.h"
#include "table.h"
#include "sql_table.h"
#include "sql_partition.h"

#include <string>

#include "iolane_store.h"

namespace iolane {

/* The one store of a server, while the plugin is loaded. */
extern iolane_store *store;
extern handlerton *hton;

/* The folder of the store, in that of the server's data: no database has such a name. */
constexpr char FOLDER[] = "#iolane";

/* That of the server's data, with a slash at its end. */
std::string data_folder();

/* The code of the server for a code of the store; marks a transaction that is gone. */
int error_of(int code, THD *thd);

/* A line of the server's error log, with what the store says of its last failure. */
void log_failure(const char *what);

/* A list or a row that the store fills; freed with it. */
class Row {
public:
	Row() { iolane_row_new(&row_); }
	~Row() { iolane_row_free(row_); }
	Row(const Row &) = delete;
	Row &operator=(const Row &) = delete;

	iolane_row *get() { return row_; }

	const iolane_value *values(size_t *count) const
	{
		const iolane_value *values = nullptr;

		iolane_row_values(row_, &values, count);
		return values;
	}

private:
	iolane_row *row_ = nullptr;
};

inline iolane_value blob(const void *bytes, size_t length)
{
	iolane_value value = {};

	value.kind = IOLANE_BLOB;
	value.bytes = bytes;
	value.length = length;
	return value;
}

inline iolane_value blob(const std::string &bytes)
{
	return blob(bytes.data(), bytes.size());
}

/* From a key on, and up to another one; a bound without bytes is none. */
inline void set_bounds(iolane_range *range, const iolane_value *lower, const iolane_value *upper)
{
	range->lower = lower;
	range->lower_count = 1;
	range->lower_bound = lower->length ? IOLANE_INCLUDED : IOLANE_UNBOUNDED;
	range->upper = upper;
	range->upper_count = 1;
	range->upper_bound = upper->length ? IOLANE_EXCLUDED : IOLANE_UNBOUNDED;
}

inline iolane_value integer(int64_t number)
{
	iolane_value value = {};

	value.kind = IOLANE_INTEGER;
	value.integer = number;
	return value;
}

} /* namespace iolane */

#endif
