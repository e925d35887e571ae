//! The parts that all JSON documents share.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::environment::Environment;
use crate::target::TargetDocument;

/// Shortest and longest time that is told apart: 1 ns and 10 minutes.
const LATENCY_NS_MAX: u64 = 600_000_000_000;

/// A histogram for latencies in ns, three significant digits. Longer times
/// count as 10 minutes when recorded with `saturating_record`.
pub fn latency_histogram() -> Histogram<u64> {
    match Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("constant bounds are valid: {error}"),
    }
}

/// `latency_ns` of the documents.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyDocument {
    pub count: u64,
    pub mean: f64,
    pub stddev: f64,
    pub min: u64,
    pub p50: u64,
    pub p90: u64,
    pub p99: u64,
    #[serde(rename = "p99.9")]
    pub p99_9: u64,
    #[serde(rename = "p99.99")]
    pub p99_99: u64,
    pub max: u64,
}

impl LatencyDocument {
    pub fn of(histogram: &Histogram<u64>) -> Self {
        let quantile = |quantile| histogram.value_at_quantile(quantile);
        Self {
            count: histogram.len(),
            mean: histogram.mean(),
            stddev: histogram.stdev(),
            min: histogram.min(),
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p99_9: quantile(0.999),
            p99_99: quantile(0.9999),
            max: histogram.max(),
        }
    }
}

/// Buckets per doubling in documents: bounds within 9 % of the latency.
const BUCKETS_PER_DOUBLING: f64 = 8.0;

/// Pairs of an upper bound in ns and the number of latencies up to it and
/// above the bound before. The bounds are the same in every document,
/// `ceil(2^(i/8))`, so that histograms of several runs can be added.
pub fn histogram_document(histogram: &Histogram<u64>) -> Vec<(u64, u64)> {
    let mut buckets: Vec<(u64, u64)> = Vec::new();
    for value in histogram.iter_recorded() {
        let bound = bucket_bound(value.value_iterated_to());
        match buckets.last_mut() {
            Some((last, count)) if *last == bound => *count += value.count_at_value(),
            _ => buckets.push((bound, value.count_at_value())),
        }
    }
    buckets
}

fn bucket_bound(value_ns: u64) -> u64 {
    let bound = |index: f64| (index / BUCKETS_PER_DOUBLING).exp2().ceil() as u64;
    let index = (BUCKETS_PER_DOUBLING * (value_ns.max(1) as f64).log2()).floor();
    // Floating point may round to just below an exact bound.
    let candidates = [bound(index), bound(index + 1.0)];
    candidates
        .into_iter()
        .find(|bound| *bound >= value_ns)
        .unwrap_or_else(|| bound(index + 2.0))
}

/// What stands around every result.
#[derive(Debug, Serialize)]
pub struct Envelope<'a, R: Serialize> {
    pub schema: &'static str,
    pub environment: &'a Environment,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetDocument>,
    pub warnings: &'a [String],
    #[serde(flatten)]
    pub result: &'a R,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latency_block_has_the_documented_names() {
        let mut histogram = latency_histogram();
        (1..=10_000).for_each(|us| histogram.record(us * 1000).unwrap());
        let document = serde_json::to_value(LatencyDocument::of(&histogram)).unwrap();
        let names: Vec<&String> = document.as_object().unwrap().keys().collect();
        for name in [
            "count", "mean", "stddev", "p50", "p90", "p99", "p99.9", "p99.99", "max",
        ] {
            assert!(names.iter().any(|n| *n == name), "{name} in {names:?}");
        }
        assert_eq!(document["count"], 10_000);
        let within = |name: &str, expected: f64| {
            let value = document[name].as_f64().unwrap();
            assert!((value / expected - 1.0).abs() < 0.002, "{name}: {value}");
        };
        within("p50", 5_000_000.0);
        within("p99", 9_900_000.0);
        within("p99.9", 9_990_000.0);
        within("max", 10_000_000.0);
        within("mean", 5_000_500.0);
    }

    #[test]
    fn an_empty_histogram_is_all_zeros() {
        let document = LatencyDocument::of(&latency_histogram());
        assert_eq!((document.count, document.p99, document.max), (0, 0, 0));
        assert!(document.mean == 0.0 && document.stddev == 0.0);
    }

    #[test]
    fn bucket_bounds_do_not_depend_on_the_data() {
        for value in [1, 2, 3, 7, 8, 1000, 1024, 1025, 123_456_789, LATENCY_NS_MAX] {
            let bound = bucket_bound(value);
            assert!(bound >= value, "{value} <= {bound}");
            assert!(
                bound as f64 <= value as f64 * 1.1 + 1.0,
                "{bound} is near {value}"
            );
            assert_eq!(bucket_bound(bound), bound, "a bound is its own bucket");
        }
        let mut histogram = latency_histogram();
        for value in [1000, 1001, 2000, 2001] {
            histogram.record(value).unwrap();
        }
        let buckets = histogram_document(&histogram);
        assert_eq!(buckets.iter().map(|(_, n)| n).sum::<u64>(), 4);
        assert!(buckets.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
