//! `iolane bench batch`: what it costs to hand over requests one by one or
//! many at once.

use serde::Serialize;

use super::load::Load;
use super::sweep::{SCRATCH_BYTES, load_cells};
use super::{Bench, Course, Outcome, merge_runs, target_request, without_repeats};
use crate::args::batch::BatchArgs;
use crate::args::choices::{Backend, IoMode, Operation, Pattern, name};
use crate::args::common::OutputArgs;
use crate::error::Failure;
use crate::inflight::{CpuDocument, CpuTime};
use crate::output::chart::{Axis, LineChart, Series};
use crate::output::html::Section;
use crate::output::text::{Style, Table};
use crate::output::units;
use crate::target::TargetRequest;

#[derive(Clone, Debug, Serialize)]
pub struct BatchOptions {
    pub batch_sizes: Vec<u64>,
    pub pending: u64,
    pub block_sizes_bytes: Vec<u64>,
    pub backends: Vec<Backend>,
    pub operation: Operation,
    pub pattern: Pattern,
    pub io: IoMode,
    #[serde(flatten)]
    pub course: Course,
    #[serde(skip)]
    target: TargetRequest,
}

/// One batch size of one block size on one backend.
#[derive(Clone, Debug, Serialize)]
pub struct BatchRun {
    pub backend: Backend,
    pub block_size_bytes: u64,
    pub batch_size: u64,
    pub pending: u64,
    #[serde(flatten)]
    pub load: Load,
    #[serde(skip)]
    pub cpu_time: CpuTime,
    pub cpu: CpuDocument,
}

impl BatchRun {
    pub fn new(
        backend: Backend,
        block_size_bytes: u64,
        batch_size: u64,
        pending: u64,
        load: Load,
        cpu_time: CpuTime,
    ) -> Self {
        Self {
            cpu: cpu_time.document(load.operations, load.bytes),
            backend,
            block_size_bytes,
            batch_size,
            pending,
            load,
            cpu_time,
        }
    }

    fn merge(&mut self, other: Self) {
        self.load.merge(other.load);
        self.cpu_time = self.cpu_time.merged(&other.cpu_time);
        self.cpu = self
            .cpu_time
            .document(self.load.operations, self.load.bytes);
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct BatchOutcome {
    pub runs: Vec<BatchRun>,
}

/// The sub-command.
pub struct Batch;

impl Bench for Batch {
    const NAME: &'static str = "batch";
    const ABOUT: &'static str =
        "Throughput and CPU time per request as more requests go into one submission";
    const SCHEMA: &'static str = "iolane.bench.batch/1";
    type Arguments = BatchArgs;
    type Options = BatchOptions;
    type Outcome = BatchOutcome;

    fn output(arguments: &BatchArgs) -> &OutputArgs {
        &arguments.output
    }

    fn repeat(arguments: &BatchArgs) -> u64 {
        arguments.course.repeat
    }

    fn options(arguments: BatchArgs) -> Result<BatchOptions, Failure> {
        without_repeats(&arguments.backends, "--backends")?;
        let largest = arguments.batch_sizes.0.iter().copied().max().unwrap_or(0);
        // 1024 of 1000 pending is the classic setting: a batch is cut there.
        if largest > arguments.pending.saturating_mul(2) {
            return Err(Failure::usage(
                format!(
                    "a batch of {largest} cannot be built from {} pending requests",
                    arguments.pending
                ),
                "Give smaller --batch-sizes or a larger --pending.",
            ));
        }
        let target = TargetRequest {
            transfer_sizes_bytes: arguments.block_sizes.0.clone(),
            direct: arguments.io.io.is_direct(),
            reads: arguments.operation == Operation::Read,
            writes: arguments.operation == Operation::Write,
            ..target_request(&arguments.target, SCRATCH_BYTES)
        };
        Ok(BatchOptions {
            batch_sizes: arguments.batch_sizes.0,
            pending: arguments.pending,
            block_sizes_bytes: arguments.block_sizes.0,
            backends: arguments.backends,
            operation: arguments.operation,
            pattern: arguments.pattern,
            io: arguments.io.io,
            course: Course::from_args(&arguments.course),
            target,
        })
    }

    fn target(options: &BatchOptions) -> Option<TargetRequest> {
        Some(options.target.clone())
    }
}

impl Outcome for BatchOutcome {
    fn merge(&mut self, other: Self) {
        merge_runs(&mut self.runs, other.runs, BatchRun::merge);
    }

    fn text(&self, style: Style) -> String {
        self.table().render(style)
    }

    fn html(&self) -> Vec<Section> {
        let mut groups: Vec<(Backend, u64)> = Vec::new();
        for run in &self.runs {
            if !groups.contains(&(run.backend, run.block_size_bytes)) {
                groups.push((run.backend, run.block_size_bytes));
            }
        }
        let series = |value: fn(&BatchRun) -> f64| {
            groups
                .iter()
                .map(|(backend, block)| {
                    let runs = self
                        .runs
                        .iter()
                        .filter(|run| (run.backend, run.block_size_bytes) == (*backend, *block));
                    Series::new(
                        format!("{} {}", name(*backend), units::binary_size(*block)),
                        runs.map(|run| (run.batch_size as f64, value(run)))
                            .collect(),
                    )
                })
                .collect()
        };
        let chart = |y, series| LineChart {
            x: Axis::log2("requests per submission"),
            y,
            series,
            mark_x: None,
        };
        vec![
            Section::new("Result").table(self.table()),
            Section::new("CPU time per request").chart(
                chart(
                    Axis::log10("CPU time per request", units::time),
                    series(|run| run.cpu.ns_per_operation),
                )
                .svg(),
            ),
            Section::new("Throughput").chart(
                chart(
                    Axis::log10("throughput", units::bytes_per_second),
                    series(|run| run.load.bytes_per_second()),
                )
                .svg(),
            ),
        ]
    }
}

impl BatchOutcome {
    fn table(&self) -> Table {
        let mut table = Table::new(
            1,
            [
                "backend",
                "block",
                "batch",
                "ops/s",
                "±%",
                "throughput",
                "mean",
                "p50",
                "p99",
                "p99.9",
                "max",
                "CPU/op",
                "CPU ms/MB",
            ],
        );
        for run in &self.runs {
            let mut row = vec![
                name(run.backend),
                units::binary_size(run.block_size_bytes),
                run.batch_size.to_string(),
            ];
            row.extend(load_cells(&run.load));
            row.push(units::time(run.cpu.ns_per_operation));
            row.push(units::figure(run.cpu.ms_per_megabyte));
            table.row(row);
        }
        table.without_empty_columns()
    }
}
