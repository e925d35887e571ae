//! Property tests that can be repeated.

use std::env;
use std::hash::{BuildHasher, RandomState};

use proptest::test_runner::{Config, RngSeed};

/// The environment's seed for all random tests.
const SEED: &str = "IOLANE_TEST_SEED";

/// Settings of a property test: a new seed each time, printed with a failure, or the one in
/// `IOLANE_TEST_SEED`.
///
/// # Panics
/// If that is no number.
pub fn cases(count: u32) -> Config {
    let seed = match env::var(SEED) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|_| panic!("{SEED} is a number")),
        Err(_) => RandomState::new().hash_one(count),
    };
    // The test harness shows it with a failure.
    println!("replay with {SEED}={seed}");
    Config {
        cases: count,
        rng_seed: RngSeed::Fixed(seed),
        failure_persistence: None,
        ..Config::default()
    }
}
