//! `iolane bench commit`: appends to a log, each made durable before the next.

use serde::Serialize;

use super::load::Load;
use super::{Bench, Course, Outcome, merge_runs, target_request, without_repeats};
use crate::args::choices::{IoMode, Switch, SyncMethod, name};
use crate::args::commit::CommitArgs;
use crate::args::common::OutputArgs;
use crate::error::Failure;
use crate::inflight::{CpuDocument, CpuTime};
use crate::output::chart::{Axis, BarChart};
use crate::output::html::Section;
use crate::output::text::{Style, Table};
use crate::output::units;
use crate::target::TargetRequest;

/// A log file of the usual size, written round and round.
const LOG_BYTES: u64 = 64 << 20;

#[derive(Clone, Debug, Serialize)]
pub struct CommitOptions {
    pub threads: Vec<u64>,
    pub record_size_bytes: u64,
    pub methods: Vec<SyncMethod>,
    pub io: Vec<IoMode>,
    pub group_commit: Vec<Switch>,
    #[serde(flatten)]
    pub course: Course,
    #[serde(skip)]
    target: TargetRequest,
}

/// One combination.
#[derive(Clone, Debug, Serialize)]
pub struct CommitRun {
    pub threads: u64,
    pub method: SyncMethod,
    pub io: IoMode,
    pub group_commit: Switch,
    pub record_size_bytes: u64,
    /// Of one commit: append and wait until durable. `operations` are commits.
    #[serde(flatten)]
    pub load: Load,
    /// Durable writes or syncs; fewer than commits when groups form.
    pub syncs: u64,
    pub commits_per_sync: f64,
    #[serde(skip)]
    pub cpu_time: CpuTime,
    pub cpu: CpuDocument,
}

/// What distinguishes one run from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitSetting {
    pub threads: u64,
    pub method: SyncMethod,
    pub io: IoMode,
    pub group_commit: Switch,
}

impl CommitOptions {
    /// Every combination, in the order of the runs.
    pub fn settings(&self) -> Vec<CommitSetting> {
        let mut settings = Vec::new();
        for threads in &self.threads {
            for method in &self.methods {
                for io in &self.io {
                    for group_commit in &self.group_commit {
                        settings.push(CommitSetting {
                            threads: *threads,
                            method: *method,
                            io: *io,
                            group_commit: *group_commit,
                        });
                    }
                }
            }
        }
        settings
    }
}

impl CommitRun {
    pub fn new(
        setting: CommitSetting,
        record_size_bytes: u64,
        load: Load,
        syncs: u64,
        cpu_time: CpuTime,
    ) -> Self {
        Self {
            threads: setting.threads,
            method: setting.method,
            io: setting.io,
            group_commit: setting.group_commit,
            record_size_bytes,
            commits_per_sync: per_sync(load.operations, syncs),
            cpu: cpu_time.document(load.operations, load.bytes),
            load,
            syncs,
            cpu_time,
        }
    }

    fn merge(&mut self, other: Self) {
        self.load.merge(other.load);
        self.syncs += other.syncs;
        self.commits_per_sync = per_sync(self.load.operations, self.syncs);
        self.cpu_time = self.cpu_time.merged(&other.cpu_time);
        self.cpu = self
            .cpu_time
            .document(self.load.operations, self.load.bytes);
    }

    fn label(&self) -> String {
        let group = match self.group_commit {
            Switch::On => ", grouped",
            Switch::Off => "",
        };
        let threads = if self.threads == 1 {
            "thread"
        } else {
            "threads"
        };
        format!(
            "{} {threads}, {}, {}{group}",
            self.threads,
            name(self.method),
            name(self.io)
        )
    }
}

fn per_sync(commits: u64, syncs: u64) -> f64 {
    if syncs == 0 {
        0.0
    } else {
        commits as f64 / syncs as f64
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct CommitOutcome {
    pub runs: Vec<CommitRun>,
}

/// The sub-command.
pub struct Commit;

impl Bench for Commit {
    const NAME: &'static str = "commit";
    const ABOUT: &'static str =
        "Log appends made durable from several threads: the one-row-transaction test";
    const SCHEMA: &'static str = "iolane.bench.commit/1";
    type Arguments = CommitArgs;
    type Options = CommitOptions;
    type Outcome = CommitOutcome;

    fn output(arguments: &CommitArgs) -> &OutputArgs {
        &arguments.output
    }

    fn repeat(arguments: &CommitArgs) -> u64 {
        arguments.course.repeat
    }

    fn options(arguments: CommitArgs) -> Result<CommitOptions, Failure> {
        without_repeats(&arguments.methods, "--methods")?;
        without_repeats(&arguments.io, "--io")?;
        without_repeats(&arguments.group_commit, "--group-commit")?;
        let target = TargetRequest {
            // Records are padded to the device's alignment where it is direct.
            transfer_sizes_bytes: vec![arguments.record_size.next_multiple_of(4096)],
            direct: arguments.io.contains(&IoMode::Direct),
            writes: true,
            ..target_request(&arguments.target, LOG_BYTES)
        };
        Ok(CommitOptions {
            threads: arguments.threads.0,
            record_size_bytes: arguments.record_size,
            methods: arguments.methods,
            io: arguments.io,
            group_commit: arguments.group_commit,
            course: Course::from_args(&arguments.course),
            target,
        })
    }

    fn target(options: &CommitOptions) -> Option<TargetRequest> {
        Some(options.target.clone())
    }
}

impl Outcome for CommitOutcome {
    fn merge(&mut self, other: Self) {
        merge_runs(&mut self.runs, other.runs, CommitRun::merge);
    }

    fn text(&self, style: Style) -> String {
        self.table().render(style)
    }

    fn html(&self) -> Vec<Section> {
        let bars = |value: fn(&CommitRun) -> f64| {
            self.runs
                .iter()
                .map(|run| (run.label(), value(run)))
                .collect()
        };
        vec![
            Section::new("Result").table(self.table()),
            Section::new("Commits per second").chart(
                BarChart {
                    value: Axis::linear("commits per second", units::count),
                    bars: bars(|run| run.load.operations_per_second()),
                }
                .svg(),
            ),
            Section::new("Commit latency, p99").chart(
                BarChart {
                    value: Axis::linear("p99 latency", units::time),
                    bars: bars(|run| run.load.quantile_ns(0.99) as f64),
                }
                .svg(),
            ),
        ]
    }
}

impl CommitOutcome {
    fn table(&self) -> Table {
        let mut table = Table::new(
            3,
            [
                "method",
                "io",
                "group",
                "threads",
                "commits/s",
                "±%",
                "commits/sync",
                "mean",
                "p50",
                "p99",
                "p99.9",
                "max",
                "CPU/commit",
            ],
        );
        for run in &self.runs {
            let time = |quantile| units::time(run.load.quantile_ns(quantile) as f64);
            table.row([
                name(run.method),
                name(run.io),
                name(run.group_commit),
                run.threads.to_string(),
                units::count(run.load.operations_per_second()),
                run.load.spread().map_or_else(String::new, |spread| {
                    format!("{:.1}", spread.operations_per_second.half_width_percent())
                }),
                units::figure(run.commits_per_sync),
                units::time(run.load.latency_ns.mean()),
                time(0.5),
                time(0.99),
                time(0.999),
                units::time(run.load.latency_ns.max() as f64),
                units::time(run.cpu.ns_per_operation),
            ]);
        }
        table.without_empty_columns()
    }
}
