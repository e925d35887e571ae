//! Keeps a thread to a part of a processor.
//!
//! A nice value bounds nothing while a processor is free: the thread then uses
//! all of it. Where that is more than the machine may use, as in a virtual machine
//! with a quota that its disk is counted in, or in a control group, everybody is
//! stopped for it.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use crate::sys::cpu_clock::thread_cpu_ns;

/// What a thread may be ahead of its part before it sleeps: sleeps that are shorter
/// would cost more than they spare.
const AHEAD: Duration = Duration::from_millis(1);
/// What it may make up for after it has waited.
const BEHIND: Duration = Duration::from_millis(5);
/// Longest sleep, so that the end of a run is seen.
const NAP_MAX: Duration = Duration::from_millis(20);

/// Of the thread that made it.
pub struct Ration {
    /// Of a processor; `None`: all of it.
    share: Option<f64>,
    since: Cell<Instant>,
    cpu_ns: u64,
}

impl Ration {
    pub fn new(share: Option<f64>) -> Self {
        Self {
            share,
            since: Cell::new(Instant::now()),
            cpu_ns: thread_cpu_ns(),
        }
    }

    /// Sleeps while the thread has had more than its part, unless `is_over`. To be
    /// called after each bit of work.
    pub fn keep(&self, is_over: &dyn Fn() -> bool) {
        let Some(share) = self.share else { return };
        loop {
            let used_ns = thread_cpu_ns() - self.cpu_ns;
            let due = Duration::from_secs_f64(used_ns as f64 / 1e9 / share);
            let passed = self.since.get().elapsed();
            match due.checked_sub(passed) {
                Some(ahead) if ahead > AHEAD && !is_over() => thread::sleep(ahead.min(NAP_MAX)),
                Some(_) => return,
                None => {
                    let forgotten = (passed - due).saturating_sub(BEHIND);
                    self.since.set(self.since.get() + forgotten);
                    return;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    fn work(ration: &Ration, time: Duration) -> Duration {
        let (begin, cpu_ns) = (Instant::now(), thread_cpu_ns());
        while begin.elapsed() < time {
            black_box((0..1000u64).fold(0, |sum, n| black_box(sum ^ n)));
            ration.keep(&|| false);
        }
        Duration::from_nanos(thread_cpu_ns() - cpu_ns)
    }

    /// A machine that stops counts its pause as the thread's: one of several tries
    /// must do.
    #[test]
    fn a_thread_has_its_part_and_saves_up_little() {
        let ms = Duration::from_millis;
        let used = (0..5).map(|_| {
            let ration = Ration::new(Some(0.2));
            thread::sleep(ms(200));
            ration.keep(&|| false);
            work(&ration, ms(200))
        });
        let used: Vec<Duration> = used.take_while(|&used| used >= ms(48)).collect();
        // Its part, and what it may make up for and be ahead.
        assert!(used.len() < 5, "{used:?}");
    }

    #[test]
    fn the_end_of_a_run_ends_a_sleep() {
        let ration = Ration::new(Some(0.001));
        black_box((0..10_000_000u64).fold(0, |sum, n| black_box(sum ^ n)));
        let asked = Cell::new(0);
        ration.keep(&|| {
            asked.set(asked.get() + 1);
            asked.get() == 3
        });
        assert_eq!(asked.get(), 3);
    }
}
