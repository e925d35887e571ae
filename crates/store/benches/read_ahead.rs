//! Cold scans and ranges beside what the device can do, in one run.
//!
//! `cargo bench -p iolane-store --bench read_ahead -- [DIRECTORY] [MIB] [keep] [POLICY]`
//! makes a store of two tables of MIB (1024) each in DIRECTORY (/var/tmp), one
//! loaded in random order of its keys and one in order, reads them with a pool of
//! an eighth under each policy, and removes the store unless it is to `keep`. A
//! store that was kept is used again. POLICY (`logical`) leaves the others out.

use iolane::{Arena, Engine, File, Level, OpenOptions, Policy, WindowConfig};
use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::ids::PAGE_BYTES_DEFAULT;
use iolane_store::{
    Direction, Durability, IndexReadAhead, IoPolicy, Role, ScanReadAhead, Store, StoreOptions,
};
use std::error::Error;
use std::ops::Bound;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

type Done<T> = Result<T, Box<dyn Error>>;

/// Bytes of a row's filler; a row takes some more.
const FILLER_BYTES: usize = 380;
/// Bytes of a row on a page that splits have left two thirds full.
const ROW_BYTES: u64 = 600;
/// Rows that a range of the secondary index has.
const RANGE_ROWS: i64 = 10_000;
/// How long the device is measured at each depth.
const PROBE: Duration = Duration::from_millis(1500);

struct Setup {
    path: PathBuf,
    rows: i64,
    pool_bytes: u64,
    keep: bool,
    only: Option<&'static str>,
}

fn main() -> Done<()> {
    let mut setup = Setup {
        path: PathBuf::from("/var/tmp"),
        rows: 0,
        pool_bytes: 0,
        keep: false,
        only: None,
    };
    let mut mib = 1024;
    for word in std::env::args().skip(1) {
        match word.as_str() {
            "keep" => setup.keep = true,
            // What cargo says to every bench, and to one that is only tried.
            "--bench" => {}
            "--test" => mib = 16,
            policy if name_of(policy).is_some() => setup.only = name_of(policy),
            number if number.parse::<u64>().is_ok() => mib = number.parse()?,
            directory => setup.path = PathBuf::from(directory),
        }
    }
    setup.path.push("iolane-read-ahead");
    setup.rows = ((mib << 20) / ROW_BYTES) as i64;
    setup.pool_bytes = (mib << 20) / 8;
    let result = run(&setup);
    if !setup.keep && setup.path.exists() {
        std::fs::remove_dir_all(&setup.path)?;
    }
    result
}

fn run(setup: &Setup) -> Done<()> {
    if !setup.path.exists() {
        fill(setup)?;
    }
    let device = probe(setup)?;
    let read_rate = device.random_at_best;
    for (table, what, best) in [
        (
            "scattered",
            "16 KiB random reads",
            read_rate * PAGE_BYTES_DEFAULT as f64,
        ),
        ("ordered", "1 MiB sequential reads", device.sequential),
    ] {
        for (name, policy) in scan_policies() {
            if setup.only.is_some_and(|only| only != name) {
                continue;
            }
            let scan = scan(setup, table, policy)?;
            println!(
                "scan {table:9} {name:15} {:7.0} MB/s  {:5.1} % of {what}  idle {:5.2} %  \
                 on its processor {:3.0} %  {:4.0} KiB a transfer",
                scan.bytes_per_s / 1e6,
                100.0 * scan.bytes_per_s / best,
                100.0 * scan.idle,
                100.0 * scan.busy,
                scan.transfer_bytes / 1024.0,
            );
        }
    }
    for (name, index) in [
        ("none", IndexReadAhead::None),
        ("batches", IndexReadAhead::Batches),
    ] {
        let policy = IoPolicy {
            index,
            ..IoPolicy::AGGRESSIVE
        };
        let rate = range(setup, policy)?;
        println!(
            "{RANGE_ROWS} rows by index   {name:15} {rate:7.0} rows/s  {:5.1} % of the random reads",
            100.0 * rate / read_rate
        );
    }
    for (name, keys_at_once) in [("get", 1), ("get_many 10", 10), ("get_many 1000", 1000)] {
        let (rate, pages) = by_keys(setup, keys_at_once)?;
        println!(
            "{RANGE_ROWS} rows by key     {name:15} {rate:7.0} rows/s  {:5.1} % of the random reads",
            100.0 * pages / read_rate
        );
    }
    Ok(())
}

fn name_of(policy: &str) -> Option<&'static str> {
    let mut names = scan_policies().into_iter().map(|(name, _)| name);
    names.find(|name| *name == policy)
}

