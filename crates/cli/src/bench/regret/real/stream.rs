//! One part of a load under way: where its next operation goes, and what has
//! come of those that ended.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use iolane::{Completion, Error, File, Operation};
use iolane_disk::Kind;
use iolane_disk::regret::Done;
use iolane_disk::simulation::{Addresses, Ended, Random, Stream};

use crate::bench::load::nanoseconds;
use crate::sys::prefix::Prefix;
use crate::workload::control::Control;

/// An operation on its way.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    pub kind: Kind,
    pub offset: u64,
    pub length: u32,
    /// Latency counts from here.
    pub since: Instant,
}

/// Who goes on when an operation has ended, its flush included.
pub type Ending = fn(&Arc<Live>);

/// Shared by everybody who submits operations of the part.
pub struct Live {
    pub stream: Stream,
    pub file: File,
    pub control: Arc<Control>,
    /// The load's beginning.
    pub start: Instant,
    /// What goes on after each operation.
    ending: Ending,
    places: Mutex<(Addresses, Random)>,
    /// Writes since the last flush.
    unflushed: AtomicUsize,
    /// In the engine.
    pub outstanding: AtomicUsize,
    buffers: Mutex<Vec<Prefix>>,
    done: Mutex<Done>,
    /// Of a closed loop: operations that ended since the last call, and calls
    /// that wait for the end of a pause.
    pub ended: AtomicUsize,
    pub parked: AtomicUsize,
}

impl Live {
    pub fn new(
        stream: Stream,
        number: u64,
        seed: u64,
        file: File,
        buffers: Vec<Prefix>,
        (control, start): (Arc<Control>, Instant),
        ending: Ending,
    ) -> Arc<Self> {
        let addresses = Addresses::new(&stream, stream.region.clone());
        Arc::new(Self {
            places: Mutex::new((addresses, Random::new(seed, number))),
            stream,
            file,
            control,
            start,
            ending,
            unflushed: AtomicUsize::new(0),
            outstanding: AtomicUsize::new(0),
            buffers: Mutex::new(buffers),
            done: Mutex::default(),
            ended: AtomicUsize::new(0),
            parked: AtomicUsize::new(0),
        })
    }

    pub fn now_ns(&self) -> u64 {
        nanoseconds(self.start.elapsed())
    }

    /// That long after the beginning.
    pub fn at(&self, at_ns: u64) -> Instant {
        self.start + Duration::from_nanos(at_ns)
    }

    pub fn next(&self, since: Instant) -> Request {
        let (addresses, random) = &mut *lock(&self.places);
        let (kind, offset, length) = addresses.next(random);
        Request {
            kind,
            offset,
            length,
            since,
        }
    }

    /// The gap before the next operations of an open loop.
    pub fn gap_ns(&self, mean_ns: f64) -> u64 {
        (lock(&self.places).1.exponential(mean_ns).round() as u64).max(1)
    }

    pub fn take_buffer(&self) -> Option<Prefix> {
        lock(&self.buffers).pop()
    }

    /// Whether a flush must follow this operation now.
    pub fn flush_follows(&self, kind: Kind) -> bool {
        let every = self.stream.flush_every as usize;
        every > 0
            && kind == Kind::Write
            && self.unflushed.fetch_add(1, Ordering::Relaxed) % every == every - 1
    }

    /// Takes part in the figures if it ended in the measured time.
    pub fn record(&self, since: Instant, bytes: u64) {
        let now = Instant::now();
        if self.control.is_measured(now) {
            self.note(now, now.duration_since(since), bytes);
        }
    }

    /// One that has not even begun in the measured time, though it should have:
    /// it took until its end at least.
    pub fn record_unsent(&self, since: Instant) {
        let until = self.control.until;
        self.note(until, until.saturating_duration_since(since), 0);
    }

    fn note(&self, at: Instant, latency: Duration, bytes: u64) {
        let mut done = lock(&self.done);
        done.operations += 1;
        done.bytes += bytes;
        if self.stream.trace {
            done.trace.push(Ended {
                at_ns: nanoseconds(at.saturating_duration_since(self.start)),
                latency_ns: nanoseconds(latency),
            });
        }
    }

    pub fn take_done(&self) -> Done {
        std::mem::take(&mut *lock(&self.done))
    }

    /// Whether it did what was asked; ends the run if not.
    pub fn check(&self, result: &Result<usize, Error>, request: &Request) -> bool {
        match result {
            Ok(done) if *done == request.length as usize => true,
            Ok(done) => {
                let length = u64::from(request.length);
                self.control
                    .too_short(operation(request.kind), request.offset, length, *done);
                false
            }
            Err(error) => {
                self.control.failed(error);
                false
            }
        }
    }

    /// Hands an operation to the engine; what follows comes from its completion.
    pub fn submit(self: &Arc<Self>, mut buffer: Prefix, request: Request) {
        buffer.set_length(request.length as usize);
        self.outstanding.fetch_add(1, Ordering::SeqCst);
        let own = Arc::clone(self);
        let then = move |completion: Completion<Prefix>| own.completed(completion, request);
        let level = self.stream.level;
        let submitted = match request.kind {
            Kind::Write => self.file.write_then(buffer, request.offset, level, then),
            Kind::Read | Kind::Flush => self.file.read_then(buffer, request.offset, level, then),
        };
        if let Err(refused) = submitted {
            // Not a full queue: what a load has outstanding fits.
            self.control.failed(&refused.error);
            lock(&self.buffers).push(refused.buffer);
            self.outstanding.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn completed(self: &Arc<Self>, completion: Completion<Prefix>, request: Request) {
        if self.check(&completion.result, &request) {
            self.record(request.since, request.length.into());
            if self.flush_follows(request.kind) {
                self.flush(completion.buffer);
                return;
            }
        }
        lock(&self.buffers).push(completion.buffer);
        self.end();
    }

    /// In the place of the operation that it follows, whose buffer it keeps: with all buffers
    /// on their way it would otherwise be one request more than the engine queues.
    fn flush(self: &Arc<Self>, buffer: Prefix) {
        let own = Arc::clone(self);
        let since = Instant::now();
        let then = move |completion: Completion<()>| {
            match completion.result {
                Ok(_) => own.record(since, 0),
                Err(error) => own.control.failed(&error),
            }
            lock(&own.buffers).push(buffer);
            own.end();
        };
        let level = self.stream.level;
        if let Err(refused) = self.file.sync_then(Operation::SyncData, level, then) {
            self.control.failed(&refused.error);
            self.outstanding.fetch_sub(1, Ordering::SeqCst);
        }
    }

    fn end(self: &Arc<Self>) {
        (self.ending)(self);
        // Last: nothing is on its way any more when this is 0.
        self.outstanding.fetch_sub(1, Ordering::SeqCst);
    }
}

fn operation(kind: Kind) -> crate::args::choices::Operation {
    match kind {
        Kind::Write => crate::args::choices::Operation::Write,
        Kind::Read | Kind::Flush => crate::args::choices::Operation::Read,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
