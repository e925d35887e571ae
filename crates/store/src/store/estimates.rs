//! Sizes and estimates, and where a row is.

use super::Store;
use crate::data::{Row, Value};
use crate::table_statistics::{KeyStatistics, TableStatistics};
use crate::tree::Direction;
use crate::txn::Error;
use std::ops::{Bound, RangeBounds};

impl Store {
    /// Sizes of a table and its indexes, and how many rows they have, about. Reads
    /// the branches of their trees, and some leaves of each.
    ///
    /// # Errors
    /// [`Error::UnknownTable`], and those of pages.
    pub fn table_statistics(&self, table: &str) -> Result<TableStatistics, Error> {
        let pages = &self.system.backing;
        self.system.table_statistics(table, |space| {
            let space = pages.space_statistics(space)?;
            Ok((space.pages, space.used))
        })
    }

    /// How many rows with keys in `bounds` a table has, or with an index how many of
    /// its entries are in them: exact where they are in one leaf, and otherwise about,
    /// as the pages on the way to both ends say. Bounds are as in
    /// [`Transaction::range`](crate::Transaction::range); rows that only old views see are counted.
    ///
    /// # Errors
    /// [`Error::UnknownTable`], [`Error::UnknownIndex`], those of bounds that are not
    /// of the key, and of pages.
    pub fn estimate_range(
        &self,
        table: &str,
        index: Option<&str>,
        bounds: impl RangeBounds<[Value]>,
    ) -> Result<u64, Error> {
        self.system.estimate_range(table, index, &bounds)
    }

    /// How many different values the first column of a key has, about, which may be put
    /// together of several `parts`: how many different ones the first part has, the first
    /// two, and so on. `index` is `None` for the primary key. `whole_parts` tells how many
    /// parts are whole in bytes that a value of the column begins with; of an integer or
    /// a real number these are eight bytes that sort as it does. Reads the branches of its
    /// tree, and for each number of parts up to 32 leaves, mostly the same ones. Entries
    /// that only old views see are counted.
    ///
    /// # Errors
    /// [`Error::UnknownTable`], [`Error::UnknownIndex`], and those of pages.
    pub fn key_statistics(
        &self,
        table: &str,
        index: Option<&str>,
        parts: usize,
        mut whole_parts: impl FnMut(&[u8]) -> usize,
    ) -> Result<KeyStatistics, Error> {
        self.system
            .key_statistics(table, index, parts, &mut whole_parts)
    }

    /// How many rows a table has for anybody: those of transactions that have not ended
    /// and those that only old views see are counted. One more than `most` is as far
    /// as it counts.
    ///
    /// # Errors
    /// [`Error::UnknownTable`], and those of pages.
    pub fn records_up_to(&self, table: &str, most: u64) -> Result<u64, Error> {
        let pages = &self.system.backing;
        let table = self.system.catalog.table(pages, table)?;
        let all = (Bound::Unbounded, Bound::Unbounded);
        let mut cursor = table.rows.cursor(all.0, all.1, Direction::Forward);
        let mut count = 0;
        while count <= most && cursor.next(pages)?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    /// Bytes by which [`Transaction::get_at`](crate::Transaction::get_at) finds a row again, for as long as its
    /// primary key stays the same. They are in the order of the primary key.
    ///
    /// # Errors
    /// [`Error::Schema`] for a row that is not of this table, [`Error::UnknownTable`].
    pub fn position_of(&self, table: &str, row: &Row) -> Result<Vec<u8>, Error> {
        self.system.position_of(table, row)
    }
}
