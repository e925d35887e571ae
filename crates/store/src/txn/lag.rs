//! Lag: how far purge is behind, and what those pay for it whom it cannot
//! follow.
//!
//! One thread purges, and any number write. Were they faster for long, undo
//! would fill the pool and the disk. So a transaction waits for the undo records
//! that it makes itself, as long as purge takes for them, times those who write
//! at once: together they are as fast as purge then. While purge has nothing to
//! eat, nobody waits: what an open view keeps would not go any sooner.

use crate::backing::Backing;
use crate::system::System;
use crate::waits::{WaitStatistics, Waits};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Undo records after which a transaction that goes on pays: what purge takes
/// for them is longer than a short sleep takes to end, and much shorter than
/// [`WAIT_MAX`].
pub(super) const PAID_TOGETHER: u64 = 256;
/// One wait is no longer: rows are locked meanwhile, and a view is open.
const WAIT_MAX: Duration = Duration::from_millis(100);
/// The part of the bound by which purge must be farther behind for writers to
/// be as slow as purge.
const PART_ABOVE: u64 = 4;
/// How many times slower than purge they get at most: when it is twice the bound
/// behind. More would punish them for long after an old view has let go of much,
/// and purge that is stopped for three quarters of the time, by checks, still
/// follows.
const PRESSURE_MAX: f64 = 4.0;
/// Rounds of purge over which its speed is averaged.
const ROUNDS_AVERAGED: u64 = 8;

/// How far purge is behind.
pub(crate) struct Lag {
    /// From here on writers are held up.
    bytes_max: u64,
    /// Undo of transactions that have ended, as far as it is not eaten.
    bytes: AtomicU64,
    /// Has the thread that purges eaten all that it may in its last round?
    behind: AtomicBool,
    /// How long purge takes for a record.
    record_ns: AtomicU64,
    /// Transactions that have ended and wait.
    ended_waiting: AtomicU64,
    waiting: Mutex<()>,
    gone: Condvar,
    waits: Waits,
}

impl Lag {
    pub(super) fn new(bytes_max: u64) -> Lag {
        Lag {
            bytes_max,
            bytes: AtomicU64::new(0),
            behind: AtomicBool::new(false),
            record_ns: AtomicU64::new(0),
            ended_waiting: AtomicU64::new(0),
            waiting: Mutex::new(()),
            gone: Condvar::new(),
            waits: Waits::default(),
        }
    }

    /// Undo of transactions that have ended, as far as it is not eaten.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// How long writers were held up.
    pub(crate) fn waits(&self) -> WaitStatistics {
        self.waits.read()
    }

