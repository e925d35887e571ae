//! For tests: memory with vectors into it, and the operations on them.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ffi::CString;
use std::io;
use std::os::fd::RawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

use super::op::{BufferRegion, PinnedOp};
use crate::backend::{Op, OpCode};

/// Large enough for every device's direct I/O.
const ALIGN: usize = 4096;

/// Memory and the vectors of one transfer. A test keeps it until the
/// transfer's completion was reaped or the backend was dropped.
pub(crate) struct Transfer {
    memory: *mut u8,
    layout: Layout,
    vectors: Vec<libc::iovec>,
}

impl Transfer {
    /// `pieces`: start and length in the memory of `len` bytes.
    pub fn vectored(len: usize, pieces: &[(usize, usize)]) -> Transfer {
        let layout = Layout::from_size_align(len.max(1), ALIGN).expect("a valid layout");
        // SAFETY: the layout is not empty.
        let memory = unsafe { alloc_zeroed(layout) };
        if memory.is_null() {
            handle_alloc_error(layout);
        }
        let vectors = pieces
            .iter()
            .map(|&(start, piece_len)| {
                assert!(start + piece_len <= len);
                libc::iovec {
                    iov_base: memory.wrapping_add(start).cast(),
                    iov_len: piece_len,
                }
            })
            .collect();
        Transfer {
            memory,
            layout,
            vectors,
        }
    }

    pub fn plain(len: usize) -> Transfer {
        Transfer::vectored(len, &[(0, len)])
    }

    pub fn filled(len: usize, byte: u8) -> Transfer {
        let mut transfer = Transfer::plain(len);
        transfer.bytes_mut().fill(byte);
        transfer
    }

    pub fn bytes(&self) -> &[u8] {
        // SAFETY: allocated with this size, and zeroed.
        unsafe { std::slice::from_raw_parts(self.memory, self.layout.size()) }
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and borrowed uniquely.
        unsafe { std::slice::from_raw_parts_mut(self.memory, self.layout.size()) }
    }

    pub fn region(&self) -> BufferRegion {
        // SAFETY: the test keeps `self` until the backend was dropped.
        unsafe { BufferRegion::new(self.memory, self.layout.size()) }
    }

    pub fn op(&self, token: u64, code: OpCode, fd: RawFd, offset: u64) -> Op {
        Op {
            token,
            code,
            fd,
            offset,
            iov: self.vectors.as_ptr(),
            iov_count: self.vectors.len() as u32,
            ioprio: 0,
            direct: false,
            atomic: false,
        }
    }
}

/// For an operation on a [`Transfer`], which the test keeps for long enough.
pub(crate) fn pin(op: Op) -> PinnedOp {
    // SAFETY: promised by the test, see `Transfer`.
    unsafe { PinnedOp::new(op) }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { dealloc(self.memory, self.layout) }
    }
}

/// Mounts an empty tmpfs that holds `len` bytes on `dir`, visible to the
/// calling thread and what it starts, until they end. Needs root.
pub(crate) fn mount_private_tmpfs(dir: &Path, len: usize) -> io::Result<()> {
    let dir = CString::new(dir.as_os_str().as_bytes())?;
    let options = CString::new(format!("size={len}"))?;
    let private = libc::MS_REC | libc::MS_PRIVATE;
    // SAFETY: all strings outlive the calls; where none is given, none is read.
    let done = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                ptr::null(),
                c"/".as_ptr(),
                ptr::null(),
                private,
                ptr::null(),
            ) == 0
            && libc::mount(
                c"tmpfs".as_ptr(),
                dir.as_ptr(),
                c"tmpfs".as_ptr(),
                0,
                options.as_ptr().cast(),
            ) == 0
    };
    if !done {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
