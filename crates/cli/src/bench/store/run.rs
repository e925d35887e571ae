//! One run of one setting: threads, phases, and what is taken down when.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, ScopedJoinHandle, Thread};
use std::time::{Duration, Instant};

use iolane_store::{Error, Ledger, Store, StoreStatistics};

use super::beside::Background;
use super::document::{BackgroundRun, Gaps, RunFigures, Slice, StoreCounts, StoreRun};
use super::limit::{Device, Reads};
use super::table::Table;
use super::timeline::{Diary, Pulse, Sampler, slice_of};
use super::work::{Arrivals, Work};
use super::{Setting, StoreBenchOptions};
use crate::args::choices::name;
use crate::args::store_bench::Experiment;
use crate::bench::load::Load;
use crate::error::Failure;
use crate::inflight::{CpuMeter, CpuTime, Scope};
use crate::processors::Processors;
use crate::session::Session;
use crate::store::failure::failure;
use crate::system::SystemPaths;

/// Between two looks at whether to end.
const LOOK: Duration = Duration::from_millis(20);

/// Work that begins cold has nothing to warm up.
fn is_cold(experiment: Experiment) -> bool {
    !matches!(experiment, Experiment::Commit | Experiment::Oltp)
}

/// Opening a store asks for pages that somebody waits for, and for a while after
/// that the scheduler leaves room for more of them. Whoever goes through a table
/// has usually opened its store long before.
fn pause(time: Duration, session: &Session) -> Result<(), Failure> {
    let end = Instant::now() + time;
    loop {
        session.stop.check()?;
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        thread::sleep(left.min(LOOK));
    }
}

