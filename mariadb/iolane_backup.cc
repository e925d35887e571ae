/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A backup of all tables while they are in use, by a statement.
 *
 * It is a directory with a part of a server's data: the store, and of each database the
 * definitions of the engine's tables. While these are copied and the store's view is
 * opened no definition changes, which is a matter of moments; rows do, up to the view.
 * The view lies between two commits of the binary log, whose position is written down.
 */
#include "iolane_backup.h"
#include "iolane_definitions.h"
#include "iolane_dictionary.h"
#include "iolane_files.h"
#include "iolane_settings.h"

#include "log.h"
#include "mysqld.h"
#include "sql_acl.h"
#include "sql_parse.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace iolane {

/* Ending of its name until it is complete. */
static const char PART[] = ".part";
static const char INFO[] = "iolane_backup_info";

/* Pages of the copy in memory while it is made: rows go past them. */
static const uint64_t POOL_BYTES = 16 << 20;
/* As the processor's scheduler has it: a tenth of the share of others. */
static const int NICE = 10;

/* Files of a table's definition: the server's, partitions, triggers. */
static const char *const ENDINGS[] = { ".frm", ".par", ".TRG" };

/* The error of a file or directory. Returns 1. */
static int complain_of_file(const char *what, const std::string &path, int error)
{
	char text[MYSYS_STRERROR_SIZE];

	my_strerror(text, sizeof(text), error);
	my_printf_error(ER_CANT_CREATE_FILE, "iolane_backup: %s '%s': %s", MYF(0), what, path.c_str(), text);
	return 1;
}

/* The last failure of the store. Returns 1. */
static int complain_of_store(const char *text)
{
	my_printf_error(ER_GET_ERRMSG, "iolane_backup: %s", MYF(0), text);
	return 1;
}

/* Keeps definitions from being changed, and other backups of the server from beginning. */
class NoDefinitionChanges {
public:
	explicit NoDefinitionChanges(THD *thd) : thd_(thd) {}
	~NoDefinitionChanges() { end(); }

	bool begin()
	{
		MDL_REQUEST_INIT(&request_, MDL_key::BACKUP, "", "", MDL_BACKUP_BLOCK_DDL, MDL_EXPLICIT);
		return thd_->mdl_context.acquire_lock(&request_, (double) thd_->variables.lock_wait_timeout);
	}

	void end()
	{
		if (request_.ticket)
			thd_->mdl_context.release_lock(request_.ticket);
		request_.ticket = nullptr;
	}

private:
	THD *thd_;
	MDL_request request_ = {};
};

/* One backup. Functions return 0, or have complained. */
class ServerBackup {
public:
	ServerBackup(THD *thd, const char *path) : thd_(thd), path_(path)
	{
		while (path_.size() > 1 && path_.back() == '/')
			path_.pop_back();
		part_ = path_ + PART;
	}
	~ServerBackup()
	{
		iolane_backup_free(backup_);
		if (is_made_)
			remove_directory(part_);
	}

	int check();
	int run();

private:
	int check_place();
	int look();
	int copy_definitions();
	int copy_definition(const std::string &database, const std::string &table);
	int copy_triggers(const std::string &database, const std::set<std::string> &tables);
	int make_database(const std::string &database);
	int copy_rows();
	int forget_unfinished();
	int write_info();
	int finish();

	THD *thd_;
	std::string path_, part_;
	/* The directory is ours. */
	bool is_made_ = false;
	iolane_backup *backup_ = nullptr;
	std::set<std::string> databases_;
	/* Tables of statements that have not ended: nobody knows them afterwards. */
	std::vector<std::string> unfinished_;
	/* Whether rows are copied of which the server has no definition. */
	bool has_undefined_ = false;
	std::string log_file_;
	uint64_t log_position_ = 0;
	uint64_t rows_ = 0;
};

static bool exists(const std::string &path)
{
	struct stat found;

	return !lstat(path.c_str(), &found);
}

