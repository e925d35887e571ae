//! The second look at rows and entries.
//!
//! Most of what looks wrong was changed while it was looked at, or waits to be
//! purged: undo says so. What is still wrong then has its pages in memory, and
//! is looked at for good while nothing changes.

use super::undo::UndoSeen;
use super::{CheckReport, GoOn, expect_wanted};
use crate::backing::Backing;
use crate::system::System;
use crate::table::Table;
use crate::txn::{Error, View};

/// Rows or entries that look wrong are gathered, and looked at again together.
pub(super) const SUSPECTS_MAX: usize = 1000;

/// A row or an entry that looks wrong.
pub(super) struct Suspect {
    /// Its key, or all of the entry.
    pub(super) bytes: Vec<u8>,
    /// Where in these bytes the row's key begins.
    pub(super) key_at: usize,
}

/// What may be seen of a row, and what is known of undo.
#[derive(Clone, Copy)]
pub(super) struct Seen<'a> {
    /// What it sees, all see. It is open: what it does not see is not purged.
    pub(super) oldest: &'a View,
    /// All of it, while it is kept from being purged.
    pub(super) undo: Option<&'a UndoSeen>,
    /// Nothing changes meanwhile.
    pub(super) at_rest: bool,
}

impl<B: Backing> System<B> {
    /// Calls `look` with each of these, and notes what is still wrong.
    pub(super) fn look_again(
        &self,
        table: &Table,
        suspects: &[Suspect],
        go_on: GoOn<'_>,
        report: &mut CheckReport,
        mut look: impl FnMut(&Suspect, Seen<'_>, &mut CheckReport) -> Result<(), Error>,
    ) -> Result<(), Error> {
        if suspects.is_empty() {
            return Ok(());
        }
        let keys = suspects.iter().map(|it| it.bytes[it.key_at..].to_vec());
        let mut undo = UndoSeen::watching(table.id, keys.collect());
        let mut look_now = |suspect, undo: &_, at_rest, report: &mut _| {
            let oldest = self.views.open_oldest();
            let seen = Seen {
                oldest: &oldest.view,
                undo: Some(undo),
                at_rest,
            };
            look(suspect, seen, report)
        };
        self.while_not_purged(|| {
            self.follow_undo(&mut undo, report)?;
            let mut left = Vec::new();
            for suspect in suspects {
                expect_wanted(go_on)?;
                let mut found = CheckReport::default();
                look_now(suspect, &undo, false, &mut found)?;
                if !found.is_clean() {
                    left.push(suspect);
                }
            }
            for suspect in left {
                expect_wanted(go_on)?;
                // Little is left to be followed then while changes wait.
                self.follow_undo(&mut undo, report)?;
                self.at_rest(|| {
                    self.follow_undo(&mut undo, report)?;
                    look_now(suspect, &undo, true, report)
                })?;
            }
            Ok(())
        })
    }
}
