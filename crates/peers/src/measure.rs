//! Threads that do the same thing over and over for a while.

use crate::stop::Stop;
use anyhow::{Result, anyhow};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How often the waiting thread looks whether a signal has come.
const POLL: Duration = Duration::from_millis(50);

/// One thread's next operation; returns how many that was.
pub type Step<'a> = Box<dyn FnMut() -> Result<u64> + 'a>;

/// Runs `threads` threads for about `time`, each with a step of its own, which
/// `prepare` makes outside of the time. Returns operations per second.
///
/// # Errors
/// The first of a thread, or a signal.
pub fn rate<'a>(
    threads: usize,
    time: Duration,
    stop: &Stop,
    prepare: &(dyn Fn(usize) -> Result<Step<'a>> + Sync),
) -> Result<f64> {
    let (begin, ended) = (Barrier::new(threads + 1), AtomicBool::new(false));
    let work = |thread: usize| -> Result<u64> {
        let step = prepare(thread);
        // Whoever failed must not let the others wait.
        begin.wait();
        let mut step = step?;
        let mut count = 0;
        while !ended.load(Ordering::Relaxed) {
            count += step()?;
        }
        Ok(count)
    };
    std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = (0..threads)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        begin.wait();
        let started = Instant::now();
        while started.elapsed() < time && !stop.is_raised() {
            std::thread::sleep(POLL.min(time));
        }
        ended.store(true, Ordering::Relaxed);
        let mut count = 0;
        for handle in handles {
            count += handle.join().map_err(|_| anyhow!("a thread panicked"))??;
        }
        stop.check()?;
        Ok(count as f64 / started.elapsed().as_secs_f64())
    })
}

/// What `work` returns, and how many seconds it took.
///
/// # Errors
/// As `work`.
pub fn timed<T>(work: impl FnOnce() -> Result<T>) -> Result<(T, f64)> {
    let begin = Instant::now();
    let done = work()?;
    Ok((done, begin.elapsed().as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_threads_count_and_one_error_ends_it() {
        let time = Duration::from_millis(100);
        let stop = Stop::default();
        let slow = |_: usize| -> Result<Step<'static>> {
            Ok(Box::new(|| {
                std::thread::sleep(Duration::from_millis(10));
                Ok(1)
            }))
        };
        let rate_of_2 = rate(2, time, &stop, &slow).unwrap();
        assert!(rate_of_2 > 0.0 && rate_of_2 <= 200.0, "{rate_of_2}");
        let failing = |thread: usize| -> Result<Step<'static>> {
            if thread == 1 {
                anyhow::bail!("no step");
            }
            slow(thread)
        };
        assert!(rate(2, time, &stop, &failing).is_err());
    }
}
