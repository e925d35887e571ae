//! What the device does a second, in the unit and of the transfers in which it is steadiest.
//!
//! Counted without a gap while the lower levels have something outstanding, or soon have
//! again: a budget is used up quickly and then waited for, and an epoch may see one of both
//! alone. A volume may have a budget for both directions, or one for each.

use super::super::pace::{RateLimit, RateScope, RateUnit};
use super::epoch::GAP_KEEP;
use super::served::Served;
use crate::request::Direction;

/// So many blocks are looked at: a budget is one of a tenth of a second. A block ends at the first
/// burst after the least time, or at the longest without one.
const BLOCKS: usize = 8;
const BLOCK_NS: u64 = 100_000_000;
const BLOCK_NS_MAX: u64 = 300_000_000;
const WAYS: [Direction; 2] = [Direction::Read, Direction::Write];

/// See the file's page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rate {
    /// Whole bursts with the pauses behind them, and since the last one began.
    current: Served,
    tail: Served,
    /// The tail began where a budget may have been saved up, and does not count.
    is_cut: bool,
    blocks: [Served; BLOCKS],
    count: usize,
    /// When something ended, or the lower levels began.
    last_ns: Option<u64>,
    /// Since when the lower levels have had nothing outstanding, and what has ended then.
    idle: Option<(u64, Served)>,
    /// Since the last transfer of the lower levels, and the longest such time of late.
    gap_ns: u64,
    longest_ns: u64,
}

impl Rate {
    /// There is no foreground, or a pace is in force: that time does not count.
    pub(super) fn end(&mut self) {
        if self.last_ns.is_some() {
            self.forget_longest();
        }
        self.idle = None;
        self.cut();
    }

    /// Nor does the burst that such a time interrupts: what of a budget it did not use up may be
    /// saved, and served in the next one.
    fn cut(&mut self) {
        self.tail = Served::default();
        self.is_cut = true;
        self.last_ns = None;
        self.gap_ns = 0;
    }

    /// The lower levels have nothing outstanding.
    pub(super) fn pause(&mut self, now_ns: u64) {
        if self.last_ns.is_some() {
            self.idle.get_or_insert((now_ns, Served::default()));
        }
    }

    /// They have again. A pause no longer than those that the device makes is not theirs: whoever
    /// reads, looks at it and reads on uses all of a budget.
    pub(super) fn resume(&mut self, now_ns: u64, gap_ns: f64) {
        if let Some((since_ns, served)) = self.idle.take() {
            if now_ns.saturating_sub(since_ns) as f64 <= gap_ns {
                self.gap_ns += served.elapsed_ns;
                self.tail.merge(served);
            } else {
                self.cut();
            }
        }
        self.last_ns.get_or_insert(now_ns);
    }

    /// Notes a transfer that has ended.
    pub(super) fn add(&mut self, now_ns: u64, direction: Direction, bytes: f64, urgent: bool) {
        let last_ns = self.last_ns.replace(now_ns).unwrap_or(now_ns);
        let elapsed_ns = now_ns.saturating_sub(last_ns);
        if let Some((_, served)) = &mut self.idle {
            served.add(elapsed_ns, direction, bytes);
            return;
        }
        self.tail.elapsed_ns += elapsed_ns;
        self.gap_ns += elapsed_ns;
        // Before it counts: it is the first of the next burst.
        if !urgent {
            self.end_burst();
        }
        self.tail.add(0, direction, bytes);
    }

    /// A burst follows one of the longest pauses. So a block has whole bursts with the pauses behind
    /// them, and its rate is the budget's.
    fn end_burst(&mut self) {
        let gap_ns = std::mem::take(&mut self.gap_ns);
        self.longest_ns = self.longest_ns.max(gap_ns);
        let elapsed_ns = self.current.elapsed_ns + self.tail.elapsed_ns;
        if 2 * gap_ns < self.longest_ns && elapsed_ns < BLOCK_NS_MAX {
            return;
        }
        let tail = std::mem::take(&mut self.tail);
        if std::mem::take(&mut self.is_cut) {
            return;
        }
        self.current.merge(tail);
        if elapsed_ns >= BLOCK_NS {
            self.blocks[self.count % BLOCKS] = std::mem::take(&mut self.current);
            self.count += 1;
            self.forget_longest();
        }
    }

    /// By and by: what was a long pause may have become a rare one.
    fn forget_longest(&mut self) {
        self.longest_ns = (self.longest_ns as f64 * GAP_KEEP) as u64;
    }

    pub(super) fn is_known(&self) -> bool {
        self.count >= BLOCKS
    }

    /// In the unit and of the transfers in which it is steadiest. Syncs alone have no bytes.
    pub(super) fn limit(&self) -> Option<RateLimit> {
        if !self.is_known() {
            return None;
        }
        let kinds = [RateUnit::Transfers, RateUnit::Bytes]
            .into_iter()
            .flat_map(|unit| [RateScope::Both, RateScope::Each].map(|scope| (unit, scope)));
        let seen = kinds.map(|kind @ (unit, scope)| (kind, self.mean_and_spread(unit, scope)));
        let steadiest = seen
            .filter(|(_, (per_ns, _))| *per_ns > 0.0)
            .min_by(|(_, (_, one)), (_, (_, other))| one.total_cmp(other));
        let ((unit, scope), (per_ns, _)) = steadiest?;
        Some(RateLimit {
            unit,
            scope,
            per_second: per_ns * 1e9,
        })
    }

