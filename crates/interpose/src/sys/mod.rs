//! What is not safe: the calls that are caught, and those to the kernel.

pub mod aio;
mod arguments;
pub mod environment;
pub mod file;
mod hooks;
mod load;
mod memory;
pub mod notice;
pub mod page;
pub mod pages;
pub mod reading;
mod real;
pub mod residency;
pub mod stack;
#[cfg(all(test, target_arch = "x86_64"))]
pub mod steps;
pub mod uring;
pub mod watch;
