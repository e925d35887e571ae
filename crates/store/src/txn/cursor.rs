//! Cursors: ranges that leave their transaction free between two rows.

use super::locking::LockedWalk;
use super::range::{Walk, encode_bounds};
use super::{Error, LockMode, Transaction, WhenLocked};
use crate::backing::Backing;
use crate::data::{Row, Value};
use crate::page_store::PageStore;
use crate::tree::{Direction, as_slice};
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

/// How far a transaction has come in a range: as [`Rows`](super::Rows) and
/// [`LockedRows`](super::LockedRows), but the transaction can do other things between
/// two rows, and begin other cursors.
///
/// ```
/// # use iolane_store::data::{ColumnType, TableSchema};
/// # use iolane_store::{Cursor, Direction, Store, StoreOptions};
/// # let directory = tempfile::tempdir_in("/var/tmp")?;
/// # let mut options = StoreOptions::default();
/// # options.pages.pool_bytes = 16 << 20;
/// # let store = Store::create(directory.path().join("people"), &options)?;
/// # let person = TableSchema::new("person").column("id", ColumnType::Integer).primary_key(["id"]);
/// # store.create_table(&person)?;
/// let mut transaction = store.begin();
/// transaction.insert("person", vec![1.into()])?;
/// transaction.insert("person", vec![2.into()])?;
/// let mut cursor = transaction.cursor("person", None, .., Direction::Forward, None)?;
/// while let Some(row) = cursor.next(&mut transaction)? {
///     transaction.delete("person", &row)?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Cursor<'s, B: Backing = PageStore>(Way<'s, B>);

enum Way<'s, B: Backing> {
    Seen(Walk<'s, B>),
    Locked(Box<LockedWalk<'s, B>>),
}

impl<'s, B: Backing> Transaction<'s, B> {
    /// A cursor over the rows of a table with keys in `bounds`: in the order of the
    /// primary key, or with `index` in that of a secondary index and with bounds of
    /// its columns. With `lock` each row is locked when it comes.
    ///
    /// # Errors
    /// As [`range`](Self::range) and [`range_by`](Self::range_by).
    pub fn cursor(
        &mut self,
        table: &str,
        index: Option<&str>,
        bounds: impl RangeBounds<[Value]>,
        direction: Direction,
        lock: Option<(LockMode, WhenLocked)>,
    ) -> Result<Cursor<'s, B>, Error> {
        let way = match (lock, index) {
            (None, None) => Way::Seen(self.walk(table, &bounds, direction)?),
            (None, Some(index)) => Way::Seen(self.walk_by(table, index, &bounds, direction)?),
            (Some(lock), None) => {
                Way::Locked(Box::new(self.locked_walk(table, &bounds, direction, lock)?))
            }
            (Some(lock), Some(index)) => Way::Locked(Box::new(
                self.locked_walk_by(table, index, &bounds, direction, lock)?,
            )),
        };
        Ok(Cursor(way))
    }
}

impl<'s, B: Backing> Cursor<'s, B> {
    /// The same rows, but of these only the columns of the index and of the primary key,
    /// in which -0.0 is 0.0; all others come as null. An index has them, and whether its
    /// entries are what the transaction sees is known for all rows that nobody has
    /// changed lately, so that rows are mostly not read. Without an index, or where rows
    /// are locked, it changes nothing.
    #[must_use]
    pub fn only_keys(mut self) -> Self {
        if let Way::Seen(walk) = &mut self.0 {
            walk.want_only_keys();
        }
        self
    }

    /// The next row as a transaction sees it, which is the one that made the cursor.
    /// After an error there are none.
    ///
    /// # Errors
    /// As [`Transaction::get`], with locks as [`Transaction::lock_row`].
    pub fn next(&mut self, transaction: &mut Transaction<'s, B>) -> Result<Option<Row>, Error> {
        let mut row = Row::new();
        let is_there = self.next_in(transaction, &mut row)?;
        Ok(is_there.then_some(row))
    }

