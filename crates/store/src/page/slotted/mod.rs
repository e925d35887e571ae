//! Pages of sorted records: leaves and branches.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 32 | 2 | records |
//! | 34 | 2 | prefix: how many first bytes all compared keys share |
//! | 36 | 4 | heap: where the lowest record begins |
//! | 40 | 4 | holes: bytes of the heap that are no record's |
//! | 44 | 2 | slot of the last single insert |
//! | 46 | 2 | run: how many of the last inserts each came right behind the one before |
//! | 48 | 16 | first bytes of the prefix |
//! | 64 | 8 each | slots, in the order of the keys: head (4, big-endian), offset (2), length (2) |
//! | | | free |
//! | heap | | records, in no order |
//!
//! A record is the length of its key in two bytes, the key, and the rest: the
//! value in a leaf, the number of the child in a branch.
//!
//! The head is the four bytes of the key behind the prefix. A search compares
//! the prefix once, then heads, which lie side by side in a few cache lines,
//! and looks at a record only where heads are equal.
//!
//! The key of a branch's first record is where the branch itself begins, empty
//! in the leftmost of its level. Nothing is ever compared with it, so it has no
//! head, and no part in the prefix: else the root's would always be empty.

mod change;
mod verify;

pub(super) use change::{format, insert, insert_many, remove, replace};
pub use verify::{SlottedFault, verify};

use super::header::{self, BODY, PageKind, get_u16, get_u32};
use crate::ids::PageId;
use std::cmp::Ordering;

const COUNT: usize = 32;
const PREFIX: usize = 34;
const HEAP: usize = 36;
const HOLES: usize = 40;
const LAST_SLOT: usize = 44;
const RUN: usize = 46;
const PREFIX_COPY: usize = 48;
const PREFIX_COPY_BYTES: usize = 16;

/// Bytes of a slot.
pub const SLOT_BYTES: usize = 8;
/// Bytes of the key's length before a key.
const KEY_LENGTH_BYTES: usize = 2;
/// Bytes of a child's number behind a separator.
const CHILD_BYTES: usize = 4;
/// Records that have room in any page. Two would do for a tree; with four a
/// page of two or three records has room for another, so whatever is full can
/// be split in two pages with room, and a branch has a fan-out worth having.
pub const RECORDS_MIN: usize = 4;

/// Bytes that records and their slots may take in a page.
pub const fn capacity(page_bytes: usize) -> usize {
    page_bytes - BODY
}

/// Bytes of the longest record.
pub const fn record_bytes_max(page_bytes: usize) -> usize {
    capacity(page_bytes) / RECORDS_MIN - SLOT_BYTES
}

/// Bytes of the longest key: three sixteenths of a page (3072 of 16 KiB, as
/// InnoDB's), so that it fits a branch, and a leaf with a value beside it.
pub const fn key_bytes_max(page_bytes: usize) -> usize {
    page_bytes / 16 * 3
}

/// Bytes of the longest value beside a key of `key_bytes`.
pub const fn value_bytes_max(page_bytes: usize, key_bytes: usize) -> usize {
    record_bytes_max(page_bytes) - KEY_LENGTH_BYTES - key_bytes
}

/// Bytes that a record takes in a page, its slot included.
pub const fn footprint(key_bytes: usize, rest_bytes: usize) -> usize {
    SLOT_BYTES + KEY_LENGTH_BYTES + key_bytes + rest_bytes
}

