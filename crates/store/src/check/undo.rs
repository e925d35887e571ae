//! The streams of undo, and what their records say.

use super::CheckReport;
use crate::backing::Backing;
use crate::ids::PageId;
use crate::overflow::OverflowRef;
use crate::system::System;
use crate::txn::Error;
use crate::txn::version::Version;
use crate::undo::record::{Body, Record};
use crate::undo::{PageCopy, Place, Step, read_header};
use parking_lot::MutexGuard;
use std::collections::{HashMap, HashSet};

/// What undo says, up to where it was followed. To be forgotten when it may be
/// purged.
#[derive(Default)]
pub(super) struct UndoSeen {
    /// By the page of the slot's header.
    streams: HashMap<u32, Stream>,
    records: u64,
    /// Transactions whose records are there.
    transactions: HashSet<u64>,
    /// Long values of old versions, by table, with the transaction that
    /// replaced them.
    pub(super) long: HashMap<u64, Vec<(u64, OverflowRef)>>,
    /// Long values that transactions which have not ended have written: of
    /// versions, or of what is being rolled back. By transaction, with table.
    pub(super) written: HashMap<u64, Vec<(u64, OverflowRef)>>,
    /// A table whose old versions are kept, for these keys alone.
    table: u64,
    replaced: HashMap<Vec<u8>, Vec<Version>>,
}

struct Stream {
    at: Place,
    pages: HashSet<u32>,
}

impl UndoSeen {
    /// One that keeps the old versions of these rows of a table.
    pub(super) fn watching(table: u64, keys: HashSet<Vec<u8>>) -> UndoSeen {
        UndoSeen {
            table,
            replaced: keys.into_iter().map(|key| (key, Vec::new())).collect(),
            ..UndoSeen::default()
        }
    }

    /// Whether the records of a transaction are there.
    pub(super) fn has(&self, trx: u64) -> bool {
        self.transactions.contains(&trx)
    }

    /// The old versions of a row that is watched.
    pub(super) fn replaced(&self, key: &[u8]) -> &[Version] {
        self.replaced.get(key).map_or(&[], Vec::as_slice)
    }

    fn note(&mut self, record: &Record<'_>) {
        self.records += 1;
        self.transactions.insert(record.trx);
        if record.undone {
            return;
        }
        match record.body {
            Body::Row {
                table,
                key,
                before: Some(before),
                ..
            } => {
                let value = before.long().filter(|value| value.page != 0);
                let value = value.map(|value| (record.trx, value));
                self.long.entry(table).or_default().extend(value);
                // Where its pages are being freed, its entries have gone.
                if table == self.table
                    && !record.freeing
                    && let Some(versions) = self.replaced.get_mut(key)
                {
                    versions.push(before.to_version());
                }
            }
            Body::Row { before: None, .. } | Body::Prepared { .. } => {}
            Body::Long { table, value } => {
                let written = self.written.entry(record.trx).or_default();
                written.push((table, value));
            }
            Body::End { .. } => {
                self.written.remove(&record.trx);
            }
        }
    }

    /// All pages, those of the headers included.
    fn pages(&self) -> Vec<u32> {
        let in_streams = self.streams.values().flat_map(|stream| &stream.pages);
        in_streams.chain(self.streams.keys()).copied().collect()
    }
}

impl<B: Backing> System<B> {
    /// Calls `look` while nothing is purged.
    pub(super) fn while_not_purged<T>(&self, look: impl FnOnce() -> T) -> T {
        let not_purged = self.purge.running.lock();
        let seen = look();
        // The next look would be faster than whoever purges.
        MutexGuard::unlock_fair(not_purged);
        seen
    }

    /// Looks at undo itself, and at whose its pages are.
    pub(super) fn check_undo(&self, report: &mut CheckReport) -> Result<(), Error> {
        let before = self.census(self.slots.segment());
        let mut undo = UndoSeen::default();
        self.while_not_purged(|| self.follow_undo(&mut undo, report))?;
        report.undo_records = undo.records;
        self.compare_pages("undo", undo.pages(), &before, |_| false, report)
    }

    /// Walks the streams of all undo slots from where it was, while transactions
    /// append to them and nobody purges. What is wrong with them is noted once.
    pub(super) fn follow_undo(
        &self,
        seen: &mut UndoSeen,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let slots = self.master.read(&self.backing)?.slots;
        for (number, &header) in slots.iter().enumerate() {
            let place = format!("undo slot {number}");
            if let Err(error) = self.follow_stream(&place, header, seen, report) {
                report.note_error(&place, error)?;
            }
        }
        Ok(())
    }

    fn follow_stream(
        &self,
        place: &str,
        header: PageId,
        seen: &mut UndoSeen,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let says = read_header(&self.backing, header)?;
        let begun = seen.streams.remove(&header.page);
        let mut stream = begun.unwrap_or_else(|| Stream {
            at: says.head,
            pages: HashSet::from([says.head.page]),
        });
        let followed = self.follow_to(place, header, says.tail, &mut stream, seen, report);
        seen.streams.insert(header.page, stream);
        followed
    }

    fn follow_to(
        &self,
        place: &str,
        header: PageId,
        tail: Place,
        stream: &mut Stream,
        seen: &mut UndoSeen,
        report: &mut CheckReport,
    ) -> Result<(), Error> {
        let page = |number| PageId::new(self.slots.space(), number);
        let mut copy = PageCopy::new(&self.backing, page(stream.at.page))?;
        loop {
            let found = copy.step(stream.at.offset)?;
            // Behind the tail is what was appended since, if the tail has moved.
            if stream.at == tail
                && (matches!(found, Step::End) || read_header(&self.backing, header)?.tail != tail)
            {
                return Ok(());
            }
            let wrong = match found {
                Step::Record { bytes, next } => {
                    seen.note(&Record::decode(bytes).expect("checked by the step"));
                    stream.at = next;
                    continue;
                }
                Step::NextPage(next) if stream.pages.insert(next) => {
                    copy = PageCopy::new(&self.backing, page(next))?;
                    stream.at = Place::begin_of(next);
                    continue;
                }
                Step::NextPage(next) => format!("page {next} comes twice"),
                Step::End => format!("it ends at {:?}, its header says {tail:?}", stream.at),
            };
            report.note(place, wrong);
            return Ok(());
        }
    }
}
