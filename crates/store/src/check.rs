//! Whether a whole store is in order.
//!
//! | file | subject |
//! |---|---|
//! | `pages` | whether every page in use is somebody's, and whose |
//! | `rows` | whether rows, versions and index entries agree |

mod pages;
mod rows;

use crate::access::PagesError;
use crate::backing::Backing;
use crate::overflow::OverflowRef;
use crate::policy::Role;
use crate::stream::{BEGIN_EXTENTS, LeafAhead, acting_as};
use crate::system::System;
use crate::tree::Tree;
use crate::txn::{Error, PURGE_RECORDS};
use crate::undo::record::{Body, Record};
use crate::undo::{Place, Step, read_header, step};
use parking_lot::{MutexGuard, RwLockWriteGuard};
use std::collections::{HashMap, HashSet};
use std::fmt;

/// Findings that a check lists; more are only counted.
const FINDINGS_MAX: usize = 1000;

/// Says whether it is still wanted.
type GoOn<'a> = &'a dyn Fn() -> bool;

/// # Errors
/// [`Error::Stopped`].
fn expect_wanted(go_on: GoOn<'_>) -> Result<(), Error> {
    go_on().then_some(()).ok_or(Error::Stopped)
}

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

    fn note(&mut self, place: &str, what: impl fmt::Display) {
        if self.findings.len() == FINDINGS_MAX {
            self.findings_omitted += 1;
            return;
        }
        let finding = Finding {
            place: place.to_owned(),
            what: what.to_string(),
        };
        // Undo is looked at in every step.
        if !self.findings.contains(&finding) {
            self.findings.push(finding);
        }
    }

    /// Notes an error as a finding, but passes on that the store has failed, or
    /// the check shall end.
    fn note_error(&mut self, place: &str, error: Error) -> Result<(), Error> {
        if matches!(
            error,
            Error::Pages(PagesError::Failed { .. }) | Error::Stopped
        ) {
            return Err(error);
        }
        self.note(place, error);
        Ok(())
    }
}

/// What undo says.
#[derive(Default)]
struct UndoSeen {
    records: u64,
    /// Transactions whose records are there.
    transactions: HashSet<u64>,
    /// Long values of old versions, by table.
    long: HashMap<u64, Vec<OverflowRef>>,
    /// Long values that transactions which have not ended have written: of
    /// versions, or of what is being rolled back. By transaction, with table.
    written: HashMap<u64, Vec<(u64, OverflowRef)>>,
    /// All pages.
    pages: Vec<u32>,
}

impl<B: Backing> System<B> {
    /// Walks everything, in steps: the tree of a table or index, or the rows or
    /// entries in it. Changes wait while a step looks at what must agree, and
    /// go on between the steps.
    ///
    /// `go_on` is asked again and again whether it shall.
    pub(crate) fn check(&self, go_on: GoOn<'_>) -> Result<CheckReport, Error> {
        let mut report = CheckReport::default();
        let _no_tables_come = self.catalog.lock();
        // As urgently as whoever else purges, and waits for it meanwhile.
        self.purge_what_is_there()?;
        let _reads = acting_as(Role::Check);
        self.at_rest(&mut report, |undo, report| {
            report.undo_records = undo.records;
            let own = [self.master.page.page];
            self.check_tree("the catalogue", &self.catalog.tree, &own, go_on, report)?;
            self.compare_pages("undo", self.slots.segment(), undo.pages.clone(), report);
            let catalogue = &self.catalog.tree;
            let segments = [catalogue.branch_segment, catalogue.leaf_segment];
            self.compare_space(segments.into_iter().chain([self.slots.segment()]), report);
            Ok(())
        })?;
        for table in self.catalog.all() {
            report.tables += 1;
            self.check_table(&table, go_on, &mut report)?;
        }
        Ok(report)
    }

