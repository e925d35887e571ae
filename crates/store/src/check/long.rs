//! Whether the pages of long values are somebody's, and of one alone.

use super::pages::Census;
use super::undo::UndoSeen;
use super::{CheckReport, GoOn, is_over};
use crate::backing::Backing;
use crate::overflow::OverflowRef;
use crate::system::System;
use crate::table::Table;
use crate::txn::version::Version;
use crate::txn::{Error, View};
use std::collections::HashSet;

/// Long values that rows led to.
pub(super) struct Long {
    /// What had ended before.
    began: View,
    /// First pages of the newest versions' values, and all of their pages.
    first: HashSet<u32>,
    found: Vec<u32>,
    /// Pages of older versions: undo names them too, as long as nobody rolls
    /// back or purges.
    older: HashSet<u32>,
}

impl<B: Backing> System<B> {
    /// Looks at every row, and at the pages of all long values.
    pub(super) fn check_rows_and_long(
        &self,
        place: &str,
        table: &Table,
        go_on: GoOn<'_>,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let before = self.census(table.long.segment);
        let mut long = Long {
            began: (*self.views.open().view).clone(),
            first: HashSet::new(),
            found: Vec::new(),
            older: HashSet::new(),
        };
        if let Err(error) = self.check_rows(table, &mut long, go_on, report) {
            report.note_error(place, error)?;
        }
        self.add_undo(place, table, &before, &mut long, report)?;
        match self.description_pages(table) {
            Ok(pages) => long.found.extend(pages),
            // Its pages are not known to be somebody's.
            Err(error) => return report.note_error(place, error),
        }
        let place = format!("{place}, long values");
        let used_else = |page: u32| long.older.contains(&page);
        self.compare_pages(&place, long.found, &before, used_else, report)
    }

    /// Notes the long value of a version that a row led to.
    pub(super) fn note_long(
        &self,
        table: &Table,
        version: &Version,
        is_newest: bool,
        long: &mut Long,
    ) -> Result<(), Error> {
        let Some(value) = version.borrow().long() else {
            return Ok(());
        };
        let pages = self.long_pages(table, value)?;
        if !is_newest {
            long.older.extend(pages);
            return Ok(());
        }
        long.first.insert(value.page);
        long.found.extend(pages);
        Ok(())
    }

    fn long_pages(&self, table: &Table, value: OverflowRef) -> Result<Vec<u32>, Error> {
        let found = table.long.pages_of(&self.backing, value)?;
        let all = found.lists.iter().chain(&found.data);
        Ok(all.map(|page| page.page).collect())
    }

    /// Adds the long values that undo names: of old versions, and of what is
    /// being written.
    fn add_undo(
        &self,
        place: &str,
        table: &Table,
        before: &Census,
        long: &mut Long,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let mut undo = UndoSeen::default();
        self.while_not_purged(|| {
            self.follow_undo(&mut undo, report)?;
            let mut add = |value, found: &mut Vec<u32>| match self.long_pages(table, value) {
                Ok(pages) => {
                    found.extend(pages);
                    Ok(())
                }
                Err(error) if before.is_of_now(&self.backing) => report.note_error(place, error),
                // It may not be whole yet, or be taken back.
                Err(error) if is_over(&error) => Err(error),
                Err(_) => Ok(()),
            };
            for &(trx, value) in undo.long.get(&table.id).into_iter().flatten() {
                // Otherwise replaced after its row was looked at.
                if !long.first.contains(&value.page) || long.began.sees(trx) {
                    add(value, &mut long.found)?;
                }
            }
            let known: HashSet<u32> = long.found.iter().copied().collect();
            for &(of, value) in undo.written.values().flatten() {
                if of == table.id && !known.contains(&value.page) {
                    add(value, &mut long.found)?;
                }
            }
            Ok(())
        })
    }
}
