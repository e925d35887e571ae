//! What the device does without a store: reads of the same size from the same
//! file, as many at once as it takes.

use std::path::PathBuf;
use std::time::Duration;

use iolane::{Arena, Engine, File, Level, OpenOptions, Policy};
use serde::Serialize;

use super::table::Table;
use crate::args::choices::{Operation, Pattern};
use crate::args::store_bench::{Experiment, LoadOrder};
use crate::bench::knee::{self, Knee};
use crate::bench::load::Load;
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
/// Of memory that is read into in turn: more than processors keep near.
const POOL_BYTES_MAX: u64 = 64 << 20;

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

/// Reads of one kind.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reads {
    pattern: Pattern,
    block_bytes: u64,
    depth: u64,
    /// Into so much memory in turn; 0: what is outstanding, which stays near the
    /// processor.
    memory_bytes: u64,
}

/// How fast the device reads what an experiment reads, in bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DeviceRates {
    /// Into as little memory as that takes.
    pub least_memory: f64,
    /// Into as much as the pool has.
    pub into_pool: f64,
}

impl DeviceRates {
    pub fn mean(self, other: DeviceRates) -> DeviceRates {
        DeviceRates {
            least_memory: f64::midpoint(self.least_memory, other.least_memory),
            into_pool: f64::midpoint(self.into_pool, other.into_pool),
        }
    }
}

impl Reads {
    const SEQUENTIAL: Reads = Reads {
        pattern: Pattern::Sequential,
        block_bytes: SEQUENTIAL_BYTES,
        depth: SEQUENTIAL_DEPTH,
        memory_bytes: 0,
    };

    const fn random(depth: u64) -> Reads {
        Reads {
            pattern: Pattern::Random,
            block_bytes: PAGE_BYTES,
            depth,
            memory_bytes: 0,
        }
    }

    /// Whether they are single pages, from random places.
    pub fn are_pages(&self) -> bool {
        self.pattern == Pattern::Random
    }

    /// What an experiment on a table would read without a store; `None` if it
    /// does not only read.
    pub fn of(experiment: Experiment, order: LoadOrder, limit: &Limit) -> Option<Reads> {
        match (experiment, order) {
            (Experiment::Scan, LoadOrder::Key) => Some(Reads::SEQUENTIAL),
            (Experiment::Scan | Experiment::Range, _) => {
                Some(Reads::random(limit.random.full.depth))
            }
            _ => None,
        }
    }
}

/// The table's file, without a store.
pub struct Device<'a> {
    path: PathBuf,
    bytes: u64,
    pool_bytes: u64,
    arena: Arena,
    file: File,
    /// Dropped, it would refuse the file's requests.
    _engine: Engine,
    session: &'a Session,
}

impl<'a> Device<'a> {
    /// # Errors
    /// A file that cannot be opened.
    pub fn of(table: &Table, pool_bytes: u64, session: &'a Session) -> Result<Device<'a>, Failure> {
        let files = table.data_files()?;
        let Some((path, bytes)) = files.into_iter().next() else {
            return Err(Failure::Internal {
                message: "a table without a file".to_owned(),
            });
        };
        // As the store's pool, and a sweep's: registered, in huge pages. Without,
        // a processor that is busy with a read's pages is the limit.
        let deepest = DEPTHS.into_iter().max().unwrap_or(1);
        let pool_bytes = pool_bytes.min(POOL_BYTES_MAX);
        let sizes = [
            (deepest.max(pool_bytes / PAGE_BYTES), PAGE_BYTES),
            (SEQUENTIAL_DEPTH, SEQUENTIAL_BYTES),
        ];
        let arena = workload::arena(&sizes)?;
        let engine = engine(&arena)?;
        let file = engine.open(&path, OpenOptions::new().read(true).direct(true));
        Ok(Device {
            path,
            bytes,
            pool_bytes,
            file: file.map_err(|error| open_failure(&error))?,
            arena,
            _engine: engine,
            session,
        })
    }

    /// # Errors
    /// A read that failed, or an interruption.
    pub fn limit(&self) -> Result<Limit, Failure> {
        let progress = &self.session.progress;
        let time = TIMES.runtime * (DEPTHS.len() as u32 + 1);
        let _phase = progress.phase("what the device can do", time);
        let mut runs = Vec::new();
        for depth in DEPTHS {
            let load = self.load(Reads::random(depth))?;
            let rate = load.operations_per_second();
            runs.push((depth, rate, load.latency_ns.mean()));
        }
        let sequential_bytes_per_second = self.bytes_per_second(Reads::SEQUENTIAL)?;
        let random = knee::find(&runs).ok_or_else(|| Failure::Internal {
            message: "nothing was read".to_owned(),
        })?;
        Ok(Limit {
            random,
            random_bytes_per_second: random.full.operations_per_second * PAGE_BYTES as f64,
            sequential_bytes_per_second,
        })
    }

    /// How fast it is now.
    ///
    /// # Errors
    /// As [`limit`](Self::limit).
    pub fn rates(&self, reads: Reads) -> Result<DeviceRates, Failure> {
        let in_turn = Reads {
            memory_bytes: self.pool_bytes,
            ..reads
        };
        Ok(DeviceRates {
            least_memory: self.bytes_per_second(reads)?,
            into_pool: self.bytes_per_second(in_turn)?,
        })
    }

    fn bytes_per_second(&self, reads: Reads) -> Result<f64, Failure> {
        let rate = self.load(reads)?.operations_per_second();
        Ok(rate * reads.block_bytes as f64)
    }

    fn load(&self, reads: Reads) -> Result<Load, Failure> {
        let extent = (self.path.as_path(), self.bytes);
        let stream = stream(self.file.clone(), reads);
        workload::run_alone(&stream, extent, TIMES, &self.arena, self.session)
    }
}

fn stream(file: File, reads: Reads) -> Stream {
    Stream {
        name: "reads without a store",
        file,
        level: Level::Normal,
        arrival: Arrival::Callbacks(reads.depth),
        operation: Operation::Read,
        pattern: reads.pattern,
        block_sizes_bytes: vec![reads.block_bytes],
        memory_bytes: reads.memory_bytes,
        seed: reads.depth,
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
    fn reads(bytes: u64) -> Result<Load, Failure> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 20).unwrap();
        let arena = workload::arena(&[(4, PAGE_BYTES)]).unwrap();
        let engine = engine(&arena).unwrap();
        let opened = engine.open(file.path(), OpenOptions::new().read(true));
        let stream = stream(
            opened.unwrap(),
            Reads {
                pattern: Pattern::Sequential,
                block_bytes: PAGE_BYTES,
                depth: 4,
                memory_bytes: 0,
            },
        );
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
