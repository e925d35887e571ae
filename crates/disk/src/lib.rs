//! Disks that can be described, run in virtual time, and served as real ones.
//!
//! A [`Model`] says *when* a disk would have finished each command; it is a
//! deterministic state machine without a clock. A [`Medium`] says *what* the
//! disk holds; it has no time of its own. Simulations need a model alone;
//! a disk that is served needs both.
//!
//! In virtual time, a [`Simulation`] drives a workload through an [`Elevator`]
//! into a model, event by event.
//!
//! | module | subject |
//! |---|---|
//! | [`model`] | when a disk finishes each command; some models say an end before it is reached ([`Model::foreseen_ns`]) |
//! | [`medium`] | what a disk holds |
//! | [`description`] | disks in TOML, and presets by name |
//! | [`elevator`] | what stands between host and disk in virtual time: the scheduler core, and Linux 2.6's schedulers |
//! | [`simulation`] | a workload, an elevator and a model, event by event |
//! | [`regret`] | random loads, and what a policy gives away on them |
//! | [`fault`] | faults by seed over any medium |
//! | [`power`] | power cuts: what is durable at each moment, and every image that a cut can leave |
//! | `served` | the model in real time by FUSE and NBD, with the feature `serve` |
#![deny(unsafe_code)]

pub mod description;
pub mod elevator;
pub mod fault;
pub mod medium;
pub mod model;
pub mod power;
pub mod regret;
#[cfg(feature = "serve")]
pub mod served;
pub mod simulation;
#[cfg(feature = "serve")]
#[allow(unsafe_code)]
mod sys;

pub use description::{Description, DescriptionError};
pub use elevator::Elevator;
pub use medium::Medium;
pub use model::{Command, Done, Kind, Model, ParameterError};
pub use simulation::Simulation;
