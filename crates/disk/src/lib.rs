//! Disks that can be described, run in virtual time, and served as real ones.
//!
//! A [`Model`] says *when* a disk would have finished each command; it is a
//! deterministic state machine without a clock. A [`Medium`] says *what* the
//! disk holds; it has no time of its own. Simulations need a model alone;
//! a disk that is served needs both.
#![deny(unsafe_code)]

pub mod description;
pub mod medium;
pub mod model;

pub use description::{Description, DescriptionError};
pub use medium::Medium;
pub use model::{Command, Done, Kind, Model, ParameterError};
