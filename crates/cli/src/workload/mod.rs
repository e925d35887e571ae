//! The load: streams of requests through an engine, measured.
//!
//! | file | subject |
//! |---|---|
//! | `carrier` | an engine with the target open |
//! | `closed` | each completion submits the next request: many outstanding, cheaply |
//! | `waiting` | threads that wait for their requests, as query threads do |
//! | `paced` | an open loop at a rate |
//! | `offsets`, `transfer` | one request: where, how long, handed over, checked |
//! | `others` | whether other programs used the disk meanwhile |
//! | `recorder` | latencies, without locks |
//! | `control` | when it is measured, that it ends, what went wrong |

mod carrier;
mod closed;
pub(crate) mod control;
pub(crate) mod offsets;
mod others;
mod paced;
mod recorder;
mod transfer;
pub(crate) mod waiting;

use std::path::Path;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use iolane::arena::ArenaError;
use iolane::{Arena, Buffer, File, Level};

use crate::args::choices::{Operation, Pattern};
use crate::bench::load::Load;
use crate::error::Failure;
use crate::inflight::{CpuMeter, CpuTime, InFlight, InFlightSampler, Scope};
use crate::processors::Processors;
use crate::session::Session;
use crate::sys::ioprio::IoPriority;
use crate::sys::prefix::Prefix;
use crate::target::Target;
pub use carrier::{Carrier, CarrierOptions, IN_FLIGHT_MAX};
use control::Control;
use offsets::{Offsets, Random};
use recorder::Recorder;
use transfer::Transfers;

/// How requests of a stream come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrival {
    /// So many outstanding, each followed by the next from its completion.
    Callbacks(u64),
    /// So many threads, each waiting for its request.
    Threads(u64),
    /// So many per second.
    Rate(f64),
}

/// Most requests outstanding in an open loop. The device must be 4096 requests
/// behind before the pacing thread has to wait.
const PACED_OUTSTANDING_MAX: u64 = 4096;
/// But at most so much memory for them, and no fewer than the minimum.
const PACED_BYTES_MAX: u64 = 64 << 20;
const PACED_OUTSTANDING_MIN: u64 = 64;

/// Between two looks at the stop flag.
const NAP_MAX: Duration = Duration::from_millis(20);

/// One stream of requests.
pub struct Stream {
    /// In messages.
    pub name: &'static str,
    /// Where the requests go, and through which engine.
    pub file: File,
    pub level: Level,
    pub arrival: Arrival,
    pub operation: Operation,
    pub pattern: Pattern,
    /// Each request takes one at random.
    pub block_sizes_bytes: Vec<u64>,
    /// With callbacks, memory that is read into or written from in turn, if more
    /// than what is outstanding needs.
    pub memory_bytes: u64,
    pub seed: u64,
    /// The kernel's I/O priority of threads that wait.
    pub thread_priority: Option<IoPriority>,
}

/// Requests that a stream can have outstanding at once.
pub fn outstanding_max(arrival: Arrival, block_bytes_max: u64) -> u64 {
    match arrival {
        Arrival::Callbacks(depth) | Arrival::Threads(depth) => depth,
        Arrival::Rate(_) => {
            (PACED_BYTES_MAX / block_bytes_max).clamp(PACED_OUTSTANDING_MIN, PACED_OUTSTANDING_MAX)
        }
    }
}

/// Memory for streams of so many buffers of so many bytes each.
///
/// # Errors
/// When there is less.
pub fn arena(streams: &[(u64, u64)]) -> Result<Arena, Failure> {
    let bytes = streams
        .iter()
        .map(|(count, bytes)| count * bytes.next_multiple_of(4096))
        .sum();
    Arena::builder().bytes(bytes).build().map_err(|error| {
        let remedy = match error {
            ArenaError::OutOfMemory { .. } => "Give a smaller depth or block size.",
            _ => "Raise the memory limits of this process, or give a smaller depth or block size.",
        };
        Failure::setup(error.to_string(), remedy)
    })
}

/// How long.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub warm_up: Duration,
    pub runtime: Duration,
}

