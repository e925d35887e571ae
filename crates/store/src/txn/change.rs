//! One version becomes another: rows and their undo records, as one.

use super::transaction::Writer;
use super::version::{LONG, RollPointer, VersionRef};
use super::{Error, View};
use crate::access::MiniTransaction;
use crate::backing::Backing;
use crate::overflow::OverflowRef;
use crate::page::slotted::Slotted;
use crate::system::System;
use crate::table::Table;
use crate::tree::{LatchedLeaf, ModifyError, Reserve, Stop, Tree};
use crate::undo::record::{Body, Change};
use std::sync::Arc;

/// What shall become of a row, which is locked.
pub(super) struct Planned {
    pub(super) key: Arc<[u8]>,
    /// An insert also where a deleted row is.
    pub(super) change: Change,
    pub(super) flags: u8,
    /// The columns of the new version, or where they are.
    pub(super) payload: Vec<u8>,
    /// Entries that it needs and the version before has not, with the position
    /// of their index.
    pub(super) entries: Vec<(usize, Vec<u8>)>,
    /// It has the same entries as the version before, which is not deleted.
    pub(super) entries_stay: bool,
}

/// What a statement is about to change, and has changed.
#[derive(Default)]
pub(super) struct Changes {
    /// Rows of one table, with ascending keys.
    pub(super) planned: Vec<Planned>,
    /// How many were there to be changed, and are.
    pub(super) made: u64,
}

impl Planned {
    /// The new version, made by undo record `roll` of a transaction.
    fn version(&self, trx: u64, roll: RollPointer) -> VersionRef<'_> {
        VersionRef {
            trx,
            roll,
            flags: self.flags,
            payload: &self.payload,
        }
    }

    fn value_bytes(&self) -> usize {
        VersionRef::HEAD_BYTES + self.payload.len()
    }

    /// Bytes of its undo record, if the version before is as long.
    fn record_bytes(&self) -> usize {
        let as_long = self.version(0, RollPointer::NONE);
        let body = Body::Row {
            table: 0,
            key: &self.key,
            change: self.change,
            entries_stayed: self.entries_stay,
            before: (self.change != Change::Insert).then_some(as_long),
        };
        body.record_bytes()
    }
}

/// Why a row is not changed.
pub(super) enum Refused {
    /// It is not there.
    Absent,
    /// It is there.
    Present,
    /// Somebody else has changed it since the view was opened.
    Conflict,
    /// A transaction that was not rolled back has changed it.
    Unfinished,
    /// It is without its head.
    Damaged,
    /// Its undo record needs a new page.
    LacksPage,
}

/// Where a new version goes, and what that is for undo.
struct Spot {
    found: Result<usize, usize>,
    change: Change,
}

impl<B: Backing> System<B> {
    /// Whether a row's columns are too long for a leaf.
    pub(super) fn is_long(&self, row: &Planned) -> bool {
        row.value_bytes() > Tree::value_bytes_max(&self.backing, row.key.len())
    }

    /// Writes columns to pages of their own if they are too long for a leaf.
    pub(super) fn put_away(
        &self,
        writer: &mut Writer<'_>,
        table: &Table,
        row: &mut Planned,
    ) -> Result<(), Error> {
        if self.is_long(row) {
            let value = self.write_long(writer, table, &row.payload)?;
            row.flags = LONG;
            row.payload = value.to_bytes().to_vec();
        }
        Ok(())
    }

    /// The first page comes with an undo record, by which all are freed again if
    /// the transaction does not commit.
    fn write_long(
        &self,
        writer: &mut Writer<'_>,
        table: &Table,
        payload: &[u8],
    ) -> Result<OverflowRef, Error> {
        let Writer { trx, slot, .. } = writer;
        let segment = self.slots.segment();
        let body = |value| {
            let table = table.id;
            Body::Long { table, value }
        };
        let longest = body(OverflowRef { page: 0, bytes: 0 }).record_bytes();
        let reserve = Reserve {
            segments: &[segment],
            pages: slot.new_pages(longest, self.backing.page_bytes()),
        };
        let mut appended = None;
        let written = table.long.write(
            &self.backing,
            payload,
            reserve,
            |mini| slot.latch(mini),
            |mini, value| {
                let mut records = slot.append(segment);
                records.push(mini, *trx, body(value));
                appended = Some(records.finish(mini, *trx));
            },
        );
        // Also of one that was not written to its end.
        if let Some(appended) = appended {
            slot.appended(appended);
        }
        Ok(written?)
    }