    fn total(&self, unit: RateUnit, way: Direction) -> f64 {
        self.blocks.iter().map(|it| it.way(unit, way)).sum()
    }

    /// Of what is done per ns, and the squares of what blocks differ from that. They are parts of
    /// the busier direction's for either scope: as parts of both, steady writes would make any
    /// reads look steadier.
    fn mean_and_spread(&self, unit: RateUnit, scope: RateScope) -> (f64, f64) {
        let [reads, writes] = WAYS.map(|way| self.total(unit, way));
        let busier = WAYS[usize::from(writes > reads)];
        let per_ns = |block: Served, amount: f64| amount / block.elapsed_ns.max(1) as f64;
        let one = self.blocks.map(|it| per_ns(it, it.way(unit, busier)));
        let rates = match scope {
            RateScope::Both => self.blocks.map(|it| per_ns(it, it.amount(unit, scope))),
            RateScope::Each => one,
        };
        let [mean, scale] = [rates, one].map(|rates| rates.iter().sum::<f64>() / BLOCKS as f64);
        let off = rates.map(|rate| (rate - mean) / scale);
        (mean, off.iter().map(|off| off * off).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Of transfers, each with its time, direction, bytes and whether somebody waits for it.
    fn rate(transfers: impl Iterator<Item = (u64, Direction, f64, bool)>) -> Rate {
        let mut rate = Rate::default();
        for (now_ns, direction, bytes, urgent) in transfers {
            rate.resume(now_ns, 0.0);
            rate.add(now_ns, direction, bytes, urgent);
        }
        rate
    }

    #[test]
    fn syncs_alone_have_a_rate_and_no_bytes() {
        let syncs = (1..2000).map(|number| (number * MS, Direction::Write, 0.0, false));
        let limit = rate(syncs).limit().unwrap();
        assert_eq!(limit.unit, RateUnit::Transfers);
        assert!((limit.per_second - 1000.0).abs() < 1.0, "{limit:?}");
    }

    /// Four or eight reads at once, of the same bytes, in each tenth of a second, and a foreground's
    /// small writes at all times.
    #[test]
    fn a_budget_that_bursts_use_up_is_steadier_than_a_foreground() {
        let mut transfers = Vec::new();
        for slice in 0..30 {
            let begin_ns = slice * 100 * MS;
            let reads = 4 << (slice % 2);
            for read in 0..reads {
                let bytes = 2e6 / reads as f64;
                transfers.push((begin_ns + read * MS / 10, Direction::Read, bytes, false));
            }
            for write in 0..10 + slice % 7 {
                transfers.push((
                    begin_ns + (write + 1) * 6 * MS,
                    Direction::Write,
                    4096.0,
                    true,
                ));
            }
        }
        transfers.sort_by_key(|transfer| transfer.0);
        let limit = rate(transfers.into_iter()).limit().unwrap();
        assert_eq!(limit.unit, RateUnit::Bytes);
        assert_eq!(limit.scope, RateScope::Each);
        assert!((limit.per_second / 20e6 - 1.0).abs() < 0.01, "{limit:?}");
    }

    /// Each slice has a budget of 300, of which writes that somebody waits for take theirs;
    /// reads, all at once, what is left of it, or of one of their own. The host is late now
    /// and then.
    fn is_found(scope: RateScope, writes: impl Fn(u64) -> u64) {
        let mut transfers = Vec::new();
        let mut begin_ns = 0;
        for slice in 0..40 {
            let long_ns = (95 + 10 * (slice * 7 % 5) / 4) * MS;
            let writes = writes(slice);
            let reads = 300 - u64::from(scope == RateScope::Both) * writes;
            let read = |read| (begin_ns + read * MS / 100, Direction::Read, 16384.0, false);
            transfers.extend((0..reads).map(read));
            let write = |write| {
                let when_ns = begin_ns + long_ns * (write + 1) / (writes + 1);
                (when_ns, Direction::Write, 4096.0, true)
            };
            transfers.extend((0..writes).map(write));
            begin_ns += long_ns;
        }
        transfers.sort_by_key(|transfer| transfer.0);
        let limit = rate(transfers.into_iter()).limit().unwrap();
        assert_eq!(
            (limit.unit, limit.scope),
            (RateUnit::Transfers, scope),
            "{limit:?}"
        );
        assert!((limit.per_second / 3000.0 - 1.0).abs() < 0.03, "{limit:?}");
    }

    #[test]
    fn steady_writes_beside_a_budget_of_reads_are_not_taken_for_a_part_of_it() {
        is_found(RateScope::Each, |_| 70);
    }

    #[test]
    fn a_budget_of_both_is_seen_where_writes_change() {
        is_found(RateScope::Both, |slice| 40 + slice * 11 % 60);
    }

    /// Slices of 300 reads, of which the first after each pace has half as many again.
    #[test]
    fn what_a_pace_has_left_is_not_taken_for_the_rate() {
        let mut rate = Rate::default();
        let mut begin_ns = 0;
        for _ in 0..12 {
            rate.end();
            begin_ns += 350 * MS;
            for reads in [450, 300, 300, 300] {
                for read in 0..reads {
                    let now_ns = begin_ns + read * MS / 100;
                    rate.resume(now_ns, 0.0);
                    rate.add(now_ns, Direction::Read, 16384.0, false);
                }
                begin_ns += 100 * MS;
            }
        }
        let limit = rate.limit().unwrap();
        assert!((limit.per_second / 3000.0 - 1.0).abs() < 0.01, "{limit:?}");
    }
}
