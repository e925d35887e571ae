//! Reads of single rows: from memory, and from the disk.

use super::{Bench, Experiment};
use crate::disk::read_rate;
use crate::engines::{self, Database, Kind};
use crate::measure::{Step, rate};
use crate::report::Sample;
use crate::rows::{Random, Rows};
use crate::scratch::largest_file;
use anyhow::{Result, ensure};

/// Memory of each engine where all rows fit.
const CACHE_BYTES: u64 = 512 << 20;

/// Random reads, `batch` in each transaction.
fn reads(
    database: &dyn Database,
    rows: &Rows,
    threads: usize,
    batch: usize,
    bench: &Bench,
) -> Result<f64> {
    let prepare = |thread: usize| -> Result<Step<'_>> {
        let mut session = database.session()?;
        let mut random = Random::new(thread as u64);
        let mut keys = vec![0; batch];
        Ok(Box::new(move || {
            keys.fill_with(|| random.below(rows.count()));
            let seen = session.get(&keys)?;
            ensure!(seen.rows == batch as u64, "rows are missing");
            Ok(seen.rows)
        }))
    };
    rate(threads, bench.time, &bench.stop, &prepare)
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
                let rate = reads(&*database, &self.rows, threads, batch, bench)?;
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
            let rate = reads(&*database, &self.rows, threads, 1, bench)?;
            database.close()?;
            let case = format!("threads: {threads}");
            samples.push(Sample::new(case.clone(), "reads/s", rate));
            if kind == Kind::Iolane {
                // The same file, the same depth, right afterwards: what the
                // disk gives to somebody without a database.
                let file = largest_file(&settings.directory)?;
                let disk = read_rate(&file, threads, bench.time)?;
                samples.push(Sample::new(
                    format!("{case}: the disk's own 16 KiB reads"),
                    "reads/s",
                    disk,
                ));
                samples.push(Sample::new(
                    format!("{case}: iolane of the disk's own"),
                    "share",
                    rate / disk,
                ));
            }
        }
        Ok(samples)
    }
}
