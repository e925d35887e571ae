//! Who puts loads on a served disk, and takes the times.

mod file;
mod nbd;

use std::io;

pub use file::FileClient;
pub use nbd::NbdClient;

use iolane_disk::served::{go_first, now_ns};

use crate::sys::timer_slack::set_timer_slack_ns;

/// The kernel wakes as exactly as it can.
const TIMER_SLACK_NS: u32 = 1;

/// A request that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    pub start_ns: u64,
    pub end_ns: u64,
    pub offset: u64,
}

/// When requests come, and where to.
pub struct Moments {
    /// Of the first.
    pub start_ns: u64,
    /// After the first, and offset.
    pub moments: Vec<(u64, u64)>,
}

/// The next request's offset.
pub type Offsets = Box<dyn FnMut() -> u64 + Send>;

/// Puts loads on a disk; waits until the last request has ended.
pub trait Client {
    /// Requests at their moments.
    fn open(&self, moments: Moments) -> io::Result<Vec<Sample>>;

    /// So many outstanding until a time.
    fn closed(&self, depth: u64, until_ns: u64, offsets: Offsets) -> io::Result<Vec<Sample>>;
}

/// A thread that measures the disk and not what else the machine does.
fn be_exact() {
    go_first();
    set_timer_slack_ns(TIMER_SLACK_NS);
}

fn sleep_until(at_ns: u64) {
    let left_ns = at_ns.saturating_sub(now_ns());
    if left_ns > 0 {
        std::thread::sleep(std::time::Duration::from_nanos(left_ns));
    }
}
