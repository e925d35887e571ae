//! How records come into a slotted page and out of it.
//!
//! Each of these looks first whether page and change fit together, and does
//! nothing if not. What they leave in unused space depends on the page and the
//! change alone, so that redo makes the same bytes.

use super::{
    BODY, CHILD_BYTES, COUNT, HEAP, HOLES, KEY_LENGTH_BYTES, LAST_SLOT, PREFIX, PREFIX_COPY,
    PREFIX_COPY_BYTES, RUN, SLOT_BYTES, Slotted, capacity, head_of, record_bytes_max, record_key,
};
use crate::page::header::{self, PageKind, get_u16, get_u32};

fn set_u16(page: &mut [u8], at: usize, number: usize) {
    let number = u16::try_from(number).expect("within a page");
    page[at..at + 2].copy_from_slice(&number.to_le_bytes());
}

fn set_u32(page: &mut [u8], at: usize, number: usize) {
    let number = u32::try_from(number).expect("within a page");
    page[at..at + 4].copy_from_slice(&number.to_le_bytes());
}

fn count(page: &[u8]) -> usize {
    usize::from(get_u16(page, COUNT))
}

fn heap(page: &[u8]) -> usize {
    get_u32(page, HEAP) as usize
}

fn holes(page: &[u8]) -> usize {
    get_u32(page, HOLES) as usize
}

fn slot_at(slot: usize) -> usize {
    BODY + slot * SLOT_BYTES
}

fn set_span(page: &mut [u8], slot: usize, offset: usize, length: usize) {
    set_u16(page, slot_at(slot) + 4, offset);
    set_u16(page, slot_at(slot) + 6, length);
}

fn set_head(page: &mut [u8], slot: usize, head: u32) {
    page[slot_at(slot)..slot_at(slot) + 4].copy_from_slice(&head.to_be_bytes());
}

/// Makes a page whose body is all zeros an empty slotted one.
pub(in crate::page) fn format(page: &mut [u8]) {
    set_u32(page, HEAP, page.len());
}

/// Whether the numbers that the changes go by can be true.
fn check_header(page: &[u8]) -> Result<(), String> {
    if !matches!(header::kind(page), Some(PageKind::Leaf | PageKind::Branch)) {
        return Err("it has no records".to_owned());
    }
    let (end, heap, holes) = (slot_at(count(page)), heap(page), holes(page));
    if end > heap || heap > page.len() || holes > page.len() - heap {
        return Err(format!(
            "slots to {end}, records from {heap} and {holes} bytes of holes do not go together"
        ));
    }
    Ok(())
}

/// Whether compaction will find as many bytes as the header says.
fn check_records(page: &[u8]) -> Result<(), String> {
    let slots = Slotted::new(page);
    let spans = || (0..slots.count()).map(|slot| slots.span(slot));
    let (records, all) = (
        spans().map(|span| span.len()).sum::<usize>(),
        page.len() - heap(page),
    );
    if records + holes(page) != all {
        return Err(format!(
            "{records} bytes of records and {} of holes are not {all}",
            holes(page)
        ));
    }
    if spans().any(|span| span.start < heap(page) || span.end > page.len()) {
        return Err("a record lies outside".to_owned());
    }
    Ok(())
}

fn check_record(page: &[u8], record: &[u8]) -> Result<(), String> {
    let longest = record_bytes_max(page.len());
    if record.len() > longest {
        return Err(format!(
            "a record of {} bytes, {longest} at most",
            record.len()
        ));
    }
    let length = record
        .first_chunk()
        .map(|&length| usize::from(u16::from_le_bytes(length)));
    let rest = length.and_then(|key| record.len().checked_sub(KEY_LENGTH_BYTES + key));
    match (rest, header::kind(page)) {
        (None, _) => Err("the record ends within its key".to_owned()),
        (Some(rest), Some(PageKind::Branch)) if rest != CHILD_BYTES => {
            Err(format!("{rest} bytes where a child's number has 4"))
        }
        _ => Ok(()),
    }
}

fn check_room(page: &[u8], needed: usize) -> Result<(), String> {
    let free = Slotted::new(page).free_bytes();
    if needed > free {
        return Err(format!("{needed} bytes where {free} are free"));
    }
    Ok(())
}

