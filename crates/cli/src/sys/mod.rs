//! Every unsafe block of this crate: thin wrappers around system calls.

pub mod affinity;
pub mod attribute;
pub mod counter;
pub mod cpu_clock;
pub mod file;
pub mod ioprio;
pub mod nice;
pub mod parent;
pub mod prefix;
pub mod shared_cache;
pub mod signal;
pub mod standard;
pub mod timer_slack;
pub mod usage;
