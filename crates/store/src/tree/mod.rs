//! B+trees over [`Pages`]: keys are bytes in the order of `memcmp`, values are
//! bytes.
//!
//! One page, the root, keeps its number for good; when it is full its records
//! move to a new page below it. Pages do not point at their neighbours: a
//! cursor finds the next leaf by a descent to the fence, the separator that it
//! met on the way down. So nothing but its parent knows a page, and a split or
//! a merge concerns three pages.
//!
//! A change of a record, or of several in one leaf, latches that leaf alone. Where a leaf lacks room it is
//! split first, in a mini-transaction of its own that changes no record, and
//! the change begins again; a full parent is split before its child in the same
//! way. Likewise a leaf that a removal leaves nearly empty is merged with a
//! neighbour afterwards. Every such mini-transaction latches a parent and two
//! children at most and logs less than two pages, whatever the tree's height,
//! and all of them leave a tree that is in order: a crash between them costs
//! nothing but a page with room to spare.
//!
//! What starts over does so because a page was missing, and has then been read
//! and is the newest in memory; or because a page lacked room, and has then
//! been split; or because the root changed its level. It goes on starting over
//! only as long as other threads evict or fill the very page in between, each
//! of which is progress of theirs.

mod bulk;
mod check;
mod cursor;
mod descend;
mod distinct;
mod merge;
#[cfg(all(test, feature = "shuttle"))]
mod model;
mod modify;
mod split;
mod stats;
mod walk;

pub use bulk::Loaded;
pub(crate) use bulk::TreeLoader;
pub use check::{CheckReport, Finding, TreeFault};
pub use cursor::{Cursor, Direction, Record};
pub(crate) use cursor::{Watch, as_slice, is_within};
pub(crate) use distinct::Distinct;
pub use modify::{Decision, Modified, ModifyError, Reserve};
pub(crate) use modify::{LatchedLeaf, Stop};
pub(crate) use stats::SpotAim;
pub use stats::TreeStats;
pub use walk::Leaves;

use crate::access::{MiniTransaction, Pages, PagesError};
use crate::attempt::{Loads, until_done};
use crate::ids::{PageId, SegmentId};
use crate::page::header::PageKind;
use crate::page::slotted::{Slotted, key_bytes_max, value_bytes_max};
use crate::page::{Op, header};

/// Levels that a tree can have. With the least fan-out of four, more pages
/// than a tablespace has; nothing but damage makes it higher.
pub const LEVELS_MAX: u8 = 20;

/// A B+tree: where it begins, and where its pages come from. What it holds is
/// in the pages alone; copies are the same tree.
///
/// ```
/// use iolane_store::access::memory::{MemoryOptions, MemoryPages};
/// use iolane_store::tree::Tree;
///
/// let pages = MemoryPages::new(MemoryOptions::default());
/// let tree = Tree::create(&pages, MemoryPages::segment(0), MemoryPages::segment(1), 7)?;
/// assert!(tree.insert(&pages, b"key", b"value")?);
/// assert_eq!(tree.get(&pages, b"key", |value| value.len())?, Some(5));
/// # Ok::<(), iolane_store::tree::TreeError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Its root, for good. A page of `branch_segment` even while it is a leaf.
    pub root: PageId,
    /// Where leaves come from.
    pub leaf_segment: SegmentId,
    /// Where branches come from.
    pub branch_segment: SegmentId,
    /// Owner that its pages name in their headers.
    pub owner: u64,
}

/// Why a tree cannot do what it was asked.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    /// Its pages cannot be had.
    #[error(transparent)]
    Pages(#[from] PagesError),
    /// A page is not what its parent says.
    #[error("{page} is damaged: {reason}; run a check")]
    Damaged {
        /// Which.
        page: PageId,
        /// What is wrong.
        reason: String,
    },
    /// Whoever asked for a check wants it no longer.
    #[error("stopped before the end")]
    Stopped,
    /// The key cannot be stored.
    #[error("a key of {bytes} bytes: at most {max} fit")]
    KeyTooLong {
        /// Its bytes.
        bytes: usize,
        /// Bytes of the longest.
        max: usize,
    },
    /// The value cannot be stored beside its key: it belongs on overflow pages.
    #[error("a value of {bytes} bytes: at most {max} fit beside this key")]
    ValueTooLong {
        /// Its bytes.
        bytes: usize,
        /// Bytes of the longest beside this key.
        max: usize,
    },
    /// A load into a tree that holds records.
    #[error("the tree is not empty: a load is for new trees")]
    NotEmpty,
    /// A load of keys that do not ascend.
    #[error("key {position} of the load is not above the one before it")]
    Unsorted {
        /// Which, from 0.
        position: u64,
    },
}

/// Why an attempt that must not wait has not ended.
pub type Interrupt = crate::attempt::Interrupt<TreeError>;

