//! A closed loop through callbacks: each request, when it completes, submits
//! the next from the engine's driver thread. No thread is woken for it, and
//! many requests reach the kernel in one system call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Instant;

use iolane::{Cause, Completion, SubmitError};

use super::Stream;
use super::control::Control;
use super::offsets::Random;
use super::recorder::Recorder;
use super::transfer::{Request, Transfers};
use crate::sys::prefix::Prefix;

/// What a callback tells the thread that feeds the loop.
enum Event {
    /// The allocation group of the level is full. A callback cannot wait for
    /// room in it, so the feeding thread does.
    Refused(Prefix, Random, Request),
    Ended,
}

struct Loop {
    transfers: Transfers,
    /// Those that wait for their turn.
    spare: Mutex<VecDeque<Prefix>>,
    control: Arc<Control>,
    recorder: Recorder,
    events: mpsc::Sender<Event>,
}

impl Loop {
    /// The buffer that was used longest ago, for this one.
    fn in_turn(&self, buffer: Prefix) -> Prefix {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        match spare.pop_front() {
            Some(first) => {
                spare.push_back(buffer);
                first
            }
            None => buffer,
        }
    }
}

/// Keeps `depth` requests outstanding until the run stops, with the buffers in
/// turn; returns when the last has completed.
pub fn run(
    stream: &Stream,
    depth: usize,
    transfers: Transfers,
    mut buffers: Vec<Prefix>,
    control: &Arc<Control>,
) -> Recorder {
    let (events, receiver) = mpsc::channel();
    let spare = buffers.split_off(depth.min(buffers.len()));
    let shared = Arc::new(Loop {
        transfers,
        spare: Mutex::new(spare.into()),
        control: Arc::clone(control),
        recorder: Recorder::new(),
        events,
    });
    let mut outstanding = 0;
    for (number, buffer) in (0..).zip(buffers) {
        outstanding += 1;
        next(
            &shared,
            buffer,
            Random::new(stream.seed, number),
            Instant::now(),
        );
    }
    while outstanding > 0 {
        match receiver.recv() {
            Ok(Event::Refused(buffer, random, request)) if !control.is_stopped() => {
                submit(&shared, buffer, random, request);
            }
            // The other end cannot be gone: `shared` holds one.
            Ok(Event::Refused(..) | Event::Ended) | Err(_) => outstanding -= 1,
        }
    }
    drop(receiver);
    // The last callbacks may still hold it for an instant after their event.
    let total = Recorder::new();
    total.add(&shared.recorder);
    total
}

fn next(shared: &Arc<Loop>, mut buffer: Prefix, mut random: Random, now: Instant) {
    if shared.control.is_stopped() {
        end(shared);
        return;
    }
    buffer = shared.in_turn(buffer);
    let request = shared.transfers.next(&mut random, now);
    buffer.set_length(request.length as usize);
    submit(shared, buffer, random, request);
}

fn submit(shared: &Arc<Loop>, buffer: Prefix, random: Random, request: Request) {
    let own = Arc::clone(shared);
    let then = move |completion| completed(&own, completion, random, request);
    let Err(SubmitError { error, buffer }) = shared.transfers.submit(buffer, request, then) else {
        return;
    };
    if matches!(error.cause(), Cause::QueueFull { .. }) {
        let _ = shared.events.send(Event::Refused(buffer, random, request));
    } else {
        shared.control.failed(&error);
        end(shared);
    }
}

fn completed(shared: &Arc<Loop>, completion: Completion<Prefix>, random: Random, request: Request) {
    let now = Instant::now();
    if shared
        .transfers
        .check(&shared.control, &completion.result, request)
        && shared.control.is_measured(now)
    {
        shared
            .recorder
            .record(now.duration_since(request.since), request.length);
    }
    next(shared, completion.buffer, random, now);
}

fn end(shared: &Loop) {
    // The feeding thread listens until every request has ended.
    let _ = shared.events.send(Event::Ended);
}
