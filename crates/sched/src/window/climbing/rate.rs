//! What the device does a second, in the unit in which it is steadier.

use super::super::pace::{RateLimit, RateUnit};
use super::epoch::Seen;

/// Epochs, and so much time, before it is known.
const EPOCHS_MIN: u32 = 2;
const NS_MIN: f64 = 100e6;
/// An epoch counts this much less with each that follows.
const KEEP: f64 = 0.9;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    count: u32,
    elapsed_ns: f64,
    transfers: f64,
    bytes: f64,
    /// Sums of squares of rates, by time.
    transfers_sq: f64,
    bytes_sq: f64,
    total_ns: f64,
}

impl Rate {
    pub(super) fn add(&mut self, seen: &Seen) {
        self.count += 1;
        self.total_ns += seen.elapsed_ns;
        let keep = |sum: &mut f64, more: f64| *sum = *sum * KEEP + more;
        keep(&mut self.elapsed_ns, seen.elapsed_ns);
        keep(&mut self.transfers, seen.transfers);
        keep(&mut self.bytes, seen.bytes);
        keep(
            &mut self.transfers_sq,
            seen.transfers * seen.transfers / seen.elapsed_ns,
        );
        keep(
            &mut self.bytes_sq,
            seen.bytes * seen.bytes / seen.elapsed_ns,
        );
    }

    pub(super) fn limit(&self) -> Option<RateLimit> {
        if self.count < EPOCHS_MIN || self.total_ns < NS_MIN {
            return None;
        }
        let spread = |sum: f64, squares: f64| squares * self.elapsed_ns / (sum * sum).max(1.0);
        let by_count = spread(self.transfers, self.transfers_sq);
        let by_bytes = spread(self.bytes, self.bytes_sq);
        let (unit, sum) = if by_count <= by_bytes {
            (RateUnit::Transfers, self.transfers)
        } else {
            (RateUnit::Bytes, self.bytes)
        };
        Some(RateLimit {
            unit,
            per_second: sum / self.elapsed_ns * 1e9,
        })
    }
}
