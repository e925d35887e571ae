/* SPDX-License-Identifier: GPL-2.0 */
/*
 * For tests: makes a table look as if its keys were made by another rule.
 *
 *   key_format STORE PATH FORMAT
 *
 * No server may use the store. The row of the path in the table `dictionary` has its
 * format in the second byte of its flags, the last column.
 */
#include "iolane_store.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

static const size_t COLUMNS = 4;

static int set_format(iolane_store *store, const char *path, int64_t format)
{
	iolane_transaction *transaction = nullptr;
	iolane_row *row = nullptr;
	iolane_value key = {}, changed[COLUMNS];
	const iolane_value *values;
	size_t count = 0;
	int code = iolane_transaction_begin(store, IOLANE_READ_COMMITTED, 0, 1000, &transaction);

	key.kind = IOLANE_BLOB;
	key.bytes = path;
	key.length = strlen(path);
	if (code >= 0)
		code = iolane_row_new(&row);
	if (code >= 0)
		code = iolane_transaction_get(transaction, "dictionary", &key, 1, IOLANE_LOCK_EXCLUSIVE,
					      IOLANE_WAIT, row);
	if (code > 0)
		iolane_row_values(row, &values, &count);
	if (count == COLUMNS) {
		memcpy(changed, values, sizeof(changed));
		changed[COLUMNS - 1].integer = (changed[COLUMNS - 1].integer & 0xFF) | format << 8;
		code = iolane_transaction_update(transaction, "dictionary", changed, COLUMNS);
	}
	if (code > 0)
		code = iolane_transaction_commit(transaction, IOLANE_SYNCED);
	else
		iolane_transaction_rollback(transaction);
	iolane_row_free(row);
	return count == COLUMNS && code >= 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
	iolane_store_options options;
	iolane_store *store;

	if (argc != 4)
		return 1;
	iolane_store_options_init(&options);
	if (iolane_store_open(argv[1], &options, &store)) {
		fprintf(stderr, "%s\n", iolane_store_last_error());
		return 2;
	}
	int failed = set_format(store, argv[2], atoll(argv[3]));

	if (failed)
		fprintf(stderr, "%s\n", iolane_store_last_error());
	return iolane_store_close(store) || failed ? 3 : 0;
}
