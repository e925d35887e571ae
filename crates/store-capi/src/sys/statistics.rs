//! Sizes and counts.

use super::pointers::{object, optional_text, put, text};
use super::store::iolane_store;
use crate::failure::{Failure, done};
use engine::{FlowStatistics, Level, RateScope, RateUnit};
use std::ffi::{c_char, c_void};
use store::Role;

/// Counts of a store since it was opened, and what it holds now.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct iolane_store_statistics {
    /// Pages found in memory.
    pub pool_hits: u64,
    /// Pages that had to be waited for.
    pub pool_misses: u64,
    /// Pages read.
    pub pool_reads: u64,
    /// Pages read ahead.
    pub pool_prefetches: u64,
    /// Of these, pages that nobody came for.
    pub pool_prefetches_wasted: u64,
    /// Frames of the pool.
    pub pool_frames: u64,
    /// Of these, free.
    pub pool_free: u64,
    /// Of these, changed and not written.
    pub pool_dirty: u64,
    /// Pages written.
    pub pages_written: u64,
    /// Syncs of tables' files.
    pub syncs: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Where the log ends.
    pub log_end: u64,
    /// Where recovery would begin.
    pub log_checkpoint: u64,
    /// Waits for room in the log.
    pub log_waits: u64,
    /// Waits for a free frame.
    pub frame_waits: u64,
    /// Transactions committed that had changed something.
    pub committed: u64,
    /// Rolled back.
    pub rolled_back: u64,
    /// Deadlocks.
    pub deadlocks: u64,
    /// Transactions that have changed something and not ended.
    pub writing: u64,
    /// Views that are open.
    pub views: u64,
    /// Row locks held.
    pub locks: u64,
    /// Transactions that have ended and whose old versions are not purged.
    pub unpurged: u64,
    /// Bytes of undo of these.
    pub unpurged_bytes: u64,
    /// Kernel name of the disk that the store lies on ("vda"), or "anonymous-MINOR" for
    /// file systems without one. A longer name is cut short.
    pub device_name: [c_char; 32],
    /// The learned window: transfers of the lower levels that may be in flight there,
    /// rounded.
    pub window_transfers: u64,
    /// Shortest latency of a transfer there that was seen lately.
    pub window_service_ns: u64,
    /// Transfers a second that the volume was seen to allow, while keeping below that
    /// pays; otherwise 0.
    pub rate_limit_transfers: u64,
    /// Bytes a second, in the same way.
    pub rate_limit_bytes: u64,
    /// 1 where the limit is one of reads, and as much of writes; 0 where it is of both
    /// together, or there is none.
    pub rate_limit_each: u64,
    /// Most writes of the lower levels between two flushes that somebody waits for, while
    /// that pays; otherwise 0.
    pub unflushed_max: u64,
}

/// Fills `statistics`. Never blocks for long; fails with IOLANE_STORE_ERROR_ARGUMENT.
/// From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_get_statistics(
    store: *const iolane_store,
    statistics: *mut iolane_store_statistics,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let store = &object(store, "store")?.0;
        let (now, device) = (store.statistics(), store.device());
        let (pool, flush) = (&now.pages.pool, &now.pages.flush);
        let window = device.snapshot().window;
        let limit = |unit| {
            let limit = window.rate_limit.filter(|limit| limit.unit == unit);
            limit.map_or(0, |limit| limit.per_second.round() as u64)
        };
        let seen = iolane_store_statistics {
            pool_hits: pool.hits,
            pool_misses: pool.misses,
            pool_reads: pool.reads,
            pool_prefetches: pool.prefetches,
            pool_prefetches_wasted: pool.prefetches_wasted,
            pool_frames: pool.frames,
            pool_free: pool.free,
            pool_dirty: pool.dirty,
            pages_written: flush.pages,
            syncs: flush.syncs,
            checkpoints: flush.checkpoints,
            log_end: now.pages.log_end.0,
            log_checkpoint: now.pages.checkpoint.0,
            log_waits: now.pages.log_waits.count,
            frame_waits: now.pages.frame_waits.count,
            committed: now.committed,
            rolled_back: now.rolled_back,
            deadlocks: now.deadlocks,
            writing: now.writing,
            views: now.views,
            locks: now.locks,
            unpurged: now.unpurged,
            unpurged_bytes: now.unpurged_bytes,
            device_name: device_name(&device.info().name),
            window_transfers: window.transfers.round() as u64,
            window_service_ns: window.service_ns,
            rate_limit_transfers: limit(RateUnit::Transfers),
            rate_limit_bytes: limit(RateUnit::Bytes),
            rate_limit_each: window
                .rate_limit
                .is_some_and(|limit| limit.scope == RateScope::Each)
                .into(),
            unflushed_max: window.unflushed_max.map_or(0, u64::from),
        };
        put(statistics, seen)
    })
}

