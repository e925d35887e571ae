/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Waits of connections for rows of each other: KILL ends them, and the server is told of
 * them. A replica that applies transactions in parallel rolls back a later one that an
 * earlier one waits for.
 *
 * The store knows connections by numbers. Latches of the store may be held while the
 * mutex is taken, and not the reverse.
 */
#include "iolane_waits.h"

#include <map>
#include <mutex>

/* The server's, in none of its headers. */
extern "C" int thd_rpl_deadlock_check(MYSQL_THD thd, MYSQL_THD other_thd);
extern "C" int thd_need_wait_reports(const MYSQL_THD thd);

namespace iolane {

static std::mutex mutex;
static std::map<uint64_t, THD *> connections;
static std::map<const THD *, uint64_t> numbers;
/* 0 is nobody's. */
static uint64_t next_number = 1;

uint64_t note_connection(THD *thd)
{
	std::lock_guard<std::mutex> guard(mutex);
	uint64_t number = next_number++;

	connections[number] = thd;
	numbers[thd] = number;
	return number;
}

void forget_connection(uint64_t number)
{
	std::lock_guard<std::mutex> guard(mutex);
	auto found = connections.find(number);

	if (found == connections.end())
		return;
	numbers.erase(found->second);
	connections.erase(found);
}

void kill_query(handlerton *, THD *thd, enum thd_kill_levels)
{
	uint64_t number;

	{
		std::lock_guard<std::mutex> guard(mutex);
		auto found = numbers.find(thd);

		if (found == numbers.end())
			return;
		number = found->second;
	}
	iolane_store_cancel_wait(store, number);
}

/* `waiter` is going to wait for `blocker`; not where it was killed just before. */
static int32_t note_wait(void *, uint64_t waiter, uint64_t blocker)
{
	std::lock_guard<std::mutex> guard(mutex);
	auto who = connections.find(waiter), whom = connections.find(blocker);

	if (who == connections.end())
		return 0;
	if (whom != connections.end() && thd_need_wait_reports(who->second))
		thd_rpl_deadlock_check(who->second, whom->second);
	return who->second->killed != NOT_KILLED;
}

int observe_waits()
{
	return iolane_store_observe_waits(store, note_wait, nullptr);
}

} /* namespace iolane */
