//! An open loop: operations come at moments that are drawn, whether or not
//! earlier ones have ended, and latency counts from there.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::stream::Live;
use crate::sys::timer_slack::set_timer_slack_ns;

/// The kernel may wake the pacing thread so late on purpose.
const TIMER_SLACK_NS: u32 = 1000;
/// Longest sleep, so that the end of a run is seen.
const NAP_MAX: Duration = Duration::from_millis(5);
/// Between two looks for a buffer, when all are on their way.
const BUFFER_NAP: Duration = Duration::from_micros(50);

/// Submits so many a second on average until the measured time is over; returns
/// when the last has ended.
pub fn run(live: &Arc<Live>, per_second: f64) {
    set_timer_slack_ns(TIMER_SLACK_NS);
    let batch = live.stream.batch;
    let mean_ns = f64::from(batch) * 1e9 / per_second;
    let mut worked_ns = 0;
    while !live.control.is_stopped() {
        worked_ns += live.gap_ns(mean_ns);
        let Some(at_ns) = live.stream.activity.after_ns(worked_ns) else {
            break;
        };
        let at = live.at(at_ns);
        if at >= live.control.until || !wait_for(live, at) {
            break;
        }
        for _ in 0..batch {
            submit(live, at);
        }
    }
    while live.outstanding.load(Ordering::SeqCst) > 0 {
        thread::sleep(Duration::from_millis(1));
    }
}

/// Nothing follows from an operation's end.
pub fn ended(_live: &Arc<Live>) {}

fn submit(live: &Arc<Live>, at: Instant) {
    let request = live.next(at);
    loop {
        if let Some(buffer) = live.take_buffer() {
            live.submit(buffer, request);
            return;
        }
        if live.control.is_stopped() || Instant::now() >= live.control.until {
            live.record_unsent(at);
            return;
        }
        thread::sleep(BUFFER_NAP);
    }
}

/// False when the run has stopped meanwhile.
fn wait_for(live: &Live, at: Instant) -> bool {
    while !live.control.is_stopped() {
        let left = at.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return true;
        }
        thread::sleep(left.min(NAP_MAX));
    }
    false
}
