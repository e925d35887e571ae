//! Room for a record: splits, and the root raised.

use super::modify::has_room;
use super::{Interrupt, Tree, TreeError, until_loaded};
use crate::access::{MiniTransaction, Pages};
use crate::ids::PageId;
use crate::page::slotted::{SLOT_BYTES, Slotted, branch_record};
use crate::page::{Op, header};

/// Inserts that came one behind the other before more of them are expected at
/// the same place.
const RUN_MIN: usize = 4;

/// How an attempt to split a page ended.
enum Split {
    /// It has been split, or has room by now.
    Done,
    /// The root has been raised, or the tree has grown by itself: there is a
    /// parent now.
    Grown,
    /// Its parent has no room for this separator.
    ParentFull(Vec<u8>),
}

/// Where to split a page.
struct Plan {
    /// The first slot that moves to the new page.
    from: usize,
    /// The least key that may be there.
    separator: Vec<u8>,
}

impl Tree {
    /// Splits the page of `level` on the way to `key` if it lacks room for a
    /// record of that key and so many bytes. Somebody else may use up the room
    /// before the caller does.
    ///
    /// It ends: each round splits the page or the first full one above it, and
    /// the root can always be raised.
    pub(super) fn make_room<P: Pages>(
        &self,
        pages: &P,
        key: &[u8],
        record_bytes: usize,
        level: u8,
    ) -> Result<(), TreeError> {
        loop {
            let split = until_loaded(pages, || self.split(pages, key, record_bytes, level))?;
            match split {
                Split::Done => return Ok(()),
                Split::Grown => {}
                Split::ParentFull(separator) => {
                    let parent_bytes = branch_record_bytes(&separator);
                    self.make_room(pages, &separator, parent_bytes, level + 1)?;
                }
            }
        }
    }

    fn split<P: Pages>(
        &self,
        pages: &P,
        key: &[u8],
        record_bytes: usize,
        level: u8,
    ) -> Result<Split, Interrupt> {
        let mut mini = pages.begin(&[self.segment_of(level)], 1)?;
        let Some(parent) = self.exclusive_at(pages, &mut mini, key, level + 1)? else {
            mini.exclusive(self.root)?;
            let root = Slotted::new(mini.page(self.root));
            if header::level(mini.page(self.root)) != level {
                return Ok(Split::Grown);
            }
            if has_room(root, root.search(key), record_bytes) {
                return Ok(Split::Done);
            }
            self.raise_root(mini, level);
            return Ok(Split::Grown);
        };
        let slots = Slotted::new(mini.page(parent));
        let child = slots.child(slots.child_slot_at(key));
        mini.exclusive(child)?;
        self.expect(mini.page(child), child, Some(level))?;
        let slots = Slotted::new(mini.page(child));
        let found = slots.search(key);
        if has_room(slots, found, record_bytes) {
            return Ok(Split::Done);
        }
        let plan = plan(slots, level, key, found, record_bytes);
        let parent_slots = Slotted::new(mini.page(parent));
        let place = parent_slots.search(&plan.separator);
        if place.is_ok() {
            return Err(Interrupt::Error(TreeError::Damaged {
                page: parent,
                reason: "it has a separator twice".to_owned(),
            }));
        }
        if !has_room(parent_slots, place, branch_record_bytes(&plan.separator)) {
            return Ok(Split::ParentFull(plan.separator));
        }
        self.divide(mini, parent, child, level, &plan);
        Ok(Split::Done)
    }

    /// Moves the records from the plan's slot on to a new page.
    fn divide(
        &self,
        mut mini: impl MiniTransaction,
        parent: PageId,
        child: PageId,
        level: u8,
        plan: &Plan,
    ) {
        let slots = Slotted::new(mini.page(child));
        let (from, count) = (plan.from, slots.count());
        let mut moved = Vec::new();
        slots.copy_records(from, count, &mut moved);
        let right = mini.allocate(self.segment_of(level), Some(child));
        mini.apply(right, &self.formatted(level));
        if from < count {
            mini.apply(
                right,
                &Op::InsertMany {
                    slot: 0,
                    records: &moved,
                },
            );
            mini.apply(
                child,
                &Op::Remove {
                    from: from as u16,
                    to: count as u16,
                },
            );
        }
        let place = Slotted::new(mini.page(parent)).search(&plan.separator);
        let slot = place.expect_err("looked for before") as u16;
        insert_child(&mut mini, parent, slot, &plan.separator, right);
        mini.commit();
    }