    /// Calls `look` with what undo says, while nothing changes.
    fn at_rest(
        &self,
        report: &mut CheckReport,
        look: impl FnOnce(&UndoSeen, &mut CheckReport) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let not_purged = self.purge.running.lock();
        let nothing_changes = self.gate.write();
        let result = self.check_undo(report).and_then(|undo| look(&undo, report));
        // The next step would be faster than those who wait here.
        RwLockWriteGuard::unlock_fair(nothing_changes);
        MutexGuard::unlock_fair(not_purged);
        result
    }

    /// What is to be purged now: with changes going on there is always something
    /// new. In small parts, as each looks at all versions that were made since
    /// it began.
    fn purge_what_is_there(&self) -> Result<(), Error> {
        let last = self.purge.last();
        while self.purge.is_any_up_to(last) && self.purge(PURGE_RECORDS)? > 0 {}
        Ok(())
    }

    /// Walks the streams of all undo slots. What is wrong with them is noted
    /// once.
    fn check_undo(&self, report: &mut CheckReport) -> Result<UndoSeen, Error> {
        let mut seen = UndoSeen::default();
        let slots = self.master.read(&self.backing)?.slots;
        for (number, &header) in slots.iter().enumerate() {
            let place = format!("undo slot {number}");
            seen.pages.push(header.page);
            let walked = read_header(&self.backing, header)
                .map_err(Error::from)
                .and_then(|says| {
                    self.check_stream(&place, says.head, says.tail, &mut seen, report)
                });
            if let Err(error) = walked {
                report.note_error(&place, error)?;
            }
        }
        Ok(seen)
    }

    fn check_stream(
        &self,
        place: &str,
        head: Place,
        tail: Place,
        seen: &mut UndoSeen,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let mut at = head;
        let mut pages = HashSet::from([at.page]);
        seen.pages.push(at.page);
        loop {
            match step(&self.backing, self.slots.space(), at)? {
                Step::End if at == tail => return Ok(()),
                Step::End => {
                    report.note(
                        place,
                        format!("it ends at {at:?}, its header says {tail:?}"),
                    );
                    return Ok(());
                }
                Step::NextPage(page) if !pages.insert(page) => {
                    report.note(place, format!("page {page} comes twice"));
                    return Ok(());
                }
                Step::NextPage(page) => {
                    seen.pages.push(page);
                    at = Place::begin_of(page);
                }
                Step::Record { bytes, next } => {
                    seen.records += 1;
                    let record = Record::decode(&bytes).expect("checked by the step");
                    seen.note(&record);
                    at = next;
                }
            }
        }
    }

    /// Checks a tree, and that its segments hold its pages and `others`.
    fn check_tree(
        &self,
        place: &str,
        tree: &Tree,
        others: &[u32],
        go_on: GoOn<'_>,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let mut ahead = LeafAhead::new(&self.backing, Role::Check, BEGIN_EXTENTS);
        let mut found = tree.check_while(&self.backing, go_on, &mut ahead)?;
        for finding in &found.findings {
            report.note(place, finding);
        }
        // Below a damaged page the others were not seen.
        if found.findings.is_empty() {
            found.branch_pages.extend_from_slice(others);
            self.compare_pages(place, tree.branch_segment, found.branch_pages, report);
            self.compare_pages(place, tree.leaf_segment, found.leaf_pages, report);
        }
        Ok(())
    }
}

impl UndoSeen {
    fn note(&mut self, record: &Record<'_>) {
        self.transactions.insert(record.trx);
        if record.undone {
            return;
        }
        match record.body {
            Body::Row {
                table,
                before: Some(before),
                ..
            } => {
                let value = before.long().filter(|value| value.page != 0);
                self.long.entry(table).or_default().extend(value);
            }
            Body::Row { before: None, .. } => {}
            Body::Long { table, value } => {
                let written = self.written.entry(record.trx).or_default();
                written.push((table, value));
            }
            Body::End { .. } => {
                self.written.remove(&record.trx);
            }
        }
    }
}
