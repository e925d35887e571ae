//! Which I/O request goes to the device next.
//!
//! [`Scheduler`] is a deterministic state machine for one device: requests go
//! in with [`Scheduler::enqueue`], come out in merged transfers with
//! [`Scheduler::dispatch`], and are reported back with
//! [`Scheduler::complete`]. It holds no clock, no thread and no file: time is
//! an argument, so that the same calls give the same decisions.
//!
//! | module | subject |
//! |---|---|
//! | `scheduler` | the state machine, and `start` for requests that need not queue |
//! | `request`, `config` | requests and levels; settings with defaults and limits |
//! | `queue`, `fifo`, `position` | one slot per outstanding request, in a list by deadline and a treap by position |
//! | `queue/overlap`, `footprint` | which requests overlap and must wait for each other |
//! | `merge` | which neighbours go with a request in one transfer; never waits for one |
//! | `policy` | `noop`, `deadline` (Linux 2.6), `prio_deadline` (Hall and Bonnet), `lanes` (the default) |
//! | `window` | how much may be in flight |
//! | `objective` | what the learned window is to reach |
#![forbid(unsafe_code)]

mod config;
mod fifo;
mod footprint;
mod merge;
mod objective;
mod policy;
mod position;
mod queue;
mod request;
mod scheduler;
mod window;

pub use config::{
    Config, ConfigError, Deadline, LevelConfig, PAPER_DEADLINES_NS, PAPER_DEADLINES_SERVICE_TIMES,
    Policy, WindowConfig,
};
pub use objective::{Objective, ObjectiveError};
pub use request::{Direction, Kind, Level, Request, RequestId, Terms};
pub use scheduler::{
    Batch, EnqueueError, Member, REQUEST_BYTES_MAX, Scheduler, Snapshot, Transfer,
};
pub use window::{RateLimit, RateScope, RateUnit, WindowState};
