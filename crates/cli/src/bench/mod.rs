//! `iolane bench`: the contract between a sub-command's options, the code that
//! measures, and the documents that come out.
//!
//! ```text
//! Arguments (clap) -> Options (checked) -> measure() -> Outcome -> text, JSON, HTML
//!                        |-> TargetRequest -> Target --^
//! ```
//!
//! A sub-command implements [`Bench`] and its result [`Outcome`]. What measures
//! is one function of the type [`Measure`], put together with the sub-command
//! by [`crate::app::bench`]. It measures everything once; `--repeat`, the
//! environment, the documents and every failure's exit code are the frame's.

pub mod batch;
pub mod commit;
pub mod hugepages;
pub mod knee;
pub mod load;
pub mod mix;
pub mod regret;
pub mod spread;
pub mod store;
pub mod sweep;
mod through_engine;
mod transfers;

use std::time::Duration;

use clap::Args;
use serde::Serialize;

use crate::args::common::{CourseArgs, OutputArgs, TargetArgs};
use crate::args::needs::Need;
use crate::error::Failure;
use crate::output::html::Section;
use crate::output::text::Style;
use crate::session::Session;
use crate::target::{Target, TargetRequest};
use crate::workload::Times;

/// One sub-command.
pub trait Bench: 'static {
    const NAME: &'static str;
    /// One line for the list of sub-commands.
    const ABOUT: &'static str;
    /// Name and version of the JSON document.
    const SCHEMA: &'static str;
    type Arguments: Args;
    type Options: Serialize;
    type Outcome: Outcome;
    /// Options that mean something beside another only.
    const NEEDS: &'static [Need] = &[];

    fn output(arguments: &Self::Arguments) -> &OutputArgs;

    /// How many times everything is measured.
    fn repeat(arguments: &Self::Arguments) -> u64;

    /// Checks what clap cannot.
    ///
    /// # Errors
    /// Options that contradict each other.
    fn options(arguments: Self::Arguments) -> Result<Self::Options, Failure>;

    /// What is measured on; nothing for what touches no disk.
    fn target(options: &Self::Options) -> Option<TargetRequest>;

    /// Checks what depends on the machine and the target, before anything runs.
    ///
    /// # Errors
    /// What this machine cannot do.
    fn check(
        _options: &mut Self::Options,
        _target: Option<&Target>,
        _session: &Session,
    ) -> Result<(), Failure> {
        Ok(())
    }
}

/// What one sub-command found out. Its fields are the JSON document, beside
/// those of [`crate::output::json::Envelope`].
pub trait Outcome: Serialize {
    /// Adds another repetition with the same options: the same runs in the
    /// same order.
    fn merge(&mut self, other: Self);

    fn text(&self, style: Style) -> String;

    fn html(&self) -> Vec<Section>;
}

/// Measures everything that the options ask for, once. Polls `session.stop`
/// at least every 100 ms, and returns its error when it is raised.
pub type Measure<B> =
    fn(&<B as Bench>::Options, Option<&Target>, &Session) -> Result<<B as Bench>::Outcome, Failure>;

/// How long, how warm, how random: for every run of a sub-command.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Course {
    pub runtime_ns: u64,
    pub warm_up_ns: u64,
    pub repeat: u64,
    pub seed: u64,
}

impl Course {
    pub fn from_args(arguments: &CourseArgs) -> Self {
        Self {
            runtime_ns: crate::bench::load::nanoseconds(arguments.runtime),
            warm_up_ns: crate::bench::load::nanoseconds(arguments.warm_up),
            repeat: arguments.repeat,
            seed: arguments.seed,
        }
    }

    pub fn times(&self) -> Times {
        Times {
            warm_up: Duration::from_nanos(self.warm_up_ns),
            runtime: Duration::from_nanos(self.runtime_ns),
        }
    }
}

/// A request without transfers yet, from the shared options.
fn target_request(arguments: &TargetArgs, default_size_bytes: u64) -> TargetRequest {
    TargetRequest {
        file: arguments.file.clone(),
        directory: arguments.directory.clone(),
        size_bytes: arguments.size,
        default_size_bytes,
        transfer_sizes_bytes: Vec::new(),
        direct: false,
        reads: false,
        writes: false,
        destructive: arguments.destructive,
        named_files: false,
    }
}

/// The target of a sub-command that always has one.
fn needed(target: Option<&Target>) -> Result<&Target, Failure> {
    target.ok_or_else(|| Failure::Internal {
        message: "a measurement was given no target".to_owned(),
    })
}

/// One run per setting, until somebody ends it.
fn one_by_one<S, R>(
    settings: Vec<S>,
    session: &Session,
    run: impl Fn(S) -> Result<R, Failure>,
) -> Result<Vec<R>, Failure> {
    let checked = |setting| {
        session.stop.check()?;
        run(setting)
    };
    settings.into_iter().map(checked).collect()
}

/// Adds the runs of another repetition one by one.
pub fn merge_runs<R>(runs: &mut [R], others: Vec<R>, merge: impl Fn(&mut R, R)) {
    assert_eq!(runs.len(), others.len(), "repetitions have the same runs");
    for (run, other) in runs.iter_mut().zip(others) {
        merge(run, other);
    }
}

/// A list that may not name anything twice.
/// As `--objective` has it.
fn as_text<S: serde::Serializer>(
    objective: &iolane_sched::Objective,
    to: S,
) -> Result<S::Ok, S::Error> {
    to.collect_str(objective)
}

fn without_repeats<T: PartialEq>(values: &[T], option: &str) -> Result<(), Failure> {
    let twice = (1..values.len()).any(|at| values[..at].contains(&values[at]));
    if !twice {
        return Ok(());
    }
    Err(Failure::usage(
        format!("{option} names something twice"),
        "Name each value once.",
    ))
}

/// What a sub-command does when these words are typed behind it.
///
/// # Errors
/// Words that it does not know: a defect of the caller.
pub fn defaults<A: Args>(words: &str) -> Result<A, Failure> {
    let command = A::augment_args(clap::Command::new("defaults").no_binary_name(true));
    command
        .try_get_matches_from(words.split_whitespace())
        .and_then(|matches| A::from_arg_matches(&matches))
        .map_err(|error| Failure::Internal {
            message: format!("a sub-command refuses {words:?}: {error}"),
        })
}

#[cfg(test)]
pub mod samples;
#[cfg(test)]
mod tests;
