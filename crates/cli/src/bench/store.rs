//! `iolane bench store`: a table larger than its pool, worked on under each
//! I/O policy.

mod beside;
mod document;
mod limit;
mod measure;
mod place;
mod quota;
mod ration;
mod render;
mod run;
mod table;
mod timeline;
mod witness;
mod work;

use std::path::PathBuf;

use iolane_sched::Objective;
use iolane_store::{IoPolicy, ScanReadAhead};
use serde::Serialize;

use super::{Bench, Course, Outcome, merge_runs, without_repeats};
use crate::args;
use crate::args::choices::{Backend, IoMode, Switch, name};
use crate::args::common::OutputArgs;
use crate::args::needs::Need;
use crate::args::store_bench::{
    Beside, Experiment, LoadOrder, ReadAhead, StoreBenchArgs, StorePolicy,
};
use crate::error::Failure;
use crate::output::html::Section;
use crate::output::text::Style;
use crate::session::Session;
use crate::target::{Target, TargetRequest};

pub use document::{
    BackgroundRun, Gaps, LedgerRow, RunFigures, Slice, SliceOutstanding, StoreCounts, StoreRun,
};
pub use limit::{DeviceRates, Limit};
pub use measure::{loaded, loaded_in_process, measure, measure_settings};
pub use render::latency_over_time;
pub use table::{Table, TableFacts};

/// Of a commit or of transactions: enough for commits to share syncs.
const THREADS_OF_TRANSACTIONS: u64 = 8;
/// Of a range, if nobody says how many.
const RANGE_ROWS: u64 = 10000;
/// So that transactions that begin at their moments rarely wait for a thread.
const THREADS_AT_A_RATE: u64 = 32;

/// The table and the store around it.
#[derive(Clone, Debug, Serialize)]
pub struct TableOptions {
    pub rows: u64,
    pub row_size_bytes: u64,
    pub order: LoadOrder,
    pub pool_size_bytes: u64,
    pub log_size_bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct StoreBenchOptions {
    pub experiments: Vec<Experiment>,
    pub policies: Vec<StorePolicy>,
    /// Empty: as each policy has it.
    pub priorities: Vec<Switch>,
    /// Beside the learned one.
    pub windows: Vec<u64>,
    /// Of the learned window.
    #[serde(serialize_with = "super::as_text")]
    pub objective: Objective,
    pub read_ahead: Vec<ReadAhead>,
    pub io: Vec<IoMode>,
    pub backends: Vec<Backend>,
    pub beside: Vec<Beside>,
    /// Of each of them, of a processor. `None`: what is left.
    pub beside_cpu_share: Option<f64>,
    /// `None`: one, or several for transactions.
    pub threads: Option<u64>,
    pub rate_per_second: Option<f64>,
    pub range_rows: u64,
    #[serde(flatten)]
    pub table: TableOptions,
    #[serde(flatten)]
    pub course: Course,
    /// The disk, if it is a modelled one.
    pub model: Option<String>,
    #[serde(skip)]
    pub directory: Option<PathBuf>,
}

/// What distinguishes one run from another.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Setting {
    pub experiment: Experiment,
    pub policy: StorePolicy,
    pub priorities: Switch,
    /// `None`: learned, or without bound where there are no priorities.
    pub window: Option<u64>,
    /// Of the learned one; in the options for all runs.
    #[serde(skip)]
    pub objective: Objective,
    /// `None`: as the policy has it.
    pub read_ahead: Option<ReadAhead>,
    pub io: IoMode,
    pub backend: Backend,
    pub beside: Vec<Beside>,
    pub beside_cpu_share: Option<f64>,
    pub threads: u64,
    pub rate_per_second: Option<f64>,
    /// For the progress, instead of what distinguishes it.
    #[serde(skip)]
    pub title: Option<&'static str>,
}

impl Setting {
    /// For the store.
    pub fn io_policy(&self) -> IoPolicy {
        let mut policy = base(self.policy);
        policy.priorities = self.priorities == Switch::On;
        if let Some(read_ahead) = self.read_ahead {
            policy.scan = match read_ahead {
                ReadAhead::Logical => ScanReadAhead::Logical,
                _ => ScanReadAhead::None,
            };
            policy.linear = matches!(read_ahead, ReadAhead::Linear | ReadAhead::Both);
            policy.random = matches!(read_ahead, ReadAhead::Random | ReadAhead::Both);
        }
        policy
    }