int ServerBackup::check_place()
{
	char above[FN_REFLEN], data[FN_REFLEN];
	std::string parent = path_.substr(0, path_.rfind('/') + 1);

	if (my_realpath(above, parent.c_str(), 0) || my_realpath(data, data_folder().c_str(), 0))
		return complain_of_file("cannot use the directory", parent, my_errno);
	if (!is_secure_file_path((char *) path_.c_str())) {
		my_error(ER_OPTION_PREVENTS_STATEMENT, MYF(0), "--secure-file-priv");
		return 1;
	}
	if (exists(path_) || exists(part_)) {
		const char *remedy = exists(path_) ? "name a directory that does not exist yet" :
				     "another backup makes it, or a crash has left it: then remove it";

		my_printf_error(ER_FILE_EXISTS_ERROR, "iolane_backup: '%s' exists; %s", MYF(0),
				(exists(path_) ? path_ : part_).c_str(), remedy);
		return 1;
	}
	/* There it would be a database. */
	if (!strncmp(above, data, strlen(data)) && (above[strlen(data)] == '/' || !above[strlen(data)])) {
		my_printf_error(ER_WRONG_VALUE_FOR_VAR,
				"iolane_backup: '%s' is in the server's data directory; name one outside", MYF(0),
				path_.c_str());
		return 1;
	}
	return 0;
}

int ServerBackup::check()
{
	if (path_.empty() || path_[0] != '/' || path_.size() + sizeof(PART) >= FN_REFLEN) {
		my_printf_error(ER_WRONG_VALUE_FOR_VAR,
				"iolane_backup: '%s' is no absolute path of a new directory", MYF(0), path_.c_str());
		return 1;
	}
	return check_global_access(thd_, FILE_ACL) || check_place();
}

/* Opens the view, between two commits of the binary log. */
int ServerBackup::look()
{
	mysql_mutex_lock(&LOCK_commit_ordered);
	int code = iolane_backup_open_view(backup_);

	if (mysql_bin_log.is_open()) {
		log_file_ = mysql_bin_log.last_commit_pos_file;
		log_position_ = mysql_bin_log.last_commit_pos_offset;
	}
	mysql_mutex_unlock(&LOCK_commit_ordered);
	return code ? complain_of_store(iolane_store_last_error()) : 0;
}

int ServerBackup::make_database(const std::string &database)
{
	bool found;

	if (!databases_.insert(database).second)
		return 0;
	int error = make_directory(part_ + "/" + database);

	if (!error)
		error = copy_file(data_folder() + database + "/db.opt", part_ + "/" + database + "/db.opt", &found);
	return error ? complain_of_file("the definition of a database cannot be copied to", part_, error) : 0;
}

int ServerBackup::copy_definition(const std::string &database, const std::string &table)
{
	std::string name = database + "/" + table;
	bool found, has_definition = false;

	for (const char *ending : ENDINGS) {
		std::string from = data_folder() + name + ending;
		int error = copy_file(from, part_ + "/" + name + ending, &found);

		if (error)
			return complain_of_file("a definition cannot be copied to", part_ + "/" + name, error);
		has_definition |= found;
	}
	if (!has_definition)
		return complain_of_file("there is no definition", data_folder() + name + ENDINGS[0], ENOENT);
	return 0;
}

/* The file of a trigger says which table it is of. */
int ServerBackup::copy_triggers(const std::string &database, const std::set<std::string> &tables)
{
	static const std::string ENDING = ".TRN", KEY = "trigger_table=";
	std::vector<std::string> names;
	int error = list_directory(data_folder() + database, &names);

	for (const std::string &name : names) {
		std::string text;

		if (error)
			break;
		if (name.size() <= ENDING.size() || name.compare(name.size() - ENDING.size(), ENDING.size(), ENDING))
			continue;
		error = read_file(data_folder() + database + "/" + name, &text);
		size_t begin = text.find(KEY);

		if (error || begin == std::string::npos)
			continue;
		begin += KEY.size();
		std::string of = text.substr(begin, text.find('\n', begin) - begin);
		char file[FN_REFLEN];

		tablename_to_filename(of.c_str(), file, sizeof(file));
		if (tables.count(file))
			error = write_file(part_ + "/" + database + "/" + name, text);
	}
	return error ? complain_of_file("the triggers cannot be copied of", data_folder() + database, error) : 0;
}

