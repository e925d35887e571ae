//! What one run found out, as it stands in documents.

use iolane::{FlowStatistics, Level, TimeAtCount};
use iolane_store::{FileClass, Ledger, Role};
use serde::Serialize;

use super::Setting;
use super::limit::DeviceRates;
use crate::args::store_bench::Beside;
use crate::bench::knee::Knee;
use crate::bench::load::Load;
use crate::bench::spread::Spread;
use crate::inflight::{CpuDocument, CpuTime};

/// One setting, once or over repetitions.
#[derive(Clone, Debug, Serialize)]
pub struct StoreRun {
    #[serde(flatten)]
    pub setting: Setting,
    /// An operation is a row, or a transaction.
    #[serde(flatten)]
    pub load: Load,
    pub gaps: Gaps,
    pub background: Vec<BackgroundRun>,
    /// Requests outstanding on the store's files.
    pub outstanding: OutstandingDocument,
    /// Pages read and written, by what for.
    pub ledger: Vec<LedgerRow>,
    pub counts: StoreCounts,
    /// `null` where it did not only read.
    pub of_device: Option<OfDevice>,
    pub cpu: CpuDocument,
    /// Of the first repetition.
    pub timeline: Vec<Slice>,
    #[serde(skip)]
    pub cpu_time: CpuTime,
    #[serde(skip)]
    pub source: Ledger,
}

/// What was read, of what the device read in the same way without a store right
/// before and after.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OfDevice {
    /// The median of the repetitions.
    pub share: f64,
    /// Of each repetition.
    pub shares: Vec<f64>,
    /// Of the device.
    pub bytes_per_second: Vec<f64>,
    /// Of what it read into as much memory as the pool has, 64 MiB at the most.
    pub share_into_pool: f64,
    pub shares_into_pool: Vec<f64>,
    /// The same, times what it read with as many at once as fill it over what it read
    /// at its knee, both before all runs; `null` where it did not read single pages.
    pub share_of_knee: Option<f64>,
}

impl OfDevice {
    fn new(read_bytes_per_second: f64, device: DeviceRates) -> Self {
        let share = read_bytes_per_second / device.least_memory.max(1.0);
        let share_into_pool = read_bytes_per_second / device.into_pool.max(1.0);
        Self {
            share,
            shares: vec![share],
            bytes_per_second: vec![device.least_memory],
            share_into_pool,
            shares_into_pool: vec![share_into_pool],
            share_of_knee: None,
        }
    }

    /// The device reads single pages, with as many at once as fill it, and before all
    /// runs it read so many with less.
    pub fn hold_against_knee(&mut self, random: &Knee) {
        let more = random.full.operations_per_second / random.knee.operations_per_second.max(1.0);
        self.share_of_knee = Some(self.share * more);
    }

    fn add(&mut self, other: Self) {
        self.shares.extend(other.shares);
        self.bytes_per_second.extend(other.bytes_per_second);
        self.shares_into_pool.extend(other.shares_into_pool);
        let medians = [
            (&self.shares, &mut self.share),
            (&self.shares_into_pool, &mut self.share_into_pool),
        ];
        for (shares, median) in medians {
            if let Some(all) = Spread::of(shares.clone()) {
                *median = all.median;
            }
        }
    }

    /// The least and the greatest, if there are several.
    pub fn spread(shares: &[f64]) -> Option<(f64, f64)> {
        let all = Spread::of(shares.to_vec())?;
        (all.samples.len() > 1).then_some((all.min, all.max))
    }
}

/// Times in which nothing of the measured work ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Gaps {
    pub above_10_ms: u64,
    pub longest_ns: u64,
    /// Of them, those that were none without the time in which the disk
    /// completed nothing. `None`: it cannot be told.
    pub disk: Option<u64>,
    /// Of the others, those that were none without the time in which the
    /// machine ran nobody, either.
    pub machine: Option<u64>,
    /// Of the rest.
    pub longest_own_ns: u64,
    /// Whether the machine's stops, in at least one repetition, ended as those of a
    /// quota of the processors' time do.
    pub cpu_quota: bool,
}

impl Gaps {
    /// Those that are the store's.
    pub fn own(self) -> u64 {
        self.above_10_ms - self.disk.unwrap_or_default() - self.machine.unwrap_or_default()
    }

    fn add(&mut self, other: Gaps) {
        let both = |one: Option<u64>, other: Option<u64>| Some(one? + other?);
        self.above_10_ms += other.above_10_ms;
        self.longest_ns = self.longest_ns.max(other.longest_ns);
        self.disk = both(self.disk, other.disk);
        self.machine = both(self.machine, other.machine);
        self.longest_own_ns = self.longest_own_ns.max(other.longest_own_ns);
        self.cpu_quota |= other.cpu_quota;
    }
}

