//! An open loop: requests are submitted at intended moments, whether or not
//! earlier ones have completed, and latency counts from there. A stall is so
//! seen by every request that should have started during it.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use iolane::{Completion, SubmitError};

use super::Stream;
use super::control::Control;
use super::offsets::Random;
use super::recorder::Recorder;
use super::transfer::{Request, Transfers};
use crate::sys::prefix::Prefix;
use crate::sys::timer_slack::set_timer_slack_ns;

/// The kernel may wake the pacing thread so late on purpose.
const TIMER_SLACK_NS: u32 = 1000;
/// The rest of a wait is spent spinning: a wake-up is not more exact.
const SPIN: Duration = Duration::from_micros(5);
/// Longest sleep, so that the stop of a run is seen.
const NAP_MAX: Duration = Duration::from_millis(20);

/// How long after the measured time requests may still be sent that should
/// have been sent during it: the thread may have been woken late.
const GRACE: Duration = Duration::from_millis(20);

/// What came of an open loop.
pub struct Paced {
    pub recorder: Recorder,
    /// Of the measured time, requests that were not sent because all buffers
    /// were outstanding up to its end.
    pub unsent: u64,
    /// When the last measured request completed, if that was after the
    /// measured time.
    pub late_by: Duration,
}

struct Pace {
    transfers: Transfers,
    control: Arc<Control>,
    recorder: Recorder,
    free: mpsc::Sender<Returned>,
}

struct Returned {
    buffer: Prefix,
    /// End of a measured request.
    measured_end: Option<Instant>,
}

/// Submits `rate_per_second` requests, evenly spaced, until the measured time
/// is over or the run is aborted; returns when the last has completed.
pub fn run(
    stream: &Stream,
    rate_per_second: f64,
    transfers: Transfers,
    buffers: Vec<Prefix>,
    control: &Arc<Control>,
) -> Paced {
    set_timer_slack_ns(TIMER_SLACK_NS);
    let buffers_count = buffers.len();
    let (free, returned) = mpsc::channel();
    let shared = Arc::new(Pace {
        transfers,
        control: Arc::clone(control),
        recorder: Recorder::new(),
        free,
    });
    let mut ready = buffers;
    let mut random = Random::new(stream.seed, 0);
    let mut last_end = control.until;
    let mut note = |returned: Returned| {
        last_end = last_end.max(returned.measured_end.unwrap_or(last_end));
        returned.buffer
    };
    // A thread that gets its processor late owes what the measured time began
    // without: it is as late as any other delay.
    let start = Instant::now().min(control.from);
    let intended = |number: u64| start + Duration::from_secs_f64(number as f64 / rate_per_second);
    let mut number = 0;
    while intended(number) < control.until && wait_for(intended(number), control) {
        let at = intended(number);
        ready.extend(returned.try_iter().map(&mut note));
        if ready.is_empty() {
            // The most outstanding: whoever is next waits from its own
            // intended start on.
            ready.extend(returned.recv_timeout(NAP_MAX).ok().map(&mut note));
        }
        let Some(buffer) = ready.pop() else { continue };
        submit(&shared, buffer, shared.transfers.next(&mut random, at));
        number += 1;
    }
    let behind = control
        .until
        .saturating_duration_since(intended(number).max(control.from));
    while ready.len() < buffers_count {
        // The other end cannot be gone: `shared` holds one.
        ready.extend(returned.recv().ok().map(&mut note));
    }
    let recorder = Recorder::new();
    recorder.add(&shared.recorder);
    Paced {
        recorder,
        unsent: (behind.as_secs_f64() * rate_per_second).ceil() as u64,
        late_by: last_end - control.until,
    }
}

/// False when there is nothing to wait for any more.
fn wait_for(at: Instant, control: &Control) -> bool {
    while !control.is_aborted() {
        let now = Instant::now();
        if now >= control.until + GRACE {
            return false;
        }
        let left = at.saturating_duration_since(now);
        if left.is_zero() {
            return true;
        }
        if left > SPIN {
            thread::sleep((left - SPIN).min(NAP_MAX));
        } else {
            std::hint::spin_loop();
        }
    }
    false
}

fn submit(shared: &Arc<Pace>, mut buffer: Prefix, request: Request) {
    buffer.set_length(request.length as usize);
    let own = Arc::clone(shared);
    let then = move |completion: Completion<Prefix>| {
        let now = Instant::now();
        let good = own
            .transfers
            .check(&own.control, &completion.result, request);
        let measured = good && own.control.is_measured(request.since);
        if measured {
            own.recorder
                .record(now.duration_since(request.since), request.length);
        }
        give_back(&own, completion.buffer, measured.then_some(now));
    };
    if let Err(SubmitError { error, buffer }) = shared.transfers.submit(buffer, request, then) {
        // Not a full queue: outside of callbacks the engine waits for room.
        shared.control.failed(&error);
        give_back(shared, buffer, None);
    }
}

fn give_back(shared: &Pace, buffer: Prefix, measured_end: Option<Instant>) {
    // The pacing thread listens until every buffer is back.
    let _ = shared.free.send(Returned {
        buffer,
        measured_end,
    });
}
