//! What carries transfers to the kernel: io_uring, Linux AIO or a thread pool,
//! behind one interface.
//!
//! A backend is owned and driven by one thread, the device's driver thread.
//! Only the [`Waker`] is shared: it ends a blocking [`Backend::reap`] from any
//! thread.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::Duration;

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
/// Whoever pushes it keeps `fd` open, and `iov` and the memory that it names
/// valid and unaliased, until the completion with the same token was reaped.
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
    /// Kernel I/O priority (`ioprio_set(2)` encoding), 0 for none.
    pub ioprio: u16,
    /// Opened with `O_DIRECT`: submission does not block.
    pub direct: bool,
}

/// How one operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completed {
    pub token: u64,
    /// Bytes transferred, or `-errno`.
    pub result: i32,
}

/// Ends a blocking [`Backend::reap`] from another thread. Cheap when the
/// driver is not blocked.
pub(crate) trait Wake: Send + Sync {
    fn wake(&self);
}

pub(crate) trait Backend {
    /// Most operations that can be in flight at once.
    fn capacity(&self) -> u32;

    /// Takes an operation. It reaches the kernel at the next [`flush`], many
    /// in one system call where the backend can.
    ///
    /// # Safety
    /// The caller keeps the promises listed at [`Op`], and has no more than
    /// [`capacity`](Backend::capacity) operations in flight.
    ///
    /// [`flush`]: Backend::flush
    unsafe fn push(&mut self, op: Op);

    /// Hands everything pushed to the kernel. Does not wait for completions.
    /// An operation that the kernel refuses is reported as completed with the
    /// refusal's errno.
    fn flush(&mut self) -> io::Result<()>;

    /// Flushes, then appends finished operations to `out`. Blocks until at
    /// least one finished, or the waker was used, or `timeout` passed;
    /// `Some(Duration::ZERO)` never blocks, `None` has no limit.
    fn reap(&mut self, timeout: Option<Duration>, out: &mut Vec<Completed>) -> io::Result<()>;

    /// What other threads use to end a blocking [`reap`](Backend::reap).
    fn waker(&self) -> Arc<dyn Wake>;
}