/// What is measured around the streams.
pub struct Measured<T> {
    /// In the order of the streams.
    pub loads: Vec<Load>,
    pub in_flight: Option<InFlight>,
    pub cpu: CpuTime,
    /// What was looked at when the measured time ended, still under load.
    pub seen: T,
}

/// Runs the streams at the same time. `look` is called at the end of the
/// measured time, before the load ends.
///
/// # Errors
/// The first request that failed, or an interruption. In any case nothing is
/// outstanding any more.
pub fn run<T>(
    name: &str,
    streams: &[Stream],
    times: Times,
    arena: &Arena,
    target: &Target,
    session: &Session,
    look: impl FnOnce() -> T,
) -> Result<Measured<T>, Failure> {
    let extent = (&*target.path, target.size_bytes);
    let watched = |control: &Control| watch(name, times, control, target, session, look);
    let (surroundings, loads) = put_on(streams, extent, times, arena, session, watched)?;
    let Surroundings {
        in_flight,
        cpu,
        moved_bytes,
        seen,
    } = surroundings;
    if let Some(warning) = others::warning(name, streams, &loads, moved_bytes) {
        session.warn(warning);
    }
    Ok(Measured {
        loads,
        in_flight,
        cpu,
        seen,
    })
}

/// The same of one stream on the first bytes of a file, without a look at the
/// kernel and at other programs.
///
/// # Errors
/// As [`run`].
pub fn run_alone(
    stream: &Stream,
    extent: (&Path, u64),
    times: Times,
    arena: &Arena,
    session: &Session,
) -> Result<Load, Failure> {
    let until = |control: &Control| wait(control, control.until, session, || ());
    let stream = std::slice::from_ref(stream);
    let ((), mut loads) = put_on(stream, extent, times, arena, session, until)?;
    Ok(loads.remove(0))
}

/// Puts streams on so many bytes of the file of that name, until `watched` ends.
fn put_on<T>(
    streams: &[Stream],
    (path, bytes): (&Path, u64),
    times: Times,
    arena: &Arena,
    session: &Session,
    watched: impl FnOnce(&Control) -> Result<T, Failure>,
) -> Result<(T, Vec<Load>), Failure> {
    session.stop.check()?;
    // Before the clock starts: filling them takes time.
    let buffers: Vec<_> = streams
        .iter()
        .map(|stream| buffers(stream, arena))
        .collect();
    let from = Instant::now() + times.warm_up;
    let control = Arc::new(Control::new(from, from + times.runtime, path));
    let (watched, results) = thread::scope(|scope| {
        let running: Vec<_> = streams
            .iter()
            .zip(buffers)
            .map(|(stream, buffers)| {
                let control = &control;
                thread::Builder::new()
                    .name(stream.name.to_owned())
                    .spawn_scoped(scope, move || run_stream(stream, buffers, control, bytes))
            })
            .collect();
        if let Some(error) = running.iter().find_map(|spawned| spawned.as_ref().err()) {
            control.fail(waiting::no_thread(error));
        }
        let watched = watched(&control);
        match &watched {
            Ok(_) => control.stop(),
            Err(_) => control.abort(),
        }
        (
            watched,
            running.into_iter().flatten().map(join).collect::<Vec<_>>(),
        )
    });
    if let Some(failure) = control.take_failure() {
        return Err(failure);
    }
    let watched = watched?;
    let loads = streams
        .iter()
        .zip(results)
        .map(|(stream, done)| done.load(stream, times.runtime, session))
        .collect();
    Ok((watched, loads))
}

/// What one stream did.
struct Done {
    recorder: Recorder,
    unsent: u64,
    late_by: Duration,
}

impl From<Recorder> for Done {
    fn from(recorder: Recorder) -> Self {
        Self {
            recorder,
            unsent: 0,
            late_by: Duration::ZERO,
        }
    }
}

