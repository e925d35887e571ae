//! Ranges of rows in the order of an index.

use super::secondary::above;
use super::{Error, Transaction, Unsettled};
use crate::backing::Backing;
use crate::data::{Row, Value};
use crate::page_store::PageStore;
use crate::policy::Role;
use crate::stream::{BEGIN_EXTENTS, Entry, EntryRows, LeafAhead, in_range};
use crate::table::Table;
use crate::tree::{Cursor, Direction, as_slice};
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The rows of a range, as their transaction sees them. It can be used again
/// when they are dropped.
pub struct Rows<'t, 's, B: Backing = PageStore> {
    transaction: &'t Transaction<'s, B>,
    walk: Walk<'s, B>,
}

/// How far a range has been read, without the transaction that reads it.
pub(super) struct Walk<'s, B: Backing> {
    pub(super) table: Arc<Table>,
    way: Way<'s, B>,
    failed: Option<Failed>,
    /// What is being read.
    reading: Failed,
    /// The key or entry of the last row that came.
    pub(super) last: Vec<u8>,
    /// What is asked of entries beside the order of their rows.
    keys: OnlyKeys,
}

/// Whether rows are needed, or no more of them than their entries have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnlyKeys {
    No,
    /// They are judged for the view of this age, if there is one.
    Yes(Option<u64>),
}

/// What could not be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failed {
    /// Where the next rows are.
    Page,
    /// A row, behind which the cursor is.
    Row,
    /// Something that is not damaged.
    Whole,
}

