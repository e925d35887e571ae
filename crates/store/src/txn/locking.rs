//! Locking reads: rows as they are now, which stay so until the transaction
//! ends.
//!
//! Only rows are locked that are there, or were; nobody is kept from inserting
//! others between them.

use super::locks::{LockError, LockMode};
use super::{Error, Transaction};
use crate::backing::Backing;
use crate::data::{Row, Value};
use crate::page_store::PageStore;
use crate::stream::{LeafAhead, in_range};
use crate::table::Table;
use crate::tree::{Cursor, Direction};
use std::ops::RangeBounds;
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
    table: Arc<Table>,
    /// Position of the index whose entries it goes by; `None`: the rows themselves.
    index: Option<usize>,
    cursor: Cursor,
    /// Reads the rows ahead where it goes by them.
    ahead: Option<LeafAhead<'s, B>>,
    mode: LockMode,
    when: WhenLocked,
    has_failed: bool,
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
        self.check_open()?;
        let table = self.table(table)?;
        let key = table.primary_key(key)?;
        self.lock_and_read(&table, &key, mode, when)
    }

    /// The rows of a table with keys in `bounds`, as [`range`](Self::range) has
    /// them, but each locked, and as [`lock_row`](Self::lock_row) returns it. What
    /// others insert meanwhile may come or not.
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
        let (table, cursor, ahead) = self.begin_range(table, &bounds, direction)?;
        self.look();
        Ok(LockedRows {
            transaction: self,
            table,
            index: None,
            cursor,
            ahead: Some(ahead),
            mode,
            when,
            has_failed: false,
        })
    }

    /// The same in the order of a secondary index, and with bounds of its columns.
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
        let (table, position, cursor) = self.begin_range_by(table, index, &bounds, direction)?;
        self.look();
        Ok(LockedRows {
            transaction: self,
            table,
            index: Some(position),
            cursor,
            ahead: None,
            mode,
            when,
            has_failed: false,
        })
    }

    fn lock_and_read(
        &mut self,
        table: &Table,
        key: &[u8],
        mode: LockMode,
        when: WhenLocked,
    ) -> Result<Option<Row>, Error> {
        let patience = match when {
            WhenLocked::Wait => self.patience(),
            WhenLocked::Refuse | WhenLocked::Skip => Duration::ZERO,
        };
        match self.lock_as(table.id, &Arc::from(key), mode, patience) {
            Err(Error::Lock(LockError::Busy)) if when == WhenLocked::Skip => return Ok(None),
            locked => locked?,
        }
        self.look();
        let _acting = self.acting();
        self.newest_row(table, key)
    }

    /// The row of a key that is locked, as it is now.
    pub(super) fn newest_row(&self, table: &Table, key: &[u8]) -> Result<Option<Row>, Error> {
        let newest = self.changeable(table, key)?;
        let newest = newest.filter(|newest| !newest.is_deleted());
        let row = newest.map(|newest| self.system.row(table, key, &newest));
        row.transpose()
    }
}

impl<B: Backing> LockedRows<'_, '_, B> {
    fn advance(&mut self) -> Result<Option<Row>, Error> {
        let backing = &self.transaction.system.backing;
        let _acting = self.transaction.acting();
        loop {
            let next = {
                let _range = in_range();
                match &mut self.ahead {
                    Some(ahead) => self.cursor.next_watched(backing, ahead)?,
                    None => self.cursor.next(backing)?,
                }
            };
            let Some((entry, _)) = next else {
                return Ok(None);
            };
            let (columns, key) = match self.index {
                None => (None, entry.to_vec()),
                Some(index) => {
                    let at = self.table.split_entry(&self.table.indexes[index], entry)?;
                    (Some(entry[..at].to_vec()), entry[at..].to_vec())
                }
            };
            let (mode, when) = (self.mode, self.when);
            let row = self
                .transaction
                .lock_and_read(&self.table, &key, mode, when)?;
            let Some(row) = row else { continue };
            if let (Some(index), Some(columns)) = (self.index, columns) {
                // The entry may be of another version.
                let index = &self.table.indexes[index];
                if self.table.index_key(index, &row)? != columns {
                    continue;
                }
            }
            return Ok(Some(row));
        }
    }
}

impl<B: Backing> Iterator for LockedRows<'_, '_, B> {
    type Item = Result<Row, Error>;

    /// The next row. After an error there are none.
    fn next(&mut self) -> Option<Result<Row, Error>> {
        if self.has_failed {
            return None;
        }
        let row = self.advance().transpose();
        self.has_failed = matches!(row, Some(Err(_)));
        row
    }
}
