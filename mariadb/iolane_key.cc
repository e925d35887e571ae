/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Keys as bytes that compare as the server's values do.
 *
 * Each part is a byte for NULL (0) or a value (1), where it can be NULL, and then:
 *
 *   numbers, times, ENUM, SET, BIT	what the server sorts by, of fixed length
 *   binary strings			their bytes, escaped, and an end
 *   strings, no padding		their weights, escaped, and an end
 *   strings, padded with spaces	their weights in chunks, each with a mark that says
 *					how the rest compares with spaces
 *
 * No part is the beginning of another one's, so parts compare one after the other. A
 * part that is sorted downwards has all of its bits inverted.
 */
#include "iolane_key.h"

#include <algorithm>
#include <vector>

namespace iolane {

/* Marks behind a chunk: what follows is less than spaces, spaces only, or more. */
enum { REST_LESS = 1, REST_EQUAL = 2, REST_MORE = 3 };

/* Chunks have at least so many bytes; a mark for each is little beside that. */
static const size_t CHUNK_BYTES_MIN = 8;

static void append_escaped(const uchar *bytes, size_t length, std::string *out)
{
	for (size_t i = 0; i < length; i++) {
		if (bytes[i] <= KEY_STRING_ESCAPE) {
			out->push_back((char) KEY_STRING_ESCAPE);
			out->push_back((char) (bytes[i] + 1));
		} else {
			out->push_back((char) bytes[i]);
		}
	}
	out->push_back((char) KEY_STRING_END);
}

/* How what is left of weights compares with spaces. */
static uchar compare_with_spaces(const uchar *from, const uchar *end, const uchar *space,
				 size_t width)
{
	for (; from + width <= end; from += width) {
		int order = memcmp(from, space, width);

		if (order)
			return order < 0 ? REST_LESS : REST_MORE;
	}
	if (from < end) {
		int order = memcmp(from, space, (size_t) (end - from));

		/* Weights that end within one of a space are padded by its rest. */
		if (order)
			return order < 0 ? REST_LESS : REST_MORE;
	}
	return REST_EQUAL;
}

static void append_padded(const uchar *weights, size_t length, const uchar *space, size_t width,
			  std::string *out)
{
	size_t chunk = (CHUNK_BYTES_MIN + width - 1) / width * width;
	const uchar *from = weights, *end = weights + length;

	for (;;) {
		size_t here = std::min(chunk, (size_t) (end - from));

		out->append((const char *) from, here);
		for (size_t i = here; i < chunk; i++)
			out->push_back((char) space[i % width]);
		from += here;

		uchar rest = compare_with_spaces(from, end, space, width);

		out->push_back((char) rest);
		if (rest == REST_EQUAL)
			return;
	}
}

static bool is_multi_level(CHARSET_INFO *cs)
{
	return cs->levels_for_order > 1;
}

static void append_string(CHARSET_INFO *cs, const uchar *bytes, size_t length, size_t bytes_max,
			  std::string *out)
{
	size_t chars_max = bytes_max / cs->mbmaxlen;

	length = std::min(length, bytes_max);
	if (cs == &my_charset_bin) {
		append_escaped(bytes, length, out);
		return;
	}
	if (length > chars_max)
		length = std::min(length, cs->charpos(bytes, bytes + length, chars_max));

	bool padded = !(cs->state & MY_CS_NOPAD);

	if (is_multi_level(cs)) {
		/* Levels follow each other: only as long as each other they compare. */
		std::vector<uchar> weights(cs->strnxfrmlen(bytes_max));
		size_t made = cs->strnxfrm(weights.data(), weights.size(), (uint) chars_max, bytes,
					   length, MY_STRXFRM_PAD_WITH_SPACE | MY_STRXFRM_PAD_TO_MAXLEN);

		out->append((const char *) weights.data(), made);
		return;
	}
	if (padded)
		length = cs->lengthsp((const char *) bytes, length);

	uchar few[512];
	std::vector<uchar> many;
	size_t room = cs->strnxfrmlen(length) + 16;
	uchar *weights = few;

	if (room > sizeof(few)) {
		many.resize(room);
		weights = many.data();
	}
	size_t made = cs->strnxfrm(weights, room, (uint) length, bytes, length, 0);

	if (!padded) {
		append_escaped(weights, made, out);
		return;
	}
	uchar space[64];
	uchar blank[8];
	size_t blank_length = (size_t) cs->wc_mb(' ', blank, blank + sizeof(blank));
	size_t width = cs->strnxfrm(space, sizeof(space), 1, blank, blank_length, 0);

	if (!width) {
		append_escaped(weights, made, out);
		return;
	}
	append_padded(weights, made, space, width, out);
}

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
		append_string(cs, field->ptr, field->pack_length(), part->length, out);
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

void restore_key(TABLE *table, const KEY *key, uint parts, const uchar *from, uchar *record)
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

/* The most that a string of so many bytes takes. */
static size_t string_bytes_max(CHARSET_INFO *cs, size_t bytes_max)
{
	if (cs == &my_charset_bin)
		return 2 * bytes_max + 1;
	if (is_multi_level(cs))
		return cs->strnxfrmlen(bytes_max);

	size_t weights = cs->strnxfrmlen(bytes_max) + 16;

	if (cs->state & MY_CS_NOPAD)
		return 2 * weights + 1;
	return weights + weights / CHUNK_BYTES_MIN + 2 * CHUNK_BYTES_MIN + 2;
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
