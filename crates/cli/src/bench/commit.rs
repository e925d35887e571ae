//! `iolane bench commit`: appends to a log, each made durable before the next.

mod file;
mod log;
mod measure;
mod record;

use serde::Serialize;

use super::load::Load;
use super::transfers::{Heading, TransferBench, Transfers};
use super::{Course, Outcome, merge_runs, without_repeats};
use crate::args::choices::{IoMode, Operation, Switch, SyncMethod, name};
use crate::args::commit::CommitArgs;
use crate::args::common::TransferArgs;
use crate::error::Failure;
use crate::inflight::{CpuDocument, CpuTime};
use crate::output::chart::{Axis, BarChart};
use crate::output::html::Section;
use crate::output::text::{Style, Table};
use crate::output::units;
use crate::session::Session;
use crate::target::{Target, TargetRequest};

pub use measure::measure;

/// Largest block that the log is written in: a page of the page cache, or a
/// sector of the disks of today.
const BLOCK_BYTES_MAX: u64 = 4096;

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
        format!("{}, {}", threads_text(self.threads), self.method_label())
    }

    fn method_label(&self) -> String {
        let group = match self.group_commit {
            Switch::On => ", grouped",
            Switch::Off => "",
        };
        format!("{}, {}{group}", name(self.method), name(self.io))
    }
}

fn threads_text(threads: u64) -> String {
    match threads {
        1 => "1 thread".to_owned(),
        _ => format!("{threads} threads"),
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

impl TransferBench for Commit {
    const HEADING: Heading = Heading {
        name: "commit",
        about: "Log appends made durable from several threads: the one-row-transaction test",
        schema: "iolane.bench.commit/1",
    };
    type Arguments = CommitArgs;
    type Options = CommitOptions;
    type Outcome = CommitOutcome;

    fn shared(arguments: &CommitArgs) -> &TransferArgs {
        &arguments.shared
    }

    fn transfers(arguments: &CommitArgs) -> Transfers {
        Transfers {
            sizes_bytes: vec![BLOCK_BYTES_MAX],
            operations: vec![Operation::Write],
            io: arguments.io.clone(),
            scratch_bytes: LOG_BYTES,
        }
    }

    fn options(
        arguments: CommitArgs,
        course: Course,
        target: TargetRequest,
    ) -> Result<CommitOptions, Failure> {
        without_repeats(&arguments.methods, "--methods")?;
        without_repeats(&arguments.io, "--io")?;
        without_repeats(&arguments.group_commit, "--group-commit")?;
        Ok(CommitOptions {
            threads: arguments.threads.0,
            record_size_bytes: arguments.record_size,
            methods: arguments.methods,
            io: arguments.io,
            group_commit: arguments.group_commit,
            course,
            target,
        })
    }

    fn request(options: &CommitOptions) -> &TargetRequest {
        &options.target
    }

    fn check(
        options: &mut CommitOptions,
        target: Option<&Target>,
        _session: &Session,
    ) -> Result<(), Failure> {
        let record = options.record_size_bytes as usize;
        let needed = log::capacity_bytes_min(record, BLOCK_BYTES_MAX as usize)
            .next_multiple_of(BLOCK_BYTES_MAX);
        match target {
            Some(target) if target.size_bytes < needed => Err(Failure::usage(
                format!(
                    "a log of {} is too small for records of {}",
                    units::binary_size(target.size_bytes),
                    units::binary_size(options.record_size_bytes)
                ),
                format!(
                    "Give a smaller --record-size, or a --size of at least {}.",
                    units::binary_size(needed.next_multiple_of(1 << 20))
                ),
            )),
            _ => Ok(()),
        }
    }
}

impl Outcome for CommitOutcome {
    fn merge(&mut self, other: Self) {
        merge_runs(&mut self.runs, other.runs, CommitRun::merge);
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
        let mut threads: Vec<u64> = self.runs.iter().map(|run| run.threads).collect();
        threads.dedup();
        for threads in threads {
            sections.extend(self.charts(threads));
        }
        sections
    }
}

impl CommitOutcome {
    /// Of one number of threads. What is not durable stands apart: beside it,
    /// nothing else could be told from nothing.
    fn charts(&self, threads: u64) -> Vec<Section> {
        let who = threads_text(threads);
        let bars = |durable: bool, value: fn(&CommitRun) -> f64| -> Vec<(String, f64)> {
            let runs = self.runs.iter().filter(|run| run.threads == threads);
            runs.filter(|run| (run.method != SyncMethod::None) == durable)
                .map(|run| (run.method_label(), value(run)))
                .collect()
        };
        let rate: fn(&CommitRun) -> f64 = |run| run.load.operations_per_second();
        let p99: fn(&CommitRun) -> f64 = |run| run.load.quantile_ns(0.99) as f64;
        let per_second = || Axis::linear("commits per second", units::count);
        let charts = [
            (
                format!("Durable commits, {who}"),
                per_second(),
                bars(true, rate),
            ),
            (
                format!("Latency of durable commits, {who}"),
                Axis::linear("p99 latency", units::time),
                bars(true, p99),
            ),
            (
                format!("Commits without a sync, {who}"),
                per_second(),
                bars(false, rate),
            ),
        ];
        charts
            .into_iter()
            .filter(|(_, _, bars)| !bars.is_empty())
            .map(|(title, value, bars)| Section::new(title).chart(BarChart { value, bars }.svg()))
            .collect()
    }

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
                run.load.spread_cell(),
                if run.method == SyncMethod::None {
                    "no sync".to_owned()
                } else {
                    units::figure(run.commits_per_sync)
                },
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

    /// What group commit gains, and what durability costs, with the most
    /// threads.
    fn sentences(&self) -> Vec<String> {
        let threads = self.runs.iter().map(|run| run.threads).max().unwrap_or(0);
        let most = || self.runs.iter().filter(move |run| run.threads == threads);
        let rate = |run: &CommitRun| run.load.operations_per_second();
        let best = |runs: &mut dyn Iterator<Item = &CommitRun>| {
            runs.map(|run| (rate(run), run.label()))
                .max_by(|a, b| a.0.total_cmp(&b.0))
        };
        let durable = |run: &&CommitRun| run.method != SyncMethod::None;
        let mut sentences = Vec::new();
        if let Some((commits, label)) = best(&mut most().filter(durable)) {
            sentences.push(format!(
                "Most durable commits: {} per second ({label}).",
                units::count(commits)
            ));
            if let Some((without, _)) = best(&mut most().filter(|run| !durable(run))) {
                sentences.push(format!(
                    "Without a sync (innodb_flush_log_at_trx_commit=2): {} per second.",
                    units::count(without)
                ));
            }
        }
        for run in most().filter(durable) {
            let same = |other: &&CommitRun| {
                other.group_commit == Switch::Off
                    && (other.method, other.io) == (run.method, run.io)
            };
            if let (Switch::On, Some(alone)) = (run.group_commit, most().find(same))
                && threads > 1
                && rate(alone) > 0.0
            {
                sentences.push(format!(
                    "Group commit, {}, {}: {} commits share a sync, {} times the commits of one sync each.",
                    name(run.method),
                    name(run.io),
                    units::figure(run.commits_per_sync),
                    units::figure(rate(run) / rate(alone))
                ));
            }
        }
        sentences
    }
}
