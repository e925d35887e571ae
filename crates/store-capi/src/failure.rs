//! Errors as codes, and what the calling thread may ask about the last one.

use crate::sys::error::iolane_store_error;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use store::{Error, LockError, StoreError};

/// What went wrong, for the thread that is told.
#[derive(Debug)]
pub(crate) struct Failure {
    code: iolane_store_error,
    text: String,
    /// Of a duplicate: `primary key`, or the index.
    key: String,
}

#[derive(Default)]
struct Last {
    text: CString,
    key: CString,
}

thread_local! {
    static LAST: RefCell<Last> = RefCell::default();
}

impl Failure {
    pub(crate) fn new(code: iolane_store_error, text: impl Into<String>) -> Failure {
        Failure {
            code,
            text: text.into(),
            key: String::new(),
        }
    }

    /// The caller gave something that cannot be.
    pub(crate) fn argument(text: impl Into<String>) -> Failure {
        Failure::new(iolane_store_error::IOLANE_STORE_ERROR_ARGUMENT, text)
    }

    fn report(self) -> i32 {
        // Text of others may hold any byte but this one.
        let c_string = |text: String| CString::new(text.replace('\0', "?")).unwrap_or_default();
        // A thread that is ending has nobody who asks.
        let _ = LAST.try_with(|last| {
            if let Ok(mut last) = last.try_borrow_mut() {
                last.text = c_string(self.text);
                last.key = c_string(self.key);
            }
        });
        self.code as i32
    }
}

/// Calls what a C function is to do. Its number, or the code of its failure; a panic
/// is one, too.
pub(crate) fn guarded(call: impl FnOnce() -> Result<i32, Failure>) -> i32 {
    let called = catch_unwind(AssertUnwindSafe(call));
    let result = called.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        let text = text.unwrap_or("without a message");
        let text = format!("a defect of the library: {text}");
        Err(Failure::new(
            iolane_store_error::IOLANE_STORE_ERROR_PANIC,
            text,
        ))
    });
    result.unwrap_or_else(Failure::report)
}

/// The same where there is nothing to tell but that it is done.
pub(crate) fn done(call: impl FnOnce() -> Result<(), Failure>) -> i32 {
    guarded(|| call().map(|()| 0))
}

/// The sentence about this thread's last failure.
pub(crate) fn last_text() -> *const c_char {
    LAST.with_borrow(|last| last.text.as_ptr())
}

/// The key of this thread's last failure.
pub(crate) fn last_key() -> *const c_char {
    LAST.with_borrow(|last| last.key.as_ptr())
}

fn code_of(error: &Error) -> iolane_store_error {
    use iolane_store_error::*;
    match error {
        Error::Duplicate { .. } => IOLANE_STORE_ERROR_DUPLICATE,
        Error::WriteConflict { .. } => IOLANE_STORE_ERROR_CONFLICT,
        Error::Lock(LockError::Deadlock { .. }) => IOLANE_STORE_ERROR_DEADLOCK,
        Error::Lock(LockError::Timeout(_)) => IOLANE_STORE_ERROR_LOCK_TIMEOUT,
        Error::Lock(LockError::Cancelled) => IOLANE_STORE_ERROR_CANCELLED,
        Error::Lock(LockError::Busy) => IOLANE_STORE_ERROR_LOCKED,
        Error::Lock(_) => IOLANE_STORE_ERROR_TOO_MANY_LOCKS,
        Error::TooManyWriters { .. } => IOLANE_STORE_ERROR_TOO_MANY_WRITERS,
        Error::PreparedExists(_) => IOLANE_STORE_ERROR_PREPARED_EXISTS,
        Error::UnknownPrepared(_) => IOLANE_STORE_ERROR_UNKNOWN_PREPARED,
        Error::UnknownTable(_) => IOLANE_STORE_ERROR_UNKNOWN_TABLE,
        Error::UnknownIndex { .. } => IOLANE_STORE_ERROR_UNKNOWN_INDEX,
        Error::TableExists(_) => IOLANE_STORE_ERROR_TABLE_EXISTS,
        Error::TableInUse(_) => IOLANE_STORE_ERROR_TABLE_IN_USE,
        Error::Schema(_) | Error::KeyLength { .. } | Error::KeyChanged { .. } => {
            IOLANE_STORE_ERROR_SCHEMA
        }
        Error::XidLength(_) => IOLANE_STORE_ERROR_ARGUMENT,
        Error::TooLarge { .. } => IOLANE_STORE_ERROR_TOO_LARGE,
        Error::Ended => IOLANE_STORE_ERROR_ENDED,
        Error::Stopped => IOLANE_STORE_ERROR_STOPPED,
        Error::UnknownSavepoint => IOLANE_STORE_ERROR_UNKNOWN_SAVEPOINT,
        Error::Unfinished { .. } => IOLANE_STORE_ERROR_UNFINISHED,
        Error::Files(StoreError::Exists { .. }) => IOLANE_STORE_ERROR_EXISTS,
        Error::Files(_) => IOLANE_STORE_ERROR_FILES,
        error if error.is_damage() => IOLANE_STORE_ERROR_DAMAGED,
        Error::DamagedCatalogue(_) => IOLANE_STORE_ERROR_DAMAGED,
        Error::Pages(_) => IOLANE_STORE_ERROR_PAGES,
        _ => IOLANE_STORE_ERROR_OTHER,
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let mut failure = Failure::new(code_of(&error), error.to_string());
        if let Error::Duplicate { key, .. } = error {
            failure.key = key;
        }
        failure
    }
}
