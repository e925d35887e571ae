//! How long threads waited for something.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long threads waited for something, since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct WaitStatistics {
    /// How often.
    pub count: u64,
    /// All together.
    pub total_ns: u64,
    /// The longest.
    pub longest_ns: u64,
}

#[derive(Default)]
pub(crate) struct Waits {
    count: AtomicU64,
    total_ns: AtomicU64,
    longest_ns: AtomicU64,
}

impl Waits {
    pub(crate) fn add(&self, wait: Duration) {
        let wait_ns = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        self.count.fetch_add(1, Ordering::Relaxed);
        self.total_ns.fetch_add(wait_ns, Ordering::Relaxed);
        self.longest_ns.fetch_max(wait_ns, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> WaitStatistics {
        WaitStatistics {
            count: self.count.load(Ordering::Relaxed),
            total_ns: self.total_ns.load(Ordering::Relaxed),
            longest_ns: self.longest_ns.load(Ordering::Relaxed),
        }
    }
}
