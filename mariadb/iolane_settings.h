/* SPDX-License-Identifier: GPL-2.0 */
/*
 * System variables.
 */
#ifndef IOLANE_SETTINGS_H
#define IOLANE_SETTINGS_H

#include "iolane_engine.h"

struct st_mysql_sys_var;

namespace iolane {

/* As enum iolane_durability. */
extern ulong flush_log_at_trx_commit;

/*
 * Is what this connection does work that nobody waits for: by its setting, or as it
 * changes or checks whole tables?
 */
bool is_background(THD *thd);

/* How long it waits for a row; 0 with NOWAIT. */
uint64_t lock_wait_timeout_ms(THD *thd);

/* What the store is opened with. */
void fill_options(iolane_store_options *options);

extern st_mysql_sys_var *system_variables[];

} /* namespace iolane */

#endif
