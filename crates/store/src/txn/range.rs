//! Ranges of rows in the order of an index.

use super::secondary::above;
use super::{Error, Transaction};
use crate::backing::Backing;
use crate::data::{Row, Value};
use crate::page_store::PageStore;
use crate::policy::Role;
use crate::stream::{BEGIN_EXTENTS, Entry, EntryRows, LeafAhead, in_range};
use crate::table::Table;
use crate::tree::{Cursor, Direction};
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// The rows of a range, as their transaction sees them. It can be used again
/// when they are dropped.
pub struct Rows<'t, 's, B: Backing = PageStore> {
    transaction: &'t Transaction<'s, B>,
    table: Arc<Table>,
    way: Way<'s, B>,
    failed: bool,
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
        let (table, cursor, ahead) = self.begin_range(table, &bounds, direction)?;
        Ok(self.rows(table, Way::Rows(Box::new((cursor, ahead)))))
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
        let (backing, role) = (&self.system.backing, self.ahead_as(Role::Scan));
        let ahead = match direction {
            Direction::Forward => LeafAhead::of_range(backing, role, &table.rows, (lower, upper)),
            Direction::Backward => LeafAhead::new(backing, role, BEGIN_EXTENTS),
        };
        Ok((table, cursor, ahead))
    }

    /// For which role is read ahead: a query's reads have names of their own.
    fn ahead_as(&self, role: Role) -> Role {
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
        self.check_open()?;
        let table = self.table(table)?;
        let position = table.position_of_index(index)?;
        let secondary = &table.indexes[position];
        let (lower, upper) = encode_bounds(&table, index, &secondary.columns, &bounds)?;
        let cursor = secondary
            .tree
            .cursor(as_slice(&lower), as_slice(&upper), direction);
        let backing = &self.system.backing;
        let role = self.ahead_as(Role::Index);
        let entries = EntryRows::new(backing, Arc::clone(&table), position, cursor, role);
        Ok(self.rows(table, Way::Entries(position, Box::new(entries))))
    }

    fn rows<'t>(&'t mut self, table: Arc<Table>, way: Way<'s, B>) -> Rows<'t, 's, B> {
        self.look();
        Rows {
            transaction: self,
            table,
            way,
            failed: false,
        }
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

/// Where a range of encoded keys begins or ends.
type KeyBound = Bound<Vec<u8>>;

/// The keys that bounds of values mean.
fn encode_bounds(
    table: &Table,
    of: &str,
    columns: &[usize],
    bounds: &impl RangeBounds<[Value]>,
) -> Result<(KeyBound, KeyBound), Error> {
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

impl<B: Backing> Rows<'_, '_, B> {
    fn advance(&mut self) -> Result<Option<Row>, Error> {
        let (transaction, table) = (self.transaction, &self.table);
        let _range = in_range();
        let _acting = transaction.acting();
        match &mut self.way {
            Way::Rows(rows) => {
                let (cursor, ahead) = &mut **rows;
                let backing = &transaction.system.backing;
                while let Some((key, value)) = cursor.next_watched(backing, ahead)? {
                    let row = transaction.seen_of(table, key, value)?;
                    if row.is_some() {
                        return Ok(row);
                    }
                }
            }
            Way::Entries(index, entries) => {
                while let Some(entry) = entries.next()? {
                    let row = transaction.row_of_entry(table, *index, &entry, entries)?;
                    entries.is_through_with(&entry);
                    if row.is_some() {
                        return Ok(row);
                    }
                }
            }
        }
        Ok(None)
    }
}

impl<B: Backing> Transaction<'_, B> {
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

    /// The next row. After an error there are none.
    fn next(&mut self) -> Option<Result<Row, Error>> {
        if self.failed {
            return None;
        }
        let row = self.advance().transpose();
        self.failed = matches!(row, Some(Err(_)));
        row
    }
}
