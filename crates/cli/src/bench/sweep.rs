//! `iolane bench sweep`: the same requests with more and more of them
//! outstanding.

mod measure;

pub use measure::{measure, unscheduled};

use serde::Serialize;

use super::knee::{self, Knee};
use super::load::Load;
use super::transfers::{Heading, SCRATCH_BYTES, TransferBench, Transfers};
use super::{Course, Outcome, merge_runs};
use crate::args::choices::{Backend, IoMode, Operation, Pattern};
use crate::args::common::TransferArgs;
use crate::args::sweep::SweepArgs;
use crate::error::Failure;
use crate::inflight::{CpuDocument, CpuTime, InFlight};
use crate::output::chart::{Axis, LineChart, Series};
use crate::output::html::Section;
use crate::output::text::{Style, Table};
use crate::output::units;
use crate::target::TargetRequest;

#[derive(Clone, Debug, Serialize)]
pub struct SweepOptions {
    pub depths: Vec<u64>,
    pub operation: Operation,
    pub pattern: Pattern,
    pub block_size_bytes: u64,
    /// As much as is outstanding needs, if nothing.
    pub memory_bytes: Option<u64>,
    pub io: IoMode,
    pub backend: Backend,
    #[serde(flatten)]
    pub course: Course,
    #[serde(skip)]
    target: TargetRequest,
}

/// One depth.
#[derive(Clone, Debug, Serialize)]
pub struct SweepRun {
    pub depth: u64,
    #[serde(flatten)]
    pub load: Load,
    /// Nothing where the kernel does not tell.
    #[serde(rename = "in_flight")]
    pub in_flight: Option<InFlight>,
    #[serde(skip)]
    pub cpu_time: CpuTime,
    pub cpu: CpuDocument,
}

impl SweepRun {
    pub fn new(depth: u64, load: Load, in_flight: Option<InFlight>, cpu_time: CpuTime) -> Self {
        Self {
            cpu: cpu_time.document(load.operations, load.bytes),
            depth,
            load,
            in_flight,
            cpu_time,
        }
    }

    fn merge(&mut self, other: Self) {
        self.load.merge(other.load);
        self.cpu_time = self.cpu_time.merged(&other.cpu_time);
        self.cpu = self
            .cpu_time
            .document(self.load.operations, self.load.bytes);
        self.in_flight = merge_in_flight(self.in_flight.take(), other.in_flight);
    }
}

pub(super) fn merge_in_flight(a: Option<InFlight>, b: Option<InFlight>) -> Option<InFlight> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.merged(&b)),
        (a, b) => a.or(b),
    }
}

/// All depths, with the knee.
#[derive(Clone, Debug, Serialize)]
pub struct SweepOutcome {
    /// Which backend carried it, and why that one.
    pub backend: String,
    pub knee: Option<Knee>,
    pub runs: Vec<SweepRun>,
}

impl SweepOutcome {
    pub fn new(backend: String, runs: Vec<SweepRun>) -> Self {
        let mut outcome = Self {
            backend,
            knee: None,
            runs,
        };
        outcome.find_knee();
        outcome
    }

    fn find_knee(&mut self) {
        let mut figures: Vec<(u64, f64, f64)> = self
            .runs
            .iter()
            .map(|run| {
                let rate = run.load.operations_per_second();
                (run.depth, rate, run.load.latency_ns.mean())
            })
            .collect();
        figures.sort_by_key(|run| run.0);
        self.knee = knee::find(&figures);
    }
}

/// The sub-command.
pub struct Sweep;

impl TransferBench for Sweep {
    const HEADING: Heading = Heading {
        name: "sweep",
        about: "Throughput and latency as the number of outstanding requests grows; names the knee",
        schema: "iolane.bench.sweep/1",
    };
    type Arguments = SweepArgs;
    type Options = SweepOptions;
    type Outcome = SweepOutcome;

    fn shared(arguments: &SweepArgs) -> &TransferArgs {
        &arguments.shared
    }

    fn transfers(arguments: &SweepArgs) -> Transfers {
        Transfers {
            sizes_bytes: vec![arguments.block_size],
            operations: vec![arguments.operation],
            io: vec![arguments.carrier.io.io],
            scratch_bytes: SCRATCH_BYTES,
        }
    }

    fn options(
        arguments: SweepArgs,
        course: Course,
        target: TargetRequest,
    ) -> Result<SweepOptions, Failure> {
        Ok(SweepOptions {
            course,
            depths: arguments.depths.0,
            operation: arguments.operation,
            pattern: arguments.pattern,
            block_size_bytes: arguments.block_size,
            memory_bytes: arguments.memory,
            io: arguments.carrier.io.io,
            backend: arguments.carrier.backend,
            target,
        })
    }

