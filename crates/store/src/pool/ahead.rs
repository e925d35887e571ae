//! Reading pages ahead of need, and giving that up.
//!
//! A page that somebody is sure to come for is *held*: its frame is in no
//! queue of the replacement until that somebody has come, or has given it up.
//! Else a window of pages larger than the small queue would push out its own
//! beginning. Who holds pages bounds how many; see `stream`.
//!
//! A scan that is longer than the small queue would push its own pages out of it,
//! one round later. So it says of each page that it has passed that this leaves
//! first, and its frame is the next that the scan reads into. Not only do others
//! keep theirs: memory that goes round in a processor's cache is read into nearly
//! twice as fast as memory that does not, and checked in half of the time.

use super::reading::Reading;
use super::{PageReading, Pool, count};
use crate::ids::PageId;
use crate::policy::Role;
use iolane::{Buffer, Completion, Pending};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A page that somebody will come to, and the read that was begun for that;
/// `None` if it was in memory or on its way already.
pub(crate) type Awaited = (PageId, Option<Arc<PageReading>>);

/// When the page of a frame that is let go leaves memory, if nobody uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// As one that was just read.
    InTurn,
    /// Before all others.
    First,
}

/// What became of the wish to read some pages ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Begun {
    /// Of the pages asked for, the first so many are in memory or on their way;
    /// for the others there was no frame.
    pub(crate) looked_at: usize,
    /// Reads that were begun.
    pub(crate) reads: usize,
}

impl Pool {
    /// Begins to read pages ahead of need, as many as there are free frames
    /// for. Does not wait for them; it may wait for room in the engine's queue.
    ///
    /// If there is a `holder`, the pages that were looked at are appended to it,
    /// and those read are held until they are come for or
    /// [given up](Self::give_up).
    pub(crate) fn prefetch(
        &self,
        ids: &[PageId],
        role: Role,
        mut holder: Option<&mut VecDeque<Awaited>>,
    ) -> Begun {
        let mut begun = Begun::default();
        for same in ids.chunk_by(|a, b| a.space == b.space) {
            let holder = holder.as_deref_mut();
            let looked_at = self.prefetch_in_space(same, role, holder, &mut begun);
            begun.looked_at += looked_at;
            if looked_at < same.len() {
                break;
            }
        }
        begun
    }

    /// The same for pages of one tablespace. Returns how many were looked at.
    fn prefetch_in_space(
        &self,
        ids: &[PageId],
        role: Role,
        mut holder: Option<&mut VecDeque<Awaited>>,
        begun: &mut Begun,
    ) -> usize {
        let Ok(Some(file)) = self.files.for_role(ids[0].space, role) else {
            // Whoever comes for them is told.
            return ids.len();
        };
        let held = holder.is_some();
        let mut hold = |id: PageId, reading: Option<&Arc<PageReading>>| {
            if let Some(holder) = &mut holder {
                holder.push_back((id, reading.cloned()));
            }
        };
        let level = self.files.policy.level(role);
        let mut batch = file.device().batch();
        let mut flying: Vec<(Arc<PageReading>, Pending<Buffer>)> = Vec::with_capacity(ids.len());
        let mut looked_at = 0;
        for &id in ids {
            if self.table.get(id).is_some() {
                looked_at += 1;
                hold(id, None);
                continue;
            }
            let Some(frame) = self.take_ahead(flying.len()) else {
                break;
            };
            looked_at += 1;
            let reading = Arc::new(Reading::submitting(frame, held));
            if !self.begin_reading(id, &reading) {
                self.give([frame]);
                hold(id, None);
                continue;
            }
            hold(id, Some(&reading));
            let buffer = self.lend_buffer(frame);
            match batch.read(&file, buffer, self.files.offset(id), level) {
                Ok(pending) => flying.push((reading, pending)),
                Err(refused) => {
                    let completion = Completion {
                        result: Err(refused.error),
                        buffer: refused.buffer,
                    };
                    // Told to whoever comes for the page.
                    let _ = self.arrived(id, &reading, completion);
                }
            }
        }
        self.ahead.fetch_add(flying.len(), Ordering::Relaxed);
        batch.submit();
        begun.reads += flying.len();
        let counter = &self.counters.prefetches;
        counter.fetch_add(flying.len() as u64, Ordering::Relaxed);
        for (reading, pending) in flying {
            // After submission: before it, a request cannot be promoted.
            reading.fly(pending);
        }
        looked_at
    }

    /// Its holder has come for a page.
    pub(crate) fn came_for(&self, (id, reading): Awaited, leaves: Leaves) {
        if let Some(reading) = reading {
            self.admit(id, &reading, leaves);
        }
    }

    /// Lets the frame of a held reading leave.
    pub(super) fn admit(&self, id: PageId, reading: &PageReading, leaves: Leaves) {
        if reading.let_go() {
            let mut queues = self.queues.lock();
            match leaves {
                Leaves::InTurn => queues.insert(reading.frame, id),
                Leaves::First => queues.insert_first(reading.frame, id),
            }
        }
    }

    /// Nobody will come for these pages, as far as whoever held them knows:
    /// reads that have not begun are withdrawn, those that are done give their
    /// frames back, and those between leave like all others.
    pub(crate) fn give_up(&self, pages: impl IntoIterator<Item = Awaited>) {
        for (id, reading) in pages {
            if let Some(reading) = reading {
                self.give_up_one(id, &reading);
            }
        }
    }

    /// Nobody holds these pages any more, but somebody may come for them: they
    /// arrive, and leave like all others.
    pub(crate) fn release(&self, pages: impl IntoIterator<Item = Awaited>) {
        for page in pages {
            self.came_for(page, Leaves::InTurn);
        }
    }

    fn give_up_one(&self, id: PageId, reading: &Arc<PageReading>) {
        let Some(pending) = reading.take_if(|_| reading.is_held()) else {
            // Another thread has come for it.
            self.admit(id, reading, Leaves::InTurn);
            return;
        };
        let (buffer, counter) = match pending.cancel() {
            Ok(buffer) => (buffer, &self.counters.prefetches_cancelled),
            Err(pending) if pending.is_done() => {
                (pending.wait().buffer, &self.counters.prefetches_wasted)
            }
            Err(pending) => {
                self.admit(id, reading, Leaves::InTurn);
                reading.fly(pending);
                return;
            }
        };
        self.ahead.fetch_sub(1, Ordering::Relaxed);
        count(counter);
        self.table.abandon(id, reading);
        self.frames[reading.frame as usize].write().buffer = Some(buffer);
        reading.let_go();
        self.give([reading.frame]);
        // Who waits for it looks again.
        reading.end(Ok(()));
    }
}