    /// The same in the place of another row, in whose blobs it puts its own: for many
    /// rows, one after the other. Returns whether there is one; if not, what is in `row`
    /// means nothing.
    ///
    /// # Errors
    /// As [`next`](Self::next).
    pub fn next_in(
        &mut self,
        transaction: &mut Transaction<'s, B>,
        row: &mut Row,
    ) -> Result<bool, Error> {
        transaction.check_open()?;
        match &mut self.0 {
            Way::Seen(walk) => {
                transaction.look();
                walk.put_next(transaction, row)
            }
            Way::Locked(walk) => {
                transaction.look_for_changes();
                walk.put_next(transaction, row)
            }
        }
    }

    /// Of a statement that locks the rows of several ranges, one after the other: others follow,
    /// by [`go_on_with`](Self::go_on_with), until [`end_ranges`](Self::end_ranges) says that none do.
    #[must_use]
    pub fn one_of_many(mut self) -> Self {
        if let Way::Locked(walk) = &mut self.0 {
            walk.set_one_of_many(true);
        }
        self
    }

    /// Goes on with another range of the same index, which has no key in common with those before.
    /// Where rows are locked, a row that another transaction moves meanwhile from one of the ranges
    /// to another comes once, in place of the one that was there if it is in a range that has passed.
    ///
    /// # Errors
    /// As [`Transaction::range`].
    pub fn go_on_with(
        &mut self,
        transaction: &Transaction<'s, B>,
        bounds: impl RangeBounds<[Value]>,
        direction: Direction,
    ) -> Result<(), Error> {
        transaction.check_open()?;
        let (table, index) = match &self.0 {
            Way::Seen(walk) => (Arc::clone(&walk.table), walk.index()),
            Way::Locked(walk) => (Arc::clone(&walk.table), walk.index),
        };
        let (of, columns) = table.index_columns(index);
        let range = encode_bounds(&table, of, columns, &bounds)?;
        match &mut self.0 {
            Way::Seen(walk) => {
                let only_keys = walk.wants_only_keys();
                let bounds = (as_slice(&range.0), as_slice(&range.1));
                let table = Arc::clone(&table);
                *walk = transaction.walk_within(table, index, bounds, direction);
                if only_keys {
                    walk.want_only_keys();
                }
            }
            Way::Locked(walk) => walk.go_on_with(transaction, range, direction),
        }
        Ok(())
    }

    /// No other range follows: [`next`](Self::next) goes on with rows that have got another primary
    /// key meanwhile, and were missed where they are, if there are any.
    pub fn end_ranges(&mut self) {
        if let Way::Locked(walk) = &mut self.0 {
            walk.set_one_of_many(false);
        }
    }

    /// Goes on from the row that came last, or whose lock was refused last, in a
    /// direction, which may be the one that it had: up to the end of the index. Before
    /// the first row it stays as it is. The ranges that it has gone through are forgotten.
    pub fn turn(&mut self, transaction: &Transaction<'s, B>, direction: Direction) {
        let last = match &self.0 {
            Way::Seen(walk) => &walk.last,
            Way::Locked(walk) => &walk.last,
        };
        if last.is_empty() {
            return;
        }
        let bounds = match direction {
            Direction::Forward => (Bound::Excluded(&last[..]), Bound::Unbounded),
            Direction::Backward => (Bound::Unbounded, Bound::Excluded(&last[..])),
        };
        let mut way = match &self.0 {
            Way::Seen(walk) => {
                let table = Arc::clone(&walk.table);
                Way::Seen(transaction.walk_within(table, walk.index(), bounds, direction))
            }
            Way::Locked(walk) => {
                let (table, how) = (Arc::clone(&walk.table), walk.how());
                let index = walk.index;
                let turned = transaction.locked_walk_within(table, index, bounds, direction, how);
                Way::Locked(Box::new(turned))
            }
        };
        match &mut way {
            Way::Seen(walk) => {
                walk.last = last.clone();
                if matches!(&self.0, Way::Seen(turned) if turned.wants_only_keys()) {
                    walk.want_only_keys();
                }
            }
            Way::Locked(walk) => walk.last = last.clone(),
        }
        self.0 = way;
    }
}