/// Which way rows are found.
enum Way<'s, B> {
    /// As they come in the table.
    Rows(Box<(Cursor, LeafAhead<'s, B>)>),
    /// By the entries of a secondary index.
    Entries(usize, Box<EntryRows<'s, B>>),
}

impl<'s, B: Backing> Transaction<'s, B> {
    /// The rows of a table with keys in `bounds`, in the order of the primary
    /// key. A bound may have fewer values than the key has columns: included,
    /// it means all rows that begin with them; excluded, none of those.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn range<'t>(
        &'t mut self,
        table: &str,
        bounds: impl RangeBounds<[Value]>,
        direction: Direction,
    ) -> Result<Rows<'t, 's, B>, Error> {
        let walk = self.walk(table, &bounds, direction)?;
        Ok(self.rows(walk))
    }

    /// A table, a cursor over its rows in `bounds`, and what reads ahead of it.
    pub(super) fn begin_range(
        &mut self,
        table: &str,
        bounds: &impl RangeBounds<[Value]>,
        direction: Direction,
    ) -> Result<(Arc<Table>, Cursor, LeafAhead<'s, B>), Error> {
        self.check_open()?;
        let table = self.table(table)?;
        let columns = &table.key_columns;
        let (lower, upper) = encode_bounds(&table, "primary key", columns, bounds)?;
        let (lower, upper) = (as_slice(&lower), as_slice(&upper));
        let cursor = table.rows.cursor(lower, upper, direction);
        let ahead = self.ahead_of(&table, (lower, upper), direction);
        Ok((table, cursor, ahead))
    }

    /// What reads the rows of a range ahead.
    pub(super) fn ahead_of(
        &self,
        table: &Table,
        range: (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
    ) -> LeafAhead<'s, B> {
        let (backing, role) = (&self.system.backing, self.ahead_as(Role::Scan));
        match direction {
            Direction::Forward => LeafAhead::of_range(backing, role, &table.rows, range),
            Direction::Backward => LeafAhead::new(backing, role, BEGIN_EXTENTS),
        }
    }

    /// For which role is read ahead: a query's reads have names of their own.
    pub(super) fn ahead_as(&self, role: Role) -> Role {
        match self.role {
            Role::Read => role,
            other => other,
        }
    }

    /// The same in the order of a secondary index, and with bounds of its
    /// columns.
    ///
    /// # Errors
    /// As [`get`](Self::get), and [`Error::UnknownIndex`].
    pub fn range_by<'t>(
        &'t mut self,
        table: &str,
        index: &str,
        bounds: impl RangeBounds<[Value]>,
        direction: Direction,
    ) -> Result<Rows<'t, 's, B>, Error> {
        let walk = self.walk_by(table, index, &bounds, direction)?;
        Ok(self.rows(walk))
    }

    /// The rows of a table whose keys begin with these values, the last of which, a
    /// text or a blob, is what its column begins with; in the order of the primary
    /// key.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn range_prefix<'t>(
        &'t mut self,
        table: &str,
        prefix: &[Value],
        direction: Direction,
    ) -> Result<Rows<'t, 's, B>, Error> {
        let bounds = ByteBounds::of_prefix(prefix);
        self.range(table, bounds.as_bounds(), direction)
    }

    /// The same in the order of a secondary index, of whose columns the values are.
    ///
    /// # Errors
    /// As [`range_by`](Self::range_by).
    pub fn range_by_prefix<'t>(
        &'t mut self,
        table: &str,
        index: &str,
        prefix: &[Value],
        direction: Direction,
    ) -> Result<Rows<'t, 's, B>, Error> {
        let bounds = ByteBounds::of_prefix(prefix);
        self.range_by(table, index, bounds.as_bounds(), direction)
    }

    fn rows<'t>(&'t mut self, walk: Walk<'s, B>) -> Rows<'t, 's, B> {
        self.look();
        Rows {
            transaction: self,
            walk,
        }
    }

    /// A walk over the rows with keys in `bounds`.
    pub(super) fn walk(
        &mut self,
        table: &str,
        bounds: &impl RangeBounds<[Value]>,
        direction: Direction,
    ) -> Result<Walk<'s, B>, Error> {
        let (table, cursor, ahead) = self.begin_range(table, bounds, direction)?;
        Ok(Walk::new(table, Way::Rows(Box::new((cursor, ahead)))))
    }

    /// The same in the order of a secondary index.
    pub(super) fn walk_by(
        &mut self,
        table: &str,
        index: &str,
        bounds: &impl RangeBounds<[Value]>,
        direction: Direction,
    ) -> Result<Walk<'s, B>, Error> {
        let (table, position, cursor) = self.begin_range_by(table, index, bounds, direction)?;
        Ok(self.walk_entries(table, position, cursor))
    }

    /// A table, the position of an index, and a cursor over its entries in `bounds`.
    pub(super) fn begin_range_by(
        &mut self,
        table: &str,
        index: &str,
        bounds: &impl RangeBounds<[Value]>,
        direction: Direction,
    ) -> Result<(Arc<Table>, usize, Cursor), Error> {
        self.check_open()?;
        let table = self.table(table)?;
        let position = table.position_of_index(index)?;
        let secondary = &table.indexes[position];
        let (lower, upper) = encode_bounds(&table, index, &secondary.columns, bounds)?;
        let (lower, upper) = (as_slice(&lower), as_slice(&upper));
        let cursor = secondary.tree.cursor(lower, upper, direction);
        Ok((table, position, cursor))
    }

    fn walk_entries(&self, table: Arc<Table>, position: usize, cursor: Cursor) -> Walk<'s, B> {
        let (of, role) = (Arc::clone(&table), self.ahead_as(Role::Index));
        let entries = EntryRows::new(&self.system.backing, of, position, cursor, role);
        Walk::new(table, Way::Entries(position, Box::new(entries)))
    }

    /// A walk over what lies between two encoded keys, or entries of an index.
    pub(super) fn walk_within(
        &self,
        table: Arc<Table>,
        index: Option<usize>,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
        direction: Direction,
    ) -> Walk<'s, B> {
        if let Some(position) = index {
            let cursor = table.indexes[position].tree.cursor(lower, upper, direction);
            return self.walk_entries(table, position, cursor);
        }
        let cursor = table.rows.cursor(lower, upper, direction);
        let role = self.ahead_as(Role::Scan);
        let ahead = LeafAhead::new(&self.system.backing, role, BEGIN_EXTENTS);
        Walk::new(table, Way::Rows(Box::new((cursor, ahead))))
    }
}

/// Bounds of the keys that begin with some bytes.
struct ByteBounds {
    lower: Vec<Value>,
    upper: Bound<Vec<Value>>,
}

impl ByteBounds {
    fn of_prefix(prefix: &[Value]) -> ByteBounds {
        let (whole, last) = match prefix.split_last() {
            Some((Value::Text(text), whole)) => (whole, above_text(text).map(Value::Text)),
            Some((Value::Blob(bytes), whole)) => {
                let above = match above(bytes) {
                    Bound::Excluded(above) => Some(Value::Blob(above)),
                    _ => None,
                };
                (whole, above)
            }
            // Of others nothing is a prefix but the whole.
            _ => (prefix, None),
        };
        let upper = match last {
            Some(last) => Bound::Excluded([whole, &[last]].concat()),
            None => Bound::Included(whole.to_vec()),
        };
        ByteBounds {
            lower: prefix.to_vec(),
            upper,
        }
    }