fn check_position(page: &[u8], slot: usize, end: usize) -> Result<(), String> {
    if slot >= end {
        return Err(format!("slot {slot} of {} records", count(page)));
    }
    Ok(())
}

/// [`Op::Insert`](crate::page::Op::Insert).
pub(in crate::page) fn insert(page: &mut [u8], slot: usize, record: &[u8]) -> Result<(), String> {
    check_header(page)?;
    check_record(page, record)?;
    check_position(page, slot, count(page) + 1)?;
    check_room(page, record.len() + SLOT_BYTES)?;
    make_contiguous(page, record.len() + SLOT_BYTES)?;
    place(page, slot, record);
    note_key(page, slot, record_key(record));
    note_run(page, slot);
    Ok(())
}

/// [`Op::InsertMany`](crate::page::Op::InsertMany).
pub(in crate::page) fn insert_many(
    page: &mut [u8],
    slot: usize,
    records: &[u8],
) -> Result<(), String> {
    check_header(page)?;
    check_position(page, slot, count(page) + 1)?;
    let mut needed = 0;
    for record in split(records) {
        let record = record?;
        check_record(page, record)?;
        needed += record.len() + SLOT_BYTES;
    }
    check_room(page, needed)?;
    make_contiguous(page, needed)?;
    for (at, record) in split(records).flatten().enumerate() {
        place(page, slot + at, record);
    }
    refresh_heads(page);
    Ok(())
}

/// The records in `bytes`, each behind its length.
fn split(mut bytes: &[u8]) -> impl Iterator<Item = Result<&[u8], String>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let record = bytes.split_first_chunk().and_then(|(&length, rest)| {
            rest.split_at_checked(usize::from(u16::from_le_bytes(length)))
        });
        let Some((record, rest)) = record else {
            bytes = &[];
            return Some(Err("the records end within one".to_owned()));
        };
        bytes = rest;
        Some(Ok(record))
    })
}

/// [`Op::Replace`](crate::page::Op::Replace).
pub(in crate::page) fn replace(page: &mut [u8], slot: usize, record: &[u8]) -> Result<(), String> {
    check_header(page)?;
    check_record(page, record)?;
    check_position(page, slot, count(page))?;
    let old = Slotted::new(page).span(slot);
    let old_length = old.len();
    if old.start < heap(page)
        || old.end > page.len()
        || holes(page) + old_length > page.len() - heap(page)
    {
        return Err("its old record lies outside".to_owned());
    }
    let mut new_heads = Slotted::new(page).key(slot) != record_key(record);
    if record.len() <= old_length {
        page[old.start..old.start + record.len()].copy_from_slice(record);
        set_span(page, slot, old.start, record.len());
        set_u32(page, HOLES, holes(page) + old_length - record.len());
    } else {
        check_room(page, record.len() - old_length)?;
        let contiguous = slot_at(count(page)) + record.len() <= heap(page);
        if !contiguous {
            check_records(page)?;
        }
        // Without its old record the slot is empty, so that compaction drops it.
        set_span(page, slot, old.start, 0);
        set_u32(page, HOLES, holes(page) + old_length);
        if !contiguous {
            compact(page);
            new_heads = true;
        }
        let offset = put_record(page, record);
        set_span(page, slot, offset, record.len());
    }
    if new_heads {
        refresh_heads(page);
    }
    Ok(())
}

/// [`Op::Remove`](crate::page::Op::Remove).
pub(in crate::page) fn remove(page: &mut [u8], from: usize, to: usize) -> Result<(), String> {
    check_header(page)?;
    let old = count(page);
    if from > to || to > old {
        return Err(format!("slots {from}..{to} of {old} records"));
    }
    let slots = Slotted::new(page);
    let freed: usize = (from..to).map(|slot| slots.span(slot).len()).sum();
    if holes(page) + freed > page.len() - heap(page) {
        return Err(format!("{freed} bytes of records are too many"));
    }
    page.copy_within(slot_at(to)..slot_at(old), slot_at(from));
    let left = old - (to - from);
    page[slot_at(left)..slot_at(old)].fill(0);
    set_u16(page, COUNT, left);
    set_u32(page, HOLES, holes(page) + freed);
    if left == 0 {
        set_u32(page, HEAP, page.len());
        set_u32(page, HOLES, 0);
    }
    // Fewer keys share the same prefix, and perhaps a longer one: compaction
    // finds out. A branch's new first key loses its head.
    if header::kind(page) == Some(PageKind::Branch) && from == 0 {
        refresh_heads(page);
    }
    Ok(())
}

