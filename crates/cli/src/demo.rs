//! `iolane demo`: what priorities gain for a table on this machine's disk, in
//! about a minute and in plain words.
//!
//! It measures nothing itself: it is three runs of [`bench store`](store) on
//! one table, with transactions at one rate, shown together. Where a quota of the
//! processors' time stops the machine, its figures would be those of the quota: then
//! all is measured on one processor.

mod render;

use std::path::PathBuf;

use serde::Serialize;

use crate::args::choices::{IoMode, Switch};
use crate::args::common::{CourseArgs, OutputArgs};
use crate::args::demo::DemoArgs;
use crate::args::store_bench::{Beside, Experiment, LoadOrder, StoreBenchArgs, StorePolicy};
use crate::bench::store::{
    self, Setting, StoreBench, StoreBenchOptions, StoreBenchOutcome, StoreRun, TableFacts,
};
use crate::bench::{Bench, Outcome, defaults, merge_runs};
use crate::environment;
use crate::error::Failure;
use crate::output::html::Section;
use crate::output::text::Style;
use crate::output::units;
use crate::session::Session;
use crate::sys::affinity::{OnOne, allowed_processors};
use crate::target::{Target, TargetRequest};

/// Of the most transactions per second without anything beside them: as busy
/// as a database usually is, and so that a processor is left for the rest.
const SHARE_OF_BEST: f64 = 0.4;
/// To find that most.
const BEST_RUNTIME_NS_MAX: u64 = 3_000_000_000;
/// The pool's share of the table.
const POOL_SHARE: u64 = 8;
const POOL_BYTES_MIN: u64 = 2 << 20;
/// Small enough to come to its end a few times in a run.
const LOG_BYTES: u64 = 64 << 20;

/// The three runs, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    Alone,
    Without,
    With,
}

#[derive(Clone, Debug, Serialize)]
pub struct DemoOptions {
    pub store: StoreBenchOptions,
    #[serde(skip)]
    report: Option<PathBuf>,
}

#[derive(Clone, Debug, Serialize)]
pub struct DemoOutcome {
    pub table: TableFacts,
    /// Transactions per second of one that follows the other, with the store
    /// to themselves.
    pub best_per_second: f64,
    /// At which transactions began in the runs.
    pub rate_per_second: f64,
    /// As in [`Case`].
    pub runs: Vec<StoreRun>,
    /// The one on which all was measured, because a quota stopped the machine when
    /// several worked.
    pub only_processor: Option<usize>,
    /// In words. For programs it is in the environment.
    #[serde(skip)]
    pub disk: String,
    /// Something disturbed the measurement; the warnings say what.
    #[serde(skip)]
    pub disturbed: bool,
    /// Where the page with plots goes.
    #[serde(skip)]
    pub report: Option<PathBuf>,
}

impl DemoOutcome {
    fn case(&self, case: Case) -> Option<&StoreRun> {
        self.runs.get(case as usize)
    }
}

/// The command.
pub struct Demo;

impl Bench for Demo {
    const NAME: &'static str = "demo";
    const ABOUT: &'static str =
        "See in about a minute what priorities gain for a table on your disk";
    const SCHEMA: &'static str = "iolane.demo/2";
    type Arguments = DemoArgs;
    type Options = DemoOptions;
    type Outcome = DemoOutcome;

    fn output(arguments: &DemoArgs) -> &OutputArgs {
        &arguments.output
    }

    /// Repetitions are made on one table, in [`measure`].
    fn repeat(_arguments: &DemoArgs) -> u64 {
        1
    }

    fn options(arguments: DemoArgs) -> Result<DemoOptions, Failure> {
        let mut bench: StoreBenchArgs = defaults("oltp")?;
        bench.policy = vec![StorePolicy::Aggressive];
        bench.backend = vec![arguments.backend];
        bench.io = vec![IoMode::Direct];
        bench.beside = vec![Beside::Scan, Beside::Checkpoint];
        bench.table.table_size = arguments.size;
        bench.table.pool_size = (arguments.size / POOL_SHARE).max(POOL_BYTES_MIN);
        bench.table.log_size = LOG_BYTES;
        bench.table.order = LoadOrder::Random;
        bench.directory = arguments.directory;
        bench.course = CourseArgs { ..arguments.course };
        Ok(DemoOptions {
            store: StoreBench::options(bench)?,
            report: arguments.output.report,
        })
    }

