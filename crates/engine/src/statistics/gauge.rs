//! How long a count stood at each value.

/// The longest row of [`TimeAtCount`]: larger counts share the last entry.
const COUNT_MAX: usize = 256;

/// How long a count stood at each value.
#[derive(Clone, Debug, Default)]
pub struct TimeAtCount {
    times_ns: Vec<u64>,
    count: u32,
    since_ns: u64,
}

impl TimeAtCount {
    pub(super) fn settle(&mut self, now_ns: u64) {
        let at = (self.count as usize).min(COUNT_MAX);
        if at >= self.times_ns.len() {
            self.times_ns.resize(at + 1, 0);
        }
        // The first call only starts the clock.
        if self.since_ns != 0 {
            self.times_ns[at] += now_ns.saturating_sub(self.since_ns);
        }
        self.since_ns = self.since_ns.max(now_ns);
    }

    pub(super) fn add(&mut self, now_ns: u64, count: u32) {
        self.settle(now_ns);
        self.count += count;
    }

    pub(super) fn subtract(&mut self, now_ns: u64, count: u32) {
        self.settle(now_ns);
        debug_assert!(self.count >= count);
        self.count = self.count.saturating_sub(count);
    }

    /// Nanoseconds at each count, from 0 on; the entry for 256, if there is
    /// one, holds all larger counts too.
    pub fn times_ns(&self) -> &[u64] {
        &self.times_ns
    }

    /// The count now.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Share of the time (0 to 1) at exactly `count`; 0 when no time passed.
    pub fn share_at(&self, count: usize) -> f64 {
        let total: u64 = self.times_ns.iter().sum();
        if total == 0 {
            return 0.0;
        }
        self.times_ns.get(count).copied().unwrap_or(0) as f64 / total as f64
    }

    /// Time-weighted mean; counts above 256 enter as 256.
    pub fn mean(&self) -> f64 {
        let total: u64 = self.times_ns.iter().sum();
        if total == 0 {
            return 0.0;
        }
        let weighted: f64 = (0..)
            .zip(&self.times_ns)
            .map(|(n, &t)| f64::from(n) * t as f64)
            .sum();
        weighted / total as f64
    }

    pub(super) fn merge(&mut self, other: &TimeAtCount) {
        if self.times_ns.len() < other.times_ns.len() {
            self.times_ns.resize(other.times_ns.len(), 0);
        }
        for (ours, theirs) in self.times_ns.iter_mut().zip(&other.times_ns) {
            *ours += theirs;
        }
        self.count += other.count;
    }

    pub(super) fn since(&self, earlier: &TimeAtCount) -> TimeAtCount {
        let mut difference = self.clone();
        for (ours, theirs) in difference.times_ns.iter_mut().zip(&earlier.times_ns) {
            *ours = ours.saturating_sub(*theirs);
        }
        difference
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_weighted_by_count() {
        let mut gauge = TimeAtCount::default();
        gauge.add(1000, 2);
        gauge.subtract(1400, 1);
        gauge.subtract(1500, 1);
        gauge.settle(2000);
        assert_eq!(gauge.times_ns(), [500, 100, 400]);
        assert_eq!(gauge.share_at(0), 0.5);
        assert!((gauge.mean() - 0.9).abs() < 1e-9);
    }

    #[test]
    fn counts_beyond_the_row_share_its_last_entry() {
        let mut gauge = TimeAtCount::default();
        gauge.add(1, 5000);
        gauge.settle(11);
        assert_eq!(gauge.times_ns().len(), COUNT_MAX + 1);
        assert_eq!(gauge.times_ns()[COUNT_MAX], 10);
    }
}
