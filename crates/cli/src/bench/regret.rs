//! `iolane bench regret`: random loads under `lanes`, beside every fixed
//! window.

mod document;
mod measure;
mod render;

pub use document::{LoadResult, ModelSummary, RegretOutcome};
pub use measure::measure;

use iolane_disk::regret::Subject;
use serde::Serialize;

use super::{Bench, Outcome};
use crate::args::common::OutputArgs;
use crate::args::regret::RegretArgs;
use crate::error::Failure;
use crate::output::html::Section;
use crate::output::text::Style;
use crate::target::TargetRequest;

/// Apart from each other enough that no two seeds share a load.
const LOADS_PER_SEED: u64 = 1_000_000;

#[derive(Clone, Debug, Serialize)]
pub struct RegretOptions {
    pub models: Vec<String>,
    pub load_seeds: Vec<u64>,
    pub verbose: bool,
    #[serde(skip)]
    pub subjects: Vec<Subject>,
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

    /// Virtual time: a repetition would give the same.
    fn repeat(_arguments: &RegretArgs) -> u64 {
        1
    }

    fn options(arguments: RegretArgs) -> Result<RegretOptions, Failure> {
        let subjects = subjects(&arguments.models)?;
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
            verbose: arguments.verbose,
            subjects,
        })
    }

    fn target(_options: &RegretOptions) -> Option<TargetRequest> {
        None
    }
}

fn subjects(names: &[String]) -> Result<Vec<Subject>, Failure> {
    let mut chosen: Vec<Subject> = Vec::new();
    for name in names {
        let found = match name.as_str() {
            "all" => Subject::all(),
            name => vec![Subject::find(name).ok_or_else(|| {
                Failure::usage(
                    format!("there is no modelled disk '{name}'"),
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
