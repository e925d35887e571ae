//! Transactions, and rows by their keys.

use super::options::durability;
use super::pointers::{
    bytes, give, may_change_threads, object, object_mut, put, take, text, with_values,
};
use super::row::{iolane_row, iolane_value};
use super::store::iolane_store;
use crate::failure::{Failure, done, guarded};
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use std::time::Duration;
use store::{Isolation, LockMode, Savepoint, Store, Transaction, TransactionOptions, WhenLocked};

/// What a transaction sees of others, and what it changes.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum iolane_isolation {
    /// It sees what was committed when it first read something, and changes nothing
    /// else: IOLANE_STORE_ERROR_CONFLICT.
    IOLANE_SNAPSHOT = 0,
    /// It sees what was committed when it first read something without locking it, and
    /// changes and locks the newest version of a row.
    IOLANE_REPEATABLE_READ = 1,
    /// It sees what was committed when the statement first read something, and
    /// changes and locks the newest version of a row.
    IOLANE_READ_COMMITTED = 2,
}

/// How rows are locked that are read.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum iolane_lock {
    /// They are not.
    IOLANE_LOCK_NONE = 0,
    /// Others cannot change them.
    IOLANE_LOCK_SHARED = 1,
    /// Others cannot lock them.
    IOLANE_LOCK_EXCLUSIVE = 2,
}

/// What a read does with a row that another transaction has locked.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum iolane_when_locked {
    /// It waits.
    IOLANE_WAIT = 0,
    /// It fails with IOLANE_STORE_ERROR_LOCKED.
    IOLANE_REFUSE = 1,
    /// It passes over the row.
    IOLANE_SKIP = 2,
}

/// A transaction. For one thread at a time.
pub struct iolane_transaction {
    pub(super) transaction: Transaction<'static>,
    /// Given up after it.
    pub(super) store: Arc<Store>,
}

const _: () = may_change_threads::<iolane_transaction>();

fn isolation(number: i32) -> Result<Isolation, Failure> {
    match number {
        0 => Ok(Isolation::Snapshot),
        1 => Ok(Isolation::RepeatableRead),
        2 => Ok(Isolation::ReadCommitted),
        other => Err(Failure::argument(format!(
            "there is no isolation {other}; use 0 to 2"
        ))),
    }
}

pub(super) fn lock(lock: i32, when: i32) -> Result<Option<(LockMode, WhenLocked)>, Failure> {
    let when = match when {
        0 => WhenLocked::Wait,
        1 => WhenLocked::Refuse,
        2 => WhenLocked::Skip,
        other => return Err(Failure::argument(format!("no such wait: {other}"))),
    };
    match lock {
        0 => Ok(None),
        1 => Ok(Some((LockMode::Shared, when))),
        2 => Ok(Some((LockMode::Exclusive, when))),
        other => Err(Failure::argument(format!("there is no lock {other}"))),
    }
}

/// Begins a transaction, to be ended by iolane_transaction_commit(), _rollback() or
/// _prepare(). `isolated` is of enum iolane_isolation. With `bulk` = 1 it is work that
/// nobody waits for: its pages are read at the level of backups, behind all others.
/// It waits for others for `lock_timeout_ms` at the most. Never blocks; fails with
/// IOLANE_STORE_ERROR_ARGUMENT. From any thread; the transaction is for one at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_transaction_begin(
    store: *const iolane_store,
    isolated: i32,
    bulk: i32,
    lock_timeout_ms: u64,
    transaction: *mut *mut iolane_transaction,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let store = Arc::clone(&object(store, "store")?.0);
        let mut options = TransactionOptions::default();
        options.isolation = isolation(isolated)?;
        options.bulk = bulk != 0;
        options.lock_timeout = Some(Duration::from_millis(lock_timeout_ms));
        // It is dropped before the store, which is kept beside it and does not move.
        let longer: &'static Store = &*Arc::as_ptr(&store);
        let begun = longer.begin_with(&options);
        give(
            transaction,
            iolane_transaction {
                transaction: begun,
                store,
            },
        )
    })
}

/// How long it waits for others from now on. Never blocks; fails with
/// IOLANE_STORE_ERROR_ARGUMENT. For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_transaction_set_lock_timeout(
    transaction: *mut iolane_transaction,
    lock_timeout_ms: u64,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let it = object_mut(transaction, "transaction")?;
        it.transaction
            .set_lock_timeout(Duration::from_millis(lock_timeout_ms));
        Ok(())
    })
}

