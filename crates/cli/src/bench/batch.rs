//! `iolane bench batch`: what it costs to hand over requests one by one or
//! many at once.

mod measure;
mod pending;

use iolane::DeviceStatistics;
use serde::Serialize;

use super::load::Load;
use super::through_engine::{backend, backend_failure};
use super::transfers::{Heading, SCRATCH_BYTES, TransferBench, Transfers};
use super::{Course, Outcome, merge_runs, without_repeats};
use crate::args::batch::BatchArgs;
use crate::args::choices::{Backend, IoMode, Operation, Pattern, Switch, name};
use crate::args::common::TransferArgs;
use crate::error::Failure;
use crate::inflight::{CpuDocument, CpuTime};
use crate::output::chart::{Axis, LineChart, Series};
use crate::output::html::Section;
use crate::output::text::{Style, Table};
use crate::output::units;
use crate::session::Session;
use crate::system::SystemPaths;
use crate::target::{Target, TargetRequest};

pub use measure::measure;

/// Most memory for buffers: 1000 requests of 1 MiB, and no more of a machine
/// that has other work too.
const BUFFERS_BYTES_MAX: u64 = 1 << 30;
/// And of what is free, this part.
const BUFFERS_FREE_PART: u64 = 4;

#[derive(Clone, Debug, Serialize)]
pub struct BatchOptions {
    pub batch_sizes: Vec<u64>,
    pub pending: u64,
    pub block_sizes_bytes: Vec<u64>,
    pub backends: Vec<Backend>,
    pub operation: Operation,
    pub pattern: Pattern,
    pub io: IoMode,
    pub merging: Vec<Switch>,
    /// Limit on the memory for buffers; fewer requests are pending where they
    /// would take more.
    pub buffers_bytes_max: u64,
    #[serde(flatten)]
    pub course: Course,
    #[serde(skip)]
    target: TargetRequest,
}

/// What distinguishes one run from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSetting {
    pub backend: Backend,
    pub block_size_bytes: u64,
    pub batch_size: u64,
    pub merging: Switch,
    /// As far as the memory for buffers goes.
    pub pending: u64,
}

impl BatchOptions {
    /// Every combination, in the order of the runs.
    pub fn settings(&self) -> Vec<BatchSetting> {
        let mut settings = Vec::new();
        for &backend in &self.backends {
            for &block_size_bytes in &self.block_sizes_bytes {
                for &merging in &self.merging {
                    for &batch_size in &self.batch_sizes {
                        settings.push(BatchSetting {
                            backend,
                            block_size_bytes,
                            batch_size,
                            merging,
                            pending: self.pending_of(block_size_bytes, batch_size),
                        });
                    }
                }
            }
        }
        settings
    }

    fn pending_of(&self, block_size_bytes: u64, batch_size: u64) -> u64 {
        let slots = self.buffers_bytes_max / measure::slot_bytes(block_size_bytes);
        self.pending.min(slots.saturating_sub(batch_size))
    }
}

/// How requests reached the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct HandOver {
    /// How often the driver handed something over.
    pub hand_overs: u64,
    /// Transfers: requests, or several of them merged.
    pub transfers: u64,
}

impl HandOver {
    pub fn of(did: &DeviceStatistics) -> Self {
        Self {
            hand_overs: did.batch_sizes.iter().sum(),
            transfers: did.transfers,
        }
    }

    /// More than the batch size where the driver found several submissions
    /// waiting when it came back from the kernel.
    pub fn transfers_per_hand_over(&self) -> f64 {
        self.transfers as f64 / self.hand_overs.max(1) as f64
    }
}

/// One batch size of one block size on one backend.
#[derive(Clone, Debug, Serialize)]
pub struct BatchRun {
    pub backend: Backend,
    pub block_size_bytes: u64,
    pub batch_size: u64,
    /// Kept outstanding, at least; up to a batch more.
    pub pending: u64,
    pub merging: Switch,
    #[serde(flatten)]
    pub load: Load,
    #[serde(flatten)]
    pub hand_over: HandOver,
    pub transfers_per_hand_over: f64,
    #[serde(skip)]
    pub cpu_time: CpuTime,
    pub cpu: CpuDocument,
}

impl BatchRun {
    pub fn new(setting: BatchSetting, load: Load, hand_over: HandOver, cpu_time: CpuTime) -> Self {
        Self {
            cpu: cpu_time.document(load.operations, load.bytes),
            backend: setting.backend,
            block_size_bytes: setting.block_size_bytes,
            batch_size: setting.batch_size,
            pending: setting.pending,
            merging: setting.merging,
            load,
            transfers_per_hand_over: hand_over.transfers_per_hand_over(),
            hand_over,
            cpu_time,
        }
    }

    fn merge(&mut self, other: Self) {
        self.load.merge(other.load);
        self.hand_over.hand_overs += other.hand_over.hand_overs;
        self.hand_over.transfers += other.hand_over.transfers;
        self.transfers_per_hand_over = self.hand_over.transfers_per_hand_over();
        self.cpu_time = self.cpu_time.merged(&other.cpu_time);
        self.cpu = self
            .cpu_time
            .document(self.load.operations, self.load.bytes);
    }

