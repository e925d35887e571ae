//! What the engine costs: depth-1 reads beside a bare `pread` loop, and
//! callbacks that resubmit at a depth. Reads only; takes an existing file.
//!
//! ```text
//! cargo run --release -p iolane --example overhead -- FILE [SECONDS] [BACKEND]
//! ```

use iolane::{Arena, BackendChoice, Buffer, Completion, Engine, File, Level, OpenOptions, Policy};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments
        .next()
        .ok_or("usage: overhead FILE [SECONDS] [BACKEND]")?;
    let seconds: f64 = arguments.next().map_or(Ok(3.0), |text| text.parse())?;
    let backend: BackendChoice = arguments.next().as_deref().unwrap_or("auto").parse()?;
    let time = Duration::from_secs_f64(seconds);

    let arena = Arena::builder().bytes(4 << 20).build()?;
    let engine = Engine::builder().backend(backend).arena(&arena).build()?;
    let file = engine.open(&path, OpenOptions::new().read(true).direct(true))?;
    println!("{}", file.device().backend()?);
    println!("registered {:?}", file.device().registered()?);
    depth_one(&path, &file, time)?;
    let cached = engine.open(&path, OpenOptions::new().read(true))?;
    cached_reads(&path, &cached)?;
    for policy in [Policy::Noop, Policy::Lanes] {
        let engine = Engine::builder()
            .backend(backend)
            .policy(policy)
            .arena(&arena)
            .build()?;
        let file = engine.open(&path, OpenOptions::new().read(true).direct(true))?;
        callbacks(&file, policy, &arena, 128, time)?;
    }
    Ok(())
}

/// A reproducible sequence of offsets (xorshift).
struct Offsets {
    state: u64,
    blocks: u64,
    block_bytes: u64,
}

impl Offsets {
    fn new(seed: u64, file_bytes: u64, block_bytes: u64) -> Offsets {
        Offsets {
            state: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            blocks: file_bytes / block_bytes,
            block_bytes,
        }
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state % self.blocks) * self.block_bytes
    }
}

/// Alternates in short slices, so that a change of the disk's mood hits both,
/// and compares medians.
fn depth_one(path: &str, file: &File, time: Duration) -> Result<()> {
    const BLOCK_BYTES: u64 = 16384;
    const SLICE: usize = 50;
    let bare = std::fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECT)
        .open(path)?;
    let mut offsets = Offsets::new(1, file.size()?, BLOCK_BYTES);
    let mut buffer = Buffer::new(BLOCK_BYTES as usize);
    let (mut bare_ns, mut engine_ns) = (Vec::new(), Vec::new());
    let until = Instant::now() + time;
    while Instant::now() < until {
        for _ in 0..SLICE {
            let offset = offsets.next();
            let begin = Instant::now();
            bare.read_at(&mut buffer, offset)?;
            bare_ns.push(begin.elapsed().as_nanos() as u64);
        }
        for _ in 0..SLICE {
            let offset = offsets.next();
            let begin = Instant::now();
            file.read_at(&mut buffer, offset, Level::Foreground)?;
            engine_ns.push(begin.elapsed().as_nanos() as u64);
        }
    }
    let [bare, engine] = [bare_ns, engine_ns].map(|mut times| {
        times.sort_unstable();
        let mean = times.iter().sum::<u64>() as f64 / times.len() as f64;
        (times[times.len() / 2] as f64, mean)
    });
    println!(
        "depth 1, 16 KiB: bare pread median {:.2} us mean {:.2} us, engine median {:.2} us \
         mean {:.2} us ({:+.2} %, {:+.2} %)",
        bare.0 / 1e3,
        bare.1 / 1e3,
        engine.0 / 1e3,
        engine.1 / 1e3,
        (engine.0 / bare.0 - 1.0) * 100.0,
        (engine.1 / bare.1 - 1.0) * 100.0
    );
    Ok(())
}

/// Reads of one cached page: there is no device time for the cost to hide in.
fn cached_reads(path: &str, file: &File) -> Result<()> {
    const ROUNDS: u32 = 20;
    const SLICE: u32 = 10_000;
    let bare = std::fs::File::open(path)?;
    let mut buffer = Buffer::new(512);
    let (mut bare_best, mut engine_best) = (Duration::MAX, Duration::MAX);
    for _ in 0..ROUNDS {
        let begin = Instant::now();
        for _ in 0..SLICE {
            bare.read_at(&mut buffer, 0)?;
        }
        let middle = Instant::now();
        for _ in 0..SLICE {
            file.read_at(&mut buffer, 0, Level::Foreground)?;
        }
        bare_best = bare_best.min(middle - begin);
        engine_best = engine_best.min(middle.elapsed());
    }
    let per = |time: Duration| time.as_nanos() as f64 / f64::from(SLICE);
    println!(
        "cached 512 bytes, best of {ROUNDS}: bare pread {:.0} ns, engine {:.0} ns",
        per(bare_best),
        per(engine_best)
    );
    Ok(())
}

struct Run {
    file: File,
    stop: AtomicBool,
    reads: AtomicU64,
    outstanding: AtomicUsize,
}

fn next(run: Arc<Run>, buffer: Buffer, mut offsets: Offsets) {
    let offset = offsets.next();
    let file = run.file.clone();
    let then = move |completion: Completion<Buffer>| {
        run.reads.fetch_add(1, Ordering::Relaxed);
        completion.result.expect("the file is readable");
        if run.stop.load(Ordering::Relaxed) {
            run.outstanding.fetch_sub(1, Ordering::Release);
        } else {
            next(run, completion.buffer, offsets);
        }
    };
    file.read_then(buffer, offset, Level::Normal, then)
        .expect("the level has room for the depth");
}

fn callbacks(
    file: &File,
    policy: Policy,
    arena: &Arena,
    depth: usize,
    time: Duration,
) -> Result<()> {
    const BLOCK_BYTES: u64 = 4096;
    let run = Arc::new(Run {
        file: file.clone(),
        stop: AtomicBool::new(false),
        reads: AtomicU64::new(0),
        outstanding: AtomicUsize::new(depth),
    });
    let (begin, cpu) = (Instant::now(), cpu_time()?);
    for seed in 0..depth as u64 {
        let offsets = Offsets::new(seed + 1, file.size()?, BLOCK_BYTES);
        next(
            Arc::clone(&run),
            arena.buffer(BLOCK_BYTES as usize)?,
            offsets,
        );
    }
    std::thread::sleep(time);
    let reads = run.reads.load(Ordering::Relaxed);
    let (elapsed, cpu) = (begin.elapsed(), cpu_time()? - cpu);
    run.stop.store(true, Ordering::Relaxed);
    while run.outstanding.load(Ordering::Acquire) > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let statistics = file.device().statistics();
    let total = statistics.total().read;
    println!(
        "depth {depth}, 4 KiB, callbacks, {policy}: {:.0} reads/s, {:.0} ns CPU per read, \
         device p50 {} us p99 {} us, batches {:?}",
        reads as f64 / elapsed.as_secs_f64(),
        cpu.as_nanos() as f64 / reads as f64,
        total.device.quantile_ns(0.5) / 1000,
        total.device.quantile_ns(0.99) / 1000,
        statistics.batch_sizes,
    );
    Ok(())
}

/// User and system time of this process: fields 14 and 15 of
/// `/proc/self/stat`, in ticks of 10 ms.
fn cpu_time() -> Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit(')').next().ok_or("no name in stat")?;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
    Ok(Duration::from_millis(ticks * 10))
}
