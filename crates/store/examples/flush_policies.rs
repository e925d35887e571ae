//! Update of every row of a table 1.3 times the pool, under each policy of
//! writing changed pages, in turns: rows per second, the share of the time in
//! which nothing is outstanding, the longest waits of the writer. After figures
//! 6 and 9 of Hall and Bonnet, "Getting Priorities Straight" (2005).
//!
//! `cargo run --release -p iolane-store --example flush_policies -- DIRECTORY
//! [--model NAME] [--pool-mib N] [--row-bytes N] [--rounds N]` makes stores in
//! the directory, one after the other, and removes them. Or on a modelled disk
//! in real time: `cloud_1ms`, `aws_gp3`.
#![allow(clippy::print_stdout, reason = "it prints its results")]

use iolane::{DeviceStatistics, Engine, SimulatedDisk};
use iolane_disk::model::{Cloud, CloudParameters};
use iolane_store::data::{ColumnType, Row, TableSchema};
use iolane_store::{
    Durability, IoPolicy, Preflush, SimulatedNames, Store, StoreOptions, StoreStatistics,
};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const POLICIES: [Preflush; 3] = [Preflush::Idle, Preflush::Steps, Preflush::Steady];

struct Options {
    directory: PathBuf,
    model: Option<String>,
    pool_bytes: u64,
    row_bytes: usize,
    rounds: usize,
}

/// What one run showed.
struct Run {
    rows_per_s: f64,
    /// Share of the time with nothing outstanding on the device.
    idle: f64,
    /// The slowest update of a row.
    longest: Duration,
    statistics: StoreStatistics,
    device: DeviceStatistics,
    before: StoreStatistics,
}

fn main() -> Result<(), Box<dyn Error>> {
    let options = parse()?;
    let mut runs: Vec<Vec<Run>> = POLICIES.iter().map(|_| Vec::new()).collect();
    for _ in 0..options.rounds {
        for (policy, runs) in POLICIES.iter().zip(&mut runs) {
            runs.push(run(&options, *policy)?);
        }
    }
    println!(
        "{:8} {:>22} {:>7} {:>7} {:>9} {:>10} {:>10} {:>8} {:>7} {:>7}",
        "policy",
        "rows/s (median, range)",
        "ratio",
        "idle",
        "slowest",
        "frame wait",
        "log wait",
        "batches",
        "syncs",
        "checks"
    );
    let base = median(&runs[0], |run| run.rows_per_s);
    for (policy, runs) in POLICIES.iter().zip(&runs) {
        let rates = runs.iter().map(|run| run.rows_per_s);
        let (least, most) = rates.fold((f64::MAX, 0.0), |(least, most): (f64, f64), rate| {
            (least.min(rate), most.max(rate))
        });
        let rate = median(runs, |run| run.rows_per_s);
        let flush = |run: &Run| run.statistics.pages.flush;
        let count = |of: fn(&iolane_store::FlushStatistics) -> u64| {
            median(runs, |run| {
                (of(&flush(run)) - of(&run.before.pages.flush)) as f64
            })
        };
        let worst_ms = |of: fn(&Run) -> u64| {
            let worst = runs.iter().map(of).max().unwrap_or(0);
            format!("{:.1} ms", worst as f64 / 1e6)
        };
        println!(
            "{:8} {rate:>8.0} ({least:.0}-{most:.0}) {:>6.2}x {:>6.1}% {:>9} {:>10} {:>10} {:>8.0} {:>7.0} {:>7.0}",
            format!("{policy:?}"),
            rate / base,
            100.0 * median(runs, |run| run.idle),
            worst_ms(|run| run.longest.as_nanos() as u64),
            worst_ms(|run| run.statistics.pages.frame_waits.longest_ns),
            worst_ms(|run| run.statistics.pages.log_waits.longest_ns),
            count(|flush| flush.batches),
            count(|flush| flush.syncs),
            count(|flush| flush.checkpoints),
        );
        if let Some(last) = runs.last() {
            println!(
                "         {:?}\n         outstanding {:.1} on average, transfers {}",
                flush(last),
                last.device.outstanding.mean(),
                last.device.transfers
            );
        }
    }
    Ok(())
}

