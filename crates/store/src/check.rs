//! Whether a whole store is in order.
//!
//! Transactions go on meanwhile, and nothing is held while a tree is walked.
//! What looks right is right: a row that was read had the entry that was found.
//! What looks wrong may only have been changed in between, or wait to be purged;
//! it is looked at again, a row, an entry or a few leaves at a time, while
//! nothing changes ([`System::at_rest`]), and is a finding if it is still wrong.
//!
//! | file | subject |
//! |---|---|
//! | `report` | what a check has seen |
//! | `undo` | the streams of undo |
//! | `pages` | trees, and whether every page in use is somebody's |
//! | `rows` | whether rows and versions have their entries |
//! | `entries` | whether entries have their rows |
//! | `again` | the second look at rows and entries |
//! | `long` | the pages of long values |

mod again;
mod entries;
mod long;
mod pages;
mod report;
mod rows;
mod undo;

use crate::access::PagesError;
use crate::backing::Backing;
use crate::policy::Role;
use crate::stream::acting_as;
use crate::system::System;
use crate::table::{SecondaryIndex, Table};
use crate::txn::{Error, PURGE_RECORDS};
use parking_lot::RwLockWriteGuard;
pub use report::{CheckReport, Finding};
use std::sync::Arc;

/// Rows or entries after which purge may go on to what has ended since.
const ROWS_OF_VIEW: u64 = 256;

/// Says whether it is still wanted.
type GoOn<'a> = &'a dyn Fn() -> bool;

/// # Errors
/// [`Error::Stopped`].
fn expect_wanted(go_on: GoOn<'_>) -> Result<(), Error> {
    go_on().then_some(()).ok_or(Error::Stopped)
}

/// Whether a check cannot go on after an error.
fn is_over(error: &Error) -> bool {
    matches!(
        error,
        Error::Pages(PagesError::Failed { .. }) | Error::Stopped
    )
}

impl<B: Backing> System<B> {
    /// Walks everything. `go_on` is asked again and again whether it shall.
    pub(crate) fn check(&self, go_on: GoOn<'_>) -> Result<CheckReport, Error> {
        let mut report = CheckReport::default();
        let _no_tables_come = self.catalog.lock();
        // As urgently as whoever else purges, and waits for it meanwhile.
        self.purge_what_is_there()?;
        let _reads = acting_as(Role::Check);
        self.check_undo(&mut report)?;
        let catalogue = &self.catalog.tree;
        let own = [self.master.page.page];
        self.check_tree("the catalogue", catalogue, &own, go_on, &mut report)?;
        let segments = [catalogue.branch_segment, catalogue.leaf_segment];
        let segments = segments.into_iter().chain([self.slots.segment()]);
        self.at_rest(|| self.compare_space(segments, &mut report));
        for table in self.catalog.damaged(&self.backing) {
            report.tables += 1;
            report.note(&format!("table {}", table.name), table.reason);
        }
        let known = self.catalog.spaces();
        for unusable in self.backing.unusable() {
            if !known.contains(&unusable.space) {
                let what = format!("no table leads to it: {}; remove it", unusable.reason);
                report.note(&format!("tablespace {}", unusable.space), what);
            }
        }
        for trx in &self.unfinished {
            let what = "it is not rolled back, as it may have changed a damaged table";
            report.note(&format!("transaction {trx}"), what);
        }
        for table in self.catalog.all(&self.backing) {
            report.tables += 1;
            self.check_table(&table, go_on, &mut report)?;
        }
        Ok(report)
    }

    fn check_table(
        &self,
        table: &Arc<Table>,
        go_on: GoOn<'_>,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let place = format!("table {}", table.name());
        let of_index = |index: &SecondaryIndex| format!("{place}, index {}", index.name);
        self.check_tree(&place, &table.rows, &[], go_on, report)?;
        for index in &table.indexes {
            self.check_tree(&of_index(index), &index.tree, &[], go_on, report)?;
        }
        self.check_rows_and_long(&place, table, go_on, report)?;
        for (position, index) in table.indexes.iter().enumerate() {
            let place = of_index(index);
            if let Err(error) = self.check_entries(&place, table, position, go_on, report) {
                report.note_error(&place, error)?;
            }
        }
        let trees = table.indexes.iter().map(|index| &index.tree);
        let trees = trees.chain([&table.rows]);
        let segments = trees.flat_map(|tree| [tree.branch_segment, tree.leaf_segment]);
        let segments = segments.chain([table.long.segment]);
        self.at_rest(|| self.compare_space(segments, report));
        Ok(())
    }

    /// Calls `look` while nothing changes. To be as short as can be, with a
    /// bound that does not depend on how much there is to be checked: all who
    /// change something wait.
    fn at_rest<T>(&self, look: impl FnOnce() -> T) -> T {
        let nothing_changes = self.gate.write();
        // They wait for the pages that it waits for.
        let seen = {
            let _urgently = acting_as(Role::Read);
            look()
        };
        // The next look would be faster than those who wait here.
        RwLockWriteGuard::unlock_fair(nothing_changes);
        seen
    }

    /// What is to be purged now: with changes going on there is always something
    /// new. In small parts, as each looks at all versions that were made since
    /// it began.
    fn purge_what_is_there(&self) -> Result<(), Error> {
        let last = self.purge.last();
        while self.purge.is_any_up_to(last) && self.purge(PURGE_RECORDS)? > 0 {}
        Ok(())
    }
}
