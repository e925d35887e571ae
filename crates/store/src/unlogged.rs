//! Leaves of a load: written straight to their file, past the pool and the log.
//!
//! Nothing leads to them until the table is in the catalogue, and they are
//! durable before that is logged. A crash before it leaves a tablespace that
//! belongs to nobody, which is dropped when the store is opened. So they need
//! neither redo nor a copy against torn writes; only which pages are in use is
//! logged.

use crate::access::PagesError;
use crate::core::Core;
use crate::ids::{Lsn, PageId, SegmentId};
use crate::page::header;
use crate::policy::Role;
use crate::space::Space;
use crate::stream::role_of_load;
use iolane::{Arena, Buffer, File, Level, Pending};
use std::collections::VecDeque;
use std::sync::Arc;

/// Pages taken at first ...
const TAKEN_MIN: usize = 4;
/// ... and at most at once: an extent, which one request writes ...
const TAKEN_MAX: usize = 64;
/// ... but in the background less: who waits for a page waits behind it, for 2 ms on a
/// disk of 128 MiB/s.
const BEHIND_BYTES_MAX: usize = 256 << 10;
/// Runs on their way to the disk while the next is filled: what keeps it busy
/// is a few large writes.
const FLYING_MAX: usize = 3;

/// Makes new pages of a segment that nobody knows yet.
pub trait NewPages: Send {
    /// A new page, as `make` fills it, which is given zeros.
    ///
    /// # Errors
    /// [`PagesError`].
    fn add(&mut self, make: &mut dyn FnMut(PageId, &mut [u8])) -> Result<PageId, PagesError>;

    /// Waits until all are durable.
    ///
    /// # Errors
    /// [`PagesError`].
    fn finish(&mut self) -> Result<(), PagesError>;
}

/// Pages side by side, which are written together.
struct Run {
    first: PageId,
    buffer: Buffer,
    /// Pages that are filled.
    filled: usize,
}

/// A run that is being written.
struct Flying {
    first: PageId,
    write: Pending<Buffer>,
}

pub(crate) struct UnloggedPages<'a> {
    core: &'a Core,
    segment: SegmentId,
    space: Arc<Space>,
    file: File,
    level: Level,
    /// Pages taken at most at once.
    run_max: usize,
    /// Pages that the segment will need, about; 0: nobody knows.
    expected: u64,
    /// Numbers taken and not used, the next one last.
    taken: Vec<u32>,
    used: usize,
    /// Before any change that may be made to a page later.
    lsn: Lsn,
    filling: Option<Run>,
    flying: VecDeque<Flying>,
    /// Memory for whole runs, in huge pages where there are any: the kernel
    /// has less to look up and hand over. Made for the first of them.
    arena: Option<Arena>,
    spare: Vec<Buffer>,
}

