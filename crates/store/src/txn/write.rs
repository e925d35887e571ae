//! Insert, update and delete.

use super::change::{Changes, Planned, Refused};
use super::read::damaged;
use super::version::DELETED;
use super::{Error, Transaction, Unsettled};
use crate::backing::Backing;
use crate::data::{Row, Value};
use crate::table::Table;
use crate::tree::{ModifyError, Tree};
use crate::undo::record::Change;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Rows that are counted as unsettled as they are about to be changed: those that are
/// not changed in the end are not any more.
struct Begun<'a> {
    unsettled: &'a Unsettled,
    table: u64,
    rows: &'a [Planned],
}

impl<'a> Begun<'a> {
    fn of(unsettled: &'a Unsettled, table: &Table, rows: &'a [Planned]) -> Begun<'a> {
        for row in rows.iter().filter(|row| !row.entries_stay) {
            unsettled.begin(table.id, &row.key);
        }
        let table = table.id;
        Begun {
            unsettled,
            table,
            rows,
        }
    }

    /// The first rows are changed: undo has them.
    fn keep(&mut self, count: usize) -> &'a [Planned] {
        let (changed, rest) = self.rows.split_at(count);
        self.rows = rest;
        changed
    }

    /// The first rows stay as they are.
    fn give_up(&mut self, count: usize) {
        for row in self.keep(count).iter().filter(|row| !row.entries_stay) {
            self.unsettled.end(self.table, &row.key);
        }
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        self.give_up(self.rows.len());
    }
}

