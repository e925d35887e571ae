//! `iolane bench regret`: random loads under `lanes`, beside every fixed
//! window.

mod document;
mod measure;
mod real;
mod render;

pub use document::{LoadResult, ModelSummary, RegretOutcome, RunDocument, Summary};
pub use measure::measure;

use std::time::Duration;

use iolane_disk::regret::Subject;
use serde::Serialize;

use super::load::nanoseconds;
use super::{Bench, Outcome, target_request};
use crate::args::common::OutputArgs;
use crate::args::regret::RegretArgs;
use crate::error::Failure;
use crate::output::html::Section;
use crate::output::text::Style;
use crate::target::TargetRequest;

/// Apart from each other enough that no two seeds share a load.
const LOADS_PER_SEED: u64 = 1_000_000;

/// Of a scratch file.
const SCRATCH_BYTES: u64 = 2 << 30;
/// The largest operation of a load.
const TRANSFER_BYTES_MAX: u64 = 4 << 20;
/// Of a run on a real disk: what a window takes to be learned, and some thousand
/// operations.
const WARM_UP: Duration = Duration::from_millis(1500);
const RUNTIME: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Serialize)]
pub struct RegretOptions {
    pub models: Vec<String>,
    pub load_seeds: Vec<u64>,
    pub verbose: bool,
    /// The best fixed window is judged in place of `lanes`.
    pub hindsight: bool,
    /// Of each load on a real disk; 1 in virtual time, which repeats exactly.
    pub repeat: u64,
    /// On a real disk, of each run; in virtual time the load decides.
    pub warm_up_ns: u64,
    pub runtime_ns: u64,
    #[serde(skip)]
    pub subjects: Vec<Subject>,
    /// The real disk, as on the command line.
    #[serde(skip)]
    pub target: Option<String>,
    #[serde(skip)]
    request: Option<TargetRequest>,
}

/// The sub-command.
pub struct Regret;

impl Bench for Regret {
    const NAME: &'static str = "regret";
    const ABOUT: &'static str =
        "Random loads under lanes: what it gives away against the best fixed window";
    const SCHEMA: &'static str = "iolane.bench.regret/1";
    type Arguments = RegretArgs;
    type Options = RegretOptions;
    type Outcome = RegretOutcome;

    fn output(arguments: &RegretArgs) -> &OutputArgs {
        &arguments.output
    }

    /// Repetitions of a load are measured in turn, not of all loads.
    fn repeat(_arguments: &RegretArgs) -> u64 {
        1
    }

    fn options(arguments: RegretArgs) -> Result<RegretOptions, Failure> {
        let target = arguments.target();
        let real = target.is_some();
        if real && arguments.models.is_some() {
            return Err(Failure::usage(
                "--models are simulated, --file and --directory are real disks",
                "Give the one or the other.",
            ));
        }
        if real && arguments.hindsight {
            return Err(Failure::usage(
                "--hindsight draws the chance of a modelled disk anew; a real one has its own",
                "Leave it out: with --repeat 2 or more the best fixed window is measured again.",
            ));
        }
        let course = [
            arguments.repeat.is_some(),
            arguments.warm_up.is_some(),
            arguments.runtime.is_some(),
            arguments.size.is_some(),
            arguments.destructive,
        ];
        if !real && course.contains(&true) {
            return Err(Failure::usage(
                "--repeat, --warm-up, --runtime, --size and --destructive are for real disks",
                "Name one with --file or --directory, or leave them out.",
            ));
        }
        let subjects = match real {
            true => Vec::new(),
            false => subjects(arguments.models.as_deref().unwrap_or(&["all".to_owned()]))?,
        };
        let request = target.map(|target| TargetRequest {
            transfer_sizes_bytes: vec![TRANSFER_BYTES_MAX],
            direct: true,
            reads: true,
            writes: true,
            ..target_request(&target, SCRATCH_BYTES)
        });
        Ok(RegretOptions {
            models: subjects.iter().map(|one| one.name.clone()).collect(),
            load_seeds: match arguments.load_seed {
                Some(seed) => vec![seed],
                None => (0..arguments.loads)
                    .map(|index| {
                        let first = arguments.seed.wrapping_mul(LOADS_PER_SEED);
                        first.wrapping_add(index)
                    })
                    .collect(),
            },
            target: real.then(|| words(&arguments)),
            repeat: arguments.repeat.unwrap_or(1),
            warm_up_ns: nanoseconds(arguments.warm_up.unwrap_or(WARM_UP)),
            runtime_ns: nanoseconds(arguments.runtime.unwrap_or(RUNTIME)),
            request,
            verbose: arguments.verbose,
            hindsight: arguments.hindsight,
            subjects,
        })
    }

    fn target(options: &RegretOptions) -> Option<TargetRequest> {
        options.request.clone()
    }
}

/// The options that name a real disk and how it is measured, as typed.
fn words(arguments: &RegretArgs) -> String {
    let path =
        |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let millis = |time: Option<Duration>| time.map(|time| format!("{}ms", time.as_millis()));
    let valued = [
        ("file", path(&arguments.file)),
        ("directory", path(&arguments.directory)),
        ("size", arguments.size.map(|bytes| bytes.to_string())),
        ("warm-up", millis(arguments.warm_up)),
        ("runtime", millis(arguments.runtime)),
        ("repeat", arguments.repeat.map(|count| count.to_string())),
    ];
    let mut words: Vec<String> = valued
        .into_iter()
        .filter_map(|(name, value)| Some(format!("--{name} {}", value?)))
        .collect();
    if arguments.destructive {
        words.push("--destructive".to_owned());
    }
    words.join(" ")
}

fn subjects(names: &[String]) -> Result<Vec<Subject>, Failure> {
    let mut chosen: Vec<Subject> = Vec::new();
    for name in names {
        let found = match name.as_str() {
            "all" => Subject::all(),
            name => vec![Subject::find(name).ok_or_else(|| {
                Failure::usage(
                    format!("--models: there is no modelled disk '{name}'"),
                    "See iolane disk list; --models all takes every one.",
                )
            })?],
        };
        for subject in found {
            if !chosen.contains(&subject) {
                chosen.push(subject);
            }
        }
    }
    Ok(chosen)
}

impl Outcome for RegretOutcome {
    fn merge(&mut self, other: Self) {
        self.loads.extend(other.loads);
    }

    fn text(&self, style: Style) -> String {
        render::text(self, style)
    }

    fn html(&self) -> Vec<Section> {
        render::html(self)
    }
}
