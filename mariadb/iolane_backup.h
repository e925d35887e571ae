/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A backup of all tables while they are in use, by a statement.
 */
#ifndef IOLANE_BACKUP_H
#define IOLANE_BACKUP_H

#include "iolane_engine.h"

namespace iolane {

/*
 * Copies all tables, as they are at one moment, and their definitions to a new directory,
 * as a part of a server's data. Returns 0; otherwise it has complained, as an error of
 * the statement, and nothing is left of the copy.
 */
int back_up(THD *thd, const char *path);

} /* namespace iolane */

#endif
