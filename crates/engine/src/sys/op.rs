//! Promises about memory that the kernel reads or writes while no Rust
//! reference exists.

use std::io;
use std::os::fd::RawFd;
use std::time::Instant;

use crate::backend::{Backend, Op, OpCode};

/// include/uapi/linux/fs.h (6.11); libc does not name it yet.
pub(super) const RWF_ATOMIC: i32 = 0x40;

/// An [`Op`] whose creator promised that its memory outlives the transfer.
///
/// It carries the promise, so that pushing it into a backend is safe. It can
/// be neither copied nor cloned: one promise, one transfer.
#[derive(Debug)]
pub(crate) struct PinnedOp(Op);

// SAFETY: the pointers are only read by the kernel (or handed to a system
// call by a pool thread); the promise given to `new` does not depend on the
// thread.
unsafe impl Send for PinnedOp {}

impl PinnedOp {
    /// # Safety
    /// From now until the completion with this token was reaped, or the
    /// backend that took the operation was dropped:
    /// - `op.iov` points to `op.iov_count` vectors (is not read for a sync);
    /// - the memory that they name stays allocated, nobody else writes it,
    ///   and during a read nobody else reads it;
    /// - `op.fd` stays open (a closed one fails the operation, one reused by
    ///   another `open` would read or write the wrong file).
    ///
    /// # Panics
    /// When the offset is above `i64::MAX`: io_uring would take `u64::MAX` for
    /// "at the file position".
    pub unsafe fn new(op: Op) -> PinnedOp {
        assert!(
            i64::try_from(op.offset).is_ok(),
            "file offset {} is beyond the largest that the kernel knows",
            op.offset
        );
        PinnedOp(op)
    }

    pub fn op(&self) -> &Op {
        &self.0
    }

    /// The vector of a transfer that has exactly one.
    pub fn single_vector(&self) -> Option<libc::iovec> {
        // SAFETY: `new` was promised `iov_count` readable vectors.
        (self.0.iov_count == 1).then(|| unsafe { self.0.iov.read() })
    }

    #[cfg(any(test, feature = "simulated"))]
    fn vectors(&self) -> &[libc::iovec] {
        // SAFETY: `new` was promised `iov_count` readable vectors.
        unsafe { std::slice::from_raw_parts(self.0.iov, self.0.iov_count as usize) }
    }

    /// Bytes of all vectors together, of a read or a write.
    #[cfg(any(test, feature = "simulated"))]
    pub fn length(&self) -> u64 {
        let lengths = self.vectors().iter().map(|vector| vector.iov_len as u64);
        lengths.sum()
    }

    /// Replaces `bytes` by what a write is to write.
    #[cfg(feature = "simulated")]
    pub fn gather(&self, bytes: &mut Vec<u8>) {
        debug_assert_eq!(self.0.code, OpCode::Write);
        bytes.clear();
        for vector in self.vectors() {
            // SAFETY: `new` was promised that the memory is there and that
            // nobody writes it.
            bytes.extend_from_slice(unsafe {
                std::slice::from_raw_parts(vector.iov_base.cast::<u8>(), vector.iov_len)
            });
        }
    }

    /// Gives a read its first `bytes`.
    #[cfg(feature = "simulated")]
    pub fn scatter(&self, bytes: &[u8]) {
        debug_assert_eq!(self.0.code, OpCode::Read);
        let mut rest = bytes;
        for vector in self.vectors() {
            let (piece, tail) = rest.split_at(rest.len().min(vector.iov_len));
            // SAFETY: `new` was promised that the memory is there and that
            // nobody else touches it; `piece` is no longer than it, and not in
            // it, as that would be a reference to it.
            unsafe {
                std::ptr::copy_nonoverlapping(piece.as_ptr(), vector.iov_base.cast(), piece.len());
            }
            rest = tail;
        }
    }

    /// Flags of `pwritev2(2)`, for whichever backend.
    pub fn rw_flags(&self) -> i32 {
        match self.0.atomic {
            true => RWF_ATOMIC,
            false => 0,
        }
    }

    /// Gives up the priority hint.
    pub fn clear_ioprio(&mut self) {
        self.0.ioprio = 0;
    }
}

/// Memory to register with the kernel, which pins its pages.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferRegion {
    start: usize,
    len: usize,
}

impl BufferRegion {
    /// # Safety
    /// The region stays mapped, at this address, until the backend that it
    /// is registered with is dropped. (Transfers use the pages pinned at
    /// registration: after a new mapping at the same address they would
    /// bypass it, and a read would leave its buffer as it was.)
    pub unsafe fn new(start: *mut u8, len: usize) -> BufferRegion {
        BufferRegion {
            start: start.addr(),
            len,
        }
    }

    pub fn start(self) -> usize {
        self.start
    }

    pub fn len(self) -> usize {
        self.len
    }

    /// Cuts into pieces of at most `len_max` bytes.
    pub fn pieces(self, len_max: usize) -> impl Iterator<Item = BufferRegion> {
        (0..self.len).step_by(len_max).map(move |at| BufferRegion {
            start: self.start + at,
            len: len_max.min(self.len - at),
        })
    }
}

/// What [`read_for_probe`] reads.
pub(crate) type ProbeBytes = [u8; 8];

/// Reads the first bytes of `fd` through `backend`, with no other operation in
/// flight: bytes read or `-errno`, and the bytes.
pub(crate) fn read_for_probe(
    backend: &mut dyn Backend,
    fd: RawFd,
    end: Instant,
) -> io::Result<(i32, ProbeBytes)> {
    struct Target {
        bytes: ProbeBytes,
        vector: libc::iovec,
    }
    let target = Box::into_raw(Box::new(Target {
        bytes: [0; 8],
        vector: libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: size_of::<ProbeBytes>(),
        },
    }));
    // SAFETY: `target` was just allocated and is not shared.
    let iov = unsafe {
        (*target).vector.iov_base = (&raw mut (*target).bytes).cast();
        &raw const (*target).vector
    };
    let op = Op {
        token: 0,
        code: OpCode::Read,
        fd,
        offset: 0,
        iov,
        iov_count: 1,
        ioprio: 0,
        // Through `io_submit` too: memory does not block.
        direct: true,
        atomic: false,
    };
    // SAFETY: the target is freed only after the completion was reaped; in
    // every other case it is leaked.
    backend.push(unsafe { PinnedOp::new(op) });
    let mut done = Vec::new();
    while done.is_empty() {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        backend.reap(Some(left), &mut done)?;
    }
    // SAFETY: nobody else has the target any more.
    let target = unsafe { Box::from_raw(target) };
    Ok((done[0].result, target.bytes))
}
