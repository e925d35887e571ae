/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rows as the store keeps them.
 */
#ifndef IOLANE_RECORD_H
#define IOLANE_RECORD_H

#include "iolane_engine.h"

#include <vector>

namespace iolane {

/* What a table had before columns were added without its rows being written again. */
struct Layout {
	uint32_t columns;
	/* Bits for NULL, and such of columns, at the beginning of a record. */
	uint32_t null_bits;

	/* That of a table as it is. */
	static Layout of(const TABLE_SHARE *share);
};

/* All layouts that rows of a table may have, beside that of its definition. */
struct Layouts {
	/* Greater than that of the table before its last column was added. */
	uint64_t version = 0;
	/* The first ones of each row's format, in the order of time. */
	std::vector<Layout> old;
	/* A row with the values that the columns have which were added. */
	std::string defaults;

	std::string encode() const;
	/* Returns false where the bytes are none. */
	bool decode(const uchar *bytes, size_t length);
};

/* A row says in a byte which it has; few tables get more columns so often. */
const size_t LAYOUTS_MAX = 128;

/*
 * Packs a record, laid out as table->record[0], with what its BLOBs point to. `layouts`
 * are those of older rows, or nullptr.
 */
void pack_record(TABLE *table, const Layouts *layouts, const uchar *record, std::string *out);

/*
 * The reverse. BLOBs point into `bytes`, or into `layouts`, which must stay as long as the
 * record is used. Returns 0, or HA_ERR_CRASHED_ON_USAGE where the bytes are no such record.
 */
int unpack_record(TABLE *table, const Layouts *layouts, const uchar *bytes, size_t length,
		  uchar *record);

} /* namespace iolane */

#endif