/// Whether what it does from here on is work that nobody waits for, 1 or 0: as `bulk` of
/// iolane_transaction_begin(). Cursors that are open go on as they were. Never blocks;
/// fails with IOLANE_STORE_ERROR_ARGUMENT. For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_transaction_set_bulk(
    transaction: *mut iolane_transaction,
    bulk: i32,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        object_mut(transaction, "transaction")?
            .transaction
            .set_bulk(bulk != 0);
        Ok(())
    })
}

/// Looks now: what is committed by now is what it sees. Never blocks for long; fails
/// with IOLANE_STORE_ERROR_ENDED, _ARGUMENT. For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_transaction_open_view(transaction: *mut iolane_transaction) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let it = object_mut(transaction, "transaction")?;
        Ok(it.transaction.open_view()?)
    })
}

/// Begins a statement: with IOLANE_READ_COMMITTED it sees from now on what is
/// committed when it next reads. Never blocks; fails with IOLANE_STORE_ERROR_ENDED,
/// _ARGUMENT. For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_transaction_begin_statement(
    transaction: *mut iolane_transaction,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let it = object_mut(transaction, "transaction")?;
        Ok(it.transaction.begin_statement()?)
    })
}

/// Makes its changes visible to others, and durable as `how`, of enum
/// iolane_durability, says. Blocks as long as that asks for. Frees the transaction,
/// however it ends. Fails with IOLANE_STORE_ERROR_ENDED, _PAGES, _ARGUMENT: then it
/// is not committed, or the store has failed and shows when it is opened again. For
/// one thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_transaction_commit(
    transaction: *mut iolane_transaction,
    how: i32,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let it = *take(transaction, "transaction")?;
        let how = durability(how)?;
        let iolane_transaction { transaction, store } = it;
        let committed = transaction.commit_with(how);
        drop(store);
        Ok(committed?)
    })
}

/// Undoes all its changes, and frees it; NULL is allowed. Blocks while pages are read
/// for that. Fails with IOLANE_STORE_ERROR_PAGES: it is rolled back when the store is
/// opened again. For one thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_transaction_rollback(transaction: *mut iolane_transaction) -> i32 {
    if transaction.is_null() {
        return 0;
    }
    // SAFETY: C's promise.
    done(|| unsafe {
        let iolane_transaction { transaction, store } = *take(transaction, "transaction")?;
        let undone = transaction.rollback();
        drop(store);
        Ok(undone?)
    })
}

/// Makes its changes durable under a name of 1 to 140 bytes, and leaves them to
/// iolane_store_commit_prepared() or iolane_store_rollback_prepared(); its rows stay
/// locked until then. Blocks as long as `how`, of enum iolane_durability, asks for.
/// Frees the transaction, however it ends. Fails with
/// IOLANE_STORE_ERROR_PREPARED_EXISTS, _ENDED, _TOO_MANY_WRITERS, _PAGES, _ARGUMENT:
/// then it is rolled back, or the store has failed. For one thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_transaction_prepare(
    transaction: *mut iolane_transaction,
    xid: *const c_void,
    length: usize,
    how: i32,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let it = *take(transaction, "transaction")?;
        let (xid, how) = (bytes(xid, length)?, durability(how)?);
        let iolane_transaction { transaction, store } = it;
        let prepared = transaction.prepare_with(xid, how);
        drop(store);
        Ok(prepared?)
    })
}

/// A point that iolane_transaction_rollback_to() goes back to. Never blocks; fails
/// with IOLANE_STORE_ERROR_ENDED, _ARGUMENT. For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_transaction_savepoint(
    transaction: *mut iolane_transaction,
    savepoint: *mut u64,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let it = object_mut(transaction, "transaction")?;
        put(savepoint, it.transaction.savepoint()?.number())
    })
}

/// Undoes what was changed since a savepoint, which stays; later ones do not. Blocks
/// while pages are read for that. Fails with IOLANE_STORE_ERROR_UNKNOWN_SAVEPOINT,
/// _ENDED, _PAGES, _ARGUMENT. For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_transaction_rollback_to(
    transaction: *mut iolane_transaction,
    savepoint: u64,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let it = object_mut(transaction, "transaction")?;
        Ok(it.transaction.rollback_to(Savepoint::of(savepoint))?)
    })
}

