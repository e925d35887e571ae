//! Reading pages into frames.

use super::table::Entry;
use super::{PageReading, Pool, count};
use crate::access::PagesError;
use crate::ids::PageId;
use crate::policy::Role;
use iolane::{Buffer, Completion, Pending};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::reading::{Reading, Turn};

impl Pool {
    /// Brings a page into memory and waits. The caller holds no latch.
    ///
    /// The thread's own read costs one system call; a read that was submitted
    /// ahead is promoted.
    pub(crate) fn load(&self, id: PageId) -> Result<(), PagesError> {
        let mut mine = None;
        let result = loop {
            match self.table.get(id) {
                Some(Entry::Resident(_)) => break Ok(()),
                Some(Entry::Reading(reading)) => match reading.take_or_wait() {
                    Turn::Ended(result) => break result,
                    Turn::Finish(pending) => {
                        self.ahead.fetch_sub(1, Ordering::Relaxed);
                        pending.promote(self.files.policy.level(Role::Read));
                        break self.arrived(id, &reading, pending.wait());
                    }
                },
                None => {}
            }
            let frame = match mine {
                Some(frame) => frame,
                None => {
                    // Another may bring the page while this waits.
                    let frame = self.take(1)?[0];
                    mine = Some(frame);
                    continue;
                }
            };
            let reading = Arc::new(Reading::taken(frame));
            if self.begin_reading(id, &reading) {
                mine = None;
                break self.read_now(id, &reading);
            }
        };
        self.give(mine);
        result
    }

    /// Begins to read pages ahead of need, as many as there are free frames
    /// for, and returns how many that was. Does not wait for them; it may wait
    /// for room in the engine's queue.
    pub(crate) fn prefetch(&self, ids: &[PageId], role: Role) -> usize {
        let level = self.files.policy.level(role);
        let mut begun = 0;
        for same in ids.chunk_by(|a, b| a.space == b.space) {
            let Some(file) = self.files.for_role(same[0].space, role) else {
                continue;
            };
            let mut batch = file.device().batch();
            let mut flying: Vec<(Arc<PageReading>, Pending<Buffer>)> = Vec::new();
            let mut out_of_frames = false;
            for &id in same {
                if self.table.get(id).is_some() {
                    continue;
                }
                let Some(frame) = self.take_ahead() else {
                    out_of_frames = true;
                    break;
                };
                let reading = Arc::new(Reading::submitting(frame));
                if !self.begin_reading(id, &reading) {
                    self.give([frame]);
                    continue;
                }
                let buffer = self.lend_buffer(frame);
                match batch.read(&file, buffer, self.files.offset(id), level) {
                    Ok(pending) => {
                        self.ahead.fetch_add(1, Ordering::Relaxed);
                        flying.push((reading, pending));
                    }
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
            batch.submit();
            begun += flying.len();
            for (reading, pending) in flying {
                count(&self.counters.prefetches);
                // After submission: before it, a request cannot be promoted.
                reading.fly(pending);
            }
            if out_of_frames {
                break;
            }
        }
        begun
    }

    /// Enters a page's read. `false` when the page is there or on its way.
    fn begin_reading(&self, id: PageId, reading: &Arc<PageReading>) -> bool {
        self.frames[reading.frame as usize].assign(id);
        let new = self
            .table
            .insert_new(id, Entry::Reading(Arc::clone(reading)));
        if new {
            self.queues.lock().insert(reading.frame, id);
        }
        new
    }

    fn lend_buffer(&self, frame: u32) -> Buffer {
        let mut slot = self.frames[frame as usize].write();
        slot.buffer.take().expect("a free frame has its buffer")
    }

    fn read_now(&self, id: PageId, reading: &Arc<PageReading>) -> Result<(), PagesError> {
        let mut buffer = self.lend_buffer(reading.frame);
        let Some(file) = self.files.for_role(id.space, Role::Read) else {
            let error = no_such_space(id);
            return self.failed(id, reading, buffer, error);
        };
        let level = self.files.policy.level(Role::Read);
        let result = file.read_at(&mut buffer, self.files.offset(id), level);
        self.arrived(id, reading, Completion { result, buffer })
    }

    /// A page's read is over: the page goes into its frame, or nobody gets it.
    pub(super) fn arrived(
        &self,
        id: PageId,
        reading: &Arc<PageReading>,
        mut completion: Completion<Buffer>,
    ) -> Result<(), PagesError> {
        count(&self.counters.reads);
        let verdict = match self.files.get(id.space) {
            None => Err(no_such_space(id)),
            Some(file) => self
                .files
                .verify(id, &file, &mut completion, || {
                    self.table.is_reading(id, reading)
                })
                .map_err(|reason| PagesError::Unreadable { page: id, reason }),
        };
        if let Err(error) = verdict {
            return self.failed(id, reading, completion.buffer, error);
        }
        let frame = &self.frames[reading.frame as usize];
        let mut slot = frame.write();
        slot.buffer = Some(completion.buffer);
        if self.table.arrive(id, reading, reading.frame) {
            slot.id = Some(id);
        }
        drop(slot);
        reading.end(Ok(()));
        Ok(())
    }

    fn failed(
        &self,
        id: PageId,
        reading: &Arc<PageReading>,
        buffer: Buffer,
        error: PagesError,
    ) -> Result<(), PagesError> {
        // Out of the table first: then the frame is free once it has its
        // buffer.
        self.table.abandon(id, reading);
        self.frames[reading.frame as usize].write().buffer = Some(buffer);
        reading.end(Err(error.clone()));
        Err(error)
    }
}

fn no_such_space(id: PageId) -> PagesError {
    PagesError::Unreadable {
        page: id,
        reason: format!("there is no tablespace {}", id.space),
    }
}
