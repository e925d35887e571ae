//! What came out.

use super::meter::{Ended, Meter};
use hdrhistogram::Histogram;
use iolane_sched::Level;

/// Measurements of the time after the warm-up.
#[derive(Clone, Debug)]
pub struct Report {
    /// How long was measured, in virtual nanoseconds.
    pub duration_ns: u64,
    /// The streams, in the order in which they were given.
    pub streams: Vec<Tally>,
    /// The transactions, in the order in which they were given.
    pub transactions: Vec<TransactionsTally>,
    /// Commands that the disk has ended.
    pub commands: u64,
    /// Bytes of those.
    pub command_bytes: u64,
    /// Requests that ended, as the elevator got them; with merging more than
    /// commands.
    pub requests: u64,
    /// Share of the time in which the disk held so many commands, by their
    /// number: `in_disk[0]` is the share in which it had none.
    pub in_disk: Vec<f64>,
    /// Share of the time in which so many requests were in the elevator; the
    /// last place, 4096, stands for all above too.
    pub in_elevator: Vec<f64>,
    /// Requests whose submitter was blocked because the elevator took no more,
    /// mean over time.
    pub blocked_mean: f64,
}

impl Report {
    /// Share of the time in which the disk had something to do.
    pub fn busy_share(&self) -> f64 {
        1.0 - self.in_disk.first().copied().unwrap_or(1.0)
    }

    /// Commands in the disk, mean over time.
    pub fn in_disk_mean(&self) -> f64 {
        mean_of(&self.in_disk)
    }

    /// Requests in the elevator, mean over time.
    pub fn in_elevator_mean(&self) -> f64 {
        mean_of(&self.in_elevator)
    }

    /// Mean length of the disk's commands, in bytes; 0 without any.
    pub fn command_bytes_mean(&self) -> f64 {
        ratio(self.command_bytes as f64, self.commands as f64)
    }

    /// Operations per second of all streams together.
    pub fn per_second(&self) -> f64 {
        self.streams.iter().map(Tally::per_second).sum()
    }

    /// Bytes per second of all streams together.
    pub fn bytes_per_second(&self) -> f64 {
        self.streams.iter().map(Tally::bytes_per_second).sum()
    }

    /// The stream of this name.
    pub fn stream(&self, name: &str) -> Option<&Tally> {
        self.streams.iter().find(|tally| tally.name == name)
    }
}

/// The operations of one stream, or transactions.
#[derive(Clone, Debug)]
pub struct Tally {
    /// Its name.
    pub name: String,
    /// Its level.
    pub level: Level,
    /// How long was measured, in virtual nanoseconds.
    pub duration_ns: u64,
    /// Operations that ended.
    pub operations: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Operations of an open loop that were refused because too many were
    /// outstanding.
    pub refused: u64,
    /// Latencies in nanoseconds, from the wish to submit to the end, blocked
    /// time and CPU time of the submission included. To three digits.
    pub latency: Histogram<u64>,
    /// Their mean, exact.
    pub latency_mean_ns: f64,
    /// The part of it in the elevator.
    pub queued_mean_ns: f64,
    /// The part of it in the disk.
    pub disk_mean_ns: f64,
    /// Operations outstanding, mean over time. By Little's law the rate times
    /// the mean latency, but measured by itself.
    pub outstanding_mean: f64,
    /// Every operation in the order of the ends, if the stream's
    /// [`trace`](super::Stream::trace) is set.
    pub trace: Vec<Ended>,
}

impl Tally {
    pub(super) fn new(name: &str, level: Level, duration_ns: u64, meter: Meter) -> Tally {
        let mean = |sum_ns: u128| ratio(sum_ns as f64, meter.operations as f64);
        Tally {
            name: name.to_owned(),
            level,
            duration_ns,
            operations: meter.operations,
            bytes: meter.bytes,
            refused: meter.refused,
            latency_mean_ns: mean(meter.latency_sum_ns),
            queued_mean_ns: mean(meter.queued_sum_ns),
            disk_mean_ns: mean(meter.disk_sum_ns),
            outstanding_mean: meter.outstanding.mean(duration_ns),
            latency: meter.latency,
            trace: meter.trace.unwrap_or_default(),
        }
    }

    /// Operations per second.
    pub fn per_second(&self) -> f64 {
        self.operations as f64 * 1e9 / self.duration_ns as f64
    }

    /// Bytes per second.
    pub fn bytes_per_second(&self) -> f64 {
        self.bytes as f64 * 1e9 / self.duration_ns as f64
    }

    /// The latency that this share of the operations did not exceed, in
    /// nanoseconds: 0.99 for the 99th percentile.
    pub fn latency_ns(&self, share: f64) -> u64 {
        self.latency.value_at_quantile(share)
    }
}

/// One [`Transactions`](super::Transactions).
#[derive(Clone, Debug)]
pub struct TransactionsTally {
    /// The transactions: their `bytes` are those of their log records.
    pub transactions: Tally,
    /// Their reads, log writes and flushes.
    pub operations: Tally,
}

fn mean_of(shares: &[f64]) -> f64 {
    let weighted = shares.iter().enumerate();
    weighted.map(|(value, share)| value as f64 * share).sum()
}

fn ratio(sum: f64, count: f64) -> f64 {
    if count == 0.0 { 0.0 } else { sum / count }
}