/// Forgets a savepoint and all later ones. Never blocks; fails with
/// IOLANE_STORE_ERROR_UNKNOWN_SAVEPOINT, _ARGUMENT. For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_transaction_release(
    transaction: *mut iolane_transaction,
    savepoint: u64,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let it = object_mut(transaction, "transaction")?;
        Ok(it.transaction.release(Savepoint::of(savepoint))?)
    })
}

/// Forgets a savepoint, but none of the later ones. Never blocks; fails with
/// IOLANE_STORE_ERROR_UNKNOWN_SAVEPOINT, _ARGUMENT. For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_transaction_forget(
    transaction: *mut iolane_transaction,
    savepoint: u64,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let it = object_mut(transaction, "transaction")?;
        Ok(it.transaction.forget(Savepoint::of(savepoint))?)
    })
}

/// Inserts a row: values for all columns, in their order. Blocks while it waits for
/// others or reads pages. Fails with IOLANE_STORE_ERROR_DUPLICATE, _SCHEMA,
/// _TOO_LARGE, _UNKNOWN_TABLE, _CONFLICT, _DEADLOCK, _LOCK_TIMEOUT, _TOO_MANY_LOCKS,
/// _TOO_MANY_WRITERS, _ENDED, _UNFINISHED, _DAMAGED, _PAGES, _ARGUMENT; then nothing
/// was changed, and but for a deadlock the transaction can go on. For one thread at a
/// time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_transaction_insert(
    transaction: *mut iolane_transaction,
    table: *const c_char,
    row: *const iolane_value,
    count: usize,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let it = object_mut(transaction, "transaction")?;
        let table = text(table, "table")?;
        with_values(row, count, |row| Ok(it.transaction.insert(table, row)?))
    })
}

/// Replaces the row with the same primary key. Returns 1, or 0 if there is none.
/// Blocks and fails as iolane_transaction_insert(). For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_transaction_update(
    transaction: *mut iolane_transaction,
    table: *const c_char,
    row: *const iolane_value,
    count: usize,
) -> i32 {
    // SAFETY: C's promise.
    guarded(|| unsafe {
        let it = object_mut(transaction, "transaction")?;
        let table = text(table, "table")?;
        with_values(row, count, |row| {
            Ok(it.transaction.update(table, row)?.into())
        })
    })
}

/// Deletes the row with a primary key. Returns 1, or 0 if there is none. Blocks and
/// fails as iolane_transaction_insert(). For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_transaction_delete(
    transaction: *mut iolane_transaction,
    table: *const c_char,
    key: *const iolane_value,
    count: usize,
) -> i32 {
    // SAFETY: C's promise.
    guarded(|| unsafe {
        let it = object_mut(transaction, "transaction")?;
        let table = text(table, "table")?;
        with_values(key, count, |key| {
            Ok(it.transaction.delete(table, key)?.into())
        })
    })
}

/// Fills `row` with the row of a primary key, as the transaction sees it, or with
/// `lock_mode`, of enum iolane_lock, locked and as it is then. `when` is of enum
/// iolane_when_locked. Returns 1, or 0 if there is none, or it was passed over. Blocks
/// while it waits for others or reads pages. Fails as iolane_transaction_insert(), and
/// with IOLANE_STORE_ERROR_LOCKED. For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_transaction_get(
    transaction: *mut iolane_transaction,
    table: *const c_char,
    key: *const iolane_value,
    count: usize,
    lock_mode: i32,
    when: i32,
    row: *mut iolane_row,
) -> i32 {
    // SAFETY: C's promise.
    guarded(|| unsafe {
        let it = &mut object_mut(transaction, "transaction")?.transaction;
        let table = text(table, "table")?;
        let lock = lock(lock_mode, when)?;
        let is_there = with_values(key, count, |key| {
            object_mut(row, "row")?.fill_by(|row| match lock {
                None => Ok(it.get_in(table, key, row)?),
                Some((mode, when)) => Ok(it.lock_row_in(table, key, mode, when, row)?),
            })
        })?;
        Ok(is_there.into())
    })
}
