/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which statements are work that nobody waits for.
 */
#ifndef IOLANE_LEVEL_H
#define IOLANE_LEVEL_H

#include "iolane_engine.h"

#include <atomic>
#include <mutex>
#include <set>

namespace iolane {

/* Of the variable iolane_io_level. */
enum Level { LEVEL_AUTO, LEVEL_FOREGROUND, LEVEL_BACKGROUND };

/* Accounts all of whose statements are, as the variable iolane_background_users has them. */
class BackgroundUsers {
public:
	/* Whether it is a list of names; otherwise complains, as an error of the statement. */
	static bool check(const char *list);

	void set(const char *list);

	/* Grows whenever the list is set. */
	uint64_t version() const { return version_; }

	bool has(const char *user) const;

private:
	mutable std::mutex mutex_;
	std::set<std::string> users_;
	std::atomic<uint64_t> version_ = 1;
};

extern BackgroundUsers background_users;

/* Whether a connection's user is in the list: looked up again when either has changed. */
class UserLevel {
public:
	bool is_background(THD *thd);

private:
	uint64_t version_ = 0;
	/* A connection can become another user's. */
	std::string user_;
	bool is_background_ = false;
};

/*
 * Is the statement by itself work that nobody waits for: does it change or check whole
 * tables, or read one for a dump?
 */
bool is_background_statement(THD *thd);

} /* namespace iolane */

#endif
