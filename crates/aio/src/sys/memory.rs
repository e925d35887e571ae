//! Memory of the program, for the time of a request.

use super::abi::{Errno, Iocb};
use iolane::{IoBuf, IoBufMut};

/// Most vectors that one request may have: the kernel's `UIO_MAXIOV`.
const VECTORS_MAX: u64 = 1024;

/// A piece of memory that a control block names. The program keeps it until
/// the request has completed, and does not touch it (of a write: change it):
/// that is the contract of `io_submit(2)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Memory {
    start: *mut u8,
    pub length: usize,
}

// SAFETY: an address has no ties to a thread.
unsafe impl Send for Memory {}

// SAFETY: the program keeps the memory until the request, which owns this, has
// completed. Addresses that are none are found by the kernel (EFAULT).
unsafe impl IoBuf for Memory {
    fn io_ptr(&self) -> *const u8 {
        self.start
    }

    fn io_len(&self) -> usize {
        self.length
    }
}

// SAFETY: as above; of a read, the program gave it to be written.
unsafe impl IoBufMut for Memory {
    fn io_ptr_mut(&mut self) -> *mut u8 {
        self.start
    }
}

impl Memory {
    /// Cuts off what is more than `length_max` bytes.
    pub(crate) fn split(self, length_max: usize) -> (Memory, Option<Memory>) {
        if self.length <= length_max {
            return (self, None);
        }
        let first = Memory {
            length: length_max,
            ..self
        };
        let rest = Memory {
            start: self.start.wrapping_add(length_max),
            length: self.length - length_max,
        };
        (first, Some(rest))
    }

    /// Address and length.
    pub(crate) fn place(self) -> (usize, usize) {
        (self.start.expose_provenance(), self.length)
    }

    /// The buffer of a control block.
    pub(crate) fn of(iocb: &Iocb) -> Result<Memory, Errno> {
        let length = usize::try_from(iocb.nbytes).map_err(|_| Errno(libc::EINVAL))?;
        if isize::try_from(length).is_err() {
            return Err(Errno(libc::EINVAL));
        }
        Ok(Memory {
            start: std::ptr::with_exposed_provenance_mut(iocb.buf as usize),
            length,
        })
    }

    /// The vectors of a control block.
    ///
    /// # Safety
    /// `buf` names `nbytes` vectors, or is NULL.
    pub(crate) unsafe fn vectors_of(iocb: &Iocb) -> Result<Vec<Memory>, Errno> {
        if iocb.nbytes > VECTORS_MAX {
            return Err(Errno(libc::EINVAL));
        }
        let first: *const libc::iovec = std::ptr::with_exposed_provenance(iocb.buf as usize);
        if first.is_null() && iocb.nbytes > 0 {
            return Err(Errno(libc::EFAULT));
        }
        let mut memory = Vec::with_capacity(iocb.nbytes as usize);
        for index in 0..iocb.nbytes as usize {
            // SAFETY: the caller's promise.
            let vector = unsafe { first.add(index).read() };
            if isize::try_from(vector.iov_len).is_err() {
                return Err(Errno(libc::EINVAL));
            }
            if vector.iov_len > 0 {
                memory.push(Memory {
                    start: vector.iov_base.cast(),
                    length: vector.iov_len,
                });
            }
        }
        Ok(memory)
    }
}