    fn target(options: &DemoOptions) -> Option<TargetRequest> {
        StoreBench::target(&options.store)
    }
}

/// The [`Measure`](crate::bench::Measure) of the demo.
///
/// # Errors
/// What cannot be set up, the store's, an interruption.
pub fn measure(
    options: &DemoOptions,
    target: Option<&Target>,
    session: &Session,
) -> Result<DemoOutcome, Failure> {
    let table = store::loaded(&options.store, target, session)?;
    let mut only = None;
    let mut stops = match allowed_processors().len() {
        0 | 1 => Stops::Count,
        _ => Stops::End,
    };
    let compared = loop {
        if let Some(compared) = compare(&table, &options.store, stops, session)? {
            break compared;
        }
        let again = "a quota of the processors' time stops this machine: again, on one of them";
        session.progress.say(again);
        (only, stops) = (OnOne::of_several(), Stops::Count);
    };
    Ok(DemoOutcome {
        table: compared.measured.table,
        best_per_second: compared.best_per_second,
        rate_per_second: compared.rate_per_second,
        runs: compared.measured.runs,
        only_processor: only.as_ref().map(OnOne::processor),
        disturbed: !session.warnings().is_empty(),
        disk: disk_name(target, session),
        report: options.report.clone(),
    })
}

/// What becomes of a comparison in which a quota stops the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stops {
    /// It ends.
    End,
    /// They are in its figures.
    Count,
}

struct Compared {
    best_per_second: f64,
    rate_per_second: f64,
    measured: StoreBenchOutcome,
}

/// The three runs, at a rate that follows from one more. `None` if stops ended it.
fn compare(
    table: &store::Table,
    options: &StoreBenchOptions,
    stops: Stops,
    session: &Session,
) -> Result<Option<Compared>, Failure> {
    let ends = |runs: &[StoreRun]| stops == Stops::End && runs.iter().any(|run| run.gaps.cpu_quota);
    let alone = alone(options)?;
    let mut short = options.clone();
    short.course.repeat = 1;
    short.course.runtime_ns = short.course.runtime_ns.min(BEST_RUNTIME_NS_MAX);
    let best = store::measure_settings(table, &short, std::slice::from_ref(&alone), session)?;
    if ends(&best.runs) {
        return Ok(None);
    }
    let best_per_second = best.runs[0].load.operations_per_second();
    let rate_per_second = (best_per_second * SHARE_OF_BEST).max(1.0);
    let settings = settings(alone, rate_per_second);
    let measured = store::measure_settings(table, options, &settings, session)?;
    Ok((!ends(&measured.runs)).then_some(Compared {
        best_per_second,
        rate_per_second,
        measured,
    }))
}

/// Transactions with the store to themselves, one following the other.
fn alone(options: &StoreBenchOptions) -> Result<Setting, Failure> {
    let first = options.settings().into_iter().next();
    let first = first.ok_or_else(|| Failure::Internal {
        message: "a demo without a setting".to_owned(),
    })?;
    Ok(Setting {
        experiment: Experiment::Oltp,
        priorities: Switch::On,
        beside: Vec::new(),
        ..first
    })
}

/// In the order of [`Case`].
pub fn settings(alone: Setting, rate_per_second: f64) -> [Setting; 3] {
    let rate_per_second = Some(rate_per_second);
    let alone = Setting {
        threads: store::threads_of(alone.experiment, rate_per_second),
        rate_per_second,
        ..alone
    };
    let with = Setting {
        beside: vec![Beside::Scan, Beside::Checkpoint],
        ..alone.clone()
    };
    let without = Setting {
        priorities: Switch::Off,
        ..with.clone()
    };
    [alone, without, with]
}

/// Such as `vda (50 GiB)`, or the directory where the disk has no name.
fn disk_name(target: Option<&Target>, session: &Session) -> String {
    let Some(target) = target else {
        return String::new();
    };
    let Some(name) = target.disk.as_deref() else {
        return format!("the one under {}", target.path.display());
    };
    let device = environment::device(&session.paths, name);
    let facts = [device.model, device.size_bytes.map(units::binary_size)];
    let facts: Vec<String> = facts.into_iter().flatten().collect();
    if facts.is_empty() {
        return name.to_owned();
    }
    format!("{name} ({})", facts.join(", "))
}

impl Outcome for DemoOutcome {
    fn merge(&mut self, other: Self) {
        merge_runs(&mut self.runs, other.runs, StoreRun::merge);
        self.disturbed |= other.disturbed;
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
