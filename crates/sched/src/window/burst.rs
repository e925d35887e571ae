//! How long a transfer may be while somebody waits.
//!
//! A disk with a head cannot be interrupted: a request that comes while a
//! megabyte passes under it waits for the rest, for longer than its own seek.
//! Where the device has time left, nothing is gained by that. So what the lower
//! levels merge takes the device a small part of the time that the foreground's
//! own requests take; and a larger one the less time it has left, up to no
//! limit where it is full, as merging is what brings throughput then.

/// Weight of the newest latency of a request that somebody waits for.
const NEWEST: f64 = 1.0 / 64.0;
/// Over so long the device is watched, and the weight of the newest watch.
const WATCHED_NS: u64 = 250_000_000;
const NEWEST_WATCH: f64 = 1.0 / 8.0;
/// Part of the foreground's time that a transfer takes on an idle device.
const PART: f64 = 0.125;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Burst {
    urgent_ns: f64,
    /// Moving averages of a watch's bytes of the lower levels, of the time in
    /// which they had something in flight, and of the rest.
    bytes: f64,
    busy_ns: f64,
    idle_ns: f64,
    watch: Watch,
}

#[derive(Clone, Copy, Debug, Default)]
struct Watch {
    begin_ns: u64,
    bytes: f64,
    busy_ns: u64,
    busy_since_ns: Option<u64>,
}

impl Burst {
    /// A transfer of the lower levels goes to the device.
    pub(crate) fn departed(&mut self, now_ns: u64) {
        self.watch.busy_since_ns.get_or_insert(now_ns);
    }

    /// One has come back; `last`: nothing of them is in flight any more.
    pub(crate) fn completed(&mut self, now_ns: u64, bytes: f64, last: bool) {
        let watch = &mut self.watch;
        watch.bytes += bytes;
        if let Some(since_ns) = watch.busy_since_ns {
            watch.busy_ns += now_ns.saturating_sub(since_ns);
            watch.busy_since_ns = (!last).then_some(now_ns);
        }
        let elapsed_ns = now_ns.saturating_sub(watch.begin_ns);
        if elapsed_ns < WATCHED_NS {
            return;
        }
        let average = |mean: &mut f64, newest: f64| *mean += (newest - *mean) * NEWEST_WATCH;
        average(&mut self.bytes, watch.bytes);
        average(&mut self.busy_ns, watch.busy_ns as f64);
        average(
            &mut self.idle_ns,
            elapsed_ns.saturating_sub(watch.busy_ns) as f64,
        );
        *watch = Watch {
            begin_ns: now_ns,
            busy_since_ns: watch.busy_since_ns,
            ..Watch::default()
        };
    }

    /// Somebody has waited so long for a transfer.
    pub(crate) fn urgent(&mut self, latency_ns: u64) {
        let latency_ns = latency_ns as f64;
        let weight = if self.urgent_ns == 0.0 { 1.0 } else { NEWEST };
        self.urgent_ns += (latency_ns - self.urgent_ns) * weight;
    }

    /// Longest merged transfer, in bytes; `None` if there is no limit.
    pub(crate) fn bytes_max(&self) -> Option<u32> {
        let full = self.busy_ns <= 0.0 || self.idle_ns <= 0.0 || self.urgent_ns <= 0.0;
        let per_busy_ns = self.bytes / self.busy_ns;
        let part = PART * (self.busy_ns + self.idle_ns) / self.idle_ns;
        (!full).then_some((part * self.urgent_ns * per_busy_ns) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Every 10 ms a transfer that takes `busy_ms` at 100 MB/s.
    fn after_a_while(busy_ms: u64) -> Burst {
        let mut burst = Burst::default();
        for at in (0..60_000).step_by(10) {
            burst.departed(at * MS);
            let bytes = busy_ms as f64 * 100_000.0;
            burst.completed((at + busy_ms) * MS, bytes, busy_ms < 10);
            burst.urgent(8 * MS);
        }
        burst
    }

    #[test]
    fn transfers_are_short_where_there_is_time() {
        let bytes_max = |busy_ms| after_a_while(busy_ms).bytes_max().unwrap();
        // An eighth of 8 ms, and more as the device fills.
        assert!(
            (109_000..113_000).contains(&bytes_max(1)),
            "{}",
            bytes_max(1)
        );
        assert!(
            (198_000..202_000).contains(&bytes_max(5)),
            "{}",
            bytes_max(5)
        );
        assert!(bytes_max(9) > 950_000, "{}", bytes_max(9));
    }

    #[test]
    fn a_full_device_or_an_unknown_one_has_no_limit() {
        assert_eq!(Burst::default().bytes_max(), None);
        assert_eq!(after_a_while(10).bytes_max(), None);
    }
}