    /// User and system time of one request.
    fn cpu_parts_ns(&self) -> [f64; 2] {
        let of_one = |ns: u64| ns as f64 / self.load.operations.max(1) as f64;
        [
            of_one(self.cpu_time.user_ns),
            of_one(self.cpu_time.system_ns),
        ]
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct BatchOutcome {
    pub runs: Vec<BatchRun>,
}

/// The sub-command.
pub struct Batch;

impl TransferBench for Batch {
    const HEADING: Heading = Heading {
        name: "batch",
        about: "Throughput and CPU time per request as more requests go into one submission",
        schema: "iolane.bench.batch/1",
    };
    type Arguments = BatchArgs;
    type Options = BatchOptions;
    type Outcome = BatchOutcome;

    fn shared(arguments: &BatchArgs) -> &TransferArgs {
        &arguments.shared
    }

    fn transfers(arguments: &BatchArgs) -> Transfers {
        Transfers {
            sizes_bytes: arguments.block_sizes.0.clone(),
            operations: vec![arguments.operation],
            io: vec![arguments.io.io],
            scratch_bytes: SCRATCH_BYTES,
        }
    }

    fn options(
        arguments: BatchArgs,
        course: Course,
        target: TargetRequest,
    ) -> Result<BatchOptions, Failure> {
        without_repeats(&arguments.backends, "--backends")?;
        without_repeats(&arguments.merging, "--merging")?;
        let largest = arguments.batch_sizes.0.iter().copied().max().unwrap_or(0);
        // 1024 at once with 1000 pending is the classic setting; far more would
        // not keep anything pending, but let the disk idle between batches.
        if arguments.pending > 0 && largest > arguments.pending.saturating_mul(2) {
            return Err(Failure::usage(
                format!(
                    "a batch of {largest} cannot be built from {} pending requests",
                    arguments.pending
                ),
                "Give smaller --batch-sizes or a larger --pending; or 0, for batches one after the other.",
            ));
        }
        Ok(BatchOptions {
            batch_sizes: arguments.batch_sizes.0,
            pending: arguments.pending,
            block_sizes_bytes: arguments.block_sizes.0,
            backends: arguments.backends,
            operation: arguments.operation,
            pattern: arguments.pattern,
            io: arguments.io.io,
            merging: arguments.merging,
            buffers_bytes_max: BUFFERS_BYTES_MAX,
            course,
            target,
        })
    }

    fn request(options: &BatchOptions) -> &TargetRequest {
        &options.target
    }

    fn check(
        options: &mut BatchOptions,
        target: Option<&Target>,
        session: &Session,
    ) -> Result<(), Failure> {
        check_memory(options, session)?;
        match target {
            Some(target) => check_backends(options, target, session),
            None => Ok(()),
        }
    }
}

/// Fits the number of pending requests to the memory.
fn check_memory(options: &mut BatchOptions, session: &Session) -> Result<(), Failure> {
    if let Some(free_bytes) = free_memory_bytes(&session.paths) {
        options.buffers_bytes_max = BUFFERS_BYTES_MAX.min(free_bytes / BUFFERS_FREE_PART);
    }
    let most_bytes = options.buffers_bytes_max;
    for block in &options.block_sizes_bytes {
        let slots = most_bytes / measure::slot_bytes(*block);
        let largest = options.batch_sizes.iter().copied().max().unwrap_or(1);
        if largest > slots {
            return Err(Failure::usage(
                format!(
                    "a batch of {largest} requests of {} needs more than {} of memory",
                    units::binary_size(*block),
                    units::binary_size(most_bytes)
                ),
                "Give smaller --batch-sizes or --block-sizes.",
            ));
        }
        if options.pending + largest > slots {
            session.warn(format!(
                "only {slots} requests of {} are outstanding at a time, a batch included: their buffers take at most {}",
                units::binary_size(*block),
                units::binary_size(most_bytes)
            ));
        }
    }
    Ok(())
}

/// `MemAvailable`: without swapping.
fn free_memory_bytes(paths: &SystemPaths) -> Option<u64> {
    let text = std::fs::read_to_string(paths.proc.join("meminfo")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// Leaves out what this machine does not have, and says so; puts a name to
/// `auto`.
fn check_backends(
    options: &mut BatchOptions,
    target: &Target,
    session: &Session,
) -> Result<(), Failure> {
    let mut usable = Vec::new();
    let mut last_refusal = None;
    for &asked in &options.backends {
        let engine = measure::noop_engine(asked, 1, false)
            .build()
            .map_err(|error| Failure::Internal {
                message: error.to_string(),
            })?;
        let device = measure::open(&engine, options, target)?.device();
        match device.backend().map(|report| backend(report.chosen())) {
            Ok(found) if usable.contains(&found) => {}
            Ok(found) => usable.push(found),
            Err(error) => {
                session.warn(format!("{} is left out: {error}", name(asked)));
                last_refusal = Some(error);
            }
        }
    }
    match last_refusal {
        Some(error) if usable.is_empty() => Err(backend_failure(&error)),
        _ => {
            options.backends = usable;
            Ok(())
        }
    }
}

impl Outcome for BatchOutcome {
    fn merge(&mut self, other: Self) {
        merge_runs(&mut self.runs, other.runs, BatchRun::merge);
    }

    fn text(&self, style: Style) -> String {
        self.table().render_above(&self.sentences(), style)
    }

    fn html(&self) -> Vec<Section> {
        let mut sections = vec![
            Section::new("Result")
                .text(self.sentences())
                .table(self.table()),
        ];
        let mut blocks: Vec<u64> = self.runs.iter().map(|run| run.block_size_bytes).collect();
        blocks.sort_unstable();
        blocks.dedup();
        for block in blocks {
            let size = units::binary_size(block);
            sections.push(
                Section::new(format!("CPU time per request of {size}")).chart(self.chart(
                    block,
                    Axis::linear("CPU time per request", units::time),
                    |run| run.cpu.ns_per_operation,
                )),
            );
            sections.push(
                Section::new(format!("Throughput in requests of {size}")).chart(self.chart(
                    block,
                    Axis::linear("throughput", units::bytes_per_second),
                    |run| run.load.bytes_per_second(),
                )),
            );
        }
        sections
    }
}

impl BatchOutcome {
    /// Runs that differ in their batch size only.
    fn groups(&self) -> Vec<Vec<&BatchRun>> {
        let key = |run: &BatchRun| (run.backend, run.block_size_bytes, run.merging);
        let mut groups: Vec<Vec<&BatchRun>> = Vec::new();
        for run in &self.runs {
            match groups.iter_mut().find(|group| key(group[0]) == key(run)) {
                Some(group) => group.push(run),
                None => groups.push(vec![run]),
            }
        }
        groups
    }

    fn chart(&self, block: u64, y: Axis<'_>, value: fn(&BatchRun) -> f64) -> maud::Markup {
        let groups = self.groups().into_iter();
        let series = groups
            .filter(|group| group[0].block_size_bytes == block)
            .map(|group| {
                let points = group.iter().map(|run| (run.batch_size as f64, value(run)));
                Series::new(series_name(group[0]), points.collect())
            });
        LineChart {
            x: Axis::log2("requests per submission"),
            y,
            series: series.collect(),
            mark_x: None,
        }
        .svg()
    }

    fn table(&self) -> Table {
        let merging = self.runs.iter().any(|run| run.merging == Switch::On);
        let mut table = Table::new(
            3,
            [
                "backend",
                "block",
                "merging",
                "batch",
                "pending",
                "ops/s",
                "±%",
                "throughput",
                "mean",
                "p99",
                "CPU/op",
                "user",
                "system",
                "per hand-over",
            ],
        );
        for run in &self.runs {
            let [user_ns, system_ns] = run.cpu_parts_ns();
            table.row([
                name(run.backend),
                units::binary_size(run.block_size_bytes),
                if merging {
                    name(run.merging)
                } else {
                    String::new()
                },
                run.batch_size.to_string(),
                run.pending.to_string(),
                units::count(run.load.operations_per_second()),
                run.load.spread_cell(),
                units::bytes_per_second(run.load.bytes_per_second()),
                units::time(run.load.latency_ns.mean()),
                units::time(run.load.quantile_ns(0.99) as f64),
                units::time(run.cpu.ns_per_operation),
                units::time(user_ns),
                units::time(system_ns),
                units::figure(run.transfers_per_hand_over),
            ]);
        }
        table.without_empty_columns()
    }

    /// What batches gain, per group.
    fn sentences(&self) -> Vec<String> {
        let mut sentences: Vec<String> = self
            .groups()
            .into_iter()
            .filter_map(|group| gain(&group))
            .collect();
        sentences.push(
            "\"per hand-over\": transfers that went to the kernel together; the engine gathers by itself what comes while its driver is busy."
                .to_owned(),
        );
        sentences
    }
}

fn series_name(run: &BatchRun) -> String {
    match run.merging {
        Switch::On => format!("{}, merging", name(run.backend)),
        Switch::Off => name(run.backend),
    }
}

/// The smallest batch against that with the least CPU time.
fn gain(group: &[&BatchRun]) -> Option<String> {
    let first = group.iter().min_by_key(|run| run.batch_size)?;
    let measured = group.iter().filter(|run| run.load.operations > 0);
    let best = measured.min_by(|a, b| a.cpu.ns_per_operation.total_cmp(&b.cpu.ns_per_operation))?;
    if best.batch_size == first.batch_size || first.load.operations == 0 {
        return None;
    }
    Some(format!(
        "Requests of {} through {}: {} at once take {} of CPU time each at {}, {} at a time {} at {}.",
        units::binary_size(first.block_size_bytes),
        series_name(first),
        best.batch_size,
        units::time(best.cpu.ns_per_operation),
        units::bytes_per_second(best.load.bytes_per_second()),
        first.batch_size,
        units::time(first.cpu.ns_per_operation),
        units::bytes_per_second(first.load.bytes_per_second()),
    ))
}
