//! What the tests of several crates share. Only ever a dev-dependency.

#![forbid(unsafe_code)]

mod atomic_device;
mod ended;
mod loop_device;
#[cfg(feature = "property")]
mod property;
mod rate_limit;

use std::fmt::Display;

pub use atomic_device::atomic_device;
pub use ended::{ended_by, mounted_in};
pub use loop_device::LoopDevice;
#[cfg(feature = "property")]
pub use property::cases;
pub use rate_limit::ReadLimit;

/// Says that this machine does not allow a test, or a part of one.
///
/// The test returns after it, or goes on with its next part. `.ci/run` counts
/// the test as skipped and lists the reason, which is why it stands on one line
/// and begins in one way.
pub fn skipped(why: impl Display) {
    let why = why.to_string();
    let words: Vec<&str> = why.split_whitespace().collect();
    // To standard output: the test harness keeps it together with the test's name.
    println!("skipped: {}", words.join(" "));
}
