/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waits of connections for rows of each other.
 */
#ifndef IOLANE_WAITS_H
#define IOLANE_WAITS_H

#include "iolane_engine.h"

namespace iolane {

/* The number of a connection for the store, until forget_connection(). */
uint64_t note_connection(THD *thd);
void forget_connection(uint64_t number);

/* Ends the wait of a connection, as handlerton::kill_query. */
void kill_query(handlerton *hton, THD *thd, enum thd_kill_levels level);

/* Has the store tell of waits; returns a code of the store. */
int observe_waits();

} /* namespace iolane */

#endif
