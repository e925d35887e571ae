//! What the device does without a store: reads of the same size from the same
//! file, as many at once as it takes.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use iolane::{Buffer, Engine, File, Level, OpenOptions, Pending, Policy, WindowConfig};
use serde::Serialize;

use super::table::Table;
use crate::bench::knee::{self, Knee};
use crate::bench::through_engine::{open_failure, transfer_failure};
use crate::error::Failure;
use crate::session::Session;
use crate::workload::offsets::Random;

const DEPTHS: [u64; 7] = [1, 4, 8, 16, 32, 64, 128];
/// Of each depth. Short, as limits are compared with rates in percent only.
const RUNTIME: Duration = Duration::from_millis(250);
const PAGE_BYTES: u64 = 16 << 10;
/// An extent.
const SEQUENTIAL_BYTES: u64 = 1 << 20;
const SEQUENTIAL_DEPTH: u64 = 8;

/// Rates of direct reads of the table's file.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// Of single pages from random places.
    pub random: Knee,
    /// With as many at once as fill the device.
    pub random_bytes_per_second: f64,
    /// Of 1 MiB each in the order of the file, eight at once.
    pub sequential_bytes_per_second: f64,
}

/// # Errors
/// A read that failed, or an interruption.
pub fn measure(table: &Table, session: &Session) -> Result<Limit, Failure> {
    let files = table.data_files()?;
    let Some((path, bytes)) = files.first() else {
        return Err(Failure::Internal {
            message: "a table without a file".to_owned(),
        });
    };
    let time = RUNTIME * (DEPTHS.len() as u32 + 1);
    let _phase = session.progress.phase("what the device can do", time);
    let engine = engine()?;
    let file = engine.open(path, OpenOptions::new().read(true).direct(true));
    let file = file.map_err(|error| open_failure(&error))?;
    let mut runs = Vec::new();
    for depth in DEPTHS {
        session.stop.check()?;
        let mut random = Random::new(1, depth);
        let pages = (bytes / PAGE_BYTES).max(1);
        let rate = rate(&file, depth, PAGE_BYTES, || {
            random.next() % pages * PAGE_BYTES
        })?;
        runs.push((depth, rate, depth as f64 / rate.max(1e-9) * 1e9));
    }
    let mut next = 0;
    let sequential = rate(&file, SEQUENTIAL_DEPTH, SEQUENTIAL_BYTES, || {
        let at = next;
        next = if at + 2 * SEQUENTIAL_BYTES > *bytes {
            0
        } else {
            at + SEQUENTIAL_BYTES
        };
        at
    })?;
    let random = knee::find(&runs).ok_or_else(|| Failure::Internal {
        message: "nothing was read".to_owned(),
    })?;
    Ok(Limit {
        random,
        random_bytes_per_second: random.full.operations_per_second * PAGE_BYTES as f64,
        sequential_bytes_per_second: sequential * SEQUENTIAL_BYTES as f64,
    })
}

fn engine() -> Result<Engine, Failure> {
    Engine::builder()
        .policy(Policy::Noop)
        .configure(|_, config| config.window = WindowConfig::Fixed(config.in_flight_max))
        .build()
        .map_err(|error| Failure::Internal {
            message: error.to_string(),
        })
}

/// Reads per second with `depth` outstanding.
fn rate(
    file: &File,
    depth: u64,
    length: u64,
    mut offset: impl FnMut() -> u64,
) -> Result<f64, Failure> {
    let mut read = |buffer| {
        let pending = file.read(buffer, offset(), Level::Normal);
        pending.map_err(|refused| transfer_failure(&refused.error))
    };
    let begin = Instant::now();
    let mut outstanding: VecDeque<Pending<Buffer>> = VecDeque::new();
    for _ in 0..depth {
        outstanding.push_back(read(Buffer::new(length as usize))?);
    }
    let mut count = 0;
    while let Some(first) = outstanding.pop_front() {
        let done = first.wait();
        done.result.map_err(|error| transfer_failure(&error))?;
        count += 1;
        if begin.elapsed() < RUNTIME {
            outstanding.push_back(read(done.buffer)?);
        }
    }
    Ok(f64::from(count) / begin.elapsed().as_secs_f64())
}
