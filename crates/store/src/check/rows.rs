//! Whether rows, their versions and the entries of indexes agree.

use super::{CheckReport, GoOn, UndoSeen, expect_wanted};
use crate::backing::Backing;
use crate::overflow::OverflowRef;
use crate::policy::Role;
use crate::stream::{BEGIN_EXTENTS, EntryRows, LeafAhead};
use crate::system::System;
use crate::table::{SecondaryIndex, Table};
use crate::tree::Direction;
use crate::txn::version::{Version, VersionRef};
use crate::txn::{Error, View};
use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;

impl<B: Backing> System<B> {
    /// Looks at a table, step by step.
    pub(super) fn check_table(
        &self,
        table: &Arc<Table>,
        go_on: GoOn<'_>,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let place = format!("table {}", table.name());
        let of_index = |index: &SecondaryIndex| format!("{place}, index {}", index.name);
        self.at_rest(report, |_, report| {
            self.check_tree(&place, &table.rows, &[], go_on, report)
        })?;
        for index in &table.indexes {
            self.at_rest(report, |_, report| {
                self.check_tree(&of_index(index), &index.tree, &[], go_on, report)
            })?;
        }
        self.at_rest(report, |undo, report| {
            self.check_rows_and_long(&place, table, undo, go_on, report)
        })?;
        for (position, index) in table.indexes.iter().enumerate() {
            self.at_rest(report, |undo, report| {
                let place = of_index(index);
                match self.check_entries(&place, table, position, undo, go_on, report) {
                    Ok(()) => Ok(()),
                    Err(error) => report.note_error(&place, error),
                }
            })?;
        }
        self.at_rest(report, |_, report| {
            let trees = table.indexes.iter().map(|index| &index.tree);
            let trees = trees.chain([&table.rows]);
            let segments = trees.flat_map(|tree| [tree.branch_segment, tree.leaf_segment]);
            self.compare_space(segments.chain([table.long.segment]), report);
            Ok(())
        })
    }

    /// Looks at every row, and at the pages of all long values.
    fn check_rows_and_long(
        &self,
        place: &str,
        table: &Table,
        undo: &UndoSeen,
        go_on: GoOn<'_>,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let mut long: Vec<OverflowRef> = undo.long.get(&table.id).cloned().unwrap_or_default();
        if let Err(error) = self.check_rows(table, undo, &mut long, go_on, report) {
            report.note_error(place, error)?;
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
                Err(error) => report.note_error(place, error.into())?,
            }
        }
        self.compare_pages(
            &format!("{place}, long values"),
            table.long.segment,
            pages,
            report,
        );
        Ok(())
    }

    /// Looks at every row: that its versions can be read, and have entries.
    fn check_rows(
        &self,
        table: &Table,
        undo: &UndoSeen,
        long: &mut Vec<OverflowRef>,
        go_on: GoOn<'_>,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let place = format!("table {}", table.name());
        let oldest = self.views.open_oldest();
        let mut cursor = table
            .rows
            .cursor(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
        let mut ahead = LeafAhead::new(&self.backing, Role::Check, BEGIN_EXTENTS);
        while let Some((key, value)) = cursor.next_watched(&self.backing, &mut ahead)? {
            expect_wanted(go_on)?;
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
        go_on: GoOn<'_>,
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
            expect_wanted(go_on)?;
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
