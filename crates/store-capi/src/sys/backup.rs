//! Copies of a store, of a moment that the program chooses.

use super::options::{iolane_store_options, options};
use super::pointers::{give, object, object_mut, put, take, text};
use super::store::iolane_store;
use crate::failure::{Failure, done};
use std::ffi::{c_char, c_void};
use std::sync::Arc;
use store::{Backup, Store};

/// A store as it is at one moment, to be copied. For one thread at a time.
pub struct iolane_backup {
    /// Until it is copied.
    backup: Option<Backup<'static>>,
    /// Given up after it.
    _store: Arc<Store>,
}

/// Is asked for every row whether to go on: it should be quick. Returns 0 to stop.
pub type iolane_go_on = Option<unsafe extern "C" fn(context: *mut c_void) -> i32>;

/// Begins a backup, to be freed by iolane_backup_free(). Until then the store's tables
/// stay, also those that are dropped: IOLANE_STORE_ERROR_TABLE_IN_USE. Reads the
/// descriptions of all tables, which blocks. Fails with IOLANE_STORE_ERROR_DAMAGED,
/// _PAGES, _ARGUMENT. For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_backup_begin(
    store: *const iolane_store,
    backup: *mut *mut iolane_backup,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let store = Arc::clone(&object(store, "store")?.0);
        // It is dropped before the store, which is kept beside it and does not move.
        let longer: &'static Store = &*Arc::as_ptr(&store);
        let begun = longer.begin_backup()?;
        give(
            backup,
            iolane_backup {
                backup: Some(begun),
                _store: store,
            },
        )
    })
}

fn copied_already() -> Failure {
    Failure::argument("the backup has been copied already")
}

/// Looks now: what is committed by now is copied, and nothing else. Never blocks for
/// long; fails with IOLANE_STORE_ERROR_DAMAGED, _PAGES, _ARGUMENT. For one thread at a
/// time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_backup_open_view(backup: *mut iolane_backup) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let it = object_mut(backup, "backup")?;
        let begun = it.backup.as_mut().ok_or_else(copied_already)?;
        Ok(begun.open_view()?)
    })
}

/// Copies it to a new store in the directory `path`, at the level of backups, once;
/// puts the number of rows into `rows`. Where `page_bytes` of its settings is 0, its
/// pages are as long as the store's. NULL for `go_on`: to the end. Blocks as long as
/// that takes. Fails with IOLANE_STORE_ERROR_STOPPED, _EXISTS, _FILES, _PAGES,
/// _DAMAGED, _ARGUMENT; then what was copied is removed. For one thread at a time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_backup_copy(
    backup: *mut iolane_backup,
    path: *const c_char,
    settings: *const iolane_store_options,
    go_on: iolane_go_on,
    context: *mut c_void,
    rows: *mut u64,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let it = object_mut(backup, "backup")?;
        let (path, mut settings) = (text(path, "path")?, options(settings)?);
        let begun = it.backup.take().ok_or_else(copied_already)?;
        if settings.pages.page_bytes == 0 {
            settings.pages.page_bytes = begun.page_bytes();
        }
        let go_on = || go_on.is_none_or(|go_on| go_on(context) != 0);
        put(rows, begun.copy_while(path, &settings, &go_on)?)
    })
}

/// Frees it; NULL is allowed. Never blocks for long. For one thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_backup_free(backup: *mut iolane_backup) {
    if !backup.is_null() {
        // SAFETY: C's promise.
        done(|| unsafe { take(backup, "backup") }.map(drop));
    }
}