    /// What distinguishes it from the others of its experiment.
    pub fn label(&self) -> String {
        let mut label = name(self.policy);
        if let Some(read_ahead) = self.read_ahead {
            label.push_str(&format!(", {} read-ahead", name(read_ahead)));
        }
        if self.io == IoMode::Buffered {
            label.push_str(", buffered");
        }
        if self.backend != Backend::Auto {
            label.push_str(&format!(", {}", name(self.backend)));
        }
        let with = match self.priorities {
            Switch::On => "with",
            Switch::Off => "no",
        };
        label.push_str(&format!(", {with} priorities"));
        if let Some(window) = self.window {
            label.push_str(&format!(", window {window}"));
        }
        label
    }

    /// What else goes on.
    pub fn beside_label(&self) -> String {
        let names: Vec<String> = self.beside.iter().map(|one| name(*one)).collect();
        let names = names.join(" + ");
        match self.beside_cpu_share {
            Some(share) => format!("{names}, {:.0} % of a processor each", 100.0 * share),
            None => names,
        }
    }
}

const fn base(policy: StorePolicy) -> IoPolicy {
    match policy {
        StorePolicy::Conservative => IoPolicy::CONSERVATIVE,
        StorePolicy::Paper => IoPolicy::PAPER,
        StorePolicy::Aggressive => IoPolicy::AGGRESSIVE,
    }
}

impl StoreBenchOptions {
    /// Every combination, in the order of the runs.
    pub fn settings(&self) -> Vec<Setting> {
        let mut settings = Vec::new();
        for &experiment in &self.experiments {
            for &policy in &self.policies {
                for (priorities, window) in self.scheduling_of(policy) {
                    for read_ahead in self.read_ahead_or_none() {
                        for &io in &self.io {
                            for &backend in &self.backends {
                                settings.push(Setting {
                                    experiment,
                                    policy,
                                    priorities,
                                    window,
                                    objective: self.objective,
                                    read_ahead,
                                    io,
                                    backend,
                                    beside: self.beside.clone(),
                                    beside_cpu_share: self.beside_cpu_share,
                                    threads: self
                                        .threads
                                        .unwrap_or(threads_of(experiment, self.rate_per_second)),
                                    rate_per_second: self.rate_per_second,
                                    title: None,
                                });
                            }
                        }
                    }
                }
            }
        }
        settings
    }

    fn has_learned_window(&self) -> bool {
        let settings = self.settings();
        settings
            .iter()
            .any(|one| one.priorities == Switch::On && one.window.is_none())
    }

    fn scheduling_of(&self, policy: StorePolicy) -> Vec<(Switch, Option<u64>)> {
        let mut all = Vec::new();
        for priorities in self.priorities_of(policy) {
            all.push((priorities, None));
            if priorities == Switch::On {
                all.extend(
                    self.windows
                        .iter()
                        .map(|&window| (Switch::On, Some(window))),
                );
            }
        }
        all
    }

    fn priorities_of(&self, policy: StorePolicy) -> Vec<Switch> {
        if !self.priorities.is_empty() {
            return self.priorities.clone();
        }
        match base(policy).priorities {
            true => vec![Switch::On],
            false => vec![Switch::Off],
        }
    }

    fn read_ahead_or_none(&self) -> Vec<Option<ReadAhead>> {
        if self.read_ahead.is_empty() {
            return vec![None];
        }
        self.read_ahead.iter().copied().map(Some).collect()
    }

    /// What the store, its log and a backup take at most.
    pub fn size_bytes_max(&self) -> u64 {
        let copies = 1 + u64::from(self.beside.contains(&Beside::Backup));
        let changes = self.table.size_bytes_about();
        copies * (self.table.size_bytes_about() + self.table.log_size_bytes) + changes / 2
    }

    pub fn target_request(&self) -> TargetRequest {
        TargetRequest {
            file: None,
            directory: self.directory.clone(),
            size_bytes: Some(self.size_bytes_max()),
            default_size_bytes: 0,
            transfer_sizes_bytes: Vec::new(),
            direct: self.io.contains(&IoMode::Direct),
            reads: true,
            writes: true,
            destructive: false,
            named_files: true,
        }
    }
}