    /// Gives rows new versions that replace those which `view` sees, or whatever is
    /// the newest, in one mini-transaction: as many of the first as
    /// one leaf has and has room for, and as their undo records need one new
    /// page for at the most. They ascend, are locked, and what is long is put
    /// away. Returns how many.
    ///
    /// # Errors
    /// Why not even the first is changed.
    pub(super) fn change_some(
        &self,
        writer: &mut Writer<'_>,
        view: Option<&View>,
        table: &Table,
        rows: &[Planned],
    ) -> Result<usize, ModifyError<Refused>> {
        let Writer { trx, slot, .. } = writer;
        let (trx, segment) = (*trx, self.slots.segment());
        let page_bytes = self.backing.page_bytes();
        let mut room = slot.room(0, page_bytes);
        let mut new_pages = u32::from(!rows.iter().all(|row| room.take(row.record_bytes())));
        let (mut spots, mut before, mut value) = (Vec::new(), Vec::new(), Vec::new());
        loop {
            let reserve = Reserve {
                segments: self.slots.segments(new_pages),
                pages: new_pages,
            };
            let change = |leaf: &mut LatchedLeaf<B::Mini<'_>>| {
                let mut room = slot.room(new_pages, page_bytes);
                let is_seen = |other| view.is_none_or(|view| view.sees(other));
                let is_free = |other| match other == trx || is_seen(other) {
                    true if view.is_none() && self.unfinished.contains(&other) => {
                        Err(Refused::Unfinished)
                    }
                    true => Ok(()),
                    false if self.unfinished.contains(&other) => Err(Refused::Unfinished),
                    false => Err(Refused::Conflict),
                };
                find_spots(leaf, rows, is_free, |bytes| room.take(bytes), &mut spots)?;
                slot.latch(&mut leaf.mini)?;
                let mut records = slot.append(segment);
                for (row, &Spot { found, change }) in rows.iter().zip(&spots) {
                    before.clear();
                    if let Ok(slot) = found {
                        before.extend_from_slice(leaf.slots().value(slot));
                    }
                    let body = Body::Row {
                        table: table.id,
                        key: &row.key,
                        change,
                        entries_stayed: row.entries_stay,
                        before: VersionRef::decode(&before),
                    };
                    let roll = records.push(&mut leaf.mini, trx, body);
                    value.clear();
                    row.version(trx, roll).encode(&mut value);
                    leaf.put(found, &row.key, &value);
                }
                Ok(records.finish(&mut leaf.mini, trx))
            };
            let first = &rows[0].key;
            let changed = table
                .rows
                .change_leaf(&self.backing, first, reserve, change);
            match changed {
                Ok((appended, _)) => {
                    slot.appended(appended);
                    return Ok(spots.len());
                }
                Err(ModifyError::Aborted(Refused::LacksPage)) if new_pages == 0 => new_pages = 1,
                Err(error) => return Err(error),
            }
        }
    }
}

/// Finds the spots of as many of the first rows as can be changed together.
/// `is_free` says why the version of a transaction may not be replaced, `fits`
/// takes room for an undo record.
fn find_spots<M: MiniTransaction>(
    leaf: &LatchedLeaf<M>,
    rows: &[Planned],
    is_free: impl Fn(u64) -> Result<(), Refused>,
    mut fits: impl FnMut(usize) -> bool,
    spots: &mut Vec<Spot>,
) -> Result<(), Stop<Refused>> {
    spots.clear();
    let slots = leaf.slots();
    let mut room = slots.free_bytes();
    for row in rows {
        let found = match spots.last() {
            None => slots.search(&row.key),
            Some(&Spot { found, .. }) => {
                // What is not here may belong to another leaf, and an insert
                // moves those behind it.
                let Some(slot) = found.ok().and_then(|last| behind(slots, last, &row.key)) else {
                    break;
                };
                Ok(slot)
            }
        };
        let spot = find_spot(leaf, row, found, &is_free, &mut fits, &mut room);
        match spot {
            Ok(spot) => spots.push(spot),
            Err(stop) if spots.is_empty() => return Err(stop),
            Err(_) => break,
        }
    }
    Ok(())
}

/// The slot of a key behind that of slot `last`: mostly the next one.
fn behind(slots: Slotted<'_>, last: usize, key: &[u8]) -> Option<usize> {
    let next = last + 1;
    if next < slots.count() && slots.key(next) == key {
        return Some(next);
    }
    slots.search(key).ok()
}

/// Takes `room` in the leaf for a row's new version.
fn find_spot<M: MiniTransaction>(
    leaf: &LatchedLeaf<M>,
    row: &Planned,
    found: Result<usize, usize>,
    is_free: impl Fn(u64) -> Result<(), Refused>,
    fits: &mut impl FnMut(usize) -> bool,
    room: &mut usize,
) -> Result<Spot, Stop<Refused>> {
    let existing = found.ok().map(|slot| leaf.slots().value(slot));
    let (change, before) = judge(row.change, existing, is_free).map_err(Stop::Abort)?;
    let needed = leaf.needed_bytes(found, &row.key, row.value_bytes());
    if needed > *room {
        return Err(Stop::LacksRoom(row.value_bytes()));
    }
    let body = Body::Row {
        table: 0,
        key: &row.key,
        change,
        entries_stayed: row.entries_stay,
        before,
    };
    if !fits(body.record_bytes()) {
        return Err(Stop::Abort(Refused::LacksPage));
    }
    *room -= needed;
    Ok(Spot { found, change })
}

/// Whether a row can be changed, as which change that counts, and the version
/// before.
fn judge(
    change: Change,
    existing: Option<&[u8]>,
    is_free: impl Fn(u64) -> Result<(), Refused>,
) -> Result<(Change, Option<VersionRef<'_>>), Refused> {
    let Some(bytes) = existing else {
        return match change {
            Change::Insert => Ok((change, None)),
            Change::Update | Change::Delete => Err(Refused::Absent),
        };
    };
    let before = VersionRef::decode(bytes).ok_or(Refused::Damaged)?;
    is_free(before.trx)?;
    match (change, before.is_deleted()) {
        (Change::Insert, true) => Ok((Change::Update, Some(before))),
        (Change::Insert, false) => Err(Refused::Present),
        (Change::Update | Change::Delete, true) => Err(Refused::Absent),
        (Change::Update | Change::Delete, false) => Ok((change, Some(before))),
    }
}