impl<B: Backing> Transaction<'_, B> {
    /// Inserts a row.
    ///
    /// # Errors
    /// [`Error::Duplicate`], [`Error::Schema`] for a row that is not of this
    /// table, [`Error::TooLarge`], [`Error::UnknownTable`],
    /// [`Error::DamagedTable`]; those of waiting for others: [`Error::Lock`],
    /// [`Error::WriteConflict`], [`Error::Unfinished`],
    /// [`Error::TooManyWriters`]; [`Error::Pages`], [`Error::Ended`]. Nothing
    /// was changed, and but for a deadlock the transaction can go on.
    pub fn insert(&mut self, table: &str, row: impl AsRef<[Value]>) -> Result<(), Error> {
        self.check_open()?;
        let row = row.as_ref();
        let table = self.table(table)?;
        table.schema.check_row(row)?;
        let key = table.key_of(row, Tree::key_bytes_max(&self.system.backing))?;
        self.change_one(&table, &key, Change::Insert, Some(row))?;
        Ok(())
    }

    /// Replaces the row with the same primary key. Returns whether there is
    /// one.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn update(&mut self, table: &str, row: impl AsRef<[Value]>) -> Result<bool, Error> {
        self.check_open()?;
        let row = row.as_ref();
        let table = self.table(table)?;
        table.schema.check_row(row)?;
        let key = table.key_of(row, Tree::key_bytes_max(&self.system.backing))?;
        self.change_one(&table, &key, Change::Update, Some(row))
    }

    /// Deletes the row with a primary key. Returns whether there is one.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), and [`Error::KeyLength`].
    pub fn delete(&mut self, table: &str, key: &[Value]) -> Result<bool, Error> {
        self.check_open()?;
        let table = self.table(table)?;
        let key = table.primary_key(key)?;
        if key.len() > Tree::key_bytes_max(&self.system.backing) {
            return Ok(false);
        }
        self.change_one(&table, &key, Change::Delete, None)
    }

    fn change_one(
        &mut self,
        table: &Table,
        key: &[u8],
        change: Change,
        row: Option<&[Value]>,
    ) -> Result<bool, Error> {
        self.statement(|this| {
            let mut changes = Changes::default();
            this.plan(table, key, change, row, &mut changes)?;
            this.change_planned(table, &mut changes)?;
            Ok(changes.made == 1)
        })
    }

    /// Locks a row and plans what shall become of it: nothing, if it is known
    /// already that there is none to be changed. What is planned before is of
    /// the same table, with lesser keys; it is changed already where this row
    /// depends on it, or is too long to be kept.
    pub(super) fn plan(
        &mut self,
        table: &Table,
        key: &[u8],
        change: Change,
        row: Option<&[Value]>,
        changes: &mut Changes,
    ) -> Result<(), Error> {
        let system = self.system;
        let payload = row.map(|row| table.payload_of(row)).transpose()?;
        let mut planned = Planned {
            key: key.into(),
            change,
            flags: if row.is_some() { 0 } else { DELETED },
            payload: payload.unwrap_or_default(),
            entries: Vec::new(),
            // Where there are indexes, the row is looked at before it is known.
            entries_stay: false,
        };
        self.lock(table.id, &planned.key)?;
        self.look_for_changes();
        let (is_long, has_indexes) = (system.is_long(&planned), !table.indexes.is_empty());
        // Otherwise it is looked at when it is changed.
        if is_long || has_indexes {
            let old = match has_indexes {
                true => self.newest_row(table, key)?,
                // Only whether it is there is wanted, not what may be long.
                false => self.is_there(table, key)?.then(Row::new),
            };
            match (change, &old) {
                (Change::Insert, Some(_)) => return Err(duplicate(table, "primary key")),
                (Change::Update | Change::Delete, None) => return Ok(()),
                _ => {}
            }
            self.lock_unique(table, key, old.as_deref(), row, changes)?;
            if let Some(row) = row.filter(|_| has_indexes) {
                planned.entries = system.new_entries(table, old.as_deref(), row, key)?;
                planned.entries_stay = old.is_some() && planned.entries.is_empty();
            }
        }
        changes.planned.push(planned);
        if is_long {
            self.change_planned(table, changes)?;
        }
        Ok(())
    }

    /// Changes rows as planned.
    pub(super) fn change_planned(
        &mut self,
        table: &Table,
        changes: &mut Changes,
    ) -> Result<(), Error> {
        if changes.planned.is_empty() {
            return Ok(());
        }
        let system = self.system;
        let is_of_newest = self.is_of_newest();
        let writer = self
            .writer
            .as_mut()
            .expect("rows are planned by who writes");
        let view = || &*self.view.as_ref().expect("opened with the lock").view;
        let view = (!is_of_newest).then(view);
        let changing = system.gate.read();
        for row in &mut changes.planned {
            system.put_away(writer, table, row)?;
        }
        let mut left = Begun::of(&system.unsettled, table, &changes.planned);
        while !left.rows.is_empty() {
            let count = match system.change_some(writer, view, table, left.rows) {
                Ok(count) => count,
                Err(ModifyError::Aborted(Refused::Absent)) => {
                    left.give_up(1);
                    continue;
                }
                Err(error) => {
                    drop(left);
                    return Err(self.refused(table, error));
                }
            };
            for (index, entry) in left.keep(count).iter().flat_map(|row| &row.entries) {
                system.ensure_entry(&table.indexes[*index], entry)?;
            }
            changes.made += count as u64;
        }
        drop(left);
        changes.planned.clear();
        drop(changing);
        self.pay_on_the_way();
        Ok(())
    }

    fn refused(&self, table: &Table, why: ModifyError<Refused>) -> Error {
        match why {
            ModifyError::Tree(error) => error.into(),
            ModifyError::Aborted(Refused::Conflict) => self.conflict(table),
            ModifyError::Aborted(Refused::Unfinished) => unfinished(table),
            ModifyError::Aborted(Refused::Present) => duplicate(table, "primary key"),
            ModifyError::Aborted(Refused::Damaged) => {
                damaged(table, "a row without its head".to_owned())
            }
            ModifyError::Aborted(Refused::Absent | Refused::LacksPage) => {
                unreachable!("this is no error")
            }
        }
    }

    /// Whether a row that is locked is there, and this transaction may change it.
    fn is_there(&self, table: &Table, key: &[u8]) -> Result<bool, Error> {
        let Some(newest) = self.system.newest(table, key)? else {
            return Ok(false);
        };
        self.check_changeable(table, newest.trx)?;
        Ok(!newest.is_deleted())
    }

    /// Whether this transaction may change a row whose newest version is of `trx`, and
    /// which it has locked.
    pub(super) fn check_changeable(&self, table: &Table, trx: u64) -> Result<(), Error> {
        if self.system.unfinished.contains(&trx) {
            return Err(unfinished(table));
        }
        let view = || &self.view.as_ref().expect("opened with the lock").view;
        let is_seen = self.is_of_newest() || view().sees(trx);
        if self.own() != Some(trx) && !is_seen {
            return Err(self.conflict(table));
        }
        Ok(())
    }

    /// Counts a conflict, which is the caller's error.
    fn conflict(&self, table: &Table) -> Error {
        let counters = &self.system.counters;
        counters.conflicts.fetch_add(1, Ordering::Relaxed);
        Error::WriteConflict {
            table: table.name().to_owned(),
        }
    }

    /// Locks what a row gives up and takes of unique indexes, and checks that
    /// what it takes is free, once the rows before it are changed: they may give
    /// it up, or have taken it.
    fn lock_unique(
        &mut self,
        table: &Table,
        key: &[u8],
        old: Option<&[Value]>,
        new: Option<&[Value]>,
        changes: &mut Changes,
    ) -> Result<(), Error> {
        for index in &table.indexes {
            let columns_of = |row: Option<&[Value]>| {
                row.filter(|row| table.is_unique_for(index, row))
                    .map(|row| table.index_key(index, row))
                    .transpose()
            };
            let (old, new) = (columns_of(old)?, columns_of(new)?);
            if old == new {
                continue;
            }
            for columns in [&old, &new].into_iter().flatten() {
                self.lock(index.id, &Arc::from(&columns[..]))?;
            }
            let Some(new) = new else { continue };
            self.change_planned(table, changes)?;
            if self.system.is_taken(table, index, &new, key)? {
                return Err(duplicate(table, &index.name));
            }
        }
        Ok(())
    }
}

/// Without a conflict being counted: trying again is of no use.
pub(super) fn unfinished(table: &Table) -> Error {
    Error::Unfinished {
        table: table.name().to_owned(),
    }
}

fn duplicate(table: &Table, key: &str) -> Error {
    Error::Duplicate {
        table: table.name().to_owned(),
        key: key.to_owned(),
    }
}
