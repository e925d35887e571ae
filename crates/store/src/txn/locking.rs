//! Locking reads: rows as they are now, which stay so until the transaction
//! ends.
//!
//! Only rows are locked that are there, or were; nobody is kept from inserting
//! others between them.

use super::locks::{LockError, LockMode};
use super::range::{KeyRange, first_key, set_bytes};
use super::read::Newest;
use super::{Error, OpenView, Transaction};
use crate::backing::Backing;
use crate::data::{Row, Value};
use crate::page_store::PageStore;
use crate::stream::{LeafAhead, in_range};
use crate::table::Table;
use crate::tree::{Cursor, Direction, as_slice, is_within};
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::Duration;

/// What a locking read does with a row that another transaction has locked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenLocked {
    /// It waits, as long as the transaction waits for others.
    #[default]
    Wait,
    /// It fails: [`LockError::Busy`] (`NOWAIT`).
    Refuse,
    /// It goes on with the next one (`SKIP LOCKED`).
    Skip,
}

/// The rows of a range, each locked when it comes.
pub struct LockedRows<'t, 's, B: Backing = PageStore> {
    transaction: &'t mut Transaction<'s, B>,
    walk: LockedWalk<'s, B>,
}

/// How far a range has been locked, without the transaction that locks it.
pub(super) struct LockedWalk<'s, B: Backing> {
    pub(super) table: Arc<Table>,
    /// Position of the index whose entries it goes by; `None`: the rows themselves.
    pub(super) index: Option<usize>,
    cursor: Cursor,
    /// All of the ranges that it has begun: a row stays in them, wherever there it has moved.
    ranges: Vec<KeyRange>,
    are_sorted: bool,
    /// In which of them the cursor is; behind all: in one in which nothing is.
    at: usize,
    /// Opened before it reads: every row has kept the entry that it had then, though others
    /// have moved it since, and the cursor comes to it there.
    view: OpenView<'s>,
    /// A row was deleted since: it may be back under another primary key.
    has_one_gone: bool,
    /// Other ranges follow, and only then is it looked for such rows.
    is_one_of_many: bool,
    /// It goes through the ranges once more, for rows that it has not locked yet.
    is_again: bool,
    /// Reads the rows ahead where it goes by them.
    ahead: Option<LeafAhead<'s, B>>,
    mode: LockMode,
    when: WhenLocked,
    has_failed: bool,
    /// The key or entry of the last row that came.
    pub(super) last: Vec<u8>,
}

impl<'s, B: Backing> Transaction<'s, B> {
    /// Locks the row with a primary key and returns it as it is then: the newest
    /// version, or with [`Isolation::Snapshot`](crate::Isolation) what the
    /// transaction sees. `None` if there is none, or it is skipped.
    ///
    /// # Errors
    /// As [`insert`](Self::insert) and [`get`](Self::get).
    pub fn lock_row(
        &mut self,
        table: &str,
        key: &[Value],
        mode: LockMode,
        when: WhenLocked,
    ) -> Result<Option<Row>, Error> {
        let mut row = Row::new();
        let is_there = self.lock_row_in(table, key, mode, when, &mut row)?;
        Ok(is_there.then_some(row))
    }

    /// The same in the place of another row, in whose blobs it puts its own. Returns
    /// whether there is one; if not, what is in `row` means nothing.
    ///
    /// # Errors
    /// As [`lock_row`](Self::lock_row).
    pub fn lock_row_in(
        &mut self,
        table: &str,
        key: &[Value],
        mode: LockMode,
        when: WhenLocked,
        row: &mut Row,
    ) -> Result<bool, Error> {
        self.check_open()?;
        let table = self.table(table)?;
        let key = table.primary_key(key)?;
        let newest = self.lock_and_read(&table, &key, (mode, when), row)?;
        Ok(newest.is_there)
    }

