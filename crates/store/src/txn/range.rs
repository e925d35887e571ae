//! Ranges of rows in the order of an index.

use super::secondary::above;
use super::{Error, Transaction};
use crate::backing::Backing;
use crate::data::{Row, Value};
use crate::page_store::PageStore;
use crate::table::Table;
use crate::tree::{Cursor, Direction};
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// The rows of a range, as their transaction sees them. It can be used again
/// when they are dropped.
pub struct Rows<'t, 's, B: Backing = PageStore> {
    transaction: &'t Transaction<'s, B>,
    table: Arc<Table>,
    /// Which secondary index; `None`: the primary key.
    index: Option<usize>,
    cursor: Cursor,
    failed: bool,
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
        self.check_open()?;
        let table = self.table(table)?;
        let columns = &table.key_columns;
        let (lower, upper) = encode_bounds(&table, "primary key", columns, &bounds)?;
        let cursor = table
            .rows
            .cursor(as_slice(&lower), as_slice(&upper), direction);
        Ok(self.rows(table, None, cursor))
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
        Ok(self.rows(table, Some(position), cursor))
    }

    fn rows<'t>(
        &'t mut self,
        table: Arc<Table>,
        index: Option<usize>,
        cursor: Cursor,
    ) -> Rows<'t, 's, B> {
        self.look();
        Rows {
            transaction: self,
            table,
            index,
            cursor,
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
        let backing = &self.transaction.system.backing;
        while let Some((key, value)) = self.cursor.next(backing)? {
            let row = match self.index {
                None => self.transaction.seen_of(&self.table, key, value)?,
                Some(index) => self.transaction.row_of_entry(&self.table, index, key)?,
            };
            if row.is_some() {
                return Ok(row);
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
        entry: &[u8],
    ) -> Result<Option<Row>, Error> {
        let index = &table.indexes[index];
        let columns = table.split_entry(index, entry)?;
        let (columns, key) = entry.split_at(columns);
        let Some(row) = self.seen(table, key)? else {
            return Ok(None);
        };
        let fits = table.index_key(index, &row)? == columns;
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
