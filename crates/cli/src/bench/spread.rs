//! What samples of one value have in common.

use serde::Serialize;

/// Median and range of the samples.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The middle one; of an even number the mean of the two in the middle.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// All of them, in the order measured.
    pub samples: Vec<f64>,
}

impl Spread {
    /// `None` of no samples.
    pub fn of(samples: Vec<f64>) -> Option<Self> {
        let mut sorted = samples.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().checked_sub(1)?;
        Some(Spread {
            median: (sorted[last / 2] + sorted[last.div_ceil(2)]) / 2.0,
            min: sorted[0],
            max: sorted[last],
            samples,
        })
    }

    /// Adds other samples.
    pub fn merge(&mut self, other: Self) {
        let mut samples = std::mem::take(&mut self.samples);
        samples.extend(other.samples);
        if let Some(all) = Self::of(samples) {
            *self = all;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_median_and_range() {
        let spread = Spread::of(vec![3.0, 1.0, 2.0]).unwrap();
        assert_eq!((spread.median, spread.min, spread.max), (2.0, 1.0, 3.0));
        assert_eq!(Spread::of(vec![1.0, 2.0]).unwrap().median, 1.5);
        assert_eq!(Spread::of(Vec::new()), None);
    }
}
