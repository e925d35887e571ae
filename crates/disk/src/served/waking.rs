//! How late the kernel wakes a sleeping thread.

/// Longest time to be awake too early: at 5000 answers a second, less than a
/// third of one processor.
const MARGIN_MAX_NS: u64 = 60_000;
/// A new observation weighs one in so many.
const WEIGHT: i64 = 16;

/// Mean and mean deviation, as TCP estimates round trips (RFC 6298).
#[derive(Clone, Copy, Debug, Default)]
pub struct Waking {
    mean_ns: i64,
    deviation_ns: i64,
}

impl Waking {
    /// A thread was woken so long after its alarm.
    pub fn learn(&mut self, late_ns: u64) {
        // A stall of the machine says nothing about the next waking.
        let late_ns = late_ns.min(2 * MARGIN_MAX_NS) as i64;
        let error_ns = late_ns - self.mean_ns;
        self.mean_ns += error_ns / WEIGHT;
        self.deviation_ns += (error_ns.abs() - self.deviation_ns) / WEIGHT;
    }

    /// How much earlier the alarm should ring.
    pub fn margin_ns(&self) -> u64 {
        let margin_ns = self.mean_ns + self.deviation_ns;
        (margin_ns.max(0) as u64).min(MARGIN_MAX_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_margin_follows_what_is_usual_and_is_bounded() {
        let mut waking = Waking::default();
        assert_eq!(waking.margin_ns(), 0);
        for _ in 0..200 {
            waking.learn(20_000);
        }
        assert!((19_000..23_000).contains(&waking.margin_ns()));
        waking.learn(u64::MAX);
        assert!(waking.margin_ns() <= MARGIN_MAX_NS);
        for _ in 0..200 {
            waking.learn(u64::MAX);
        }
        assert_eq!(waking.margin_ns(), MARGIN_MAX_NS);
    }
}
