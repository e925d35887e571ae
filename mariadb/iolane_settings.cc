/* SPDX-License-Identifier: GPL-2.0 */
/*
 * System variables: as InnoDB's users know them, where there is such a one.
 */
#include "iolane_settings.h"
#include "iolane_backup.h"

namespace iolane {

ulong flush_log_at_trx_commit;

/* Connections that write at a time, and prepared transactions; others wait. */
static const uint32_t WRITERS_MAX = 1024;

static unsigned long long buffer_pool_size;
static unsigned long long log_file_size;
static unsigned int open_files;
static char use_direct_io;
static char read_ahead;
static char buffer_pool_load_at_startup;
static unsigned int page_size;

static char *background_user_list;
static char *backup_path;

/* As enum Level. */
static const char *level_names[] = { "AUTO", "FOREGROUND", "BACKGROUND", nullptr };
static TYPELIB levels = { 3, "iolane_io_level", level_names, nullptr };

static MYSQL_SYSVAR_ULONGLONG(buffer_pool_size, buffer_pool_size,
	PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
	"Bytes of pages that are kept in memory",
	nullptr, nullptr, 128ULL << 20, 16ULL << 20, ULONGLONG_MAX, 1 << 20);

static MYSQL_SYSVAR_BOOL(buffer_pool_load_at_startup, buffer_pool_load_at_startup, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
	"Whether the pages that are in memory when the server ends are read again when it starts, behind all that statements wait for",
	nullptr, nullptr, 1);

static MYSQL_SYSVAR_ULONGLONG(log_file_size, log_file_size,
	PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
	"Bytes of the redo log, when the store is made",
	nullptr, nullptr, 96ULL << 20, 8ULL << 20, ULONGLONG_MAX, 1 << 20);

static MYSQL_SYSVAR_UINT(page_size, page_size, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
	"Bytes of a page, when the store is made: a power of two",
	nullptr, nullptr, 16 << 10, 4 << 10, 64 << 10, 4 << 10);

static MYSQL_SYSVAR_UINT(open_files, open_files, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
	"Files of tables that are kept open",
	nullptr, nullptr, 256, 2, 1 << 20, 0);

static MYSQL_SYSVAR_BOOL(use_direct_io, use_direct_io, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
	"Whether files of tables are read and written past the page cache",
	nullptr, nullptr, 1);

static MYSQL_SYSVAR_BOOL(read_ahead, read_ahead, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
	"Whether pages that a scan or an index will come to are read ahead",
	nullptr, nullptr, 1);

static MYSQL_SYSVAR_ULONG(flush_log_at_trx_commit, flush_log_at_trx_commit, PLUGIN_VAR_RQCMDARG,
	"When a commit is acknowledged: 1, it is on the disk; 2, it is in the log's file; "
	"0, at once; on the disk about a second later",
	nullptr, nullptr, IOLANE_SYNCED, 0, 2, 0);

static MYSQL_THDVAR_ULONG(lock_wait_timeout, PLUGIN_VAR_RQCMDARG,
	"Seconds that a statement waits for a row that another transaction has locked",
	nullptr, nullptr, 50, 0, 100000000, 0);

static MYSQL_THDVAR_ENUM(io_level, PLUGIN_VAR_RQCMDARG,
	"Of statements: FOREGROUND, or BACKGROUND for those that nobody waits for: their pages are read and written behind all others. "
	"AUTO: BACKGROUND for users in iolane_background_users, for what changes or checks whole tables, and for dumps",
	nullptr, nullptr, LEVEL_AUTO, &levels);

/* The text of a variable's new value, in memory of the statement; nullptr for none. */
static const char *new_text(MYSQL_THD thd, st_mysql_value *value)
{
	char buffer[STRING_BUFFER_USUAL_SIZE];
	int length = sizeof(buffer);
	const char *text = value->val_str(value, buffer, &length);

	return text ? thd_strmake(thd, text, (size_t) length) : nullptr;
}

static int check_background_users(MYSQL_THD thd, st_mysql_sys_var *, void *save, st_mysql_value *value)
{
	const char *list = new_text(thd, value);

	*(const char **) save = list;
	return list && BackgroundUsers::check(list) ? 0 : 1;
}

static void set_background_users(MYSQL_THD, st_mysql_sys_var *, void *place, const void *save)
{
	const char *list = *(const char *const *) save;

	my_free(*(char **) place);
	*(char **) place = my_strdup(PSI_NOT_INSTRUMENTED, list ? list : "", MYF(MY_WME));
	background_users.set(list);
}

static MYSQL_SYSVAR_STR(background_users, background_user_list, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_MEMALLOC,
	"Users whose statements nobody waits for, as 'backup_user, report_user': they are BACKGROUND where iolane_io_level is AUTO",
	check_background_users, set_background_users, "");

/* The statement makes the backup before it sets the variable: so it can fail. */
static int check_backup(MYSQL_THD thd, st_mysql_sys_var *, void *save, st_mysql_value *value)
{
	const char *path = new_text(thd, value);

	*(const char **) save = path;
	return path && !back_up(thd, path) ? 0 : 1;
}

static MYSQL_SYSVAR_STR(backup, backup_path, PLUGIN_VAR_NOCMDOPT | PLUGIN_VAR_MEMALLOC,
	"Setting it copies all tables, as they are at one moment, to this new directory; it shows the last one that was made",
	check_backup, nullptr, nullptr);

st_mysql_sys_var *system_variables[] = {
	MYSQL_SYSVAR(buffer_pool_size),
	MYSQL_SYSVAR(buffer_pool_load_at_startup),
	MYSQL_SYSVAR(log_file_size),
	MYSQL_SYSVAR(page_size),
	MYSQL_SYSVAR(open_files),
	MYSQL_SYSVAR(use_direct_io),
	MYSQL_SYSVAR(read_ahead),
	MYSQL_SYSVAR(flush_log_at_trx_commit),
	MYSQL_SYSVAR(lock_wait_timeout),
	MYSQL_SYSVAR(io_level),
	MYSQL_SYSVAR(background_users),
	MYSQL_SYSVAR(backup),
	nullptr
};

bool is_background(THD *thd, UserLevel *user)
{
	switch (THDVAR(thd, io_level)) {
	case LEVEL_FOREGROUND:
		return false;
	case LEVEL_BACKGROUND:
		return true;
	default:
		return user->is_background(thd) || is_background_statement(thd);
	}
}

bool use_settings()
{
	if (!BackgroundUsers::check(background_user_list))
		return false;
	background_users.set(background_user_list);
	return true;
}

uint64_t lock_wait_timeout_ms(THD *thd)
{
	/* NOWAIT and WAIT set the server's own. */
	uint64_t seconds = std::min<uint64_t>(THDVAR(thd, lock_wait_timeout),
					      (uint64_t) thd->variables.lock_wait_timeout);

	return seconds * 1000;
}

void fill_options(iolane_store_options *options)
{
	iolane_store_options_init(options);
	options->page_bytes = page_size;
	options->pool_bytes = buffer_pool_size;
	options->log_bytes = log_file_size;
	options->files_max = open_files;
	options->direct = use_direct_io;
	options->writers_max = WRITERS_MAX;
	options->read_ahead = read_ahead;
	options->preload = buffer_pool_load_at_startup;
}

} /* namespace iolane */
