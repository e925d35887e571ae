//! Copies of branches that a thread keeps for itself.
//!
//! A shared latch is a write to memory that all readers share. The root of a
//! tree is latched by every descent: on its latch readers take turns, although
//! nobody changes the page. Optimistic lock coupling (Leis, Scheibner, Kemper
//! and Neumann, "The ART of Practical Synchronization", DaMoN 2016) reads
//! without a latch and looks at a version afterwards. Safe code cannot read
//! what another thread may be writing, so here each thread reads a copy that it
//! made under the latch, for as long as the frame's version is the same: who
//! latches a frame exclusively gives it another one first.
//!
//! A copy costs as much as some dozens of latches, so what a thread rarely
//! comes to, and what often changes, is latched as ever.

use super::frame::Frame;
use super::{Pool, SharedPage};
use crate::ids::PageId;
use std::cell::RefCell;

/// Pages of which a thread has copies at most: root and branches of some small
/// tables or of one with a million rows, in a quarter of a processor's second
/// cache.
const COPIES_MAX: usize = 16;
/// A copy stays until others were wanted in its place so many times more often.
const CREDIT: u8 = 64;
/// What it loses when its page was changed.
const CHANGE_COST: u8 = 8;

thread_local! {
    static COPIES: RefCell<[Copy; COPIES_MAX]> = RefCell::default();
}

/// Whether a page is what it was when a copy of it was made.
#[derive(Clone, Copy, Debug)]
pub struct Stamp {
    pub(crate) frame: u32,
    pub(crate) version: u64,
}

#[derive(Default)]
struct Copy {
    /// Which; without bytes none.
    of: Option<(u64, PageId)>,
    frame: u32,
    version: u64,
    credit: u8,
    bytes: Vec<u8>,
}

/// Neighbours, as the branches of a loaded tree are, get different places.
fn place(id: PageId) -> usize {
    (id.page ^ (id.page / COPIES_MAX as u32) ^ id.space) as usize % COPIES_MAX
}

impl Pool {
    /// What `read` finds in this thread's copy of a page, if there is one and
    /// the page is still the same.
    #[inline]
    pub(crate) fn copied<T>(
        &self,
        id: PageId,
        read: impl FnOnce(&[u8]) -> T,
    ) -> Option<(T, Stamp)> {
        let found = COPIES.try_with(|copies| {
            let copy = &mut copies.borrow_mut()[place(id)];
            if copy.of != Some((self.number, id)) {
                copy.credit = copy.credit.saturating_sub(1);
                return None;
            }
            let frame: &Frame = &self.frames[copy.frame as usize];
            if frame.version() != copy.version {
                copy.credit = copy.credit.saturating_sub(CHANGE_COST);
                return None;
            }
            copy.credit = CREDIT.min(copy.credit + 1);
            // It is in use, though nobody latches it.
            frame.keep();
            let stamp = Stamp {
                frame: copy.frame,
                version: copy.version,
            };
            Some((read(&copy.bytes), stamp))
        });
        // None in a thread that is ending.
        found.ok().flatten()
    }

    /// Whether a page is what it was when the copy was made.
    #[inline]
    pub(crate) fn is_current(&self, stamp: Stamp) -> bool {
        self.frames[stamp.frame as usize].version() == stamp.version
    }

    /// Copies a page for this thread, if it is worth it.
    #[inline]
    pub(crate) fn offer(&self, page: &SharedPage<'_>) {
        let Some(id) = page.slot.id else { return };
        let _ = COPIES.try_with(|copies| {
            let copy = &mut copies.borrow_mut()[place(id)];
            if copy.credit == 0 {
                copy.of = Some((self.number, id));
                copy.frame = page.frame;
                // Under the latch: what is copied is of this version.
                copy.version = self.frames[page.frame as usize].version();
                copy.credit = CREDIT;
                copy.bytes.clear();
                copy.bytes.extend_from_slice(page);
            }
        });
    }
}
