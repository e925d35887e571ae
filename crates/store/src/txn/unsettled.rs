//! Rows with changes that neither purge nor a rollback has settled.
//!
//! An index entry says nothing of who sees it. But where a row has no undo left that
//! a change of its entries has made, it has one version that all views see, and no
//! entries but those of that one. So undo records are counted by their rows: before
//! the row is changed, and until what they replaced is gone, or they are undone. Rows
//! share counters, so a row may seem to have changes that are another's.
//!
//! Whoever finds no change of a row, with an entry of it before him under the latch of
//! its leaf and with a view open, knows that his view sees this entry:
//!
//! - A change that his view sees was counted before that was opened, and is until its
//!   old entries have been removed from leaves like this one.
//! - A change that his view does not see is not purged while it is open; had it been
//!   counted before, it still would be. One that is counted later is not in the leaf.

use super::View;
use crate::undo::record::{Body, Record};
use foldhash::fast::RandomState;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU32, Ordering};

/// Rows share so many counters, half a MiB of them: few of the rows that purge is
/// usually behind with have one in common with another row.
const COUNTERS: usize = 1 << 17;

/// Counts the changes of rows.
pub(crate) struct Unsettled {
    counters: Box<[AtomicU32]>,
    hasher: RandomState,
    /// Transactions of before the store was opened that had not ended then: what they
    /// have loaded has no undo.
    old: Vec<u64>,
    /// There is undo that nobody has counted.
    is_partial: bool,
}

impl Default for Unsettled {
    fn default() -> Unsettled {
        Unsettled {
            counters: (0..COUNTERS).map(|_| AtomicU32::new(0)).collect(),
            hasher: RandomState::default(),
            old: Vec::new(),
            is_partial: false,
        }
    }
}

impl Unsettled {
    fn counter(&self, table: u64, key: &[u8]) -> &AtomicU32 {
        let hash = self.hasher.hash_one((table, key));
        &self.counters[hash as usize % COUNTERS]
    }

    /// A row is about to be changed, and its entries, too.
    pub(super) fn begin(&self, table: u64, key: &[u8]) {
        self.counter(table, key).fetch_add(1, Ordering::AcqRel);
    }

    /// Of such a change nothing is left.
    pub(super) fn end(&self, table: u64, key: &[u8]) {
        let before = self.counter(table, key).fetch_sub(1, Ordering::AcqRel);
        debug_assert!(before > 0, "what ends was begun");
    }

    /// Whether no change of a row is left. See above for what that says of its entries.
    pub(crate) fn is_settled(&self, table: u64, key: &[u8]) -> bool {
        self.counter(table, key).load(Ordering::Acquire) == 0
    }

    /// The row that a record of undo keeps unsettled.
    fn row_of<'a>(record: &Record<'a>) -> Option<(u64, &'a [u8])> {
        match record.body {
            Body::Row {
                table,
                key,
                entries_stayed: false,
                ..
            } if !record.undone => Some((table, key)),
            _ => None,
        }
    }

    /// A record that was there when the store was opened.
    pub(super) fn found(&self, record: &Record<'_>) {
        if let Some((table, key)) = Self::row_of(record) {
            self.begin(table, key);
        }
    }

    /// What a record had replaced has gone, or is back.
    pub(super) fn settled(&self, record: &Record<'_>) {
        if let Some((table, key)) = Self::row_of(record) {
            self.end(table, key);
        }
    }

    /// Transactions had not ended when the store was opened.
    pub(crate) fn remember(&mut self, old: impl IntoIterator<Item = u64>) {
        self.old.extend(old);
    }

    /// Undo was left alone: entries of all rows are to be looked at.
    pub(crate) fn leave_out_some(&mut self) {
        self.is_partial = true;
    }

    /// Whether what is counted is enough for a view to judge entries of a table that
    /// transaction `filled_by` has loaded without undo.
    pub(super) fn is_enough_for(&self, view: &View, own: Option<u64>, filled_by: u64) -> bool {
        let sees_rows = view.sees(filled_by) || own == Some(filled_by);
        !self.is_partial && sees_rows && self.old.iter().all(|&trx| view.sees(trx))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_settled_when_all_of_its_changes_are() {
        let unsettled = Unsettled::default();
        assert!(unsettled.is_settled(1, b"key"));
        unsettled.begin(1, b"key");
        unsettled.begin(1, b"key");
        unsettled.end(1, b"key");
        assert!(!unsettled.is_settled(1, b"key"));
        unsettled.end(1, b"key");
        assert!(unsettled.is_settled(1, b"key"));
    }
}