    /// Moves all records of the root, a page of `level`, to a new page below
    /// it.
    fn raise_root(&self, mut mini: impl MiniTransaction, level: u8) {
        let slots = Slotted::new(mini.page(self.root));
        let mut moved = Vec::new();
        slots.copy_records(0, slots.count(), &mut moved);
        let child = mini.allocate(self.segment_of(level), Some(self.root));
        mini.apply(child, &self.formatted(level));
        mini.apply(
            child,
            &Op::InsertMany {
                slot: 0,
                records: &moved,
            },
        );
        mini.apply(self.root, &self.formatted(level + 1));
        insert_child(&mut mini, self.root, 0, &[], child);
        mini.commit();
    }
}

/// Puts a child into a branch that has room.
pub(super) fn insert_child(
    mini: &mut impl MiniTransaction,
    branch: PageId,
    slot: u16,
    separator: &[u8],
    child: PageId,
) {
    let mut record = Vec::new();
    branch_record(separator, child, &mut record);
    mini.apply(
        branch,
        &Op::Insert {
            slot,
            record: &record,
        },
    );
}

/// Bytes of the record of a separator.
pub(super) fn branch_record_bytes(separator: &[u8]) -> usize {
    2 + separator.len() + 4
}

/// The shortest key above `low` and not above `high`: what a separator needs
/// of its keys.
pub(super) fn separator_between(low: &[u8], high: &[u8]) -> Vec<u8> {
    let shared = low.iter().zip(high).take_while(|(a, b)| a == b).count();
    high[..high.len().min(shared + 1)].to_vec()
}

/// Where to split a full page for a record that comes where `found` says.
///
/// One that comes behind all others takes the new page for itself, so that keys
/// that ascend leave full pages; one that comes first gets the old page for
/// itself, for keys that descend. One that carries on a run within the page, as
/// where the orders of each customer ascend, comes last in the old page: the
/// run goes on at its end. Otherwise both halves get the same bytes.
fn plan(
    slots: Slotted<'_>,
    level: u8,
    key: &[u8],
    found: Result<usize, usize>,
    record_bytes: usize,
) -> Plan {
    let count = slots.count();
    // No page lacks room while it has fewer records than RECORDS_MIN.
    debug_assert!(count >= 3);
    if level > 0 {
        let from = match found {
            // A branch has a child at least.
            Err(slot) if slot == count => count - 1,
            _ => middle(slots, found, record_bytes),
        };
        return Plan {
            from,
            separator: slots.key(from).to_vec(),
        };
    }
    match found {
        Err(slot) if slot == count => Plan {
            from: count,
            separator: separator_between(slots.key(count - 1), key),
        },
        Err(0) => Plan {
            from: 0,
            separator: separator_between(key, slots.key(0)),
        },
        _ => {
            let from = match found {
                Err(slot) if slots.run_before(slot) >= RUN_MIN => slot,
                _ => middle(slots, found, record_bytes),
            };
            Plan {
                from,
                separator: separator_between(slots.key(from - 1), slots.key(from)),
            }
        }
    }
}

/// The slot from which on the fuller half has the fewest bytes, the new record
/// included wherever it may come. Neither half is empty.
fn middle(slots: Slotted<'_>, found: Result<usize, usize>, record_bytes: usize) -> usize {
    let bytes = |slot: usize| slots.record(slot).len() + SLOT_BYTES;
    let (place, new) = match found {
        Ok(slot) => (slot, record_bytes.saturating_sub(slots.record(slot).len())),
        Err(slot) => (slot, record_bytes + SLOT_BYTES),
    };
    let all: usize = (0..slots.count()).map(bytes).sum();
    let mut left = 0;
    let mut best = (usize::MAX, 1);
    for from in 1..slots.count() {
        left += bytes(from - 1);
        let new_left = if place < from || found == Err(from) {
            new
        } else {
            0
        };
        let new_right = if place >= from { new } else { 0 };
        let fuller = (left + new_left).max(all - left + new_right);
        best = best.min((fuller, from));
    }
    best.1
}
