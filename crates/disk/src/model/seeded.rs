//! Chance that is the same for the same seed, on every machine.

/// A stream of numbers from a seed: SplitMix64 (Steele, Lea, Flood 2014,
/// "Fast splittable pseudorandom number generators", OOPSLA).
pub(super) struct Seeded {
    state: u64,
}

impl Seeded {
    pub(super) fn new(seed: u64) -> Seeded {
        Seeded { state: seed }
    }

    pub(super) fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.state)
    }

    /// A number below `bound`, by multiplication instead of division.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }

    /// From 0, inclusive, to 1, exclusive.
    pub(super) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// From the normal distribution around 0 with deviation 1 (Box and Muller).
    pub(super) fn normal(&mut self) -> f64 {
        // 1 - fraction lies above 0, which has no logarithm.
        let radius = (-2.0 * (1.0 - self.fraction()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.fraction()).cos()
    }
}

/// A number that depends on every bit of `value`, and looks like chance.
pub(super) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_spread_evenly_and_repeat_by_seed() {
        let mut first = Seeded::new(7);
        let mut again = Seeded::new(7);
        let mut counts = [0u32; 10];
        let mut sum = 0.0;
        let mut squares = 0.0;
        for _ in 0..100_000 {
            assert_eq!(first.next(), again.next());
            counts[first.below(10) as usize] += 1;
            again.below(10);
            let normal = first.normal();
            again.normal();
            sum += normal;
            squares += normal * normal;
        }
        assert!(counts.iter().all(|&count| (9_500..10_500).contains(&count)));
        assert!((sum / 1e5).abs() < 0.02, "{sum}");
        assert!((squares / 1e5 - 1.0).abs() < 0.02, "{squares}");
    }
}