/// How many do the measured work if nobody says so.
pub fn threads_of(experiment: Experiment, rate_per_second: Option<f64>) -> u64 {
    match (experiment, rate_per_second) {
        (Experiment::Scan | Experiment::Range | Experiment::Update, _) => 1,
        (Experiment::Commit | Experiment::Oltp, None) => THREADS_OF_TRANSACTIONS,
        (Experiment::Commit | Experiment::Oltp, Some(_)) => THREADS_AT_A_RATE,
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct StoreBenchOutcome {
    pub table: TableFacts,
    /// What the device does without a store; `null` where no experiment is
    /// held against it.
    pub limit: Option<Limit>,
    pub runs: Vec<StoreRun>,
}

/// The sub-command.
pub struct StoreBench;

impl Bench for StoreBench {
    const NAME: &'static str = "store";
    const ABOUT: &'static str =
        "A table larger than its pool, scanned, changed and queried under each I/O policy";
    const SCHEMA: &'static str = "iolane.bench.store/1";
    type Arguments = StoreBenchArgs;
    type Options = StoreBenchOptions;
    type Outcome = StoreBenchOutcome;
    const NEEDS: &'static [Need] = args::store_bench::NEEDS;

    fn output(arguments: &StoreBenchArgs) -> &OutputArgs {
        &arguments.output
    }

    /// The table is loaded once, so repetitions are made in
    /// [`measure`](measure::measure).
    fn repeat(_arguments: &StoreBenchArgs) -> u64 {
        1
    }

    fn options(arguments: StoreBenchArgs) -> Result<StoreBenchOptions, Failure> {
        without_repeats(&arguments.experiments, "the list of experiments")?;
        without_repeats(&arguments.policy, "--policy")?;
        without_repeats(&arguments.priorities, "--priorities")?;
        without_repeats(&arguments.read_ahead, "--read-ahead")?;
        without_repeats(&arguments.io, "--io")?;
        without_repeats(&arguments.backend, "--backend")?;
        without_repeats(&arguments.beside, "--beside")?;
        let open = [Experiment::Commit, Experiment::Oltp];
        let all_open = arguments.experiments.iter().all(|one| open.contains(one));
        if arguments.rate.is_some() && !all_open {
            return Err(Failure::usage(
                "--rate is for transactions: a scan, a range and an update go as fast as they can",
                "Name only commit and oltp, or leave out --rate.",
            ));
        }
        if arguments.range_rows.is_some() && !arguments.experiments.contains(&Experiment::Range) {
            return Err(Failure::usage(
                "--range-rows is for the experiment range: the others read all rows, or one",
                "Name range, or leave out --range-rows.",
            ));
        }
        let mut table = TableOptions {
            rows: 0,
            row_size_bytes: arguments.table.row_size,
            order: arguments.table.order,
            pool_size_bytes: arguments.table.pool_size,
            log_size_bytes: arguments.table.log_size,
        };
        let fitting = table.rows_of(arguments.table.table_size);
        table.rows = arguments.table.rows.unwrap_or(fitting);
        let options = StoreBenchOptions {
            experiments: arguments.experiments,
            policies: arguments.policy,
            priorities: arguments.priorities,
            windows: arguments.windows.map(|list| list.0).unwrap_or_default(),
            objective: arguments.objective.unwrap_or_default(),
            read_ahead: arguments.read_ahead,
            io: arguments.io,
            backends: arguments.backend,
            beside: arguments.beside,
            beside_cpu_share: arguments.beside_cpu,
            threads: arguments.threads,
            rate_per_second: arguments.rate,
            range_rows: arguments.range_rows.unwrap_or(RANGE_ROWS),
            table,
            course: Course::from_args(&arguments.course),
            model: arguments.model,
            directory: arguments.directory,
        };
        if arguments.objective.is_some() && !options.has_learned_window() {
            return Err(Failure::usage(
                "--objective is for runs with priorities, and there are none",
                "Give --priorities on, or --policy aggressive.",
            ));
        }
        Ok(options)
    }

    fn target(options: &StoreBenchOptions) -> Option<TargetRequest> {
        Some(options.target_request())
    }

    fn check(
        options: &mut StoreBenchOptions,
        _target: Option<&Target>,
        session: &Session,
    ) -> Result<(), Failure> {
        let table = &options.table;
        if table.size_bytes_about() < 4 * table.pool_size_bytes {
            session.warn(
                "the table is less than four times the pool: much of it may be found in memory",
            );
        }
        Ok(())
    }
}

impl Outcome for StoreBenchOutcome {
    fn merge(&mut self, other: Self) {
        merge_runs(&mut self.runs, other.runs, StoreRun::merge);
    }

    fn text(&self, style: Style) -> String {
        render::text(self, style)
    }

    fn html(&self) -> Vec<Section> {
        render::html(self)
    }
}

#[cfg(test)]
mod tests;
