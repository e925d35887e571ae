//! Memory of outstanding requests, and the vectors that name it to the kernel.
//!
//! Raw addresses live here only. What makes them sound is one invariant of the
//! crate: **the memory of a span is not freed, moved or touched while the
//! request is in its device's table.** An entry leaves the table when the
//! kernel has completed it (`State::finish`) or when it never went to the
//! kernel (`State::cancel`), and nowhere else. The memory of an entry is
//! - owned: an [`IoBuf`] inside the entry's completer, given back after the
//!   entry has left the table, or
//! - borrowed: the slice of a thread that is blocked in `DeviceShared::wait`
//!   until the entry has left the table.

use super::buffers::{Buffer, IoBuf, IoBufMut};
use super::op::{BufferRegion, PinnedOp};
use crate::arena::Arena;
use crate::backend::Op;

/// Memory of one request: an address and a length, without a lifetime.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    address: *mut u8,
    length: u32,
}

// SAFETY: an address has no ties to a thread. It is only handed to the kernel;
// the module's invariant keeps the memory valid until the kernel is done.
unsafe impl Send for Span {}

impl Span {
    /// For a sync.
    pub(crate) const EMPTY: Span = Span {
        address: std::ptr::null_mut(),
        length: 0,
    };

    /// `length` was checked to be at most `REQUEST_BYTES_MAX`.
    pub(crate) fn of_slice(slice: &[u8]) -> Span {
        Span {
            // Only ever read through: the operation is a write to the file.
            address: slice.as_ptr().cast_mut(),
            length: slice.len() as u32,
        }
    }

    pub(crate) fn of_slice_mut(slice: &mut [u8]) -> Span {
        Span {
            address: slice.as_mut_ptr(),
            length: slice.len() as u32,
        }
    }

    pub(crate) fn of_buffer<B: IoBuf>(buffer: &B) -> Span {
        Span {
            address: buffer.io_ptr().cast_mut(),
            length: buffer.io_len() as u32,
        }
    }

    pub(crate) fn of_buffer_mut<B: IoBufMut>(buffer: &mut B) -> Span {
        Span {
            address: buffer.io_ptr_mut(),
            length: buffer.io_len() as u32,
        }
    }
}

/// Base page: no device asks for a coarser memory alignment.
const JUNK_ALIGN: usize = 4096;

/// Where the bytes of read-through gaps go. Many transfers write into it at
/// once, nobody ever reads it.
pub(crate) struct Junk(Buffer);

impl Junk {
    /// Room for gaps of up to `gap_bytes_max`.
    pub(crate) fn new(gap_bytes_max: u32) -> Junk {
        let buffer = Buffer::with_alignment(gap_bytes_max as usize, JUNK_ALIGN);
        Junk(buffer.expect("the scheduler bounds gaps to 1 MiB"))
    }

    fn address(&mut self, length: u32) -> *mut u8 {
        assert!(length as usize <= self.0.len());
        self.0.io_ptr_mut()
    }
}

/// The vectors of one transfer in flight. Keeps its memory from transfer to
/// transfer.
#[derive(Default)]
pub(crate) struct Vectors {
    vectors: Vec<libc::iovec>,
    first: usize,
}

impl Vectors {
    pub(crate) fn clear(&mut self) {
        self.vectors.clear();
        self.first = 0;
    }

    pub(crate) fn push(&mut self, span: Span) {
        self.vectors.push(libc::iovec {
            iov_base: span.address.cast(),
            iov_len: span.length as usize,
        });
    }

    pub(crate) fn push_gap(&mut self, junk: &mut Junk, length: u32) {
        self.vectors.push(libc::iovec {
            iov_base: junk.address(length).cast(),
            iov_len: length as usize,
        });
    }

    /// Forgets the first `bytes`, which were transferred.
    pub(crate) fn advance(&mut self, mut bytes: usize) {
        while bytes > 0 && self.first < self.vectors.len() {
            let vector = &mut self.vectors[self.first];
            if bytes < vector.iov_len {
                vector.iov_base = vector.iov_base.wrapping_byte_add(bytes);
                vector.iov_len -= bytes;
                return;
            }
            bytes -= vector.iov_len;
            self.first += 1;
        }
    }

    /// Pointer and count for the kernel: of the remaining vectors.
    pub(crate) fn remaining(&self) -> (*const libc::iovec, u32) {
        let rest = &self.vectors[self.first..];
        (rest.as_ptr(), rest.len() as u32)
    }
}

/// The memory of an arena, for registration by a driver: its device's settings
/// hold the arena, and the driver drops its backend before the device.
pub(crate) fn regions_of(arena: &Arena) -> Vec<BufferRegion> {
    arena
        .regions()
        // SAFETY: mapped as long as the arena lives (see above).
        .map(|(start, len)| unsafe { BufferRegion::new(start.as_ptr(), len) })
        .collect()
}

/// Promises what a backend needs. `op` was made by a flight that the driver
/// keeps, unchanged, until it reaped the operation.
pub(crate) fn pin(op: Op) -> PinnedOp {
    // SAFETY: the vectors come from `Vectors::remaining` of that flight; the
    // memory that they name stays (this module's invariant; junk lives as long
    // as the backend), and the descriptor is open, since the table's entry
    // holds its file.
    unsafe { PinnedOp::new(op) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(vectors: &Vectors) -> Vec<usize> {
        vectors.vectors[vectors.first..]
            .iter()
            .map(|v| v.iov_len)
            .collect()
    }

    #[test]
    fn advancing_forgets_what_was_transferred() {
        let memory = [0u8; 100];
        let mut vectors = Vectors::default();
        for range in [0..10, 10..40, 40..100] {
            vectors.push(Span::of_slice(&memory[range]));
        }
        vectors.advance(0);
        assert_eq!(lengths(&vectors), [10, 30, 60]);
        vectors.advance(10);
        assert_eq!(lengths(&vectors), [30, 60]);
        vectors.advance(25);
        assert_eq!(lengths(&vectors), [5, 60]);
        let (first, count) = vectors.remaining();
        assert_eq!(count, 2);
        // SAFETY: `first` points at a live vector.
        let base = unsafe { (*first).iov_base };
        assert_eq!(base.cast_const().cast(), &raw const memory[35]);
        vectors.advance(65);
        assert_eq!(vectors.remaining().1, 0);
    }
}
