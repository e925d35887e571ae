//! The course of the measurement, after section 5.3 of "Linux Support for
//! Large Databases on Itanium" (OLS 2003): at least N requests are pending;
//! each time they have fallen to N, the next B go out in one submission. What
//! completed is reaped in groups too: the submitting thread sleeps until B
//! buffers are back.
//!
//! With N = 0 batches follow each other, as in bug 68659 of MySQL.
//!
//! First come first served with a window that holds everything: what is
//! measured is the cost of handing requests over, not the choice among them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use iolane::{
    Arena, Buffer, Completion, DeviceStatistics, Engine, File, IoPriority, Level, OpenOptions,
    Policy, WindowConfig,
};

use super::pending::{Group, Reaped};
use super::{BatchOptions, BatchOutcome, BatchRun, BatchSetting, HandOver};
use crate::args::choices::{Backend, IoMode, Operation, Pattern, Switch, name};
use crate::bench::load::Load;
use crate::bench::through_engine::{choice, open_failure, transfer_failure};
use crate::bench::{needed, one_by_one};
use crate::error::Failure;
use crate::inflight::{CpuMeter, CpuTime, Scope};
use crate::output::units;
use crate::session::Session;
use crate::target::Target;

/// Most requests in flight: what a backend of the engine can hold.
const IN_FLIGHT_MAX: u64 = 16_384;

/// Between two looks at the stop flag.
const LOOK: Duration = Duration::from_millis(50);

/// Measures every setting once.
///
/// # Errors
/// A failed transfer, memory that is not there, or an interruption.
pub fn measure(
    options: &BatchOptions,
    target: Option<&Target>,
    session: &Session,
) -> Result<BatchOutcome, Failure> {
    let target = needed(target)?;
    let runs = one_by_one(options.settings(), session, |setting| {
        run(options, setting, target, session)
    });
    Ok(BatchOutcome { runs: runs? })
}

fn run(
    options: &BatchOptions,
    setting: BatchSetting,
    target: &Target,
    session: &Session,
) -> Result<BatchRun, Failure> {
    let slots = setting.pending + setting.batch_size;
    let arena = arena(slots, setting.block_size_bytes)?;
    let engine = engine(setting, &arena)?;
    let file = open(&engine, options, target)?;
    let buffers = (0..slots)
        .map(|_| arena.buffer(setting.block_size_bytes as usize))
        .collect::<Result<Vec<Buffer>, _>>()
        .map_err(|error| memory_failure(&error))?;
    let submitter = Submitter {
        reaped: Reaped::new(buffers),
        file,
        operation: options.operation,
        batch_size: setting.batch_size as usize,
        offsets: Offsets::new(options, setting.block_size_bytes, target.size_bytes),
    };
    let measured = submitter.course(options, setting, session);
    // Waits for what is outstanding, so that the next run has the disk alone.
    drop(engine);
    measured
}

fn arena(slots: u64, block_size_bytes: u64) -> Result<Arena, Failure> {
    Arena::builder()
        .bytes(slots * slot_bytes(block_size_bytes))
        .build()
        .map_err(|error| memory_failure(&error))
}

/// Memory for one request: what an arena of such buffers is never too small
/// for, however it divides it.
pub fn slot_bytes(block_size_bytes: u64) -> u64 {
    block_size_bytes.next_power_of_two().max(4096)
}

fn memory_failure(error: &dyn std::fmt::Display) -> Failure {
    Failure::setup(
        format!("no memory for the requests' buffers: {error}"),
        "Free some memory, or give a smaller --pending.",
    )
}

fn engine(setting: BatchSetting, arena: &Arena) -> Result<Engine, Failure> {
    let in_flight_max = (setting.pending + setting.batch_size).min(IN_FLIGHT_MAX) as u32;
    let engine = noop_engine(
        setting.backend,
        in_flight_max,
        setting.merging == Switch::On,
    );
    // Registered with io_uring where that is allowed: pages are not pinned
    // again for every transfer, as a database's buffer pool does it.
    engine
        .arena(arena)
        .build()
        .map_err(|error| Failure::Internal {
            message: error.to_string(),
        })
}

/// First come first served, everything at once.
pub fn noop_engine(backend: Backend, in_flight_max: u32, merging: bool) -> iolane::EngineBuilder {
    Engine::builder()
        .backend(choice(backend))
        .policy(Policy::Noop)
        .io_priority(IoPriority::Off)
        .configure(move |_, config| {
            config.window = WindowConfig::Fixed(in_flight_max);
            config.in_flight_max = in_flight_max;
            if !merging {
                config.transfer_members_max = 1;
            }
            for level in &mut config.levels {
                // Pending and in flight are the same here; never full.
                level.queued_max = in_flight_max.saturating_mul(2);
            }
        })
}

pub fn open(engine: &Engine, options: &BatchOptions, target: &Target) -> Result<File, Failure> {
    let mut open = OpenOptions::new();
    open.read(true)
        .write(options.operation == Operation::Write)
        .direct(options.io == IoMode::Direct);
    engine
        .open(&target.open_path, &open)
        .map_err(|error| open_failure(&error))
}

/// Where the next request goes.
struct Offsets {
    pattern: Pattern,
    block_size_bytes: u64,
    blocks: u64,
    state: u64,
}

