//! Entries of secondary indexes.
//!
//! An entry must be there as long as anybody can see a version of its row with
//! its columns. Whoever changes a row inserts its entry after that; whoever
//! wants to remove one looks at the row's versions first. Both happen under the
//! entry's lock: if the look comes before the change, the insertion comes after
//! the removal.

use super::version::{Version, VersionName};
use super::write::unfinished;
use super::{Error, View};
use crate::backing::Backing;
use crate::data::Value;
use crate::system::System;
use crate::table::{SecondaryIndex, Table};
use crate::tree::{Direction, Tree, as_slice};
use parking_lot::{Mutex, MutexGuard};
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;

/// Entries share so many locks. Their holders may wait for pages, but hold no
/// latch meanwhile, and no other lock of these.
const ENTRY_LOCKS: usize = 256;

/// Locks of entries.
pub(crate) struct EntryLocks {
    locks: Vec<Mutex<()>>,
    hasher: RandomState,
}

impl Default for EntryLocks {
    fn default() -> EntryLocks {
        EntryLocks {
            locks: (0..ENTRY_LOCKS).map(|_| Mutex::new(())).collect(),
            hasher: RandomState::new(),
        }
    }
}

impl EntryLocks {
    fn lock(&self, index: u64, entry: &[u8]) -> MutexGuard<'_, ()> {
        let hash = self.hasher.hash_one((index, entry));
        self.locks[hash as usize % ENTRY_LOCKS].lock()
    }
}

/// The least key above all that begin with `prefix`.
pub(super) fn above(prefix: &[u8]) -> Bound<Vec<u8>> {
    let Some(last) = prefix.iter().rposition(|&byte| byte != u8::MAX) else {
        return Bound::Unbounded;
    };
    let mut above = prefix[..=last].to_vec();
    above[last] += 1;
    Bound::Excluded(above)
}

impl<B: Backing> System<B> {
    /// The entries of a row, one for each index.
    pub(crate) fn entries_of(
        &self,
        table: &Table,
        row: &[Value],
        key: &[u8],
    ) -> Result<Vec<Vec<u8>>, Error> {
        let bytes_max = Tree::key_bytes_max(&self.backing);
        let entries = table.indexes.iter();
        entries
            .map(|index| table.entry(index, row, key, bytes_max))
            .collect()
    }

    /// The entries that a row needs and the row before, of the same key, has not, each
    /// with the position of its index.
    pub(super) fn new_entries(
        &self,
        table: &Table,
        before: Option<&[Value]>,
        row: &[Value],
        key: &[u8],
    ) -> Result<Vec<(usize, Vec<u8>)>, Error> {
        let bytes_max = Tree::key_bytes_max(&self.backing);
        let is_new = |index: &SecondaryIndex| {
            let differs = |before: &[Value]| index.columns.iter().any(|&at| row[at] != before[at]);
            before.is_none_or(differs)
        };
        let indexes = table.indexes.iter().enumerate();
        indexes
            .filter(|(_, index)| is_new(index))
            .map(|(at, index)| Ok((at, table.entry(index, row, key, bytes_max)?)))
            .collect()
    }

    /// Inserts an entry unless it is there, after its row was changed.
    pub(super) fn ensure_entry(&self, index: &SecondaryIndex, entry: &[u8]) -> Result<(), Error> {
        let _lock = self.entries.lock(index.id, entry);
        index.tree.insert(&self.backing, entry, &[])?;
        Ok(())
    }

    /// Removes an entry unless somebody may see a version of its row with its
    /// columns. The version `undone`, which is about to go, does not count. What
    /// `oldest` sees, all see.
    pub(super) fn remove_entry(
        &self,
        table: &Table,
        index: &SecondaryIndex,
        entry: &[u8],
        key: &[u8],
        undone: Option<VersionName>,
        oldest: &View,
    ) -> Result<(), Error> {
        // Whether a version from this one on has its columns, and may be seen.
        let needs = |mut version: Option<Version>| -> Result<bool, Error> {
            while let Some(this) = version {
                let counts = undone != Some(this.name());
                if counts && self.has_entry(table, index, entry, key, &this)? {
                    return Ok(true);
                }
                if oldest.sees(this.trx) {
                    break;
                }
                version = self.before(table, key, &this)?;
            }
            Ok(false)
        };
        let _lock = self.entries.lock(index.id, entry);
        loop {
            let newest = self.newest(table, key)?;
            let name = newest.as_ref().map(Version::name);
            match needs(newest) {
                Ok(true) => return Ok(()),
                Ok(false) => break,
                Err(error) => {
                    // Whoever rolls back puts the version before in a row's
                    // place, and frees the pages of the one that was there then.
                    let newest = self.newest(table, key)?;
                    if newest.as_ref().map(Version::name) == name {
                        return Err(error);
                    }
                }
            }
        }
        index.tree.remove(&self.backing, entry)?;
        Ok(())
    }

    pub(crate) fn has_entry(
        &self,
        table: &Table,
        index: &SecondaryIndex,
        entry: &[u8],
        key: &[u8],
        version: &Version,
    ) -> Result<bool, Error> {
        if version.is_deleted() {
            return Ok(false);
        }
        let row = self.row(table, key, version)?;
        let columns = &entry[..entry.len() - key.len()];
        Ok(table.index_key(index, &row)? == columns)
    }

    /// Whether a row other than that of `key` has `columns` in an index. They
    /// are locked, so only transactions that have ended, and the one that asks,
    /// can have made or deleted such rows.
    ///
    /// # Errors
    /// [`Error::Unfinished`] where one that was not rolled back has: it holds no
    /// locks, and may still give its row these columns again.
    pub(super) fn is_taken(
        &self,
        table: &Table,
        index: &SecondaryIndex,
        columns: &[u8],
        key: &[u8],
    ) -> Result<bool, Error> {
        let above = above(columns);
        let mut cursor = index.tree.cursor(
            Bound::Included(columns),
            as_slice(&above),
            Direction::Forward,
        );
        while let Some((entry, _)) = cursor.next(&self.backing)? {
            let other = &entry[columns.len()..];
            if other == key {
                continue;
            }
            let Some(newest) = self.newest(table, other)? else {
                continue;
            };
            if self.unfinished.contains(&newest.trx) {
                return Err(unfinished(table));
            }
            if self.has_entry(table, index, entry, other, &newest)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}
