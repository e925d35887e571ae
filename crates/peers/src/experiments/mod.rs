//! What is compared. Each experiment prepares every engine's database once,
//! and then measures all engines in turn, again and again.

mod commit;
mod get;
mod load;
mod memory;
mod oltp;
mod range;
mod scan;
mod update;

pub use commit::Commit;
pub use get::{CachedGet, UncachedGet};
pub use load::Load;
pub use memory::{Memory, MemoryOf};
pub use oltp::Oltp;
pub use range::Range;
pub use scan::Scan;
pub use update::Update;

use crate::engines::{self, Database, Kind, Settings};
use crate::report::{Results, Sample};
use crate::rows::Rows;
use crate::scratch::{self, Scratch};
use crate::stop::Stop;
use anyhow::Result;
use std::path::PathBuf;
use std::time::Duration;

/// Redo log of those engines whose log has a size: large enough that a
/// measurement of some seconds is no checkpoint's.
pub const LOG_BYTES: u64 = 256 << 20;

/// Memory while a table is prepared by inserts: nobody is measured then.
const CACHE_BYTES_LOADING: u64 = 512 << 20;
/// Rows that a transaction inserts or changes where many are.
const ROWS_PER_TRANSACTION: usize = 1000;

/// What all experiments need.
pub struct Bench {
    /// Where databases are.
    pub scratch: Scratch,
    /// Raised by a signal.
    pub stop: Stop,
    /// Of one measurement.
    pub time: Duration,
    /// How often each engine is measured.
    pub repetitions: u32,
    /// Who takes part, in this order.
    pub engines: Vec<Kind>,
}

impl Bench {
    /// Settings of the database `name` of an engine.
    pub fn settings(&self, kind: Kind, name: &str, cache_bytes: u64) -> Settings {
        Settings {
            directory: self.directory(kind, name),
            cache_bytes,
            log_bytes: LOG_BYTES,
            indexed: false,
            direct: true,
            durable: true,
            stop: self.stop.clone(),
        }
    }

    fn directory(&self, kind: Kind, name: &str) -> PathBuf {
        self.scratch.path().join(format!("{}-{name}", kind.name()))
    }

    /// An empty database, in place of the one that was there before.
    ///
    /// # Errors
    /// As [`engines::open`].
    pub fn create(&self, kind: Kind, settings: &Settings) -> Result<Box<dyn Database>> {
        if settings.directory.exists() {
            std::fs::remove_dir_all(&settings.directory)?;
        }
        engines::open(kind, settings)
    }

    /// Makes a database, loads it in the order of the key, and closes it.
    ///
    /// # Errors
    /// As [`engines::open`].
    pub fn load(&self, kind: Kind, settings: &Settings, rows: &Rows) -> Result<()> {
        let database = self.create(kind, settings)?;
        database.prepare_load(rows)?;
        database.load(rows)?;
        database.close()
    }

    /// The same in random order, by inserts: pages end up where splits put
    /// them.
    ///
    /// # Errors
    /// As [`engines::open`].
    pub fn load_scattered(&self, kind: Kind, settings: &Settings, rows: &Rows) -> Result<()> {
        let mut settings = settings.clone();
        settings.durable = false;
        settings.cache_bytes = CACHE_BYTES_LOADING;
        let database = self.create(kind, &settings)?;
        let mut session = database.session()?;
        let numbers: Vec<u64> = (0..rows.count()).collect();
        for numbers in numbers.chunks(ROWS_PER_TRANSACTION) {
            self.stop.check()?;
            let rows: Vec<_> = numbers
                .iter()
                .map(|&number| rows.row(rows.scattered(number)))
                .collect();
            session.insert(&rows)?;
        }
        drop(session);
        database.close()
    }

    /// Opens a database none of whose pages are in memory.
    ///
    /// # Errors
    /// As [`engines::open`].
    pub fn open_cold(&self, kind: Kind, settings: &Settings) -> Result<Box<dyn Database>> {
        scratch::drop_cached(&settings.directory)?;
        engines::open(kind, settings)
    }
}

/// One experiment.
pub trait Experiment {
    /// The sub-command.
    fn name(&self) -> &'static str;

    /// Makes an engine's database.
    fn prepare(&mut self, _kind: Kind, _bench: &Bench) -> Result<()> {
        Ok(())
    }

    /// Measures an engine once.
    fn run(&mut self, kind: Kind, bench: &Bench) -> Result<Vec<Sample>>;
}

/// Prepares and measures all engines. A peer that fails is left out, with the
/// reason. What was measured before an error is in the results.
///
/// # Errors
/// When iolane fails, or a signal has come.
pub fn compare(
    experiment: &mut dyn Experiment,
    bench: &Bench,
    results: &mut Results,
) -> Result<()> {
    for &kind in &bench.engines {
        eprintln!("{}: {} is prepared", experiment.name(), kind.name());
        let prepared = experiment.prepare(kind, bench);
        note(prepared, kind, bench, results)?;
    }
    for repetition in 0..bench.repetitions {
        // Nobody always comes after the same one.
        let count = bench.engines.len();
        let turn = (0..count).map(|place| bench.engines[(place + repetition as usize) % count]);
        for kind in turn
            .filter(|&kind| !results.is_skipped(kind))
            .collect::<Vec<_>>()
        {
            eprintln!(
                "{}: repetition {} of {}: {}",
                experiment.name(),
                repetition + 1,
                bench.repetitions,
                kind.name()
            );
            let samples = experiment.run(kind, bench);
            for sample in note(samples, kind, bench, results)?.unwrap_or_default() {
                results.add(kind, repetition, sample);
            }
        }
    }
    Ok(())
}

fn note<T>(done: Result<T>, kind: Kind, bench: &Bench, results: &mut Results) -> Result<Option<T>> {
    bench.stop.check()?;
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if kind == Kind::Iolane => Err(error.context("iolane")),
        Err(error) => {
            let reason = format!("{error:#}");
            eprintln!("{} is left out: {reason}", kind.name());
            results.skip(kind, reason);
            Ok(None)
        }
    }
}
