//! What the device does a second, in the unit in which it is steadier.
//!
//! Counted without a gap while the lower levels have something outstanding: a budget is
//! used up quickly and then waited for, and an epoch may see one of both alone. A volume may
//! have a budget for both directions, or one for each.

use super::super::pace::{RateLimit, RateScope, RateUnit};
use super::served::Served;
use crate::request::Direction;

/// So many blocks of so much time are looked at: a budget is one of a tenth of a second.
const BLOCKS: usize = 5;
const BLOCK_NS: u64 = 200_000_000;
const WAYS: [Direction; 2] = [Direction::Read, Direction::Write];

/// See the file's page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    current: Served,
    blocks: [Served; BLOCKS],
    count: usize,
    /// When a transfer of the lower levels ended last, by direction.
    lower_ns: [Option<u64>; 2],
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
    pub(super) fn add(&mut self, now_ns: u64, direction: Direction, bytes: f64, urgent: bool) {
        if !urgent {
            self.lower_ns[direction as usize] = Some(now_ns);
        }
        let last_ns = self.last_ns.replace(now_ns).unwrap_or(now_ns);
        let elapsed_ns = now_ns.saturating_sub(last_ns);
        self.current.add(elapsed_ns, direction, bytes);
        if self.current.elapsed_ns >= BLOCK_NS {
            self.blocks[self.count % BLOCKS] = std::mem::take(&mut self.current);
            self.count += 1;
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.count >= BLOCKS
    }

    /// Whether the lower levels have lately had something done in both directions.
    pub(super) fn goes_both_ways(&self) -> bool {
        let [Some(read_ns), Some(write_ns)] = self.lower_ns else {
            return false;
        };
        read_ns.abs_diff(write_ns) < BLOCKS as u64 * BLOCK_NS
    }

    /// Of both directions, or of that in which more goes.
    pub(super) fn limit(&self, scope: RateScope) -> Option<RateLimit> {
        let [(transfers, off), (bytes, bytes_off)] =
            [RateUnit::Transfers, RateUnit::Bytes].map(|unit| self.mean_and_spread(unit, scope));
        // Syncs alone have no bytes, and no spread of them that is less than any.
        let (unit, per_ns) = match bytes_off < off {
            true => (RateUnit::Bytes, bytes),
            false => (RateUnit::Transfers, transfers),
        };
        self.is_known().then_some(RateLimit {
            unit,
            scope,
            per_second: per_ns * 1e9,
        })
    }

    fn total(&self, unit: RateUnit, way: Direction) -> f64 {
        self.blocks.iter().map(|it| it.way(unit, way)).sum()
    }

    /// Of what is done per ns, and the squares of what blocks differ from that, as parts of it.
    fn mean_and_spread(&self, unit: RateUnit, scope: RateScope) -> (f64, f64) {
        let [reads, writes] = WAYS.map(|way| self.total(unit, way));
        let busier = WAYS[usize::from(writes > reads)];
        let rates = self.blocks.map(|block| {
            let amount = match scope {
                RateScope::Both => block.amount(unit, scope),
                RateScope::Each => block.way(unit, busier),
            };
            amount / block.elapsed_ns.max(1) as f64
        });
        let mean = rates.iter().sum::<f64>() / BLOCKS as f64;
        let off = rates.map(|rate| rate / mean - 1.0);
        (mean, off.iter().map(|off| off * off).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syncs_alone_have_a_rate_and_no_bytes() {
        let mut rate = Rate::default();
        for ms in 1..2000 {
            rate.add(ms * 1_000_000, Direction::Write, 0.0, false);
        }
        let limit = rate.limit(RateScope::Both).unwrap();
        assert_eq!(limit.unit, RateUnit::Transfers);
        assert!((limit.per_second - 1000.0).abs() < 1.0, "{limit:?}");
    }
}
