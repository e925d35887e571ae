/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Keys as bytes that compare as the server's values do.
 *
 * Each part is a byte for NULL (0) or a value (1), where it can be NULL, and then:
 *
 *   numbers, times, ENUM, SET, BIT	what the server sorts by, of fixed length
 *   strings				see iolane_string.cc
 *
 * No part is the beginning of another one's, so parts compare one after the other. A
 * part that is sorted downwards has all of its bits inverted.
 */
#include "iolane_key.h"
#include "iolane_string.h"

#include <algorithm>

namespace iolane {

static bool is_char(const Field *field)
{
	return field->type_handler() == &type_handler_string;
}

static bool is_varchar(const Field *field)
{
	return field->real_type() == MYSQL_TYPE_VARCHAR ||
	       field->real_type() == MYSQL_TYPE_VARCHAR_COMPRESSED;
}

/* The field is at the record. */
static void append_field(Field *field, const KEY_PART_INFO *part, std::string *out)
{
	CHARSET_INFO *cs = field->charset();

	if (field->flags & BLOB_FLAG) {
		Field_blob *long_one = (Field_blob *) field;

		append_string(cs, long_one->get_ptr(), long_one->get_length(), part->length, out);
	} else if (is_varchar(field)) {
		uint head = ((Field_varstring *) field)->length_bytes;
		size_t length = head == 1 ? *field->ptr : uint2korr(field->ptr);

		append_string(cs, field->ptr + head, length, part->length, out);
	} else if (is_char(field)) {
		append_char(cs, field->ptr, field->pack_length(), part->length, out);
	} else {
		size_t length = field->sort_length();
		size_t begin = out->size();

		out->resize(begin + length);
		field->sort_string((uchar *) &(*out)[begin], (uint) length);
	}
}

void encode_key(TABLE *table, const KEY *key, uint parts, const uchar *record, std::string *out,
		bool *has_null)
{
	my_ptrdiff_t moved = record - table->record[0];

	*has_null = false;
	for (uint i = 0; i < parts; i++) {
		const KEY_PART_INFO *part = &key->key_part[i];
		Field *field = part->field;
		size_t begin = out->size();
		bool is_null = part->null_bit && (record[part->null_offset] & part->null_bit);

		if (part->null_bit)
			out->push_back(is_null ? 0 : 1);
		if (is_null) {
			*has_null = true;
		} else {
			field->move_field_offset(moved);
			append_field(field, part, out);
			field->move_field_offset(-moved);
		}
		if (part->key_part_flag & HA_REVERSE_SORT)
			for (size_t at = begin; at < out->size(); at++)
				(*out)[at] = (char) ~(*out)[at];
	}
}

/* Bytes of a part that bytes begin with; 0 if it does not end in them. */
static size_t part_bytes(const KEY_PART_INFO *part, const uchar *bytes, size_t length)
{
	const Field *field = part->field;
	bool inverted = part->key_part_flag & HA_REVERSE_SORT;
	size_t head = part->null_bit ? 1 : 0;

	if (length <= head)
		return head && length && bytes[0] == (inverted ? 0xFF : 0) ? head : 0;
	if (head && bytes[0] == (inverted ? 0xFF : 0))
		return head;
	if ((field->flags & BLOB_FLAG) || is_varchar(field) || is_char(field)) {
		size_t rest = string_bytes(field->charset(), bytes + head, length - head, inverted);

		return rest ? head + rest : 0;
	}
	return length - head >= field->sort_length() ? head + field->sort_length() : 0;
}

uint count_whole_parts(const KEY *key, const uchar *bytes, size_t length)
{
	uint parts = 0;

	while (parts < key->user_defined_key_parts) {
		size_t here = part_bytes(&key->key_part[parts], bytes, length);

		if (!here)
			break;
		bytes += here;
		length -= here;
		parts++;
	}
	return parts;
}

/* Bits beside those for NULL: of a column that cannot be NULL, too. */
static void restore_bits(TABLE *table, const KEY_PART_INFO *part, const uchar *from, uchar *record)
{
	Field_bit *field = (Field_bit *) part->field;
	uint head = 0;

	if (field->bit_len) {
		set_rec_bits(*from, record + (field->bit_ptr - table->record[0]), field->bit_ofs,
			     field->bit_len);
		head = 1;
	}
	memcpy(record + part->offset, from + head, part->length - head);
}

/*
 * The least value of LIKE 'a%' is 'a' with the least characters up to the end of the column.
 * For a CHAR that is not padded that is more than 'a', which has to be found, too.
 */
static void loosen_char(const Field *field, uchar *value, size_t length, Bound bound, bool is_reverse)
{
	bool is_least = bound == (is_reverse ? Bound::UPPER : Bound::LOWER);

	if (is_least && is_char(field) && field->charset() != &my_charset_bin &&
	    (field->charset()->state & MY_CS_NOPAD))
		cut_least(field->charset(), value, length);
}

void restore_key(TABLE *table, const KEY *key, uint parts, const uchar *from, Bound bound,
		 uchar *record)
{
	for (uint i = 0; i < parts; i++) {
		const KEY_PART_INFO *part = &key->key_part[i];
		const uchar *next = from + part->store_length;
		Field *field = part->field;

		if (part->null_bit) {
			if (*from++) {
				record[part->null_offset] |= part->null_bit;
				from = next;
				continue;
			}
			record[part->null_offset] &= (uchar) ~part->null_bit;
		}
		if (part->key_part_flag & HA_BLOB_PART) {
			((Field_blob *) field)->set_ptr_offset(record - table->record[0], uint2korr(from),
							       from + HA_KEY_BLOB_LENGTH);
		} else if (part->key_part_flag & HA_VAR_LENGTH_PART) {
			uint length = std::min<uint>(uint2korr(from), part->length);
			uint head = ((Field_varstring *) field)->length_bytes;

			if (head == 1)
				record[part->offset] = (uchar) length;
			else
				int2store(record + part->offset, (uint16) length);
			memcpy(record + part->offset + head, from + HA_KEY_BLOB_LENGTH, length);
		} else if (part->type == HA_KEYTYPE_BIT) {
			restore_bits(table, part, from, record);
		} else {
			memcpy(record + part->offset, from, part->length);
			loosen_char(field, record + part->offset, part->length, bound,
				    part->key_part_flag & HA_REVERSE_SORT);
		}
		from = next;
	}
}

std::string end_of_prefix(std::string prefix)
{
	while (!prefix.empty() && (uchar) prefix.back() == 0xFF)
		prefix.pop_back();
	if (!prefix.empty())
		prefix.back() = (char) ((uchar) prefix.back() + 1);
	return prefix;
}

size_t key_bytes_max(const KEY *key)
{
	size_t bytes = 0;

	for (uint i = 0; i < key->user_defined_key_parts; i++) {
		const KEY_PART_INFO *part = &key->key_part[i];
		Field *field = part->field;

		bytes += part->null_bit ? 1 : 0;
		if ((field->flags & BLOB_FLAG) || is_varchar(field) || is_char(field))
			bytes += string_bytes_max(field->charset(), part->length);
		else
			bytes += field->sort_length();
	}
	return bytes;
}

} /* namespace iolane */
