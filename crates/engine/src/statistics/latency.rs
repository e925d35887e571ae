//! Distributions of times.

use hdrhistogram::Histogram;

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
    pub(super) fn record(&mut self, time_ns: u64) {
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

    pub(super) fn since(&self, earlier: &Latency) -> Latency {
        let mut difference = self.clone();
        if let (Some(ours), Some(theirs)) = (&mut difference.0, &earlier.0) {
            // Fails where `earlier` is not an earlier state of the same
            // device; the later state alone is then the best answer.
            let _ = ours.subtract(theirs.as_ref());
        }
        difference
    }
}

#[cfg(test)]
impl Latency {
    pub(super) fn has_memory(&self) -> bool {
        self.0.is_some()
    }
}

fn new_histogram() -> Histogram<u32> {
    let mut histogram = Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_FIRST, 2)
        .expect("constants are valid bounds");
    histogram.auto(true);
    histogram
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_bounded() {
        let mut latency = Latency::default();
        latency.record(u64::MAX);
        latency.record(0);
        assert_eq!(latency.count(), 2);
        assert!(latency.max_ns() < 2 * LATENCY_NS_MAX);
    }
}
