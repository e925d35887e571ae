//! What carries transfers to the kernel: io_uring, Linux AIO or a thread pool,
//! behind one interface.
//!
//! A backend is created, driven and dropped by one thread, the device's driver
//! thread. Only the waker is shared: it ends a blocking [`Backend::reap`] from
//! any thread.
//!
//! | file | subject |
//! |---|---|
//! | `select` | which backend: names, probing, report |
//! | `uring`, `aio`, `threads` | the three backends |
//! | `simulated` | a disk that is not there |
//! | `pool` | threads that do blocking transfers |
//! | `slots` | table of operations in flight |
//! | `bell` | how a sleeping driver is woken |

mod aio;
mod bell;
mod countdown;
mod pool;
mod select;
#[cfg(feature = "simulated")]
mod simulated;
mod slots;
#[cfg(test)]
mod tests;
mod threads;
mod uring;

#[cfg(feature = "simulated")]
pub(crate) use simulated::SimulatedBackend;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

pub(crate) use crate::sys::op::{BufferRegion, PinnedOp};
#[cfg(feature = "simulated")]
pub(crate) use bell::Nudge;
#[cfg(feature = "simulated")]
pub(crate) use select::open_simulated;
pub use select::{BackendChoice, BackendError, BackendKind, BackendReport};
pub(crate) use select::{FORKED, open};

/// Most operations that one backend can be opened for: a ring of this size
/// is well below the kernel's limit of 32768 entries, and far beyond what
/// keeps any device busy.
pub(crate) const CAPACITY_MAX: u32 = 16_384;

/// What one operation does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpCode {
    /// `preadv`.
    Read,
    /// `pwritev`.
    Write,
    /// `fdatasync`.
    SyncData,
    /// `fsync`.
    SyncAll,
}

/// One transfer as the kernel sees it.
///
/// A backend takes it as a [`PinnedOp`], which carries the promise that
/// `fd`, `iov` and the memory that it names stay valid until the completion
/// with the same token was reaped or the backend was dropped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    /// Comes back in [`Completed`].
    pub token: u64,
    pub code: OpCode,
    pub fd: RawFd,
    pub offset: u64,
    /// First of `iov_count` vectors; dangling for a sync.
    pub iov: *const libc::iovec,
    pub iov_count: u32,
    /// Kernel I/O priority (`ioprio_set(2)` encoding), 0 for none. A hint: when
    /// the kernel refuses it, the operation runs without.
    pub ioprio: u16,
    /// Opened with `O_DIRECT`: submission does not block.
    pub direct: bool,
    /// A write that arrives whole or not at all (`RWF_ATOMIC`), or is refused.
    pub atomic: bool,
}

/// How one operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completed {
    pub token: u64,
    /// Bytes transferred, which may be fewer than asked for, or `-errno`.
    pub result: i32,
}

/// What became of a request to register memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BuffersReport {
    /// How much is registered now.
    pub bytes: u64,
    /// Why not all of it. Transfers work without, at a higher cost each.
    pub refusal: Option<String>,
}

/// Ends a blocking [`Backend::reap`] from another thread. No system call when
/// the driver is not blocked.
///
/// A wake while no `reap` blocks is kept: the next one that would block
/// returns at once. Several count as one.
pub(crate) trait Wake: Send + Sync {
    fn wake(&self);
}

/// Dropping it waits for everything that was flushed. What was pushed and not
/// flushed may or may not have happened.
pub(crate) trait Backend {
    fn kind(&self) -> BackendKind;

    /// Most operations that can be in flight at once, those pushed and not
    /// flushed included.
    fn capacity(&self) -> u32;

    /// Takes an operation. It reaches the kernel at the next [`flush`], many
    /// in one system call where the backend can.
    ///
    /// # Panics
    /// With [`capacity`](Backend::capacity) operations in flight.
    ///
    /// [`flush`]: Backend::flush
    fn push(&mut self, op: PinnedOp);

    /// Hands everything pushed to the kernel. Does not wait for completions.
    /// An operation that the kernel refuses is reported as completed with the
    /// refusal's errno. What the kernel cannot take for want of memory stays
    /// pushed, and the next `flush` or `reap` tries again.
    fn flush(&mut self) -> io::Result<()>;

    /// Flushes, then appends finished operations to `out`. Blocks until at
    /// least one finished, or the waker was used, or `timeout` passed;
    /// `Some(Duration::ZERO)` never blocks, `None` has no limit.
    fn reap(&mut self, timeout: Option<Duration>, out: &mut Vec<Completed>) -> io::Result<()>;

    /// What other threads use to end a blocking [`reap`](Backend::reap).
    fn waker(&self) -> Arc<dyn Wake>;

    /// Registers memory with the kernel, once, so that transfers from and to
    /// it need not look up and pin its pages. Only a backend that can gains
    /// from it; all others say so in the report.
    fn register_buffers(&mut self, _regions: &[BufferRegion]) -> BuffersReport {
        BuffersReport {
            bytes: 0,
            refusal: Some(format!("{} has no registered buffers", self.kind())),
        }
    }
}