/// Moves records together if the free bytes between slots and records are
/// fewer than `needed`, which are free in all.
fn make_contiguous(page: &mut [u8], needed: usize) -> Result<(), String> {
    if slot_at(count(page)) + needed > heap(page) {
        check_records(page)?;
        compact(page);
    }
    Ok(())
}

/// Moves all records to the end of the page, the first slot's highest.
fn compact(page: &mut [u8]) {
    let mut records = vec![0; capacity(page.len())];
    let mut start = records.len();
    for slot in 0..count(page) {
        let record = Slotted::new(page).record(slot);
        let length = record.len();
        start -= length;
        records[start..start + length].copy_from_slice(record);
        // In a page of 64 KiB an empty one's would not fit two bytes.
        let offset = if length == 0 { 0 } else { BODY + start };
        set_span(page, slot, offset, length);
    }
    let free_from = slot_at(count(page));
    page[free_from..].copy_from_slice(&records[free_from - BODY..]);
    set_u32(page, HEAP, BODY + start);
    set_u32(page, HOLES, 0);
    refresh_heads(page);
}

/// Writes a record below the others, where there is room. Returns where.
fn put_record(page: &mut [u8], record: &[u8]) -> usize {
    let offset = heap(page) - record.len();
    page[offset..offset + record.len()].copy_from_slice(record);
    set_u32(page, HEAP, offset);
    offset
}

/// Puts a record before slot `slot`, with a head of zeros.
fn place(page: &mut [u8], slot: usize, record: &[u8]) {
    let old = count(page);
    let offset = put_record(page, record);
    page.copy_within(slot_at(slot)..slot_at(old), slot_at(slot + 1));
    set_head(page, slot, 0);
    set_span(page, slot, offset, record.len());
    set_u16(page, COUNT, old + 1);
}

/// Sets the head of a new slot, and all others where its key is the first that
/// does not begin with the prefix.
fn note_key(page: &mut [u8], slot: usize, key: &[u8]) {
    let slots = Slotted::new(page);
    let prefix = usize::from(get_u16(page, PREFIX));
    let first = slots.first_compared();
    let alone = slots.count() <= first + 1;
    // The new key itself says nothing about the others.
    let shares = |other: usize| slots.compare_prefix(key, prefix, other).is_eq();
    if slot < first || alone || !shares(if slot == first { first + 1 } else { first }) {
        refresh_heads(page);
    } else {
        set_head(page, slot, head_of(key, prefix));
    }
}

/// Counts records that were each inserted right behind the one before.
fn note_run(page: &mut [u8], slot: usize) {
    let follows = slot == usize::from(get_u16(page, LAST_SLOT)) + 1;
    let run = if follows {
        get_u16(page, RUN).saturating_add(1)
    } else {
        0
    };
    set_u16(page, RUN, run.into());
    set_u16(page, LAST_SLOT, slot);
}

/// The longest prefix that all compared keys share: as they are sorted, what
/// the first and the last share.
pub(super) fn prefix_bytes(slots: Slotted<'_>) -> usize {
    let first = slots.first_compared();
    if slots.count() <= first {
        return 0;
    }
    let (low, high) = (slots.key(first), slots.key(slots.count() - 1));
    low.iter().zip(high).take_while(|(a, b)| a == b).count()
}

/// Finds the prefix and all heads again.
fn refresh_heads(page: &mut [u8]) {
    let slots = Slotted::new(page);
    let (first, count, prefix) = (slots.first_compared(), slots.count(), prefix_bytes(slots));
    let mut copy = [0; PREFIX_COPY_BYTES];
    if prefix > 0 {
        let copied = prefix.min(PREFIX_COPY_BYTES);
        copy[..copied].copy_from_slice(&slots.key(first)[..copied]);
    }
    set_u16(page, PREFIX, prefix);
    page[PREFIX_COPY..PREFIX_COPY + PREFIX_COPY_BYTES].copy_from_slice(&copy);
    for slot in 0..count {
        let head = if slot < first {
            0
        } else {
            head_of(Slotted::new(page).key(slot), prefix)
        };
        set_head(page, slot, head);
    }
}
