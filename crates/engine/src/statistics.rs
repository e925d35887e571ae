//! What a device did: counts, bytes, times, by level and kind. Always on.

use hdrhistogram::Histogram;
use iolane_sched::{Kind, Level};

/// Longest time that is told apart: 1000 s.
const LATENCY_NS_MAX: u64 = 1_000_000_000_000;
/// Times below 131 us are kept to 0.5 us, above to 1 % (2 significant digits).
const LATENCY_NS_MIN: u64 = 1000;
/// What a new histogram reaches to before it has to grow.
const LATENCY_NS_FIRST: u64 = 16_000_000;

/// A distribution of times.
///
/// Made on first use and grown by need: an unused one takes 8 bytes, one of a
/// fast disk 4 KiB. Each bucket counts to 2^32 - 1 and stays there.
#[derive(Clone, Debug, Default)]
pub struct Latency(Option<Box<Histogram<u32>>>);

impl Latency {
    pub(crate) fn record(&mut self, time_ns: u64) {
        let histogram = self.0.get_or_insert_with(|| Box::new(new_histogram()));
        // Cannot fail: it resizes by itself, and the value is bounded.
        let _ = histogram.record(time_ns.min(LATENCY_NS_MAX));
    }

    /// How many were recorded.
    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, |histogram| histogram.len())
    }

    /// Arithmetic mean; 0 when nothing was recorded.
    pub fn mean_ns(&self) -> f64 {
        self.0.as_ref().map_or(0.0, |histogram| histogram.mean())
    }

    /// The time that the share `quantile` (0 to 1) did not exceed.
    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        self.0
            .as_ref()
            .map_or(0, |histogram| histogram.value_at_quantile(quantile))
    }

    /// The longest.
    pub fn max_ns(&self) -> u64 {
        self.0.as_ref().map_or(0, |histogram| histogram.max())
    }

    /// Adds what `other` recorded.
    pub fn merge(&mut self, other: &Latency) {
        if let Some(theirs) = &other.0 {
            let ours = self.0.get_or_insert_with(|| Box::new(new_histogram()));
            // Cannot fail: `ours` resizes by itself.
            let _ = ours.add(theirs.as_ref());
        }
    }

    fn since(&self, earlier: &Latency) -> Latency {
        let mut difference = self.clone();
        if let (Some(ours), Some(theirs)) = (&mut difference.0, &earlier.0) {
            // Fails where `earlier` is not an earlier state of the same
            // device; the later state alone is then the best answer.
            let _ = ours.subtract(theirs.as_ref());
        }
        difference
    }
}

fn new_histogram() -> Histogram<u32> {
    let mut histogram = Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_FIRST, 2)
        .expect("constants are valid bounds");
    histogram.auto(true);
    histogram
}

/// Requests of one kind on one level.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct FlowStatistics {
    /// Completed, failed ones included.
    pub requests: u64,
    /// Bytes that were transferred.
    pub bytes: u64,
    /// Of `requests`: went to the device inside a transfer with others.
    pub merged: u64,
    /// Of `requests`: failed.
    pub errors: u64,
    /// From submission to hand-over to the device.
    pub queued: Latency,
    /// From hand-over to completion.
    pub device: Latency,
}

impl FlowStatistics {
    /// Adds `other`.
    pub fn merge(&mut self, other: &FlowStatistics) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.merged += other.merged;
        self.errors += other.errors;
        self.queued.merge(&other.queued);
        self.device.merge(&other.device);
    }

    fn since(&self, earlier: &FlowStatistics) -> FlowStatistics {
        FlowStatistics {
            requests: self.requests.saturating_sub(earlier.requests),
            bytes: self.bytes.saturating_sub(earlier.bytes),
            merged: self.merged.saturating_sub(earlier.merged),
            errors: self.errors.saturating_sub(earlier.errors),
            queued: self.queued.since(&earlier.queued),
            device: self.device.since(&earlier.device),
        }
    }
}

/// Requests of one level.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct LevelStatistics {
    /// Reads.
    pub read: FlowStatistics,
    /// Writes.
    pub write: FlowStatistics,
    /// Syncs.
    pub sync: FlowStatistics,
}

impl LevelStatistics {
    fn flow_mut(&mut self, kind: Kind) -> &mut FlowStatistics {
        match kind {
            Kind::Read => &mut self.read,
            Kind::Write => &mut self.write,
            Kind::Sync => &mut self.sync,
        }
    }

