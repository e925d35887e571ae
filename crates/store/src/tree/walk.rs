//! The numbers of a range's leaves, from the branches alone: what read-ahead
//! asks for before a cursor comes there.

use super::cursor::{Direction, begins_after, ends_before};
use super::descend::{Aim, Fences};
use super::{Interrupt, Tree, TreeError, until_loaded};
use crate::access::Pages;
use crate::ids::PageId;
use crate::page::header;
use crate::page::slotted::Slotted;
use std::ops::Bound;

/// Walks the leaves of a range of keys without reading any of them, a branch at
/// a time. The numbers may be out of date when they are used: they are hints,
/// never what a record is looked for by.
///
/// ```
/// use iolane_store::access::memory::{MemoryOptions, MemoryPages};
/// use iolane_store::tree::{Direction, Tree};
/// use std::ops::Bound;
///
/// let pages = MemoryPages::new(MemoryOptions::default());
/// let tree = Tree::create(&pages, MemoryPages::segment(0), MemoryPages::segment(1), 7)?;
/// let records = (0..1000u32).map(|number| (number.to_be_bytes(), [0; 100]));
/// tree.bulk_load(&pages, records, 100)?;
/// let mut walk = tree.leaves(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
/// let mut leaves = Vec::new();
/// while walk.next(&pages, &mut leaves)? {}
/// assert_eq!(leaves.len(), 7);
/// # Ok::<(), iolane_store::tree::TreeError>(())
/// ```
pub struct Leaves {
    tree: Tree,
    direction: Direction,
    lower: Bound<Vec<u8>>,
    upper: Bound<Vec<u8>>,
    /// The level whose pages are named, 0 for leaves.
    level: u8,
    fences: Fences,
    done: bool,
}

impl Tree {
    /// The leaves of a range, in the order in which a cursor comes to them.
    pub fn leaves(&self, lower: Bound<&[u8]>, upper: Bound<&[u8]>, direction: Direction) -> Leaves {
        Leaves {
            tree: *self,
            direction,
            lower: lower.map(<[u8]>::to_vec),
            upper: upper.map(<[u8]>::to_vec),
            level: 0,
            fences: Fences::default(),
            done: false,
        }
    }

    /// All pages of a level below the root's.
    pub(super) fn pages_of_level(&self, level: u8) -> Leaves {
        let mut pages = self.leaves(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
        pages.level = level;
        pages
    }
}

impl Leaves {
    /// The branches right above those leaves that have not been named.
    pub(crate) fn branches(&self) -> Leaves {
        Leaves {
            tree: self.tree,
            direction: self.direction,
            lower: self.lower.clone(),
            upper: self.upper.clone(),
            level: self.level + 1,
            fences: Fences::default(),
            done: self.done,
        }
    }

    /// The tree's root and the key at which an ascending walk ends, if it ends
    /// right before one.
    pub(crate) fn end(&self) -> Option<(PageId, &[u8])> {
        match (self.direction, &self.upper) {
            (Direction::Forward, Bound::Excluded(end)) => Some((self.tree.root, end)),
            _ => None,
        }
    }

    /// Appends the leaves below the next branch: up to some hundreds or
    /// thousands, as many as a branch has children. `false` behind the last.
    /// Does not wait.
    ///
    /// # Errors
    /// `Interrupt::Miss` if a branch is not in memory; after loading it the
    /// walk goes on where it was.
    pub fn try_next<P: Pages>(
        &mut self,
        pages: &P,
        out: &mut Vec<PageId>,
    ) -> Result<bool, Interrupt> {
        if self.done {
            return Ok(false);
        }
        let aim = match self.direction {
            Direction::Forward => Aim::first(&self.lower),
            Direction::Backward => Aim::last(&self.upper),
        };
        self.fences.reset();
        let fences = &mut self.fences;
        let parent_level = self.level + 1;
        let (branch, id) = self
            .tree
            .shared_at(pages, aim, parent_level, |slots, slot| {
                fences.narrow(slots, slot)
            })?;
        if header::level(&branch) < parent_level {
            // The root is the only leaf.
            out.push(id);
            self.done = true;
            return Ok(true);
        }
        let slots = Slotted::new(&branch);
        let first = Aim::first(&self.lower).child_slot(slots);
        let last = Aim::last(&self.upper).child_slot(slots);
        // An empty range may end before it begins.
        let children = (first..last + 1).map(|slot| slots.child(slot));
        match self.direction {
            Direction::Forward => out.extend(children),
            Direction::Backward => out.extend(children.rev()),
        }
        drop(branch);
        self.done = match self.direction {
            Direction::Forward => ends_before(self.fences.upper(), &self.upper, &mut self.lower),
            Direction::Backward => begins_after(&self.fences.lower, &self.lower, &mut self.upper),
        };
        Ok(true)
    }

    /// The same, but waits for branches that are missing.
    ///
    /// # Errors
    /// [`TreeError::Pages`], [`TreeError::Damaged`].
    pub fn next<P: Pages>(&mut self, pages: &P, out: &mut Vec<PageId>) -> Result<bool, TreeError> {
        until_loaded(pages, || self.try_next(pages, out))
    }
}
