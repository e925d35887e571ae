//! Which I/O request goes to the device next.
//!
//! [`Scheduler`] is a deterministic state machine for one device: requests go
//! in with [`Scheduler::enqueue`], come out in merged transfers with
//! [`Scheduler::dispatch`], and are reported back with
//! [`Scheduler::complete`]. It holds no clock, no thread and no file: time is
//! an argument, so that the same calls give the same decisions.
#![forbid(unsafe_code)]

mod request;

pub use request::{Direction, Kind, Level, Request, RequestId};
