//! What follows removals: merges, records evened out between neighbours, and
//! the root lowered.

use super::modify::has_room;
use super::split::{branch_record_bytes, separator_between};
use super::{Interrupt, Tree, until_loaded};
use crate::access::{MiniTransaction, Pages};
use crate::ids::PageId;
use crate::page::slotted::{SLOT_BYTES, Slotted, branch_record, capacity};
use crate::page::{Op, header};

/// What is left to do after a merge.
enum Left {
    Nothing,
    /// The parent is underfull now.
    Parent,
    /// The root has one child.
    Root,
}

/// A page and its right neighbour under their parent, all latched.
#[derive(Clone, Copy)]
struct Pair {
    parent: PageId,
    left: PageId,
    right: PageId,
    /// Slot of `right` in the parent.
    right_slot: usize,
    level: u8,
}

impl Tree {
    /// Whether a page has so little that it should be merged: less than a
    /// quarter. What [`merge`](Self::merge) and [`even_out`](Self::even_out)
    /// make has more than three eighths, so that pages are not merged and split
    /// in turns.
    pub(super) fn is_underfull(&self, id: PageId, page: &[u8]) -> bool {
        id != self.root && Slotted::new(page).used_bytes() < capacity(page.len()) / 4
    }

    /// Merges the leaf of `key` with a neighbour if it is underfull, and what
    /// is underfull above it then.
    ///
    /// The removal that it follows has been made: an error here is not its
    /// caller's. The tree is in order without the merge, the next removal tries
    /// again, and whoever needs the page that cannot be had gets the error.
    pub(super) fn settle<P: Pages>(&self, pages: &P, key: &[u8]) {
        for level in 0.. {
            match until_loaded(pages, || self.settle_level(pages, key, level)) {
                Ok(Left::Parent) => {}
                Ok(Left::Root) => return self.lower_root(pages),
                Ok(Left::Nothing) | Err(_) => return,
            }
        }
    }

    fn settle_level<P: Pages>(&self, pages: &P, key: &[u8], level: u8) -> Result<Left, Interrupt> {
        let mut mini = pages.begin(&[self.segment_of(level)], 0)?;
        let Some(parent) = self.exclusive_at(pages, &mut mini, key, level + 1)? else {
            return Ok(Left::Nothing);
        };
        let slots = Slotted::new(mini.page(parent));
        if slots.count() == 1 {
            // No neighbour here. Merged with another branch it has one.
            let alone = parent == self.root;
            return Ok(if alone { Left::Root } else { Left::Parent });
        }
        let slot = slots.child_slot_at(key);
        let child = slots.child(slot);
        let left_slot = slot.min(slots.count() - 2);
        let pair = Pair {
            parent,
            left: slots.child(left_slot),
            right: slots.child(left_slot + 1),
            right_slot: left_slot + 1,
            level,
        };
        for page in [pair.left, pair.right] {
            mini.exclusive(page)?;
            self.expect(mini.page(page), page, Some(level))?;
        }
        if !self.is_underfull(child, mini.page(child)) {
            return Ok(Left::Nothing);
        }
        let used = |page| Slotted::new(mini.page(page)).used_bytes();
        // An eighth is left free, for what comes next.
        if used(pair.left) + used(pair.right) <= capacity(pages.page_bytes()) / 8 * 7 {
            Ok(self.merge(mini, pair))
        } else {
            even_out(mini, pair);
            Ok(Left::Nothing)
        }
    }

    /// Moves all records of the right page to the left one.
    fn merge(&self, mut mini: impl MiniTransaction, pair: Pair) -> Left {
        let right = Slotted::new(mini.page(pair.right));
        let mut moved = Vec::new();
        right.copy_records(0, right.count(), &mut moved);
        let slot = Slotted::new(mini.page(pair.left)).count() as u16;
        mini.apply(
            pair.left,
            &Op::InsertMany {
                slot,
                records: &moved,
            },
        );
        let from = pair.right_slot as u16;
        mini.apply(pair.parent, &Op::Remove { from, to: from + 1 });
        let parent = mini.page(pair.parent);
        let left = if pair.parent != self.root {
            if self.is_underfull(pair.parent, parent) {
                Left::Parent
            } else {
                Left::Nothing
            }
        } else if Slotted::new(parent).count() == 1 {
            Left::Root
        } else {
            Left::Nothing
        };
        mini.free(self.segment_of(pair.level), pair.right);
        mini.commit();
        left
    }

