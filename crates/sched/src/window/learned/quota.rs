//! What the lower levels have written since the last flush that somebody waits for.
//!
//! A drive with a volatile cache takes a write at once and pays for it later: a flush
//! waits until all that the cache holds is on the medium. No window sees that. Under a
//! [quota](super::setting::Setting::quota) what exceeds it waits for the next flush.

use super::PAUSE_NS_MAX;

/// What waits for a flush waits until [`PAUSE_NS_MAX`] after the last one has ended at most, and
/// until so many times what usually passes from one flush to the next: whoever flushes may wait
/// for what is held, as a transaction does for a page that is being written. Nothing is held from
/// then on until there is a flush: the next page may be the one that it waits for.
const HELD_INTERVALS: f64 = 8.0;
/// Weight of one in what is usual, and at most how many times that it counts as: what was held
/// may have made it so long.
const INTERVAL_PART: f64 = 1.0 / 16.0;
const INTERVAL_MAX: f64 = 2.0;

/// See the file's page.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unflushed {
    writes: u32,
    /// When the last such flush went, how many are with the device, and when one has ended.
    flushed_ns: Option<u64>,
    in_flight: u32,
    ended_ns: u64,
    /// What usually passes from one to the next.
    interval_ns: Option<f64>,
    /// There was such a flush, and a write, since [`matters`](Unflushed::matters).
    flushes: bool,
    wrote: bool,
}

impl Unflushed {
    /// Notes a write of the lower levels that goes to the device.
    pub(super) fn wrote(&mut self) {
        self.writes = self.writes.saturating_add(1);
        self.wrote = true;
    }

    /// Notes a flush that goes to the device.
    pub(super) fn flushes(&mut self, now_ns: u64) {
        self.writes = 0;
        self.in_flight += 1;
        if let Some(flushed_ns) = self.flushed_ns.replace(now_ns) {
            let passed_ns = now_ns.saturating_sub(flushed_ns).min(PAUSE_NS_MAX) as f64;
            let usual_ns = self.interval_ns.get_or_insert(passed_ns);
            let counted_ns = passed_ns.min(INTERVAL_MAX * *usual_ns);
            *usual_ns += (counted_ns - *usual_ns) * INTERVAL_PART;
        }
        self.flushes = true;
    }

    /// Notes that a flush that somebody waited for has ended.
    pub(super) fn flushed(&mut self, now_ns: u64) {
        // One that nobody waited for when it went was not counted.
        self.in_flight = self.in_flight.saturating_sub(1);
        self.ended_ns = now_ns;
    }

    /// Whether another flush may come soon.
    pub(super) fn is_awaited(&self, now_ns: u64) -> bool {
        self.flushed_ns
            .is_some_and(|flushed_ns| now_ns.saturating_sub(flushed_ns) < PAUSE_NS_MAX)
    }

    /// Whether a further write has to wait.
    pub(super) fn is_full(&self, quota: u32, now_ns: u64) -> bool {
        self.writes >= quota && self.until_ns().is_none_or(|until_ns| now_ns < until_ns)
    }

    /// From when on nothing waits, if no flush comes. Who waits for one waits for nothing else.
    pub(super) fn until_ns(&self) -> Option<u64> {
        if self.in_flight > 0 {
            return None;
        }
        let usual_ns = self.interval_ns.map(|usual_ns| usual_ns * HELD_INTERVALS);
        let held_ns = usual_ns.map_or(PAUSE_NS_MAX, |ns| PAUSE_NS_MAX.min(ns as u64 + 1));
        Some(self.ended_ns + held_ns)
    }

    /// Whether there are both flushes and writes; asks anew from now on.
    pub(super) fn matters(&mut self) -> bool {
        let matters = self.flushes && self.wrote;
        (self.flushes, self.wrote) = (false, false);
        matters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flush(unflushed: &mut Unflushed, now_ns: u64) {
        unflushed.flushes(now_ns);
        unflushed.flushed(now_ns);
    }

    #[test]
    fn what_exceeds_the_quota_waits_for_a_flush_or_a_second() {
        let mut unflushed = Unflushed::default();
        flush(&mut unflushed, 5);
        (0..2).for_each(|_| unflushed.wrote());
        assert!(unflushed.is_full(2, 6) && !unflushed.is_full(3, 6));
        let until_ns = unflushed.until_ns().unwrap();
        assert_eq!(until_ns, 5 + PAUSE_NS_MAX);
        assert!(unflushed.is_full(2, until_ns - 1) && !unflushed.is_full(2, until_ns));
        flush(&mut unflushed, 6);
        assert!(!unflushed.is_full(1, 6));
    }

    #[test]
    fn where_flushes_are_frequent_it_waits_for_a_few_of_their_intervals() {
        let mut unflushed = Unflushed::default();
        (0..100).for_each(|number| flush(&mut unflushed, number * 5_000_000));
        unflushed.wrote();
        let last_ns = 99 * 5_000_000;
        assert!(unflushed.is_full(1, last_ns + 39_000_000));
        assert!(!unflushed.is_full(1, last_ns + 41_000_000));
    }

    #[test]
    fn what_has_waited_in_vain_lets_all_go_until_the_next_flush() {
        let mut unflushed = Unflushed::default();
        (0..100).for_each(|number| flush(&mut unflushed, number * 5_000_000));
        (0..1000).for_each(|_| unflushed.wrote());
        let until_ns = unflushed.until_ns().unwrap();
        (0..50).for_each(|after| assert!(!unflushed.is_full(1, until_ns + after * 5_000_000)));
        flush(&mut unflushed, until_ns + 300_000_000);
        unflushed.wrote();
        assert!(unflushed.is_full(1, until_ns + 300_000_000));
    }

    #[test]
    fn a_flush_that_takes_long_is_not_given_more_to_do() {
        let mut unflushed = Unflushed::default();
        (0..100).for_each(|number| flush(&mut unflushed, number * 5_000_000));
        unflushed.flushes(500_000_000);
        unflushed.wrote();
        assert!(unflushed.is_full(1, 5_000_000_000));
        unflushed.flushed(5_000_000_000);
        assert!(unflushed.is_full(1, 5_039_000_000) && !unflushed.is_full(1, 5_041_000_000));
    }
}
