//! Latencies recorded without locks.
//!
//! Completion callbacks of a stream run on an engine's driver thread, which
//! must not wait; the thread that reads the figures comes after the last of
//! them. Buckets are laid out as in an HDR histogram, and become one at the
//! end.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::bench::load::{Load, nanoseconds};
use crate::output::json::latency_histogram;

/// Each doubling has so many buckets: latencies to 0.05 %.
const BUCKETS_PER_DOUBLING: u64 = 1024;
/// Longest latency told apart, as in documents: 10 minutes.
const LATENCY_NS_MAX: u64 = 600_000_000_000;

/// Counts of one stream.
pub struct Recorder {
    counts: Box<[AtomicU64]>,
    bytes: AtomicU64,
}

impl Recorder {
    pub fn new() -> Self {
        let buckets = 0..=bucket(LATENCY_NS_MAX);
        Self {
            counts: buckets.map(|_| AtomicU64::new(0)).collect(),
            bytes: AtomicU64::new(0),
        }
    }

    /// One operation.
    pub fn record(&self, latency: Duration, bytes: u64) {
        let bucket = bucket(nanoseconds(latency).min(LATENCY_NS_MAX));
        self.counts[bucket].fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds what another thread recorded.
    pub fn add(&self, other: &Self) {
        for (ours, theirs) in self.counts.iter().zip(&other.counts) {
            ours.fetch_add(theirs.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        self.bytes
            .fetch_add(other.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// The figures, of a measured time.
    pub fn load(&self, duration: Duration) -> Load {
        let mut histogram = latency_histogram();
        for (bucket, count) in self.counts.iter().enumerate() {
            let count = count.load(Ordering::Relaxed);
            if count > 0 {
                histogram.saturating_record_n(middle(bucket), count);
            }
        }
        Load::new(self.bytes.load(Ordering::Relaxed), duration, histogram)
    }
}

/// Values below two doublings' worth of buckets have one each; above, each
/// doubling has the same number, twice as wide.
fn bucket(value: u64) -> usize {
    let doublings = (value / BUCKETS_PER_DOUBLING).max(1).ilog2();
    (u64::from(doublings) * BUCKETS_PER_DOUBLING + (value >> doublings)) as usize
}

fn middle(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let doublings = (bucket / BUCKETS_PER_DOUBLING).saturating_sub(1);
    let least = (bucket - doublings * BUCKETS_PER_DOUBLING) << doublings;
    least + (1 << doublings) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_each_other_and_hold_their_values() {
        let mut last = 0;
        for value in (0..100_000).chain((100_000..LATENCY_NS_MAX).step_by(99_999_989)) {
            let bucket = bucket(value);
            assert!(bucket >= last && (value > 100_000 || bucket <= last + 1));
            let error = middle(bucket).abs_diff(value) as f64;
            assert!(error <= value as f64 * 0.0005, "{value} is in {bucket}");
            last = bucket;
        }
    }

    #[test]
    fn what_several_recorders_saw_adds_up() {
        let (one, other) = (Recorder::new(), Recorder::new());
        for us in 1..=1000 {
            one.record(Duration::from_micros(us), 512);
            other.record(Duration::from_secs(3600), 1024);
        }
        one.add(&other);
        let load = one.load(Duration::from_secs(2));
        assert_eq!((load.operations, load.bytes), (2000, 1536 * 1000));
        let within = |quantile, expected: f64| {
            let value = load.quantile_ns(quantile) as f64;
            assert!((value / expected - 1.0).abs() < 0.002, "{value}");
        };
        within(0.25, 500_000.0);
        within(0.99, LATENCY_NS_MAX as f64);
    }
}
