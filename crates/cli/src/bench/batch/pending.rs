//! Requests kept pending: buffers that come back, and what their requests took.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use iolane::{Buffer, Completion, Error};

use crate::bench::load::nanoseconds;
use crate::output::json::latency_histogram;

/// Buffers that are in no request, and figures of the requests that brought
/// them back. Filled on the engine's driver thread, emptied by the thread that
/// submits.
pub struct Reaped {
    state: Mutex<State>,
    enough: Condvar,
}

struct State {
    free: Vec<Buffer>,
    /// How many free buffers the submitting thread sleeps for; it is woken
    /// once for a whole group.
    wanted: usize,
    failure: Option<Error>,
    record: Option<Record>,
}

/// What completed while recording.
pub struct Record {
    pub latency_ns: Histogram<u64>,
    pub bytes: u64,
}

/// How a wait for buffers ended.
pub enum Group {
    Buffers(Vec<Buffer>),
    /// Time was up first.
    TimeUp,
    Failed(Error),
}

impl Reaped {
    pub fn new(free: Vec<Buffer>) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                free,
                wanted: usize::MAX,
                failure: None,
                record: None,
            }),
            enough: Condvar::new(),
        })
    }

    /// Takes the end of a request that was submitted at `submitted`.
    pub fn completed(&self, submitted: Instant, completion: Completion<Buffer>) {
        let latency_ns = nanoseconds(submitted.elapsed());
        let mut state = self.lock();
        match (completion.result, &mut state.record) {
            (Ok(bytes), Some(record)) => {
                record.latency_ns.saturating_record(latency_ns);
                record.bytes += bytes as u64;
            }
            (Ok(_), None) => {}
            (Err(error), _) => {
                state.failure.get_or_insert(error);
            }
        }
        state.free.push(completion.buffer);
        if state.free.len() >= state.wanted || state.failure.is_some() {
            state.wanted = usize::MAX;
            drop(state);
            self.enough.notify_one();
        }
    }

    /// Waits until `count` buffers are free, and takes that many.
    pub fn take(&self, count: usize, until: Instant) -> Group {
        let mut state = self.lock();
        loop {
            if let Some(error) = &state.failure {
                return Group::Failed(error.clone());
            }
            if let Some(rest) = state.free.len().checked_sub(count) {
                return Group::Buffers(state.free.split_off(rest));
            }
            let left = until.saturating_duration_since(Instant::now());
            if left == Duration::ZERO {
                return Group::TimeUp;
            }
            state.wanted = count;
            state = self
                .enough
                .wait_timeout(state, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }

    /// Counts from now on.
    pub fn start_recording(&self) {
        self.lock().record = Some(Record {
            latency_ns: latency_histogram(),
            bytes: 0,
        });
    }

    /// What was counted since [`start_recording`](Self::start_recording).
    pub fn finish_recording(&self) -> Option<Record> {
        self.lock().record.take()
    }

    /// Nothing under this lock can leave the state half-changed.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(20)
    }

    fn completion(result: Result<usize, Error>) -> Completion<Buffer> {
        Completion {
            result,
            buffer: Buffer::new(512),
        }
    }

    #[test]
    fn groups_are_whole_or_not_at_all() {
        let reaped = Reaped::new((0..5).map(|_| Buffer::new(512)).collect());
        assert!(matches!(reaped.take(4, soon()), Group::Buffers(b) if b.len() == 4));
        assert!(matches!(reaped.take(4, soon()), Group::TimeUp));
        assert!(matches!(reaped.take(1, soon()), Group::Buffers(b) if b.len() == 1));
    }

    #[test]
    fn the_last_of_a_group_wakes_the_submitter() {
        let reaped = Reaped::new(Vec::new());
        let other = Arc::clone(&reaped);
        let taker =
            std::thread::spawn(move || other.take(3, Instant::now() + Duration::from_secs(60)));
        for _ in 0..3 {
            reaped.completed(Instant::now(), completion(Ok(512)));
        }
        assert!(matches!(taker.join().unwrap(), Group::Buffers(b) if b.len() == 3));
    }

    #[test]
    fn only_what_ends_while_recording_counts() {
        let reaped = Reaped::new(Vec::new());
        reaped.completed(Instant::now(), completion(Ok(512)));
        reaped.start_recording();
        reaped.completed(Instant::now(), completion(Ok(512)));
        reaped.completed(Instant::now(), completion(Ok(100)));
        let record = reaped.finish_recording().unwrap();
        reaped.completed(Instant::now(), completion(Ok(512)));
        assert_eq!((record.latency_ns.len(), record.bytes), (2, 612));
        assert!(reaped.finish_recording().is_none());
    }
}