/// Once. The device does reads `alike` right before and after it.
///
/// # Errors
/// The store's, or an interruption.
pub fn run(
    table: &Table,
    setting: &Setting,
    options: &StoreBenchOptions,
    repetition: u64,
    alike: Option<(&Device<'_>, Reads)>,
    session: &Session,
) -> Result<StoreRun, Failure> {
    let times = options.course.times();
    let warm_up = if is_cold(setting.experiment) {
        Duration::ZERO
    } else {
        times.warm_up
    };
    let (store, store_options) = table.open(setting)?;
    if is_cold(setting.experiment) {
        pause(times.warm_up, session)?;
    }
    let device_rates = || {
        let rates = alike.map(|(device, reads)| device.rates(reads));
        rates.transpose()
    };
    let rates_before = device_rates()?;
    let begin = Instant::now() + warm_up;
    let witness = table.place.witness(&session.paths, begin);
    let witness = witness.map_err(unstarted)?;
    let slice = slice_of(times.runtime);
    let work = Work {
        store: &store,
        table,
        experiment: setting.experiment,
        threads: setting.threads,
        arrivals: setting.rate_per_second.map(Arrivals::new),
        range_rows: options.range_rows,
        seed: options.course.seed + repetition,
        pulse: Pulse::new(begin),
        measuring: AtomicBool::new(false),
        ended: AtomicBool::new(false),
        version: AtomicU64::new(1),
    };
    let all = AtomicU64::new(0);
    let at_work = AtWork::new(setting.threads);
    let counters: Vec<AtomicU64> = setting.beside.iter().map(|_| AtomicU64::new(0)).collect();
    let mut measured = thread::scope(|scope| -> Result<RunFigures, Failure> {
        // Also on an early return, or the scope would never end.
        let _end = EndOnDrop(&work.ended);
        let (work, at_work) = (&work, &at_work);
        let mut backgrounds = Vec::new();
        for (&what, rows) in setting.beside.iter().zip(&counters) {
            let background = Background {
                what,
                rows,
                all: &all,
                cpu_share: setting.beside_cpu_share,
            };
            let options = &store_options;
            backgrounds.push(scope.spawn(move || ending(work, background.run(work, options))));
        }
        let watch = Watch {
            work,
            session,
            setting,
            begin,
            runtime: times.runtime,
            slice,
            rows: &counters,
            all: &all,
        };
        if is_cold(setting.experiment) {
            work.measuring.store(true, Ordering::Relaxed);
        }
        let before = Before::take(&store, &counters, &session.paths)?;
        let workers: Vec<_> = (0..setting.threads)
            .map(|thread| {
                scope.spawn(move || {
                    let _ended = at_work.until_dropped();
                    let mut diary = Diary::new(begin, slice);
                    let done = ending(work, work.run(thread, &mut diary));
                    done.map(|()| diary)
                })
            })
            .collect();
        let seen = watch.until_the_end(before, at_work);
        work.ended.store(true, Ordering::Relaxed);
        let mut diary = Diary::new(begin, slice);
        for worker in workers {
            diary.add(joined(worker)?);
        }
        for background in backgrounds {
            joined(background)?;
        }
        let mut seen = seen?;
        seen.timeline = entered(diary, seen.timeline, &mut seen.load, table);
        Ok(seen)
    })?;
    measured.gaps = work.pulse.gaps(&witness.end());
    measured.device = rates_before
        .zip(device_rates()?)
        .map(|(before, after)| before.mean(after));
    store.close().map_err(|error| failure(&error))?;
    Ok(StoreRun::new(setting.clone(), measured))
}

/// Latencies, into the slices and into the load, whose time is known.
fn entered(diary: Diary, mut slices: Vec<Slice>, load: &mut Load, table: &Table) -> Vec<Slice> {
    let latency_ns = diary.latency_ns.clone();
    let bytes = latency_ns.len() * table.row_size_bytes();
    *load = Load::new(bytes, Duration::from_nanos(load.duration_ns), latency_ns);
    diary.enter(&mut slices);
    slices
}

/// One that failed ends the run.
pub fn ending(work: &Work<'_>, result: Result<(), Error>) -> Result<(), Error> {
    if result.is_err() {
        work.ended.store(true, Ordering::Relaxed);
    }
    result
}

fn joined<T>(thread: ScopedJoinHandle<'_, Result<T, Error>>) -> Result<T, Failure> {
    match thread.join() {
        Ok(result) => result.map_err(|error| failure(&error)),
        Err(_) => Err(Failure::Internal {
            message: "a thread of the measurement panicked".to_owned(),
        }),
    }
}

struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// The threads that do the measured work, and who is told of their end.
struct AtWork {
    left: AtomicU64,
    watcher: Thread,
}

impl AtWork {
    /// Tells the thread that calls this.
    fn new(threads: u64) -> Self {
        Self {
            left: AtomicU64::new(threads),
            watcher: thread::current(),
        }
    }

    fn until_dropped(&self) -> OneAtWork<'_> {
        OneAtWork(self)
    }

    fn is_empty(&self) -> bool {
        self.left.load(Ordering::Acquire) == 0
    }
}

/// One of them.
struct OneAtWork<'a>(&'a AtWork);

impl Drop for OneAtWork<'_> {
    fn drop(&mut self) {
        if self.0.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.watcher.unpark();
        }
    }
}

/// How things stood when the measured time began.
struct Before {
    ledger: Ledger,
    statistics: StoreStatistics,
    meter: CpuMeter,
    processors: Option<Processors>,
    rows: Vec<u64>,
    at: Instant,
}

impl Before {
    fn take(store: &Store, rows: &[AtomicU64], paths: &SystemPaths) -> Result<Self, Failure> {
        Ok(Self {
            ledger: store.ledger(),
            statistics: store.statistics(),
            meter: CpuMeter::start(Scope::Process).map_err(unreadable)?,
            processors: Processors::start(paths),
            rows: rows
                .iter()
                .map(|rows| rows.load(Ordering::Relaxed))
                .collect(),
            at: Instant::now(),
        })
    }
}

fn unstarted(error: std::io::Error) -> Failure {
    Failure::transfer("starting a thread", error)
}

fn unreadable(error: std::io::Error) -> Failure {
    Failure::transfer("reading CPU time", error)
}

/// What leads a run through its phases.
struct Watch<'a> {
    work: &'a Work<'a>,
    session: &'a Session,
    setting: &'a Setting,
    /// Of the measured time.
    begin: Instant,
    runtime: Duration,
    slice: Duration,
    rows: &'a [AtomicU64],
    all: &'a AtomicU64,
}

