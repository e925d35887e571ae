//! Filling an empty table in the order of the key.

use super::{Bench, Experiment};
use crate::engines::Kind;
use crate::measure::timed;
use crate::report::Sample;
use crate::rows::Rows;
use anyhow::Result;

const CACHE_BYTES: u64 = 256 << 20;

pub struct Load {
    pub rows: Rows,
}

impl Experiment for Load {
    fn name(&self) -> &'static str {
        "load"
    }

    fn run(&mut self, kind: Kind, bench: &Bench) -> Result<Vec<Sample>> {
        let settings = bench.settings(kind, "load", CACHE_BYTES);
        let database = bench.create(kind, &settings)?;
        database.prepare_load(&self.rows)?;
        let ((), seconds) = timed(|| database.load(&self.rows))?;
        database.close()?;
        std::fs::remove_dir_all(&settings.directory)?;
        let rate = self.rows.count() as f64 / seconds;
        Ok(vec![Sample::new("in key order", "rows/s", rate)])
    }
}
