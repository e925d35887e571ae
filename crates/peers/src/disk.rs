//! What the disk gives, through the engine, without a database.

use crate::measure::rate;
use crate::rows::Random;
use crate::stop::Stop;
use anyhow::{Context, Result, ensure};
use iolane::{Buffer, Completion, Engine, File, Level, OpenOptions, Policy, WindowConfig};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// A page of iolane's and InnoDB's.
const PAGE_BYTES: u64 = 16 << 10;

/// More than is ever outstanding here: nothing waits in the engine.
const IN_FLIGHT_MAX: u32 = 1024;

struct Run {
    file: File,
    pages: u64,
    stop: AtomicBool,
    failed: AtomicBool,
    reads: AtomicU64,
    outstanding: AtomicUsize,
}

/// The file, as `iolane bench sweep` opens it: nothing is scheduled, nothing
/// merged. Also how many pages it has.
fn open(path: &Path) -> Result<(Engine, File, u64)> {
    let builder = Engine::builder().policy(Policy::Noop);
    let engine = builder.configure(|_, config| {
        config.window = WindowConfig::Fixed(IN_FLIGHT_MAX);
        config.in_flight_max = IN_FLIGHT_MAX;
        config.transfer_members_max = 1;
        for level in &mut config.levels {
            level.queued_max = IN_FLIGHT_MAX;
        }
    });
    let mut options = OpenOptions::new();
    options.read(true).direct(true);
    let engine = engine.build()?;
    let file = engine.open(path, &options)?;
    let pages = file.size()? / PAGE_BYTES;
    ensure!(pages > 0, "{} is empty", path.display());
    Ok((engine, file, pages))
}

/// Random direct reads of 16 KiB per second by `threads` threads, each of which
/// waits for its own. Another `seed` reads other pages.
///
/// # Errors
/// What the engine says, or a signal.
pub fn read_rate_of_threads(
    path: &Path,
    threads: usize,
    time: Duration,
    seed: u64,
    stop: &Stop,
) -> Result<f64> {
    let (_engine, file, pages) = open(path)?;
    rate(threads, time, stop, &|thread| {
        let file = file.clone();
        let mut buffer = Buffer::new(PAGE_BYTES as usize);
        let mut random = Random::new(seed + thread as u64);
        Ok(Box::new(move || {
            let offset = random.below(pages) * PAGE_BYTES;
            file.read_at(&mut buffer, offset, Level::Normal)?;
            Ok(1)
        }))
    })
}

/// The same with `depth` outstanding, each of which submits the next when it
/// completes: what `iolane bench sweep` shows.
///
/// # Errors
/// What the engine says.
pub fn read_rate(path: &Path, depth: usize, time: Duration, seed: u64) -> Result<f64> {
    let (_engine, file, pages) = open(path)?;
    let run = Arc::new(Run {
        file,
        pages,
        stop: AtomicBool::new(false),
        failed: AtomicBool::new(false),
        reads: AtomicU64::new(0),
        outstanding: AtomicUsize::new(depth),
    });
    let begin = Instant::now();
    for place in 0..depth as u64 {
        let buffer = Buffer::new(PAGE_BYTES as usize);
        next(Arc::clone(&run), buffer, Random::new(seed + place));
    }
    std::thread::sleep(time);
    let reads = run.reads.load(Ordering::Relaxed);
    let seconds = begin.elapsed().as_secs_f64();
    run.stop.store(true, Ordering::Relaxed);
    while run.outstanding.load(Ordering::Acquire) > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    (!run.failed.load(Ordering::Relaxed))
        .then_some(reads as f64 / seconds)
        .with_context(|| format!("{} cannot be read", path.display()))
}

/// Submits a read that submits the next one.
fn next(run: Arc<Run>, buffer: Buffer, mut random: Random) {
    let offset = random.below(run.pages) * PAGE_BYTES;
    let file = run.file.clone();
    let (ended, then) = (Arc::clone(&run), move |completion: Completion<Buffer>| {
        run.reads.fetch_add(1, Ordering::Relaxed);
        if completion.result.is_err() {
            run.failed.store(true, Ordering::Relaxed);
        }
        if run.stop.load(Ordering::Relaxed) || run.failed.load(Ordering::Relaxed) {
            run.outstanding.fetch_sub(1, Ordering::Release);
        } else {
            next(run, completion.buffer, random);
        }
    });
    if file.read_then(buffer, offset, Level::Normal, then).is_err() {
        ended.failed.store(true, Ordering::Relaxed);
        ended.outstanding.fetch_sub(1, Ordering::Release);
    }
}
