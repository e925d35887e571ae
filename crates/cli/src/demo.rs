//! `iolane demo`: what priorities gain on this machine's disk, in a minute and
//! in plain words.
//!
//! It measures nothing itself: it is a short [`sweep`] and a [`mix`] with
//! defaults for this purpose, shown together.

mod render;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Command};
use serde::Serialize;

use crate::args::choices::Policy;
use crate::args::common::{CourseArgs, OutputArgs};
use crate::args::demo::DemoArgs;
use crate::args::list::List;
use crate::args::mix::MixArgs;
use crate::args::sweep::SweepArgs;
use crate::bench::mix::{self, Mix, MixOptions, MixOutcome, MixRun};
use crate::bench::sweep::{self, Sweep, SweepOptions, SweepOutcome, SweepRun};
use crate::bench::{Bench, Outcome};
use crate::environment;
use crate::error::Failure;
use crate::output::html::Section;
use crate::output::text::Style;
use crate::output::units;
use crate::session::Session;
use crate::target::{Target, TargetRequest};

/// Enough to see where a disk is full; the first is a query alone.
const DEPTHS: [u64; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
/// Per depth. A sweep compares large differences; the mix compares tails.
const SWEEP_RUNTIME_MAX: Duration = Duration::from_secs(1);
const SWEEP_WARM_UP_MAX: Duration = Duration::from_millis(250);

/// Both parts, as if they had been typed.
#[derive(Clone, Debug, Serialize)]
pub struct DemoOptions {
    pub sweep: SweepOptions,
    pub mix: MixOptions,
    #[serde(skip)]
    report: Option<PathBuf>,
}

#[derive(Clone, Debug, Serialize)]
pub struct DemoOutcome {
    pub sweep: SweepOutcome,
    pub mix: MixOutcome,
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
    /// A query's reads with the disk to itself.
    fn alone(&self) -> Option<&SweepRun> {
        self.sweep.runs.iter().find(|run| run.depth == 1)
    }

    fn beside(&self, policy: &str) -> Option<&MixRun> {
        self.mix.runs.iter().find(|run| run.policy == policy)
    }
}

/// The command.
pub struct Demo;

impl Bench for Demo {
    const NAME: &'static str = "demo";
    const ABOUT: &'static str =
        "See in a minute what your disk can do, and what priorities gain on it";
    const SCHEMA: &'static str = "iolane.demo/1";
    type Arguments = DemoArgs;
    type Options = DemoOptions;
    type Outcome = DemoOutcome;

    fn output(arguments: &DemoArgs) -> &OutputArgs {
        &arguments.output
    }

    fn repeat(arguments: &DemoArgs) -> u64 {
        arguments.course.repeat
    }

    fn options(arguments: DemoArgs) -> Result<DemoOptions, Failure> {
        let mut sweep: SweepArgs = defaults()?;
        sweep.depths = List(DEPTHS.to_vec());
        sweep.io = arguments.io;
        sweep.backend = arguments.backend;
        sweep.target.directory.clone_from(&arguments.directory);
        sweep.target.size = arguments.size;
        sweep.course = CourseArgs {
            runtime: arguments.course.runtime.min(SWEEP_RUNTIME_MAX),
            warm_up: arguments.course.warm_up.min(SWEEP_WARM_UP_MAX),
            ..arguments.course
        };
        let mut mix: MixArgs = defaults()?;
        mix.policies = vec![Policy::Noop, Policy::Lanes];
        mix.io = arguments.io;
        mix.backend = arguments.backend;
        mix.target = sweep.target.clone();
        mix.course = arguments.course;
        Ok(DemoOptions {
            sweep: Sweep::options(sweep)?,
            mix: Mix::options(mix)?,
            report: arguments.output.report,
        })
    }

    /// One scratch file for both: the same reads of the same size.
    fn target(options: &DemoOptions) -> Option<TargetRequest> {
        Mix::target(&options.mix)
    }
}

/// What a sub-command does when nothing is typed behind it.
fn defaults<A: Args>() -> Result<A, Failure> {
    let command = A::augment_args(Command::new("defaults").no_binary_name(true));
    command
        .try_get_matches_from([""; 0])
        .and_then(|matches| A::from_arg_matches(&matches))
        .map_err(|error| Failure::Internal {
            message: format!("a sub-command without its defaults: {error}"),
        })
}

/// The [`Measure`](crate::bench::Measure) of the demo.
///
/// # Errors
/// What cannot be set up, a request that failed, an interruption.
pub fn measure(
    options: &DemoOptions,
    target: Option<&Target>,
    session: &Session,
) -> Result<DemoOutcome, Failure> {
    let sweep = sweep::measure(&options.sweep, target, session)?;
    let mix = mix::measure(&options.mix, target, session)?;
    Ok(DemoOutcome {
        sweep,
        mix,
        disturbed: !session.warnings().is_empty(),
        disk: disk_name(target, session),
        report: options.report.clone(),
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
        self.sweep.merge(other.sweep);
        self.mix.merge(other.mix);
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
