//! Memory for I/O buffers on huge pages.
//!
//! An [`Arena`] is one large anonymous mapping, brought into memory when it is
//! built, from which aligned [`Buffer`]s are handed out. Huge pages make the
//! processor's address translation cheaper for a buffer cache that is read at
//! random, and shrink the page tables of each process (Chen et al., "Linux
//! Support for Large Databases on Itanium", OLS 2003, section 3). Which pages
//! the machine gave, and how to get better ones, is in [`Arena::pages`].

mod acquire;
pub(crate) mod granules;
mod machine;
mod pages;

use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use thiserror::Error;

use crate::sys::buffers::Buffer;
use crate::sys::fork::Process;
use crate::sys::memory::Mapping;
use granules::{GRANULE_BYTES, Granules, Run};
use machine::Machine;
use pages::Size;
pub use pages::{PageChoice, PageKind, PagesReport, Refusal};

/// Most bytes that one arena can have, just under 16 TiB: what the bookkeeping
/// can number.
pub(crate) const BYTES_MAX: u64 = Granules::TOTAL_MAX as u64 * GRANULE_BYTES as u64;

/// Most bytes that io_uring takes as one registered buffer
/// (`io_buffer_validate` in the kernel's `io_uring/rsrc.c`).
const REGION_BYTES_MAX: usize = 1 << 30;

/// Why an arena could not be built.
///
/// ```
/// use iolane::Arena;
/// use iolane::arena::ArenaError;
///
/// assert!(matches!(Arena::builder().build(), Err(ArenaError::Empty)));
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ArenaError {
    /// No size was given.
    #[error("an arena of 0 bytes; say how many with ArenaBuilder::bytes")]
    Empty,
    /// More than the bookkeeping can number.
    #[error("an arena of {bytes} bytes is over the limit of {BYTES_MAX}; ask for less")]
    TooLarge {
        /// Bytes asked for.
        bytes: u64,
    },
    /// The kind of pages that was insisted on is not to be had.
    #[error("{0}")]
    Refused(Refusal),
    /// Less memory is free than asked for.
    #[error(
        "an arena of {} is more than the {} of memory available; ask for less",
        Size(*bytes), Size(*available)
    )]
    OutOfMemory {
        /// Bytes asked for, rounded up to pages.
        bytes: u64,
        /// Bytes available, `MemAvailable` in `/proc/meminfo`.
        available: u64,
    },
    /// The kernel refused the mapping, or to populate it.
    #[error(
        "mapping {} for an arena: {cause}; ask for less, or raise this process's memory limits \
         (ulimit -v, cgroup memory.max)", Size(*bytes)
    )]
    Map {
        /// Bytes asked for, rounded up to pages.
        bytes: u64,
        /// The kernel's answer.
        cause: io::Error,
    },
}

/// Why a buffer could not be had.
///
/// ```
/// use iolane::Arena;
/// use iolane::arena::{BufferError, PageChoice};
///
/// let arena = Arena::builder().bytes(1 << 20).pages(PageChoice::Plain).build().unwrap();
/// let held = arena.buffer(512 << 10).unwrap();
/// match arena.buffer(1 << 20) {
///     Err(BufferError::Exhausted { free_bytes, free_largest_bytes, .. }) => {
///         assert_eq!((free_bytes, free_largest_bytes), (512 << 10, 512 << 10));
///     }
///     other => panic!("{other:?}"),
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum BufferError {
    /// No free block of the arena is large enough.
    #[error(
        "no {} buffer left in the arena: {} free, the largest block {}; \
         drop buffers or build a larger arena",
        Size(*len as u64), Size(*free_bytes), Size(*free_largest_bytes)
    )]
    Exhausted {
        /// Bytes asked for.
        len: usize,
        /// Bytes free in the arena, together.
        free_bytes: u64,
        /// The largest buffer that the arena can still give.
        free_largest_bytes: u64,
    },
    /// Not a power of two, or more than can be had.
    #[error("alignment {align} is not a power of two of at most {align_max}; ask for less")]
    Alignment {
        /// Alignment asked for, in bytes.
        align: usize,
        /// Largest alignment, in bytes.
        align_max: usize,
    },
    /// This process is a child of the one that made the arena.
    #[error("the arena belongs to the process that forked this one; make one after the fork")]
    Forked,
    /// More than an address space holds.
    #[error("a buffer of {len} bytes is larger than the address space; ask for less")]
    TooLarge {
        /// Bytes asked for.
        len: usize,
    },
}

