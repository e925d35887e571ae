//! Whether the entries of an index have their rows.

use super::again::{SUSPECTS_MAX, Seen, Suspect};
use super::{CheckReport, GoOn, ROWS_OF_VIEW, expect_wanted, is_over};
use crate::backing::Backing;
use crate::ids::PageId;
use crate::policy::Role;
use crate::stream::EntryRows;
use crate::system::System;
use crate::table::Table;
use crate::tree::Direction;
use crate::txn::Error;
use crate::txn::version::Version;
use std::ops::Bound;
use std::sync::Arc;

/// Whose an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Nobodys,
    /// An old version's, or a row's that may have the columns of others.
    Somebodys,
    /// Of the newest version of a row that must be the only one with them.
    Only,
}

impl<B: Backing> System<B> {
    /// Looks at every entry: that some version of its row has its columns, and
    /// that no two rows have the same ones where that must not be.
    pub(super) fn check_entries(
        &self,
        place: &str,
        table: &Arc<Table>,
        position: usize,
        go_on: GoOn<'_>,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let tree = &table.indexes[position].tree;
        let cursor = tree.cursor(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
        let mut entries = EntryRows::new(
            &self.backing,
            Arc::clone(table),
            position,
            cursor,
            Role::Check,
        );
        // Of the last row that has its columns now.
        let mut taken: Vec<u8> = Vec::new();
        let mut suspects: Vec<Suspect> = Vec::new();
        let mut oldest = self.views.open_oldest();
        while let Some(entry) = entries.next()? {
            expect_wanted(go_on)?;
            report.entries += 1;
            let seen = Seen {
                oldest: &oldest.view,
                undo: None,
                at_rest: false,
            };
            let (bytes, key_at) = (&entry.bytes, entry.key_at);
            let mut waits_for = |page| entries.waits_for(page);
            let whose = self.whose(table, position, bytes, key_at, seen, &mut waits_for);
            entries.is_through_with(&entry);
            let is_right = match whose {
                Ok(Whose::Somebodys) => true,
                Ok(Whose::Only) => {
                    let is_taken = taken == bytes[..key_at];
                    taken = bytes[..key_at].to_vec();
                    !is_taken
                }
                Err(error) if is_over(&error) => return Err(error),
                Ok(Whose::Nobodys) | Err(_) => false,
            };
            if !is_right {
                let bytes = entry.bytes;
                suspects.push(Suspect { bytes, key_at });
            }
            if report.entries.is_multiple_of(ROWS_OF_VIEW) {
                drop(oldest);
                if suspects.len() >= SUSPECTS_MAX {
                    self.look_again_at_entries(place, table, position, &suspects, go_on, report)?;
                    suspects.clear();
                }
                oldest = self.views.open_oldest();
            }
        }
        drop(oldest);
        self.look_again_at_entries(place, table, position, &suspects, go_on, report)
    }

    fn look_again_at_entries(
        &self,
        place: &str,
        table: &Table,
        position: usize,
        suspects: &[Suspect],
        go_on: GoOn<'_>,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        self.look_again(table, suspects, go_on, report, |suspect, seen, report| {
            let Suspect { bytes, key_at } = suspect;
            let looked = self.check_entry(place, table, position, bytes, *key_at, seen, report);
            looked.or_else(|error| report.note_error(place, error))
        })
    }

    /// Looks at an entry that may be gone by now.
    #[expect(clippy::too_many_arguments, reason = "what an entry is, and for whom")]
    fn check_entry(
        &self,
        place: &str,
        table: &Table,
        position: usize,
        entry: &[u8],
        key_at: usize,
        seen: Seen<'_>,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let tree = &table.indexes[position].tree;
        if tree.get(&self.backing, entry, |_| ())?.is_none() {
            return Ok(());
        }
        let whose = |entry: &[u8]| self.whose(table, position, entry, key_at, seen, &mut |_| {});
        match whose(entry)? {
            Whose::Somebodys => return Ok(()),
            Whose::Nobodys => {
                report.note(place, format!("entry {entry:02x?} is no row's"));
                return Ok(());
            }
            Whose::Only => {}
        }
        let columns = &entry[..key_at];
        let from = Bound::Included(columns);
        let mut same = tree.cursor(from, Bound::Unbounded, Direction::Forward);
        while let Some((other, _)) = same.next(&self.backing)? {
            if !other.starts_with(columns) {
                break;
            }
            if other != entry && whose(other)? == Whose::Only {
                report.note(place, format!("entry {entry:02x?} is not the only one"));
                break;
            }
        }
        Ok(())
    }

    /// Whose an entry is, the key of whose row begins at `key_at`.
    fn whose(
        &self,
        table: &Table,
        position: usize,
        entry: &[u8],
        key_at: usize,
        seen: Seen<'_>,
        waits_for: &mut impl FnMut(PageId),
    ) -> Result<Whose, Error> {
        let (index, key) = (&table.indexes[position], &entry[key_at..]);
        let has = |version: &Version| self.has_entry(table, index, entry, key, version);
        let newest = self.newest_watched(table, key, waits_for)?;
        if let Some(newest) = &newest
            && has(newest)?
        {
            let is_only = index.unique && {
                let row = self.row(table, key, newest)?;
                table.is_unique_for(index, &row)
            };
            return Ok(if is_only {
                Whose::Only
            } else {
                Whose::Somebodys
            });
        }
        let mut older = newest;
        while let Some(this) = older.filter(|this| !seen.oldest.sees(this.trx)) {
            older = self.before(table, key, &this)?;
            if let Some(before) = &older
                && has(before)?
            {
                return Ok(Whose::Somebodys);
            }
        }
        // Also where no version leads to it any more: purge comes to it. What was
        // undone since may have no pages any more.
        for replaced in seen.undo.into_iter().flat_map(|undo| undo.replaced(key)) {
            match has(replaced) {
                Ok(true) => return Ok(Whose::Somebodys),
                Err(error) if is_over(&error) => return Err(error),
                Ok(false) | Err(_) => {}
            }
        }
        Ok(Whose::Nobodys)
    }
}
