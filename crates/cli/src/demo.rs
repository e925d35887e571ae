//! `iolane demo`: what priorities gain for a table, on this machine's disk and on a cloud
//! volume, in a minute and a half and in plain words.
//!
//! First, where MariaDB is installed, a scratch server (`demo/server`). For the rest it measures
//! nothing itself: it is three runs of [`bench store`](store) on a table on the
//! disk, and three on one on a modelled volume in the memory of this process, with
//! transactions at one rate each, shown together. Where a quota of the processors' time stops
//! the machine, its figures would be those of the quota: then all is measured on one
//! processor.

mod compare;
mod render;
mod server;

use std::path::PathBuf;

use serde::Serialize;

use crate::args::choices::{DemoServer, IoMode};
use crate::args::common::OutputArgs;
use crate::args::demo::DemoArgs;
use crate::args::store_bench::{Beside, LoadOrder, StoreBenchArgs, StorePolicy};
use crate::bench::store::{self, Setting, StoreBench, StoreBenchOptions, StoreRun, TableFacts};
use crate::bench::{Bench, Outcome, defaults, merge_runs};
use crate::environment;
use crate::error::Failure;
use crate::output::html::Section;
use crate::output::text::Style;
use crate::output::units;
use crate::session::{Cause, Session};
use crate::sys::affinity::{OnOne, allowed_processors};
use crate::target::{Target, TargetRequest};

pub use compare::{Case, settings};
use compare::{Stops, alone, measured};
pub use server::ServerOutcome;

/// Of the most transactions per second without anything beside them: as busy
/// as a database usually is, and so that a processor is left for the rest.
const SHARE_OF_BEST: f64 = 0.4;
/// To find that most.
const BEST_RUNTIME_NS_MAX: u64 = 3_000_000_000;
/// The pool's share of the table.
const POOL_SHARE: u64 = 8;
const POOL_BYTES_MIN: u64 = 2 << 20;
/// Small enough to come to its end a few times in a run on a disk.
const LOG_BYTES: u64 = 64 << 20;
/// What goes on beside transactions on the disk.
const BESIDE: [Beside; 2] = [Beside::Scan, Beside::Checkpoint];

/// The volume that most databases in a cloud begin on: 3000 requests and 131 MB a second.
const MODEL: &str = "aws-gp3";
/// A third of what it can do, with as many reads and commits.
const VOLUME_RATE_PER_SECOND: f64 = 1000.0;
const VOLUME_BESIDE: [Beside; 3] = [Beside::Scan, Beside::Checkpoint, Beside::Backup];

/// Of a quick demo.
const QUICK_TABLE_BYTES: u64 = 32 << 20;
const QUICK_RUNTIME_NS: u64 = 1_500_000_000;
const QUICK_WARM_UP_NS: u64 = 500_000_000;

const OWN_TITLES: [&str; 3] = [
    "your disk: transactions alone",
    "your disk: without priorities",
    "your disk: with iolane",
];
const VOLUME_TITLES: [&str; 3] = [
    "cloud volume: transactions alone",
    "cloud volume: without priorities",
    "cloud volume: with iolane",
];

#[derive(Clone, Debug, Serialize)]
pub struct DemoOptions {
    pub store: StoreBenchOptions,
    /// On the modelled volume.
    pub volume: StoreBenchOptions,
    /// Which database server is shown, too.
    pub server: DemoServer,
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
    pub volume: VolumeOutcome,
    /// A database server that is installed, if one was shown.
    pub server: Option<ServerOutcome>,
    /// In words. For programs it is in the environment.
    #[serde(skip)]
    pub disk: String,
    /// Something disturbed the measurement.
    #[serde(skip)]
    pub disturbed: bool,
    /// Where the page with plots goes.
    #[serde(skip)]
    pub report: Option<PathBuf>,
}

/// The same on the modelled volume.
#[derive(Clone, Debug, Serialize)]
pub struct VolumeOutcome {
    pub model: &'static str,
    pub table: TableFacts,
    pub rate_per_second: f64,
    /// As in [`Case`].
    pub runs: Vec<StoreRun>,
}

/// The command.
pub struct Demo;

