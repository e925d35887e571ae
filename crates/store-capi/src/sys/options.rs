//! How a store is opened.

use super::pointers::{object, put};
use crate::failure::{Failure, done};
use std::time::Duration;
use store::{Durability, IoPolicy, StoreOptions};

/// When a commit is acknowledged.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum iolane_durability {
    /// At once; it is on the disk about a second later. A crash of the program or
    /// the machine may lose the last commits.
    IOLANE_LAZY = 0,
    /// When it is on the disk.
    IOLANE_SYNCED = 1,
    /// When it is in the log's file; on the disk about a second later. It survives
    /// the end of the program; a crash of the machine may lose the last commits.
    IOLANE_WRITTEN = 2,
}

pub(super) fn durability(number: i32) -> Result<Durability, Failure> {
    match number {
        0 => Ok(Durability::Lazy),
        1 => Ok(Durability::Synced),
        2 => Ok(Durability::Written),
        other => Err(Failure::argument(format!(
            "there is no durability {other}; use 0 to 2"
        ))),
    }
}

/// How a store is made and opened; iolane_store_options_init() fills it.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct iolane_store_options {
    /// Bytes of a page, when it is made: a power of two from 4 to 64 KiB.
    pub page_bytes: u64,
    /// Bytes of pages kept in memory.
    pub pool_bytes: u64,
    /// Bytes of the redo log, when it is made.
    pub log_bytes: u64,
    /// Files of tables that are kept open.
    pub files_max: u64,
    /// Whether these are read and written past the page cache: 1 or 0.
    pub direct: i32,
    /// Of enum iolane_durability, for commits that say nothing else.
    pub durability: i32,
    /// How long a transaction waits for others, unless it says otherwise.
    pub lock_timeout_ms: u64,
    /// Rows that may be locked at a time.
    pub locks_max: u64,
    /// Transactions that may write at a time.
    pub writers_max: u32,
    /// Whether it reads ahead of scans and indexes, and writes changed pages before
    /// their memory is needed: 1, or 0 for what InnoDB does.
    pub read_ahead: i32,
    /// Whether requests carry the level of what they are for: 1 or 0.
    pub priorities: i32,
    /// Whether the pages that are in memory when the store is closed are read again
    /// when it is opened, in the background: 1 or 0.
    pub preload: i32,
}

/// Fills `options` with the defaults. Never blocks; fails with
/// IOLANE_STORE_ERROR_ARGUMENT where it is NULL. From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_options_init(options: *mut iolane_store_options) -> i32 {
    let usual = StoreOptions::default();
    let made = iolane_store_options {
        page_bytes: usual.pages.page_bytes as u64,
        pool_bytes: usual.pages.pool_bytes,
        log_bytes: usual.pages.log_bytes,
        files_max: usual.pages.files_max as u64,
        direct: usual.pages.direct.into(),
        durability: iolane_durability::IOLANE_SYNCED as i32,
        lock_timeout_ms: usual.lock_timeout.as_millis() as u64,
        locks_max: usual.locks_max as u64,
        writers_max: usual.undo_slots,
        read_ahead: 1,
        priorities: 1,
        preload: usual.preload.into(),
    };
    // SAFETY: C's promise.
    done(|| unsafe { put(options, made) })
}

/// # Safety
/// `options` is NULL, or options that are filled.
pub(super) unsafe fn options(
    options: *const iolane_store_options,
) -> Result<StoreOptions, Failure> {
    // SAFETY: the caller's promise.
    let given = unsafe { object(options, "options") }?;
    let size = |number: u64| {
        usize::try_from(number)
            .map_err(|_| Failure::argument(format!("{number} is too large for this machine")))
    };
    let mut options = StoreOptions::default();
    options.pages.page_bytes = size(given.page_bytes)?;
    options.pages.pool_bytes = given.pool_bytes;
    options.pages.log_bytes = given.log_bytes;
    options.pages.files_max = size(given.files_max)?;
    options.pages.direct = given.direct != 0;
    options.pages.io = match given.read_ahead {
        0 => IoPolicy::CONSERVATIVE,
        _ => IoPolicy::default(),
    };
    options.pages.io.priorities = given.priorities != 0;
    options.durability = durability(given.durability)?;
    options.lock_timeout = Duration::from_millis(given.lock_timeout_ms);
    options.locks_max = size(given.locks_max)?;
    options.undo_slots = given.writers_max;
    options.preload = given.preload != 0;
    Ok(options)
}
