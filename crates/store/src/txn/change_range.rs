//! Changing the rows of a range, read ahead as in a scan.

use super::change::Changes;
use super::{Error, Transaction};
use crate::backing::Backing;
use crate::data::{Row, Value};
use crate::stream::in_range;
use crate::table::Table;
use crate::tree::{Direction, Tree};
use crate::undo::record::Change;
use std::ops::RangeBounds;
use std::sync::Arc;

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
    /// read ahead, and rows that lie together are changed together: some time
    /// after `change` was called with them.
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
            let mut changes = Changes::default();
            loop {
                // All of a leaf at once, while it is at hand.
                let mut through = None;
                if cursor.is_through_leaf() {
                    this.change_planned(&table, &mut changes)?;
                    through = cursor.leaf();
                }
                let range = in_range();
                let next = cursor.next_watched(&this.system.backing, &mut ahead)?;
                let Some((key, value)) = next else {
                    return Ok(changes.made);
                };
                // Not the last one, where the next range may begin.
                if let (Some(leaf), Some(ahead)) = (through, this.system.backing.read_ahead()) {
                    ahead.passed(leaf);
                }
                let Some(row) = this.seen_of(&table, key, value)? else {
                    continue;
                };
                drop(range);
                this.decide(&table, key, row, &mut change, &mut changes)?;
            }
        })
    }

    /// Asks what becomes of a row, and plans it.
    pub(super) fn decide(
        &mut self,
        table: &Table,
        key: &[u8],
        row: Row,
        change: &mut impl FnMut(Row) -> RowChange,
        changes: &mut Changes,
    ) -> Result<(), Error> {
        let row = match self.is_of_newest() {
            false => row,
            // What was seen may be of old.
            true => {
                self.lock(table.id, &Arc::from(key))?;
                match self.newest_row(table, key)? {
                    Some(row) => row,
                    None => return Ok(()),
                }
            }
        };
        match change(row) {
            RowChange::Keep => Ok(()),
            RowChange::Delete => self.plan(table, key, Change::Delete, None, changes),
            RowChange::Update(row) => {
                self.check_key(table, key, &row)?;
                self.plan(table, key, Change::Update, Some(&row), changes)
            }
        }
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
