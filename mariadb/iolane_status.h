/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the store tells of itself: status variables, SHOW ENGINE STATUS, and a table of
 * requests in INFORMATION_SCHEMA.
 */
#ifndef IOLANE_STATUS_H
#define IOLANE_STATUS_H

#include "iolane_engine.h"

struct st_mysql_show_var;

namespace iolane {

extern st_mysql_show_var status_variables[];

/* Fills in SHOW ENGINE IOLANE STATUS. */
void set_up_status(handlerton *hton);

/* INFORMATION_SCHEMA.IOLANE_IO. */
int initialize_io_table(void *schema_table);
extern st_mysql_information_schema io_table;

} /* namespace iolane */

#endif