/// A large mapping, on huge pages where possible, that hands out [`Buffer`]s.
///
/// A clone is another handle to the same memory, which is unmapped when the
/// last handle and the last buffer are gone. All methods may be called from
/// any thread; none blocks but for a short lock. A child of `fork(2)` has a copy
/// of the buffers, and gets no further ones ([`BufferError::Forked`]).
///
/// A buffer costs its length rounded up to 4 KiB. One of 16 KiB is had and
/// returned in constant time, others in time proportional to the number of
/// block sizes (at most 32). Free neighbours join again, as buddies do: blocks
/// are aligned to their size. So one buffer is never larger than the largest
/// power of two in the arena, and a buffer of 2^k bytes or less fits whenever
/// [`BufferError::Exhausted`] would report a largest block of 2^k.
///
/// ```
/// use iolane::Arena;
///
/// let arena = Arena::builder().bytes(8 << 20).build()?;
/// let mut page = arena.buffer(16384).unwrap();
/// page[..5].copy_from_slice(b"hello");
/// assert_eq!(page.as_ptr() as usize % 4096, 0);
/// drop(arena);
/// assert_eq!(&page[..5], b"hello"); // a buffer may outlive the handle
/// # Ok::<(), iolane::arena::ArenaError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Arena {
    shared: Arc<Shared>,
}

impl Arena {
    /// Starts with nothing asked for; see [`ArenaBuilder::bytes`].
    pub fn builder() -> ArenaBuilder {
        ArenaBuilder::default()
    }

    /// A buffer of `len` bytes, aligned to 4096.
    ///
    /// Its contents are zero, or what an earlier buffer left there.
    ///
    /// # Errors
    /// [`BufferError::Exhausted`] when no free block is large enough.
    pub fn buffer(&self, len: usize) -> Result<Buffer, BufferError> {
        self.buffer_aligned(len, GRANULE_BYTES)
    }

    /// A buffer of `len` bytes at a multiple of `align`, a power of two of at
    /// most the huge page size (2 MiB for transparent and plain pages).
    ///
    /// # Errors
    /// [`BufferError::Exhausted`], or [`BufferError::Alignment`].
    pub fn buffer_aligned(&self, len: usize, align: usize) -> Result<Buffer, BufferError> {
        let align_max = self.shared.mapping.align();
        if !align.is_power_of_two() || align > align_max {
            return Err(BufferError::Alignment { align, align_max });
        }
        Buffer::in_arena(&self.shared, len, align)
    }

    /// The pages that the arena stands on, as measured when it was built.
    pub fn pages(&self) -> &PagesReport {
        &self.shared.report
    }

    /// Size in bytes: what was asked for, rounded up to pages.
    pub fn bytes(&self) -> u64 {
        self.shared.mapping.len() as u64
    }

    /// Bytes not in any buffer; none in a child of the process that made it.
    pub fn free_bytes(&self) -> u64 {
        match self.shared.process.is_this() {
            true => bytes_of(self.shared.granules().free()),
            false => 0,
        }
    }

    /// The whole arena in pieces of at most 1 GiB, in address order: what
    /// io_uring registers as fixed buffers. Valid as long as a handle or a
    /// buffer of the arena lives. A buffer of up to 1 GiB lies in one piece.
    ///
    /// ```
    /// use iolane::Arena;
    ///
    /// let arena = Arena::builder().bytes(1 << 20).build()?;
    /// let buffer = arena.buffer(4096).unwrap();
    /// let at = buffer.as_ptr() as usize;
    /// let region = arena.regions().find(|(start, len)| {
    ///     let start = start.as_ptr() as usize;
    ///     (start..start + len).contains(&at)
    /// });
    /// assert!(region.is_some());
    /// # Ok::<(), iolane::arena::ArenaError>(())
    /// ```
    pub fn regions(&self) -> impl ExactSizeIterator<Item = (NonNull<u8>, usize)> {
        let (start, len) = (self.shared.mapping.start(), self.shared.mapping.len());
        (0..len.div_ceil(REGION_BYTES_MAX)).map(move |index| {
            let offset = index * REGION_BYTES_MAX;
            let address = start.map_addr(|start| start.saturating_add(offset));
            (address, REGION_BYTES_MAX.min(len - offset))
        })
    }
}

