//! How long changes wait while a store is checked.
//!
//! `cargo run --release -p iolane-store --example check_beside -- DIRECTORY [MiB]`
//! makes a store with a table of that size (1024) there, with a pool of an
//! eighth, changes rows in two threads, alone and beside a check, and removes it.

use iolane_store::data::{ColumnType, Row, TableSchema};
use iolane_store::{Durability, Error, Store, StoreOptions};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const ROW_BYTES: u64 = 1000;
const ALONE: Duration = Duration::from_secs(5);
const THREADS: u64 = 2;
/// Between two transactions of a thread.
const PAUSE: Duration = Duration::from_millis(2);

fn row(id: u64, version: u64) -> Row {
    let text = format!("{version:08}").repeat(ROW_BYTES as usize / 8);
    vec![(id as i64).into(), (id as i64).into(), text.into()]
}

/// Until `stop` says so; how long each transaction took.
fn change(
    store: &Store,
    rows: u64,
    thread: u64,
    stop: &AtomicBool,
) -> Result<Vec<Duration>, Error> {
    let mut times = Vec::new();
    let mut random = thread + 1;
    while !stop.load(Ordering::Relaxed) {
        // xorshift64 (Marsaglia 2003). Each thread has rows of its own.
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let id = random % (rows / THREADS) * THREADS + thread;
        let begin = Instant::now();
        let mut one = store.begin();
        one.update("t", row(id, random))?;
        one.commit_with(Durability::Lazy)?;
        times.push(begin.elapsed());
        std::thread::sleep(PAUSE);
    }
    Ok(times)
}

/// Changes rows while `work` goes on.
fn beside<T>(
    what: &str,
    store: &Store,
    rows: u64,
    work: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let stop = AtomicBool::new(false);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let stop = &stop;
                scope.spawn(move || change(store, rows, thread, stop))
            })
            .collect();
        let done = work();
        stop.store(true, Ordering::Relaxed);
        let mut times = Vec::new();
        for thread in threads {
            times.extend(thread.join().expect("it panics on nothing")?);
        }
        times.sort_unstable();
        let at = |share: f64| {
            let at = times.get((times.len() as f64 * share) as usize);
            at.copied().unwrap_or_default()
        };
        println!(
            "{what}: {:.1?}, {} changes, half within {:.1?}, 999 of 1000 within {:.1?}, longest {:.1?}",
            begin.elapsed(),
            times.len(),
            at(0.5),
            at(0.999),
            times.last().copied().unwrap_or_default()
        );
        done
    })
}

fn run(path: &Path, mebibytes: u64) -> Result<(), Error> {
    let mut options = StoreOptions::default();
    options.pages.pool_bytes = (mebibytes << 20) / 8;
    let store = Store::create(path, &options)?;
    let schema = TableSchema::new("t")
        .column("id", ColumnType::Integer)
        .column("tag", ColumnType::Integer)
        .column("text", ColumnType::Text)
        .primary_key(["id"])
        .unique_index("by_tag", ["tag"]);
    store.create_table(&schema)?;
    let rows = (mebibytes << 20) / (ROW_BYTES + 60);
    store.bulk_load("t", (0..rows).map(|id| row(id, 0)))?;
    beside("alone", &store, rows, || {
        std::thread::sleep(ALONE);
        Ok(())
    })?;
    let report = beside("beside a check", &store, rows, || store.check())?;
    println!(
        "{} rows, {} entries, {} pages, {} findings",
        report.rows,
        report.entries,
        report.pages,
        report.findings.len()
    );
    store.close()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let directory = arguments.next().ok_or("which directory?")?;
    let mebibytes = match arguments.next() {
        Some(text) => text.to_str().ok_or("how many MiB?")?.parse()?,
        None => 1024,
    };
    let path = PathBuf::from(directory).join("check_beside");
    let result = run(&path, mebibytes);
    std::fs::remove_dir_all(&path)?;
    Ok(result?)
}
