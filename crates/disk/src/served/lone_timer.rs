//! How late the machine wakes a thread that does nothing else: what no served
//! disk can be better than, measured beside one.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crate::sys::{Timer, go_first, now_ns};

/// Between two alarms: often enough for a 99th percentile of a second, seldom
/// enough to take no time from the disk.
const PERIOD_NS: u64 = 1_000_000;
/// Of an hour, at one a millisecond.
pub const LATE_KEPT_MAX: usize = 3_600_000;

/// A thread that sets an alarm and looks at the clock when it rings, again and
/// again. It goes first, as the threads of a served disk do.
pub struct LoneTimer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<u64>>,
}

/// By how much alarms rang late.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AlarmsLate {
    /// Half of them less.
    pub p50_ns: u64,
    /// 99 of 100 less.
    pub p99_ns: u64,
    /// One by one, in the order in which they rang; of many, the first
    /// `LATE_KEPT_MAX`.
    pub all_ns: Vec<u64>,
}

impl LoneTimer {
    /// # Errors
    /// When the kernel gives no timer or thread.
    pub fn start() -> io::Result<LoneTimer> {
        let timer = Timer::new()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("lone-timer".to_owned())
            .spawn(move || watch(&timer, &stopped))?;
        Ok(LoneTimer { stop, thread })
    }

    /// Ends it.
    pub fn end(self) -> AlarmsLate {
        self.stop.store(true, Ordering::Relaxed);
        let late = self.thread.join();
        let all_ns = late.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let mut sorted = all_ns.clone();
        sorted.sort_unstable();
        let quantile = |share: f64| {
            let at = (sorted.len() as f64 * share) as usize;
            sorted.get(at).copied().unwrap_or_default()
        };
        AlarmsLate {
            p50_ns: quantile(0.5),
            p99_ns: quantile(0.99),
            all_ns,
        }
    }
}

fn watch(timer: &Timer, stopped: &AtomicBool) -> Vec<u64> {
    go_first();
    let mut late = Vec::new();
    while !stopped.load(Ordering::Relaxed) {
        let at_ns = now_ns() + PERIOD_NS;
        timer.arm(Some(at_ns));
        timer.wait();
        if late.len() < LATE_KEPT_MAX {
            late.push(now_ns().saturating_sub(at_ns));
        }
    }
    late
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_are_late_by_something() {
        // Longer where its thread has to wait for a processor.
        let rung = (0..10).map(|doubled| {
            let timer = LoneTimer::start().unwrap();
            thread::sleep(std::time::Duration::from_millis(60 << doubled));
            timer.end()
        });
        let is_late = |late: &AlarmsLate| late.all_ns.iter().any(|&late_ns| late_ns > 0);
        let late = { rung }.find(is_late).unwrap();
        assert!(late.p50_ns <= late.p99_ns, "{late:?}");
    }
}