fn scan_policies() -> [(&'static str, IoPolicy); 5] {
    let none = IoPolicy {
        scan: ScanReadAhead::None,
        ..IoPolicy::AGGRESSIVE
    };
    [
        ("none", none),
        (
            "linear",
            IoPolicy {
                linear: true,
                ..none
            },
        ),
        (
            "random",
            IoPolicy {
                random: true,
                ..none
            },
        ),
        (
            "both",
            IoPolicy {
                linear: true,
                random: true,
                ..none
            },
        ),
        ("logical", IoPolicy::AGGRESSIVE),
    ]
}

fn schema(name: &str) -> TableSchema {
    TableSchema::new(name)
        .column("id", ColumnType::Integer)
        .column("other", ColumnType::Integer)
        .column("filler", ColumnType::Blob)
        .primary_key(["id"])
}

fn row(id: i64, rows: i64) -> Row {
    vec![
        id.into(),
        scattered(id, rows).into(),
        Value::Blob(vec![id as u8; FILLER_BYTES]),
    ]
}

/// Another order of the numbers below `rows`: a prime has no divisor of it.
fn scattered(number: i64, rows: i64) -> i64 {
    (i128::from(number) * 1_000_000_007 % i128::from(rows)) as i64
}

/// Makes the tables, in a pool that holds them: only what they are like on the
/// disk matters.
fn fill(setup: &Setup) -> Done<()> {
    let begun = Instant::now();
    let mut options = StoreOptions::default();
    options.pages.pool_bytes = 20 * setup.pool_bytes + (64 << 20);
    options.pages.log_bytes = 256 << 20;
    options.durability = Durability::Lazy;
    let store = Store::create(&setup.path, &options)?;
    let rows = setup.rows;
    store.create_table(&schema("scattered").index("by_other", ["other"]))?;
    for first in (0..rows).step_by(1000) {
        let mut transaction = store.begin();
        for number in first..rows.min(first + 1000) {
            transaction.insert("scattered", row(scattered(number, rows), rows))?;
        }
        transaction.commit()?;
    }
    store.create_table(&schema("ordered"))?;
    // As many pages as splits leave of the other.
    store.bulk_load("ordered", (0..rows * 3 / 2).map(|id| row(id, rows)))?;
    store.close()?;
    println!(
        "{rows} rows scattered, half as many again in order: {:.1?}",
        begun.elapsed()
    );
    Ok(())
}

fn open(setup: &Setup, policy: IoPolicy) -> Done<(Store, Arc<Engine>)> {
    let engine = Arc::new(Engine::new()?);
    let mut options = StoreOptions {
        engine: Some(Arc::clone(&engine)),
        ..StoreOptions::default()
    };
    options.pages.pool_bytes = setup.pool_bytes.max(2 << 20);
    options.pages.log_bytes = 256 << 20;
    options.pages.io = policy;
    Ok((Store::open(&setup.path, &options)?, engine))
}

struct Scan {
    bytes_per_s: f64,
    /// Share of the time with nothing outstanding.
    idle: f64,
    /// Share of the time that the thread had a processor.
    busy: f64,
    transfer_bytes: f64,
}

fn scan(setup: &Setup, table: &str, policy: IoPolicy) -> Done<Scan> {
    let (store, engine) = open(setup, policy)?;
    let devices = engine.devices();
    let device = devices.first().ok_or("a device")?;
    let before = device.statistics();
    let reads = store.statistics().pages.pool.reads;
    let (begun, on_processor) = (Instant::now(), on_processor_ns());
    let mut transaction = store.begin();
    let mut sum = 0;
    for row in transaction.range(table, .., Direction::Forward)? {
        if let Some(Value::Integer(other)) = row?.get(1) {
            sum += *other;
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    std::hint::black_box(sum);
    let busy = (on_processor_ns() - on_processor) as f64 / 1e9 / seconds;
    drop(transaction);
    let done = device.statistics().since(&before);
    let pages = store.statistics().pages.pool.reads - reads;
    if std::env::var_os("STREAMS").is_some() {
        println!("{:?}", store.statistics().pages.pool);
        println!("{:?}", store.stream_statistics(Role::Scan));
    }
    Ok(Scan {
        bytes_per_s: pages as f64 * PAGE_BYTES_DEFAULT as f64 / seconds,
        idle: done.outstanding.share_at(0),
        busy,
        transfer_bytes: done.total().read.bytes as f64 / done.transfers.max(1) as f64,
    })
}

/// Time that this thread has had a processor: others may want them too.
fn on_processor_ns() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = schedstat.split(' ').next();
    first.and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Rows per second of a range that nobody has read before.
fn range(setup: &Setup, policy: IoPolicy) -> Done<f64> {
    let (store, _engine) = open(setup, policy)?;
    let mut transaction = store.begin();
    let from = [Value::Integer(setup.rows / 3)];
    let to = [Value::Integer(
        setup.rows / 3 + RANGE_ROWS.min(setup.rows / 4),
    )];
    let bounds = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
    let begun = Instant::now();
    let mut count = 0;
    for row in transaction.range_by("scattered", "by_other", bounds, Direction::Forward)? {
        std::hint::black_box(row?);
        count += 1;
    }
    let rate = f64::from(count) / begun.elapsed().as_secs_f64();
    drop(transaction);
    if std::env::var_os("STREAMS").is_some() {
        println!("{:?}", store.statistics().pages.pool);
        println!("{:?}", store.stream_statistics(Role::Index));
    }
    Ok(rate)
}

/// Rows, and pages read, per second, of keys all over a table that nobody has
/// read before.
fn by_keys(setup: &Setup, at_once: usize) -> Done<(f64, f64)> {
    let (store, _engine) = open(setup, IoPolicy::AGGRESSIVE)?;
    let mut transaction = store.begin();
    let count = RANGE_ROWS.min(setup.rows / 4);
    let keys: Vec<[Value; 1]> = (0..count)
        .map(|number| [scattered(number * 4, setup.rows).into()])
        .collect();
    let before = store.statistics().pages.pool.reads;
    let begun = Instant::now();
    for some in keys.chunks(at_once) {
        match some {
            [key] => {
                std::hint::black_box(transaction.get("scattered", key)?);
            }
            some => {
                std::hint::black_box(transaction.get_many("scattered", some)?);
            }
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let pages = store.statistics().pages.pool.reads - before;
    Ok((count as f64 / seconds, pages as f64 / seconds))
}

struct Device {
    /// Reads a second.
    random_at_best: f64,
    /// Bytes a second.
    sequential: f64,
}

/// What the engine gets of the device without any scheduling, as `iolane bench
/// sweep` does it.
fn probe(setup: &Setup) -> Done<Device> {
    let mut files: Vec<(u64, PathBuf)> = Vec::new();
    for entry in std::fs::read_dir(&setup.path)? {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "ts") {
            files.push((path.metadata()?.len(), path));
        }
    }
    files.sort();
    let (bytes, path) = files.pop().ok_or("a table's file")?;
    let mut random_at_best = 0_f64;
    for depth in [1, 16, 32, 64] {
        let rate = rate(&path, bytes, PAGE_BYTES_DEFAULT, depth, true)?;
        println!("random 16 KiB reads at depth {depth:3}: {rate:7.0} reads/s");
        random_at_best = random_at_best.max(rate);
    }
    let mut sequential = 0_f64;
    for depth in [2, 8] {
        let rate = rate(&path, bytes, 1 << 20, depth, false)? * f64::from(1 << 20);
        println!(
            "sequential 1 MiB reads at depth {depth:3}: {:7.0} MB/s",
            rate / 1e6
        );
        sequential = sequential.max(rate);
    }
    Ok(Device {
        random_at_best,
        sequential,
    })
}

/// Requests a second, by callbacks that submit the next one.
fn rate(path: &Path, bytes: u64, block: usize, depth: usize, random: bool) -> Done<f64> {
    let arena = Arena::builder().bytes((depth * block) as u64).build()?;
    let engine = Engine::builder().arena(&arena).build()?;
    let file = engine.open(path, OpenOptions::new().read(true).direct(true))?;
    file.device()
        .set_policy(Policy::Noop, WindowConfig::Fixed(1024))?;
    let shared = Arc::new(Probe {
        file,
        blocks: bytes / block as u64,
        block,
        random,
        next: AtomicU64::new(0),
        done: AtomicU64::new(0),
        until: Instant::now() + PROBE,
    });
    let begun = Instant::now();
    let (sender, receiver) = mpsc::channel();
    for _ in 0..depth {
        again(Arc::clone(&shared), arena.buffer(block)?, sender.clone());
    }
    drop(sender);
    for _ in 0..depth {
        receiver.recv()?;
    }
    Ok(shared.done.load(Ordering::Relaxed) as f64 / begun.elapsed().as_secs_f64())
}

struct Probe {
    file: File,
    blocks: u64,
    block: usize,
    random: bool,
    next: AtomicU64,
    done: AtomicU64,
    until: Instant,
}

fn again(probe: Arc<Probe>, buffer: iolane::Buffer, ended: mpsc::Sender<()>) {
    if Instant::now() >= probe.until {
        // Nobody listens once it has failed.
        let _ = ended.send(());
        return;
    }
    let number = probe.next.fetch_add(1, Ordering::Relaxed);
    let block = if probe.random {
        // Splitmix64 (Vigna 2015).
        let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % probe.blocks
    } else {
        number % probe.blocks
    };
    let file = probe.file.clone();
    let offset = block * probe.block as u64;
    let refused = file.read_then(buffer, offset, Level::Normal, move |read| {
        probe
            .done
            .fetch_add(u64::from(read.result.is_ok()), Ordering::Relaxed);
        again(probe, read.buffer, ended);
    });
    // Within the file, aligned, and the engine is open.
    refused.expect("a read that is possible");
}