impl Offsets {
    fn new(options: &BatchOptions, block_size_bytes: u64, size_bytes: u64) -> Self {
        Self {
            pattern: options.pattern,
            block_size_bytes,
            blocks: (size_bytes / block_size_bytes).max(1),
            state: match options.pattern {
                Pattern::Random => options.course.seed,
                Pattern::Sequential => 0,
            },
        }
    }

    fn next(&mut self) -> u64 {
        let block = match self.pattern {
            Pattern::Sequential => {
                let block = self.state;
                self.state = (block + 1) % self.blocks;
                block
            }
            Pattern::Random => {
                self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                mix(self.state) % self.blocks
            }
        };
        block * self.block_size_bytes
    }
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn mix(z: u64) -> u64 {
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

struct Submitter {
    reaped: Arc<Reaped>,
    file: File,
    operation: Operation,
    batch_size: usize,
    offsets: Offsets,
}

/// Read at both ends of the measured time.
struct Meters {
    cpu: CpuMeter,
    statistics: DeviceStatistics,
}

impl Submitter {
    /// Warms up, measures, and sums up.
    fn course(
        mut self,
        options: &BatchOptions,
        setting: BatchSetting,
        session: &Session,
    ) -> Result<BatchRun, Failure> {
        let warm_up = Duration::from_nanos(options.course.warm_up_ns);
        let runtime = Duration::from_nanos(options.course.runtime_ns);
        let phase = session.progress.phase(&label(setting), warm_up + runtime);
        let begin = Instant::now();
        let mut show = || phase.elapsed(begin.elapsed());
        self.submit_until(begin + warm_up, session, &mut show)?;
        let meters = Meters {
            cpu: meter()?,
            statistics: self.file.device().statistics(),
        };
        self.reaped.start_recording();
        self.submit_until(Instant::now() + runtime, session, &mut show)?;
        let elapsed = meters.cpu.elapsed();
        let record = self.reaped.finish_recording();
        let cpu_time = used(&meters.cpu)?;
        let did = self.file.device().statistics().since(&meters.statistics);
        let Some(record) = record else {
            unreachable!("recording was started above");
        };
        let load = Load::new(record.bytes, elapsed, record.latency_ns);
        Ok(BatchRun::new(setting, load, HandOver::of(&did), cpu_time))
    }

    fn submit_until(
        &mut self,
        end: Instant,
        session: &Session,
        show: &mut dyn FnMut(),
    ) -> Result<(), Failure> {
        let mut look = Instant::now();
        loop {
            let now = Instant::now();
            if now >= look {
                session.stop.check()?;
                show();
                look = now + LOOK;
            }
            if now >= end {
                return Ok(());
            }
            match self.reaped.take(self.batch_size, end.min(look)) {
                Group::Buffers(buffers) => self.submit(buffers)?,
                Group::TimeUp => {}
                Group::Failed(error) => return Err(transfer_failure(&error)),
            }
        }
    }

    /// One lock, one wake-up of the driver, one system call.
    fn submit(&mut self, buffers: Vec<Buffer>) -> Result<(), Failure> {
        let mut batch = self.file.device().batch();
        let submitted = Instant::now();
        for buffer in buffers {
            let reaped = Arc::clone(&self.reaped);
            let then = move |completion: Completion<Buffer>| {
                reaped.completed(submitted, completion);
            };
            let offset = self.offsets.next();
            let added = match self.operation {
                Operation::Read => batch.read_then(&self.file, buffer, offset, Level::Normal, then),
                Operation::Write => {
                    batch.write_then(&self.file, buffer, offset, Level::Normal, then)
                }
            };
            added.map_err(|refused| transfer_failure(&refused.error))?;
        }
        batch.submit();
        Ok(())
    }
}

fn label(setting: BatchSetting) -> String {
    let merging = match setting.merging {
        Switch::On => ", merging",
        Switch::Off => "",
    };
    format!(
        "{}, {}, {} at once{merging}",
        name(setting.backend),
        units::binary_size(setting.block_size_bytes),
        setting.batch_size
    )
}

fn meter() -> Result<CpuMeter, Failure> {
    CpuMeter::start(Scope::Process).map_err(|error| Failure::transfer("reading CPU time", error))
}

fn used(meter: &CpuMeter) -> Result<CpuTime, Failure> {
    meter
        .used()
        .map_err(|error| Failure::transfer("reading CPU time", error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(pattern: Pattern, blocks: u64) -> Offsets {
        Offsets {
            pattern,
            block_size_bytes: 4096,
            blocks,
            state: 0,
        }
    }

    #[test]
    fn sequential_offsets_go_round() {
        let mut offsets = offsets(Pattern::Sequential, 3);
        let seen: Vec<u64> = (0..4).map(|_| offsets.next()).collect();
        assert_eq!(seen, [0, 4096, 8192, 0]);
    }

    #[test]
    fn random_offsets_stay_inside_and_reach_everything() {
        let mut offsets = offsets(Pattern::Random, 8);
        let mut seen = [false; 8];
        for _ in 0..1000 {
            let offset = offsets.next();
            assert_eq!(offset % 4096, 0);
            seen[(offset / 4096) as usize] = true;
        }
        assert_eq!(seen, [true; 8]);
    }

    #[test]
    fn memory_of_a_request_is_never_less_than_its_block() {
        for block in [512, 2048, 4096, 20_480, 1 << 20] {
            assert!(slot_bytes(block) >= block.max(4096));
        }
    }
}
