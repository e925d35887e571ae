/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What the store tells of itself: status variables, SHOW ENGINE STATUS, and a table of
 * requests in INFORMATION_SCHEMA.
 */
#include "iolane_status.h"
#include "sql_parse.h"
#include "sql_show.h"
#include "sql_i_s.h"

#include <vector>

namespace iolane {

/* Roles, levels and kinds of requests: more than there are of them together. */
static const size_t LEDGER_LINES_MAX = 256;

/* Read by SHOW STATUS; filled before by show_status_variables(). */
static iolane_store_statistics counts;

#define COUNT(name, field) { name, (char *) &counts.field, SHOW_ULONGLONG }

static st_mysql_show_var variables[] = {
	COUNT("buffer_pool_read_requests", pool_hits),
	COUNT("buffer_pool_reads", pool_misses),
	COUNT("buffer_pool_read_ahead", pool_prefetches),
	COUNT("buffer_pool_read_ahead_evicted", pool_prefetches_wasted),
	COUNT("buffer_pool_pages_total", pool_frames),
	COUNT("buffer_pool_pages_free", pool_free),
	COUNT("buffer_pool_pages_dirty", pool_dirty),
	COUNT("buffer_pool_wait_free", frame_waits),
	COUNT("pages_read", pool_reads),
	COUNT("pages_written", pages_written),
	COUNT("data_fsyncs", syncs),
	COUNT("checkpoints", checkpoints),
	COUNT("lsn_current", log_end),
	COUNT("lsn_last_checkpoint", log_checkpoint),
	COUNT("log_waits", log_waits),
	COUNT("transactions_committed", committed),
	COUNT("transactions_rolled_back", rolled_back),
	COUNT("transactions_writing", writing),
	COUNT("deadlocks", deadlocks),
	COUNT("row_locks_held", locks),
	COUNT("read_views_open", views),
	COUNT("history_list_length", unpurged),
	COUNT("history_bytes", unpurged_bytes),
	{ "device", counts.device_name, SHOW_CHAR },
	COUNT("device_window", window_transfers),
	COUNT("device_latency_ns", window_service_ns),
	COUNT("device_requests_per_second_max", rate_limit_transfers),
	COUNT("device_bytes_per_second_max", rate_limit_bytes),
	COUNT("device_unflushed_max", unflushed_max),
	{ nullptr, nullptr, SHOW_ULONG }
};

static int show_status_variables(MYSQL_THD, st_mysql_show_var *var, void *, system_status_var *,
				 enum_var_type)
{
	if (store)
		iolane_store_get_statistics(store, &counts);
	var->type = SHOW_ARRAY;
	var->value = (char *) variables;
	return 0;
}

st_mysql_show_var status_variables[] = {
	{ "Iolane", (char *) show_status_variables, SHOW_FUNC },
	{ nullptr, nullptr, SHOW_ULONG }
};

/* The lines of the ledger. */
static std::vector<iolane_ledger_line> read_ledger()
{
	std::vector<iolane_ledger_line> lines(LEDGER_LINES_MAX);
	size_t count = 0;

	if (!store || iolane_store_ledger(store, lines.data(), lines.size(), &count))
		count = 0;
	lines.resize(std::min(count, lines.size()));
	return lines;
}

__attribute__((format(printf, 2, 3)))
static void append(std::string *text, const char *format, ...)
{
	char line[256];
	va_list values;

	va_start(values, format);
	vsnprintf(line, sizeof(line), format, values);
	va_end(values);
	*text += line;
}

static void append_last_deadlock(std::string *text)
{
	Row row;
	uint64_t seconds;
	size_t count = 0;

	if (iolane_store_last_deadlock(store, &seconds, row.get()))
		return;
	const iolane_value *values = row.values(&count);

	if (!count)
		return;
	char when[32];
	time_t at = (time_t) seconds;
	struct tm broken;

	strftime(when, sizeof(when), "%F %T", localtime_r(&at, &broken));
	append(text, "\nLAST DEADLOCK\n%s: ", when);
	text->append((const char *) values[0].bytes, values[0].length);
	text->push_back('\n');
}

/* What the scheduler has learned of the disk, on one line. */
static void append_device(std::string *text, const iolane_store_statistics &now)
{
	const char *each = now.rate_limit_each ? " of reads, and as much of writes" : "";

	append(text, "\nDEVICE\n%s: learned window %llu in flight, latency at least %.1f us, ", now.device_name,
	       (ulonglong) now.window_transfers, (double) now.window_service_ns / 1e3);
	if (now.rate_limit_transfers)
		append(text, "limit %llu requests/s%s", (ulonglong) now.rate_limit_transfers, each);
	else if (now.rate_limit_bytes)
		append(text, "limit %.1f MB/s%s", (double) now.rate_limit_bytes / 1e6, each);
	else
		*text += "no rate limit";
	if (now.unflushed_max)
		append(text, ", %llu writes between flushes", (ulonglong) now.unflushed_max);
	text->push_back('\n');
}

static bool show_status(handlerton *, THD *thd, stat_print_fn *print, enum ha_stat_type type)
{
	iolane_store_statistics now;
	std::string text;

	if (type != HA_ENGINE_STATUS)
		return false;
	if (iolane_store_get_statistics(store, &now))
		return true;
	append(&text, "TRANSACTIONS\n%llu committed, %llu rolled back, %llu deadlocks\n",
	       (ulonglong) now.committed, (ulonglong) now.rolled_back, (ulonglong) now.deadlocks);
	append(&text, "%llu write, %llu read views open, %llu rows locked\n", (ulonglong) now.writing,
	       (ulonglong) now.views, (ulonglong) now.locks);
	append(&text, "%llu ended and not purged, %llu bytes of undo\n", (ulonglong) now.unpurged,
	       (ulonglong) now.unpurged_bytes);
	append_last_deadlock(&text);
	append(&text, "\nLOG\nend %llu, checkpoint %llu, %llu bytes between; %llu waits for room\n",
	       (ulonglong) now.log_end, (ulonglong) now.log_checkpoint,
	       (ulonglong) (now.log_end - now.log_checkpoint), (ulonglong) now.log_waits);
	append(&text, "\nBUFFER POOL\n%llu pages, %llu free, %llu changed; %llu waits for a free one\n",
	       (ulonglong) now.pool_frames, (ulonglong) now.pool_free, (ulonglong) now.pool_dirty,
	       (ulonglong) now.frame_waits);
	append(&text, "%llu found, %llu waited for; %llu read, %llu of them ahead, %llu in vain; %llu written\n",
	       (ulonglong) now.pool_hits, (ulonglong) now.pool_misses, (ulonglong) now.pool_reads,
	       (ulonglong) now.pool_prefetches, (ulonglong) now.pool_prefetches_wasted,
	       (ulonglong) now.pages_written);
	append_device(&text, now);
	text += "\nREQUESTS\nrole        level       kind    requests           bytes  queued us  device us     p99 us\n";
	for (const iolane_ledger_line &line : read_ledger())
		append(&text, "%-11s %-11s %-5s %10llu %15llu %10.1f %10.1f %10.1f\n", line.role, line.level,
		       line.kind, (ulonglong) line.requests, (ulonglong) line.bytes,
		       (double) line.queued_ns / 1e3, (double) line.device_ns / 1e3,
		       (double) line.device_p99_ns / 1e3);
	return print(thd, "IOLANE", 6, "", 0, text.data(), (uint) text.size());
}

void set_up_status(handlerton *hton)
{
	hton->show_status = show_status;
}

enum {
	IO_ROLE, IO_LEVEL, IO_KIND, IO_REQUESTS, IO_BYTES, IO_ERRORS, IO_QUEUED, IO_DEVICE, IO_DEVICE_P99
};

static ST_FIELD_INFO io_fields[] = {
	Show::Column("ROLE", Show::Varchar(16), NOT_NULL),
	Show::Column("LEVEL", Show::Varchar(16), NOT_NULL),
	Show::Column("KIND", Show::Varchar(16), NOT_NULL),
	Show::Column("REQUESTS", Show::ULonglong(), NOT_NULL),
	Show::Column("BYTES", Show::ULonglong(), NOT_NULL),
	Show::Column("ERRORS", Show::ULonglong(), NOT_NULL),
	Show::Column("QUEUED_NS", Show::ULonglong(), NOT_NULL),
	Show::Column("DEVICE_NS", Show::ULonglong(), NOT_NULL),
	Show::Column("DEVICE_P99_NS", Show::ULonglong(), NOT_NULL),
	Show::CEnd()
};

static int fill_io_table(THD *thd, TABLE_LIST *tables, COND *)
{
	TABLE *table = tables->table;

	/* It tells of everybody's work. */
	if (check_global_access(thd, PROCESS_ACL, true))
		return 0;
	for (const iolane_ledger_line &line : read_ledger()) {
		Field **field = table->field;

		restore_record(table, s->default_values);
		field[IO_ROLE]->store(line.role, strlen(line.role), system_charset_info);
		field[IO_LEVEL]->store(line.level, strlen(line.level), system_charset_info);
		field[IO_KIND]->store(line.kind, strlen(line.kind), system_charset_info);
		field[IO_REQUESTS]->store((longlong) line.requests, true);
		field[IO_BYTES]->store((longlong) line.bytes, true);
		field[IO_ERRORS]->store((longlong) line.errors, true);
		field[IO_QUEUED]->store((longlong) line.queued_ns, true);
		field[IO_DEVICE]->store((longlong) line.device_ns, true);
		field[IO_DEVICE_P99]->store((longlong) line.device_p99_ns, true);
		if (schema_table_store_record(thd, table))
			return 1;
	}
	return 0;
}

int initialize_io_table(void *schema_table)
{
	ST_SCHEMA_TABLE *schema = (ST_SCHEMA_TABLE *) schema_table;

	schema->fields_info = io_fields;
	schema->fill_table = fill_io_table;
	return 0;
}

st_mysql_information_schema io_table = { MYSQL_INFORMATION_SCHEMA_INTERFACE_VERSION };

} /* namespace iolane */
