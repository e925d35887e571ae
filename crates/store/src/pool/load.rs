//! Reading pages into frames.

use super::ahead::Leaves;
use super::frame::READ_AHEAD;
use super::table::Entry;
use super::{PageReading, Pool, count};
use crate::access::PagesError;
use crate::ids::PageId;
use crate::policy::Role;
use crate::stream::{acting, awaits_page, waiting_level, when_hurried};
use iolane::{Buffer, Completion};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::reading::{Reading, Turn};

impl Pool {
    /// Brings a page into memory and waits. The caller holds no latch.
    ///
    /// A query's own read costs one system call; one that was submitted ahead is
    /// promoted.
    pub(crate) fn load(&self, id: PageId) -> Result<(), PagesError> {
        awaits_page();
        let role = acting();
        if self.files.policy.waits_quietly(role) {
            self.load_quietly(id, role)
        } else {
            self.load_at_once(id, role)
        }
    }

    /// The same for a thread that nobody waits for. Its reads are submitted like
    /// those ahead of need, so that a query that comes for the same page can
    /// hurry them, or one that begins to wait for what the thread holds.
    fn load_quietly(&self, id: PageId, role: Role) -> Result<(), PagesError> {
        loop {
            match self.table.get(id) {
                Some(Entry::Resident(_)) => return Ok(()),
                Some(Entry::Reading(reading)) => {
                    let waiting = Arc::clone(&reading);
                    let _told = when_hurried(move || waiting.look_again());
                    match reading.take_when_done(|| acting() != role) {
                        Some(Turn::Ended(result)) => return result,
                        Some(Turn::Finish(completion)) => {
                            self.ahead.fetch_sub(1, Ordering::Relaxed);
                            return self.arrived(id, &reading, completion);
                        }
                        // Which takes the request over.
                        None => return self.load_at_once(id, acting()),
                    }
                }
                None if self.prefetch(&[id], role, None).reads > 0 => {}
                // No frame to spare, or no such file.
                None => return self.load_at_once(id, role),
            }
        }
    }

    fn load_at_once(&self, id: PageId, role: Role) -> Result<(), PagesError> {
        let mut mine = None;
        let result = loop {
            match self.table.get(id) {
                Some(Entry::Resident(_)) => break Ok(()),
                Some(Entry::Reading(reading)) => match reading.take_or_wait() {
                    Turn::Ended(result) => break result,
                    Turn::Finish(pending) => {
                        self.ahead.fetch_sub(1, Ordering::Relaxed);
                        pending.promote(waiting_level(&self.files.policy, role));
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
                break self.read_now(id, &reading, role);
            }
        };
        self.give(mine);
        result
    }

    /// Enters a page's read. `false` when the page is there or on its way.
    pub(super) fn begin_reading(&self, id: PageId, reading: &Arc<PageReading>) -> bool {
        self.frames[reading.frame as usize].assign(id);
        let new = self
            .table
            .insert_new(id, Entry::Reading(Arc::clone(reading)));
        if new && !reading.is_held() {
            self.queues.lock().insert(reading.frame, id);
        }
        new
    }

    pub(super) fn lend_buffer(&self, frame: u32) -> Buffer {
        let mut slot = self.frames[frame as usize].write();
        slot.buffer.take().expect("a free frame has its buffer")
    }

    fn read_now(
        &self,
        id: PageId,
        reading: &Arc<PageReading>,
        role: Role,
    ) -> Result<(), PagesError> {
        let mut buffer = self.lend_buffer(reading.frame);
        let file = match self.files.for_page(id, role) {
            Ok(file) => file,
            Err(error) => return self.failed(id, reading, buffer, error),
        };
        if self.files.policy.random {
            let is_near = |page| matches!(self.table.get(page), Some(Entry::Resident(_)));
            self.guesses.had_to_read(id, is_near);
        }
        let level = waiting_level(&self.files.policy, role);
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
        let verdict = if self.files.spaces.has(id.space) {
            self.files
                .verify(id, &mut completion, || self.table.is_reading(id, reading))
        } else {
            Err(format!("there is no tablespace {}", id.space))
        };
        let verdict = verdict.map_err(|reason| PagesError::Unreadable { page: id, reason });
        if let Err(error) = verdict {
            return self.failed(id, reading, completion.buffer, error);
        }
        let frame = &self.frames[reading.frame as usize];
        let mut slot = frame.write();
        slot.buffer = Some(completion.buffer);
        if self.table.arrive(id, reading, reading.frame) {
            slot.id = Some(id);
            if reading.is_ahead() {
                frame.set(READ_AHEAD);
            }
        }
        drop(slot);
        reading.end(Ok(()));
        if self.files.policy.linear {
            self.guesses.came_to(id);
        }
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
        self.admit(id, reading, Leaves::InTurn);
        reading.end(Err(error.clone()));
        Err(error)
    }
}