    /// The rows of a table with keys in `bounds`, as [`range`](Self::range) has
    /// them, but each locked, and as [`lock_row`](Self::lock_row) returns it. What
    /// others insert meanwhile may come or not; but a row to which one of them gives another
    /// primary key within the bounds, all in one transaction, comes, in the end if it has moved back.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn lock_range<'t>(
        &'t mut self,
        table: &str,
        bounds: impl RangeBounds<[Value]>,
        direction: Direction,
        mode: LockMode,
        when: WhenLocked,
    ) -> Result<LockedRows<'t, 's, B>, Error> {
        let walk = self.locked_walk(table, &bounds, direction, (mode, when))?;
        self.look_for_changes();
        Ok(LockedRows {
            transaction: self,
            walk,
        })
    }

    pub(super) fn locked_walk(
        &mut self,
        table: &str,
        bounds: &impl RangeBounds<[Value]>,
        direction: Direction,
        how: (LockMode, WhenLocked),
    ) -> Result<LockedWalk<'s, B>, Error> {
        let (table, cursor, ahead) = self.begin_range(table, bounds, direction)?;
        Ok(self.locked_walk_of(table, None, cursor, Some(ahead), how))
    }

    /// The same in the order of a secondary index, and with bounds of its columns. A row
    /// that another transaction moves within the bounds meanwhile comes once, out of order if
    /// it has moved back.
    ///
    /// # Errors
    /// As [`range_by`](Self::range_by).
    pub fn lock_range_by<'t>(
        &'t mut self,
        table: &str,
        index: &str,
        bounds: impl RangeBounds<[Value]>,
        direction: Direction,
        mode: LockMode,
        when: WhenLocked,
    ) -> Result<LockedRows<'t, 's, B>, Error> {
        let walk = self.locked_walk_by(table, index, &bounds, direction, (mode, when))?;
        self.look_for_changes();
        Ok(LockedRows {
            transaction: self,
            walk,
        })
    }

    pub(super) fn locked_walk_by(
        &mut self,
        table: &str,
        index: &str,
        bounds: &impl RangeBounds<[Value]>,
        direction: Direction,
        how: (LockMode, WhenLocked),
    ) -> Result<LockedWalk<'s, B>, Error> {
        let (table, position, cursor) = self.begin_range_by(table, index, bounds, direction)?;
        Ok(self.locked_walk_of(table, Some(position), cursor, None, how))
    }

    /// A walk over what lies between two encoded keys, or entries of an index.
    pub(super) fn locked_walk_within(
        &self,
        table: Arc<Table>,
        index: Option<usize>,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
        how: (LockMode, WhenLocked),
    ) -> LockedWalk<'s, B> {
        let (cursor, ahead) = self.cursor_within(&table, index, range, direction);
        self.locked_walk_of(table, index, cursor, ahead, how)
    }

    /// A cursor over what lies between two encoded keys, or entries of an index, and what reads
    /// the rows ahead of it.
    fn cursor_within(
        &self,
        table: &Table,
        index: Option<usize>,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
    ) -> (Cursor, Option<LeafAhead<'s, B>>) {
        let (tree, ahead) = match index {
            Some(position) => (&table.indexes[position].tree, None),
            None => (&table.rows, Some(self.ahead_of(table, range, direction))),
        };
        (tree.cursor(range.0, range.1, direction), ahead)
    }

    fn locked_walk_of(
        &self,
        table: Arc<Table>,
        index: Option<usize>,
        cursor: Cursor,
        ahead: Option<LeafAhead<'s, B>>,
        (mode, when): (LockMode, WhenLocked),
    ) -> LockedWalk<'s, B> {
        let (lower, upper) = cursor.range();
        let range = (lower.map(<[u8]>::to_vec), upper.map(<[u8]>::to_vec));
        let ranges = Vec::from_iter(has_room(&range).then_some(range));
        LockedWalk {
            table,
            index,
            ranges,
            are_sorted: true,
            at: 0,
            cursor,
            view: self.system.views.open(),
            has_one_gone: false,
            is_one_of_many: false,
            is_again: false,
            ahead,
            mode,
            when,
            has_failed: false,
            last: Vec::new(),
        }
    }

    fn lock_and_read(
        &mut self,
        table: &Table,
        key: &[u8],
        (mode, when): (LockMode, WhenLocked),
        row: &mut Row,
    ) -> Result<Newest, Error> {
        let patience = match when {
            WhenLocked::Wait => self.patience(),
            WhenLocked::Refuse | WhenLocked::Skip => Duration::ZERO,
        };
        match self.lock_as(table.id, &Arc::from(key), mode, patience) {
            Err(Error::Lock(LockError::Busy)) if when == WhenLocked::Skip => {
                return Ok(Newest::default());
            }
            locked => locked?,
        }
        self.look_for_changes();
        let _acting = self.acting();
        self.put_newest(table, key, row)
    }

    /// The row of a key that is locked, as it is now.
    pub(super) fn newest_row(&self, table: &Table, key: &[u8]) -> Result<Option<Row>, Error> {
        let mut row = Row::new();
        let newest = self.put_newest(table, key, &mut row)?;
        Ok(newest.is_there.then_some(row))
    }
}

