//! Memory that the kernel reads from and writes to while nobody else may:
//! owned, at a stable address.

use std::alloc::{self, Layout};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use crate::arena::granules::Run;
use crate::arena::{BufferError, Shared};

/// Alignment of [`Buffer::new`]: enough for direct I/O on every device with
/// sectors of 512 or 4096 bytes.
const ALIGN_BYTES: usize = 4096;

/// Memory that can be written to a file asynchronously.
///
/// The engine owns the value while the transfer is outstanding, so that nobody
/// frees or changes the memory under the kernel's hands.
///
/// ```
/// use iolane::{Buffer, IoBuf};
///
/// fn bytes_to_write(data: &impl IoBuf) -> usize {
///     data.io_len()
/// }
/// assert_eq!(bytes_to_write(&vec![0u8; 10]), 10);
/// assert_eq!(bytes_to_write(&Buffer::new(4096)), 4096);
/// assert_eq!(bytes_to_write(&b"static".as_slice()), 6);
/// ```
///
/// # Safety
/// `io_ptr` and `io_len` name initialised memory, and keep naming the same
/// memory, unchanged by anyone else, until the value is dropped or used
/// through `&mut`: also when the value itself is moved.
pub unsafe trait IoBuf: Send + Unpin + 'static {
    /// First byte.
    fn io_ptr(&self) -> *const u8;

    /// Bytes to transfer.
    fn io_len(&self) -> usize;
}

/// Memory that can be read into from a file asynchronously.
///
/// A read fills at most [`io_len`](IoBuf::io_len) bytes, all of them already
/// initialised: of a `Vec` its length, not its capacity.
///
/// ```
/// use iolane::{Buffer, IoBufMut};
///
/// fn fill(into: &mut impl IoBufMut) -> *mut u8 {
///     into.io_ptr_mut()
/// }
/// let mut buffer = Buffer::new(512);
/// assert_eq!(fill(&mut buffer).cast_const(), buffer.as_ptr());
/// ```
///
/// # Safety
/// As for [`IoBuf`], and the memory may be written through the pointer.
pub unsafe trait IoBufMut: IoBuf {
    /// First byte, the same as [`io_ptr`](IoBuf::io_ptr).
    fn io_ptr_mut(&mut self) -> *mut u8;
}

// SAFETY: the elements stand on the heap, where moving the `Vec` leaves them.
unsafe impl IoBuf for Vec<u8> {
    fn io_ptr(&self) -> *const u8 {
        self.as_ptr()
    }

    fn io_len(&self) -> usize {
        self.len()
    }
}

// SAFETY: as above; the elements up to the length are initialised and owned.
unsafe impl IoBufMut for Vec<u8> {
    fn io_ptr_mut(&mut self) -> *mut u8 {
        self.as_mut_ptr()
    }
}

// SAFETY: the bytes stand on the heap, where moving the `Box` leaves them.
unsafe impl IoBuf for Box<[u8]> {
    fn io_ptr(&self) -> *const u8 {
        self.as_ptr()
    }

    fn io_len(&self) -> usize {
        self.len()
    }
}

// SAFETY: as above, and owned.
unsafe impl IoBufMut for Box<[u8]> {
    fn io_ptr_mut(&mut self) -> *mut u8 {
        self.as_mut_ptr()
    }
}

// SAFETY: static, and nobody can change what a shared slice of bytes names.
unsafe impl IoBuf for &'static [u8] {
    fn io_ptr(&self) -> *const u8 {
        self.as_ptr()
    }

    fn io_len(&self) -> usize {
        self.len()
    }
}

// SAFETY: the address is fixed at the making of the buffer.
unsafe impl IoBuf for Buffer {
    fn io_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    fn io_len(&self) -> usize {
        self.len
    }
}

// SAFETY: as above; the memory is owned and always initialised.
unsafe impl IoBufMut for Buffer {
    fn io_ptr_mut(&mut self) -> *mut u8 {
        self.start.as_ptr()
    }
}

/// Aligned memory for direct I/O: from an [`Arena`](crate::Arena), to which it
/// returns on drop, or standing alone.
///
/// ```
/// use iolane::Buffer;
///
/// let mut buffer = Buffer::new(16384);
/// assert_eq!(buffer.len(), 16384);
/// assert!(buffer.iter().all(|byte| *byte == 0));
/// buffer[0] = 1;
/// std::thread::spawn(move || assert_eq!(buffer[0], 1)).join().unwrap();
/// ```
pub struct Buffer {
    start: NonNull<u8>,
    len: usize,
    home: Home,
}

