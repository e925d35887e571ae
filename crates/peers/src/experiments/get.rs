//! Reads of single rows: from memory, and from the disk.

use super::{Bench, Experiment};
use crate::disk::{read_rate, read_rate_of_threads};
use crate::engines::{self, Database, Kind};
use crate::measure::{Step, rate};
use crate::report::Sample;
use crate::rows::{Random, Rows};
use crate::scratch::largest_file;
use anyhow::{Result, ensure};
use std::path::Path;
use std::time::Duration;

/// Memory of each engine where all rows fit.
const CACHE_BYTES: u64 = 512 << 20;
/// Turns of database and disk in one measurement.
const SLICES: u32 = 5;

/// One measurement: how long, and from where on random numbers go.
#[derive(Clone, Copy)]
struct Turn {
    time: Duration,
    seed: u64,
}

impl Turn {
    /// The only one.
    fn only(bench: &Bench) -> Turn {
        Turn {
            time: bench.time,
            seed: 0,
        }
    }
}

/// Random reads, `batch` in each transaction.
fn reads(
    database: &dyn Database,
    rows: &Rows,
    threads: usize,
    batch: usize,
    turn: Turn,
    bench: &Bench,
) -> Result<f64> {
    let prepare = |thread: usize| -> Result<Step<'_>> {
        let mut session = database.session()?;
        let mut random = Random::new(turn.seed + thread as u64);
        let mut keys = vec![0; batch];
        Ok(Box::new(move || {
            keys.fill_with(|| random.below(rows.count()));
            let seen = session.get(&keys)?;
            ensure!(seen.rows == batch as u64, "rows are missing");
            Ok(seen.rows)
        }))
    };
    rate(threads, turn.time, &bench.stop, &prepare)
}

/// All rows in memory.
pub struct CachedGet {
    pub rows: Rows,
    pub threads: Vec<usize>,
    /// Rows that a transaction reads.
    pub batches: Vec<usize>,
}

impl Experiment for CachedGet {
    fn name(&self) -> &'static str {
        "get"
    }

    fn prepare(&mut self, kind: Kind, bench: &Bench) -> Result<()> {
        let settings = bench.settings(kind, "get", CACHE_BYTES);
        bench.load(kind, &settings, &self.rows)
    }

    fn run(&mut self, kind: Kind, bench: &Bench) -> Result<Vec<Sample>> {
        let settings = bench.settings(kind, "get", CACHE_BYTES);
        let database = engines::open(kind, &settings)?;
        // Everything comes into memory, by the way that it is read later.
        let mut session = database.session()?;
        let keys: Vec<u64> = (0..self.rows.count()).collect();
        for keys in keys.chunks(1000) {
            bench.stop.check()?;
            session.get(keys)?;
        }
        drop(session);
        let mut samples = Vec::new();
        for &batch in &self.batches {
            for &threads in &self.threads {
                let turn = Turn::only(bench);
                let rate = reads(&*database, &self.rows, threads, batch, turn, bench)?;
                samples.push(Sample::new(
                    format!("cached, threads: {threads}, reads in a transaction: {batch}"),
                    "reads/s",
                    rate,
                ));
            }
        }
        database.close()?;
        Ok(samples)
    }
}

/// Many more rows than fit in memory.
pub struct UncachedGet {
    pub rows: Rows,
    pub cache_bytes: u64,
    pub threads: Vec<usize>,
}

impl UncachedGet {
    const DATABASE: &str = "uncached";
}

impl Experiment for UncachedGet {
    fn name(&self) -> &'static str {
        "get --uncached"
    }

    fn prepare(&mut self, kind: Kind, bench: &Bench) -> Result<()> {
        let settings = bench.settings(kind, Self::DATABASE, self.cache_bytes);
        bench.load(kind, &settings, &self.rows)
    }

    fn run(&mut self, kind: Kind, bench: &Bench) -> Result<Vec<Sample>> {
        let settings = bench.settings(kind, Self::DATABASE, self.cache_bytes);
        let mut samples = Vec::new();
        for &threads in &self.threads {
            let database = bench.open_cold(kind, &settings)?;
            let case = format!("threads: {threads}");
            if kind == Kind::Iolane {
                let file = largest_file(&settings.directory)?;
                let beside = self.beside_the_disk(&*database, &file, threads, bench)?;
                samples.push(Sample::new(case.clone(), "reads/s", beside.database));
                for (name, disk) in [
                    ("outstanding in one thread", beside.outstanding),
                    ("by as many threads", beside.threads),
                ] {
                    let case = format!("{case}: the disk's own 16 KiB reads, {name}");
                    samples.push(Sample::new(case.clone(), "reads/s", disk));
                    let share = beside.database / disk;
                    samples.push(Sample::new(
                        format!("{case}: iolane of these"),
                        "share",
                        share,
                    ));
                }
            } else {
                let turn = Turn::only(bench);
                let rate = reads(&*database, &self.rows, threads, 1, turn, bench)?;
                samples.push(Sample::new(case, "reads/s", rate));
            }
            database.close()?;
        }
        Ok(samples)
    }
}

/// Reads per second of the same file, in turn.
#[derive(Default)]
struct Beside {
    database: f64,
    /// Without one: as `iolane bench sweep` reads.
    outstanding: f64,
    /// The same, by threads that wait, as those of a database do.
    threads: f64,
}

impl UncachedGet {
    /// What the database gives, and what the disk gives to somebody without
    /// one who has as many reads outstanding. Each has the same time, cut in
    /// slices, so that a slow moment of the disk hits all.
    fn beside_the_disk(
        &self,
        database: &dyn Database,
        file: &Path,
        threads: usize,
        bench: &Bench,
    ) -> Result<Beside> {
        let mut sum = Beside::default();
        for slice in 0..SLICES {
            // Other pages each time: those of the last slice are in memory.
            let turn = Turn {
                time: bench.time / SLICES,
                seed: 1000 * u64::from(slice),
            };
            sum.database += reads(database, &self.rows, threads, 1, turn, bench)?;
            sum.outstanding += read_rate(file, threads, turn.time, turn.seed)?;
            sum.threads += read_rate_of_threads(file, threads, turn.time, turn.seed, &bench.stop)?;
        }
        Ok(Beside {
            database: sum.database / f64::from(SLICES),
            outstanding: sum.outstanding / f64::from(SLICES),
            threads: sum.threads / f64::from(SLICES),
        })
    }
}
