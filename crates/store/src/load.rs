//! Loading many rows into an empty table, page by page instead of row by row.
//!
//! The rows go into new trees in a tablespace of their own, which takes the
//! place of the table's when it is complete: a crash or an error leaves the
//! table empty.
//!
//! What fits in [`SORT_BYTES_MAX`] may come in any order and is sorted. From
//! more, all that comes in the order of the key is still written page by page;
//! the rest is sorted in parts of that size and inserted.

use crate::backing::Backing;
use crate::data::Row;
use crate::system::System;
use crate::table::{SecondaryIndex, Table};
use crate::tree::{Direction, Reserve, Tree, TreeError};
use crate::txn::Error;
use crate::txn::version::{LONG, RollPointer, VersionRef};
use std::ops::Bound;

/// Most bytes of rows, and of index entries, that are sorted in memory.
const SORT_BYTES_MAX: usize = 64 << 20;
/// What a record in memory takes beside its bytes, about.
const RECORD_OVERHEAD_BYTES: usize = 64;
/// Of a page, so much is filled: rows are changed later.
const FILL_PERCENT: u32 = 94;

type Record = (Vec<u8>, Vec<u8>);

/// Rows on their way into a table that nobody else knows.
struct Loader<'a, B> {
    system: &'a System<B>,
    table: &'a Table,
    trx: u64,
    /// Entries of all indexes that are not in their trees yet.
    entries: Vec<Vec<Vec<u8>>>,
    entries_bytes: usize,
    /// The first error, which ends the stream of rows.
    failed: Option<Error>,
    rows: u64,
}

impl<B: Backing> System<B> {
    /// Loads rows into an empty table that no transaction uses. Returns how
    /// many.
    pub(crate) fn bulk_load(
        &self,
        name: &str,
        rows: impl IntoIterator<Item = Row>,
    ) -> Result<u64, Error> {
        while self.purge(usize::MAX)? > 0 {}
        // Active until the table is in its place: older views do not see it.
        let trx = self.views.begin_writing(&self.backing)?;
        let mut count = 0;
        let replaced = self.replace_table(
            name,
            |old| self.expect_empty(old),
            |table| {
                count = self.fill(table, trx, rows.into_iter())?;
                Ok(())
            },
        );
        self.views.end(trx, trx);
        replaced.map(|()| count)
    }

    fn expect_empty(&self, table: &Table) -> Result<(), Error> {
        let mut cursor = table
            .rows
            .cursor(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
        match cursor.next(&self.backing)? {
            None => Ok(()),
            Some(_) => Err(Error::NotEmpty(table.name().to_owned())),
        }
    }

    fn fill(
        &self,
        table: &Table,
        trx: u64,
        mut rows: impl Iterator<Item = Row>,
    ) -> Result<u64, Error> {
        let mut loader = Loader {
            system: self,
            table,
            trx,
            entries: vec![Vec::new(); table.indexes.len()],
            entries_bytes: 0,
            failed: None,
            rows: 0,
        };
        let sorted = loader.sorted_part(&mut rows)?;
        let rest = loader.load_ascending(sorted, &mut rows)?;
        loader.insert_rest(rest, &mut rows)?;
        loader.flush_entries()?;
        for index in &table.indexes {
            loader.check_unique(index)?;
        }
        Ok(loader.rows)
    }
}

impl<B: Backing> Loader<'_, B> {
    /// The record of a row; its entries are noted.
    fn record(&mut self, row: &Row) -> Result<Record, Error> {
        let (system, table) = (self.system, self.table);
        table.schema.check_row(row)?;
        let key = table.key_of(row, Tree::key_bytes_max(&system.backing))?;
        for (index, entry) in system.entries_of(table, row, &key)?.into_iter().enumerate() {
            self.entries_bytes += entry.len() + RECORD_OVERHEAD_BYTES;
            self.entries[index].push(entry);
        }
        if self.entries_bytes > SORT_BYTES_MAX {
            self.flush_entries()?;
        }
        let mut payload = table.payload_of(row)?;
        let room = Tree::value_bytes_max(&system.backing, key.len()) - VersionRef::HEAD_BYTES;
        let mut flags = 0;
        if payload.len() > room {
            // Without undo: if this does not end well, the tablespace goes.
            let reserve = Reserve::default();
            let backing = &system.backing;
            let value = table
                .long
                .write(backing, &payload, reserve, |_| Ok(()), |_, _| {})?;
            (flags, payload) = (LONG, value.to_bytes().to_vec());
        }
        let version = VersionRef {
            trx: self.trx,
            roll: RollPointer::NONE,
            flags,
            payload: &payload,
        };
        let mut value = Vec::new();
        version.encode(&mut value);
        self.rows += 1;
        Ok((key, value))
    }

