//! Loading many rows into a new table, page by page instead of row by row.
//!
//! The rows go into new trees in a tablespace of their own, to which nothing leads
//! before it is complete: a crash or an error leaves nothing of it.
//!
//! Rows that begin in the order of the key go into pages as they come, and so
//! do those that follow while the order lasts; what comes behind is sorted and
//! inserted. If the first few are in no order, all are sorted before; so are the
//! entries of indexes. What is sorted takes [`SORT_BYTES_MAX`] of memory, and goes to
//! the disk in runs where it is more.
//!
//! Where rows say how many they are, as a `Vec`'s do, the file is made as long
//! as they need in a few steps; else it grows by an eighth.

mod sort;
mod table;

pub use table::Load;

use crate::backing::Backing;
use crate::data::Row;
use crate::system::System;
use crate::table::{SecondaryIndex, Table};
use crate::tree::{Direction, Reserve, Tree, TreeLoader};
use crate::txn::Error;
use crate::txn::version::{LONG, RollPointer, VersionRef};
use sort::{SortError, Sorter, leaves_of};
use std::ops::Bound;
use std::sync::atomic::Ordering;

/// So many bytes of rows show whether they come in order.
const PROBE_BYTES: usize = 1 << 20;
/// Of a page, so much is filled: rows are changed later.
const FILL_PERCENT: u32 = 94;

/// How much will come.
#[derive(Clone, Copy)]
pub(crate) enum Expected {
    Rows(u64),
    /// Pages; 0: nobody knows.
    Pages(u64),
}