/// What an [`Arena`] shall be like.
///
/// ```
/// use iolane::Arena;
/// use iolane::arena::PageChoice;
///
/// let arena = Arena::builder()
///     .bytes(2 << 20)
///     .pages(PageChoice::Auto)
///     .build()?;
/// assert_eq!(arena.free_bytes(), arena.bytes());
/// # Ok::<(), iolane::arena::ArenaError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ArenaBuilder {
    bytes: u64,
    choice: PageChoice,
}

impl ArenaBuilder {
    /// Size in bytes; rounded up to whole pages of the kind got.
    pub fn bytes(mut self, bytes: u64) -> Self {
        self.bytes = bytes;
        self
    }

    /// Which pages; [`PageChoice::Auto`] unless said otherwise.
    pub fn pages(mut self, choice: PageChoice) -> Self {
        self.choice = choice;
        self
    }

    /// Maps the memory and brings all of it in, which takes the kernel a few
    /// tenths of a second per GiB.
    ///
    /// # Errors
    /// When a kind of pages was insisted on and refused, or memory is short.
    pub fn build(self) -> Result<Arena, ArenaError> {
        self.build_on(&Machine::this())
    }

    fn build_on(self, machine: &Machine) -> Result<Arena, ArenaError> {
        let (mapping, report) = acquire::acquire(machine, self.bytes, self.choice)?;
        let total = u32::try_from(mapping.len() / GRANULE_BYTES).expect("BYTES_MAX was checked");
        let granules = Mutex::new(Granules::new(total));
        let shared = Shared {
            mapping,
            granules,
            report,
            process: Process::this(),
        };
        Ok(Arena {
            shared: Arc::new(shared),
        })
    }
}

/// What the handles and the buffers of one arena hold together.
#[derive(Debug)]
pub(crate) struct Shared {
    mapping: Mapping,
    granules: Mutex<Granules>,
    report: PagesReport,
    /// In its children the lock may be held by a thread that is not there.
    process: Process,
}

impl Shared {
    /// Granules for `len` bytes at a multiple of `align`, a power of two.
    pub(crate) fn take(&self, len: usize, align: usize) -> Result<Run, BufferError> {
        // An empty buffer has an address too, so it costs a granule.
        let count = u32::try_from(len.div_ceil(GRANULE_BYTES).max(1));
        if !self.process.is_this() {
            return Err(BufferError::Forked);
        }
        let align_order = (align / GRANULE_BYTES).max(1).ilog2();
        let mut granules = self.granules();
        count
            .ok()
            .and_then(|count| granules.take(count, align_order))
            .ok_or_else(|| BufferError::Exhausted {
                len,
                free_bytes: bytes_of(granules.free()),
                free_largest_bytes: bytes_of(granules.free_largest()),
            })
    }

    /// First byte of a run that [`take`](Self::take) gave.
    pub(crate) fn address(&self, run: Run) -> NonNull<u8> {
        let offset = run.start as usize * GRANULE_BYTES;
        assert!(offset + run.count as usize * GRANULE_BYTES <= self.mapping.len());
        self.mapping
            .start()
            .map_addr(|start| start.saturating_add(offset))
    }

    /// Takes back a run. A child gives nothing out again.
    pub(crate) fn give(&self, run: Run) {
        if self.process.is_this() {
            self.granules().give(run);
        }
    }

    fn granules(&self) -> MutexGuard<'_, Granules> {
        // A panic under this lock is a broken invariant in `Granules`, which
        // its own assertions then report again.
        self.granules.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn bytes_of(granules: u32) -> u64 {
    u64::from(granules) * GRANULE_BYTES as u64
}

#[cfg(test)]
mod tests;