    fn request(options: &SweepOptions) -> &TargetRequest {
        &options.target
    }
}

impl Outcome for SweepOutcome {
    fn merge(&mut self, other: Self) {
        merge_runs(&mut self.runs, other.runs, SweepRun::merge);
        self.find_knee();
    }

    fn text(&self, style: Style) -> String {
        self.table().render_above(&self.sentences(), style)
    }

    fn html(&self) -> Vec<Section> {
        let mut sections = vec![self.result()];
        sections.extend(self.charts());
        sections
    }
}

impl SweepOutcome {
    /// All figures, and the knee in words.
    pub fn result(&self) -> Section {
        Section::new("Result")
            .text(self.sentences())
            .table(self.table())
    }

    /// Throughput and latency by depth.
    pub fn charts(&self) -> Vec<Section> {
        let points = |value: fn(&SweepRun) -> f64| -> Vec<(f64, f64)> {
            self.runs
                .iter()
                .map(|run| (run.depth as f64, value(run)))
                .collect()
        };
        let depth_axis = || Axis::log2("requests outstanding");
        let latency = |name: &str, value| Series::new(name, points(value));
        vec![
            Section::new("Throughput").chart(
                LineChart {
                    x: depth_axis(),
                    y: Axis::linear("operations per second", units::count),
                    series: vec![Series::new(
                        "throughput",
                        points(|run| run.load.operations_per_second()),
                    )],
                    mark_x: self
                        .knee
                        .map(|knee| (knee.knee.depth as f64, "knee".to_owned())),
                }
                .svg(),
            ),
            Section::new("Latency").chart(
                LineChart {
                    x: depth_axis(),
                    y: Axis::log10("latency", units::time),
                    series: vec![
                        latency("mean", |run| run.load.latency_ns.mean()),
                        latency("p99", |run| run.load.quantile_ns(0.99) as f64),
                        latency("p99.9", |run| run.load.quantile_ns(0.999) as f64),
                    ],
                    mark_x: self
                        .knee
                        .map(|knee| (knee.knee.depth as f64, "knee".to_owned())),
                }
                .svg(),
            ),
        ]
    }
    fn table(&self) -> Table {
        let mut table = Table::new(
            0,
            [
                "depth",
                "ops/s",
                "±%",
                "throughput",
                "mean",
                "p50",
                "p99",
                "p99.9",
                "max",
                "in flight",
                "CPU/op",
                "CPU ms/MB",
            ],
        );
        for run in &self.runs {
            let mut row = vec![run.depth.to_string()];
            row.extend(load_cells(&run.load));
            row.push(
                run.in_flight
                    .as_ref()
                    .map_or_else(String::new, |seen| units::figure(seen.mean_requests)),
            );
            row.push(units::time(run.cpu.ns_per_operation));
            row.push(units::figure(run.cpu.ms_per_megabyte));
            table.row(row);
        }
        table.without_empty_columns()
    }

    fn sentences(&self) -> Vec<String> {
        let Some(Knee { knee, full }) = self.knee else {
            return vec!["No request completed.".to_owned()];
        };
        let percent = |share: f64| format!("{:.0} %", share * 100.0);
        let mut sentences = vec![format!(
            "Knee: depth {} gives {} of the best throughput at {} mean latency; beyond it, waiting grows faster than throughput.",
            knee.depth,
            percent(knee.share_of_best),
            units::time(knee.mean_latency_ns)
        )];
        if full.depth != knee.depth {
            sentences.push(format!(
                "Full: depth {} gives {} of the best throughput at {} mean latency.",
                full.depth,
                percent(full.share_of_best),
                units::time(full.mean_latency_ns)
            ));
        }
        sentences.push(format!("Backend: {}.", self.backend));
        sentences
    }
}

/// Ops/s, spread, throughput, and latencies: mean, p50, p99, p99.9, max.
pub(super) fn load_cells(load: &Load) -> Vec<String> {
    let time = |quantile| units::time(load.quantile_ns(quantile) as f64);
    vec![
        units::count(load.operations_per_second()),
        load.spread_cell(),
        units::bytes_per_second(load.bytes_per_second()),
        units::time(load.latency_ns.mean()),
        time(0.5),
        time(0.99),
        time(0.999),
        units::time(load.latency_ns.max() as f64),
    ]
}