/// Makes a leaf's record in `out`, which is emptied first.
pub fn leaf_record(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let length = u16::try_from(key.len()).expect("the tree refuses longer keys");
    out.extend(length.to_le_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// Appends a record to `out`, as [`Op::InsertMany`] takes them.
///
/// [`Op::InsertMany`]: crate::page::Op::InsertMany
pub(crate) fn put_record(key: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let record_bytes = KEY_LENGTH_BYTES + key.len() + value.len();
    let length = u16::try_from(record_bytes).expect("the tree refuses longer ones");
    out.reserve(2 + record_bytes);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&(key.len() as u16).to_le_bytes());
    out.extend_from_slice(key);
    out.extend_from_slice(value);
}

/// Makes a branch's record in `out`, which is emptied first.
pub fn branch_record(key: &[u8], child: PageId, out: &mut Vec<u8>) {
    leaf_record(key, &child.page.to_le_bytes(), out);
}

/// The key of a record and what follows it, empty if it is none.
pub(crate) fn record_parts(record: &[u8]) -> (&[u8], &[u8]) {
    let key = record_key(record);
    let rest = record.get(KEY_LENGTH_BYTES + key.len()..);
    (key, rest.unwrap_or(&[]))
}

/// The key of a record, empty if it is none.
fn record_key(record: &[u8]) -> &[u8] {
    let Some((length, rest)) = record.split_first_chunk::<KEY_LENGTH_BYTES>() else {
        return &[];
    };
    rest.get(..u16::from_le_bytes(*length).into())
        .unwrap_or(&[])
}

/// The four bytes of `key` behind the prefix as a number, zeros where there
/// are none. Keys that differ in it differ in the same direction.
fn head_of(key: &[u8], prefix: usize) -> u32 {
    let tail = key.get(prefix..).unwrap_or(&[]);
    if let Some(head) = tail.first_chunk::<4>() {
        return u32::from_be_bytes(*head);
    }
    let mut head = [0; 4];
    head[..tail.len()].copy_from_slice(tail);
    u32::from_be_bytes(head)
}

fn slot_head(&[a, b, c, d, ..]: &[u8; SLOT_BYTES]) -> u32 {
    u32::from_be_bytes([a, b, c, d])
}

/// Slots in a cache line.
const LINE_SLOTS: usize = 64 / SLOT_BYTES;
/// So many lines are looked at side by side.
const LINES: usize = 16;

/// How many of ascending heads are below `sought`.
///
/// A binary search in a page that is not in the processor's cache waits for one
/// line after the other. So the last 16 lines, which are all slots of a leaf
/// with records of a hundred bytes, are asked for at once: the processor has
/// about so many reads under way, and waits once.
fn heads_below(mut slots: &[[u8; SLOT_BYTES]], sought: u32) -> usize {
    let below = |slot: &[u8; SLOT_BYTES]| slot_head(slot) < sought;
    let mut passed = 0;
    while slots.len() > LINES * LINE_SLOTS {
        let half = slots.len() / 2;
        if below(&slots[half - 1]) {
            slots = &slots[half..];
            passed += half;
        } else {
            slots = &slots[..half];
        }
    }
    let (lines, _) = slots.as_chunks::<LINE_SLOTS>();
    let whole = lines
        .iter()
        .filter(|line| below(&line[LINE_SLOTS - 1]))
        .count();
    let line = &slots[whole * LINE_SLOTS..];
    let line = &line[..line.len().min(LINE_SLOTS)];
    passed + whole * LINE_SLOTS + line.iter().filter(|slot| below(slot)).count()
}

/// A slotted page to be read. Whatever the bytes are, it does not panic: a
/// record that is not within the page is an empty one.
#[derive(Clone, Copy)]
pub struct Slotted<'a> {
    page: &'a [u8],
    slots: &'a [[u8; SLOT_BYTES]],
}

impl<'a> Slotted<'a> {
    /// The records of `page`, which is a leaf or a branch.
    pub fn new(page: &'a [u8]) -> Slotted<'a> {
        let count = usize::from(get_u16(page, COUNT));
        let end = (BODY + count * SLOT_BYTES).min(page.len());
        let (slots, _) = page[BODY..end].as_chunks();
        Slotted { page, slots }
    }

    /// How many.
    pub fn count(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    fn head(&self, slot: usize) -> u32 {
        slot_head(&self.slots[slot])
    }

    /// Where in the page a record lies.
    ///
    /// # Panics
    /// Beyond the last.
    pub(crate) fn span(&self, slot: usize) -> std::ops::Range<usize> {
        let [.., a, b, c, d] = self.slots[slot];
        let offset = usize::from(u16::from_le_bytes([a, b]));
        offset..offset + usize::from(u16::from_le_bytes([c, d]))
    }

    /// A record.
    ///
    /// # Panics
    /// Beyond the last.
    pub fn record(&self, slot: usize) -> &'a [u8] {
        self.page.get(self.span(slot)).unwrap_or(&[])
    }

    /// Its key.
    ///
    /// # Panics
    /// Beyond the last.
    pub fn key(&self, slot: usize) -> &'a [u8] {
        record_key(self.record(slot))
    }

