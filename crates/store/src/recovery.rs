//! Redo: bringing the pages of a store to the end of its log.
//!
//! Records are read some at a time; the pages that they change are read ahead
//! in one batch, then the changes are made where a page is older than the
//! record. Changed pages leave memory as always, through the flusher. No
//! checkpoint is taken before the end, so a crash on the way begins again from
//! the same position, and finds some pages newer.

use crate::access::PagesError;
use crate::core::Core;
use crate::error::StoreError;
use crate::ids::{Lsn, PageId};
use crate::log::{LogError, LogScan};
use crate::page::{Op, header};
use crate::policy::Role;
use crate::space::layout::{HEADER_PAGE, at};
use std::collections::BTreeSet;

/// Records are taken together up to so many bytes.
const CHUNK_BYTES: usize = 1 << 20;

/// How far redo has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryProgress {
    /// Where it began: the last checkpoint.
    pub from: Lsn,
    /// Where it is.
    pub at: Lsn,
    /// Where it will end.
    pub to: Lsn,
}

/// What recovery did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecoveryReport {
    /// Where redo began.
    pub from: Lsn,
    /// The end of the log.
    pub to: Lsn,
    /// Mini-transactions in the log.
    pub records: u64,
    /// Changes made.
    pub applied: u64,
    /// Changes that their pages had already.
    pub present: u64,
    /// Changes of tablespaces that have been dropped.
    pub dropped: u64,
    /// Pages whose writing a crash had cut short, brought back from copies.
    pub restored: u64,
}

struct Record {
    start: Lsn,
    end: Lsn,
    payload: Vec<u8>,
}

impl Record {
    /// What the mini-transaction changed, in order.
    fn changes(&self) -> Result<Vec<(PageId, Op<'_>)>, StoreError> {
        let mut changes = Vec::new();
        let mut rest = self.payload.as_slice();
        while !rest.is_empty() {
            let (id, op, behind) = Op::decode(rest).map_err(|source| StoreError::Record {
                lsn: self.start.0,
                source,
            })?;
            changes.push((id, op));
            rest = behind;
        }
        Ok(changes)
    }
}

/// Pages that a file has after these changes of one of its pages, if they say.
fn grown_to(id: PageId, changes: &[(PageId, Op<'_>)]) -> Option<u32> {
    let sizes = changes.iter().filter_map(|(_, op)| match op {
        Op::Patch { offset, bytes } if usize::from(*offset) == at::SIZE_PAGES => {
            bytes.first_chunk().copied().map(u32::from_le_bytes)
        }
        _ => None,
    });
    sizes.rev().find(|_| id.page == HEADER_PAGE)
}

impl Core {
    /// Repeats what the log tells.
    pub(crate) fn redo(
        &self,
        mut scan: LogScan,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<RecoveryReport, StoreError> {
        let mut report = RecoveryReport {
            from: self.log.checkpoint_lsn(),
            to: self.log.end(),
            ..RecoveryReport::default()
        };
        self.pool.dirty.set_end(report.from);
        loop {
            let chunk = self.read_chunk(&mut scan)?;
            let Some(last) = chunk.last() else {
                break;
            };
            let at = last.end;
            self.read_ahead(&chunk)?;
            for record in &chunk {
                self.redo_record(record, &mut report)?;
            }
            progress(RecoveryProgress {
                from: report.from,
                at,
                to: report.to,
            });
        }
        self.pool.dirty.set_end(report.to);
        Ok(report)
    }

    fn read_chunk(&self, scan: &mut LogScan) -> Result<Vec<Record>, StoreError> {
        let failed = |source: LogError| StoreError::Log {
            path: self.directory.clone(),
            source,
        };
        let mut chunk = Vec::new();
        let mut bytes = 0;
        while bytes < CHUNK_BYTES {
            let Some(record) = scan.next().map_err(failed)? else {
                break;
            };
            bytes += record.payload.len();
            chunk.push(Record {
                start: record.start,
                end: record.end,
                payload: record.payload.to_vec(),
            });
        }
        Ok(chunk)
    }

    /// Reads the pages that a chunk changes, in the order of the files; as many
    /// as leave room for those that come next.
    fn read_ahead(&self, chunk: &[Record]) -> Result<(), StoreError> {
        let mut pages = BTreeSet::new();
        for record in chunk {
            pages.extend(record.changes()?.into_iter().map(|(id, _)| id));
        }
        let most = self.pool.frames().len() / 4;
        let pages: Vec<PageId> = pages.into_iter().take(most).collect();
        self.pool.prefetch(&pages, Role::Recovery);
        Ok(())
    }

    fn redo_record(&self, record: &Record, report: &mut RecoveryReport) -> Result<(), StoreError> {
        report.records += 1;
        let mut changes = record.changes()?;
        // Page by page; a page's changes stay in order.
        changes.sort_by_key(|(id, _)| *id);
        for changes in changes.chunk_by(|(a, _), (b, _)| a == b) {
            let id = changes[0].0;
            let count = changes.len() as u64;
            let Some(file) = self.pool.files.get(id.space) else {
                report.dropped += count;
                continue;
            };
            if let Some(pages) = grown_to(id, changes) {
                // Before the header can be written: a crash may have taken the
                // length, and recovery may be cut short too.
                self.extend(file.path(), pages)?;
            }
            if self.redo_page(record, id, changes)? {
                report.applied += count;
            } else {
                report.present += count;
            }
        }
        Ok(())
    }

    /// Makes a record's changes of one page, unless it has them.
    fn redo_page(
        &self,
        record: &Record,
        id: PageId,
        changes: &[(PageId, Op<'_>)],
    ) -> Result<bool, StoreError> {
        let made_anew = matches!(changes[0].1, Op::Format { .. });
        loop {
            let mut page = match self.pool.exclusive(id) {
                Ok(page) => page,
                Err(_) => {
                    match self.pool.load(id) {
                        Ok(()) => {}
                        // What stood there before is of no interest: a page
                        // behind the end that the crash left, for one.
                        Err(PagesError::Unreadable { .. }) if made_anew => {
                            self.place_anew(id)?;
                        }
                        Err(error) => return Err(error.into()),
                    }
                    continue;
                }
            };
            if header::lsn(page.slot.bytes()) >= record.end {
                return Ok(false);
            }
            for (_, op) in changes {
                op.apply(page.slot.bytes_mut(), id)
                    .map_err(|source| StoreError::Redo {
                        lsn: record.start.0,
                        source,
                    })?;
            }
            header::set_lsn(page.slot.bytes_mut(), record.end);
            let changed = [page.frame].into_iter();
            let frames = self.pool.frames();
            self.pool
                .dirty
                .mark(frames, changed, record.start, record.end);
            return Ok(true);
        }
    }

    fn place_anew(&self, id: PageId) -> Result<(), PagesError> {
        let frame = self.pool.take(1)?[0];
        let (mut page, back) = self.pool.place(id, frame);
        page.slot.bytes_mut().fill(0);
        self.pool.give(back);
        Ok(())
    }
}
