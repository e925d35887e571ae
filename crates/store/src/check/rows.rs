//! Whether rows, their versions and the entries of indexes agree.

use super::{CheckReport, UndoSeen};
use crate::backing::Backing;
use crate::overflow::OverflowRef;
use crate::policy::Role;
use crate::stream::{BEGIN_EXTENTS, EntryRows, LeafAhead};
use crate::system::System;
use crate::table::Table;
use crate::tree::Direction;
use crate::txn::version::{Version, VersionRef};
use crate::txn::{Error, View};
use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;

impl<B: Backing> System<B> {
    pub(super) fn check_table(
        &self,
        table: &Arc<Table>,
        undo: &UndoSeen,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let place = format!("table {}", table.name());
        self.check_tree(&place, &table.rows, &[], report)?;
        for index in &table.indexes {
            let place = format!("{place}, index {}", index.name);
            self.check_tree(&place, &index.tree, &[], report)?;
        }
        let mut long: Vec<OverflowRef> = undo.long.get(&table.id).cloned().unwrap_or_default();
        if let Err(error) = self.check_rows(table, undo, &mut long, report) {
            report.note_error(&place, error)?;
        }
        let known: HashSet<u32> = long.iter().map(|value| value.page).collect();
        let written = undo.written.values().flatten();
        let written = written.filter(|(of, value)| *of == table.id && !known.contains(&value.page));
        long.extend(written.map(|&(_, value)| value));
        let mut pages = self.description_pages(table)?;
        for value in long {
            match table.long.pages_of(&self.backing, value) {
                Ok(found) => {
                    let all = found.lists.iter().chain(&found.data);
                    pages.extend(all.map(|page| page.page));
                }
                Err(error) => report.note_error(&place, error.into())?,
            }
        }
        self.compare_pages(
            &format!("{place}, long values"),
            table.long.segment,
            pages,
            report,
        );
        for (position, index) in table.indexes.iter().enumerate() {
            let place = format!("{place}, index {}", index.name);
            if let Err(error) = self.check_entries(&place, table, position, undo, report) {
                report.note_error(&place, error)?;
            }
        }
        Ok(())
    }

    /// Looks at every row: that its versions can be read, and have entries.
    fn check_rows(
        &self,
        table: &Table,
        undo: &UndoSeen,
        long: &mut Vec<OverflowRef>,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let place = format!("table {}", table.name());
        let oldest = self.views.open_oldest();
        let mut cursor = table
            .rows
            .cursor(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
        let mut ahead = LeafAhead::new(&self.backing, Role::Check, BEGIN_EXTENTS);
        while let Some((key, value)) = cursor.next_watched(&self.backing, &mut ahead)? {
            report.rows += 1;
            let Some(newest) = VersionRef::decode(value) else {
                report.note(&place, format!("row {key:02x?} has no head"));
                continue;
            };
            if newest.is_deleted() && !undo.transactions.contains(&newest.trx) {
                report.note(&place, format!("row {key:02x?} is deleted and will not go"));
            }
            let checked = self.check_versions(table, key, newest, &oldest.view, undo, report);
            if let Err(error) = checked {
                report.note_error(&format!("{place}, row {key:02x?}"), error)?;
                continue;
            }
            long.extend(newest.long());
        }
        Ok(())
    }

    /// Looks at the versions of a row that somebody may see: that each has an
    /// entry in every index.
    fn check_versions(
        &self,
        table: &Table,
        key: &[u8],
        newest: VersionRef<'_>,
        oldest: &View,
        undo: &UndoSeen,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let mut version = Some(newest.to_version());
        while let Some(this) = version {
            if !this.is_deleted() {
                let row = self.row(table, key, &this)?;
                for (index, entry) in table.indexes.iter().zip(self.entries_of(table, &row, key)?) {
                    if index.tree.get(&self.backing, &entry, |_| ())?.is_none() {
                        let place = format!("table {}, index {}", table.name(), index.name);
                        report.note(&place, format!("row {key:02x?} has no entry"));
                    }
                }
            }
            if oldest.sees(this.trx) {
                break;
            }
            version = self.before_of(table, key, &this, undo)?;
        }
        Ok(())
    }

    /// The version before one, if its undo record is still there.
    fn before_of(
        &self,
        table: &Table,
        key: &[u8],
        version: &Version,
        undo: &UndoSeen,
    ) -> Result<Option<Version>, Error> {
        if !undo.transactions.contains(&version.trx) {
            return Ok(None);
        }
        self.before(table, key, version)
    }

    /// Looks at every entry: that some version of its row has its columns, and
    /// that no two rows have the same ones where that must not be.
    fn check_entries(
        &self,
        place: &str,
        table: &Arc<Table>,
        position: usize,
        undo: &UndoSeen,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let index = &table.indexes[position];
        let cursor = index
            .tree
            .cursor(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
        let mut entries = EntryRows::new(
            &self.backing,
            Arc::clone(table),
            position,
            cursor,
            Role::Check,
        );
        // Of the last row that has its columns now.
        let mut taken: Vec<u8> = Vec::new();
        while let Some(found) = entries.next()? {
            report.entries += 1;
            let entry = &found.bytes;
            let (columns, key) = entry.split_at(found.key_at);
            let mut version =
                self.newest_watched(table, key, &mut |page| entries.waits_for(page))?;
            entries.is_through_with(&found);
            let (mut is_newest, mut found) = (true, false);
            while let Some(this) = version {
                if self.has_entry(table, index, entry, key, &this)? {
                    found = true;
                    break;
                }
                is_newest = false;
                version = self.before_of(table, key, &this, undo)?;
            }
            if !found {
                report.note(place, format!("entry {entry:02x?} is no row's"));
            } else if is_newest && index.unique {
                let row = self.newest(table, key)?.expect("found above");
                let row = self.row(table, key, &row)?;
                if table.is_unique_for(index, &row) {
                    if taken == columns {
                        report.note(place, format!("entry {entry:02x?} is not the only one"));
                    }
                    taken = columns.to_vec();
                }
            }
        }
        Ok(())
    }
}
