//! What the device does without a store: reads of the same size from the same
//! file, as many at once as it takes.

use std::time::Duration;

use iolane::{Arena, Engine, File, Level, OpenOptions, Policy};
use serde::Serialize;

use super::table::Table;
use crate::args::choices::{Operation, Pattern};
use crate::bench::knee::{self, Knee};
use crate::bench::sweep::unscheduled;
use crate::bench::through_engine::open_failure;
use crate::error::Failure;
use crate::session::Session;
use crate::workload::{self, Arrival, Stream, Times};

const DEPTHS: [u64; 8] = [1, 4, 8, 16, 32, 64, 128, 256];
/// Of each depth. Short, as limits are compared with rates in percent only.
const TIMES: Times = Times {
    warm_up: Duration::ZERO,
    runtime: Duration::from_millis(250),
};
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
    let time = TIMES.runtime * (DEPTHS.len() as u32 + 1);
    let _phase = session.progress.phase("what the device can do", time);
    // As the store's pool, and a sweep's: registered, in huge pages. Without,
    // a processor that is busy with a read's pages is the limit.
    let deepest = DEPTHS.into_iter().max().unwrap_or(1);
    let arena = workload::arena(&[(deepest, PAGE_BYTES), (SEQUENTIAL_DEPTH, SEQUENTIAL_BYTES)])?;
    let engine = engine(&arena)?;
    let file = engine.open(path, OpenOptions::new().read(true).direct(true));
    let file = file.map_err(|error| open_failure(&error))?;
    let read = |depth: u64, pattern: Pattern, block_bytes: u64| {
        let stream = stream(file.clone(), depth, pattern, block_bytes);
        workload::run_alone(&stream, (path, *bytes), TIMES, &arena, session)
    };
    let mut runs = Vec::new();
    for depth in DEPTHS {
        let load = read(depth, Pattern::Random, PAGE_BYTES)?;
        let rate = load.operations_per_second();
        runs.push((depth, rate, load.latency_ns.mean()));
    }
    let sequential = read(SEQUENTIAL_DEPTH, Pattern::Sequential, SEQUENTIAL_BYTES)?;
    let random = knee::find(&runs).ok_or_else(|| Failure::Internal {
        message: "nothing was read".to_owned(),
    })?;
    Ok(Limit {
        random,
        random_bytes_per_second: random.full.operations_per_second * PAGE_BYTES as f64,
        sequential_bytes_per_second: sequential.operations_per_second() * SEQUENTIAL_BYTES as f64,
    })
}

fn stream(file: File, depth: u64, pattern: Pattern, block_bytes: u64) -> Stream {
    Stream {
        name: "reads without a store",
        file,
        level: Level::Normal,
        arrival: Arrival::Callbacks(depth),
        operation: Operation::Read,
        pattern,
        block_sizes_bytes: vec![block_bytes],
        seed: depth,
        thread_priority: None,
    }
}

fn engine(arena: &Arena) -> Result<Engine, Failure> {
    Engine::builder()
        .arena(arena)
        .policy(Policy::Noop)
        .configure(|_, config| unscheduled(config))
        .build()
        .map_err(|error| Failure::Internal {
            message: error.to_string(),
        })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Reads of the first `bytes` of a file of 1 MiB.
    fn reads(bytes: u64) -> Result<crate::bench::load::Load, Failure> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let arena = workload::arena(&[(4, PAGE_BYTES)]).unwrap();
        let engine = engine(&arena).unwrap();
        let opened = engine.open(file.path(), OpenOptions::new().read(true));
        let stream = stream(opened.unwrap(), 4, Pattern::Sequential, PAGE_BYTES);
        let extent: (&Path, u64) = (file.path(), bytes);
        workload::run_alone(&stream, extent, TIMES, &arena, &Session::quiet())
    }

    #[test]
    fn reads_are_counted_and_those_beyond_the_end_are_refused() {
        let load = reads(1 << 20).unwrap();
        assert!(load.operations > 0);
        assert_eq!(load.bytes, load.operations * PAGE_BYTES);
        assert!(reads(2 << 20).is_err());
    }
}
