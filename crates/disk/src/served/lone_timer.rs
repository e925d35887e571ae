//! How late the machine wakes a thread that does nothing else: what no served
//! disk can be better than, measured beside one.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use hdrhistogram::Histogram;

use crate::sys::{Timer, go_first, now_ns};

/// Between two alarms: often enough for a 99th percentile of a second, seldom
/// enough to take no time from the disk.
const PERIOD_NS: u64 = 2_000_000;
/// Longer is counted as this.
const LATE_MAX_NS: u64 = 60_000_000_000;

/// A thread that sets an alarm and looks at the clock when it rings, again and
/// again. It goes first, as the threads of a served disk do.
pub struct LoneTimer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Histogram<u64>>,
}

/// By how much alarms rang late.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AlarmsLate {
    /// On average.
    pub mean_ns: f64,
    /// Half of them less.
    pub p50_ns: u64,
    /// 99 of 100 less.
    pub p99_ns: u64,
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
        let late = late.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        if late.is_empty() {
            return AlarmsLate::default();
        }
        AlarmsLate {
            mean_ns: late.mean(),
            p50_ns: late.value_at_quantile(0.5),
            p99_ns: late.value_at_quantile(0.99),
        }
    }
}

fn watch(timer: &Timer, stopped: &AtomicBool) -> Histogram<u64> {
    go_first();
    let mut late =
        Histogram::new_with_bounds(1, LATE_MAX_NS, 3).expect("the bounds are constant and valid");
    while !stopped.load(Ordering::Relaxed) {
        let at_ns = now_ns() + PERIOD_NS;
        timer.arm(Some(at_ns));
        timer.wait();
        late.saturating_record(now_ns().saturating_sub(at_ns).min(LATE_MAX_NS));
    }
    late
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alarms_are_late_by_something() {
        let timer = LoneTimer::start().unwrap();
        thread::sleep(std::time::Duration::from_millis(60));
        let late = timer.end();
        assert!(late.mean_ns > 0.0, "{late:?}");
        assert!(late.p50_ns <= late.p99_ns, "{late:?}");
    }
}