impl Done {
    fn load(&self, stream: &Stream, runtime: Duration, session: &Session) -> Load {
        if self.unsent > 0 {
            session.warn(format!(
                "the device fell behind the {}: {} of its requests could not be sent in time, with as many outstanding as allowed; its latencies are too good, give it a lower rate",
                stream.name, self.unsent
            ));
        }
        // Those of an open loop that completed later take part in the rate
        // with the time that they took.
        self.recorder.load(runtime + self.late_by)
    }
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread
        .join()
        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn run_stream(
    stream: &Stream,
    buffers: Vec<Prefix>,
    control: &Arc<Control>,
    target_bytes: u64,
) -> Done {
    let transfers = Transfers {
        file: stream.file.clone(),
        level: stream.level,
        operation: stream.operation,
        offsets: Offsets::new(stream.pattern, &stream.block_sizes_bytes, target_bytes),
    };
    match stream.arrival {
        Arrival::Callbacks(depth) => {
            closed::run(stream, depth as usize, transfers, buffers, control).into()
        }
        Arrival::Threads(_) => waiting::run(stream, &transfers, buffers, control).into(),
        Arrival::Rate(rate) => {
            let paced = paced::run(stream, rate, transfers, buffers, control);
            Done {
                recorder: paced.recorder,
                unsent: paced.unsent,
                late_by: paced.late_by,
            }
        }
    }
}

/// One for each request that can be outstanding, and as many more as fill the
/// stream's memory.
fn buffers(stream: &Stream, arena: &Arena) -> Vec<Prefix> {
    let bytes = stream.block_sizes_bytes.iter().max().copied().unwrap_or(0);
    let mut random = Random::new(stream.seed, u64::MAX);
    let in_turn = stream.memory_bytes.checked_div(bytes).unwrap_or(0);
    (0..outstanding_max(stream.arrival, bytes).max(in_turn))
        .map(|_| {
            // Sizes that differ may leave gaps in the arena; the few buffers
            // that do not fit any more stand alone.
            let mut buffer = arena
                .buffer(bytes as usize)
                .unwrap_or_else(|_| Buffer::new(bytes as usize));
            if stream.operation == Operation::Write {
                random.fill(&mut buffer);
            }
            Prefix::new(buffer)
        })
        .collect()
}

/// What was seen around the streams during the measured time.
struct Surroundings<T> {
    in_flight: Option<InFlight>,
    cpu: CpuTime,
    /// By the whole disk, for whomever.
    moved_bytes: Option<u64>,
    seen: T,
}

/// Waits for the measured time, and watches the kernel during it.
fn watch<T>(
    name: &str,
    times: Times,
    control: &Control,
    target: &Target,
    session: &Session,
    look: impl FnOnce() -> T,
) -> Result<Surroundings<T>, Failure> {
    let total = times.warm_up + times.runtime;
    let start = control.until - total;
    let phase = session.progress.phase(name, total);
    let elapsed = || phase.elapsed(start.elapsed());
    wait(control, control.from, session, elapsed)?;
    // Nothing where the kernel does not tell.
    let sampler = target
        .disk
        .as_deref()
        .and_then(|disk| InFlightSampler::start(&session.paths, disk).ok());
    let moved = || others::moved_bytes(&session.paths, target.disk.as_deref()?);
    let moved_before = moved();
    let processors = Processors::start(&session.paths);
    let meter = CpuMeter::start(Scope::Process).map_err(no_cpu_time)?;
    wait(control, control.until, session, elapsed)?;
    let cpu = meter.used().map_err(no_cpu_time)?;
    let moved_bytes = moved().and_then(|after| after.checked_sub(moved_before?));
    if let Some(processors) = processors {
        processors.warn(name, &meter, session);
    }
    Ok(Surroundings {
        in_flight: sampler.map(InFlightSampler::finish),
        cpu,
        moved_bytes,
        seen: look(),
    })
}

/// Until then, or until it is stopped; calls `nap` between.
fn wait(
    control: &Control,
    until: Instant,
    session: &Session,
    nap: impl Fn(),
) -> Result<(), Failure> {
    while !control.is_stopped() {
        session.stop.check()?;
        nap();
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        thread::sleep(left.min(NAP_MAX));
    }
    Ok(())
}

fn no_cpu_time(error: std::io::Error) -> Failure {
    Failure::setup(
        format!("the kernel does not tell the CPU time used: {error}"),
        "Allow getrusage(2) to this process.",
    )
}

#[cfg(test)]
mod tests;
