//! The course: threads that commit one record after the other, as sessions of
//! one-row transactions do.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use hdrhistogram::Histogram;
use iolane::{Engine, Error};

use super::file::{EngineLogFile, lost};
use super::log::Log;
use super::record::{Tag, record_bytes};
use super::{CommitOptions, CommitOutcome, CommitRun, CommitSetting};
use crate::args::choices::{Switch, name};
use crate::bench::load::{Load, nanoseconds};
use crate::bench::through_engine::transfer_failure;
use crate::bench::{needed, one_by_one};
use crate::error::Failure;
use crate::inflight::{CpuMeter, CpuTime, Scope};
use crate::output::json::latency_histogram;
use crate::session::Session;
use crate::target::Target;

/// Between two looks at the stop flag.
const LOOK: Duration = Duration::from_millis(50);

/// A committing thread needs little stack; a thousand of them would show.
const STACK_BYTES: usize = 128 << 10;

/// Most of the log that is read back at the end of a run.
const READ_BACK_BYTES_MAX: u64 = 1 << 20;

/// A log begins with a whole block, and this is a multiple of every one.
const START_MULTIPLE: u64 = 1 << 20;

const WARMING_UP: u8 = 0;
const MEASURING: u8 = 1;
const ENDED: u8 = 2;

/// Measures every setting once.
///
/// # Errors
/// A failed write or sync, a lost record, or an interruption.
pub fn measure(
    options: &CommitOptions,
    target: Option<&Target>,
    session: &Session,
) -> Result<CommitOutcome, Failure> {
    let target = needed(target)?;
    let runs = one_by_one(options.settings(), session, |setting| {
        run(options, setting, target, session)
    });
    Ok(CommitOutcome { runs: runs? })
}

fn run(
    options: &CommitOptions,
    setting: CommitSetting,
    target: &Target,
    session: &Session,
) -> Result<CommitRun, Failure> {
    let engine = Engine::new().map_err(|error| Failure::Internal {
        message: error.to_string(),
    })?;
    let file = EngineLogFile::open(&engine, target, setting)?;
    let start_lsn = unused_lsn();
    let committers = Committers {
        log: Log::new(file, setting.group_commit == Switch::On, start_lsn),
        payload: payload(options),
        phase: AtomicU8::new(WARMING_UP),
        failure: Mutex::new(None),
    };
    let (measured, commits) = thread::scope(|scope| {
        // Also on an early return, or the scope would never end.
        let _end = EndOnDrop(&committers.phase);
        let mut threads = Vec::new();
        for number in 0..setting.threads {
            let committers = &committers;
            let thread = thread::Builder::new()
                .name(format!("commit-{number}"))
                .stack_size(STACK_BYTES)
                .spawn_scoped(scope, move || committers.commit_until_end(number as u32))
                .map_err(|error| too_many_threads(setting.threads, &error))?;
            threads.push(thread);
        }
        let times = committers.pace(options, setting, session);
        committers.phase.store(ENDED, Ordering::Relaxed);
        let mut latency_ns = latency_histogram();
        let mut commits = Vec::new();
        for thread in threads {
            let Ok(done) = thread.join() else {
                return Err(Failure::Internal {
                    message: "a committing thread panicked".to_owned(),
                });
            };
            add(&mut latency_ns, &done.latency_ns);
            commits.push(done.commits);
        }
        Ok(((times, latency_ns), commits))
    })?;
    if let Some(error) = committers.failure.into_inner().ok().flatten() {
        return Err(transfer_failure(&error));
    }
    let (times, latency_ns) = measured;
    let times = times?;
    check_log(
        &committers.log,
        start_lsn,
        options.record_size_bytes as usize,
        &commits,
    )?;
    let bytes = latency_ns.len() * options.record_size_bytes;
    let load = Load::new(bytes, times.elapsed, latency_ns);
    Ok(CommitRun::new(
        setting,
        options.record_size_bytes,
        load,
        times.syncs,
        times.cpu_time,
    ))
}

/// Where a log begins, so that no record of an earlier run in the same file
/// stands at the same LSN: as if the log had grown by a byte every nanosecond.
fn unused_lsn() -> u64 {
    let since_1970 = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let lsn = nanoseconds(since_1970);
    lsn - lsn % START_MULTIPLE
}

fn too_many_threads(threads: u64, error: &std::io::Error) -> Failure {
    Failure::setup(
        format!("cannot start {threads} threads: {error}"),
        "Give fewer --threads, or raise the limit on processes (ulimit -u).",
    )
}

struct EndOnDrop<'a>(&'a AtomicU8);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(ENDED, Ordering::Relaxed);
    }
}

fn add(sum: &mut Histogram<u64>, part: &Histogram<u64>) {
    if let Err(error) = sum.add(part) {
        unreachable!("histograms of the same bounds: {error}");
    }
}

/// The same for every record; what a row holds does not matter to the disk.
fn payload(options: &CommitOptions) -> Vec<u8> {
    let mut state = options.course.seed;
    (0..options.record_size_bytes)
        .map(|_| {
            // Knuth's MMIX generator: no compressing device gains from it.
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (state >> 56) as u8
        })
        .collect()
}