/// Where the memory goes when the buffer is dropped.
enum Home {
    Heap(Layout),
    Arena(Arc<Shared>, Run),
}

// SAFETY: a buffer owns its memory as a `Box<[u8]>` does; nothing in it is tied
// to a thread.
unsafe impl Send for Buffer {}
// SAFETY: as above; `&Buffer` gives shared reads only.
unsafe impl Sync for Buffer {}

impl Buffer {
    /// `len` zeroed bytes of its own, aligned to 4096.
    ///
    /// # Panics
    /// When `len` is more than an address space holds. A machine out of memory
    /// ends the process, as with `Vec`.
    pub fn new(len: usize) -> Self {
        Self::with_alignment(len, ALIGN_BYTES).expect("buffer length fits the address space")
    }

    /// `len` zeroed bytes of its own, at a multiple of `align` bytes, a power
    /// of two.
    ///
    /// # Errors
    /// [`BufferError::Alignment`] or [`BufferError::TooLarge`].
    pub fn with_alignment(len: usize, align: usize) -> Result<Self, BufferError> {
        const ALIGN_MAX: usize = 1 << 30;
        if !align.is_power_of_two() || align > ALIGN_MAX {
            return Err(BufferError::Alignment {
                align,
                align_max: ALIGN_MAX,
            });
        }
        // The allocator has no empty blocks.
        let layout = Layout::from_size_align(len.max(1), align)
            .map_err(|_| BufferError::TooLarge { len })?;
        // SAFETY: the layout's size is at least one.
        let start = unsafe { alloc::alloc_zeroed(layout) };
        let Some(start) = NonNull::new(start) else {
            alloc::handle_alloc_error(layout)
        };
        Ok(Buffer {
            start,
            len,
            home: Home::Heap(layout),
        })
    }

    /// `len` bytes from the arena at a multiple of `align` bytes. The run comes
    /// from the bookkeeping here and nowhere else, and goes back in `drop`.
    pub(crate) fn in_arena(
        arena: &Arc<Shared>,
        len: usize,
        align: usize,
    ) -> Result<Self, BufferError> {
        let run = arena.take(len, align)?;
        Ok(Buffer {
            start: arena.address(run),
            len,
            home: Home::Arena(Arc::clone(arena), run),
        })
    }
}

impl Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: `start` names `len` initialised bytes (zeroed by the
        // allocator or the kernel) that this value alone owns: the heap gives
        // no block twice, and neither does the arena's bookkeeping, which
        // `runs_never_overlap_and_all_memory_returns` tests.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `deref`, and `&mut self` makes the access unique.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl AsMut<[u8]> for Buffer {
    fn as_mut(&mut self) -> &mut [u8] {
        self
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer")
            .field("start", &self.start)
            .field("len", &self.len)
            .field("in_arena", &matches!(self.home, Home::Arena(..)))
            .finish()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        match &self.home {
            // SAFETY: allocated in `with_alignment` with this very layout.
            Home::Heap(layout) => unsafe { alloc::dealloc(self.start.as_ptr(), *layout) },
            Home::Arena(arena, run) => arena.give(*run),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn standalone_buffers_are_zeroed_and_aligned() {
        for (len, align) in [(0, 4096), (1, 512), (16384, 4096), (100, 2 << 20)] {
            let buffer = Buffer::with_alignment(len, align).unwrap();
            assert_eq!(buffer.len(), len);
            assert!((buffer.as_ptr() as usize).is_multiple_of(align));
            assert!(buffer.iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn impossible_buffers_are_refused() {
        for align in [0, 3, 1 << 40] {
            let refused = Buffer::with_alignment(1, align).unwrap_err();
            assert!(
                matches!(refused, BufferError::Alignment { .. }),
                "{refused}"
            );
        }
        let len = usize::MAX;
        let refused = Buffer::with_alignment(len, 512).unwrap_err();
        assert_eq!(refused, BufferError::TooLarge { len });
    }

    #[test]
    fn moving_an_io_buffer_leaves_its_memory() {
        fn moved<B: IoBufMut>(mut buffer: B) {
            let before = (buffer.io_ptr_mut(), buffer.io_len());
            let mut shelf = vec![buffer];
            shelf.reserve(100);
            assert_eq!((shelf[0].io_ptr_mut(), shelf[0].io_len()), before);
            assert_eq!(shelf[0].io_ptr(), before.0.cast_const());
        }
        let mut vec = Vec::with_capacity(64);
        vec.extend_from_slice(b"length, not capacity");
        assert_eq!(vec.io_len(), 20);
        moved(vec);
        moved(vec![1u8; 100].into_boxed_slice());
        moved(Buffer::new(512));
    }
}
