//! Durable commits of one new row each.

use super::{Bench, Experiment};
use crate::engines::Kind;
use crate::measure::{Step, rate};
use crate::report::Sample;
use crate::rows::Rows;
use anyhow::Result;
use std::sync::atomic::{AtomicU64, Ordering};

/// Memory of each engine: all that is inserted fits.
const CACHE_BYTES: u64 = 256 << 20;

pub struct Commit {
    pub threads: Vec<usize>,
}

impl Experiment for Commit {
    fn name(&self) -> &'static str {
        "commit"
    }

    fn run(&mut self, kind: Kind, bench: &Bench) -> Result<Vec<Sample>> {
        let settings = bench.settings(kind, "commit", CACHE_BYTES);
        let database = bench.create(kind, &settings)?;
        let rows = Rows::new(1);
        let next = AtomicU64::new(0);
        let mut samples = Vec::new();
        for &threads in &self.threads {
            let prepare = |_| -> Result<Step<'_>> {
                let mut session = database.session()?;
                let (rows, next) = (&rows, &next);
                Ok(Box::new(move || {
                    let key = next.fetch_add(1, Ordering::Relaxed);
                    session.insert(&[rows.row(key)])?;
                    Ok(1)
                }))
            };
            let rate = rate(threads, bench.time, &bench.stop, &prepare)?;
            samples.push(Sample::new(
                format!("threads: {threads}"),
                "commits/s",
                rate,
            ));
        }
        database.close()?;
        std::fs::remove_dir_all(&settings.directory)?;
        Ok(samples)
    }
}
