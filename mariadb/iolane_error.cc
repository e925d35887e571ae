/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Codes of the store as the server knows them.
 */
#include "iolane_engine.h"
#include "log.h"

namespace iolane {

int error_of(int code, THD *thd)
{
	switch (code) {
	case IOLANE_STORE_ERROR_DUPLICATE:
		return HA_ERR_FOUND_DUPP_KEY;
	case IOLANE_STORE_ERROR_DEADLOCK:
	case IOLANE_STORE_ERROR_CONFLICT:
	case IOLANE_STORE_ERROR_ENDED:
		if (!thd)
			return HA_ERR_LOCK_DEADLOCK;
		thd->mark_transaction_to_rollback(true);
		/*
		 * Of a statement that is killed now, the server would say no more than that, and the
		 * client would go on with what is left of the transaction: nothing. The first error
		 * that is told counts.
		 */
		if (!thd->is_error())
			my_error(ER_LOCK_DEADLOCK, MYF(0));
		return HA_ERR_LOCK_DEADLOCK;
	case IOLANE_STORE_ERROR_LOCK_TIMEOUT:
	case IOLANE_STORE_ERROR_LOCKED:
		return HA_ERR_LOCK_WAIT_TIMEOUT;
	case IOLANE_STORE_ERROR_CANCELLED:
		return HA_ERR_ABORTED_BY_USER;
	case IOLANE_STORE_ERROR_TOO_MANY_LOCKS:
		return HA_ERR_LOCK_TABLE_FULL;
	case IOLANE_STORE_ERROR_TOO_MANY_WRITERS:
		return HA_ERR_TOO_MANY_CONCURRENT_TRXS;
	case IOLANE_STORE_ERROR_UNKNOWN_TABLE:
		return HA_ERR_NO_SUCH_TABLE;
	case IOLANE_STORE_ERROR_TABLE_EXISTS:
		return HA_ERR_TABLE_EXIST;
	case IOLANE_STORE_ERROR_TOO_LARGE:
	case IOLANE_STORE_ERROR_SCHEMA:
		return HA_ERR_TO_BIG_ROW;
	case IOLANE_STORE_ERROR_DAMAGED:
	case IOLANE_STORE_ERROR_UNFINISHED:
		return HA_ERR_CRASHED_ON_USAGE;
	case IOLANE_STORE_ERROR_UNKNOWN_SAVEPOINT:
		return HA_ERR_NO_SAVEPOINT;
	default:
		return HA_ERR_INTERNAL_ERROR;
	}
}

void log_failure(const char *what)
{
	sql_print_error("IOLANE: %s: %s", what, iolane_store_last_error());
}

} /* namespace iolane */
