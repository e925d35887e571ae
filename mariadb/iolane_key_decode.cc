/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Values from the bytes of keys.
 *
 * Weights of strings are not their values, and a part that has only the beginning of its
 * column does not have the rest: these, and what comes behind them, is not decoded.
 */
#include "iolane_key.h"

#include <algorithm>

namespace iolane {

/* How the bytes of a part become those of a field. */
enum class Way { NONE, AS_THEY_ARE, NUMBER, REVERSED, BITS, STRING };

/* Strings whose order is that of their bytes, and whose ends are no others' beginnings. */
static bool is_binary_string(const Field *field)
{
	return field->charset() == &my_charset_bin &&
	       (field->type_handler() == &type_handler_string ||
		field->real_type() == MYSQL_TYPE_VARCHAR);
}

static Way way_of(const Field *field)
{
	switch (field->real_type()) {
	case MYSQL_TYPE_TINY:
	case MYSQL_TYPE_SHORT:
	case MYSQL_TYPE_INT24:
	case MYSQL_TYPE_LONG:
	case MYSQL_TYPE_LONGLONG:
	case MYSQL_TYPE_YEAR:
		return Way::NUMBER;
	case MYSQL_TYPE_NEWDATE:
	case MYSQL_TYPE_ENUM:
	case MYSQL_TYPE_SET:
		return Way::REVERSED;
	case MYSQL_TYPE_NEWDECIMAL:
	case MYSQL_TYPE_TIME2:
	case MYSQL_TYPE_DATETIME2:
	case MYSQL_TYPE_TIMESTAMP2:
		return Way::AS_THEY_ARE;
	case MYSQL_TYPE_BIT:
		return Way::BITS;
	case MYSQL_TYPE_STRING:
	case MYSQL_TYPE_VARCHAR:
		return is_binary_string(field) ? Way::STRING : Way::NONE;
	default:
		return Way::NONE;
	}
}

bool can_decode(const KEY *key, uint parts)
{
	if (key->algorithm == HA_KEY_ALG_LONG_HASH)
		return false;
	parts = std::min(parts, key->user_defined_key_parts);
	for (uint i = 0; i < parts; i++) {
		const KEY_PART_INFO *part = &key->key_part[i];
		const Field *field = part->field;

		/* There is none yet while the definition is read. */
		if (!field || (field->flags & BLOB_FLAG) || field->key_length() != part->length ||
		    way_of(field) == Way::NONE)
			return false;
	}
	return parts > 0;
}

uint count_decodable(const KEY *key)
{
	uint parts = 0;

	while (parts < key->user_defined_key_parts && can_decode(key, parts + 1))
		parts++;
	return parts;
}

/* What is left of a key's bytes. */
class Reader {
public:
	Reader(const uchar *bytes, size_t length) : at_(bytes), end_(bytes + length) {}

	/* From here on all bits are inverted, or none. */
	void invert(bool inverted) { mask_ = inverted ? 0xFF : 0; }

	bool has(size_t count) const { return (size_t) (end_ - at_) >= count; }

	uchar next() { return *at_++ ^ mask_; }

private:
	const uchar *at_, *end_;
	uchar mask_ = 0;
};

/* A string up to its end, at most so many bytes. */
static bool read_string(Reader *from, uchar *to, size_t bytes_max, size_t *length)
{
	*length = 0;
	for (;;) {
		if (!from->has(1))
			return false;
		uchar byte = from->next();

		if (byte == KEY_STRING_END)
			return true;
		if (byte == KEY_STRING_ESCAPE) {
			if (!from->has(1))
				return false;
			byte = (uchar) (from->next() - 1);
		}
		if (*length == bytes_max)
			return false;
		to[(*length)++] = byte;
	}
}

static bool decode_string(Reader *from, const KEY_PART_INFO *part, uchar *to)
{
	size_t length, head = 0;

	if (part->field->real_type() == MYSQL_TYPE_VARCHAR)
		head = ((Field_varstring *) part->field)->length_bytes;
	if (!read_string(from, to + head, part->length, &length))
		return false;
	if (head == 1)
		to[0] = (uchar) length;
	else if (head == 2)
		int2store(to, (uint16) length);
	else if (length != part->length)
		return false;
	return true;
}

static void decode_bits(TABLE *table, Reader *from, const KEY_PART_INFO *part, size_t length,
			uchar *record)
{
	const Field_bit *field = (const Field_bit *) part->field;

	if (field->bit_len) {
		set_rec_bits(from->next(), record + (field->bit_ptr - table->record[0]),
			     field->bit_ofs, field->bit_len);
		length--;
	}
	for (size_t i = 0; i < length; i++)
		record[part->offset + i] = from->next();
}

/* A value that is not NULL. */
static bool decode_value(TABLE *table, Reader *from, const KEY_PART_INFO *part, uchar *record)
{
	const Field *field = part->field;
	Way way = way_of(field);
	uchar *to = record + part->offset;

	if (way == Way::STRING)
		return decode_string(from, part, to);
	size_t length = field->sort_length();

	if (!from->has(length))
		return false;
	switch (way) {
	case Way::AS_THEY_ARE:
		for (size_t i = 0; i < length; i++)
			to[i] = from->next();
		return true;
	case Way::NUMBER:
	case Way::REVERSED:
		for (size_t i = length; i-- > 0;)
			to[i] = from->next();
		/* Negative numbers come before the others. */
		if (way == Way::NUMBER && !(field->flags & UNSIGNED_FLAG))
			to[length - 1] ^= 0x80;
		return true;
	case Way::BITS:
		decode_bits(table, from, part, length, record);
		return true;
	default:
		return false;
	}
}

bool decode_key(TABLE *table, const KEY *key, uint parts, const uchar *bytes, size_t length,
		uchar *record)
{
	Reader from(bytes, length);

	for (uint i = 0; i < parts; i++) {
		const KEY_PART_INFO *part = &key->key_part[i];

		from.invert(part->key_part_flag & HA_REVERSE_SORT);
		if (part->null_bit) {
			if (!from.has(1))
				return false;
			if (from.next() == 0) {
				/* The server compares records without a look at what is NULL. */
				memcpy(record + part->offset, table->s->default_values + part->offset,
				       part->field->pack_length_in_rec());
				record[part->null_offset] |= part->null_bit;
				continue;
			}
			record[part->null_offset] &= (uchar) ~part->null_bit;
		}
		if (!decode_value(table, &from, part, record))
			return false;
	}
	return true;
}

} /* namespace iolane */
