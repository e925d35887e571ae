//! Redo: bringing the pages of a store to the end of its log.
//!
//! Records are read some at a time; the pages that they change are read ahead
//! while the records before them are repeated: the changes are made where a page
//! is older than the record. Changed pages leave memory as always, through the flusher. No
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
use crate::stream::{BEGIN_EXTENTS, Offered, PageStream, ReadAhead, role_of};
use std::collections::{BTreeSet, HashSet};

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
    /// The tablespaces of these.
    pub(crate) passed_over: BTreeSet<u32>,
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

/// Reads the pages that records change, in the order of first need.
struct Ahead<'c> {
    stream: PageStream<'c, Offered>,
    /// Offered, and redo has not come there.
    due: HashSet<PageId>,
}

impl<'c> Ahead<'c> {
    fn new(core: &'c Core) -> Ahead<'c> {
        let ahead = ReadAhead(core);
        Ahead {
            stream: PageStream::of_offered(ahead, Role::Recovery, BEGIN_EXTENTS),
            due: HashSet::new(),
        }
    }

    fn offer(&mut self, chunk: &[Record]) -> Result<(), StoreError> {
        let mut pages = Vec::new();
        for record in chunk {
            let mut changed: Vec<PageId> = record.changes()?.iter().map(|(id, _)| *id).collect();
            changed.sort_unstable();
            pages.extend(changed.into_iter().filter(|&id| self.due.insert(id)));
        }
        self.stream.offer(pages);
        Ok(())
    }

    fn came_to(&mut self, id: PageId) {
        if self.due.remove(&id) {
            self.stream.came_to(id);
        }
    }
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
        let mut ahead = Ahead::new(self);
        let mut next = self.read_chunk(&mut scan)?;
        ahead.offer(&next)?;
        while let Some(last) = next.last() {
            let at = last.end;
            // The device has work while this chunk is done.
            let behind = self.read_chunk(&mut scan)?;
            ahead.offer(&behind)?;
            let chunk = std::mem::replace(&mut next, behind);
            for record in &chunk {
                self.redo_record(record, &mut ahead, &mut report)?;
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

    fn redo_record(
        &self,
        record: &Record,
        ahead: &mut Ahead<'_>,
        report: &mut RecoveryReport,
    ) -> Result<(), StoreError> {
        report.records += 1;
        let mut changes = record.changes()?;
        // Page by page; a page's changes stay in order.
        changes.sort_by_key(|(id, _)| *id);
        for changes in changes.chunk_by(|(a, _), (b, _)| a == b) {
            let id = changes[0].0;
            let count = changes.len() as u64;
            let Some(file) = self.pool.files.get(id.space)? else {
                report.dropped += count;
                report.passed_over.insert(id.space);
                continue;
            };
            if let Some(pages) = grown_to(id, changes) {
                // Before the header can be written: a crash may have taken the
                // length, and recovery may be cut short too.
                self.extend(file.path(), pages, role_of(Role::Space))?;
            }
            ahead.came_to(id);
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
