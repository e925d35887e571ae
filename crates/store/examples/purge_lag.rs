//! What two threads that write faster than purge can follow get done, and how
//! far purge falls behind: in turns held up, as by default, and not.
//!
//! `cargo run --release -p iolane-store --example purge_lag -- DIRECTORY
//! [POOL_MIB] [SECONDS] [TURNS]` makes stores in the directory, one after the
//! other, and removes them.
#![allow(clippy::print_stdout, reason = "it prints its results")]

use iolane_store::data::{ColumnType, Row, TableSchema};
use iolane_store::{Durability, Error, Store, StoreOptions, StoreStatistics};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const THREADS: u64 = 2;
/// Few, which change often.
const ROWS: u64 = 1000;
const ROW_BYTES: usize = 500;
/// Rows that a transaction changes.
const CHANGES: u64 = 10;

struct Options {
    directory: PathBuf,
    pool_mib: u64,
    duration: Duration,
    turns: u64,
}

/// What one turn showed.
struct Turn {
    commits: u64,
    /// The longest of them.
    longest: Duration,
    /// Most bytes of undo that purge was behind.
    behind: u64,
    /// How it ended, if before its time.
    refused: Option<String>,
    elapsed: Duration,
    /// Until purge had eaten all.
    drained: Duration,
    statistics: StoreStatistics,
}

fn row(id: u64, version: u64) -> Row {
    let tags = [0, 16, 32].map(|bits| ((version >> bits) as i64).into());
    let mut row = vec![(id as i64).into(), "x".repeat(ROW_BYTES).into()];
    row.extend(tags);
    row
}

/// Changes rows of a thread's own.
fn transaction(store: &Store, thread: u64, random: u64) -> Result<(), Error> {
    let mut one = store.begin();
    for number in 0..CHANGES {
        let id = (random + number) % (ROWS / THREADS) * THREADS + thread;
        one.update("t", row(id, random ^ number))?;
    }
    one.commit()
}

/// Until `stop` says so, or a change is refused: how many, and the longest.
fn change(store: &Store, thread: u64, stop: &AtomicBool) -> (u64, Duration, Option<String>) {
    let (mut count, mut longest) = (0, Duration::ZERO);
    let mut random = thread + 1;
    while !stop.load(Ordering::Relaxed) {
        // xorshift64 (Marsaglia 2003).
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let begin = Instant::now();
        if let Err(error) = transaction(store, thread, random) {
            stop.store(true, Ordering::Relaxed);
            return (count, longest, Some(error.to_string()));
        }
        count += 1;
        longest = longest.max(begin.elapsed());
    }
    (count, longest, None)
}

fn turn(path: &Path, options: &Options, held_up: bool) -> Result<Turn, Error> {
    let mut store_options = StoreOptions::default();
    store_options.pages.pool_bytes = options.pool_mib << 20;
    store_options.durability = Durability::Lazy;
    if !held_up {
        store_options.purge_lag_bytes = Some(u64::MAX);
    }
    let store = Store::create(path, &store_options)?;
    let schema = TableSchema::new("t")
        .column("id", ColumnType::Integer)
        .column("text", ColumnType::Text)
        .column("one", ColumnType::Integer)
        .column("two", ColumnType::Integer)
        .column("three", ColumnType::Integer)
        .primary_key(["id"])
        .index("by_one", ["one"])
        .index("by_two", ["two"])
        .index("by_three", ["three"]);
    store.create_table(&schema)?;
    store.bulk_load("t", (0..ROWS).map(|id| row(id, id)))?;
    let stop = AtomicBool::new(false);
    let begin = Instant::now();
    let mut behind = 0;
    let done: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (store, stop) = (&store, &stop);
                scope.spawn(move || change(store, thread, stop))
            })
            .collect();
        while begin.elapsed() < options.duration && !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(5));
            behind = behind.max(store.statistics().unpurged_bytes);
        }
        stop.store(true, Ordering::Relaxed);
        let joined = threads.into_iter().map(|thread| thread.join());
        joined
            .map(|done| done.expect("it panics on nothing"))
            .collect()
    });
    let (elapsed, statistics) = (begin.elapsed(), store.statistics());
    let begin = Instant::now();
    while store.statistics().unpurged > 0 {
        std::thread::sleep(Duration::from_millis(5));
    }
    let drained = begin.elapsed();
    store.close()?;
    Ok(Turn {
        commits: done.iter().map(|(count, _, _)| count).sum(),
        longest: done.iter().map(|done| done.1).max().unwrap_or_default(),
        behind,
        refused: done.into_iter().find_map(|(_, _, refused)| refused),
        elapsed,
        drained,
        statistics,
    })
}

fn show(held_up: bool, turn: &Turn) {
    let waits = turn.statistics.purge_waits;
    println!(
        "{:8} {:>9.0} changes/s; the longest of {CHANGES} with their commit {:>6.1} ms; {:>6.1} MiB behind at most; {:>7} waits, {:>6.2} s in all, {:>5.1} ms the longest; eaten {:.2} s later{}",
        if held_up { "held up" } else { "not" },
        (turn.commits * CHANGES) as f64 / turn.elapsed.as_secs_f64(),
        turn.longest.as_secs_f64() * 1e3,
        turn.behind as f64 / f64::from(1 << 20),
        waits.count,
        waits.total_ns as f64 / 1e9,
        waits.longest_ns as f64 / 1e6,
        turn.drained.as_secs_f64(),
        match &turn.refused {
            Some(why) => format!("; ended after {:.1?}: {why}", turn.elapsed),
            None => String::new(),
        }
    );
}

fn options() -> Result<Options, Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let directory = arguments.next().ok_or("which directory?")?;
    let mut number = |default: u64| match arguments.next() {
        Some(text) => text
            .to_str()
            .ok_or("no number")?
            .parse()
            .map_err(Into::into),
        None => Ok::<u64, Box<dyn std::error::Error>>(default),
    };
    Ok(Options {
        directory: PathBuf::from(directory),
        pool_mib: number(32)?,
        duration: Duration::from_secs(number(10)?),
        turns: number(5)?,
    })
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = options()?;
    let path = options.directory.join("purge_lag");
    for _ in 0..options.turns {
        for held_up in [true, false] {
            let result = turn(&path, &options, held_up);
            std::fs::remove_dir_all(&path)?;
            show(held_up, &result?);
        }
    }
    Ok(())
}
