//! The shortest latency seen lately.

/// How long a minimum is believed, at least; twice that at the most.
const BELIEVED_NS: u64 = 10_000_000_000;

/// Smallest value over a sliding time, in two buckets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shortest {
    current: u64,
    previous: u64,
    turned_ns: u64,
}

impl Default for Shortest {
    fn default() -> Shortest {
        Shortest::new()
    }
}

impl Shortest {
    pub(crate) fn new() -> Shortest {
        Shortest {
            current: u64::MAX,
            previous: u64::MAX,
            turned_ns: 0,
        }
    }

    pub(crate) fn add(&mut self, now_ns: u64, value: u64) {
        if now_ns - self.turned_ns.min(now_ns) > BELIEVED_NS {
            self.previous = self.current;
            self.current = u64::MAX;
            self.turned_ns = now_ns;
        }
        self.current = self.current.min(value);
    }

    pub(crate) fn get(&self) -> Option<u64> {
        Some(self.current.min(self.previous)).filter(|&value| value != u64::MAX)
    }
}
