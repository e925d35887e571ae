//! What a scheduler that learns gives away: random loads that nobody named,
//! under it, without priorities, and with every fixed window, on modelled disks
//! in virtual time.
//!
//! A [`Load`] is drawn from a seed. [`Course::of`] runs each of its streams
//! alone first: that says what the shares of its open loops are in operations
//! a second, how long it must run, and what an operation is worth. [`run`]
//! carries it out under one [`Contender`], and [`Regret::of`] compares.
//!
//! # What is compared
//!
//! *Foreground latency*: the 99th percentile of all operations of the levels
//! `Critical` and `Foreground` together, syncs among them.
//!
//! *Lower-level work*: operations of the other levels, syncs among them, each
//! for the time that one of its stream takes while that stream has the device
//! alone with [`PROBE_DEPTH`] outstanding. The sum over the time measured is
//! the share of the device that the lower levels had. That is neutral to
//! size: bytes would only count large requests, operations only small ones. With
//! one stream of lower level it is as good as either.
//!
//! ```
//! use iolane_disk::regret::{Contender, Course, Load, Regret, Subject, run};
//!
//! let disk = Subject::find("aws-gp3").unwrap();
//! let load = Load::random(7, &disk.facts()?);
//! let course = Course::of(&load, &disk)?;
//! let lanes = run(&load, &course, &disk, Contender::Lanes)?;
//! let window = run(&load, &course, &disk, Contender::Window(8))?;
//! let regret = Regret::of(&lanes, &[window]);
//! assert!(regret.latency >= 1.0 && regret.throughput >= 1.0);
//! # Ok::<(), iolane_disk::regret::RegretError>(())
//! ```

mod contender;
mod course;
mod judge;
mod load;
mod reaction;
mod run;
mod subject;
mod words;

pub use contender::Contender;
pub use course::{Course, PROBE_DEPTH, PartCourse};
pub use judge::{Compared, Regret, best_window};
pub use load::{Change, Facts, Load, Part};
pub use reaction::Reaction;
pub use run::{Done, Outcome, hindsight, run, run_all};
pub use subject::Subject;

/// Why a load could not be run.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RegretError {
    /// A disk or a workload with impossible parameters.
    #[error(transparent)]
    Parameter(#[from] crate::ParameterError),
    /// A scheduler with impossible settings.
    #[error(transparent)]
    Config(#[from] iolane_sched::ConfigError),
}