/// What went on beside it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BackgroundRun {
    pub what: Beside,
    /// Rows read or changed.
    pub rows: u64,
    pub rows_per_second: f64,
}

/// What the store counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct StoreCounts {
    pub pages_read: u64,
    pub pages_read_ahead: u64,
    pub pages_read_ahead_unused: u64,
    pub pages_written: u64,
    /// Times that the log's checkpoint was moved.
    pub checkpoints: u64,
    /// Checkpoints that a background asked for and got.
    pub checkpoints_asked: u64,
    /// Waits for a free frame, and how long they were in all.
    pub frame_waits: u64,
    pub frame_wait_ns: u64,
    /// The same for room in the log.
    pub log_waits: u64,
    pub log_wait_ns: u64,
    /// The same for purge, which could not follow.
    pub purge_waits: u64,
    pub purge_wait_ns: u64,
    /// Undo that was not purged at the end; over repetitions, the most.
    pub unpurged_bytes: u64,
}

impl StoreCounts {
    pub fn add(&mut self, other: &Self) {
        self.pages_read += other.pages_read;
        self.pages_read_ahead += other.pages_read_ahead;
        self.pages_read_ahead_unused += other.pages_read_ahead_unused;
        self.pages_written += other.pages_written;
        self.checkpoints += other.checkpoints;
        self.checkpoints_asked += other.checkpoints_asked;
        self.frame_waits += other.frame_waits;
        self.frame_wait_ns += other.frame_wait_ns;
        self.log_waits += other.log_waits;
        self.log_wait_ns += other.log_wait_ns;
        self.purge_waits += other.purge_waits;
        self.purge_wait_ns += other.purge_wait_ns;
        self.unpurged_bytes = self.unpurged_bytes.max(other.unpurged_bytes);
    }
}

/// A part of the measured time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Slice {
    /// From the begin of the measured time.
    pub end_ns: u64,
    pub operations: u64,
    pub p50_ns: u64,
    pub p99_ns: u64,
    pub max_ns: u64,
    pub background_operations: u64,
    pub data: SliceOutstanding,
    pub log: SliceOutstanding,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct SliceOutstanding {
    pub mean_requests: f64,
    pub idle_share: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OutstandingDocument {
    pub data: ClassOutstanding,
    pub log: ClassOutstanding,
    pub doublewrite: ClassOutstanding,
}

/// Weighted by time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassOutstanding {
    /// Share of the time, 0 to 1, with nothing outstanding.
    pub idle_share: f64,
    pub mean_requests: f64,
    pub p50_requests: u64,
    pub p90_requests: u64,
    /// Pairs of a number of requests and its share of the time; the last also
    /// holds all above 256.
    pub distribution: Vec<(u64, f64)>,
}

impl ClassOutstanding {
    pub fn of(times: &TimeAtCount) -> Self {
        let distribution: Vec<(u64, f64)> = (0..)
            .zip(times.times_ns())
            .filter(|(_, time)| **time > 0)
            .map(|(count, _)| (count as u64, times.share_at(count)))
            .collect();
        Self {
            idle_share: times.share_at(0),
            mean_requests: times.mean(),
            p50_requests: quantile(&distribution, 0.5),
            p90_requests: quantile(&distribution, 0.9),
            distribution,
        }
    }
}

fn quantile(distribution: &[(u64, f64)], quantile: f64) -> u64 {
    let mut sum = 0.0;
    for (count, share) in distribution {
        sum += share;
        if sum >= quantile {
            return *count;
        }
    }
    distribution.last().map_or(0, |(count, _)| *count)
}

/// Requests of one role on one level.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LedgerRow {
    pub role: &'static str,
    pub level: String,
    pub requests: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub queued_mean_ns: f64,
    pub queued_p99_ns: u64,
    pub device_mean_ns: f64,
    pub device_p99_ns: u64,
}

/// Rows for roles that did anything.
pub fn rows(ledger: &Ledger) -> Vec<LedgerRow> {
    let mut rows = Vec::new();
    for role in Role::ALL {
        let statistics = ledger.role(role);
        for level in Level::ALL {
            let kinds = &statistics.levels[level.index()];
            let total: FlowStatistics = kinds.total();
            if total.requests > 0 {
                rows.push(LedgerRow {
                    role: role.name(),
                    level: format!("{level:?}").to_lowercase(),
                    requests: total.requests,
                    read_bytes: kinds.read.bytes,
                    written_bytes: kinds.write.bytes,
                    queued_mean_ns: total.queued.mean_ns(),
                    queued_p99_ns: total.queued.quantile_ns(0.99),
                    device_mean_ns: total.device.mean_ns(),
                    device_p99_ns: total.device.quantile_ns(0.99),
                });
            }
        }
    }
    rows
}

