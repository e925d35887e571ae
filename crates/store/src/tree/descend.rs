//! The ways from the root down to a page, hand over hand: the latch of a child
//! is taken under that of its parent, so that no split or merge, which has the
//! parent exclusively, comes in between. Where the thread has copies of the
//! uppermost branches, these need no latch: that the copied parent is still the
//! same when its child is latched says as much.

use super::{Interrupt, LEVELS_MAX, Tree, TreeError, kind_of};
use crate::access::{MiniTransaction, Pages};
use crate::ids::PageId;
use crate::page::header;
use crate::page::slotted::Slotted;
use crate::pool::Stamp;
use std::ops::Bound;

/// Which way to take at a branch.
#[derive(Clone, Copy)]
pub(super) enum Aim<'k> {
    /// To where the keys from this one on begin.
    At(&'k [u8]),
    /// To where the keys before this one end.
    Before(&'k [u8]),
    /// To the last of all.
    Last,
}

impl<'k> Aim<'k> {
    /// To the first key of a range.
    pub(super) fn first(lower: &'k Bound<Vec<u8>>) -> Aim<'k> {
        match lower {
            Bound::Included(key) | Bound::Excluded(key) => Aim::At(key),
            Bound::Unbounded => Aim::At(&[]),
        }
    }

    /// To the last key of a range.
    pub(super) fn last(upper: &'k Bound<Vec<u8>>) -> Aim<'k> {
        match upper {
            Bound::Included(key) => Aim::At(key),
            Bound::Excluded(key) => Aim::Before(key),
            Bound::Unbounded => Aim::Last,
        }
    }

    /// The slot of a branch to go on with.
    pub(super) fn child_slot(self, slots: Slotted<'_>) -> usize {
        match self {
            Aim::At(key) => slots.child_slot_at(key),
            Aim::Before(key) => slots.child_slot_before(key),
            Aim::Last => slots.count() - 1,
        }
    }
}

/// Between which keys a page lies.
#[derive(Default)]
pub(super) struct Fences {
    /// The least key that it may have.
    pub(super) lower: Vec<u8>,
    /// The least key above all that it may have, if there is one.
    upper: Vec<u8>,
    bounded: bool,
}

impl Fences {
    /// Those of the root.
    pub(super) fn reset(&mut self) {
        self.lower.clear();
        self.bounded = false;
    }

    /// Goes down through a slot of a branch.
    pub(super) fn narrow(&mut self, slots: Slotted<'_>, slot: usize) {
        if slot > 0 {
            self.lower.clear();
            self.lower.extend_from_slice(slots.key(slot));
        }
        if slot + 1 < slots.count() {
            self.upper.clear();
            self.upper.extend_from_slice(slots.key(slot + 1));
            self.bounded = true;
        }
    }

    /// See there.
    pub(super) fn upper(&self) -> Option<&[u8]> {
        self.bounded.then_some(&self.upper[..])
    }
}

/// A page that copies of branches lead to.
#[derive(Clone, Copy)]
struct ByCopies {
    id: PageId,
    level: u8,
    /// It is there as long as this is the same.
    parent: Stamp,
}

impl Tree {
    /// The leaf of `key` under a shared latch.
    pub(super) fn leaf<'p, P: Pages>(
        &self,
        pages: &'p P,
        key: &[u8],
    ) -> Result<P::Shared<'p>, Interrupt> {
        let (leaf, _) = self.shared_for(pages, key, 0)?;
        Ok(leaf)
    }

    /// A page of `level` on the way to `key` under a shared latch; the root, if
    /// it is below that.
    fn shared_for<'p, P: Pages>(
        &self,
        pages: &'p P,
        key: &[u8],
        level: u8,
    ) -> Result<(P::Shared<'p>, PageId), Interrupt> {
        let (mut page, mut id) = match self.begin_with_copies(pages, key, level)? {
            Some(begun) => begun,
            None => {
                let page = pages.shared(self.root)?;
                self.expect(&page, self.root, None)?;
                (page, self.root)
            }
        };
        while header::level(&page) > level {
            pages.offer(&page);
            let slots = Slotted::new(&page);
            let below = header::level(&page) - 1;
            id = slots.child(slots.child_slot_at(key));
            let child = pages.shared(id)?;
            self.expect(&child, id, Some(below))?;
            page = child;
        }
        Ok((page, id))
    }

    /// The page below the last of the branches on the way to `key`, but not
    /// below `level`, of which this thread has copies. `None`: it has none, or
    /// something has changed.
    fn begin_with_copies<'p, P: Pages>(
        &self,
        pages: &'p P,
        key: &[u8],
        level: u8,
    ) -> Result<Option<(P::Shared<'p>, PageId)>, Interrupt> {
        let Some(found) = self.child_by_copies(pages, key, level) else {
            return Ok(None);
        };
        let page = pages.shared(found.id);
        // After the latch, or the look that found no such page: who changes
        // both has the parent first.
        if !pages.is_current(found.parent) {
            return Ok(None);
        }
        let page = page?;
        self.expect(&page, found.id, Some(found.level))?;
        Ok(Some((page, found.id)))
    }

    /// As far as copies go on the way to `key`, but not below `level`.
    fn child_by_copies<P: Pages>(&self, pages: &P, key: &[u8], level: u8) -> Option<ByCopies> {
        let mut found: Option<ByCopies> = None;
        loop {
            let id = found.as_ref().map_or(self.root, |found| found.id);
            let below = pages.copied(id, |page| {
                let here = header::level(page);
                let slots = Slotted::new(page);
                (here > level).then(|| (slots.child(slots.child_slot_at(key)), here - 1))
            });
            let Some((below, stamp)) = below else {
                return found;
            };
            // After this one was seen to be the same, its parent must be.
            if found.is_some_and(|found| !pages.is_current(found.parent)) {
                return None;
            }
            let Some((id, level_of_child)) = below else {
                return found;
            };
            found = Some(ByCopies {
                id,
                level: level_of_child,
                parent: stamp,
            });
            if level_of_child == level {
                return found;
            }
        }
    }

    /// A page of `level` under a shared latch; the root, if it is below that.
    /// Tells `pass` the slot that it takes in each branch above.
    pub(super) fn shared_at<'p, P: Pages>(
        &self,
        pages: &'p P,
        aim: Aim<'_>,
        level: u8,
        mut pass: impl FnMut(Slotted<'_>, usize),
    ) -> Result<(P::Shared<'p>, PageId), Interrupt> {
        let mut id = self.root;
        let mut page = pages.shared(id)?;
        self.expect(&page, id, None)?;
        while header::level(&page) > level {
            let slots = Slotted::new(&page);
            let slot = aim.child_slot(slots);
            pass(slots, slot);
            let below = header::level(&page) - 1;
            id = slots.child(slot);
            let child = pages.shared(id)?;
            self.expect(&child, id, Some(below))?;
            page = child;
        }
        Ok((page, id))
    }

    /// Latches a page of `level` exclusively and nothing else. `None`, and no
    /// latch, if the tree is not so high.
    pub(super) fn exclusive_at<'p, P: Pages>(
        &self,
        pages: &'p P,
        mini: &mut P::Mini<'p>,
        key: &[u8],
        level: u8,
    ) -> Result<Option<PageId>, Interrupt> {
        loop {
            let (page, _) = self.shared_for(pages, key, level + 1)?;
            let here = header::level(&page);
            if here < level {
                return Ok(None);
            }
            if here > level {
                let slots = Slotted::new(&page);
                let id = slots.child(slots.child_slot_at(key));
                mini.exclusive(id)?;
                drop(page);
                self.expect(mini.page(id), id, Some(level))?;
                return Ok(Some(id));
            }
            // The root itself. It has no parent to hold on to, so it may change
            // its level before it is latched again.
            drop(page);
            mini.exclusive(self.root)?;
            self.expect(mini.page(self.root), self.root, None)?;
            if header::level(mini.page(self.root)) == level {
                return Ok(Some(self.root));
            }
            mini.release(self.root);
        }
    }

    /// Whether a page is what its parent takes it for.
    #[inline]
    pub(super) fn expect(
        &self,
        page: &[u8],
        id: PageId,
        level: Option<u8>,
    ) -> Result<(), TreeError> {
        let here = header::level(page);
        let fits = header::id(page) == id
            && page[12] == kind_of(here) as u8
            && header::owner(page) == self.owner
            && level.unwrap_or(here) == here
            && here < LEVELS_MAX
            && (here == 0 || !Slotted::new(page).is_empty());
        if fits {
            Ok(())
        } else {
            Err(self.unexpected(page, id, level))
        }
    }

    #[cold]
    fn unexpected(&self, page: &[u8], id: PageId, level: Option<u8>) -> TreeError {
        let level = level.map_or_else(|| "a".to_owned(), |level| format!("a level {level}"));
        TreeError::Damaged {
            page: id,
            reason: format!(
                "{level} page of tree {} is due, it is {}, a {:?} of level {} with {} records, and belongs to {}",
                self.owner,
                header::id(page),
                header::kind(page),
                header::level(page),
                Slotted::new(page).count(),
                header::owner(page),
            ),
        }
    }
}
