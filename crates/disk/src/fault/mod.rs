//! Faults by seed: what real disks do wrong, on demand and repeatably.
//!
//! A [`FaultPlan`] says what goes wrong and when; [`Faults`] counts operations,
//! decides about each and keeps a log; a [`FaultyMedium`] lets the faults
//! happen on any [`Medium`](crate::Medium).
//!
//! | file | subject |
//! |---|---|
//! | `plan`, `text` | what a plan can say, and how it is written |
//! | `decide`, `log` | decisions about operations, and their record |
//! | `medium` | what the decisions do to contents |
//! | `units`, `draw` | units of torn writes; random numbers |

mod decide;
pub(crate) mod draw;
mod log;
mod medium;
mod plan;
#[cfg(test)]
mod tests;
mod text;
pub(crate) mod units;

pub use decide::{Faults, Operation};
pub use log::{Effect, FaultLog, Injected, LOG_MAX};
pub use medium::{Covered, FaultyMedium};
pub use plan::{Access, Fault, FaultPlan, FaultPlanError, RULES_MAX, Rule, Trigger, Visible};