/// With a zero byte at its end.
fn device_name<const LENGTH: usize>(name: &str) -> [c_char; LENGTH] {
    let mut bytes = [0; LENGTH];
    for (place, byte) in bytes[..LENGTH - 1].iter_mut().zip(name.bytes()) {
        *place = byte as c_char;
    }
    bytes
}

/// Sizes of a table, or of one of its indexes.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct iolane_table_statistics {
    /// Rows or entries, about.
    pub rows: u64,
    /// Levels of its tree.
    pub height: u64,
    /// Pages of its tree that are leaves.
    pub leaf_pages: u64,
    /// Pages of its tree that are branches.
    pub branch_pages: u64,
    /// Pages of the table's file.
    pub file_pages: u64,
    /// Of these, in use.
    pub used_pages: u64,
    /// Of these, pages of long values.
    pub long_pages: u64,
}

/// Fills `statistics` for a table and one of its indexes, or its primary key where
/// `index` is NULL. Reads branches and some leaves of its trees, which blocks. Fails
/// with IOLANE_STORE_ERROR_UNKNOWN_TABLE, _UNKNOWN_INDEX, _DAMAGED, _PAGES, _ARGUMENT.
/// From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_table_statistics(
    store: *const iolane_store,
    table: *const c_char,
    index: *const c_char,
    statistics: *mut iolane_table_statistics,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let index = optional_text(index, "index")?;
        let now = object(store, "store")?
            .0
            .table_statistics(text(table, "table")?)?;
        let mut trees = now.indexes.iter();
        let tree = trees.find(|tree| tree.name.as_deref() == index);
        let tree = tree.ok_or_else(|| {
            Failure::new(
                super::error::iolane_store_error::IOLANE_STORE_ERROR_UNKNOWN_INDEX,
                format!("there is no index {}", index.unwrap_or_default()),
            )
        })?;
        let seen = iolane_table_statistics {
            rows: tree.entries_estimate,
            height: tree.height.into(),
            leaf_pages: tree.leaf_pages,
            branch_pages: tree.branch_pages,
            file_pages: now.pages,
            used_pages: now.used_pages,
            long_pages: now.long_pages,
        };
        put(statistics, seen)
    })
}

/// Tells how many parts are whole in bytes that the first column of a key begins with.
pub type iolane_whole_parts = Option<
    unsafe extern "C" fn(context: *mut c_void, bytes: *const c_void, length: usize) -> usize,
>;