    /// Moves the records of the root's only child into the root, as long as it
    /// has but one. Each round takes a level away.
    fn lower_root<P: Pages>(&self, pages: &P) {
        while let Ok(true) = until_loaded(pages, || self.lower_root_once(pages)) {}
    }

    fn lower_root_once<P: Pages>(&self, pages: &P) -> Result<bool, Interrupt> {
        let segments = [self.leaf_segment, self.branch_segment];
        let mut mini = pages.begin(&segments, 0)?;
        mini.exclusive(self.root)?;
        let root = mini.page(self.root);
        self.expect(root, self.root, None)?;
        let slots = Slotted::new(root);
        let Some(level) = header::level(root).checked_sub(1) else {
            return Ok(false);
        };
        if slots.count() != 1 {
            return Ok(false);
        }
        let child = slots.child(0);
        mini.exclusive(child)?;
        self.expect(mini.page(child), child, Some(level))?;
        let slots = Slotted::new(mini.page(child));
        let mut moved = Vec::new();
        slots.copy_records(0, slots.count(), &mut moved);
        mini.apply(self.root, &self.formatted(level));
        mini.apply(
            self.root,
            &Op::InsertMany {
                slot: 0,
                records: &moved,
            },
        );
        mini.free(self.segment_of(level), child);
        mini.commit();
        Ok(true)
    }
}

/// Moves records from the fuller page to the other until both have about the
/// same. Does nothing if the parent has no room for the new separator: it is
/// for the sake of space alone.
fn even_out(mut mini: impl MiniTransaction, pair: Pair) {
    let (left, right) = (
        Slotted::new(mini.page(pair.left)),
        Slotted::new(mini.page(pair.right)),
    );
    let (left_used, right_used) = (left.used_bytes(), right.used_bytes());
    let surplus = left_used.abs_diff(right_used) / 2;
    let to_left = left_used < right_used;
    let (source, target) = if to_left {
        (right, left)
    } else {
        (left, right)
    };
    let count = source.count();
    let moving = if to_left {
        count_within(surplus, (0..count).map(|slot| source.record(slot).len()))
    } else {
        count_within(
            surplus,
            (0..count).rev().map(|slot| source.record(slot).len()),
        )
    };
    if moving == 0 || moving == count {
        return;
    }
    let (from, to, boundary) = if to_left {
        (0, moving, moving)
    } else {
        (count - moving, count, count - moving)
    };
    // In a branch the first key of the right page is the separator itself.
    let separator = if pair.level == 0 {
        separator_between(source.key(boundary - 1), source.key(boundary))
    } else {
        source.key(boundary).to_vec()
    };
    let parent = Slotted::new(mini.page(pair.parent));
    if !has_room(parent, Ok(pair.right_slot), branch_record_bytes(&separator)) {
        return;
    }
    let mut moved = Vec::new();
    source.copy_records(from, to, &mut moved);
    let (source_id, target_id, slot) = if to_left {
        (pair.right, pair.left, target.count())
    } else {
        (pair.left, pair.right, 0)
    };
    mini.apply(
        target_id,
        &Op::InsertMany {
            slot: slot as u16,
            records: &moved,
        },
    );
    mini.apply(
        source_id,
        &Op::Remove {
            from: from as u16,
            to: to as u16,
        },
    );
    let mut record = Vec::new();
    branch_record(&separator, pair.right, &mut record);
    mini.apply(
        pair.parent,
        &Op::Replace {
            slot: pair.right_slot as u16,
            record: &record,
        },
    );
    mini.commit();
}

/// How many of these records have room in so many bytes.
fn count_within(bytes: usize, lengths: impl Iterator<Item = usize>) -> usize {
    let mut left = bytes;
    let fits = |length: &usize| {
        let rest = left.checked_sub(length + SLOT_BYTES);
        left = rest.unwrap_or(left);
        rest.is_some()
    };
    lengths.take_while(fits).count()
}
