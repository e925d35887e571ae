//! All unsafe code of the crate: system calls, shared rings, raw memory.
//!
//! What leaves this module is safe to use, except [`op::PinnedOp::new`] and
//! [`op::BufferRegion::new`], whose callers promise that memory outlives the
//! transfers into and out of it. In [`span`] the device layer makes these
//! promises.

pub(crate) mod aio;
pub(crate) mod buffers;
pub(crate) mod clock;
pub(crate) mod eventfd;
pub(crate) mod fallocate;
#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod fork;
pub(crate) mod ioprio;
pub(crate) mod memory;
pub(crate) mod op;
#[cfg(test)]
pub(crate) mod seccomp;
pub(crate) mod span;
pub(crate) mod statx;
pub(crate) mod syscalls;
#[cfg(feature = "simulated")]
pub(crate) mod timer_slack;
pub(crate) mod uring;