    fn as_bounds(&self) -> (Bound<&[Value]>, Bound<&[Value]>) {
        let upper = self.upper.as_ref().map(Vec::as_slice);
        (Bound::Included(&self.lower), upper)
    }
}

/// The least text above all that begin with one.
fn above_text(text: &str) -> Option<String> {
    let mut letters: Vec<char> = text.chars().collect();
    while let Some(last) = letters.pop() {
        // The order of texts is that of their bytes, which is that of letters.
        let next = (u32::from(last) + 1..=u32::from(char::MAX)).find_map(char::from_u32);
        if let Some(next) = next {
            letters.push(next);
            return Some(letters.into_iter().collect());
        }
    }
    None
}

/// Makes `bytes` a copy of others, in the memory that it has.
pub(super) fn set_bytes(bytes: &mut Vec<u8>, others: &[u8]) {
    bytes.clear();
    bytes.extend_from_slice(others);
}

/// Where a range of encoded keys begins or ends.
pub(super) type KeyBound = Bound<Vec<u8>>;

/// All of a range of encoded keys.
pub(super) type KeyRange = (KeyBound, KeyBound);

/// Where a range is looked for.
pub(super) fn first_key(lower: &KeyBound) -> &[u8] {
    match lower {
        Bound::Included(key) | Bound::Excluded(key) => key,
        Bound::Unbounded => &[],
    }
}

/// The keys that bounds of values mean.
pub(crate) fn encode_bounds(
    table: &Table,
    of: &str,
    columns: &[usize],
    bounds: &impl RangeBounds<[Value]>,
) -> Result<KeyRange, Error> {
    let prefix = |values: &[Value]| table.key_prefix(of, columns, values);
    // The least key above a prefix, as a lower bound; none is above the empty
    // one.
    let behind = |prefix: Vec<u8>| match above(&prefix) {
        Bound::Excluded(key) => Bound::Included(key),
        _ => Bound::Excluded(vec![u8::MAX]),
    };
    let lower = match bounds.start_bound() {
        Bound::Included(values) => Bound::Included(prefix(values)?),
        Bound::Excluded(values) => behind(prefix(values)?),
        Bound::Unbounded => Bound::Unbounded,
    };
    let upper = match bounds.end_bound() {
        Bound::Included(values) => above(&prefix(values)?),
        Bound::Excluded(values) => Bound::Excluded(prefix(values)?),
        Bound::Unbounded => Bound::Unbounded,
    };
    Ok((lower, upper))
}