    /// What follows its key.
    ///
    /// # Panics
    /// Beyond the last.
    pub fn value(&self, slot: usize) -> &'a [u8] {
        record_parts(self.record(slot)).1
    }

    /// Where in the page the value of a slot begins.
    pub(crate) fn value_offset(&self, slot: usize) -> usize {
        self.span(slot).start + KEY_LENGTH_BYTES + self.key(slot).len()
    }

    /// The child of a branch's slot.
    ///
    /// # Panics
    /// Beyond the last.
    pub fn child(&self, slot: usize) -> PageId {
        let number = self.value(slot).first_chunk().copied().unwrap_or_default();
        PageId::new(get_u32(self.page, 8), u32::from_le_bytes(number))
    }

    /// Bytes that records and slots take.
    pub fn used_bytes(&self) -> usize {
        let heap = self
            .page
            .len()
            .saturating_sub(get_u32(self.page, HEAP) as usize);
        let holes = get_u32(self.page, HOLES) as usize;
        heap.saturating_sub(holes) + self.slots.len() * SLOT_BYTES
    }

    /// Bytes that more records and slots may take.
    pub fn free_bytes(&self) -> usize {
        capacity(self.page.len()).saturating_sub(self.used_bytes())
    }

    /// How many inserts in a row a record before `slot` would carry on, each
    /// right behind the one before.
    pub fn run_before(&self, slot: usize) -> usize {
        if slot == usize::from(get_u16(self.page, LAST_SLOT)) + 1 {
            get_u16(self.page, RUN).into()
        } else {
            0
        }
    }

    /// The first slot whose key is compared with others.
    fn first_compared(&self) -> usize {
        usize::from(header::kind(self.page) == Some(PageKind::Branch))
    }

    /// The slot of a key, or the slot before which it belongs.
    ///
    /// # Errors
    /// The latter. Never 0 in a branch that has children.
    pub fn search(&self, key: &[u8]) -> Result<usize, usize> {
        let (first, count) = (self.first_compared(), self.count());
        if count <= first {
            return Err(count);
        }
        let prefix = usize::from(get_u16(self.page, PREFIX));
        match self.compare_prefix(key, prefix, first) {
            Ordering::Less => return Err(first),
            Ordering::Greater => return Err(count),
            Ordering::Equal => {}
        }
        let sought = head_of(key, prefix);
        let lower = first + heads_below(&self.slots[first..], sought);
        if lower == count || self.head(lower) != sought {
            return Err(lower);
        }
        // Mostly there is one of that head.
        let mut upper = lower + 1;
        if upper < count && self.head(upper) == sought {
            upper = self.partition(upper, count, |slot| self.head(slot) == sought);
        }
        let at = self.partition(lower, upper, |slot| self.key(slot) < key);
        if at < upper && self.key(at) == key {
            Ok(at)
        } else {
            Err(at)
        }
    }

    /// How `key` stands to the prefix, which slot `sample` has. A key that
    /// ends within the prefix stands before all.
    fn compare_prefix(&self, key: &[u8], prefix: usize, sample: usize) -> Ordering {
        let common = if prefix <= PREFIX_COPY_BYTES {
            &self.page[PREFIX_COPY..PREFIX_COPY + prefix]
        } else {
            let sample = self.key(sample);
            sample.get(..prefix).unwrap_or(sample)
        };
        key[..key.len().min(prefix)].cmp(common)
    }

    /// The first slot of `from..to` for which `before` is false.
    fn partition(&self, from: usize, to: usize, before: impl Fn(usize) -> bool) -> usize {
        let (mut base, mut size) = (from, to - from);
        // Without a branch that the processor would have to guess.
        while size > 1 {
            let half = size / 2;
            base = if before(base + half - 1) {
                base + half
            } else {
                base
            };
            size -= half;
        }
        if size == 1 && before(base) {
            base + 1
        } else {
            base
        }
    }

    /// The child to go to for the keys from `key` on.
    pub fn child_slot_at(&self, key: &[u8]) -> usize {
        match self.search(key) {
            Ok(slot) => slot,
            Err(slot) => slot.saturating_sub(1),
        }
    }

    /// The child to go to for the keys before `key`.
    pub fn child_slot_before(&self, key: &[u8]) -> usize {
        match self.search(key) {
            Ok(slot) | Err(slot) => slot.saturating_sub(1),
        }
    }

    /// Appends slots `from..to` to `out`, as [`Op::InsertMany`] takes them.
    ///
    /// [`Op::InsertMany`]: crate::page::Op::InsertMany
    pub fn copy_records(&self, from: usize, to: usize, out: &mut Vec<u8>) {
        for slot in from..to {
            let record = self.record(slot);
            out.extend((record.len() as u16).to_le_bytes());
            out.extend_from_slice(record);
        }
    }
}

#[cfg(test)]
mod tests;
