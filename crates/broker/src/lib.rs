//! The schedulers of all processes under `iolane run`.
//!
//! Processes with the library of `crates/interpose` come to a socket
//! (`door`) and get a memory that they share with the broker
//! (`iolane-protocol`). In rounds, the [`Broker`] takes note of what went
//! to the devices and what has ended, lets each device's
//! [`Scheduler`](iolane_sched::Scheduler) say what goes next, and wakes those who wait
//! for it. The processes do their own system calls.
//!
//! [`Rules`] say which level a request has, [`Report`] what became of them.
//!
//! | module | subject |
//! |---|---|
//! | `rounds` | the broker's thread: what processes did, what may go, who is woken |
//! | `door`, `clients` | processes that come and go (pidfd); where each of their cells stands |
//! | `disks`, `identity` | a scheduler per disk; which disk a device number belongs to |
//! | `waiting` | asynchronous reads that wait, for whoever needs the same pages |
//! | `rules`, `profile` | rules in TOML, and those that ship |
//! | `statistics`, `course`, `commits`, `spans`, `report` | what became of requests: sums, over time, what commits waited for, what sank and was promoted |
//!
//! One thread does all rounds and holds the life line, a second lets processes in and
//! sees them end.
#![deny(unsafe_code)]

mod broker;
mod clients;
mod commits;
mod course;
mod disks;
mod door;
mod error;
mod identity;
mod profile;
mod report;
mod rounds;
mod rules;
mod spans;
mod statistics;
#[allow(unsafe_code)]
mod sys;
mod waiting;

pub use broker::Broker;
pub use course::Sample;
pub use error::BrokerError;
pub use identity::disk_of;
pub use profile::{GENERIC, PROFILES, Profile, profile_of};
pub use report::{
    BesideReport, CallCount, CommitReport, DiskReport, LevelReport, ReadAheadReport, Report,
    RingsReport, RoleReport, SpanReport,
};
pub use rules::{Rules, RulesError};
pub use sys::memory_file::NAME as MEMORY_NAME;