    /// A transaction is about to be seen by purge.
    pub(super) fn came(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Purge has eaten something.
    pub(super) fn went(&self, bytes: u64) {
        self.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// The thread that purges has eaten so many records.
    pub(super) fn round(&self, records: u64, took: Duration) {
        let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let now_ns = (took_ns / records.max(1)).max(1);
        let average_ns = match self.record_ns.load(Ordering::Relaxed) {
            0 => now_ns,
            before_ns => before_ns - before_ns / ROUNDS_AVERAGED + now_ns / ROUNDS_AVERAGED,
        };
        self.record_ns.store(average_ns, Ordering::Relaxed);
        self.behind.store(true, Ordering::Relaxed);
        self.let_go_if_gone();
    }

    /// The thread that purges has nothing to eat, cannot, or ends.
    pub(crate) fn nothing_to_eat(&self) {
        self.behind.store(false, Ordering::Relaxed);
        self.let_go_if_gone();
    }

    fn let_go_if_gone(&self) {
        if !self.holds_up() {
            // Whoever has looked before waits by now.
            drop(self.waiting.lock());
            self.gone.notify_all();
        }
    }

    /// Is there more to eat at once?
    pub(crate) fn is_behind(&self) -> bool {
        self.behind.load(Ordering::Relaxed)
    }

    /// Is there as much to eat as holds writers up?
    pub(crate) fn is_large(&self) -> bool {
        self.bytes() > self.bytes_max
    }

    fn holds_up(&self) -> bool {
        self.is_behind() && self.is_large()
    }

    /// Waits until so many records are paid for, or the lag has gone.
    fn wait(&self, records: u64, writers: u64) {
        let pressure = pressure(self.bytes(), self.bytes_max);
        let record_ns = self.record_ns.load(Ordering::Relaxed);
        let wait = price(records, record_ns, writers, pressure);
        if !wait.is_zero() {
            self.sleep(wait);
        }
    }

    /// Until the lag has gone.
    fn sleep(&self, wait_max: Duration) {
        let begin = Instant::now();
        let until = begin + wait_max;
        let mut waiting = self.waiting.lock();
        while self.holds_up() && !self.gone.wait_until(&mut waiting, until).timed_out() {}
        drop(waiting);
        self.waits.add(begin.elapsed());
    }
}

/// How hard writers are held up: 0 at the bound; at 1 they are as fast as purge.
fn pressure(bytes: u64, bytes_max: u64) -> f64 {
    let above = bytes.saturating_sub(bytes_max) as f64;
    (above * PART_ABOVE as f64 / bytes_max.max(1) as f64).min(PRESSURE_MAX)
}

/// How long one of so many writers waits for its records.
fn price(records: u64, record_ns: u64, writers: u64, pressure: f64) -> Duration {
    let wait_ns = records as f64 * record_ns as f64 * writers as f64 * pressure;
    Duration::from_nanos(wait_ns as u64).min(WAIT_MAX)
}

impl<B: Backing> System<B> {
    /// A transaction pays for undo records, and goes on. The thread holds no
    /// latch, gate or mutex.
    pub(super) fn pay(&self, records: u64) {
        let lag = &self.purge.lag;
        if lag.holds_up() {
            let ended = lag.ended_waiting.load(Ordering::Relaxed);
            lag.wait(records, self.views.active() as u64 + ended);
        }
    }

    /// The same by one that has ended. It counts among those who write, as its
    /// thread will soon again.
    pub(super) fn pay_at_end(&self, records: u64) {
        let lag = &self.purge.lag;
        if lag.holds_up() {
            lag.ended_waiting.fetch_add(1, Ordering::Relaxed);
            self.pay(records);
            lag.ended_waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 1 << 20;
    const LONG: Duration = Duration::from_secs(3600);

    #[test]
    fn pressure_rises_with_the_lag() {
        assert_eq!(pressure(0, MAX), 0.0);
        assert_eq!(pressure(MAX, MAX), 0.0);
        assert_eq!(pressure(MAX + MAX / 8, MAX), 0.5);
        assert_eq!(pressure(MAX + MAX / 4, MAX), 1.0);
        assert_eq!(pressure(2 * MAX, MAX), PRESSURE_MAX);
        assert_eq!(pressure(100 * MAX, MAX), PRESSURE_MAX);
        // Neither bound makes it anything else.
        assert_eq!(pressure(u64::MAX, u64::MAX), 0.0);
        assert_eq!(pressure(0, 0), 0.0);
        assert_eq!(pressure(16, 0), PRESSURE_MAX);
    }

    #[test]
    fn writers_together_are_as_fast_as_purge() {
        // Four of them make 100 records each in the time in which purge eats 400.
        let purged = Duration::from_nanos(400 * 2000);
        assert_eq!(price(100, 2000, 4, 1.0), purged);
        assert_eq!(price(100, 2000, 4, 0.25), purged / 4);
        assert_eq!(price(100, 2000, 4, 0.0), Duration::ZERO);
        assert_eq!(price(0, 2000, 4, 4.0), Duration::ZERO);
        assert_eq!(price(100, 0, 4, 4.0), Duration::ZERO);
        assert_eq!(price(1 << 20, 2000, 4, 1.0), WAIT_MAX);
        assert_eq!(price(u64::MAX, u64::MAX, u64::MAX, 4.0), WAIT_MAX);
        // A small commit beside a large lag.
        assert!(price(2, 2000, 1, PRESSURE_MAX) < Duration::from_micros(100));
    }

    #[test]
    fn the_speed_of_purge_is_averaged() {
        let lag = Lag::new(MAX);
        let average_ns = || lag.record_ns.load(Ordering::Relaxed);
        lag.round(1000, Duration::from_micros(800));
        assert_eq!(average_ns(), 800);
        lag.round(1000, Duration::from_micros(1600));
        assert_eq!(average_ns(), 900);
        for _ in 0..100 {
            lag.round(1000, Duration::from_micros(80));
        }
        assert!((80..90).contains(&average_ns()), "{}", average_ns());
        lag.round(1000, Duration::ZERO);
        assert!(average_ns() > 0);
    }

    #[test]
    fn nobody_waits_but_for_a_purge_that_is_far_behind() {
        let lag = Lag::new(MAX);
        let waits_for = |records| {
            let before = lag.waits().count;
            lag.wait(records, 1);
            lag.waits().count - before
        };
        lag.came(2 * MAX);
        // Nobody purges.
        assert!(!lag.holds_up());
        assert_eq!(waits_for(1000), 0);
        lag.round(1000, Duration::from_millis(1));
        assert!(lag.holds_up());
        assert_eq!(waits_for(1), 1);
        assert_eq!(waits_for(0), 0);
        lag.nothing_to_eat();
        assert!(!lag.holds_up());
        lag.round(1000, Duration::from_millis(1));
        assert!(lag.holds_up());
        lag.went(MAX);
        assert!(!lag.holds_up());
        assert_eq!(waits_for(1000), 0);
    }

    #[test]
    fn whoever_waits_goes_on_when_the_lag_has_gone() {
        let lag = Lag::new(MAX);
        for round in 0..20 {
            lag.came(2 * MAX);
            lag.round(1000, Duration::from_millis(1));
            std::thread::scope(|scope| {
                let waiter = scope.spawn(|| lag.sleep(LONG));
                // Most of them sleep by then.
                std::thread::sleep(Duration::from_millis(1));
                if round % 2 == 0 {
                    lag.nothing_to_eat();
                    waiter.join().unwrap();
                    lag.went(2 * MAX);
                } else {
                    lag.went(2 * MAX);
                    lag.round(1000, Duration::from_millis(1));
                }
            });
        }
        assert_eq!((lag.bytes(), lag.waits().count), (0, 20));
    }
}
