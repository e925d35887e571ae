//! What the device does without a store: reads of the same size from the same
//! file, as many at once as it takes.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use iolane::{Arena, Buffer, Completion, Engine, File, Level, OpenOptions, Policy};
use serde::Serialize;

use super::table::Table;
use crate::bench::knee::{self, Knee};
use crate::bench::sweep::unscheduled;
use crate::bench::through_engine::{open_failure, transfer_failure};
use crate::error::Failure;
use crate::session::Session;
use crate::workload;
use crate::workload::offsets::Random;

const DEPTHS: [u64; 8] = [1, 4, 8, 16, 32, 64, 128, 256];
/// Of each depth. Short, as limits are compared with rates in percent only.
const RUNTIME: Duration = Duration::from_millis(250);
const PAGE_BYTES: u64 = 16 << 10;
/// An extent.
const SEQUENTIAL_BYTES: u64 = 1 << 20;
const SEQUENTIAL_DEPTH: u64 = 8;

/// Rates of direct reads of the table's file.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// Of single pages from random places.
    pub random: Knee,
    /// With as many at once as fill the device.
    pub random_bytes_per_second: f64,
    /// Of 1 MiB each in the order of the file, eight at once.
    pub sequential_bytes_per_second: f64,
}

impl Limit {
    /// The larger of both, for each kind of reads.
    pub fn best(self, other: Self) -> Self {
        let more = other.random_bytes_per_second > self.random_bytes_per_second;
        let random = if more { other } else { self };
        let sequential = self.sequential_bytes_per_second;
        Self {
            sequential_bytes_per_second: sequential.max(other.sequential_bytes_per_second),
            ..random
        }
    }
}

/// # Errors
/// A read that failed, or an interruption.
pub fn measure(table: &Table, session: &Session) -> Result<Limit, Failure> {
    let files = table.data_files()?;
    let Some((path, bytes)) = files.first() else {
        return Err(Failure::Internal {
            message: "a table without a file".to_owned(),
        });
    };
    let time = RUNTIME * (DEPTHS.len() as u32 + 1);
    let _phase = session.progress.phase("what the device can do", time);
    // As the store's pool, and a sweep's: registered, in huge pages. Without,
    // a processor that is busy with a read's pages is the limit.
    let deepest = DEPTHS.into_iter().max().unwrap_or(1);
    let arena = workload::arena(&[(deepest, PAGE_BYTES), (SEQUENTIAL_DEPTH, SEQUENTIAL_BYTES)])?;
    let engine = engine(&arena)?;
    let file = engine.open(path, OpenOptions::new().read(true).direct(true));
    let file = file.map_err(|error| open_failure(&error))?;
    let mut runs = Vec::new();
    for depth in DEPTHS {
        session.stop.check()?;
        let mut random = Random::new(1, depth);
        let pages = (bytes / PAGE_BYTES).max(1);
        let buffers = buffers(&arena, depth, PAGE_BYTES);
        let rate = rate(&file, buffers, move || random.next() % pages * PAGE_BYTES)?;
        runs.push((depth, rate, depth as f64 / rate.max(1e-9) * 1e9));
    }
    let (mut next, bytes) = (0, *bytes);
    let buffers = buffers(&arena, SEQUENTIAL_DEPTH, SEQUENTIAL_BYTES);
    let sequential = rate(&file, buffers, move || {
        let at = next;
        next = if at + 2 * SEQUENTIAL_BYTES > bytes {
            0
        } else {
            at + SEQUENTIAL_BYTES
        };
        at
    })?;
    let random = knee::find(&runs).ok_or_else(|| Failure::Internal {
        message: "nothing was read".to_owned(),
    })?;
    Ok(Limit {
        random,
        random_bytes_per_second: random.full.operations_per_second * PAGE_BYTES as f64,
        sequential_bytes_per_second: sequential * SEQUENTIAL_BYTES as f64,
    })
}

fn engine(arena: &Arena) -> Result<Engine, Failure> {
    Engine::builder()
        .arena(arena)
        .policy(Policy::Noop)
        .configure(|_, config| unscheduled(config))
        .build()
        .map_err(|error| Failure::Internal {
            message: error.to_string(),
        })
}

