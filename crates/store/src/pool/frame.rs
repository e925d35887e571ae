//! Places for pages in memory.

use super::primitives::RwLock;
use crate::ids::PageId;
use iolane::Buffer;
use parking_lot::{RwLockReadGuard, RwLockWriteGuard};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

/// How often a page was used, at most: two bits do (see `replacement`).
const FREQUENCY_MAX: u8 = 3;

/// What stands in a frame, under its latch.
pub(crate) struct Slot {
    /// The page; `None` while the frame is free or its page on the way.
    pub(crate) id: Option<PageId>,
    /// Its memory; `None` while the engine reads into it.
    pub(crate) buffer: Option<Buffer>,
}

impl Slot {
    pub(crate) fn bytes(&self) -> &[u8] {
        self.buffer.as_ref().expect("a page that is in memory")
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        self.buffer.as_mut().expect("a page that is in memory")
    }
}

/// A place for a page. On cache lines of its own: latches of neighbours are
/// taken by other threads.
#[repr(align(64))]
pub(crate) struct Frame {
    /// The page latch.
    latch: RwLock<Slot>,
    version: Version,
    page: AtomicU64,
    uses: AtomicU64,
    frequency: AtomicU8,
    flags: AtomicU8,
}

/// On a cache line of its own: who reads a copy looks at this alone, while
/// others latch the page.
#[repr(align(64))]
struct Version(AtomicU64);

/// Changed since it was last written.
pub(crate) const DIRTY: u8 = 1;
/// A copy of it is being written.
pub(crate) const WRITING: u8 = 2;
/// Never leaves memory.
pub(crate) const PINNED: u8 = 4;
/// A stream read it ahead of its consumer, who has not passed it.
pub(crate) const READ_AHEAD: u8 = 8;

impl Frame {
    pub(crate) fn new(buffer: Buffer) -> Frame {
        Frame {
            latch: RwLock::new(Slot {
                id: None,
                buffer: Some(buffer),
            }),
            version: Version(AtomicU64::new(0)),
            page: AtomicU64::new(u64::MAX),
            uses: AtomicU64::new(0),
            frequency: AtomicU8::new(0),
            flags: AtomicU8::new(0),
        }
    }

    /// Latches it for reading.
    pub(crate) fn read(&self) -> RwLockReadGuard<'_, Slot> {
        self.latch.read()
    }

    /// The same, but gives up after a while.
    pub(crate) fn try_read_for(&self, patience: Duration) -> Option<RwLockReadGuard<'_, Slot>> {
        self.latch.try_read_for(patience)
    }

    /// Latches it for changing. Copies of its page are void from now on.
    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, Slot> {
        let slot = self.latch.write();
        self.count_version();
        slot
    }

    /// The same, but does not wait.
    pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, Slot>> {
        let slot = self.latch.try_write();
        slot.inspect(|_| self.count_version())
    }

    /// The same, but gives up after a while.
    pub(crate) fn try_write_for(&self, patience: Duration) -> Option<RwLockWriteGuard<'_, Slot>> {
        let slot = self.latch.try_write_for(patience);
        slot.inspect(|_| self.count_version())
    }

    /// The latch is held exclusively: nobody else counts now.
    fn count_version(&self) {
        let version = &self.version.0;
        version.store(version.load(Ordering::Relaxed) + 1, Ordering::Release);
    }

    /// Another one after each exclusive latch.
    pub(crate) fn version(&self) -> u64 {
        self.version.0.load(Ordering::Acquire)
    }

    /// The page that the frame was last given to. A hint; the truth is in the
    /// slot and in the table.
    pub(crate) fn page(&self) -> PageId {
        let packed = self.page.load(Ordering::Acquire);
        PageId::new((packed >> 32) as u32, packed as u32)
    }

    /// Gives the frame to a page.
    pub(crate) fn assign(&self, id: PageId) {
        let packed = u64::from(id.space) << 32 | u64::from(id.page);
        self.page.store(packed, Ordering::Release);
        self.frequency.store(0, Ordering::Relaxed);
        self.clear(READ_AHEAD);
    }

    /// The page was latched. A lost update of two threads costs nothing.
    pub(crate) fn used(&self) {
        let uses = self.uses.load(Ordering::Relaxed);
        self.uses.store(uses + 1, Ordering::Relaxed);
        self.keep();
    }

    /// The page is in use.
    pub(crate) fn keep(&self) {
        let now = self.frequency.load(Ordering::Relaxed);
        if now < FREQUENCY_MAX {
            self.frequency.store(now + 1, Ordering::Relaxed);
        }
    }

    /// How often a page was latched in this frame, about.
    pub(crate) fn uses(&self) -> u64 {
        self.uses.load(Ordering::Relaxed)
    }

    pub(crate) fn frequency(&self) -> u8 {
        self.frequency.load(Ordering::Relaxed)
    }

    pub(crate) fn set_frequency(&self, frequency: u8) {
        self.frequency.store(frequency, Ordering::Relaxed);
    }

    pub(crate) fn is(&self, flags: u8) -> bool {
        self.flags.load(Ordering::Acquire) & flags != 0
    }

    /// Sets flags; returns whether any of them was set before.
    pub(crate) fn set(&self, flags: u8) -> bool {
        self.flags.fetch_or(flags, Ordering::AcqRel) & flags != 0
    }

    /// Clears flags; returns whether any of them was set before.
    pub(crate) fn clear(&self, flags: u8) -> bool {
        self.flags.fetch_and(!flags, Ordering::AcqRel) & flags != 0
    }
}