/// Where the rows go.
enum Stage<'s, B: Backing> {
    /// To be looked at.
    Probing(Sorter<'s, B>),
    /// Into the tree, as they come.
    Ascending(Box<TreeLoader<'s, B>>),
    /// Some are in the tree, and some came out of order.
    Behind(Sorter<'s, B>),
    /// All are to be sorted.
    Sorting(Sorter<'s, B>),
    Over,
}

/// Rows on their way into a table that nobody else knows.
pub(crate) struct Loader<'s, B: Backing> {
    system: &'s System<B>,
    trx: u64,
    expected: Expected,
    stage: Stage<'s, B>,
    /// Entries of each index.
    entries: Vec<Sorter<'s, B>>,
    /// Records since memory was looked at.
    unmeasured: usize,
    /// The record of the last row, and an entry of it.
    key: Vec<u8>,
    value: Vec<u8>,
    entry: Vec<u8>,
    rows: u64,
    /// The key of a row that was refused as there is another one, and its value if it
    /// is not in the table.
    refused: Option<(Vec<u8>, Option<Vec<u8>>)>,
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
        let rows = rows.into_iter();
        let expected = match rows.size_hint() {
            (least, Some(most)) if least == most => Expected::Rows(most as u64),
            _ => Expected::Pages(pages),
        };
        let mut count = 0;
        let replaced = self.replace_table(
            name,
            |old| self.expect_empty(old),
            |table| {
                let mut loader = Loader::new(self, table, trx, expected);
                for row in rows {
                    loader.push(table, &row)?;
                }
                count = loader.finish(table)?;
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
}

impl<'s, B: Backing> Loader<'s, B> {
    pub(crate) fn new(
        system: &'s System<B>,
        table: &Table,
        trx: u64,
        expected: Expected,
    ) -> Loader<'s, B> {
        let entries = table.indexes.iter();
        table.filled_by.store(trx, Ordering::Release);
        Loader {
            system,
            trx,
            expected,
            stage: Stage::Probing(sorter(system, table, table.id)),
            entries: entries.map(|it| sorter(system, table, it.id)).collect(),
            unmeasured: 0,
            key: Vec::new(),
            value: Vec::new(),
            entry: Vec::new(),
            rows: 0,
            refused: None,
        }
    }

    /// Adds a row. After an error the table is of no use.
    pub(crate) fn push(&mut self, table: &Table, row: &Row) -> Result<(), Error> {
        self.encode(table, row)?;
        self.note_entries(table, row)?;
        let pushed = self.push_record(table);
        pushed.map_err(|error| said(table, error))?;
        self.rows += 1;
        self.bound_memory(table)
    }

    /// Whether all rows came in the order of their keys, and that of `row` is behind
    /// them.
    pub(crate) fn would_ascend(&self, table: &Table, row: &Row) -> Result<bool, Error> {
        let did = match &self.stage {
            Stage::Probing(sorter) => sorter.is_ascending(),
            Stage::Ascending(_) => true,
            _ => false,
        };
        if !did || self.rows == 0 {
            return Ok(did);
        }
        table.schema.check_row(row)?;
        let bytes_max = Tree::key_bytes_max(&self.system.backing);
        Ok(self.key < table.key_of(row, bytes_max)?)
    }

    /// Makes the record of a row, in `key` and `value`.
    fn encode(&mut self, table: &Table, row: &Row) -> Result<(), Error> {
        let system = self.system;
        table.schema.check_row(row)?;
        self.key.clear();
        table.put_key(row, Tree::key_bytes_max(&system.backing), &mut self.key)?;
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
        Ok(())
    }

    fn note_entries(&mut self, table: &Table, row: &Row) -> Result<(), Error> {
        let bytes_max = Tree::key_bytes_max(&self.system.backing);
        for (index, sorter) in table.indexes.iter().zip(&mut self.entries) {
            self.entry.clear();
            table.put_entry(index, row, &self.key, bytes_max, &mut self.entry)?;
            sorter.push(&self.entry, &[]);
        }
        Ok(())
    }

    /// Sends the record in `key` and `value` where it belongs.
    fn push_record(&mut self, table: &Table) -> Result<(), SortError> {
        match &mut self.stage {
            Stage::Probing(sorter) => {
                sorter.push(&self.key, &self.value);
                if sorter.memory() >= PROBE_BYTES {
                    return self.end_probe(table);
                }
            }
            Stage::Ascending(loader) if loader.is_above(&self.key) => {
                loader.push(&self.key, &self.value)?;
            }
            Stage::Ascending(_) => {
                let Stage::Ascending(loader) = std::mem::replace(&mut self.stage, Stage::Over)
                else {
                    unreachable!("it was just looked at");
                };
                loader.finish()?;
                let mut sorter = sorter(self.system, table, table.id);
                sorter.push(&self.key, &self.value);
                self.stage = Stage::Behind(sorter);
            }
            Stage::Behind(sorter) | Stage::Sorting(sorter) => sorter.push(&self.key, &self.value),
            Stage::Over => unreachable!("nothing comes behind an error"),
        }
        Ok(())
    }

    /// The first rows have come: puts them into the tree if they came in order.
    fn end_probe(&mut self, table: &Table) -> Result<(), SortError> {
        let Stage::Probing(sorter) = std::mem::replace(&mut self.stage, Stage::Over) else {
            unreachable!("only a probe is ended");
        };
        self.stage = if sorter.is_ascending() {
            let expected = self.leaves(&sorter);
            Stage::Ascending(Box::new(self.load(table, sorter, expected)?))
        } else {
            Stage::Sorting(sorter)
        };
        Ok(())
    }

    /// Leaves that rows will take, of which the first are in `sorter`.
    fn leaves(&self, sorter: &Sorter<'s, B>) -> u64 {
        match self.expected {
            Expected::Rows(rows) => {
                let bytes = sorter.mean_footprint() * rows.max(sorter.len() as u64) as f64;
                leaves_of(&self.system.backing, bytes, FILL_PERCENT)
            }
            Expected::Pages(pages) => pages,
        }
    }

    /// Puts sorted records into the tree of the rows.
    fn load(
        &mut self,
        table: &Table,
        sorter: Sorter<'s, B>,
        expected: u64,
    ) -> Result<TreeLoader<'s, B>, SortError> {
        let (tree, backing) = (table.rows, &self.system.backing);
        let leaves = backing.new_pages(tree.leaf_segment, expected)?;
        let mut loader = tree.loader(backing, FILL_PERCENT, leaves)?;
        let refused = &mut self.refused;
        sorter.drain(|key, value| {
            if !loader.is_above(key) {
                *refused = Some((key.to_vec(), Some(value.to_vec())));
                return Err(SortError::Equal);
            }
            Ok(loader.push(key, value)?)
        })?;
        Ok(loader)
    }

    /// Moves the largest part of what is in memory to the disk, if it is too much.
    fn bound_memory(&mut self, table: &Table) -> Result<(), Error> {
        const MEASURED_AFTER: usize = 64;
        self.unmeasured += 1;
        if self.unmeasured < MEASURED_AFTER {
            return Ok(());
        }
        self.unmeasured = 0;
        if self.memory() > self.system.options.sort_bytes && matches!(self.stage, Stage::Probing(_))
        {
            self.end_probe(table).map_err(|error| said(table, error))?;
        }
        if self.memory() <= self.system.options.sort_bytes {
            return Ok(());
        }
        let largest = self.sorters().max_by_key(|sorter| sorter.memory());
        let spilled = largest.map_or(Ok(()), Sorter::spill);
        spilled.map_err(|error| said(table, error))
    }

    fn sorters(&mut self) -> impl Iterator<Item = &mut Sorter<'s, B>> {
        let rows = match &mut self.stage {
            Stage::Probing(sorter) | Stage::Behind(sorter) | Stage::Sorting(sorter) => Some(sorter),
            Stage::Ascending(_) | Stage::Over => None,
        };
        rows.into_iter().chain(&mut self.entries)
    }

    fn memory(&mut self) -> usize {
        self.sorters().map(|sorter| sorter.memory()).sum()
    }

    /// Puts all that is still waiting into its place. Returns how many rows there
    /// are.
    pub(crate) fn finish(&mut self, table: &Table) -> Result<u64, Error> {
        let stage = std::mem::replace(&mut self.stage, Stage::Over);
        let finished = self.finish_rows(table, stage);
        finished.map_err(|error| said(table, error))?;
        let entries = std::mem::take(&mut self.entries);
        for (index, sorter) in table.indexes.iter().zip(entries) {
            let finished = self.finish_index(table, index, sorter);
            // The same entry twice: the same row twice.
            finished.map_err(|error| said(table, error))?;
        }
        Ok(self.rows)
    }

    fn finish_rows(&mut self, table: &Table, stage: Stage<'s, B>) -> Result<(), SortError> {
        match stage {
            Stage::Probing(sorter) | Stage::Sorting(sorter) => {
                let expected = sorter.leaves(FILL_PERCENT);
                self.load(table, sorter, expected)?.finish()?;
            }
            Stage::Ascending(loader) => {
                loader.finish()?;
            }
            Stage::Behind(sorter) => {
                let backing = &self.system.backing;
                let refused = &mut self.refused;
                let mut last: Vec<u8> = Vec::new();
                sorter.drain(|key, value| {
                    let is_new = key != last && table.rows.insert(backing, key, value)?;
                    if !is_new {
                        *refused = Some((key.to_vec(), Some(value.to_vec())));
                        return Err(SortError::Equal);
                    }
                    last.clear();
                    last.extend_from_slice(key);
                    Ok(())
                })?;
            }
            Stage::Over => {}
        }
        Ok(())
    }

    /// Loads the entries of an index. No two may have the same columns where it is
    /// unique: they would be neighbours.
    fn finish_index(
        &mut self,
        table: &Table,
        index: &SecondaryIndex,
        sorter: Sorter<'s, B>,
    ) -> Result<(), SortError> {
        let (tree, backing) = (index.tree, &self.system.backing);
        let leaves = backing.new_pages(tree.leaf_segment, sorter.leaves(FILL_PERCENT))?;
        let mut loader = tree.loader(backing, FILL_PERCENT, leaves)?;
        let mut last: Vec<u8> = Vec::new();
        let refused = &mut self.refused;
        sorter.drain(|entry, _| {
            if !loader.is_above(entry) {
                return Err(SortError::Equal);
            }
            if index.unique {
                let (columns, key) = entry.split_at(table.split_entry(index, entry)?);
                if columns == last && !table.has_null(index, columns)? {
                    *refused = Some((key.to_vec(), None));
                    return Err(SortError::Store(duplicate(table, &index.name)));
                }
                last.clear();
                last.extend_from_slice(columns);
            }
            Ok(loader.push(entry, &[])?)
        })?;
        loader.finish()?;
        Ok(())
    }

    /// Ends it as it is: nothing is under way to the table's file any more.
    pub(crate) fn end(&mut self) {
        self.stage = Stage::Over;
        self.entries.clear();
    }

    /// After [`Error::Duplicate`] of [`finish`](Self::finish): one of the rows that
    /// are the same, if it can still be had.
    pub(crate) fn refused(&self, table: &Table) -> Result<Option<Row>, Error> {
        let version = match &self.refused {
            None => None,
            Some((_, Some(value))) => VersionRef::decode(value).map(VersionRef::to_version),
            Some((key, None)) => self.system.newest(table, key)?,
        };
        let (Some((key, _)), Some(version)) = (&self.refused, version) else {
            return Ok(None);
        };
        self.system.row(table, key, &version).map(Some)
    }
}

/// For the rows of a table, or the entries of an index.
fn sorter<'s, B: Backing>(system: &'s System<B>, table: &Table, id: u64) -> Sorter<'s, B> {
    Sorter::new(&system.backing, format!("sorted-{}-{id}", table.id))
}

fn said(table: &Table, error: SortError) -> Error {
    match error {
        SortError::Equal => duplicate(table, "primary key"),
        SortError::Store(error) => error,
    }
}

fn duplicate(table: &Table, key: &str) -> Error {
    Error::Duplicate {
        table: table.name().to_owned(),
        key: key.to_owned(),
    }
}
