/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rows as the store keeps them.
 */
#ifndef IOLANE_RECORD_H
#define IOLANE_RECORD_H

#include "iolane_engine.h"

namespace iolane {

/* Packs a record, laid out as table->record[0], with what its BLOBs point to. */
void pack_record(TABLE *table, const uchar *record, std::string *out);

/*
 * The reverse. BLOBs point into `bytes`, which must stay as long as the record is
 * used. Returns 0, or HA_ERR_CRASHED_ON_USAGE where the bytes are no such record.
 */
int unpack_record(TABLE *table, const uchar *bytes, size_t length, uchar *record);

} /* namespace iolane */

#endif