impl Watch<'_> {
    fn name(&self) -> String {
        if let Some(title) = self.setting.title {
            return title.to_owned();
        }
        let experiment = name(self.setting.experiment);
        format!("{experiment}: {}", self.setting.label())
    }

    /// Until the time is over, the work is done, or somebody wants it to end.
    /// The load has its time only.
    fn until_the_end(&self, mut before: Before, at_work: &AtWork) -> Result<RunFigures, Failure> {
        let what = self.name();
        let time = self.begin.saturating_duration_since(Instant::now()) + self.runtime;
        let phase = self.session.progress.phase(&what, time);
        let started = Instant::now();
        let done = || self.work.is_over() || at_work.is_empty();
        let wait_until = |until: Instant| -> Result<(), Failure> {
            loop {
                self.session.stop.check()?;
                phase.elapsed(started.elapsed());
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() || done() {
                    return Ok(());
                }
                // The last worker does not wait for the next look: short runs would
                // all be a multiple of it.
                thread::park_timeout(left.min(LOOK));
            }
        };
        wait_until(self.begin)?;
        if !self.work.measuring.load(Ordering::Relaxed) {
            before = Before::take(self.work.store, self.rows, &self.session.paths)?;
            self.work.measuring.store(true, Ordering::Relaxed);
        }
        let end = self.begin + self.runtime;
        let mut sampler = Sampler::start(self.work.store, self.all, self.begin);
        let mut next = self.begin + self.slice;
        while !done() && Instant::now() < end {
            wait_until(next.min(end))?;
            sampler.look();
            while next <= Instant::now() {
                next += self.slice;
            }
        }
        self.taken_down(&before, sampler.slices)
    }

    fn taken_down(&self, before: &Before, timeline: Vec<Slice>) -> Result<RunFigures, Failure> {
        let store = self.work.store;
        let ledger = store.ledger().since(&before.ledger);
        let cpu_time: CpuTime = before.meter.used().map_err(unreadable)?;
        let elapsed = before.at.elapsed();
        if let Some(processors) = &before.processors {
            processors.warn(&self.name(), &before.meter, self.session);
        }
        let rows = self.rows.iter().zip(&before.rows);
        let background = self.setting.beside.iter().zip(rows);
        let background = background.map(|(&what, (now, before))| {
            let rows = now.load(Ordering::Relaxed) - before;
            BackgroundRun {
                what,
                rows,
                rows_per_second: rows as f64 / elapsed.as_secs_f64(),
            }
        });
        Ok(RunFigures {
            load: Load::empty(elapsed),
            gaps: Gaps::default(),
            background: background.collect(),
            ledger,
            counts: counts(&before.statistics, &store.statistics()),
            device: None,
            cpu_time,
            timeline,
        })
    }
}

fn counts(before: &StoreStatistics, after: &StoreStatistics) -> StoreCounts {
    let (waits_before, waits_after) = (before.purge_waits, after.purge_waits);
    let unpurged_bytes = after.unpurged_bytes;
    let (before, after) = (&before.pages, &after.pages);
    StoreCounts {
        pages_read: after.pool.reads - before.pool.reads,
        pages_read_ahead: after.pool.prefetches - before.pool.prefetches,
        pages_read_ahead_unused: after.pool.prefetches_wasted - before.pool.prefetches_wasted,
        pages_written: after.flush.pages - before.flush.pages,
        checkpoints: after.flush.checkpoints - before.flush.checkpoints,
        checkpoints_asked: after.flush.checkpoints_asked - before.flush.checkpoints_asked,
        frame_waits: after.frame_waits.count - before.frame_waits.count,
        frame_wait_ns: after.frame_waits.total_ns - before.frame_waits.total_ns,
        log_waits: after.log_waits.count - before.log_waits.count,
        log_wait_ns: after.log_waits.total_ns - before.log_waits.total_ns,
        purge_waits: waits_after.count - waits_before.count,
        purge_wait_ns: waits_after.total_ns - waits_before.total_ns,
        unpurged_bytes,
    }
}
