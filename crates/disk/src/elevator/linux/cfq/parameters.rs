//! What can be set.

use crate::model::ParameterError;
use iolane_sched::Level;
use serde::{Deserialize, Serialize};

/// Parameters of [`Cfq`](super::Cfq), with the defaults of Linux 2.6
/// (Documentation/block/cfq-iosched.txt; values from the table at the top of
/// `block/cfq-iosched.c` where that page gives none).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CfqParameters {
    /// Requests of a queue in the drive at once; four times as many while no
    /// other queue has any (`quantum`).
    pub quantum: u32,
    /// Milliseconds of the disk for a process in a row, at priority 4
    /// (`slice_sync`). A fifth more or less for each priority above or below.
    pub slice_sync_ms: u32,
    /// The same for requests that nobody waits for (`slice_async`).
    pub slice_async_ms: u32,
    /// Bounds the number of such requests in a slice (`slice_async_rq`): twice
    /// this at priority 7, and twice this more for each priority above.
    pub slice_async_requests: u32,
    /// Milliseconds that the disk is kept idle for a process (`slice_idle`). 0
    /// turns that off.
    pub slice_idle_ms: u32,
    /// The same for a process that seeks: just long enough for it to submit
    /// (`CFQ_MIN_TT`, two clock ticks of 1 ms).
    pub seeky_idle_ms: u32,
    /// A process seeks if it goes this far on average, in bytes (`CIC_SEEKY`:
    /// 8192 sectors).
    pub seeky_bytes: u64,
    /// A drive that has held this many at once has a queue of its own; then
    /// the disk is not kept idle for processes that seek
    /// (`CFQ_HW_QUEUE_MIN`).
    pub queueing_depth_min: u32,
    /// A request that somebody waits for goes first in its queue's slice this
    /// long after its submission, in milliseconds (`fifo_expire_sync`).
    pub fifo_expire_sync_ms: u32,
    /// The same for one that nobody waits for (`fifo_expire_async`).
    pub fifo_expire_async_ms: u32,
    /// How far the head may turn back, in bytes (`back_seek_max`).
    pub back_seek_max_bytes: u64,
    /// How many times as far the head would rather go forwards
    /// (`back_seek_penalty`).
    pub back_seek_penalty: u64,
    /// Priority in the best-effort class, 0 (highest) to 7, of the five levels,
    /// `Critical` first. Linux's own default is 4, which is what `Normal` gets
    /// (Documentation/block/ioprio.txt); the others are spread around it.
    pub io_priorities: [u8; Level::COUNT],
}

impl Default for CfqParameters {
    fn default() -> CfqParameters {
        CfqParameters {
            quantum: 4,
            slice_sync_ms: 100,
            slice_async_ms: 40,
            slice_async_requests: 2,
            slice_idle_ms: 8,
            seeky_idle_ms: 2,
            seeky_bytes: 4 << 20,
            queueing_depth_min: 5,
            fifo_expire_sync_ms: 125,
            fifo_expire_async_ms: 250,
            back_seek_max_bytes: 16 << 20,
            back_seek_penalty: 2,
            io_priorities: [0, 2, 4, 6, 7],
        }
    }
}

const MS: u64 = 1_000_000;
/// Priorities in the best-effort class.
const PRIORITIES: u8 = 8;

impl CfqParameters {
    pub(super) fn validate(&self) -> Result<(), ParameterError> {
        let positive = [
            ("quantum", self.quantum),
            ("slice_sync_ms", self.slice_sync_ms),
            ("slice_async_ms", self.slice_async_ms),
            ("slice_async_requests", self.slice_async_requests),
        ];
        for (name, value) in positive {
            if value == 0 {
                return Err(ParameterError::new(name, 0, "must be at least 1"));
            }
        }
        for priority in self.io_priorities {
            if priority >= PRIORITIES {
                return Err(ParameterError::new(
                    "io_priorities",
                    priority,
                    "must be 0 to 7",
                ));
            }
        }
        Ok(())
    }

    /// Length of a slice: base + base / 5 * (4 - priority).
    pub(super) fn slice_ns(&self, sync: bool, priority: u8) -> u64 {
        let base_ms = if sync {
            self.slice_sync_ms
        } else {
            self.slice_async_ms
        };
        u64::from(base_ms) * MS * (9 - u64::from(priority)) / 5
    }

    /// Requests that nobody waits for in one slice.
    pub(super) fn async_requests_max(&self, priority: u8) -> u32 {
        2 * self.slice_async_requests * u32::from(PRIORITIES - priority)
    }

    pub(super) fn fifo_expire_ns(&self, sync: bool) -> u64 {
        let ms = if sync {
            self.fifo_expire_sync_ms
        } else {
            self.fifo_expire_async_ms
        };
        u64::from(ms) * MS
    }

    pub(super) fn slice_idle_ns(&self) -> u64 {
        u64::from(self.slice_idle_ms) * MS
    }

    pub(super) fn seeky_idle_ns(&self) -> u64 {
        u64::from(self.seeky_idle_ms.min(self.slice_idle_ms)) * MS
    }
}
