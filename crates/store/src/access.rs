//! What trees, undo and space management need of whoever holds the pages, and
//! the rules that keep them from waiting for each other.
//!
//! 1. Nobody waits for I/O while holding a latch. A page that is not in memory
//!    is a [`Miss`]: drop every latch, [`Pages::load`] it, start over.
//! 2. Latches are taken from the root down; siblings from left to right, under
//!    their parent's exclusive latch. Pages that record who has which page come
//!    after all others, as a mini-transaction commits, by ascending number.
//! 3. A mini-transaction fails only before its first change.

pub mod memory;

use crate::ids::{Lsn, PageId, SegmentId};
use crate::page::Op;
use crate::pool::Stamp;
use crate::stream::ReadAhead;
use std::ops::Deref;

/// A page that must be read first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Miss(pub PageId);

/// Why pages cannot be had.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PagesError {
    /// A page could not be read, or is damaged and has no copy.
    #[error("{page} cannot be read: {reason}")]
    Unreadable {
        /// Which.
        page: PageId,
        /// Why.
        reason: String,
    },
    /// The file system has no room for more pages.
    #[error("no room for more pages in space {space}: {reason}")]
    NoSpace {
        /// Which tablespace.
        space: u32,
        /// What the system said.
        reason: String,
    },
    /// The store has failed (a failed sync) and must be reopened.
    #[error("the store has failed and must be reopened: {reason}")]
    Failed {
        /// The first cause.
        reason: String,
    },
}

/// Holder of pages: the buffer pool, or memory in tests.
pub trait Pages: Send + Sync {
    /// A page under a shared latch. Derefs to its bytes.
    type Shared<'a>: Deref<Target = [u8]>
    where
        Self: 'a;
    /// Changes that become durable together or not at all.
    type Mini<'a>: MiniTransaction
    where
        Self: 'a;

    /// Bytes of a page.
    fn page_bytes(&self) -> usize;

    /// Latches a page that is in memory for reading. Waits for its writer, who
    /// never waits for I/O.
    ///
    /// # Errors
    /// [`Miss`] when it is not in memory.
    fn shared(&self, id: PageId) -> Result<Self::Shared<'_>, Miss>;

    /// What `read` finds in a copy of a page that this thread has, if the page
    /// was still the same just now. Takes no latch, so whoever goes on from
    /// what it found latches or looks at that first, and asks then whether
    /// this page [is the same](Self::is_current) still.
    fn copied<T>(&self, id: PageId, read: impl FnOnce(&[u8]) -> T) -> Option<(T, Stamp)> {
        let _ = (id, read);
        None
    }

    /// Whether the page of a copy is the same as when the copy was made: nobody
    /// had it under an exclusive latch since.
    fn is_current(&self, stamp: Stamp) -> bool {
        let _ = stamp;
        false
    }

    /// A branch that this thread comes through, and may keep a copy of.
    fn offer(&self, page: &Self::Shared<'_>) {
        let _ = page;
    }

    /// Reads a page into memory and waits. The caller holds no latch. Whoever
    /// comes second waits for the same read, which is promoted.
    ///
    /// # Errors
    /// [`PagesError`].
    fn load(&self, miss: Miss) -> Result<(), PagesError>;

    /// Waits until there are frames enough for any one operation, if frames are
    /// what there are few of. The caller holds no latch.
    ///
    /// # Errors
    /// [`PagesError`].
    fn make_room(&self) -> Result<(), PagesError> {
        Ok(())
    }

    /// What reads pages ahead of need; `None` where none are ever missing.
    fn read_ahead(&self) -> Option<ReadAhead<'_>> {
        None
    }

    /// Begins a mini-transaction that may allocate up to `pages` pages in each
    /// of `segments`, and free pages of these. Makes room for them and for its log first, and may wait
    /// for both. The caller holds no latch.
    ///
    /// # Errors
    /// [`PagesError`].
    fn begin(&self, segments: &[SegmentId], pages: u32) -> Result<Self::Mini<'_>, PagesError>;
}

/// Changes of some pages that become durable together or not at all. Dropped
/// without a change it releases its latches; dropped after one it is a
/// program's error, and panics.
pub trait MiniTransaction {
    /// Latches a page exclusively until [`commit`](Self::commit). Again is
    /// fine.
    ///
    /// # Errors
    /// [`Miss`] when it is not in memory.
    fn exclusive(&mut self, id: PageId) -> Result<(), Miss>;

    /// Bytes of a page that it has latched.
    ///
    /// # Panics
    /// If it has not.
    fn page(&self, id: PageId) -> &[u8];

    /// Gives up the latch of a page that it has not changed.
    fn release(&mut self, id: PageId);

    /// Changes a page that it has latched.
    ///
    /// # Panics
    /// If it has not, or the change does not fit: callers look first.
    fn apply(&mut self, id: PageId, op: &Op<'_>);

    /// A new page of a segment, latched exclusively, contents undefined until
    /// formatted; near `hint` where there is room.
    ///
    /// # Panics
    /// Beyond what [`Pages::begin`] reserved.
    fn allocate(&mut self, segment: SegmentId, hint: Option<PageId>) -> PageId;

    /// Gives a page back, of a segment that [`Pages::begin`] was told. Its contents may be overwritten after commit.
    fn free(&mut self, segment: SegmentId, id: PageId);

    /// Logs all changes as one, releases all latches. Returns the position up
    /// to which the log must be durable for these changes to be. Does not wait
    /// for that.
    fn commit(self) -> Lsn;
}
