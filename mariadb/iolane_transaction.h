/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The transaction of a connection.
 */
#ifndef IOLANE_TRANSACTION_H
#define IOLANE_TRANSACTION_H

#include "iolane_engine.h"

namespace iolane {

class Session {
public:
	/* That of a connection, made if need be; nullptr where memory is short. */
	static Session *of(THD *thd);

	explicit Session(THD *thd) : thd_(thd) {}
	~Session();

	/*
	 * A statement uses a table: begins a transaction, a statement of it, and tells the
	 * server of both, where that is not done yet.
	 */
	int begin();

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

	THD *thd_;
	iolane_transaction *transaction_ = nullptr;
	bool in_statement_ = false;
	uint64_t statement_ = 0;
	/* Of a prepared one. */
	std::string xid_;
	bool is_ordered_ = false;
	int ordered_code_ = 0;
};

void set_up_transactions(handlerton *hton);

} /* namespace iolane */

#endif
