//! `iolane bench mix`: what the foreground suffers from the background, under
//! one scheduler after the other.

mod measure;
mod render;

pub use measure::measure;

use iolane::{RateScope, RateUnit, WindowState};
use iolane_sched::Objective;
use serde::Serialize;

use super::load::Load;
use super::sweep::merge_in_flight;
use super::transfers::{Heading, SCRATCH_BYTES, TransferBench, Transfers};
use super::{Course, Outcome, merge_runs, without_repeats};
use crate::args;
use crate::args::choices::{Backend, IoMode, Operation, Pattern, Policy, name};
use crate::args::common::TransferArgs;
use crate::args::mix::MixArgs;
use crate::args::needs::Need;
use crate::error::Failure;
use crate::inflight::{CpuDocument, CpuTime, InFlight};
use crate::kernel_scheduler;
use crate::output::html::Section;
use crate::output::text::Style;
use crate::output::units;
use crate::session::Session;
use crate::target::{Target, TargetRequest};

use super::load::nanoseconds;

impl MixLoad {
    /// In words.
    pub fn description(&self) -> String {
        let requests = |pattern: Pattern, operation: Operation, sizes: &[u64]| {
            let sizes: Vec<String> = sizes.iter().copied().map(units::binary_size).collect();
            let (pattern, operation) = (name(pattern), name(operation));
            format!("{pattern} {operation}s of {}", sizes.join(", "))
        };
        match self {
            Self::Separate {
                foreground,
                background,
            } => {
                let arrival = match foreground.arrival {
                    Arrival::Depth(1) => "one after the other".to_owned(),
                    Arrival::Depth(depth) => format!("{depth} at a time"),
                    Arrival::RatePerSecond(rate) => format!("{} per second", units::figure(rate)),
                };
                format!(
                    "Foreground: {}, {arrival}. Background: {}, {} outstanding.",
                    requests(
                        foreground.pattern,
                        foreground.operation,
                        &[foreground.block_size_bytes]
                    ),
                    requests(
                        background.pattern,
                        background.operation,
                        &background.block_sizes_bytes
                    ),
                    background.depth,
                )
            }
            Self::Shared {
                outstanding,
                operation,
                block_size_bytes,
                ..
            } => format!(
                "{}, {outstanding} outstanding, of which a share has high priority (foreground) and the rest low (background).",
                requests(Pattern::Random, *operation, &[*block_size_bytes]),
            ),
        }
    }
}

/// How foreground requests come.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrival {
    /// So many at once, each followed by the next.
    Depth(u64),
    /// So many per second; latency counts from the intended start.
    RatePerSecond(f64),
}