/// What the committing threads share.
struct Committers {
    log: Log<EngineLogFile>,
    payload: Vec<u8>,
    phase: AtomicU8,
    failure: Mutex<Option<Error>>,
}

/// What one of them did.
struct Done {
    latency_ns: Histogram<u64>,
    /// Acknowledged, from the first one on.
    commits: u32,
}

/// Of the measured time.
struct Times {
    elapsed: Duration,
    syncs: u64,
    cpu_time: CpuTime,
}

impl Committers {
    fn commit_until_end(&self, thread: u32) -> Done {
        let mut done = Done {
            latency_ns: latency_histogram(),
            commits: 0,
        };
        while self.phase.load(Ordering::Relaxed) != ENDED {
            let start = Instant::now();
            let number = done.commits;
            match self.log.commit(Tag { thread, number }, &self.payload) {
                Ok(_) => done.commits += 1,
                Err(error) => {
                    self.fail(error);
                    break;
                }
            }
            if self.phase.load(Ordering::Relaxed) == MEASURING {
                let time_ns = nanoseconds(start.elapsed());
                done.latency_ns.saturating_record(time_ns);
            }
        }
        done
    }

    /// Keeps the first failure, and ends the run.
    fn fail(&self, error: Error) {
        if let Ok(mut failure) = self.failure.lock() {
            failure.get_or_insert(error);
        }
        self.phase.store(ENDED, Ordering::Relaxed);
    }

    /// Leads the threads through the phases.
    fn pace(
        &self,
        options: &CommitOptions,
        setting: CommitSetting,
        session: &Session,
    ) -> Result<Times, Failure> {
        let warm_up = Duration::from_nanos(options.course.warm_up_ns);
        let runtime = Duration::from_nanos(options.course.runtime_ns);
        let phase = session.progress.phase(&label(setting), warm_up + runtime);
        let begin = Instant::now();
        let wait_until = |end: Instant| -> Result<(), Failure> {
            loop {
                session.stop.check()?;
                phase.elapsed(begin.elapsed());
                let left = end.saturating_duration_since(Instant::now());
                if left == Duration::ZERO || self.phase.load(Ordering::Relaxed) == ENDED {
                    return Ok(());
                }
                thread::sleep(left.min(LOOK));
            }
        };
        wait_until(begin + warm_up)?;
        let unreadable = |error| Failure::transfer("reading CPU time", error);
        let meter = CpuMeter::start(Scope::Process).map_err(unreadable)?;
        let syncs = self.log.file().syncs();
        // Not over ENDED, which a failed thread may have set.
        let _ = self.phase.compare_exchange(
            WARMING_UP,
            MEASURING,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        wait_until(Instant::now() + runtime)?;
        let elapsed = meter.elapsed();
        self.phase.store(ENDED, Ordering::Relaxed);
        Ok(Times {
            elapsed,
            syncs: self.log.file().syncs() - syncs,
            cpu_time: meter.used().map_err(unreadable)?,
        })
    }
}

fn label(setting: CommitSetting) -> String {
    let group = match setting.group_commit {
        Switch::On => ", grouped",
        Switch::Off => "",
    };
    format!(
        "{}, {}, {}{group}",
        name(setting.method),
        name(setting.io),
        super::threads_text(setting.threads)
    )
}

/// Reads the end of the log as a recovery would: every acknowledged record must
/// be there, each thread's in order. `commits` is by thread. (That a sync
/// promises what it says cannot be seen without cutting the power.)
fn check_log(
    log: &Log<EngineLogFile>,
    log_start_lsn: u64,
    payload_bytes: usize,
    commits: &[u32],
) -> Result<(), Failure> {
    use super::log::LogFile;
    let record_bytes = record_bytes(payload_bytes);
    let end_lsn = log.durable_lsn();
    let file = log.file();
    let span = READ_BACK_BYTES_MAX.min(file.capacity_bytes() / 2);
    let records = ((end_lsn - log_start_lsn) / record_bytes as u64).min(span / record_bytes as u64);
    let start_lsn = end_lsn - records * record_bytes as u64;
    if records == 0 {
        return Ok(());
    }
    let tags = file.read_back(start_lsn, end_lsn, record_bytes)?;
    let mut next: Vec<Option<u32>> = vec![None; commits.len()];
    for (tag, lsn) in tags.iter().zip((start_lsn..).step_by(record_bytes)) {
        let next = next.get_mut(tag.thread as usize).ok_or_else(|| lost(lsn))?;
        if next.is_some_and(|next| next != tag.number) {
            return Err(lost(lsn));
        }
        *next = Some(tag.number + 1);
    }
    // A thread whose last commits lie further back is not in the part read.
    let ends = next.iter().zip(commits);
    for (next, commits) in ends {
        if next.is_some_and(|next| next != *commits) {
            return Err(lost(end_lsn));
        }
    }
    Ok(())
}