fn parse() -> Result<Options, Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("which directory?")?;
    let mut options = Options {
        directory: PathBuf::from(directory).join("flush_policies"),
        model: None,
        pool_bytes: 64 << 20,
        row_bytes: 7000,
        rounds: 3,
    };
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or("an option without its value")?;
        match name.as_str() {
            "--model" => options.model = Some(value),
            "--pool-mib" => options.pool_bytes = value.parse::<u64>()? << 20,
            "--row-bytes" => options.row_bytes = value.parse()?,
            "--rounds" => options.rounds = value.parse()?,
            other => return Err(format!("no option {other}").into()),
        }
    }
    Ok(options)
}

fn median(runs: &[Run], of: impl Fn(&Run) -> f64) -> f64 {
    let mut values: Vec<f64> = runs.iter().map(of).collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn model(name: &str) -> Result<SimulatedDisk, Box<dyn Error>> {
    let parameters = match name {
        "cloud_1ms" => CloudParameters::cloud_1ms(),
        "aws_gp3" => CloudParameters::aws_gp3(),
        other => return Err(format!("no model {other}").into()),
    };
    let disk = Cloud::new(parameters, 1)?;
    Ok(SimulatedDisk::builder().model(Box::new(disk)).build()?)
}

fn run(options: &Options, preflush: Preflush) -> Result<Run, Box<dyn Error>> {
    let mut store = StoreOptions::default();
    store.pages.pool_bytes = options.pool_bytes;
    // Frames run out, not the log.
    store.pages.log_bytes = 4 * options.pool_bytes;
    store.pages.io = IoPolicy {
        preflush,
        priorities: preflush != Preflush::Idle,
        ..IoPolicy::AGGRESSIVE
    };
    let mut engine = Engine::builder();
    let disk = options.model.as_deref().map(model).transpose()?;
    if let Some(disk) = &disk {
        engine = engine.simulated(disk);
        store.pages.names = Arc::new(SimulatedNames::new(disk));
    }
    store.engine = Some(Arc::new(engine.build()?));
    let result = measure(&options.directory, &store, options);
    if disk.is_none() {
        std::fs::remove_dir_all(&options.directory)?;
    }
    result
}

fn measure(path: &Path, options: &StoreOptions, sizes: &Options) -> Result<Run, Box<dyn Error>> {
    // As many rows in a page as have room, beside their heads.
    let per_page = (16_000 / (sizes.row_bytes + 60)).max(1);
    let pages = sizes.pool_bytes * 13 / 10 / 16_384;
    let rows = (pages as usize * per_page) as i64;
    let row = |id: i64, letter: u8| -> Row {
        vec![id.into(), vec![letter; sizes.row_bytes].as_slice().into()]
    };
    let store = Store::create(path, options)?;
    let schema = TableSchema::new("t")
        .column("id", ColumnType::Integer)
        .column("value", ColumnType::Blob)
        .primary_key(["id"]);
    store.create_table(&schema)?;
    store.bulk_load("t", (0..rows).map(|id| row(id, b'a')))?;
    store.close()?;

    let store = Store::open(path, options)?;
    let engine = options.engine.as_ref().expect("given above");
    let device = engine.devices().swap_remove(0);
    let (before, statistics) = (device.statistics(), store.statistics());
    let begin = Instant::now();
    let mut longest = Duration::ZERO;
    let mut transaction = store.begin();
    for id in 0..rows {
        let began = Instant::now();
        transaction.update("t", row(id, b'b'))?;
        longest = longest.max(began.elapsed());
    }
    transaction.commit_with(Durability::Synced)?;
    let elapsed = begin.elapsed();
    let device = device.statistics().since(&before);
    let run = Run {
        rows_per_s: rows as f64 / elapsed.as_secs_f64(),
        idle: device.outstanding.share_at(0),
        longest,
        statistics: store.statistics(),
        device,
        before: statistics,
    };
    store.close()?;
    Ok(run)
}