/// The load, the same in every run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MixLoad {
    Separate {
        foreground: Foreground,
        background: Background,
    },
    /// One stream, of which a share has high priority.
    Shared {
        outstanding: u64,
        high_shares_percent: Vec<u64>,
        operation: Operation,
        block_size_bytes: u64,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Foreground {
    pub arrival: Arrival,
    pub operation: Operation,
    pub pattern: Pattern,
    pub block_size_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Background {
    pub depth: u64,
    pub operation: Operation,
    pub pattern: Pattern,
    /// Each request takes one at random.
    pub block_sizes_bytes: Vec<u64>,
}

#[derive(Clone, Debug, Serialize)]
pub struct MixOptions {
    pub load: MixLoad,
    pub policies: Vec<Policy>,
    /// Of the policy lanes.
    #[serde(serialize_with = "super::as_text")]
    pub objective: Objective,
    pub windows: Vec<u64>,
    /// Names that the disk offers, once checked.
    pub kernel_schedulers: Vec<String>,
    /// Highest level first; by the engine's defaults when missing.
    pub deadlines_ns: Option<[u64; crate::args::mix::LEVELS]>,
    pub group_limit: Option<u64>,
    pub io: IoMode,
    pub backend: Backend,
    #[serde(flatten)]
    pub course: Course,
    #[serde(skip)]
    target: TargetRequest,
}

/// What decided about the order in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SchedulerKind {
    /// A policy of iolane.
    Policy,
    /// A policy of iolane with a window fixed by hand.
    FixedWindow,
    /// The kernel's; both streams have the same I/O priority.
    Kernel,
    /// The kernel's, with I/O priorities (ioprio).
    KernelIoprio,
}

/// One scheduler, and with a shared load one share.
#[derive(Clone, Debug, Serialize)]
pub struct MixRun {
    /// Name of the policy or of the kernel's scheduler.
    pub policy: String,
    pub kind: SchedulerKind,
    /// For a window fixed by hand.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub high_share_percent: Option<u64>,
    /// With a shared load: the high priority.
    pub foreground: Load,
    /// With a shared load: the low priority.
    pub background: Load,
    pub total_operations_per_second: f64,
    pub total_bytes_per_second: f64,
    /// Only of a policy that learns: at the end of each repetition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub learned: Vec<LearnedWindow>,
    pub in_flight: Option<InFlight>,
    #[serde(skip)]
    pub cpu_time: CpuTime,
    pub cpu: CpuDocument,
}

/// What `lanes` has learned of the device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LearnedWindow {
    /// Requests of the usual size that fill the device.
    pub window_requests: f64,
    /// Shortest latency in the device.
    pub service_ns: u64,
    /// Of a rate-limited volume, while keeping below its rate pays.
    pub rate_limit: Option<LearnedRate>,
    /// Most writes of the background between two flushes of the foreground, while that pays.
    pub unflushed_max: Option<u32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LearnedRate {
    pub unit: LearnedUnit,
    /// Of reads, and as much of writes.
    pub each: bool,
    pub per_second: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LearnedUnit {
    Requests,
    Bytes,
}

impl LearnedWindow {
    pub fn of(state: &WindowState) -> Self {
        Self {
            window_requests: state.transfers,
            service_ns: state.service_ns,
            rate_limit: state.rate_limit.map(|limit| LearnedRate {
                unit: match limit.unit {
                    RateUnit::Transfers => LearnedUnit::Requests,
                    RateUnit::Bytes => LearnedUnit::Bytes,
                },
                each: limit.scope == RateScope::Each,
                per_second: limit.per_second,
            }),
            unflushed_max: state.unflushed_max,
        }
    }
}

impl MixRun {
    pub fn new(
        policy: impl Into<String>,
        kind: SchedulerKind,
        foreground: Load,
        background: Load,
        in_flight: Option<InFlight>,
        cpu_time: CpuTime,
    ) -> Self {
        let mut run = Self {
            policy: policy.into(),
            kind,
            window: None,
            high_share_percent: None,
            foreground,
            background,
            total_operations_per_second: 0.0,
            total_bytes_per_second: 0.0,
            learned: Vec::new(),
            in_flight,
            cpu_time,
            cpu: CpuDocument {
                user_ns: 0,
                system_ns: 0,
                context_switches: 0,
                ns_per_operation: 0.0,
                ms_per_megabyte: 0.0,
            },
        };
        run.sum_up();
        run
    }

    #[must_use]
    pub fn with_window(mut self, window: u64) -> Self {
        self.window = Some(window);
        self
    }

    #[must_use]
    pub fn with_high_share(mut self, percent: u64) -> Self {
        self.high_share_percent = Some(percent);
        self
    }

    /// Figures that follow from the others.
    fn sum_up(&mut self) {
        let (foreground, background) = (&self.foreground, &self.background);
        self.total_operations_per_second =
            foreground.operations_per_second() + background.operations_per_second();
        self.total_bytes_per_second = foreground.bytes_per_second() + background.bytes_per_second();
        self.cpu = self.cpu_time.document(
            foreground.operations + background.operations,
            foreground.bytes + background.bytes,
        );
    }

    fn merge(&mut self, other: Self) {
        self.foreground.merge(other.foreground);
        self.background.merge(other.background);
        self.learned.extend(other.learned);
        self.in_flight = merge_in_flight(self.in_flight.take(), other.in_flight);
        self.cpu_time = self.cpu_time.merged(&other.cpu_time);
        self.sum_up();
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct MixOutcome {
    /// The load in words. For programs it is in the options.
    #[serde(skip)]
    pub description: String,
    /// Which backend carried it, and why that one.
    pub backend: String,
    pub runs: Vec<MixRun>,
}

impl MixOutcome {
    /// All figures, and what they come to.
    pub fn result(&self) -> Section {
        render::result(self)
    }

    /// The picture that compares schedulers.
    pub fn latency_against_throughput(&self) -> Section {
        render::latency_against_throughput(self)
    }
}

/// The sub-command.
pub struct Mix;

impl TransferBench for Mix {
    const HEADING: Heading = Heading {
        name: "mix",
        about: "A foreground beside a background under several schedulers: latency against throughput",
        schema: "iolane.bench.mix/1",
    };
    type Arguments = MixArgs;
    type Options = MixOptions;
    type Outcome = MixOutcome;
    const NEEDS: &'static [Need] = args::mix::NEEDS;

    fn shared(arguments: &MixArgs) -> &TransferArgs {
        &arguments.shared
    }

    fn transfers(arguments: &MixArgs) -> Transfers {
        let (operations, sizes_bytes) = transfers(&load(arguments));
        Transfers {
            sizes_bytes,
            operations,
            io: vec![arguments.carrier.io.io],
            scratch_bytes: SCRATCH_BYTES,
        }
    }

    fn options(
        arguments: MixArgs,
        course: Course,
        target: TargetRequest,
    ) -> Result<MixOptions, Failure> {
        without_repeats(&arguments.policies, "--policies")?;
        let schedulers = arguments.kernel_schedulers.clone().unwrap_or_default();
        without_repeats(&schedulers, "--kernel-schedulers")?;
        // Before anything is written to the target.
        if !schedulers.is_empty() && !crate::sys::file::is_root() {
            return Err(Failure::setup(
                "only root may change a disk's I/O scheduler",
                "Run as root, or leave out --kernel-schedulers.",
            ));
        }
        if arguments.objective.is_some() && !arguments.policies.contains(&Policy::Lanes) {
            return Err(Failure::usage(
                "--objective is for the policy lanes",
                "Give lanes among --policies too.",
            ));
        }
        if arguments.outstanding == Some(1) {
            return Err(Failure::usage(
                "one request outstanding cannot be shared",
                "Give --outstanding at least 2.",
            ));
        }
        let load = load(&arguments);
        Ok(MixOptions {
            load,
            policies: arguments.policies,
            objective: arguments.objective.unwrap_or_default(),
            windows: arguments.windows.map(|list| list.0).unwrap_or_default(),
            kernel_schedulers: schedulers,
            deadlines_ns: arguments
                .deadlines
                .map(|deadlines| deadlines.0.map(nanoseconds)),
            group_limit: arguments.group_limit,
            io: arguments.carrier.io.io,
            backend: arguments.carrier.backend,
            course,
            target,
        })
    }

    fn request(options: &MixOptions) -> &TargetRequest {
        &options.target
    }

    fn check(
        options: &mut MixOptions,
        target: Option<&Target>,
        session: &Session,
    ) -> Result<(), Failure> {
        if options.kernel_schedulers.is_empty() {
            return Ok(());
        }
        let disk = target
            .and_then(|target| target.disk.as_deref())
            .ok_or_else(|| {
                Failure::setup(
                    "the target lies on no disk whose I/O scheduler could be changed",
                    "Leave out --kernel-schedulers, or measure on a local disk.",
                )
            })?;
        options.kernel_schedulers =
            kernel_scheduler::resolve(&session.paths, disk, &options.kernel_schedulers)?;
        Ok(())
    }
}

fn load(arguments: &MixArgs) -> MixLoad {
    if let (Some(outstanding), Some(shares)) = (arguments.outstanding, &arguments.high_share) {
        return MixLoad::Shared {
            outstanding,
            high_shares_percent: shares.0.clone(),
            operation: arguments.operation,
            block_size_bytes: arguments.block_size,
        };
    }
    MixLoad::Separate {
        foreground: Foreground {
            arrival: arguments.foreground_rate.map_or(
                Arrival::Depth(arguments.foreground_depth),
                Arrival::RatePerSecond,
            ),
            operation: arguments.foreground_operation,
            pattern: arguments.foreground_pattern,
            block_size_bytes: arguments.foreground_block_size,
        },
        background: Background {
            depth: arguments.background_depth,
            operation: arguments.background_operation,
            pattern: arguments.background_pattern,
            block_sizes_bytes: arguments.background_block_size.0.clone(),
        },
    }
}

impl MixOptions {
    fn operations(&self) -> Vec<Operation> {
        transfers(&self.load).0
    }
}

/// Operations and transfer sizes that occur.
fn transfers(load: &MixLoad) -> (Vec<Operation>, Vec<u64>) {
    match load {
        MixLoad::Shared {
            operation,
            block_size_bytes,
            ..
        } => (vec![*operation], vec![*block_size_bytes]),
        MixLoad::Separate {
            foreground,
            background,
        } => {
            let mut sizes = background.block_sizes_bytes.clone();
            sizes.push(foreground.block_size_bytes);
            (vec![foreground.operation, background.operation], sizes)
        }
    }
}

impl Outcome for MixOutcome {
    fn merge(&mut self, other: Self) {
        merge_runs(&mut self.runs, other.runs, MixRun::merge);
    }

    fn text(&self, style: Style) -> String {
        render::text(self, style)
    }

    fn html(&self) -> Vec<Section> {
        render::html(self)
    }
}
