/* SPDX-License-Identifier: GPL-2.0 */
/*
 * System variables.
 */
#ifndef IOLANE_SETTINGS_H
#define IOLANE_SETTINGS_H

#include "iolane_engine.h"
#include "iolane_level.h"

struct st_mysql_sys_var;

namespace iolane {

/* As enum iolane_durability. */
extern ulong flush_log_at_trx_commit;

/*
 * Is what the statement does work that nobody waits for? What the session says of its
 * level is so; otherwise its user, or the statement, decides.
 */
bool is_background(THD *thd, UserLevel *user);

/* Takes over what the server was started with; false if something cannot be. */
bool use_settings();

/* How long it waits for a row; 0 with NOWAIT. */
uint64_t lock_wait_timeout_ms(THD *thd);

/* What the store is opened with. */
void fill_options(iolane_store_options *options);

extern st_mysql_sys_var *system_variables[];

} /* namespace iolane */

#endif
