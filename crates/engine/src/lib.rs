//! Asynchronous I/O with priorities for databases on Linux.
//!
//! An [`Engine`] opens [`File`]s. Each lies on a [`Device`], which has one
//! scheduler, one lock and one driver thread of its own. A request carries a
//! [`Level`]; the device's [`Policy`] decides which goes to the kernel next.
//!
//! Three ways to have a request done:
//! - **blocking** ([`File::read_at`], [`File::write_at`], [`File::sync`]):
//!   borrowed memory; when nothing more urgent is ahead, the calling thread
//!   does its one system call itself;
//! - **pending** ([`File::read`], ...): the engine owns the buffer, and a
//!   [`Pending`] is to be waited for, polled, awaited, promoted or cancelled;
//! - **callback** ([`File::read_then`], ...): runs on the driver thread and may
//!   submit more. The cheapest way to keep many requests outstanding.
//!
//! A [`Batch`] submits many of the latter two at once.
//!
//! | module | subject |
//! |---|---|
//! | `engine` | settings, the devices in use |
//! | `device` | scheduler, lock, driver thread |
//! | `file` | opening, blocking and asynchronous requests |
//! | `pending`, `completion`, `batch`, `ticket` | how requests end, and begin together |
//! | `error`, `statistics`, `ioprio` | what their names say |
//! | [`arena`] | memory for buffers |
//! | `backend` | io_uring, Linux AIO, thread pool, simulated |
//! | `simulated` | a disk in memory, with the feature `simulated` |
//! | `sys` | all unsafe code |
#![deny(unsafe_code)]

pub mod arena;
mod backend;
mod batch;
mod completion;
mod device;
mod engine;
mod error;
mod file;
mod ioprio;
mod pending;
#[cfg(feature = "simulated")]
mod simulated;
mod statistics;
#[allow(unsafe_code)]
mod sys;
#[cfg(test)]
mod tests;
mod ticket;

pub use arena::Arena;
pub use backend::{BackendChoice, BackendError, BackendKind, BackendReport};
pub use batch::Batch;
pub use completion::Completion;
pub use device::{Device, DeviceInfo, Registered};
pub use engine::{Engine, EngineBuilder};
pub use error::{Alignee, Cause, Error, OpenError, Operation, SubmitError};
pub use file::{Alignment, AtomicWriteUnit, File, Leave, OpenOptions};
pub use iolane_sched::{
    Config, ConfigError, Deadline, Level, LevelConfig, Policy, REQUEST_BYTES_MAX, RateLimit,
    RateScope, RateUnit, Snapshot, WindowConfig, WindowState,
};
pub use ioprio::IoPriority;
pub use pending::Pending;
#[cfg(feature = "simulated")]
pub use simulated::{SimulatedDisk, SimulatedDiskBuilder, SimulatedDiskError};
pub use statistics::{
    BATCH_SIZES, DeviceStatistics, FlowStatistics, Latency, LevelStatistics, Outstanding, Tag,
    TagStatistics, TimeAtCount,
};
pub use sys::buffers::{Buffer, IoBuf, IoBufMut};
pub use sys::fork::Process;
pub use ticket::Ticket;

// The program in README.md must compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
