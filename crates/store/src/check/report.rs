//! What a check has seen.

use super::is_over;
use crate::txn::Error;
use std::fmt;

/// Findings that a check lists; more are only counted.
const FINDINGS_MAX: usize = 1000;

/// Something that is not in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Where: table, index, undo slot.
    pub place: String,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// What a check has seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// What is wrong; nothing if the store is in order.
    pub findings: Vec<Finding>,
    /// More that is wrong and not listed.
    pub findings_omitted: u64,
    /// Tables.
    pub tables: u64,
    /// Rows, also those that are deleted and not purged.
    pub rows: u64,
    /// Entries of secondary indexes.
    pub entries: u64,
    /// Undo records.
    pub undo_records: u64,
    /// Pages of trees, long values and undo.
    pub pages: u64,
}

impl CheckReport {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.is_empty()
    }

    pub(super) fn note(&mut self, place: &str, what: impl fmt::Display) {
        let finding = Finding {
            place: place.to_owned(),
            what: what.to_string(),
        };
        // Undo is looked at again and again.
        if self.findings.contains(&finding) {
            return;
        }
        if self.findings.len() == FINDINGS_MAX {
            self.findings_omitted += 1;
        } else {
            self.findings.push(finding);
        }
    }

    /// Notes an error as a finding, but passes on that the store has failed, or
    /// the check shall end.
    pub(super) fn note_error(&mut self, place: &str, error: Error) -> Result<(), Error> {
        if is_over(&error) {
            return Err(error);
        }
        self.note(place, error);
        Ok(())
    }
}