/// Whether there can be something in a range. Another one would hide those that begin before it.
fn has_room((lower, upper): &KeyRange) -> bool {
    is_within((Bound::Unbounded, as_slice(upper)), first_key(lower))
}

impl<'s, B: Backing> LockedWalk<'s, B> {
    pub(super) fn how(&self) -> (LockMode, WhenLocked) {
        (self.mode, self.when)
    }

    fn advance(
        &mut self,
        transaction: &mut Transaction<'s, B>,
        row: &mut Row,
    ) -> Result<bool, Error> {
        let backing = &transaction.system.backing;
        let _acting = transaction.acting();
        loop {
            let next = {
                let _range = in_range();
                match &mut self.ahead {
                    Some(ahead) => self.cursor.next_watched(backing, ahead)?,
                    None => self.cursor.next(backing)?,
                }
            };
            let Some((entry, _)) = next else {
                if !self.begin_next(transaction) {
                    return Ok(false);
                }
                continue;
            };
            set_bytes(&mut self.last, entry);
            let key_at = match self.index {
                None => 0,
                Some(index) => self.table.split_entry(&self.table.indexes[index], entry)?,
            };
            let (columns, key) = self.last.split_at(key_at);
            let locks = transaction.locks();
            let how = (self.mode, self.when);
            let newest = transaction.lock_and_read(&self.table, key, how, row)?;
            let was_locked = transaction.locks() == locks;
            let is_seen = newest.by.is_none_or(|by| self.view.view.sees(by));
            if !was_locked && !is_seen && !self.has_one_gone {
                self.has_one_gone = self.has_gone(transaction, key)?;
            }
            if !newest.is_there {
                continue;
            }
            // A row that was locked has come, or the transaction has changed it itself.
            if was_locked && self.is_again {
                continue;
            }
            if let Some(index) = self.index {
                let index = &self.table.indexes[index];
                let newest = self.table.index_key(index, row)?;
                if newest != columns && (was_locked || !self.comes_now(newest, key_at)) {
                    continue;
                }
            }
            return Ok(true);
        }
    }

    /// Whether another transaction has deleted the row that the view has under a key. Another one
    /// may be there now.
    fn has_gone(&self, transaction: &Transaction<'s, B>, key: &[u8]) -> Result<bool, Error> {
        let system = &transaction.system;
        let mut version = system.newest(&self.table, key)?;
        let mut is_deleted = false;
        while let Some(it) = version {
            if self.view.view.sees(it.trx) {
                return Ok(is_deleted && !it.is_deleted());
            }
            is_deleted |= it.is_deleted() && transaction.own() != Some(it.trx);
            version = system.before(&self.table, key, &it)?;
        }
        Ok(false)
    }