    /// All three kinds together.
    pub fn total(&self) -> FlowStatistics {
        let mut total = self.read.clone();
        total.merge(&self.write);
        total.merge(&self.sync);
        total
    }
}

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
    fn settle(&mut self, now_ns: u64) {
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

    fn add(&mut self, now_ns: u64, count: u32) {
        self.settle(now_ns);
        self.count += count;
    }

    fn subtract(&mut self, now_ns: u64, count: u32) {
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

    fn merge(&mut self, other: &TimeAtCount) {
        if self.times_ns.len() < other.times_ns.len() {
            self.times_ns.resize(other.times_ns.len(), 0);
        }
        for (ours, theirs) in self.times_ns.iter_mut().zip(&other.times_ns) {
            *ours += theirs;
        }
        self.count += other.count;
    }

    fn since(&self, earlier: &TimeAtCount) -> TimeAtCount {
        let mut difference = self.clone();
        for (ours, theirs) in difference.times_ns.iter_mut().zip(&earlier.times_ns) {
            *ours = ours.saturating_sub(*theirs);
        }
        difference
    }
}

/// How many rows [`DeviceStatistics::batch_sizes`] has.
pub const BATCH_SIZES: usize = 11;

/// What one device did since the engine first used it, or between two moments
/// ([`since`](DeviceStatistics::since)).
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use iolane::{Engine, Level, OpenOptions};
/// # let dir = tempfile::tempdir()?;
/// let engine = Engine::new()?;
/// let file = engine.open(
///     dir.path().join("data"),
///     OpenOptions::new().read(true).write(true).create(true),
/// )?;
/// let before = file.device().statistics();
/// file.write_at(&[0; 4096], 0, Level::Background)?;
/// let written = file.device().statistics().since(&before);
/// let background = &written.levels[Level::Background.index()];
/// assert_eq!(background.write.requests, 1);
/// assert_eq!(background.write.bytes, 4096);
/// assert_eq!(background.write.device.count(), 1);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct DeviceStatistics {
    /// By level, `Critical` first. A promoted request counts on its new level.
    pub levels: [LevelStatistics; Level::COUNT],
    /// Transfers handed to the device; fewer than requests where some merged.
    pub transfers: u64,
    /// How many transfers each hand-over of the driver carried: entry `i`
    /// counts those of 2^i to 2^(i+1) - 1, the last also all larger ones.
    pub batch_sizes: [u64; BATCH_SIZES],
    /// Requests submitted and not completed.
    pub outstanding: TimeAtCount,
    /// Requests handed to the device and not completed.
    pub in_flight: TimeAtCount,
    /// Completion callbacks that panicked.
    pub callback_panics: u64,
    /// System calls of the asynchronous backend that failed as a whole, and
    /// were tried again.
    pub backend_errors: u64,
}

impl DeviceStatistics {
    /// All levels together.
    pub fn total(&self) -> LevelStatistics {
        let mut total = LevelStatistics::default();
        for level in &self.levels {
            total.read.merge(&level.read);
            total.write.merge(&level.write);
            total.sync.merge(&level.sync);
        }
        total
    }

    /// Adds `other`, as for a total over devices.
    pub fn merge(&mut self, other: &DeviceStatistics) {
        for (ours, theirs) in self.levels.iter_mut().zip(&other.levels) {
            ours.read.merge(&theirs.read);
            ours.write.merge(&theirs.write);
            ours.sync.merge(&theirs.sync);
        }
        self.transfers += other.transfers;
        for (ours, theirs) in self.batch_sizes.iter_mut().zip(&other.batch_sizes) {
            *ours += theirs;
        }
        self.outstanding.merge(&other.outstanding);
        self.in_flight.merge(&other.in_flight);
        self.callback_panics += other.callback_panics;
        self.backend_errors += other.backend_errors;
    }

    /// What happened after `earlier`, a state of the same device. Maxima are
    /// then known to the histograms' precision only.
    pub fn since(&self, earlier: &DeviceStatistics) -> DeviceStatistics {
        let mut difference = self.clone();
        for (ours, theirs) in difference.levels.iter_mut().zip(&earlier.levels) {
            ours.read = ours.read.since(&theirs.read);
            ours.write = ours.write.since(&theirs.write);
            ours.sync = ours.sync.since(&theirs.sync);
        }
        difference.transfers -= earlier.transfers.min(self.transfers);
        for (ours, theirs) in difference.batch_sizes.iter_mut().zip(&earlier.batch_sizes) {
            *ours = ours.saturating_sub(*theirs);
        }
        difference.outstanding = self.outstanding.since(&earlier.outstanding);
        difference.in_flight = self.in_flight.since(&earlier.in_flight);
        difference.callback_panics -= earlier.callback_panics.min(self.callback_panics);
        difference.backend_errors -= earlier.backend_errors.min(self.backend_errors);
        difference
    }

