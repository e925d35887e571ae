//! Every unsafe block of this crate: thin wrappers around system calls.

pub mod file;
pub mod usage;
