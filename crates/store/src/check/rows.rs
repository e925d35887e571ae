//! Whether rows can be read, with their versions, and have their entries.

use super::again::{SUSPECTS_MAX, Seen, Suspect};
use super::long::Long;
use super::{CheckReport, GoOn, ROWS_OF_VIEW, expect_wanted};
use crate::backing::Backing;
use crate::policy::Role;
use crate::stream::{BEGIN_EXTENTS, LeafAhead};
use crate::system::System;
use crate::table::Table;
use crate::tree::Direction;
use crate::txn::Error;
use crate::txn::version::{Version, VersionRef};
use std::ops::Bound;

impl Seen<'_> {
    /// Whether a row that is deleted is still to be purged.
    fn is_to_go(&self, version: VersionRef<'_>) -> bool {
        let is_kept = || !self.oldest.sees(version.trx);
        let waits = || self.undo.is_some_and(|undo| undo.has(version.trx));
        !version.roll.is_none() && (is_kept() || waits())
    }
}

impl<B: Backing> System<B> {
    /// Looks at every row; gathers the pages of long values.
    pub(super) fn check_rows(
        &self,
        table: &Table,
        long: &mut Long,
        go_on: GoOn<'_>,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let mut cursor = table
            .rows
            .cursor(Bound::Unbounded, Bound::Unbounded, Direction::Forward);
        let mut ahead = LeafAhead::new(&self.backing, Role::Check, BEGIN_EXTENTS);
        let mut suspects: Vec<Suspect> = Vec::new();
        let mut oldest = self.views.open_oldest();
        while let Some((key, value)) = cursor.next_watched(&self.backing, &mut ahead)? {
            expect_wanted(go_on)?;
            report.rows += 1;
            let seen = Seen {
                oldest: &oldest.view,
                undo: None,
                at_rest: false,
            };
            let mut found = CheckReport::default();
            self.look_at_row(table, key, value, seen, long, &mut found)?;
            if !found.is_clean() {
                let (bytes, key_at) = (key.to_vec(), 0);
                suspects.push(Suspect { bytes, key_at });
            }
            if report.rows.is_multiple_of(ROWS_OF_VIEW) {
                drop(oldest);
                if suspects.len() >= SUSPECTS_MAX {
                    self.look_again_at_rows(table, &suspects, long, go_on, report)?;
                    suspects.clear();
                }
                oldest = self.views.open_oldest();
            }
        }
        drop(oldest);
        self.look_again_at_rows(table, &suspects, long, go_on, report)
    }

    fn look_again_at_rows(
        &self,
        table: &Table,
        suspects: &[Suspect],
        long: &mut Long,
        go_on: GoOn<'_>,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        self.look_again(table, suspects, go_on, report, |suspect, seen, report| {
            let key = &suspect.bytes;
            match table.rows.get(&self.backing, key, <[u8]>::to_vec)? {
                Some(row) => self.look_at_row(table, key, &row, seen, long, report),
                None => Ok(()),
            }
        })
    }

    /// Looks at a row: that its versions can be read, and have entries. Errors
    /// are findings.
    fn look_at_row(
        &self,
        table: &Table,
        key: &[u8],
        value: &[u8],
        seen: Seen<'_>,
        long: &mut Long,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let looked = self.check_row(table, key, value, seen, long, report);
        looked.or_else(|error| {
            let place = format!("table {}, row {key:02x?}", table.name());
            report.note_error(&place, error)
        })
    }

    fn check_row(
        &self,
        table: &Table,
        key: &[u8],
        value: &[u8],
        seen: Seen<'_>,
        long: &mut Long,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let place = || format!("table {}", table.name());
        let Some(newest) = VersionRef::decode(value) else {
            report.note(&place(), format!("row {key:02x?} has no head"));
            return Ok(());
        };
        if newest.is_deleted() && !seen.is_to_go(newest) {
            report.note(
                &place(),
                format!("row {key:02x?} is deleted and will not go"),
            );
        }
        let newest = newest.to_version();
        self.check_versions(table, key, &newest, seen, long, report)?;
        // Once: a row that looks wrong is looked at again.
        if report.is_clean() || seen.at_rest {
            self.note_long(table, &newest, true, long)?;
        }
        Ok(())
    }

    /// Looks at the versions of a row that somebody may see: that each has an
    /// entry in every index.
    fn check_versions(
        &self,
        table: &Table,
        key: &[u8],
        newest: &Version,
        seen: Seen<'_>,
        long: &mut Long,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let mut this = newest.clone();
        loop {
            if !this.is_deleted() {
                self.check_has_entries(table, key, &this, report)?;
            }
            if seen.oldest.sees(this.trx) {
                return Ok(());
            }
            let Some(before) = self.before(table, key, &this)? else {
                return Ok(());
            };
            self.note_long(table, &before, false, long)?;
            this = before;
        }
    }

    fn check_has_entries(
        &self,
        table: &Table,
        key: &[u8],
        version: &Version,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let row = self.row(table, key, version)?;
        for (index, entry) in table.indexes.iter().zip(self.entries_of(table, &row, key)?) {
            if index.tree.get(&self.backing, &entry, |_| ())?.is_none() {
                let place = format!("table {}, index {}", table.name(), index.name);
                report.note(&place, format!("row {key:02x?} has no entry"));
            }
        }
        Ok(())
    }
}
