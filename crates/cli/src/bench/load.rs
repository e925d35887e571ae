//! What one stream of requests did in one run: the block that documents show
//! for a sweep's depth, a mix's foreground and background.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Serialize, Serializer};

use crate::output::json::{LatencyDocument, histogram_document, latency_histogram};

/// Operations, bytes and latencies of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Load {
    pub operations: u64,
    pub bytes: u64,
    /// Time measured; summed over repetitions.
    pub duration_ns: u64,
    pub latency_ns: Histogram<u64>,
    /// One entry per repetition, for the spread.
    repetitions: Vec<Repetition>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Repetition {
    operations_per_second: f64,
    p99_ns: u64,
}

impl Load {
    /// One repetition. `latency_ns` holds one value per operation; for an open
    /// loop from the intended start on.
    pub fn new(bytes: u64, duration: Duration, latency_ns: Histogram<u64>) -> Self {
        let mut load = Self {
            operations: latency_ns.len(),
            bytes,
            duration_ns: nanoseconds(duration),
            latency_ns,
            repetitions: Vec::new(),
        };
        load.repetitions.push(Repetition {
            operations_per_second: load.operations_per_second(),
            p99_ns: load.quantile_ns(0.99),
        });
        load
    }

    /// A stream in which nothing happened.
    pub fn empty(duration: Duration) -> Self {
        Self::new(0, duration, latency_histogram())
    }

    pub fn operations_per_second(&self) -> f64 {
        per_second(self.operations, self.duration_ns)
    }

    pub fn bytes_per_second(&self) -> f64 {
        per_second(self.bytes, self.duration_ns)
    }

    pub fn quantile_ns(&self, quantile: f64) -> u64 {
        self.latency_ns.value_at_quantile(quantile)
    }

    /// Adds other repetitions.
    pub fn merge(&mut self, other: Self) {
        self.operations += other.operations;
        self.bytes += other.bytes;
        self.duration_ns += other.duration_ns;
        // A wider histogram on the other side only costs precision of outliers.
        self.latency_ns.auto(true);
        if let Err(error) = self.latency_ns.add(&other.latency_ns) {
            unreachable!("an auto-resizing histogram takes every value: {error}");
        }
        self.repetitions.extend(other.repetitions);
    }

    /// `None` for a single repetition, which has no spread.
    pub fn spread(&self) -> Option<Spread> {
        let rates = self.repetitions.iter().map(|one| one.operations_per_second);
        let p99s = self.repetitions.iter().map(|one| one.p99_ns as f64);
        (self.repetitions.len() > 1).then(|| Spread {
            repetitions: self.repetitions.len(),
            operations_per_second: Range::of(rates),
            p99_latency_ns: Range::of(p99s),
        })
    }

    /// For a table's column `±%`; empty for a single repetition.
    pub fn spread_cell(&self) -> String {
        self.spread().map_or_else(String::new, |spread| {
            format!("{:.1}", spread.operations_per_second.half_width_percent())
        })
    }
}

/// How far repetitions of one run lie apart.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    pub repetitions: usize,
    pub operations_per_second: Range,
    pub p99_latency_ns: Range,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Range {
    pub min: f64,
    pub max: f64,
    pub mean: f64,
    /// Of the repetitions, with n - 1.
    pub stddev: f64,
}

impl Range {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let count = values.clone().count() as f64;
        let mean = values.clone().sum::<f64>() / count.max(1.0);
        let squares: f64 = values.clone().map(|value| (value - mean).powi(2)).sum();
        Self {
            min: values.clone().fold(f64::INFINITY, f64::min),
            max: values.fold(f64::NEG_INFINITY, f64::max),
            mean,
            stddev: (squares / (count - 1.0).max(1.0)).sqrt(),
        }
    }

    /// Half the distance between the extremes, in percent of the mean.
    pub fn half_width_percent(&self) -> f64 {
        if self.mean == 0.0 {
            return 0.0;
        }
        (self.max - self.min) / 2.0 / self.mean * 100.0
    }
}

#[derive(Serialize)]
struct LoadDocument {
    operations: u64,
    operations_per_second: f64,
    bytes_per_second: f64,
    duration_ns: u64,
    latency_ns: LatencyDocument,
    latency_histogram_ns: Vec<(u64, u64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    spread: Option<Spread>,
}

impl Serialize for Load {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        LoadDocument {
            operations: self.operations,
            operations_per_second: self.operations_per_second(),
            bytes_per_second: self.bytes_per_second(),
            duration_ns: self.duration_ns,
            latency_ns: LatencyDocument::of(&self.latency_ns),
            latency_histogram_ns: histogram_document(&self.latency_ns),
            spread: self.spread(),
        }
        .serialize(serializer)
    }
}

fn per_second(amount: u64, duration_ns: u64) -> f64 {
    amount as f64 * 1e9 / duration_ns.max(1) as f64
}

/// Whole nanoseconds; 584 years at most.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(latencies_us: &[u64], seconds: u64) -> Load {
        let mut histogram = latency_histogram();
        for us in latencies_us {
            histogram.record(us * 1000).unwrap();
        }
        let bytes = 16384 * latencies_us.len() as u64;
        Load::new(bytes, Duration::from_secs(seconds), histogram)
    }

    #[test]
    fn rates_come_from_the_time_measured() {
        let load = load(&[100; 50], 2);
        assert_eq!(load.operations, 50);
        assert!((load.operations_per_second() - 25.0).abs() < 1e-9);
        assert!((load.bytes_per_second() - 25.0 * 16384.0).abs() < 1e-6);
        assert_eq!(load.spread(), None);
    }

    #[test]
    fn repetitions_add_up_and_show_their_spread() {
        let mut both = load(&[100; 50], 1);
        both.merge(load(&[200; 150], 1));
        assert_eq!(both.operations, 200);
        assert!((both.operations_per_second() - 100.0).abs() < 1e-9);
        let spread = both.spread().unwrap();
        assert_eq!(spread.repetitions, 2);
        assert!((spread.operations_per_second.min - 50.0).abs() < 1e-9);
        assert!((spread.operations_per_second.max - 150.0).abs() < 1e-9);
        assert!((spread.operations_per_second.half_width_percent() - 50.0).abs() < 1e-9);
        assert!((spread.operations_per_second.stddev - 70.71).abs() < 0.01);
    }

    #[test]
    fn nothing_measured_is_zero_everywhere() {
        let document = serde_json::to_value(Load::empty(Duration::ZERO)).unwrap();
        assert_eq!(document["operations_per_second"], 0.0);
        assert_eq!(document["latency_ns"]["p99"], 0);
    }
}
