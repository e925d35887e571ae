/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The plugin: opens the store when it is loaded, and tells the server what it can do.
 */
#include "ha_iolane.h"
#include "iolane_definitions.h"
#include "iolane_settings.h"
#include "iolane_status.h"
#include "iolane_waits.h"

#include <sys/stat.h>

/* The server's, in none of its headers. */
void ignore_db_dirs_append(const char *dirname_arg);

namespace iolane {

iolane_store *store;
handlerton *hton;

static handler *create_handler(handlerton *hton, TABLE_SHARE *share, MEM_ROOT *memory)
{
	return new (memory) ha_iolane(hton, share);
}

/* After a crash: whether the table of a path is another one than that of this version. */
static int check_version(handlerton *, const char *path, const LEX_CUSTRING *, ulonglong version)
{
	return dictionary.version_of(path) > version ? 0 : 1;
}

/*
 * Where the server has no handler of the table: in its recovery, and by DROP TABLE without a
 * definition, which is for what such a statement, or a crash, has left.
 */
static int drop_table(handlerton *, const char *path)
{
	THD *thd = current_thd;

	/* As `#mysql50#t#P#p` it would go from below its table. */
	if (thd && thd_sql_command(thd) == SQLCOM_DROP_TABLE && definitions::may_be_listed(Dictionary::key_of(path)))
		return HA_ERR_NO_SUCH_TABLE;
	int error = drop_table(thd, path);

	return error == HA_ERR_NO_SUCH_TABLE ? dictionary.drop_undefined(path) : error;
}

std::string data_folder()
{
	std::string path = mysql_real_data_home_ptr;

	if (!path.empty() && path.back() != '/')
		path += '/';
	return path;
}

static int open_store()
{
	iolane_store_options options;
	std::string path = data_folder() + FOLDER;
	struct stat found;

	fill_options(&options);
	if (!stat((path + "/redo.log").c_str(), &found))
		return iolane_store_open(path.c_str(), &options, &store);
	return iolane_store_create(path.c_str(), &options, &store);
}

static int initialize(void *place)
{
	hton = (handlerton *) place;
	ignore_db_dirs_append(FOLDER);
	if (!use_settings())
		return 1;
	if (open_store()) {
		log_failure("the store cannot be opened");
		return 1;
	}
	if (observe_waits() || dictionary.load()) {
		log_failure("the dictionary cannot be read");
		iolane_store_close(store);
		return 1;
	}
	hton->create = create_handler;
	hton->drop_table = drop_table;
	hton->check_version = check_version;
	set_up_transactions(hton);
	set_up_status(hton);
	return 0;
}

static int finish(void *)
{
	if (iolane_store_close(store)) {
		log_failure("the store cannot be closed");
		return 1;
	}
	store = nullptr;
	return 0;
}

} /* namespace iolane */

static st_mysql_storage_engine engine = { MYSQL_HANDLERTON_INTERFACE_VERSION };

maria_declare_plugin(iolane)
{
	MYSQL_STORAGE_ENGINE_PLUGIN,
	&engine,
	"IOLANE",
	"the iolane project",
	"Transactions, row locks, and a priority for each I/O request",
	PLUGIN_LICENSE_GPL,
	iolane::initialize,
	iolane::finish,
	0x0002,
	iolane::status_variables,
	iolane::system_variables,
	"0.2",
	MariaDB_PLUGIN_MATURITY_EXPERIMENTAL
},
{
	MYSQL_INFORMATION_SCHEMA_PLUGIN,
	&iolane::io_table,
	"IOLANE_IO",
	"the iolane project",
	"Requests to the disk by role and level",
	PLUGIN_LICENSE_GPL,
	iolane::initialize_io_table,
	nullptr,
	0x0002,
	nullptr,
	nullptr,
	"0.2",
	MariaDB_PLUGIN_MATURITY_EXPERIMENTAL
}
maria_declare_plugin_end;
