//! A closed loop of threads that wait for their requests, as query threads of
//! a database do: the engine's fast path.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use super::Stream;
use super::control::Control;
use super::offsets::Random;
use super::recorder::Recorder;
use super::transfer::Transfers;
use crate::error::Failure;
use crate::sys::ioprio::Scoped;
use crate::sys::prefix::Prefix;

/// One thread per buffer, until the run stops.
pub fn run(
    stream: &Stream,
    transfers: &Transfers,
    buffers: Vec<Prefix>,
    control: &Arc<Control>,
) -> Recorder {
    let total = Recorder::new();
    thread::scope(|scope| {
        for (number, buffer) in (0..).zip(buffers) {
            let (random, total) = (Random::new(stream.seed, number), &total);
            let spawned = thread::Builder::new()
                .name(format!("waiting-{number}"))
                .spawn_scoped(scope, move || {
                    let _priority = match stream.thread_priority.map(Scoped::set).transpose() {
                        Ok(priority) => priority,
                        Err(error) => return control.fail(no_priority(&error)),
                    };
                    total.add(&one_thread(transfers, buffer, random, control));
                });
            if let Err(error) = spawned {
                control.fail(no_thread(&error));
            }
        }
    });
    total
}

fn one_thread(
    transfers: &Transfers,
    mut buffer: Prefix,
    mut random: Random,
    control: &Control,
) -> Recorder {
    let recorder = Recorder::new();
    let mut now = Instant::now();
    while !control.is_stopped() {
        let request = transfers.next(&mut random, now);
        buffer.set_length(request.length as usize);
        let result = transfers.carry_out(&mut buffer, request);
        now = Instant::now();
        if transfers.check(control, &result, request) && control.is_measured(now) {
            recorder.record(now.duration_since(request.since), request.length);
        }
    }
    recorder
}

pub fn no_thread(error: &io::Error) -> Failure {
    Failure::setup(
        format!("cannot start a thread: {error}"),
        "Raise the limit on threads (ulimit -u, the control group's pids.max).",
    )
}

pub fn no_priority(error: &io::Error) -> Failure {
    Failure::setup(
        format!("cannot set the I/O priority of a thread: {error}"),
        "Run as root.",
    )
}
