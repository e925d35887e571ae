//! A cold scan of a table that was filled in random order.

use super::{Bench, Experiment};
use crate::engines::Kind;
use crate::measure::timed;
use crate::process::read_bytes;
use crate::report::Sample;
use crate::rows::Rows;
use anyhow::{Result, ensure};

pub struct Scan {
    pub rows: Rows,
    pub cache_bytes: u64,
}

impl Scan {
    const DATABASE: &str = "scan";
}

impl Experiment for Scan {
    fn name(&self) -> &'static str {
        "scan"
    }

    fn prepare(&mut self, kind: Kind, bench: &Bench) -> Result<()> {
        let settings = bench.settings(kind, Self::DATABASE, self.cache_bytes);
        bench.load_scattered(kind, &settings, &self.rows)
    }

    fn run(&mut self, kind: Kind, bench: &Bench) -> Result<Vec<Sample>> {
        let settings = bench.settings(kind, Self::DATABASE, self.cache_bytes);
        let database = bench.open_cold(kind, &settings)?;
        let mut session = database.session()?;
        let before = read_bytes(database.process())?;
        let (seen, seconds) = timed(|| session.scan())?;
        let read = read_bytes(database.process())? - before;
        ensure!(seen.rows == self.rows.count(), "rows are missing");
        drop(session);
        database.close()?;
        let megabytes = |bytes: u64| bytes as f64 / 1e6 / seconds;
        Ok(vec![
            Sample::new("rows", "rows/s", seen.rows as f64 / seconds),
            Sample::new(
                "keys and values",
                "MB/s",
                megabytes(seen.bytes + 8 * seen.rows),
            ),
            Sample::new("read from the disk", "MB/s", megabytes(read)),
        ])
    }
}
