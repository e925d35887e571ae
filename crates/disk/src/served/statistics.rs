//! How a served disk fared.

use hdrhistogram::Histogram;

/// Since the server began, or its statistics were last taken.
#[derive(Clone, Debug)]
pub struct Statistics {
    /// Reads that were answered.
    pub reads: u64,
    /// Writes that were answered.
    pub writes: u64,
    /// Flushes that were answered.
    pub flushes: u64,
    /// Of all of these, those that ended with an error.
    pub errors: u64,
    /// Requests that failed because the power was cut: none of the others.
    pub without_power: u64,
    /// Those whose data came later than the model's answer: the backing file
    /// was slower than the disk.
    pub medium_late: u64,
    /// The latencies that the model gave them, waiting for room in the disk's
    /// queue included, summed.
    pub model_latency_sum_ns: u128,
    /// After which times they should have been answered, with the lead taken
    /// off, summed.
    pub meant_sum_ns: u128,
    lateness_ns: Histogram<u64>,
}

/// Longer is counted as this.
const LATENESS_MAX_NS: u64 = 60_000_000_000;

impl Default for Statistics {
    fn default() -> Statistics {
        Statistics {
            reads: 0,
            writes: 0,
            flushes: 0,
            errors: 0,
            without_power: 0,
            medium_late: 0,
            model_latency_sum_ns: 0,
            meant_sum_ns: 0,
            lateness_ns: Histogram::new_with_bounds(1, LATENESS_MAX_NS, 3)
                .expect("the bounds are constant and valid"),
        }
    }
}

impl Statistics {
    /// All that were answered.
    pub fn operations(&self) -> u64 {
        self.reads + self.writes + self.flushes
    }

    /// Nothing before the first answer.
    pub fn model_latency_mean_ns(&self) -> Option<f64> {
        let operations = self.operations();
        (operations > 0).then(|| self.model_latency_sum_ns as f64 / operations as f64)
    }

    /// How much after its due time the answer went out, `quantile` 0 to 1.
    pub fn lateness_ns(&self, quantile: f64) -> u64 {
        self.lateness_ns.value_at_quantile(quantile)
    }

    /// What was noted of an operation that is never answered, if it was noted
    /// since they were last taken.
    pub(super) fn take_back(&mut self, model_latency_ns: u64, meant_ns: u64) {
        let latencies = &mut self.model_latency_sum_ns;
        *latencies = latencies.saturating_sub(u128::from(model_latency_ns));
        self.meant_sum_ns = self.meant_sum_ns.saturating_sub(u128::from(meant_ns));
    }

    pub(super) fn record_lateness(&mut self, lateness_ns: u64) {
        self.lateness_ns
            .saturating_record(lateness_ns.min(LATENESS_MAX_NS));
    }
}
