//! A closed loop: the completion of a batch submits the next. A thread carries
//! it over its pauses.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use super::stream::Live;

/// Longest sleep, so that the end of a run is seen.
const NAP_MAX: Duration = Duration::from_millis(5);

/// Keeps `outstanding` operations on their way until the run stops; returns when
/// the last has ended.
pub fn run(live: &Arc<Live>, outstanding: u32) {
    live.parked
        .store((outstanding / live.stream.batch) as usize, Ordering::SeqCst);
    while !live.control.is_stopped() {
        let nap = match live.stream.activity.next_on_ns(live.now_ns()) {
            Some(on_ns) if on_ns <= live.now_ns() => {
                for _ in 0..live.parked.swap(0, Ordering::SeqCst) {
                    call(live);
                }
                NAP_MAX
            }
            Some(on_ns) => live.at(on_ns).saturating_duration_since(Instant::now()),
            None => NAP_MAX,
        };
        thread::sleep(nap.min(NAP_MAX));
    }
    while live.outstanding.load(Ordering::SeqCst) > 0 {
        thread::sleep(Duration::from_millis(1));
    }
}

/// An operation has ended.
pub fn ended(live: &Arc<Live>) {
    let batch = live.stream.batch as usize;
    if live.ended.fetch_add(1, Ordering::SeqCst) % batch == batch - 1 {
        call(live);
    }
}

/// The next batch, or, in a pause, the wish for it.
fn call(live: &Arc<Live>) {
    if live.control.is_stopped() {
        return;
    }
    if !live.stream.activity.is_on(live.now_ns()) {
        live.parked.fetch_add(1, Ordering::SeqCst);
        return;
    }
    let now = Instant::now();
    for _ in 0..live.stream.batch {
        if let Some(buffer) = live.take_buffer() {
            live.submit(buffer, live.next(now));
        }
    }
}
