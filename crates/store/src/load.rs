//! Loading many rows into an empty table, page by page instead of row by row.
//!
//! The rows go into new trees in a tablespace of their own, which takes the
//! place of the table's when it is complete: a crash or an error leaves the
//! table empty.
//!
//! Rows that begin in the order of the key go into pages as they come, and so
//! do those that follow while the order lasts. If the first few are in no
//! order, as many as fit in [`SORT_BYTES_MAX`] are sorted before. What does not
//! follow in order is sorted in parts of that size and inserted.
//!
//! Where rows say how many they are, as a `Vec`'s do, the file is made as long
//! as they need in a few steps; else it grows by an eighth.

use crate::backing::Backing;
use crate::data::Row;
use crate::page::slotted::{capacity, footprint};
use crate::system::System;
use crate::table::{SecondaryIndex, Table};
use crate::tree::{Direction, Reserve, Tree, TreeError};
use crate::txn::Error;
use crate::txn::version::{LONG, RollPointer, VersionRef};
use std::ops::Bound;

/// Most bytes of rows, and of index entries, that are sorted in memory.
const SORT_BYTES_MAX: usize = 64 << 20;
/// So many bytes of rows show whether they come in order.
const PROBE_BYTES: usize = 1 << 20;
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
    /// The record of the last row.
    key: Vec<u8>,
    value: Vec<u8>,
    rows: u64,
}

impl<B: Backing> System<B> {
    /// Loads rows into an empty table that no transaction uses. Returns how
    /// many.
    ///
    /// They will take about so many pages, if that is known (otherwise 0).
    pub(crate) fn bulk_load(
        &self,
        name: &str,
        rows: impl IntoIterator<Item = Row>,
        pages: u64,
    ) -> Result<u64, Error> {
        while self.purge(usize::MAX)? > 0 {}
        // Active until the table is in its place: older views do not see it.
        let trx = self.views.begin_writing(&self.backing)?;
        let mut count = 0;
        let replaced = self.replace_table(
            name,
            |old| self.expect_empty(old),
            |table| {
                count = self.fill(table, trx, rows.into_iter(), pages)?;
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
        pages: u64,
    ) -> Result<u64, Error> {
        let mut loader = Loader {
            system: self,
            table,
            trx,
            entries: vec![Vec::new(); table.indexes.len()],
            entries_bytes: 0,
            key: Vec::new(),
            value: Vec::new(),
            rows: 0,
        };
        let mut sorted = Vec::new();
        loader.gather(&mut rows, PROBE_BYTES, &mut sorted)?;
        if !sorted.is_sorted_by(|a: &Record, b| a.0 < b.0) {
            loader.gather(&mut rows, SORT_BYTES_MAX, &mut sorted)?;
            loader.sort(&mut sorted)?;
        }
        let rest = loader.load_ascending(sorted, &mut rows, pages)?;
        loader.insert_rest(rest, &mut rows)?;
        loader.flush_entries()?;
        for index in &table.indexes {
            loader.check_unique(index)?;
        }
        Ok(loader.rows)
    }
}

impl<B: Backing> Loader<'_, B> {
    /// Makes the record of a row, in `key` and `value`; its entries are noted.
    fn encode(&mut self, row: &Row) -> Result<(), Error> {
        let (system, table) = (self.system, self.table);
        table.schema.check_row(row)?;
        self.key.clear();
        table.put_key(row, Tree::key_bytes_max(&system.backing), &mut self.key)?;
        if !table.indexes.is_empty() {
            self.note_entries(row)?;
        }
        let mut version = VersionRef {
            trx: self.trx,
            roll: RollPointer::NONE,
            flags: 0,
            payload: &[],
        };
        self.value.clear();
        version.encode(&mut self.value);
        table.put_payload(row, &mut self.value)?;
        let room = Tree::value_bytes_max(&system.backing, self.key.len());
        if self.value.len() > room {
            // Without undo: if this does not end well, the tablespace goes.
            let payload = &self.value[VersionRef::HEAD_BYTES..];
            let reserve = Reserve::default();
            let backing = &system.backing;
            let value = table
                .long
                .write(backing, payload, reserve, |_| Ok(()), |_, _| {})?;
            let reference = value.to_bytes();
            (version.flags, version.payload) = (LONG, &reference);
            self.value.clear();
            version.encode(&mut self.value);
        }
        self.rows += 1;
        Ok(())
    }

    fn note_entries(&mut self, row: &Row) -> Result<(), Error> {
        let entries = self.system.entries_of(self.table, row, &self.key)?;
        for (index, entry) in entries.into_iter().enumerate() {
            self.entries_bytes += entry.len() + RECORD_OVERHEAD_BYTES;
            self.entries[index].push(entry);
        }
        if self.entries_bytes > SORT_BYTES_MAX {
            self.flush_entries()?;
        }
        Ok(())
    }

    /// The record of a row, to be kept.
    fn record(&mut self, row: &Row) -> Result<Record, Error> {
        self.encode(row)?;
        Ok((self.key.clone(), self.value.clone()))
    }

    /// Adds rows to `part` until they take `bytes_max` more in memory.
    fn gather(
        &mut self,
        rows: &mut impl Iterator<Item = Row>,
        bytes_max: usize,
        part: &mut Vec<Record>,
    ) -> Result<(), Error> {
        let mut bytes = 0;
        while bytes < bytes_max
            && let Some(row) = rows.next()
        {
            let (key, value) = self.record(&row)?;
            bytes += key.len() + value.len() + RECORD_OVERHEAD_BYTES;
            part.push((key, value));
        }
        Ok(())
    }

    fn sort(&self, part: &mut [Record]) -> Result<(), Error> {
        part.sort_unstable();
        if part.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return Err(self.duplicate("primary key"));
        }
        Ok(())
    }