fn buffers(arena: &Arena, count: u64, bytes: u64) -> Vec<Buffer> {
    let one = |_| {
        let buffer = arena.buffer(bytes as usize);
        // There is room for all of a size; what others left between them
        // may be too short.
        buffer.unwrap_or_else(|_| Buffer::new(bytes as usize))
    };
    (0..count).map(one).collect()
}

/// A closed loop of reads: each, when it completes, submits the next from the
/// engine's thread, as in a sweep.
struct Reads<O> {
    file: File,
    offset: Mutex<O>,
    until: Instant,
    completed: AtomicU64,
    /// One for each that is outstanding, when there is none after it.
    ended: mpsc::Sender<Result<(), Failure>>,
}

impl<O: FnMut() -> u64 + Send + 'static> Reads<O> {
    fn next(self: Arc<Self>, buffer: Buffer) {
        if Instant::now() >= self.until {
            self.end(Ok(()));
            return;
        }
        let offset = (self.offset.lock().unwrap_or_else(PoisonError::into_inner))();
        let own = Arc::clone(&self);
        let then = move |done: Completion<Buffer>| match done.result {
            Ok(bytes) if bytes == done.buffer.len() => {
                own.completed.fetch_add(1, Ordering::Relaxed);
                own.next(done.buffer);
            }
            Ok(_) => own.end(Err(Failure::transfer(
                "a read of the table's file",
                io::ErrorKind::UnexpectedEof.into(),
            ))),
            Err(error) => own.end(Err(transfer_failure(&error))),
        };
        if let Err(refused) = self.file.read_then(buffer, offset, Level::Normal, then) {
            self.end(Err(transfer_failure(&refused.error)));
        }
    }

    fn end(&self, result: Result<(), Failure>) {
        // Who listens has gone after a failure, which it reports.
        let _ = self.ended.send(result);
    }
}

/// Reads per second with each of the buffers outstanding.
fn rate(
    file: &File,
    buffers: Vec<Buffer>,
    offset: impl FnMut() -> u64 + Send + 'static,
) -> Result<f64, Failure> {
    let begin = Instant::now();
    let (ended, endings) = mpsc::channel();
    let reads = Arc::new(Reads {
        file: file.clone(),
        offset: Mutex::new(offset),
        until: begin + RUNTIME,
        completed: AtomicU64::new(0),
        ended,
    });
    let outstanding = buffers.len();
    for buffer in buffers {
        Arc::clone(&reads).next(buffer);
    }
    for _ in 0..outstanding {
        // The other end cannot be gone: `reads` holds one.
        endings.recv().unwrap_or(Ok(()))?;
    }
    let completed = reads.completed.load(Ordering::Relaxed);
    Ok(completed as f64 / begin.elapsed().as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(random: f64, sequential: f64) -> Limit {
        let found = knee::find(&[(1, random / 16384.0, 1e5)]);
        Limit {
            random: found.unwrap(),
            random_bytes_per_second: random,
            sequential_bytes_per_second: sequential,
        }
    }

    #[test]
    fn of_two_limits_the_better_counts_for_each_kind_of_reads() {
        let (one, other) = (limit(3e8, 1e9), limit(2e8, 2e9));
        let best = limit(3e8, 2e9);
        assert_eq!(one.best(other), best);
        assert_eq!(other.best(one), best);
    }

    #[test]
    fn every_read_of_a_closed_loop_is_inside_and_counted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let arena = workload::arena(&[(4, PAGE_BYTES)]).unwrap();
        let engine = engine(&arena).unwrap();
        let opened = engine.open(file.path(), OpenOptions::new().read(true));
        let offsets = Arc::new(AtomicU64::new(0));
        let asked = Arc::clone(&offsets);
        let next = move || asked.fetch_add(1, Ordering::Relaxed) % 64 * PAGE_BYTES;
        let reads = buffers(&arena, 4, PAGE_BYTES);
        let rate = rate(&opened.unwrap(), reads, next).unwrap();
        let asked = offsets.load(Ordering::Relaxed) as f64;
        let least = RUNTIME.as_secs_f64();
        assert!(rate > 0.0 && rate * least <= asked, "{rate} of {asked}");
        // Beyond the end there is nothing to read.
        let opened = engine.open(file.path(), OpenOptions::new().read(true));
        let reads = buffers(&arena, 1, PAGE_BYTES);
        let beyond = super::rate(&opened.unwrap(), reads, || 1 << 20);
        assert!(beyond.is_err(), "{beyond:?}");
    }
}