impl From<TreeError> for Interrupt {
    fn from(error: TreeError) -> Interrupt {
        Interrupt::Error(error)
    }
}

/// Repeats an attempt, which holds no latch when it ends, until no page is
/// missing.
fn until_loaded<P: Pages, T>(
    pages: &P,
    attempt: impl FnMut() -> Result<T, Interrupt>,
) -> Result<T, TreeError> {
    until_done(pages, attempt)
}

/// What pages of a level are for.
fn kind_of(level: u8) -> PageKind {
    if level == 0 {
        PageKind::Leaf
    } else {
        PageKind::Branch
    }
}

impl Tree {
    /// An empty tree, in a mini-transaction of its own. `owner` is what its
    /// pages name as theirs.
    ///
    /// # Errors
    /// [`TreeError::Pages`].
    pub fn create<P: Pages>(
        pages: &P,
        leaf_segment: SegmentId,
        branch_segment: SegmentId,
        owner: u64,
    ) -> Result<Tree, TreeError> {
        let mut mini = pages.begin(&[branch_segment], 1)?;
        let tree = Tree::create_in(&mut mini, leaf_segment, branch_segment, owner);
        mini.commit();
        Ok(tree)
    }

    /// The same in the caller's mini-transaction, in which one page of
    /// `branch_segment` is reserved.
    pub fn create_in(
        mini: &mut impl MiniTransaction,
        leaf_segment: SegmentId,
        branch_segment: SegmentId,
        owner: u64,
    ) -> Tree {
        let root = mini.allocate(branch_segment, None);
        let tree = Tree {
            root,
            leaf_segment,
            branch_segment,
            owner,
        };
        mini.apply(root, &tree.formatted(0));
        tree
    }

    /// Calls `read` with the value of `key` under the leaf's latch, so briefly.
    /// `None` if there is no such key. Waits for pages that are missing.
    ///
    /// # Errors
    /// [`TreeError::Pages`], [`TreeError::Damaged`].
    pub fn get<P: Pages, T>(
        &self,
        pages: &P,
        key: &[u8],
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, TreeError> {
        self.get_watched(pages, key, &mut |_| {}, read)
    }

    /// The same, and tells for which pages it has to wait.
    pub(crate) fn get_watched<P: Pages, T>(
        &self,
        pages: &P,
        key: &[u8],
        waits_for: &mut impl FnMut(PageId),
        read: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, TreeError> {
        let mut loads = Loads::default();
        loop {
            match self.leaf(pages, key) {
                Ok(leaf) => {
                    let slots = Slotted::new(&leaf);
                    let found = slots.search(key).ok();
                    return Ok(found.map(|slot| read(slots.value(slot))));
                }
                Err(Interrupt::Miss(miss)) => {
                    waits_for(miss.0);
                    loads.load(pages, miss)?;
                }
                Err(Interrupt::Error(error)) => return Err(error),
            }
        }
    }

    /// Number of the leaf in which `key` is or would be, from the branches
    /// alone: what a read-ahead collects. Does not wait.
    ///
    /// # Errors
    /// `Interrupt::Miss` if a branch is not in memory.
    pub fn leaf_number<P: Pages>(&self, pages: &P, key: &[u8]) -> Result<PageId, Interrupt> {
        let (page, id) = self.shared_at(pages, descend::Aim::At(key), 1, |_, _| {})?;
        if header::level(&page) == 0 {
            return Ok(id);
        }
        let slots = Slotted::new(&page);
        Ok(slots.child(slots.child_slot_at(key)))
    }

    /// Bytes of the longest key.
    pub fn key_bytes_max<P: Pages>(pages: &P) -> usize {
        key_bytes_max(pages.page_bytes())
    }

    /// Bytes of the longest value beside a key of `key_bytes`. What is longer
    /// belongs on overflow pages.
    pub fn value_bytes_max<P: Pages>(pages: &P, key_bytes: usize) -> usize {
        value_bytes_max(pages.page_bytes(), key_bytes)
    }

    fn check_lengths<P: Pages>(pages: &P, key: &[u8], value_bytes: usize) -> Result<(), TreeError> {
        let max = Tree::key_bytes_max(pages);
        if key.len() > max {
            return Err(TreeError::KeyTooLong {
                bytes: key.len(),
                max,
            });
        }
        let max = Tree::value_bytes_max(pages, key.len());
        if value_bytes > max {
            return Err(TreeError::ValueTooLong {
                bytes: value_bytes,
                max,
            });
        }
        Ok(())
    }

    /// The change that makes a page an empty one of a level.
    fn formatted(&self, level: u8) -> Op<'static> {
        Op::Format {
            kind: kind_of(level),
            level,
            owner: self.owner,
        }
    }

    /// Where pages of a level come from.
    fn segment_of(&self, level: u8) -> SegmentId {
        if level == 0 {
            self.leaf_segment
        } else {
            self.branch_segment
        }
    }
}
