//! What two windows that were used in turn say of each other, in spite of noise.

/// A probe that brought less into flight than this (10 %) is taken as if it
/// had brought that: the difference would be divided by nearly nothing.
const MORE_MIN: f64 = 0.1;
/// Standard error of the mean of the middle half beside that of the mean of all,
/// of normal values.
const MIDDLE_ERROR: f64 = 1.09;
/// The latest comparisons that count.
const COMPARISONS_MAX: usize = 24;

/// What an epoch says about its window: throughput in cost / ns, and cost in
/// flight on average.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub throughput: f64,
    pub in_flight: f64,
    /// Mean latency of what somebody waited for, if there was any.
    pub urgent_latency_ns: Option<f64>,
}

/// What the latest comparisons at one window gave. The middle half counts: a
/// device that stalls now and then would otherwise be judged by whose epoch the
/// stall fell into.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    values: [f64; COMPARISONS_MAX],
    count: usize,
    next: usize,
}

impl Tally {
    pub fn add(&mut self, value: f64) {
        self.values[self.next] = value;
        self.next = (self.next + 1) % COMPARISONS_MAX;
        self.count = (self.count + 1).min(COMPARISONS_MAX);
    }

    /// Mean of the middle half.
    pub fn middle(&self) -> f64 {
        let (values, quarter) = self.sorted();
        let middle = &values[quarter..self.count - quarter];
        middle.iter().sum::<f64>() / (middle.len().max(1) as f64)
    }

    /// Of the middle, as if values were normal without the outliers: the middle
    /// half of those is 1.35 standard deviations wide.
    fn standard_error(&self) -> f64 {
        if self.count < 2 {
            return f64::INFINITY;
        }
        let (values, quarter) = self.sorted();
        let width = values[self.count - 1 - quarter] - values[quarter];
        width / 1.35 * MIDDLE_ERROR / (self.count as f64).sqrt()
    }

    fn sorted(&self) -> ([f64; COMPARISONS_MAX], usize) {
        let mut values = self.values;
        values[..self.count].sort_unstable_by(f64::total_cmp);
        (values, self.count / 4)
    }
}

/// What probes brought at one window, as logarithms of ratios.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Comparisons {
    throughput: Tally,
    in_flight: Tally,
}

impl Comparisons {
    pub fn add(&mut self, used: Point, probed: Point) {
        self.throughput
            .add((probed.throughput / used.throughput).ln());
        self.in_flight.add((probed.in_flight / used.in_flight).ln());
    }

    pub fn count(&self) -> usize {
        self.throughput.count
    }

    /// And its standard error. The ratio of what both are in the middle: ratios
    /// of single comparisons, which are mostly noise, have no mean to speak of.
    pub fn elasticity(&self) -> (f64, f64) {
        let more = self.in_flight.middle().max(MORE_MIN);
        let elasticity = (self.throughput.middle() / more).clamp(-1.0, 1.5);
        (elasticity, self.throughput.standard_error() / more)
    }
}
