/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The transaction of a connection.
 */
#ifndef IOLANE_TRANSACTION_H
#define IOLANE_TRANSACTION_H

#include "iolane_dictionary.h"
#include "iolane_engine.h"
#include "iolane_level.h"

#include <set>
#include <vector>

namespace iolane {

class Session {
public:
	/* That of a connection, made if need be; nullptr where memory is short. */
	static Session *of(THD *thd);

	explicit Session(THD *thd);
	~Session();

	/*
	 * A statement uses a table: begins a transaction, a statement of it, and tells the
	 * server of both, where that is not done yet.
	 */
	int begin();

	/*
	 * A view does not see into a table that was made after it: reading there gives
	 * HA_ERR_TABLE_DEF_CHANGED, unless the transaction has made it itself, or is not of
	 * one view.
	 */
	int check_age(uint64_t table) const;

	/*
	 * What failed last, for the server's message. A row that moves to another partition fails
	 * there, and the server asks the handler of the one that it came from.
	 */
	struct Failure {
		std::string message;
		uint duplicate_key = MAX_KEY;
	};
	Failure failure;

	/* The statement has made a table, and may put rows there before it ends. */
	void note_made(const char *path, uint64_t table);

	/* The statement has filled a table, which takes another one's place in the end. */
	void note_filled(const std::string &path, uint64_t old_table, uint64_t new_table);

	/* The table that was there is dropped: nothing is to take its place. */
	void forget_filled(uint64_t old_table);

	/* The table that is to be used for one: that which was filled, if there is one. */
	uint64_t table_of(uint64_t table) const
	{
		for (const Filled &each : filled_)
			if (each.old_table == table)
				return each.new_table;
		return table;
	}

	iolane_transaction *transaction() { return transaction_; }

	int open_view();
	int commit(bool all);
	int rollback(bool all);
	int prepare(bool all);
	/* May be called by another thread; the error is commit()'s. */
	void commit_in_order(bool all);
	int set_savepoint(uint64_t *savepoint);
	int rollback_to(uint64_t savepoint);
	int release(uint64_t savepoint);

private:
	bool is_end(bool all) const;
	int start();
	int end_statement(bool undo);
	int durability() const;
	int lead_to_filled();
	void end_filled(bool is_committed);
	void renew_made();
	void discard_filled_since(uint64_t savepoint);

	THD *thd_;
	iolane_transaction *transaction_ = nullptr;
	UserLevel user_level_;
	bool in_statement_ = false;
	uint64_t statement_ = 0;
	/* Tables from this number on were made after it began, but for its own. */
	uint64_t first_new_table_ = 0;
	bool has_one_view_ = false;
	std::set<uint64_t> made_;
	/* Those that the statement with this number has made. */
	std::vector<std::string> made_paths_;
	query_id_t made_by_ = 0;
	std::vector<Filled> filled_;
	/* For the store: whose its transactions are. */
	const uint64_t owner_;
	/* Of a prepared one. */
	std::string xid_;
	bool has_servers_xid_ = false;
	bool is_ordered_ = false;
	int ordered_code_ = 0;
};

/* Nothing of it is left; a temporary one may be dropped in the transaction that has filled it. */
int drop_table(THD *thd, const char *path);

void set_up_transactions(handlerton *hton);

} /* namespace iolane */

#endif
