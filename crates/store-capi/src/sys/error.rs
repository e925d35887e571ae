//! Errors.

use crate::failure;
use std::ffi::c_char;

/// Why a call failed.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum iolane_store_error {
    /// It did not.
    IOLANE_STORE_OK = 0,
    /// An argument is NULL or out of range.
    IOLANE_STORE_ERROR_ARGUMENT = -1,
    /// There is a row with this key; iolane_store_last_key() says which key that is.
    IOLANE_STORE_ERROR_DUPLICATE = -2,
    /// Another transaction has changed the row since this one began to read. Roll
    /// back and try again.
    IOLANE_STORE_ERROR_CONFLICT = -3,
    /// Waiting for the row would never have ended. The transaction has been rolled
    /// back.
    IOLANE_STORE_ERROR_DEADLOCK = -4,
    /// Another transaction kept the row for too long.
    IOLANE_STORE_ERROR_LOCK_TIMEOUT = -5,
    /// Another transaction has the row locked, and was not to be waited for.
    IOLANE_STORE_ERROR_LOCKED = -6,
    /// As many rows are locked as may be.
    IOLANE_STORE_ERROR_TOO_MANY_LOCKS = -7,
    /// As many transactions write as may.
    IOLANE_STORE_ERROR_TOO_MANY_WRITERS = -8,
    /// A prepared transaction has this name already.
    IOLANE_STORE_ERROR_PREPARED_EXISTS = -9,
    /// No prepared transaction has this name.
    IOLANE_STORE_ERROR_UNKNOWN_PREPARED = -10,
    /// No such table.
    IOLANE_STORE_ERROR_UNKNOWN_TABLE = -11,
    /// No such index.
    IOLANE_STORE_ERROR_UNKNOWN_INDEX = -12,
    /// There is a table of this name.
    IOLANE_STORE_ERROR_TABLE_EXISTS = -13,
    /// Transactions that have used the table have not ended.
    IOLANE_STORE_ERROR_TABLE_IN_USE = -14,
    /// Columns, keys or values that do not fit the table.
    IOLANE_STORE_ERROR_SCHEMA = -15,
    /// A row or key that is longer than can be stored.
    IOLANE_STORE_ERROR_TOO_LARGE = -16,
    /// The transaction has been rolled back, after a deadlock or a failure.
    IOLANE_STORE_ERROR_ENDED = -17,
    /// The transaction has no such savepoint.
    IOLANE_STORE_ERROR_UNKNOWN_SAVEPOINT = -18,
    /// The row was changed by a transaction that cannot be rolled back until damaged
    /// tables are dropped and the store is opened again.
    IOLANE_STORE_ERROR_UNFINISHED = -19,
    /// There is a store in this directory already.
    IOLANE_STORE_ERROR_EXISTS = -20,
    /// Files that are missing, foreign, open elsewhere, or refused by the system.
    IOLANE_STORE_ERROR_FILES = -21,
    /// What was to be read is damaged.
    IOLANE_STORE_ERROR_DAMAGED = -22,
    /// Pages cannot be had; if the store has failed, it must be opened again.
    IOLANE_STORE_ERROR_PAGES = -23,
    /// A defect of the library. What the call was to do may be half done: close the
    /// store and open it again.
    IOLANE_STORE_ERROR_PANIC = -24,
    /// An error of a later version of the store.
    IOLANE_STORE_ERROR_OTHER = -25,
    /// Somebody has ended the wait for a row that another transaction has locked.
    IOLANE_STORE_ERROR_CANCELLED = -26,
    /// The program did not want it to go on.
    IOLANE_STORE_ERROR_STOPPED = -27,
}

/// The last failure on the calling thread: what, where and why, with what to do
/// about it; "" before the first. The string stays until the next failure on the
/// same thread. Never blocks, never fails. From any thread.
#[unsafe(no_mangle)]
pub extern "C" fn iolane_store_last_error() -> *const c_char {
    failure::last_text()
}

/// The key of which the last failure on the calling thread was a duplicate:
/// "primary key" or the name of an index; "" after other failures. The string stays
/// until the next failure on the same thread. Never blocks, never fails. From any
/// thread.
#[unsafe(no_mangle)]
pub extern "C" fn iolane_store_last_key() -> *const c_char {
    failure::last_key()
}

/// The version of the library, as "0.2.0", in static memory. Never blocks, never
/// fails. From any thread.
#[unsafe(no_mangle)]
pub extern "C" fn iolane_store_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