/// Tells how many different values the first column of a key has, about, where one value is
/// put together of several `parts`: fills `distinct`, which has room for as many, with how many
/// the first part has, the first two, and so on, and `entries` with how many entries there
/// are. `index` is NULL for the primary key. `whole_parts` is called with `context` by this
/// thread for bytes that values begin with; of an integer or a real number these are eight bytes
/// that sort as it does. Reads the branches of its tree, and for each number of parts
/// up to 32 leaves, mostly the same ones, which blocks. Fails with IOLANE_STORE_ERROR_UNKNOWN_TABLE,
/// _UNKNOWN_INDEX, _DAMAGED, _PAGES, _ARGUMENT. From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_key_statistics(
    store: *const iolane_store,
    table: *const c_char,
    index: *const c_char,
    parts: usize,
    whole_parts: iolane_whole_parts,
    context: *mut c_void,
    entries: *mut u64,
    distinct: *mut u64,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let whole_parts =
            whole_parts.ok_or_else(|| Failure::argument("whole_parts is NULL".to_owned()))?;
        let index = optional_text(index, "index")?;
        let store = &object(store, "store")?.0;
        let found = store.key_statistics(text(table, "table")?, index, parts, |bytes| {
            whole_parts(context, bytes.as_ptr().cast(), bytes.len())
        })?;
        for (at, values) in found.distinct_estimates.into_iter().enumerate() {
            put(distinct.wrapping_add(at), values)?;
        }
        put(entries, found.entries_estimate)
    })
}

/// Requests of one role, level and kind to the device under a store.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct iolane_ledger_line {
    /// What they were for: "log", "read", "scan" and so on; in static memory.
    pub role: *const c_char,
    /// Their priority: "critical", "foreground", "normal", "prefetch" or "background";
    /// in static memory.
    pub level: *const c_char,
    /// "read", "write" or "sync"; in static memory.
    pub kind: *const c_char,
    /// Completed, failed ones included.
    pub requests: u64,
    /// Bytes that were transferred.
    pub bytes: u64,
    /// Failed.
    pub errors: u64,
    /// From submission to hand-over to the device, on average.
    pub queued_ns: u64,
    /// From hand-over to completion, on average.
    pub device_ns: u64,
    /// 99 of 100 took no longer from hand-over to completion.
    pub device_p99_ns: u64,
}

/// Names with a zero byte at their end, in the order of the roles.
const ROLES: [&str; Role::COUNT] = [
    "log\0",
    "read\0",
    "scan\0",
    "index\0",
    "guess\0",
    "preflush\0",
    "checkpoint\0",
    "bulk\0",
    "backup\0",
    "check\0",
    "purge\0",
    "recovery\0",
    "space\0",
];
const LEVELS: [&str; Level::COUNT] = [
    "critical\0",
    "foreground\0",
    "normal\0",
    "prefetch\0",
    "background\0",
];

/// Puts up to `room` lines, those that have requests, into `lines`, and how many there
/// are into `count`. Since the store was opened. Takes some tens of microseconds under
/// the device's lock; fails with IOLANE_STORE_ERROR_ARGUMENT. From any thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_store_ledger(
    store: *const iolane_store,
    lines: *mut iolane_ledger_line,
    room: usize,
    count: *mut usize,
) -> i32 {
    // SAFETY: C's promise.
    done(|| unsafe {
        let ledger = object(store, "store")?.0.ledger();
        let mut found = 0;
        for role in Role::ALL {
            let of_role = ledger.role(role);
            for (level, of_level) in LEVELS.iter().zip(&of_role.levels) {
                let kinds = [
                    ("read\0", &of_level.read),
                    ("write\0", &of_level.write),
                    ("sync\0", &of_level.sync),
                ];
                for (kind, flow) in kinds.into_iter().filter(|(_, flow)| flow.requests > 0) {
                    if found < room {
                        let line = line(ROLES[role.index()], level, kind, flow);
                        put(lines.add(found), line)?;
                    }
                    found += 1;
                }
            }
        }
        put(count, found)
    })
}

fn line(role: &str, level: &str, kind: &str, flow: &FlowStatistics) -> iolane_ledger_line {
    iolane_ledger_line {
        role: role.as_ptr().cast(),
        level: level.as_ptr().cast(),
        kind: kind.as_ptr().cast(),
        requests: flow.requests,
        bytes: flow.bytes,
        errors: flow.errors,
        queued_ns: flow.queued.mean_ns() as u64,
        device_ns: flow.device.mean_ns() as u64,
        device_p99_ns: flow.device.quantile_ns(0.99),
    }
}
