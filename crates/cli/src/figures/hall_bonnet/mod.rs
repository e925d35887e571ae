//! Hall and Bonnet, "Getting Priorities Straight: Improving Linux Support for
//! Database I/O", VLDB 2005, on the modelled Ultrastar 36LZX.
//!
//! Figures 4, 5, 6 and 9 show a storage manager at work; they belong here once
//! ours has the policies that they compare.

mod beside;
mod mix;
mod outstanding;

pub use beside::beside;
pub use mix::mix;
pub use outstanding::{in_controller, latency, throughput};

/// The paper's disk.
const DISK: &str = "ultrastar-36lzx";

/// Plain numbers on an axis.
fn plain(value: f64) -> String {
    format!("{value}")
}
