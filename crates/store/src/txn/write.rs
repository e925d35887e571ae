//! Insert, update and delete.

use super::change::Content;
use super::transaction::Writer;
use super::version::{DELETED, Version};
use super::{Error, Transaction};
use crate::backing::Backing;
use crate::data::{Row, Value};
use crate::table::Table;
use crate::tree::Tree;
use crate::undo::record::Change;
use std::sync::atomic::Ordering;

impl<B: Backing> Transaction<'_, B> {
    /// Inserts a row.
    ///
    /// # Errors
    /// [`Error::Duplicate`], [`Error::Schema`] for a row that is not of this
    /// table, [`Error::TooLarge`], [`Error::UnknownTable`]; those of waiting
    /// for others: [`Error::Lock`], [`Error::WriteConflict`],
    /// [`Error::TooManyWriters`]; [`Error::Pages`], [`Error::Ended`]. Nothing
    /// was changed, and but for a deadlock the transaction can go on.
    pub fn insert(&mut self, table: &str, row: Row) -> Result<(), Error> {
        self.check_open()?;
        let table = self.table(table)?;
        table.schema.check_row(&row)?;
        let system = self.system;
        let key = table.key_of(&row, Tree::key_bytes_max(&system.backing))?;
        let entries = system.entries_of(&table, &row, &key)?;
        let payload = table.payload_of(&row)?;
        self.statement(|this| {
            this.lock(table.id, &key)?;
            this.look();
            let before = this.changeable(&table, &key)?;
            if before.is_some_and(|before| !before.is_deleted()) {
                return Err(duplicate(&table, "primary key"));
            }
            this.lock_unique(&table, &key, None, Some(&row))?;
            let _changing = system.gate.read();
            let content = system.content(this.writer()?, &table, &key, payload)?;
            loop {
                let before = system.newest(&table, &key)?;
                let change = match before {
                    Some(_) => Change::Update,
                    None => Change::Insert,
                };
                let writer = this.writer()?;
                if system.change(writer, &table, &key, change, before.as_ref(), &content)? {
                    break;
                }
            }
            for (index, entry) in table.indexes.iter().zip(&entries) {
                system.ensure_entry(index, entry)?;
            }
            Ok(())
        })
    }

    /// Replaces the row with the same primary key. Returns whether there is
    /// one.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn update(&mut self, table: &str, row: Row) -> Result<bool, Error> {
        self.check_open()?;
        let table = self.table(table)?;
        table.schema.check_row(&row)?;
        let key = table.key_of(&row, Tree::key_bytes_max(&self.system.backing))?;
        self.update_with(&table, &key, &row)
    }

    /// Replaces the row with this key by one that is known to be of the table.
    pub(super) fn update_with(
        &mut self,
        table: &Table,
        key: &[u8],
        row: &Row,
    ) -> Result<bool, Error> {
        let system = self.system;
        let entries = system.entries_of(table, row, key)?;
        let payload = table.payload_of(row)?;
        self.statement(|this| {
            let Some((before, old)) = this.lock_row(table, key)? else {
                return Ok(false);
            };
            this.lock_unique(table, key, old.as_ref(), Some(row))?;
            let old_entries = match &old {
                Some(old) => system.entries_of(table, old, key)?,
                None => Vec::new(),
            };
            let _changing = system.gate.read();
            let content = system.content(this.writer()?, table, key, payload)?;
            this.replace(table, key, Change::Update, &before, &content)?;
            let changed = entries.iter().zip(&old_entries).zip(&table.indexes);
            for ((entry, old), index) in changed {
                if entry != old {
                    system.ensure_entry(index, entry)?;
                }
            }
            Ok(true)
        })
    }

    /// Deletes the row with a primary key. Returns whether there is one.
    ///
    /// # Errors
    /// As [`insert`](Self::insert), and [`Error::KeyLength`].
    pub fn delete(&mut self, table: &str, key: &[Value]) -> Result<bool, Error> {
        self.check_open()?;
        let table = self.table(table)?;
        let key = table.primary_key(key)?;
        self.delete_with(&table, &key)
    }

    pub(super) fn delete_with(&mut self, table: &Table, key: &[u8]) -> Result<bool, Error> {
        self.statement(|this| {
            let Some((before, old)) = this.lock_row(table, key)? else {
                return Ok(false);
            };
            this.lock_unique(table, key, old.as_ref(), None)?;
            let content = Content {
                flags: DELETED,
                payload: Vec::new(),
            };
            let _changing = this.system.gate.read();
            this.replace(table, key, Change::Delete, &before, &content)?;
            Ok(true)
        })
    }

    /// Changes a row that is locked and not deleted: nobody else can.
    fn replace(
        &mut self,
        table: &Table,
        key: &[u8],
        change: Change,
        before: &Version,
        content: &Content,
    ) -> Result<(), Error> {
        let system = self.system;
        let writer: &mut Writer<'_> = self.writer()?;
        let changed = system.change(writer, table, key, change, Some(before), content)?;
        assert!(changed, "a locked row was changed by another transaction");
        Ok(())
    }

    /// Locks a row to be changed. `None` if there is none; and no columns of it
    /// where nobody needs them, as the table has no secondary index.
    fn lock_row(
        &mut self,
        table: &Table,
        key: &[u8],
    ) -> Result<Option<(Version, Option<Row>)>, Error> {
        self.lock(table.id, key)?;
        self.look();
        let newest = self.changeable(table, key)?;
        let Some(before) = newest.filter(|newest| !newest.is_deleted()) else {
            return Ok(None);
        };
        let is_needed = !table.indexes.is_empty();
        let row = is_needed.then(|| self.system.row(table, key, &before));
        Ok(Some((before, row.transpose()?)))
    }

    /// The newest version of a row that is locked, if this transaction sees
    /// it.
    fn changeable(&self, table: &Table, key: &[u8]) -> Result<Option<Version>, Error> {
        let newest = self.system.newest(table, key)?;
        if let Some(newest) = &newest {
            let view = &self.view.as_ref().expect("opened with the lock").view;
            if self.own() != Some(newest.trx) && !view.sees(newest.trx) {
                let counters = &self.system.counters;
                counters.conflicts.fetch_add(1, Ordering::Relaxed);
                return Err(Error::WriteConflict {
                    table: table.name().to_owned(),
                });
            }
        }
        Ok(newest)
    }

    /// Locks what a row gives up and takes of unique indexes, and checks that
    /// what it takes is free.
    fn lock_unique(
        &mut self,
        table: &Table,
        key: &[u8],
        old: Option<&Row>,
        new: Option<&Row>,
    ) -> Result<(), Error> {
        for index in &table.indexes {
            let columns_of = |row: Option<&Row>| {
                row.filter(|row| table.is_unique_for(index, row))
                    .map(|row| table.index_key(index, row))
                    .transpose()
            };
            let (old, new) = (columns_of(old)?, columns_of(new)?);
            if old == new {
                continue;
            }
            for columns in [&old, &new].into_iter().flatten() {
                self.lock(index.id, columns)?;
            }
            if let Some(new) = new
                && self.system.is_taken(table, index, &new, key)?
            {
                return Err(duplicate(table, &index.name));
            }
        }
        Ok(())
    }
}

fn duplicate(table: &Table, key: &str) -> Error {
    Error::Duplicate {
        table: table.name().to_owned(),
        key: key.to_owned(),
    }
}
