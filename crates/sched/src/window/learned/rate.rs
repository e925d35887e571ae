//! What the device does a second, in the unit in which it is steadier.
//!
//! Counted without a gap while the lower levels have something outstanding: a budget is
//! used up quickly and then waited for, and an epoch may see one of both alone.

use super::super::pace::{RateLimit, RateUnit};
use super::served::Served;

/// So many blocks of so much time are looked at: a budget is one of a tenth of a second.
const BLOCKS: usize = 5;
const BLOCK_NS: u64 = 200_000_000;

/// See the file's page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    current: Served,
    blocks: [Served; BLOCKS],
    count: usize,
    /// When something ended, or the lower levels began.
    last_ns: Option<u64>,
}

impl Rate {
    /// The lower levels have nothing outstanding, or another limit is in force.
    pub(super) fn pause(&mut self) {
        self.last_ns = None;
    }

    pub(super) fn resume(&mut self, now_ns: u64) {
        self.last_ns.get_or_insert(now_ns);
    }

    /// Notes a transfer that has ended.
    pub(super) fn add(&mut self, now_ns: u64, bytes: f64) {
        let last_ns = self.last_ns.replace(now_ns).unwrap_or(now_ns);
        self.current.add(now_ns.saturating_sub(last_ns), bytes);
        if self.current.elapsed_ns >= BLOCK_NS {
            self.blocks[self.count % BLOCKS] = std::mem::take(&mut self.current);
            self.count += 1;
        }
    }

    pub(super) fn limit(&self) -> Option<RateLimit> {
        if self.count < BLOCKS {
            return None;
        }
        let mean = |unit| {
            self.blocks
                .iter()
                .map(|block| block.per_ns(unit))
                .sum::<f64>()
                / BLOCKS as f64
        };
        let spread = |unit| {
            let mean = mean(unit);
            let off = self
                .blocks
                .iter()
                .map(|block| block.per_ns(unit) / mean - 1.0);
            off.map(|off| off * off).sum::<f64>()
        };
        let unit = if spread(RateUnit::Transfers) <= spread(RateUnit::Bytes) {
            RateUnit::Transfers
        } else {
            RateUnit::Bytes
        };
        Some(RateLimit {
            unit,
            per_second: mean(unit) * 1e9,
        })
    }
}