pub fn outstanding(ledger: &Ledger) -> OutstandingDocument {
    let of = |class| ClassOutstanding::of(ledger.outstanding(class));
    OutstandingDocument {
        data: of(FileClass::Data),
        log: of(FileClass::Log),
        doublewrite: of(FileClass::Doublewrite),
    }
}

/// What a run measured, before it is made a document.
pub struct RunFigures {
    pub load: Load,
    pub gaps: Gaps,
    pub background: Vec<BackgroundRun>,
    pub ledger: Ledger,
    pub counts: StoreCounts,
    /// Without a store, right before and after.
    pub device: Option<DeviceRates>,
    pub cpu_time: CpuTime,
    pub timeline: Vec<Slice>,
}

impl StoreRun {
    pub fn new(setting: Setting, measured: RunFigures) -> Self {
        let RunFigures { load, ledger, .. } = measured;
        let mut run = Self {
            setting,
            gaps: measured.gaps,
            background: measured.background,
            outstanding: outstanding(&ledger),
            ledger: rows(&ledger),
            counts: measured.counts,
            of_device: None,
            cpu: measured.cpu_time.document(load.operations, load.bytes),
            timeline: measured.timeline,
            cpu_time: measured.cpu_time,
            load,
            source: ledger,
        };
        let read = run.read_bytes_per_second();
        run.of_device = measured.device.map(|device| OfDevice::new(read, device));
        run
    }

    pub fn merge(&mut self, other: Self) {
        let (ours, theirs) = (self.load.duration_ns, other.load.duration_ns);
        self.load.merge(other.load);
        self.gaps.add(other.gaps);
        for (one, another) in self.background.iter_mut().zip(other.background) {
            let seconds = (ours + theirs).max(1) as f64 / 1e9;
            one.rows += another.rows;
            one.rows_per_second = one.rows as f64 / seconds;
        }
        self.source.merge(&other.source);
        self.outstanding = outstanding(&self.source);
        self.ledger = rows(&self.source);
        self.counts.add(&other.counts);
        if let (Some(one), Some(another)) = (&mut self.of_device, other.of_device) {
            one.add(another);
        }
        self.cpu_time = self.cpu_time.merged(&other.cpu_time);
        self.cpu = self
            .cpu_time
            .document(self.load.operations, self.load.bytes);
    }

    /// Read from tablespaces, whatever for.
    pub fn read_bytes_per_second(&self) -> f64 {
        let bytes: u64 = self.ledger.iter().map(|row| row.read_bytes).sum();
        bytes as f64 * 1e9 / self.load.duration_ns.max(1) as f64
    }

    /// Written, to the log and twice to tablespaces.
    pub fn written_bytes_per_second(&self) -> f64 {
        let bytes: u64 = self.ledger.iter().map(|row| row.written_bytes).sum();
        bytes as f64 * 1e9 / self.load.duration_ns.max(1) as f64
    }

    pub fn background_rows_per_second(&self) -> f64 {
        self.background.iter().map(|one| one.rows_per_second).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::knee;

    #[test]
    fn shares_of_the_device_are_those_of_each_repetition() {
        let of = |read: f64, device: f64| {
            let rates = DeviceRates {
                least_memory: device,
                into_pool: device / 2.0,
            };
            OfDevice::new(read, rates)
        };
        let mut all = of(80.0, 100.0);
        assert_eq!((all.share, OfDevice::spread(&all.shares)), (0.8, None));
        // The disk was twice as fast, and so was the store.
        all.add(of(180.0, 200.0));
        all.add(of(30.0, 100.0));
        assert_eq!(
            (all.share, OfDevice::spread(&all.shares)),
            (0.8, Some((0.3, 0.9)))
        );
        assert_eq!(all.bytes_per_second, [100.0, 200.0, 100.0]);
        assert_eq!(all.share_into_pool, 1.6);
        assert_eq!(all.shares_into_pool, [1.6, 1.8, 0.6]);
        let sweep = [(1, 10.0, 1.0), (8, 60.0, 2.0), (64, 100.0, 30.0)];
        all.hold_against_knee(&knee::find(&sweep).unwrap());
        let of_knee = all.share_of_knee.unwrap();
        assert!((of_knee - 0.8 * 100.0 / 60.0).abs() < 1e-9, "{of_knee}");
    }

    #[test]
    fn quantiles_are_weighted_by_time() {
        let distribution = [(0, 0.4), (1, 0.2), (8, 0.35), (16, 0.05)];
        assert_eq!(quantile(&distribution, 0.5), 1);
        assert_eq!(quantile(&distribution, 0.9), 8);
        assert_eq!(quantile(&distribution, 1.0), 16);
        assert_eq!(quantile(&[], 0.5), 0);
    }
}
