/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Rows as the store keeps them: a byte with the format, the record's bytes for NULL and
 * bits, then the fields that are not NULL, as replication packs them. Columns that the
 * server computes when it reads are left out.
 */
#include "iolane_record.h"

namespace iolane {

static const uchar FORMAT = 1;

/* More than any field adds to what it holds. */
static const size_t FIELD_HEAD_BYTES_MAX = 8;

void pack_record(TABLE *table, const uchar *record, std::string *out)
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
	uchar *to = begin;

	*to++ = FORMAT;
	memcpy(to, record, table->s->null_bytes);
	to += table->s->null_bytes;
	for (Field **each = table->field; *each; each++) {
		Field *field = *each;

		if (!field->stored_in_db() || field->is_null_in_record(record))
			continue;
		to = field->pack(to, record + field->offset(table->record[0]), UINT_MAX32);
	}
	out->resize((size_t) (to - begin));
}

int unpack_record(TABLE *table, const uchar *bytes, size_t length, uchar *record)
{
	const uchar *from = bytes, *end = bytes + length;
	my_ptrdiff_t moved = record - table->record[0];

	if (length < 1 + table->s->null_bytes || *from++ != FORMAT)
		return HA_ERR_CRASHED_ON_USAGE;
	memcpy(record, from, table->s->null_bytes);
	from += table->s->null_bytes;
	for (Field **each = table->field; *each; each++) {
		Field *field = *each;

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

} /* namespace iolane */