    /// A request went to the device at once, on its caller's thread.
    pub(crate) fn started(&mut self, now_ns: u64) {
        self.transfers += 1;
        self.outstanding.add(now_ns, 1);
        self.in_flight.add(now_ns, 1);
    }

    pub(crate) fn enqueued(&mut self, now_ns: u64) {
        self.outstanding.add(now_ns, 1);
    }

    pub(crate) fn cancelled(&mut self, now_ns: u64) {
        self.outstanding.subtract(now_ns, 1);
    }

    /// A transfer of `requests` goes to the device.
    pub(crate) fn dispatched(&mut self, now_ns: u64, requests: u32) {
        self.transfers += 1;
        self.in_flight.add(now_ns, requests);
    }

    /// The driver handed over `transfers` at once.
    pub(crate) fn handed_over(&mut self, transfers: usize) {
        if transfers > 0 {
            self.batch_sizes[(transfers.ilog2() as usize).min(BATCH_SIZES - 1)] += 1;
        }
    }

    pub(crate) fn completed(&mut self, now_ns: u64, level: Level, kind: Kind, done: &Done) {
        self.outstanding.subtract(now_ns, 1);
        self.in_flight.subtract(now_ns, 1);
        let flow = self.levels[level.index()].flow_mut(kind);
        flow.requests += 1;
        flow.bytes += u64::from(done.bytes);
        flow.merged += u64::from(done.merged);
        flow.errors += u64::from(done.failed);
        flow.queued
            .record(done.dispatched_ns.saturating_sub(done.submitted_ns));
        flow.device
            .record(now_ns.saturating_sub(done.dispatched_ns));
    }

    /// A copy in which the time-weighted counts reach to `now_ns`.
    pub(crate) fn snapshot(&mut self, now_ns: u64) -> DeviceStatistics {
        self.outstanding.settle(now_ns);
        self.in_flight.settle(now_ns);
        self.clone()
    }
}

/// One finished request.
pub(crate) struct Done {
    pub submitted_ns: u64,
    pub dispatched_ns: u64,
    pub bytes: u32,
    pub merged: bool,
    pub failed: bool,
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

    fn one_read(submitted_ns: u64, done_ns: u64) -> DeviceStatistics {
        let mut statistics = DeviceStatistics::default();
        statistics.enqueued(submitted_ns);
        statistics.dispatched(submitted_ns + 10_000, 1);
        let done = Done {
            submitted_ns,
            dispatched_ns: submitted_ns + 10_000,
            bytes: 512,
            merged: false,
            failed: false,
        };
        statistics.completed(done_ns, Level::Normal, Kind::Read, &done);
        statistics
    }

    #[test]
    fn a_difference_and_a_sum_undo_each_other() {
        let first = one_read(1_000, 100_000);
        let second = one_read(1_000, 7_000_000_000);
        let mut both = first.clone();
        both.merge(&second);
        assert_eq!(both.total().read.requests, 2);
        assert!(both.total().read.device.max_ns() >= 6_900_000_000);
        let rest = both.since(&first);
        assert_eq!(rest.total().read.requests, 1);
        assert_eq!(rest.total().read.device.count(), 1);
        assert!(rest.total().read.device.quantile_ns(0.5) >= 6_900_000_000);
        assert_eq!(rest.total().read.bytes, 512);
    }

    #[test]
    fn unused_flows_hold_no_histogram() {
        let statistics = one_read(1, 2);
        assert!(statistics.levels[0].read.queued.0.is_none());
        assert_eq!(statistics.levels[0].read.queued.quantile_ns(0.99), 0);
    }

    #[test]
    fn times_are_bounded() {
        let mut latency = Latency::default();
        latency.record(u64::MAX);
        latency.record(0);
        assert_eq!(latency.count(), 2);
        assert!(latency.max_ns() < 2 * LATENCY_NS_MAX);
    }
}
