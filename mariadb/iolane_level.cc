/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Which statements are work that nobody waits for.
 */
#include "iolane_level.h"

#include <sstream>

namespace iolane {

BackgroundUsers background_users;

/* Names between commas, without blanks around them. */
static std::set<std::string> names_in(const char *list)
{
	std::set<std::string> names;
	std::istringstream stream(list ? list : "");
	std::string name;

	while (std::getline(stream, name, ',')) {
		size_t begin = name.find_first_not_of(" \t"), end = name.find_last_not_of(" \t");

		names.insert(begin == std::string::npos ? "" : name.substr(begin, end - begin + 1));
	}
	return names;
}

bool BackgroundUsers::check(const char *list)
{
	for (const std::string &name : names_in(list)) {
		const char *wrong = nullptr;

		if (name.empty())
			wrong = "a name is empty";
		else if (name.find('@') != std::string::npos)
			wrong = "names are without hosts";
		else if (my_numchars_mb(system_charset_info, name.data(), name.data() + name.size()) >
			 USERNAME_CHAR_LENGTH)
			wrong = "a name is too long";
		if (!wrong)
			continue;
		my_printf_error(ER_WRONG_VALUE_FOR_VAR,
				"iolane_background_users: %s; write 'backup_user, report_user'", MYF(0), wrong);
		return false;
	}
	return true;
}

void BackgroundUsers::set(const char *list)
{
	std::set<std::string> users = names_in(list);
	std::lock_guard<std::mutex> guard(mutex_);

	users_.swap(users);
	version_++;
}

bool BackgroundUsers::has(const char *user) const
{
	std::lock_guard<std::mutex> guard(mutex_);

	return users_.count(user) != 0;
}

bool UserLevel::is_background(THD *thd)
{
	uint64_t version = background_users.version();
	/* Who has logged in, whoever's rights a stored procedure has. */
	const char *user = thd->main_security_ctx.user;

	if (!user)
		return false;
	if (version != version_ || user_ != user) {
		user_ = user;
		is_background_ = background_users.has(user);
		version_ = version;
	}
	return is_background_;
}

/*
 * A whole table for a dump: SELECT SQL_NO_CACHE of all rows of one table, neither
 * grouped nor counted. So mariadb-dump, mysqldump and mydumper read; the former two say
 * it in a comment that is for servers of version 4.0.1 and later.
 */
static bool is_dump(THD *thd)
{
	LEX *lex = thd->lex;
	SELECT_LEX *select = lex->first_select_lex();
	const TABLE_LIST *tables = lex->query_tables;

	return lex->sql_cache == LEX::SQL_NO_CACHE && tables && !tables->next_global &&
	       !tables->is_view_or_derived() && !select->next_select() && !select->where &&
	       !select->limit_params.explicit_limit && !select->group_list.elements &&
	       !select->with_sum_func && !(select->options & SELECT_DISTINCT);
}

bool is_background_statement(THD *thd)
{
	switch (thd_sql_command(thd)) {
	case SQLCOM_ALTER_TABLE:
	case SQLCOM_CREATE_INDEX:
	case SQLCOM_DROP_INDEX:
	case SQLCOM_OPTIMIZE:
	case SQLCOM_CHECK:
	case SQLCOM_CHECKSUM:
		return true;
	case SQLCOM_SELECT:
		return is_dump(thd);
	default:
		return false;
	}
}

} /* namespace iolane */