impl<'a> UnloggedPages<'a> {
    pub(crate) fn new(
        core: &'a Core,
        segment: SegmentId,
        expected: u64,
    ) -> Result<UnloggedPages<'a>, PagesError> {
        let space = core.space(segment.space)?;
        let files = &core.pool.files;
        let role = role_of_load(Role::Preflush);
        let run_max = match role {
            Role::Backup | Role::Bulk => BEHIND_BYTES_MAX / core.pool.page_bytes(),
            _ => TAKEN_MAX,
        };
        let file = files.for_role(segment.space, role)?;
        let file = file.ok_or_else(|| PagesError::NoSpace {
            space: segment.space,
            reason: "there is no such tablespace".to_owned(),
        })?;
        Ok(UnloggedPages {
            core,
            segment,
            space,
            file,
            level: files.policy.level(role),
            run_max,
            expected,
            taken: Vec::new(),
            used: 0,
            lsn: Lsn(0),
            filling: None,
            flying: VecDeque::new(),
            arena: None,
            spare: Vec::new(),
        })
    }

    /// As many again as were used, within bounds.
    fn take(&mut self) -> Result<(), PagesError> {
        let count = self.used.clamp(TAKEN_MIN, self.run_max) as u32;
        let number = self.segment.number;
        let more = (self.expected > 0).then(|| self.expected.saturating_sub(self.used as u64));
        let mut pages = self
            .core
            .take_pages_of_many(&self.space, number, count, more)?;
        let mut mini = match self.core.begin_plain(0) {
            Ok(mini) => mini,
            Err(error) => {
                let mut map = self.space.map.lock();
                for page in pages {
                    map.give(Some(number), page);
                }
                return Err(error);
            }
        };
        for &page in &pages {
            mini.change_space(&self.space, self.segment, page, true);
        }
        crate::access::MiniTransaction::commit(mini);
        self.lsn = self.core.log.durable();
        self.core.pool.files.raise_newest(self.lsn);
        pages.reverse();
        self.taken = pages;
        Ok(())
    }

    /// Gives back what was taken and is not used.
    fn give_back(&mut self) -> Result<(), PagesError> {
        if self.taken.is_empty() {
            return Ok(());
        }
        let mut mini = self.core.begin_plain(0)?;
        for page in self.taken.drain(..) {
            mini.change_space(&self.space, self.segment, page, false);
        }
        crate::access::MiniTransaction::commit(mini);
        Ok(())
    }

    /// A run that begins with page `first`, as long as the numbers go on.
    fn begin_run(&mut self, first: u32) -> Run {
        let follows = (first + 1..).zip(self.taken.iter().rev());
        let pages = 1 + follows.take_while(|(next, page)| next == *page).count();
        Run {
            first: PageId::new(self.segment.space, first),
            buffer: self.memory(pages),
            filled: 0,
        }
    }

    fn memory(&mut self, pages: usize) -> Buffer {
        let bytes = pages * self.core.pool.page_bytes();
        if pages < self.run_max {
            return Buffer::new(bytes);
        }
        if let Some(buffer) = self.spare.pop() {
            return buffer;
        }
        if self.arena.is_none() {
            let runs = bytes * (FLYING_MAX + 1);
            self.arena = Arena::builder().bytes(runs as u64).build().ok();
        }
        let arena = self.arena.as_ref();
        let buffer = arena.and_then(|arena| arena.buffer(bytes).ok());
        buffer.unwrap_or_else(|| Buffer::new(bytes))
    }

    /// Begins to write what is filled.
    fn submit(&mut self) -> Result<(), PagesError> {
        let Some(run) = self.filling.take() else {
            return Ok(());
        };
        let bytes = run.filled * self.core.pool.page_bytes();
        let mut buffer = run.buffer;
        if bytes < buffer.len() {
            let mut shorter = Buffer::new(bytes);
            shorter.copy_from_slice(&buffer[..bytes]);
            buffer = shorter;
        }
        let offset = self.core.pool.files.offset(run.first);
        let submitted = self.file.write(buffer, offset, self.level);
        let write = submitted.map_err(|refused| failed(self.core, &refused.error))?;
        self.flying.push_back(Flying {
            first: run.first,
            write,
        });
        Ok(())
    }

    /// Waits for the first of those that are on their way.
    fn land(&mut self) -> Result<(), PagesError> {
        let Some(Flying { first, write }) = self.flying.pop_front() else {
            return Ok(());
        };
        let done = write.wait();
        if let Err(error) = done.result {
            return Err(failed(self.core, &error));
        }
        let pages = (done.buffer.len() / self.core.pool.page_bytes()) as u32;
        for page in first.page..first.page + pages {
            // Somebody's guess may have read it while it was being written.
            self.core.pool.forget(PageId::new(first.space, page));
        }
        if pages as usize == self.run_max {
            self.spare.push(done.buffer);
        }
        Ok(())
    }
}

impl Drop for UnloggedPages<'_> {
    /// Where a load does not end well its file goes: nothing may be under way
    /// to it then.
    fn drop(&mut self) {
        for Flying { write, .. } in self.flying.drain(..) {
            drop(write.wait());
        }
    }
}

/// As whenever a page cannot be written.
fn failed(core: &Core, error: &iolane::Error) -> PagesError {
    let reason = error.to_string();
    core.fail(reason.clone());
    PagesError::Failed { reason }
}

impl NewPages for UnloggedPages<'_> {
    fn add(&mut self, make: &mut dyn FnMut(PageId, &mut [u8])) -> Result<PageId, PagesError> {
        if self.taken.is_empty() {
            self.take()?;
        }
        let number = self.taken.pop().expect("at least one was taken");
        if self.filling.is_none() {
            self.filling = Some(self.begin_run(number));
        }
        let run = self.filling.as_mut().expect("begun just now");
        let id = PageId::new(self.segment.space, number);
        let page_bytes = self.core.pool.page_bytes();
        let page = &mut run.buffer[run.filled * page_bytes..][..page_bytes];
        page.fill(0);
        make(id, page);
        header::set_lsn(page, self.lsn);
        header::seal(page);
        run.filled += 1;
        self.used += 1;
        if run.filled * page_bytes == run.buffer.len() {
            while self.flying.len() >= FLYING_MAX {
                self.land()?;
            }
            self.submit()?;
        }
        Ok(id)
    }

    fn finish(&mut self) -> Result<(), PagesError> {
        self.submit()?;
        while !self.flying.is_empty() {
            self.land()?;
        }
        // Whoever loads waits for it.
        let level = self.core.pool.files.policy.level(role_of_load(Role::Read));
        let synced = self.file.sync_data(level);
        synced.map_err(|error| failed(self.core, &error))?;
        self.give_back()
    }
}
