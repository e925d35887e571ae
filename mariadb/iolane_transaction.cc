/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The transaction of a connection, and what the server asks of it: statements,
 * savepoints, commits in one or two phases.
 */
#include "iolane_transaction.h"
#include "iolane_dictionary.h"
#include "iolane_settings.h"
#include "iolane_waits.h"

#include <new>

namespace iolane {

/* An XID as the store's name: format, lengths, data. */
static std::string name_of(const XID *xid)
{
	std::string name;
	uchar head[6];

	int4store(head, (uint32) xid->formatID);
	head[4] = (uchar) xid->gtrid_length;
	head[5] = (uchar) xid->bqual_length;
	name.assign((const char *) head, sizeof(head));
	name.append(xid->data, (size_t) (xid->gtrid_length + xid->bqual_length));
	return name;
}

/* The reverse. Returns false for a name that is none. */
static bool xid_of(const iolane_value &name, XID *xid)
{
	const uchar *bytes = (const uchar *) name.bytes;

	if (name.length < 6 || name.length != (size_t) 6 + bytes[4] + bytes[5])
		return false;
	xid->set((long) (int32) uint4korr(bytes), (const char *) bytes + 6, bytes[4],
		 (const char *) bytes + 6 + bytes[4], bytes[5]);
	return true;
}

Session *Session::of(THD *thd)
{
	Session *session = (Session *) thd_get_ha_data(thd, hton);

	if (!session) {
		session = new (std::nothrow) Session(thd);
		if (session)
			thd_set_ha_data(thd, hton, session);
	}
	return session;
}

Session::Session(THD *thd) : thd_(thd), owner_(note_connection(thd)) {}

Session::~Session()
{
	forget_connection(owner_);
	/* What is prepared waits for whoever decides about it. */
	iolane_transaction_rollback(transaction_);
	end_filled(false);
}

void Session::note_made(const char *path, uint64_t table)
{
	made_.insert(table);
	if (made_by_ != thd_->query_id)
		made_paths_.clear();
	made_by_ = thd_->query_id;
	made_paths_.push_back(path);
}

/* Views that were opened while the statement put rows there do not see them. */
void Session::renew_made()
{
	std::vector<std::string> paths;

	paths.swap(made_paths_);
	if (!paths.empty() && made_by_ == thd_->query_id)
		dictionary.renew(paths);
}

void Session::note_filled(const std::string &path, uint64_t old_table, uint64_t new_table)
{
	filled_.push_back({ path, old_table, new_table, statement_ });
}

/* The last change of the transaction: what it changes, nobody else waits for long. */
int Session::lead_to_filled()
{
	return filled_.empty() ? 0 : dictionary.lead_to(filled_, transaction_);
}

/* The transaction has ended. */
void Session::end_filled(bool is_committed)
{
	std::vector<Filled> filled;

	filled.swap(filled_);
	if (filled.empty())
		return;
	if (is_committed)
		dictionary.fill(filled);
	else
		dictionary.discard(filled);
}

void Session::forget_filled(uint64_t old_table)
{
	std::vector<Filled> kept, discarded;

	for (const Filled &each : filled_)
		(each.old_table == old_table ? discarded : kept).push_back(each);
	if (discarded.empty())
		return;
	filled_ = kept;
	dictionary.discard(discarded);
}

void Session::discard_filled_since(uint64_t savepoint)
{
	std::vector<Filled> kept, discarded;

	if (filled_.empty())
		return;
	for (const Filled &each : filled_)
		(each.savepoint < savepoint ? kept : discarded).push_back(each);
	filled_ = kept;
	dictionary.discard(discarded);
}

bool Session::is_end(bool all) const
{
	return all || !thd_test_options(thd_, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN);
}

int Session::durability() const
{
	return (int) flush_log_at_trx_commit;
}

int Session::start()
{
	int isolation;

	if (transaction_)
		return 0;
	switch (thd_tx_isolation(thd_)) {
	case ISO_READ_UNCOMMITTED:
	case ISO_READ_COMMITTED:
		isolation = IOLANE_READ_COMMITTED;
		break;
	case ISO_REPEATABLE_READ:
		isolation = IOLANE_REPEATABLE_READ;
		break;
	default:
		my_error(ER_NOT_SUPPORTED_YET, MYF(0), "ISOLATION LEVEL SERIALIZABLE with ENGINE=IOLANE");
		return HA_ERR_UNSUPPORTED;
	}
	has_one_view_ = isolation == IOLANE_REPEATABLE_READ;
	first_new_table_ = dictionary.next_table();
	made_.clear();
	int code = iolane_transaction_begin(store, isolation, 0, lock_wait_timeout_ms(thd_),
					    &transaction_);

	if (!code)
		code = iolane_transaction_set_owner(transaction_, owner_);
	return code ? error_of(code, thd_) : 0;
}

int Session::begin()
{
	if (in_statement_)
		return 0;
	int error = start();

	if (error)
		return error;
	iolane_transaction_set_lock_timeout(transaction_, lock_wait_timeout_ms(thd_));
	iolane_transaction_set_bulk(transaction_, is_background(thd_, &user_level_));
	int code = iolane_transaction_begin_statement(transaction_);

	if (!code)
		code = iolane_transaction_savepoint(transaction_, &statement_);
	if (code)
		return error_of(code, thd_);
	in_statement_ = true;
	trans_register_ha(thd_, false, hton, 0);
	if (thd_test_options(thd_, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN))
		trans_register_ha(thd_, true, hton, 0);
	return 0;
}

int Session::check_age(uint64_t table) const
{
	if (!has_one_view_ || table < first_new_table_ || made_.count(table))
		return 0;
	return HA_ERR_TABLE_DEF_CHANGED;
}

int Session::open_view()
{
	int error = start();

	if (!error) {
		int code = iolane_transaction_open_view(transaction_);

		trans_register_ha(thd_, true, hton, 0);
		error = code ? error_of(code, thd_) : 0;
	}
	return error;
}

int Session::end_statement(bool undo)
{
	int code = 0;

	if (!in_statement_)
		return 0;
	in_statement_ = false;
	if (transaction_) {
		if (undo) {
			code = iolane_transaction_rollback_to(transaction_, statement_);
			discard_filled_since(statement_);
		}
		if (!code)
			code = iolane_transaction_release(transaction_, statement_);
	}
	/* One that a deadlock has ended waits for its rollback. */
	if (code == IOLANE_STORE_ERROR_ENDED || code == IOLANE_STORE_ERROR_UNKNOWN_SAVEPOINT)
		code = 0;
	return code ? error_of(code, thd_) : 0;
}

int Session::commit(bool all)
{
	int code = 0;

	if (!is_end(all))
		return end_statement(false);
	in_statement_ = false;
	if (is_ordered_) {
		code = ordered_code_;
		is_ordered_ = false;
		/*
		 * When the server starts after a crash, the binary log tells it what to commit, but only
		 * by its own numbers of transactions, and tc.log does not.
		 */
		if (!code && !(opt_bin_log && has_servers_xid_) && durability() != IOLANE_LAZY)
			code = iolane_store_sync(store);
	} else if (!xid_.empty()) {
		code = iolane_store_commit_prepared(store, xid_.data(), xid_.size(), durability());
	} else if (transaction_) {
		code = lead_to_filled();
		/* The server takes it for ended. */
		if (code) {
			int error = error_of(code, thd_);

			rollback(all);
			return error;
		}
		iolane_transaction *transaction = transaction_;

		transaction_ = nullptr;
		code = iolane_transaction_commit(transaction, durability());
	}
	xid_.clear();
	/* Whether one that failed is committed shows when the store is opened again. */
	if (code)
		filled_.clear();
	end_filled(true);
	renew_made();
	return code ? error_of(code, thd_) : 0;
}

int Session::rollback(bool all)
{
	int code = 0;

	if (!is_end(all))
		return end_statement(true);
	in_statement_ = false;
	if (!xid_.empty()) {
		code = iolane_store_rollback_prepared(store, xid_.data(), xid_.size());
		xid_.clear();
	}
	iolane_transaction *transaction = transaction_;

	transaction_ = nullptr;
	if (!code)
		code = iolane_transaction_rollback(transaction);
	end_filled(false);
	return code ? error_of(code, thd_) : 0;
}

int Session::prepare(bool all)
{
	XID xid;

	if (!is_end(all))
		return end_statement(false);
	in_statement_ = false;
	if (!transaction_)
		return 0;
	int code = lead_to_filled();

	if (code)
		return error_of(code, thd_);
	thd_get_xid(thd_, (MYSQL_XID *) &xid);
	xid_ = name_of(&xid);
	has_servers_xid_ = xid.get_my_xid() != 0;
	iolane_transaction *transaction = transaction_;

	transaction_ = nullptr;
	code = iolane_transaction_prepare(transaction, xid_.data(), xid_.size(), durability());
	if (code)
		xid_.clear();
	return code ? error_of(code, thd_) : 0;
}

void Session::commit_in_order(bool all)
{
	if (!is_end(all) || xid_.empty())
		return;
	/* The coordinator's log says that it is committed, until it asks us to sync. */
	ordered_code_ = iolane_store_commit_prepared(store, xid_.data(), xid_.size(), IOLANE_LAZY);
	is_ordered_ = true;
}

int Session::set_savepoint(uint64_t *savepoint)
{
	int code = iolane_transaction_savepoint(transaction_, savepoint);

	return code ? error_of(code, thd_) : 0;
}

int Session::rollback_to(uint64_t savepoint)
{
	int code = iolane_transaction_rollback_to(transaction_, savepoint);

	discard_filled_since(savepoint);
	return code ? error_of(code, thd_) : 0;
}

int Session::release(uint64_t savepoint)
{
	/* One that is set anew under its name leaves the later ones as they are. */
	int code = thd_sql_command(thd_) == SQLCOM_SAVEPOINT ?
			   iolane_transaction_forget(transaction_, savepoint) :
			   iolane_transaction_release(transaction_, savepoint);

	return code ? error_of(code, thd_) : 0;
}

int drop_table(THD *thd, const char *path)
{
	uint64_t table;
	int error = dictionary.drop(path, &table);
	Session *session = thd ? (Session *) thd_get_ha_data(thd, hton) : nullptr;

	if (!error && session)
		session->forget_filled(table);
	return error;
}

static int close_connection(handlerton *, THD *thd)
{
	Session *session = (Session *) thd_get_ha_data(thd, hton);

	thd_set_ha_data(thd, hton, nullptr);
	delete session;
	return 0;
}

static int commit(handlerton *, THD *thd, bool all)
{
	return Session::of(thd)->commit(all);
}

static int rollback(handlerton *, THD *thd, bool all)
{
	return Session::of(thd)->rollback(all);
}

static int prepare(handlerton *, THD *thd, bool all)
{
	return Session::of(thd)->prepare(all);
}

static void commit_ordered(handlerton *, THD *thd, bool all)
{
	Session::of(thd)->commit_in_order(all);
}

static int savepoint_set(handlerton *, THD *thd, void *place)
{
	return Session::of(thd)->set_savepoint((uint64_t *) place);
}

static int savepoint_rollback(handlerton *, THD *thd, void *place)
{
	return Session::of(thd)->rollback_to(*(uint64_t *) place);
}

static int savepoint_release(handlerton *, THD *thd, void *place)
{
	return Session::of(thd)->release(*(uint64_t *) place);
}

/* Rows that were locked stay so, and with them their tables. */
static bool savepoint_rollback_can_release_mdl(handlerton *, THD *)
{
	return false;
}

static int start_consistent_snapshot(handlerton *, THD *thd)
{
	return Session::of(thd)->open_view();
}

/* How many of the prepared ones the server has been told while it recovers. */
static size_t recovered;

static int recover(handlerton *, XID *list, uint room)
{
	Row row;
	size_t count = 0;
	uint found = 0;

	if (!list || !room || iolane_store_prepared(store, row.get()))
		return 0;
	const iolane_value *names = row.values(&count);

	while (recovered < count && found < room)
		if (xid_of(names[recovered++], &list[found]))
			found++;
	if (found < room)
		recovered = 0;
	return (int) found;
}

/* As the X/Open specification of XA has them, table "XA return codes". */
enum { XA_OK = 0, XAER_RMERR = -3, XAER_NOTA = -4 };

static int decide(int code)
{
	switch (code) {
	case 0:
		return XA_OK;
	case IOLANE_STORE_ERROR_UNKNOWN_PREPARED:
		return XAER_NOTA;
	default:
		log_failure("a prepared transaction cannot be ended");
		return XAER_RMERR;
	}
}

static int commit_by_xid(handlerton *, XID *xid)
{
	std::string name = name_of(xid);
	int code = iolane_store_commit_prepared(store, name.data(), name.size(), IOLANE_SYNCED);

	/* One of before the server was started may have led to a table that it filled. */
	if (!code && !dictionary.is_settled())
		code = dictionary.reload();
	return decide(code);
}

static int rollback_by_xid(handlerton *, XID *xid)
{
	std::string name = name_of(xid);

	return decide(iolane_store_rollback_prepared(store, name.data(), name.size()));
}

/* The binary log wants to forget transactions: they must be on the disk here. */
static void commit_checkpoint_request(void *cookie)
{
	if (iolane_store_sync(store))
		log_failure("commits cannot be made durable");
	else
		commit_checkpoint_notify_ha(cookie);
}

static bool flush_logs(handlerton *)
{
	return iolane_store_sync(store) != 0;
}

/* Nobody decides about transactions of before any more. */
static int signal_ddl_recovery_done(handlerton *)
{
	if (!dictionary.settle())
		return 0;
	log_failure("tables that nothing leads to cannot be dropped");
	return 1;
}

void set_up_transactions(handlerton *hton)
{
	hton->signal_ddl_recovery_done = signal_ddl_recovery_done;
	hton->kill_query = kill_query;
	hton->savepoint_offset = sizeof(uint64_t);
	hton->close_connection = close_connection;
	hton->commit = commit;
	hton->rollback = rollback;
	hton->prepare = prepare;
	hton->commit_ordered = commit_ordered;
	hton->savepoint_set = savepoint_set;
	hton->savepoint_rollback = savepoint_rollback;
	hton->savepoint_release = savepoint_release;
	hton->savepoint_rollback_can_release_mdl = savepoint_rollback_can_release_mdl;
	hton->start_consistent_snapshot = start_consistent_snapshot;
	hton->recover = recover;
	hton->commit_by_xid = commit_by_xid;
	hton->rollback_by_xid = rollback_by_xid;
	hton->commit_checkpoint_request = commit_checkpoint_request;
	hton->flush_logs = flush_logs;
}

} /* namespace iolane */