    /// Loads the sorted rows, and those that come in order behind them.
    /// Returns the first that does not.
    fn load_ascending(
        &mut self,
        sorted: Vec<Record>,
        rows: &mut impl Iterator<Item = Row>,
        pages: u64,
    ) -> Result<Option<Record>, Error> {
        let (tree, backing) = (self.table.rows, &self.system.backing);
        let expected = match rows.size_hint() {
            (rest, Some(most)) if rest == most => {
                let bytes = sorted.iter().map(|it| footprint(it.0.len(), it.1.len()));
                let mean = bytes.sum::<usize>() as f64 / sorted.len().max(1) as f64;
                leaves_of(backing, mean * (sorted.len() + rest) as f64)
            }
            _ => pages,
        };
        let leaves = backing.new_pages(tree.leaf_segment, expected)?;
        let mut loader = tree.loader(backing, FILL_PERCENT, leaves)?;
        for (key, value) in sorted {
            loader.push(&key, &value)?;
        }
        let mut out_of_order = None;
        for row in rows {
            self.encode(&row)?;
            if !loader.is_above(&self.key) {
                out_of_order = Some((self.key.clone(), self.value.clone()));
                break;
            }
            loader.push(&self.key, &self.value)?;
        }
        loader.finish()?;
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
            let mut part = vec![first];
            self.gather(rows, SORT_BYTES_MAX, &mut part)?;
            self.sort(&mut part)?;
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
            match load_entries(backing, &index.tree, &entries) {
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

/// Leaves that records of `bytes` with their slots will take, about.
fn leaves_of<B: Backing>(backing: &B, bytes: f64) -> u64 {
    let fill_bytes = capacity(backing.page_bytes()) * FILL_PERCENT as usize / 100;
    // What the last record of a page leaves free, and branches.
    let allowance = 1.0 + 1.0 / 64.0;
    (bytes / fill_bytes as f64 * allowance).ceil() as u64
}

/// Loads sorted entries into an empty tree.
fn load_entries<B: Backing>(
    backing: &B,
    tree: &Tree,
    entries: &[Vec<u8>],
) -> Result<(), TreeError> {
    let bytes = entries.iter().map(|entry| footprint(entry.len(), 0));
    let expected = leaves_of(backing, bytes.sum::<usize>() as f64);
    let leaves = backing.new_pages(tree.leaf_segment, expected)?;
    let mut loader = tree.loader(backing, FILL_PERCENT, leaves)?;
    for entry in entries {
        loader.push(entry, &[])?;
    }
    loader.finish()?;
    Ok(())
}