impl Bench for Demo {
    const NAME: &'static str = "demo";
    const ABOUT: &'static str = "Show in 90 seconds what priorities gain: for MariaDB where it is installed, for transactions on your disk and on a cloud volume";
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
        let size = match arguments.quick {
            true => QUICK_TABLE_BYTES,
            false => arguments.size,
        };
        let mut bench: StoreBenchArgs = defaults("oltp")?;
        bench.policy = vec![StorePolicy::Aggressive];
        bench.backend = vec![arguments.backend];
        bench.io = vec![IoMode::Direct];
        bench.beside = BESIDE.to_vec();
        bench.table.table_size = size;
        bench.table.pool_size = (size / POOL_SHARE).max(POOL_BYTES_MIN);
        bench.table.log_size = LOG_BYTES;
        bench.table.order = LoadOrder::Random;
        bench.course = arguments.course;
        bench.objective = arguments.objective;
        let mut on_volume = bench.clone();
        on_volume.beside = VOLUME_BESIDE.to_vec();
        on_volume.rate = Some(VOLUME_RATE_PER_SECOND);
        on_volume.model = Some(MODEL.to_owned());
        bench.directory = arguments.directory;
        let [mut store, mut volume] =
            [StoreBench::options(bench)?, StoreBench::options(on_volume)?];
        if arguments.quick {
            for course in [&mut store.course, &mut volume.course] {
                course.runtime_ns = QUICK_RUNTIME_NS;
                course.warm_up_ns = QUICK_WARM_UP_NS;
            }
        }
        Ok(DemoOptions {
            store,
            volume,
            // Its installation alone takes longer than a quick demo.
            server: match (arguments.quick, arguments.server) {
                (true, DemoServer::Auto) => DemoServer::None,
                (_, server) => server,
            },
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
    let gathering = session.gathering();
    let server = on_server(options, target, session)?;
    let table = store::loaded(&options.store, target, &gathering)?;
    let mut only = None;
    let mut stops = match allowed_processors().len() {
        0 | 1 => Stops::Count,
        _ => Stops::End,
    };
    let own = loop {
        if let Some(own) = on_disk(&table, &options.store, stops, &gathering)? {
            break own;
        }
        let again = "a quota of the processors' time stops this machine: again, on one of them";
        session.progress.say(again);
        (only, stops) = (OnOne::of_several(), Stops::Count);
    };
    let facts = table.facts.clone();
    // Its memory and its files.
    drop(table);
    let volume = on_volume(&options.volume, &gathering)?;
    Ok(DemoOutcome {
        table: facts,
        best_per_second: own.best_per_second,
        rate_per_second: own.rate_per_second,
        runs: own.runs,
        only_processor: only.as_ref().map(OnOne::processor),
        volume,
        server,
        disturbed: told(&gathering, session),
        disk: disk_name(target, session),
        report: options.report.clone(),
    })
}

/// Tells of what the reader can do something about, once. Whether anything disturbed the
/// measurement.
fn told(gathering: &Session, session: &Session) -> bool {
    let gathered = gathering.gathered();
    if gathered.iter().any(|one| one.cause == Cause::Programs) {
        session.warn(
            "other programs kept the processors busy meanwhile: run it again on a quiet machine",
        );
    }
    for warning in gathered.iter().filter(|one| one.cause == Cause::Other) {
        session.warn(warning.message.clone());
    }
    !gathered.is_empty()
}

fn on_server(
    options: &DemoOptions,
    target: Option<&Target>,
    session: &Session,
) -> Result<Option<ServerOutcome>, Failure> {
    let course = &options.store.course;
    let [runtime, warm_up] =
        [course.runtime_ns, course.warm_up_ns].map(std::time::Duration::from_nanos);
    server::measure(options.server, runtime, warm_up, target, session)
}

struct OnDisk {
    best_per_second: f64,
    rate_per_second: f64,
    runs: Vec<StoreRun>,
}

/// The three runs, at a rate that follows from one more. `None` if stops ended it.
fn on_disk(
    table: &store::Table,
    options: &StoreBenchOptions,
    stops: Stops,
    session: &Session,
) -> Result<Option<OnDisk>, Failure> {
    let alone = alone(options)?;
    let best = Setting {
        title: Some("your disk: how fast it is"),
        ..alone.clone()
    };
    let mut short = options.clone();
    short.course.repeat = 1;
    short.course.runtime_ns = short.course.runtime_ns.min(BEST_RUNTIME_NS_MAX);
    let Some(best) = measured(table, &short, &[best], stops, session)? else {
        return Ok(None);
    };
    let best_per_second = best[0].load.operations_per_second();
    let rate_per_second = (best_per_second * SHARE_OF_BEST).max(1.0);
    let settings = settings(alone, rate_per_second, &BESIDE, OWN_TITLES);
    let runs = measured(table, options, &settings, stops, session)?;
    Ok(runs.map(|runs| OnDisk {
        best_per_second,
        rate_per_second,
        runs,
    }))
}

fn on_volume(options: &StoreBenchOptions, session: &Session) -> Result<VolumeOutcome, Failure> {
    let table = store::loaded_in_process(options, MODEL, session)?;
    let alone = alone(options)?;
    let settings = settings(alone, VOLUME_RATE_PER_SECOND, &VOLUME_BESIDE, VOLUME_TITLES);
    let runs = measured(&table, options, &settings, Stops::Count, session)?;
    Ok(VolumeOutcome {
        model: MODEL,
        table: table.facts.clone(),
        rate_per_second: VOLUME_RATE_PER_SECOND,
        runs: runs.unwrap_or_default(),
    })
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
        merge_runs(&mut self.volume.runs, other.volume.runs, StoreRun::merge);
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
