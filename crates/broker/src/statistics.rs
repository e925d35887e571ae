//! What became of requests, by disk, rule and level.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use iolane_protocol::Asked;

/// Latencies are kept from a nanosecond, as most requests wait for no leave, to an hour, two
/// digits of them.
const LATENCY_NS_MIN: u64 = 1;
const LATENCY_NS_MAX: u64 = 3_600_000_000_000;
const DIGITS: u8 = 2;

/// Of which requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    pub disk: usize,
    /// [`UNRULED`](iolane_protocol::UNRULED) for what no rule matches.
    pub rule: u8,
    /// As it went.
    pub level: u8,
    /// `KIND_READ`, `KIND_WRITE` or `KIND_SYNC`.
    pub kind: u8,
}

impl Key {
    /// Of a request on a disk.
    pub fn of(disk: usize, asked: &Asked) -> Key {
        Key {
            disk,
            rule: asked.rule,
            level: asked.level,
            kind: asked.kind,
        }
    }
}

/// One request that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub bytes: u64,
    pub queued_ns: u64,
    pub device_ns: u64,
    pub failed: bool,
    /// Its level is lower than its rule's.
    pub sunk: bool,
    /// Its level is higher than that with which it came.
    pub promoted: bool,
}

/// Of requests of one kind.
pub struct Counts {
    pub requests: u64,
    pub bytes: u64,
    pub failed: u64,
    pub sunk: u64,
    pub promoted: u64,
    /// From asking to leave.
    pub queued: Histogram<u64>,
    /// From leave to the end.
    pub device: Histogram<u64>,
    /// Both together.
    pub total: Histogram<u64>,
}

impl Counts {
    fn new() -> Counts {
        let histogram = || {
            let made = Histogram::new_with_bounds(LATENCY_NS_MIN, LATENCY_NS_MAX, DIGITS);
            made.expect("the bounds are constants that it takes")
        };
        Counts {
            requests: 0,
            bytes: 0,
            failed: 0,
            sunk: 0,
            promoted: 0,
            queued: histogram(),
            device: histogram(),
            total: histogram(),
        }
    }
}

/// All of it. There are no more keys than disks, rules and levels make.
#[derive(Default)]
pub struct Statistics {
    pub counts: BTreeMap<Key, Counts>,
    /// Requests that went before their turn, as too many of their level waited.
    pub unaccounted: u64,
    /// Requests that went unscheduled because no leave came in time.
    pub left: u64,
    /// How often processes found the broker stopped.
    pub stops: u64,
    /// Requests that had not come back for so long that others went in their places.
    pub overdue: u64,
    /// Places that came back from processes that were killed.
    pub reclaimed: u64,
}

impl Statistics {
    pub fn record(&mut self, key: Key, ended: &Ended) {
        let counts = self.counts.entry(key).or_insert_with(Counts::new);
        counts.requests += 1;
        counts.bytes += ended.bytes;
        counts.failed += u64::from(ended.failed);
        counts.sunk += u64::from(ended.sunk);
        counts.promoted += u64::from(ended.promoted);
        counts.queued.saturating_record(ended.queued_ns);
        counts.device.saturating_record(ended.device_ns);
        counts
            .total
            .saturating_record(ended.queued_ns + ended.device_ns);
    }
}
