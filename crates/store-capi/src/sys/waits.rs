//! Waits for rows: who is told of them, and who ends them.

use super::pointers::{object, object_mut, put};
use super::row::iolane_row;
use super::store::iolane_store;
use super::transaction::iolane_transaction;
use crate::failure::{Failure, done, guarded};
use std::ffi::c_void;
use std::time::UNIX_EPOCH;
use store::data::Value;

/// Is told that the transaction of one owner is going to wait for that of another one;
/// 0: nobody's. Returns 0, or another number if it shall not wait:
/// IOLANE_STORE_ERROR_CANCELLED.
pub type iolane_wait_observer =
    Option<unsafe extern "C" fn(context: *mut c_void, waiter: u64, blocker: u64) -> i32>;

/// What C wants to have back.
struct Context(*mut c_void);

// SAFETY: C's promise: the observer may be called by any thread.
unsafe impl Send for Context {}
// SAFETY: the same.
unsafe impl Sync for Context {}

impl Context {
    fn get(&self) -> *mut c_void {
        self.0
    }
}

/// Says whose a transaction is: a number of the program's, such as that of a connection
/// with one transaction at a time; 0: nobody's. Before it locks or changes a row. Never
/// blocks; fails with IOLANE_STORE_ERROR_ARGUMENT. For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_transaction_set_owner(
    transaction: *mut iolane_transaction,
    owner: u64,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        object_mut(transaction, "transaction")?
            .transaction
            .set_owner(owner);
        Ok(())
    })
}

/// Has `observer` called before a transaction with an owner waits for a row, for each
/// one that it waits for, by the thread that will wait. Those do not end meanwhile; so
/// it should be quick, and must not use the store. It stays until the store is closed;
/// only the first one does. Never blocks; fails with
/// IOLANE_STORE_ERROR_ARGUMENT. From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_observe_waits(
    store: *const iolane_store,
    observer: iolane_wait_observer,
    context: *mut c_void,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let store = &object(store, "store")?.0;
        let observer = observer.ok_or_else(|| Failure::argument("observer is NULL"))?;
        let context = Context(context);
        store.observe_waits(move |waiter, blocker| observer(context.get(), waiter, blocker) == 0);
        Ok(())
    })
}

/// Ends the wait for a row of an owner's transaction, which fails with
/// IOLANE_STORE_ERROR_CANCELLED and can go on. Returns 1, or 0 if it does not wait. One
/// that is about to wait asks the observer after it can be found here. Never blocks for
/// long; fails with IOLANE_STORE_ERROR_ARGUMENT. From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_cancel_wait(store: *const iolane_store, owner: u64) -> i32 {
    // SAFETY: C's promise.
    guarded(|| unsafe { Ok(object(store, "store")?.0.cancel_wait(owner).into()) })
}

/// Fills `row` with a text that tells of the last deadlock, or with nothing if there was
/// none, and `seconds` with when that was, since 1970. Never blocks for long; fails with
/// IOLANE_STORE_ERROR_ARGUMENT. From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_last_deadlock(
    store: *const iolane_store,
    seconds: *mut u64,
    row: *mut iolane_row,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let last = object(store, "store")?.0.last_deadlock();
        let at = last.as_ref().map(|it| it.at.duration_since(UNIX_EPOCH));
        put(seconds, at.map_or(0, |at| at.unwrap_or_default().as_secs()))?;
        let texts = last.iter().map(|it| Value::Text(it.to_string()));
        object_mut(row, "row")?.fill(texts.collect());
        Ok(())
    })
}
