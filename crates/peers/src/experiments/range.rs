//! Cold rows by a secondary index in whose order they do not lie.

use super::{Bench, Experiment};
use crate::disk::read_rate;
use crate::engines::Kind;
use crate::measure::timed;
use crate::report::Sample;
use crate::rows::Rows;
use crate::scratch::largest_file;
use anyhow::{Result, ensure};

/// Reads outstanding at which disks of today are busy.
const DEPTH: usize = 32;

pub struct Range {
    pub rows: Rows,
    pub cache_bytes: u64,
    /// Rows of the range.
    pub wanted: u64,
}

impl Range {
    const DATABASE: &str = "range";
}

impl Experiment for Range {
    fn name(&self) -> &'static str {
        "range"
    }

    fn prepare(&mut self, kind: Kind, bench: &Bench) -> Result<()> {
        let mut settings = bench.settings(kind, Self::DATABASE, self.cache_bytes);
        settings.indexed = true;
        bench.load(kind, &settings, &self.rows)
    }

    fn run(&mut self, kind: Kind, bench: &Bench) -> Result<Vec<Sample>> {
        let mut settings = bench.settings(kind, Self::DATABASE, self.cache_bytes);
        settings.indexed = true;
        let wanted = self.wanted.min(self.rows.count() / 2);
        let database = bench.open_cold(kind, &settings)?;
        let mut session = database.session()?;
        let from = self.rows.count() / 3;
        let (seen, seconds) = timed(|| session.range(from, wanted))?;
        ensure!(seen.rows == wanted, "rows are missing");
        drop(session);
        database.close()?;
        let case = format!("{wanted} rows");
        let mut samples = vec![
            Sample::new(case.clone(), "rows/s", wanted as f64 / seconds),
            Sample::new(case.clone(), "s", seconds),
        ];
        if kind == Kind::Iolane {
            let file = largest_file(&settings.directory)?;
            samples.push(Sample::new(
                format!("{case}: the disk's own 16 KiB reads, {DEPTH} outstanding"),
                "reads/s",
                read_rate(&file, DEPTH, bench.time, 0)?,
            ));
        }
        Ok(samples)
    }
}
