//! Changing the rows of a range, read ahead as in a scan.

use super::{Error, Transaction};
use crate::backing::Backing;
use crate::data::{Row, Value};
use crate::stream::{LeafAhead, in_range};
use crate::table::Table;
use crate::tree::{Cursor, Direction, Tree};
use std::ops::RangeBounds;

/// What becomes of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum RowChange {
    /// It stays as it is, and is not locked.
    Keep,
    /// It is replaced by one with the same primary key.
    Update(Row),
    /// It goes.
    Delete,
}

impl<B: Backing> Transaction<'_, B> {
    /// Calls `change` with the rows of a table with keys in `bounds`, as this
    /// transaction sees them, in the order of the primary key, and does with
    /// each what it says. Returns how many were changed. Bounds are those of
    /// [`range`](Self::range).
    ///
    /// The same as a range and a change of each row by its key; but pages are
    /// read ahead, and where they are not in memory that is what takes the time.
    ///
    /// # Errors
    /// As [`range`](Self::range), [`update`](Self::update) and
    /// [`delete`](Self::delete), and [`Error::KeyChanged`]. Then none of these
    /// rows is changed, and but for a deadlock the transaction can go on.
    pub fn change_range(
        &mut self,
        table: &str,
        bounds: impl RangeBounds<[Value]>,
        mut change: impl FnMut(Row) -> RowChange,
    ) -> Result<u64, Error> {
        let begun = self.begin_range(table, &bounds, Direction::Forward)?;
        let (table, mut cursor, mut ahead) = begun;
        self.look();
        self.statement(|this| {
            let mut changed = 0;
            while let Some((key, row)) = this.next_seen(&table, &mut cursor, &mut ahead)? {
                changed += u64::from(match change(row) {
                    RowChange::Keep => false,
                    RowChange::Delete => this.delete_with(&table, &key)?,
                    RowChange::Update(row) => {
                        this.check_key(&table, &key, &row)?;
                        this.update_with(&table, &key, &row)?
                    }
                });
            }
            Ok(changed)
        })
    }

    /// The next row of a cursor that the transaction sees, and its key.
    fn next_seen(
        &self,
        table: &Table,
        cursor: &mut Cursor,
        ahead: &mut LeafAhead<'_, B>,
    ) -> Result<Option<(Vec<u8>, Row)>, Error> {
        let _range = in_range();
        while let Some((key, value)) = cursor.next_watched(&self.system.backing, ahead)? {
            if let Some(row) = self.seen_of(table, key, value)? {
                return Ok(Some((key.to_vec(), row)));
            }
        }
        Ok(None)
    }

    fn check_key(&self, table: &Table, key: &[u8], row: &Row) -> Result<(), Error> {
        table.schema.check_row(row)?;
        if table.key_of(row, Tree::key_bytes_max(&self.system.backing))? == key {
            return Ok(());
        }
        Err(Error::KeyChanged {
            table: table.name().to_owned(),
        })
    }
}
