//! A token bucket that may be overdrawn by what waits for it.

/// Tokens come at `rate_per_ns` up to `size`; a command takes its own and
/// passes once the bucket is no longer overdrawn. First come, first served,
/// whatever a command takes.
pub(super) struct Bucket {
    rate_per_ns: f64,
    size: f64,
    level: f64,
    at_ns: u64,
}

impl Bucket {
    /// A full bucket.
    pub(super) fn new(rate_per_second: f64, size: f64) -> Bucket {
        Bucket {
            rate_per_ns: rate_per_second / 1e9,
            size,
            level: size,
            at_ns: 0,
        }
    }

    /// Takes `tokens` at `now_ns`; returns when they are there.
    pub(super) fn take(&mut self, now_ns: u64, tokens: f64) -> u64 {
        let gained = (now_ns - self.at_ns) as f64 * self.rate_per_ns;
        self.level = (self.level + gained).min(self.size) - tokens;
        self.at_ns = now_ns;
        if self.level >= 0.0 {
            return now_ns;
        }
        now_ns + (-self.level / self.rate_per_ns).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_saved_passes_at_once_and_the_rest_at_the_rate() {
        let mut bucket = Bucket::new(1000.0, 3.0);
        assert_eq!(bucket.take(0, 1.0), 0);
        assert_eq!(bucket.take(0, 2.0), 0);
        assert_eq!(bucket.take(0, 1.0), 1_000_000);
        assert_eq!(bucket.take(500_000, 2.0), 3_000_000);
        // No more is saved than the bucket holds.
        assert_eq!(bucket.take(1_000_000_000, 3.0), 1_000_000_000);
        assert_eq!(bucket.take(1_000_000_000, 1.0), 1_001_000_000);
    }
}
