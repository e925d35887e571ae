/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rows as the store keeps them: a byte with the format, the record's bytes for NULL and
 * bits, then the fields that are not NULL, as replication packs them. Columns that the
 * server computes when it reads are left out.
 *
 * The format is 1 and the number of times that columns were added behind the others
 * without the rows being written again: a row of before has the first columns only, and
 * the first bits. The rest it has as it was the default when they were added.
 */
#include "iolane_record.h"

namespace iolane {

/* Of rows of a table that has had all of its columns from the beginning. */
static const uchar FORMAT = 1;

/* More than any field adds to what it holds. */
static const size_t FIELD_HEAD_BYTES_MAX = 8;

Layout Layout::of(const TABLE_SHARE *share)
{
	uint bits = share->null_bytes * 8;

	if (share->last_null_bit_pos)
		bits -= 8 - share->last_null_bit_pos;
	return { share->fields, bits };
}

static const size_t VERSION_BYTES = 8, COUNT_BYTES = 2, LAYOUT_BYTES = 8;

std::string Layouts::encode() const
{
	std::string bytes(VERSION_BYTES + COUNT_BYTES + old.size() * LAYOUT_BYTES, '\0');
	uchar *to = (uchar *) &bytes[0];

	int8store(to, version);
	int2store(to + VERSION_BYTES, (uint16) old.size());
	to += VERSION_BYTES + COUNT_BYTES;
	for (const Layout &layout : old) {
		int4store(to, layout.columns);
		int4store(to + 4, layout.null_bits);
		to += LAYOUT_BYTES;
	}
	return bytes + defaults;
}

bool Layouts::decode(const uchar *bytes, size_t length)
{
	const uchar *end = bytes + length;

	if (length < VERSION_BYTES + COUNT_BYTES)
		return false;
	size_t count = uint2korr(bytes + VERSION_BYTES);

	version = uint8korr(bytes);
	bytes += VERSION_BYTES + COUNT_BYTES;
	if (count > LAYOUTS_MAX || (size_t) (end - bytes) < count * LAYOUT_BYTES)
		return false;
	old.clear();
	for (; count; count--, bytes += LAYOUT_BYTES)
		old.push_back({ uint4korr(bytes), uint4korr(bytes + 4) });
	defaults.assign((const char *) bytes, (size_t) (end - bytes));
	return true;
}

static uchar format_of(const Layouts *layouts)
{
	return (uchar) (FORMAT + (layouts ? layouts->old.size() : 0));
}

/*
 * A virtual column's bits for NULL and of BIT become those of NULL: the server computes it for
 * some statements and not for others, and equal rows shall be equal bytes.
 */
static void clear_bits(const TABLE *table, Field *field, uchar *bits)
{
	if (field->null_ptr)
		bits[field->null_ptr - table->record[0]] |= field->null_bit;
	if (field->type() == MYSQL_TYPE_BIT && ((Field_bit *) field)->bit_len) {
		Field_bit *bit = (Field_bit *) field;

		clr_rec_bits(bits + (bit->bit_ptr - table->record[0]), bit->bit_ofs, bit->bit_len);
	}
}

void pack_record(TABLE *table, const Layouts *layouts, const uchar *record, std::string *out)
{
	my_ptrdiff_t moved = record - table->record[0];
	size_t bytes_max = 1 + table->s->reclength;

	for (Field **each = table->field; *each; each++) {
		Field *field = *each;

		bytes_max += FIELD_HEAD_BYTES_MAX;
		if ((field->flags & BLOB_FLAG) && field->stored_in_db())
			bytes_max += ((Field_blob *) field)->get_length(moved);
	}
	out->resize(bytes_max);

	uchar *begin = (uchar *) &(*out)[0];
	uchar *bits = begin + 1, *to = bits + table->s->null_bytes;

	*begin = format_of(layouts);
	memcpy(bits, record, table->s->null_bytes);
	for (Field **each = table->field; *each; each++) {
		Field *field = *each;

		if (!field->stored_in_db()) {
			clear_bits(table, field, bits);
			continue;
		}
		if (field->is_null_in_record(record))
			continue;
		to = field->pack(to, record + field->offset(table->record[0]), UINT_MAX32);
	}
	out->resize((size_t) (to - begin));
}

/* The first columns, whose bits are in the record. */
static int unpack_columns(TABLE *table, uint columns, const uchar *from, const uchar *end,
			  uchar *record)
{
	my_ptrdiff_t moved = record - table->record[0];

	for (uint i = 0; i < columns; i++) {
		Field *field = table->field[i];

		if (!field->stored_in_db())
			continue;
		if (field->is_null_in_record(record)) {
			uint offset = field->offset(table->record[0]);

			/* The server compares records without a look at what is NULL. */
			memcpy(record + offset, table->s->default_values + offset,
			       field->pack_length_in_rec());
			continue;
		}
		/* A BLOB sets its pointer where the field is. */
		field->move_field_offset(moved);
		from = field->unpack(field->ptr, from, end, 0);
		field->move_field_offset(-moved);
		if (!from || from > end)
			return HA_ERR_CRASHED_ON_USAGE;
	}
	return from == end ? 0 : HA_ERR_CRASHED_ON_USAGE;
}

/* A row of the present format. */
static int unpack_present(TABLE *table, const uchar *from, const uchar *end, uchar *record)
{
	if ((size_t) (end - from) < table->s->null_bytes)
		return HA_ERR_CRASHED_ON_USAGE;
	memcpy(record, from, table->s->null_bytes);
	return unpack_columns(table, table->s->fields, from + table->s->null_bytes, end, record);
}

/* A row of before; the record has the values of later columns. */
static int unpack_old(TABLE *table, const Layout &layout, const uchar *from, const uchar *end,
		      uchar *record)
{
	uint whole = layout.null_bits / 8, rest = layout.null_bits % 8;
	uint bytes = whole + (rest ? 1 : 0);

	if ((size_t) (end - from) < bytes || bytes > table->s->null_bytes ||
	    layout.columns > table->s->fields)
		return HA_ERR_CRASHED_ON_USAGE;
	memcpy(record, from, whole);
	if (rest) {
		uchar mask = (uchar) ((1 << rest) - 1);

		record[whole] = (uchar) ((record[whole] & ~mask) | (from[whole] & mask));
	}
	return unpack_columns(table, layout.columns, from + bytes, end, record);
}

int unpack_record(TABLE *table, const Layouts *layouts, const uchar *bytes, size_t length,
		  uchar *record)
{
	uchar present = format_of(layouts);

	if (!length || bytes[0] < FORMAT || bytes[0] > present)
		return HA_ERR_CRASHED_ON_USAGE;
	if (bytes[0] == present)
		return unpack_present(table, bytes + 1, bytes + length, record);
	const uchar *defaults = (const uchar *) layouts->defaults.data();
	size_t defaults_length = layouts->defaults.size();

	if (!defaults_length)
		return HA_ERR_CRASHED_ON_USAGE;
	int error = unpack_present(table, defaults + 1, defaults + defaults_length, record);

	return error ? error : unpack_old(table, layouts->old[bytes[0] - FORMAT], bytes + 1,
					  bytes + length, record);
}

} /* namespace iolane */
