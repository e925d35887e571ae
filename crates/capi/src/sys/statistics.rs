//! What a device did.

use super::file::iolane_file;
use super::pointers::{self, object};
use crate::failure::{Failure, code_of};
use ::engine::{FlowStatistics, Latency};

/// A distribution of times, in nanoseconds; 0 where nothing was counted.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct iolane_latency {
    /// Arithmetic mean.
    pub mean: u64,
    /// Half of them took no longer.
    pub p50: u64,
    /// 99 of 100 took no longer.
    pub p99: u64,
    /// 999 of 1000 took no longer.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

/// Requests of one kind on one level of a device, since the engine first used
/// it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct iolane_statistics {
    /// Completed, failed ones included.
    pub requests: u64,
    /// Bytes that were transferred.
    pub bytes: u64,
    /// Of `requests`: went to the device inside a transfer with others.
    pub merged: u64,
    /// Of `requests`: failed.
    pub errors: u64,
    /// From submission to hand-over to the device.
    pub queued: iolane_latency,
    /// From hand-over to completion.
    pub device: iolane_latency,
}

/// What the device of `file` did of one enum iolane_level and one kind of
/// request: IOLANE_READ, IOLANE_WRITE, or IOLANE_SYNC_DATA for all syncs. A
/// promoted request counts on its new level. Takes some tens of microseconds
/// under the device's lock. Fails with IOLANE_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_file_statistics(
    file: *const iolane_file,
    level: i32,
    operation: i32,
    statistics: *mut iolane_statistics,
) -> i32 {
    // SAFETY: C's promise.
    let file = unsafe { object(file, "file") };
    let flow = file.and_then(|file| {
        let device = file.0.device().statistics();
        let level = &device.levels[pointers::level(level)?.index()];
        match operation {
            0 => Ok(copied(&level.read)),
            1 => Ok(copied(&level.write)),
            2 => Ok(copied(&level.sync)),
            _ => Err(Failure::argument(format!(
                "no statistics of operation {operation}"
            ))),
        }
    });
    code_of(flow.and_then(|flow| {
        if statistics.is_null() {
            return Err(Failure::argument("statistics is NULL"));
        }
        // SAFETY: C's promise.
        unsafe { statistics.write(flow) };
        Ok(())
    }))
}

fn copied(flow: &FlowStatistics) -> iolane_statistics {
    iolane_statistics {
        requests: flow.requests,
        bytes: flow.bytes,
        merged: flow.merged,
        errors: flow.errors,
        queued: latency(&flow.queued),
        device: latency(&flow.device),
    }
}

fn latency(of: &Latency) -> iolane_latency {
    iolane_latency {
        mean: of.mean_ns() as u64,
        p50: of.quantile_ns(0.5),
        p99: of.quantile_ns(0.99),
        p999: of.quantile_ns(0.999),
        max: of.max_ns(),
    }
}

/// How many requests of the file's device are outstanding: submitted and not
/// completed. Never blocks but for the device's lock. Fails with
/// IOLANE_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_file_outstanding(file: *const iolane_file) -> i64 {
    // SAFETY: C's promise.
    let file = unsafe { object(file, "file") };
    crate::failure::number_of(file.map(|file| u64::from(file.0.device().outstanding().all.count())))
}
