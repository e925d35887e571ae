//! Short transactions alone, and beside scans of the whole table.

use super::{Bench, Experiment};
use crate::engines::{Database, Kind};
use crate::report::Sample;
use crate::rows::{Random, Rows};
use anyhow::{Result, anyhow};
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Digits of the latencies.
const DIGITS: u8 = 3;
const POLL: Duration = Duration::from_millis(50);

pub struct Oltp {
    pub rows: Rows,
    pub cache_bytes: u64,
}

/// What happened in one measurement.
struct Outcome {
    selects_ns: Histogram<u64>,
    updates_ns: Histogram<u64>,
    scanned_rows: u64,
    seconds: f64,
}

impl Oltp {
    const DATABASE: &str = "oltp";

    /// One thread reads, one changes rows, each as soon as the last one is
    /// done; a third one scans.
    fn measure(&self, database: &dyn Database, scan: bool, bench: &Bench) -> Result<Outcome> {
        let (rows, ended) = (&self.rows, &AtomicBool::new(false));
        let latencies = |update: bool| -> Result<Histogram<u64>> {
            let mut session = database.session()?;
            let mut random = Random::new(u64::from(update));
            let mut histogram = Histogram::new(DIGITS)?;
            let mut version = 0;
            while !ended.load(Ordering::Relaxed) {
                let key = random.below(rows.count());
                let begin = Instant::now();
                if update {
                    version += 1;
                    session.update(&[rows.version(key, version)])?;
                } else {
                    session.get(&[key])?;
                }
                histogram.record(begin.elapsed().as_nanos() as u64)?;
            }
            Ok(histogram)
        };
        let scanned = || -> Result<u64> {
            let mut scanned = 0;
            let mut session = database.session()?;
            while !ended.load(Ordering::Relaxed) {
                scanned += session.scan_behind()?.rows;
            }
            Ok(scanned)
        };
        std::thread::scope(|scope| {
            let begin = Instant::now();
            let selects = scope.spawn(|| latencies(false));
            let updates = scope.spawn(|| latencies(true));
            let scans = scan.then(|| scope.spawn(scanned));
            while begin.elapsed() < bench.time && !bench.stop.is_raised() {
                std::thread::sleep(POLL);
            }
            ended.store(true, Ordering::Relaxed);
            let panicked = |_| anyhow!("a thread panicked");
            let selects_ns = selects.join().map_err(panicked)??;
            let updates_ns = updates.join().map_err(panicked)??;
            let scanned_rows = match scans {
                // The scan that was running is finished, and its time counts.
                Some(scans) => scans.join().map_err(panicked)??,
                None => 0,
            };
            bench.stop.check()?;
            Ok(Outcome {
                selects_ns,
                updates_ns,
                scanned_rows,
                seconds: begin.elapsed().as_secs_f64(),
            })
        })
    }
}

impl Experiment for Oltp {
    fn name(&self) -> &'static str {
        "oltp"
    }

    fn prepare(&mut self, kind: Kind, bench: &Bench) -> Result<()> {
        let settings = bench.settings(kind, Self::DATABASE, self.cache_bytes);
        bench.load(kind, &settings, &self.rows)
    }

    fn run(&mut self, kind: Kind, bench: &Bench) -> Result<Vec<Sample>> {
        let settings = bench.settings(kind, Self::DATABASE, self.cache_bytes);
        let mut samples = Vec::new();
        for (scan, when) in [(false, "alone"), (true, "beside a scan")] {
            let database = bench.open_cold(kind, &settings)?;
            let outcome = self.measure(&*database, scan, bench)?;
            database.close()?;
            for (what, latencies) in [
                ("selects", &outcome.selects_ns),
                ("updates", &outcome.updates_ns),
            ] {
                let p99_ms = latencies.value_at_quantile(0.99) as f64 / 1e6;
                samples.push(Sample::new(format!("{what} {when}: p99"), "ms", p99_ms));
                let rate = latencies.len() as f64 / bench.time.as_secs_f64();
                samples.push(Sample::new(format!("{what} {when}"), "/s", rate));
            }
            if scan {
                let rate = outcome.scanned_rows as f64 / outcome.seconds;
                samples.push(Sample::new("the scan", "rows/s", rate));
            }
        }
        Ok(samples)
    }
}