/* Of all tables that have a name. What a crash has left without a definition is so in the copy, too. */
int ServerBackup::copy_definitions()
{
	std::map<std::string, std::set<std::string>> tables;
	std::set<std::string> listed;
	std::string last;

	for (const std::string &path : dictionary.lasting_paths()) {
		/* `#mysql50#t#P#p` is a table's name, too. */
		std::string table = definitions::has_frm(path) ? path : definitions::table_of(path);
		size_t slash = table.find('/');

		if (table != last) {
			listed = definitions::partitions_of(table);
			last = table;
		}
		/* A partition that its table does not have is of a statement that changes them. */
		if (definitions::is_of_statement(path) ||
		    (table != path && !listed.empty() && !listed.count(definitions::partition_of(path)))) {
			unfinished_.push_back(path);
		} else if (definitions::has_frm(table) || definitions::has_par(table)) {
			tables[table.substr(0, slash)].insert(table.substr(slash + 1));
			has_undefined_ |= !definitions::has_frm(table);
		} else {
			has_undefined_ = true;
		}
	}
	for (const auto &[database, names] : tables) {
		if (make_database(database))
			return 1;
		for (const std::string &name : names)
			if (copy_definition(database, name))
				return 1;
		if (copy_triggers(database, names))
			return 1;
		int error = sync_directory(part_ + "/" + database);

		if (error)
			return complain_of_file("cannot be made durable:", part_, error);
	}
	return 0;
}

static int goes_on(void *thd)
{
	return thd_kill_level((const THD *) thd) == THD_IS_NOT_KILLED;
}

/* By a thread of its own: what stands back for the disk does so for the processor. */
int ServerBackup::copy_rows()
{
	std::string target = part_ + "/" + FOLDER, failure;
	iolane_store_options options;
	int code = 0;

	fill_options(&options);
	options.page_bytes = 0;
	options.pool_bytes = POOL_BYTES;
	std::thread copying([&] {
		setpriority(PRIO_PROCESS, (id_t) syscall(SYS_gettid), NICE);
		code = iolane_backup_copy(backup_, target.c_str(), &options, goes_on, thd_, &rows_);
		failure = code ? iolane_store_last_error() : "";
	});

	copying.join();
	if (code == IOLANE_STORE_ERROR_STOPPED) {
		thd_->send_kill_message();
		return 1;
	}
	return code ? complain_of_store(failure.c_str()) : 0;
}

/* Nothing leads to the tables of statements that had not ended: the server drops them. */
int ServerBackup::forget_unfinished()
{
	std::string target = part_ + "/" + FOLDER;
	iolane_store_options options;
	iolane_store *copy = nullptr;

	if (unfinished_.empty())
		return 0;
	fill_options(&options);
	options.pool_bytes = POOL_BYTES;
	int code = iolane_store_open(target.c_str(), &options, &copy);

	if (!code)
		code = dictionary_rows::forget(copy, unfinished_);
	std::string failure = code ? iolane_store_last_error() : "";
	int closed = iolane_store_close(copy);

	if (!code && closed)
		failure = iolane_store_last_error();
	return code || closed ? complain_of_store(failure.c_str()) : 0;
}

int ServerBackup::write_info()
{
	std::string text = "server_version=" + std::string(server_version) + "\nrows=" + std::to_string(rows_) + "\n";

	if (!log_file_.empty())
		text += "binlog_file=" + log_file_.substr(log_file_.rfind('/') + 1) +
			"\nbinlog_position=" + std::to_string(log_position_) + "\n";
	int error = write_file(part_ + "/" + INFO, text);

	return error ? complain_of_file("cannot be written in", part_, error) : 0;
}

/* From here on it has its name. */
int ServerBackup::finish()
{
	int error = sync_directory(part_);

	if (!error && rename(part_.c_str(), path_.c_str()))
		error = errno;
	if (error)
		return complain_of_file("cannot be completed:", path_, error);
	is_made_ = false;
	error = sync_directory(path_.substr(0, path_.rfind('/') + 1));
	return error ? complain_of_file("cannot be made durable:", path_, error) : 0;
}

int ServerBackup::run()
{
	NoDefinitionChanges definitions(thd_);
	int error = make_directory(part_);

	if (error)
		return complain_of_file("cannot make the directory", part_, error);
	is_made_ = true;
	if (iolane_backup_begin(store, &backup_))
		return complain_of_store(iolane_store_last_error());
	if (definitions.begin() || look() || copy_definitions())
		return 1;
	definitions.end();
	if (copy_rows() || forget_unfinished() || write_info() || finish())
		return 1;
	if (has_undefined_)
		push_warning(thd_, Sql_condition::WARN_LEVEL_WARN, ER_GET_ERRMSG,
			     "iolane_backup: the server lacks definitions of tables, whose rows are in the backup, too; "
			     "its log names them when it starts");
	return 0;
}

int back_up(THD *thd, const char *path)
{
	ServerBackup backup(thd, path);
	const char *before = thd_proc_info(thd, "Backing up tables of IOLANE");
	int failed = backup.check() || backup.run();

	thd_proc_info(thd, before);
	return failed;
}

} /* namespace iolane */
