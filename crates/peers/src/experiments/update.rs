//! Changing every row of a table that is a little larger than the pool.

use super::{Bench, Experiment, ROWS_PER_TRANSACTION};
use crate::engines::Kind;
use crate::measure::timed;
use crate::report::Sample;
use crate::rows::Rows;
use anyhow::Result;
use std::collections::BTreeMap;

pub struct Update {
    rows: Rows,
    cache_bytes: u64,
    /// How often each engine's rows were changed.
    versions: BTreeMap<Kind, u64>,
}

impl Update {
    const DATABASE: &str = "update";

    pub fn new(rows: Rows, cache_bytes: u64) -> Update {
        Update {
            rows,
            cache_bytes,
            versions: BTreeMap::new(),
        }
    }
}

impl Experiment for Update {
    fn name(&self) -> &'static str {
        "update"
    }

    fn prepare(&mut self, kind: Kind, bench: &Bench) -> Result<()> {
        let settings = bench.settings(kind, Self::DATABASE, self.cache_bytes);
        bench.load(kind, &settings, &self.rows)
    }

    fn run(&mut self, kind: Kind, bench: &Bench) -> Result<Vec<Sample>> {
        let settings = bench.settings(kind, Self::DATABASE, self.cache_bytes);
        let version = self.versions.entry(kind).or_default();
        *version += 1;
        let (rows, version) = (&self.rows, *version);
        let database = bench.open_cold(kind, &settings)?;
        let mut session = database.session()?;
        let keys: Vec<u64> = (0..rows.count()).collect();
        let ((), seconds) = timed(|| {
            for keys in keys.chunks(ROWS_PER_TRANSACTION) {
                bench.stop.check()?;
                let changed: Vec<_> = keys.iter().map(|&key| rows.version(key, version)).collect();
                session.update(&changed)?;
            }
            Ok(())
        })?;
        drop(session);
        let ((), closing) = timed(|| database.close())?;
        let count = rows.count() as f64;
        Ok(vec![
            Sample::new("committed", "rows/s", count / seconds),
            Sample::new(
                "committed, written and closed",
                "rows/s",
                count / (seconds + closing),
            ),
        ])
    }
}