    /// Behind a range: goes on with the next one of those that it goes through again, or goes
    /// back to the first one, if a row has gone meanwhile. Returns whether there is one. Each time
    /// there is a view anew, so that only what goes while it is gone through makes another time:
    /// what is locked does not.
    fn begin_next(&mut self, transaction: &Transaction<'s, B>) -> bool {
        if self.is_again && self.at + 1 < self.ranges.len() {
            self.at += 1;
        } else if self.has_one_gone && !self.is_one_of_many {
            self.has_one_gone = false;
            self.is_again = true;
            self.ahead = None;
            self.sort();
            self.at = 0;
            self.view = transaction.system.views.open();
        } else {
            return false;
        }
        let (lower, upper) = &self.ranges[self.at];
        self.cursor.begin_again(as_slice(lower), as_slice(upper));
        true
    }

    /// Whether a row comes where its entry is of an earlier version, as another transaction has
    /// changed it: if its true entry is in one of the ranges, and behind the cursor, or it is the
    /// second time. To one that is before it the cursor comes, though it has come into a leaf that
    /// was copied.
    fn comes_now(&mut self, columns: Vec<u8>, key_at: usize) -> bool {
        let mut entry = columns;
        entry.extend_from_slice(&self.last[key_at..]);
        let Some(place) = self.range_of(&entry) else {
            return false;
        };
        // The second time it would be left out there, as one that was locked.
        let has_passed =
            self.is_again || place != self.at || self.cursor.has_passed(&entry, &self.last);
        if !has_passed {
            self.cursor.go_on_from(&self.last);
        }
        has_passed
    }

    /// Which of the ranges that have begun a key or an entry is in.
    fn range_of(&mut self, entry: &[u8]) -> Option<usize> {
        self.sort();
        let behind = self
            .ranges
            .partition_point(|(lower, _)| first_key(lower) <= entry);
        let place = behind.checked_sub(1)?;
        let (lower, upper) = &self.ranges[place];
        is_within((as_slice(lower), as_slice(upper)), entry).then_some(place)
    }

    /// Other ranges follow, or none any more.
    pub(super) fn set_one_of_many(&mut self, is_one_of_many: bool) {
        self.is_one_of_many = is_one_of_many;
    }

    /// Goes on with another range of its index, under the same view.
    pub(super) fn go_on_with(
        &mut self,
        transaction: &Transaction<'s, B>,
        range: KeyRange,
        direction: Direction,
    ) {
        let within = (as_slice(&range.0), as_slice(&range.1));
        (self.cursor, self.ahead) =
            transaction.cursor_within(&self.table, self.index, within, direction);
        self.is_again = false;
        self.last.clear();
        self.at = self.ranges.len();
        if !has_room(&range) {
            return;
        }
        let last = self.ranges.last();
        self.are_sorted &= last.is_none_or(|(last, _)| first_key(last) <= first_key(&range.0));
        self.ranges.push(range);
    }

    /// Puts the ranges in ascending order, as they mostly come.
    fn sort(&mut self) {
        if self.are_sorted {
            return;
        }
        self.are_sorted = true;
        let current = self.ranges.get(self.at).map(|(lower, _)| lower.clone());
        let by_lower = |a: &KeyRange, b: &KeyRange| first_key(&a.0).cmp(first_key(&b.0));
        self.ranges.sort_by(by_lower);
        if let Some(current) = current {
            let is_before = |(lower, _): &KeyRange| first_key(lower) < first_key(&current);
            self.at = self.ranges.partition_point(is_before);
        }
    }

    /// Puts the next row into the place of another one. Returns whether there is one;
    /// after an error there are none.
    pub(super) fn put_next(
        &mut self,
        transaction: &mut Transaction<'s, B>,
        row: &mut Row,
    ) -> Result<bool, Error> {
        if self.has_failed {
            return Ok(false);
        }
        let is_there = self.advance(transaction, row);
        self.has_failed = is_there.is_err();
        is_there
    }
}

impl<B: Backing> Iterator for LockedRows<'_, '_, B> {
    type Item = Result<Row, Error>;

    /// The next row. After an error there are none.
    fn next(&mut self) -> Option<Result<Row, Error>> {
        let mut row = Row::new();
        let is_there = self.walk.put_next(self.transaction, &mut row);
        is_there.map(|is_there| is_there.then_some(row)).transpose()
    }
}
