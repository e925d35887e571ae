//! Disks that can be described, run in virtual time, and served as real ones.
//!
//! A [`Model`] says *when* a disk would have finished each command; it is a
//! deterministic state machine without a clock. A [`Medium`] says *what* the
//! disk holds; it has no time of its own. Simulations need a model alone;
//! a disk that is served needs both.
//!
//! In virtual time, a [`Simulation`] drives a workload through an [`Elevator`]
//! into a model, event by event.
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
