/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Keys as bytes that compare as the server's values do.
 */
#ifndef IOLANE_KEY_H
#define IOLANE_KEY_H

#include "iolane_engine.h"

namespace iolane {

/*
 * The rule by which keys become bytes, kept with each table: one more whenever the same
 * values become other bytes. Tables of before it was kept have 0, and strings of some
 * collations in the wrong order.
 */
const uint8_t KEY_FORMAT = 1;

/*
 * Appends the first `parts` parts of a key, of the record `record` that is laid out
 * as table->record[0]. The bytes of fewer parts are what those of more begin with.
 * Says in `has_null` whether one of them is NULL.
 */
void encode_key(TABLE *table, const KEY *key, uint parts, const uchar *record,
		std::string *out, bool *has_null);

/* What a key to search for is: the one of rows, or where a range begins or ends. */
enum class Bound { EXACT, LOWER, UPPER };

/*
 * Puts the first parts of a key, as the server hands them over to search for, into a
 * record that is laid out as table->record[0]. A value may be longer than its column can
 * hold, as the greatest one of LIKE is: it is kept, and cut when it is encoded. The least
 * one of LIKE may be above the very string that it begins with, which is then taken instead.
 */
void restore_key(TABLE *table, const KEY *key, uint parts, const uchar *from, Bound bound,
		 uchar *record);

/* A byte up to the escape is written as the escape and the next byte; the end is below all. */
const uchar KEY_STRING_END = 0;
const uchar KEY_STRING_ESCAPE = 1;

/* Whether the first parts of a key can be decoded: columns of types that keep their values. */
bool can_decode(const KEY *key, uint parts);

/* How many of its parts can. */
uint count_decodable(const KEY *key);

/*
 * The reverse of encode_key(), of parts that can be decoded: puts the values into a record
 * that is laid out as table->record[0]. Returns false where the bytes are no such key.
 */
bool decode_key(TABLE *table, const KEY *key, uint parts, const uchar *bytes, size_t length,
		uchar *record);

/*
 * How many of a key's first parts are whole in bytes that a key begins with; of all types. What
 * two keys both begin with tells so how many parts are the same in them.
 */
uint count_whole_parts(const KEY *key, const uchar *bytes, size_t length);

/* The least bytes above all that begin with `prefix`; "" if there are none. */
std::string end_of_prefix(std::string prefix);

/* Most bytes that the key of a row may have, or 0 if that is not bounded by its type. */
size_t key_bytes_max(const KEY *key);

} /* namespace iolane */

#endif
