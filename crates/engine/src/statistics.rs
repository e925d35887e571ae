//! What a device did: counts, bytes, times, by level and kind. Always on.

mod gauge;
mod latency;
mod tag;

pub use gauge::TimeAtCount;
pub use latency::Latency;
pub use tag::{Outstanding, Tag, TagStatistics};

use iolane_sched::{Kind, Level};
use tag::Tags;

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
    fn count(&mut self, now_ns: u64, done: &Done) {
        self.requests += 1;
        self.bytes += u64::from(done.bytes);
        self.merged += u64::from(done.merged);
        self.errors += u64::from(done.failed);
        self.queued
            .record(done.dispatched_ns.saturating_sub(done.submitted_ns));
        self.device
            .record(now_ns.saturating_sub(done.dispatched_ns));
    }

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

    /// Adds `other`.
    pub fn merge(&mut self, other: &LevelStatistics) {
        self.read.merge(&other.read);
        self.write.merge(&other.write);
        self.sync.merge(&other.sync);
    }

    fn since(&self, earlier: &LevelStatistics) -> LevelStatistics {
        LevelStatistics {
            read: self.read.since(&earlier.read),
            write: self.write.since(&earlier.write),
            sync: self.sync.since(&earlier.sync),
        }
    }

    fn sum(levels: &[LevelStatistics]) -> LevelStatistics {
        let mut total = LevelStatistics::default();
        for level in levels {
            total.merge(level);
        }
        total
    }

    /// All three kinds together.
    pub fn total(&self) -> FlowStatistics {
        let mut total = self.read.clone();
        total.merge(&self.write);
        total.merge(&self.sync);
        total
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
    tags: Tags,
}

impl DeviceStatistics {
    /// All levels together.
    pub fn total(&self) -> LevelStatistics {
        LevelStatistics::sum(&self.levels)
    }

    /// Requests with a tag of this one's number.
    pub fn tag(&self, tag: Tag) -> TagStatistics {
        self.tags.get(tag.number()).cloned().unwrap_or_default()
    }

    /// Requests outstanding with a tag of this class: 0 to
    /// [`Tag::CLASSES`] - 1.
    pub fn class(&self, class: usize) -> &TimeAtCount {
        &self.tags.classes[class]
    }

    /// Adds `other`, as for a total over devices.
    pub fn merge(&mut self, other: &DeviceStatistics) {
        for (ours, theirs) in self.levels.iter_mut().zip(&other.levels) {
            ours.merge(theirs);
        }
        self.transfers += other.transfers;
        for (ours, theirs) in self.batch_sizes.iter_mut().zip(&other.batch_sizes) {
            *ours += theirs;
        }
        self.outstanding.merge(&other.outstanding);
        self.in_flight.merge(&other.in_flight);
        self.callback_panics += other.callback_panics;
        self.backend_errors += other.backend_errors;
        self.tags.merge(&other.tags);
    }

    /// What happened after `earlier`, a state of the same device. Maxima are
    /// then known to the histograms' precision only.
    pub fn since(&self, earlier: &DeviceStatistics) -> DeviceStatistics {
        let mut difference = self.clone();
        for (ours, theirs) in difference.levels.iter_mut().zip(&earlier.levels) {
            *ours = ours.since(theirs);
        }
        difference.transfers -= earlier.transfers.min(self.transfers);
        for (ours, theirs) in difference.batch_sizes.iter_mut().zip(&earlier.batch_sizes) {
            *ours = ours.saturating_sub(*theirs);
        }
        difference.outstanding = self.outstanding.since(&earlier.outstanding);
        difference.in_flight = self.in_flight.since(&earlier.in_flight);
        difference.callback_panics -= earlier.callback_panics.min(self.callback_panics);
        difference.backend_errors -= earlier.backend_errors.min(self.backend_errors);
        difference.tags = self.tags.since(&earlier.tags);
        difference
    }

    /// A request went to the device at once, on its caller's thread.
    pub(crate) fn started(&mut self, now_ns: u64, tag: Option<Tag>) {
        self.transfers += 1;
        self.in_flight.add(now_ns, 1);
        self.enqueued(now_ns, tag);
    }

    pub(crate) fn enqueued(&mut self, now_ns: u64, tag: Option<Tag>) {
        self.outstanding.add(now_ns, 1);
        if let Some(tag) = tag {
            self.tags.entered(now_ns, tag);
        }
    }

    pub(crate) fn cancelled(&mut self, now_ns: u64, tag: Option<Tag>) {
        self.outstanding.subtract(now_ns, 1);
        if let Some(tag) = tag {
            self.tags.left(now_ns, tag);
        }
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
        self.levels[level.index()]
            .flow_mut(kind)
            .count(now_ns, done);
        if let Some(tag) = done.tag {
            self.tags.left(now_ns, tag);
            let level = self.tags.level_mut(tag, level);
            level.flow_mut(kind).count(now_ns, done);
        }
    }

    /// A copy in which the time-weighted counts reach to `now_ns`.
    pub(crate) fn snapshot(&mut self, now_ns: u64) -> DeviceStatistics {
        self.settle(now_ns);
        self.clone()
    }

    /// The time-weighted counts alone.
    pub(crate) fn outstanding(&mut self, now_ns: u64) -> Outstanding {
        self.settle(now_ns);
        Outstanding {
            all: self.outstanding.clone(),
            in_flight: self.in_flight.clone(),
            classes: self.tags.classes.clone(),
        }
    }

    fn settle(&mut self, now_ns: u64) {
        self.outstanding.settle(now_ns);
        self.in_flight.settle(now_ns);
        self.tags.settle(now_ns);
    }
}

/// One finished request.
pub(crate) struct Done {
    pub submitted_ns: u64,
    pub dispatched_ns: u64,
    pub bytes: u32,
    pub merged: bool,
    pub failed: bool,
    pub tag: Option<Tag>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one_read(submitted_ns: u64, done_ns: u64) -> DeviceStatistics {
        let mut statistics = DeviceStatistics::default();
        statistics.enqueued(submitted_ns, None);
        statistics.dispatched(submitted_ns + 10_000, 1);
        let done = Done {
            submitted_ns,
            dispatched_ns: submitted_ns + 10_000,
            bytes: 512,
            merged: false,
            failed: false,
            tag: None,
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
        assert!(!statistics.levels[0].read.queued.has_memory());
        assert_eq!(statistics.levels[0].read.queued.quantile_ns(0.99), 0);
    }
}
