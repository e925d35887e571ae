//! Whether somebody waits longer when more is in flight.
//!
//! Where all share one queue, one percent more in flight that brings `e`
//! percent of throughput costs `1 - e` percent of everybody's latency, and
//! [`knee`](super::knee) needs to look at the throughput alone. But a log write
//! into a cache that a battery protects takes the same however many pages wait
//! for the disks behind it, and a disk of an array that is not the busiest one
//! serves a query as if alone. Room that costs nobody anything has a lower price.

/// Comparisons that count, the newer ones more.
const MEMORY: u32 = 32;
/// Fewer say nothing.
const COMPARISONS_MIN: u32 = 4;
/// Nobody is harmed only if that is beyond doubt: the mean counts for as much
/// more as this many of its standard errors.
const ERRORS: f64 = 2.0;
/// Percent of latency for one percent more in flight from which on the full
/// price is asked.
const FULL: f64 = 0.1;

/// Mean and spread of what one percent more of the lower levels in flight adds
/// to the urgent requests' latency, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Harm {
    comparisons: u32,
    mean: f64,
    variance: f64,
}

impl Harm {
    pub(crate) fn add(&mut self, elasticity: f64) {
        self.comparisons = (self.comparisons + 1).min(MEMORY);
        let weight = 1.0 / f64::from(self.comparisons);
        let before = elasticity - self.mean;
        self.mean += weight * before;
        self.variance += weight * (before * (elasticity - self.mean) - self.variance);
    }

    /// Part of the usual price of throughput that is asked, at most 1.
    pub(crate) fn price(&self) -> f64 {
        if self.comparisons < COMPARISONS_MIN {
            return 1.0;
        }
        let error = (self.variance / f64::from(self.comparisons - 1)).sqrt();
        ((self.mean + ERRORS * error) / FULL).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(values: impl IntoIterator<Item = f64>) -> f64 {
        let mut harm = Harm::default();
        values.into_iter().for_each(|value| harm.add(value));
        harm.price()
    }

    #[test]
    fn what_is_not_known_costs_the_full_price() {
        assert_eq!(price([]), 1.0);
        assert_eq!(price([0.0; 3]), 1.0);
        // The mean is 0, but nothing is sure.
        assert_eq!(price([1.0, -1.0].into_iter().cycle().take(8)), 1.0);
    }

    #[test]
    fn what_harms_nobody_costs_nothing_until_it_does() {
        assert_eq!(price([0.0; 8]), 0.0);
        assert!(price([0.1, -0.1].into_iter().cycle().take(32)) < 0.5);
        let then_harmed = [0.0; 64].into_iter().chain([0.8; 64]);
        assert_eq!(price(then_harmed), 1.0);
    }
}