impl<'s, B: Backing> Walk<'s, B> {
    fn new(table: Arc<Table>, way: Way<'s, B>) -> Walk<'s, B> {
        Walk {
            table,
            way,
            failed: None,
            reading: Failed::Page,
            last: Vec::new(),
            keys: OnlyKeys::No,
        }
    }

    /// From here on rows have the columns of the index and of the primary key only.
    pub(super) fn want_only_keys(&mut self) {
        self.keys = OnlyKeys::Yes(None);
    }

    pub(super) fn wants_only_keys(&self) -> bool {
        self.keys != OnlyKeys::No
    }

    /// The index that it goes by.
    pub(super) fn index(&self) -> Option<usize> {
        match &self.way {
            Way::Rows(_) => None,
            Way::Entries(index, _) => Some(*index),
        }
    }

    /// Puts the next row into the place of another one. Returns whether there is one.
    fn advance(&mut self, transaction: &Transaction<'s, B>, row: &mut Row) -> Result<bool, Error> {
        let table = &self.table;
        let _range = in_range();
        let _acting = transaction.acting();
        match &mut self.way {
            Way::Rows(rows) => {
                let (cursor, ahead) = &mut **rows;
                let backing = &transaction.system.backing;
                self.reading = Failed::Page;
                while let Some((key, value)) = cursor.next_watched(backing, ahead)? {
                    self.reading = Failed::Row;
                    if transaction.put_seen_of(table, key, value, row)? {
                        set_bytes(&mut self.last, key);
                        return Ok(true);
                    }
                    self.reading = Failed::Page;
                }
            }
            Way::Entries(index, entries) => {
                if let OnlyKeys::Yes(age) = &mut self.keys
                    && *age != Some(transaction.view().age())
                {
                    *age = Some(transaction.view().age());
                    entries.judge_by(transaction.judge_of_entries(table));
                }
                let only_keys = self.keys != OnlyKeys::No;
                while let Some(entry) = entries.next()? {
                    let is_there = entry.is_settled || {
                        let seen = transaction.row_of_entry(table, *index, &entry, entries)?;
                        seen.map(|seen| *row = seen).is_some()
                    };
                    if is_there && only_keys {
                        let index = &table.indexes[*index];
                        table.put_row_of_entry(index, &entry.bytes, entry.key_at, row)?;
                    }
                    entries.is_through_with(&entry);
                    if is_there {
                        set_bytes(&mut self.last, &entry.bytes);
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// The next row for a transaction whose view is open, in the place of another one.
    /// Returns whether there is one; after an error there are none, unless it is passed.
    pub(super) fn put_next(
        &mut self,
        transaction: &Transaction<'s, B>,
        row: &mut Row,
    ) -> Result<bool, Error> {
        if self.failed.is_some() {
            return Ok(false);
        }
        let found = self.advance(transaction, row);
        if let Err(error) = &found {
            let damaged = error.is_damage();
            self.failed = Some(if damaged { self.reading } else { Failed::Whole });
        }
        found
    }
}

impl<B: Backing> Rows<'_, '_, B> {
    /// After an error: goes past what is damaged, so that the iterator has the
    /// rows behind it. Those passed are one row, or all that are below one page
    /// of the table. `false`, and nothing is passed: there was no error, it is
    /// not for damage ([`Error::is_damage`]), or the rows come by an index.
    ///
    /// For who saves what is left; there is no telling how many rows are
    /// missing.
    ///
    /// ```no_run
    /// # fn save(store: &iolane_store::Store) -> Result<(), iolane_store::Error> {
    /// let mut transaction = store.begin();
    /// let mut rows = transaction.range("person", .., iolane_store::Direction::Forward)?;
    /// while let Some(row) = rows.next() {
    ///     match row {
    ///         Ok(row) => println!("{row:?}"),
    ///         Err(error) if rows.pass_damage() => eprintln!("here rows are missing: {error}"),
    ///         Err(error) => return Err(error),
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub fn pass_damage(&mut self) -> bool {
        let Way::Rows(rows) = &mut self.walk.way else {
            return false;
        };
        match self.walk.failed {
            None | Some(Failed::Whole) => return false,
            Some(Failed::Row) => {}
            Some(Failed::Page) => rows.0.pass(),
        }
        self.walk.failed = None;
        true
    }
}

impl<'s, B: Backing> Transaction<'s, B> {
    /// What says of which rows of a table all entries are true for its view.
    fn judge_of_entries(&self, table: &Table) -> Option<&'s Unsettled> {
        let filled_by = table.filled_by.load(Ordering::Acquire);
        let unsettled = &self.system.unsettled;
        unsettled
            .is_enough_for(self.view(), self.own(), filled_by)
            .then_some(unsettled)
    }

    /// The row of an entry, if it is that entry's for the transaction.
    fn row_of_entry(
        &self,
        table: &Table,
        index: usize,
        entry: &Entry,
        entries: &mut EntryRows<'_, B>,
    ) -> Result<Option<Row>, Error> {
        let (columns, key) = entry.bytes.split_at(entry.key_at);
        let mut waits_for = |page| entries.waits_for(page);
        let newest = self.system.newest_watched(table, key, &mut waits_for)?;
        let Some(newest) = newest else {
            return Ok(None);
        };
        let Some(row) = self.seen_after(table, key, newest)? else {
            return Ok(None);
        };
        let fits = table.index_key(&table.indexes[index], &row)? == columns;
        Ok(fits.then_some(row))
    }
}

impl<B: Backing> Iterator for Rows<'_, '_, B> {
    type Item = Result<Row, Error>;

    /// The next row. After an error there are none, unless it is
    /// [passed](Rows::pass_damage).
    fn next(&mut self) -> Option<Result<Row, Error>> {
        let mut row = Row::new();
        let found = self.walk.put_next(self.transaction, &mut row);
        found.map(|is_there| is_there.then_some(row)).transpose()
    }
}
