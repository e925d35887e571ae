//! Random numbers that depend on a seed and on what they are drawn for, not
//! on what was drawn before: a decision can be taken again by itself.

/// A stream of numbers (splitmix64; Steele, Lea and Flood, "Fast splittable
/// pseudorandom number generators", 2014).
#[derive(Clone, Debug)]
pub(crate) struct Draw(u64);

const GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

fn mix(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}

impl Draw {
    /// The stream of `seed` for what the two numbers name.
    pub(crate) fn new(seed: u64, what: u64, which: u64) -> Draw {
        let what = mix(what.wrapping_add(GAMMA));
        let which = mix(which.wrapping_add(GAMMA.rotate_left(17)));
        Draw(mix(seed ^ what).wrapping_add(which))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }

    /// Below `limit`, which is above 0. The bias of the modulus is below
    /// `limit / 2^64`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// From 0 to 1, without 1.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let first = |seed, what, which| Draw::new(seed, what, which).next();
        assert_eq!(first(1, 2, 3), first(1, 2, 3));
        let all = [
            first(1, 2, 3),
            first(1, 3, 2),
            first(2, 1, 3),
            first(1, 2, 4),
        ];
        for (at, one) in all.iter().enumerate() {
            assert!(!all[..at].contains(one));
        }
    }

    #[test]
    fn fractions_are_spread_evenly() {
        let mut draw = Draw::new(5, 0, 0);
        let below = (0..10_000).filter(|_| draw.fraction() < 0.25).count();
        assert!((2300..2700).contains(&below), "{below}");
    }
}