    /// As many rows as may be sorted in memory, sorted.
    fn sorted_part(&mut self, rows: &mut impl Iterator<Item = Row>) -> Result<Vec<Record>, Error> {
        let (mut part, mut bytes) = (Vec::new(), 0);
        while bytes < SORT_BYTES_MAX
            && let Some(row) = rows.next()
        {
            let (key, value) = self.record(&row)?;
            bytes += key.len() + value.len() + RECORD_OVERHEAD_BYTES;
            part.push((key, value));
        }
        part.sort_unstable();
        if part.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(self.duplicate("primary key"));
        }
        Ok(part)
    }

    /// Loads the sorted rows, and those that come in order behind them.
    /// Returns the first that does not.
    fn load_ascending(
        &mut self,
        sorted: Vec<Record>,
        rows: &mut impl Iterator<Item = Row>,
    ) -> Result<Option<Record>, Error> {
        let mut out_of_order = None;
        let mut last = sorted.last().map_or_else(Vec::new, |(key, _)| key.clone());
        let (tree, backing) = (self.table.rows, &self.system.backing);
        let behind = std::iter::from_fn(|| {
            let row = rows.next()?;
            match self.record(&row) {
                Ok(record) if record.0 > last => {
                    last.clone_from(&record.0);
                    Some(record)
                }
                Ok(record) => {
                    out_of_order = Some(record);
                    None
                }
                Err(error) => {
                    self.failed = Some(error);
                    None
                }
            }
        });
        let loaded = tree.bulk_load(
            backing,
            sorted.into_iter().chain(behind.fuse()),
            FILL_PERCENT,
        );
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        loaded?;
        Ok(out_of_order)
    }

    /// Inserts what did not come in order, in sorted parts.
    fn insert_rest(
        &mut self,
        first: Option<Record>,
        rows: &mut impl Iterator<Item = Row>,
    ) -> Result<(), Error> {
        let mut next = first;
        while let Some(first) = next.take() {
            let mut part = self.sorted_part(rows)?;
            part.push(first);
            part.sort_unstable();
            for (key, value) in part {
                if !self.table.rows.insert(&self.system.backing, &key, &value)? {
                    return Err(self.duplicate("primary key"));
                }
            }
            next = rows.next().map(|row| self.record(&row)).transpose()?;
        }
        Ok(())
    }

    /// Puts the noted entries into their trees.
    fn flush_entries(&mut self) -> Result<(), Error> {
        let backing = &self.system.backing;
        for (index, entries) in self.table.indexes.iter().zip(&mut self.entries) {
            let mut entries = std::mem::take(entries);
            entries.sort_unstable();
            let records = entries.iter().map(|entry| (entry, []));
            match index.tree.bulk_load(backing, records, FILL_PERCENT) {
                Ok(_) => {}
                Err(TreeError::NotEmpty) => {
                    for entry in &entries {
                        index.tree.insert(backing, entry, &[])?;
                    }
                }
                // The same entry twice: the same row twice.
                Err(TreeError::Unsorted { .. }) => return Err(self.duplicate("primary key")),
                Err(error) => return Err(error.into()),
            }
        }
        self.entries_bytes = 0;
        Ok(())
    }

    /// Checks that no two rows have the same columns of a unique index: their
    /// entries are neighbours.
    fn check_unique(&self, index: &SecondaryIndex) -> Result<(), Error> {
        if !index.unique {
            return Ok(());
        }
        let mut cursor = index
            .tree
            .cursor(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
        let mut last: Vec<u8> = Vec::new();
        while let Some((entry, _)) = cursor.next(&self.system.backing)? {
            let columns = &entry[..self.table.split_entry(index, entry)?];
            if columns == last && !self.table.has_null(index, columns)? {
                return Err(self.duplicate(&index.name));
            }
            last = columns.to_vec();
        }
        Ok(())
    }

    fn duplicate(&self, key: &str) -> Error {
        Error::Duplicate {
            table: self.table.name().to_owned(),
            key: key.to_owned(),
        }
    }
}
