//! A closed loop of threads that wait for their operations, as query threads
//! do: the engine's fast path.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use iolane_disk::Kind;

use super::stream::Live;
use crate::sys::prefix::Prefix;
use crate::workload::waiting::no_thread;

/// Longest sleep, so that the end of a run is seen.
const NAP_MAX: Duration = Duration::from_millis(5);

/// So many threads until the run stops.
pub fn run(live: &Arc<Live>, threads: u32) {
    thread::scope(|scope| {
        for number in 0..threads {
            let Some(buffer) = live.take_buffer() else {
                break;
            };
            let spawned = thread::Builder::new()
                .name(format!("waiting-{number}"))
                .spawn_scoped(scope, move || one_thread(live, buffer));
            if let Err(error) = spawned {
                live.control.fail(no_thread(&error));
            }
        }
    });
}

fn one_thread(live: &Live, mut buffer: Prefix) {
    let level = live.stream.level;
    while !live.control.is_stopped() {
        match live.stream.activity.next_on_ns(live.now_ns()) {
            Some(on_ns) if on_ns <= live.now_ns() => {}
            Some(on_ns) => {
                let left = live.at(on_ns).saturating_duration_since(Instant::now());
                thread::sleep(left.min(NAP_MAX));
                continue;
            }
            None => break,
        }
        let request = live.next(Instant::now());
        buffer.set_length(request.length as usize);
        let result = match request.kind {
            Kind::Write => live.file.write_at(buffer.bytes(), request.offset, level),
            Kind::Read | Kind::Flush => {
                live.file.read_at(buffer.bytes_mut(), request.offset, level)
            }
        };
        if !live.check(&result, &request) {
            break;
        }
        live.record(request.since, request.length.into());
        if live.flush_follows(request.kind) {
            let since = Instant::now();
            match live.file.sync_data(level) {
                Ok(()) => live.record(since, 0),
                Err(error) => live.control.failed(&error),
            }
        }
    }
}
