//! Leaves of a load: written straight to their file, past the pool and the log.
//!
//! Nothing leads to them until the table is in the catalogue, and they are
//! durable before that is logged. A crash before it leaves a tablespace that
//! belongs to nobody, which is dropped when the store is opened. So they need
//! neither redo nor a copy against torn writes; only which pages are in use is
//! logged.

use crate::access::PagesError;
use crate::core::Core;
use crate::flush::write_all;
use crate::ids::{Lsn, PageId, SegmentId};
use crate::page::header;
use crate::policy::Role;
use crate::space::Space;
use iolane::{Buffer, File, Level, Pending};
use std::collections::VecDeque;
use std::sync::Arc;

/// Pages taken at first ...
const TAKEN_MIN: usize = 4;
/// ... and at most at once, and submitted together.
const TAKEN_MAX: usize = 64;
/// Pages on their way to the disk while the next are filled: what keeps it busy
/// is a few large writes.
const FLYING_MAX: usize = 3 * TAKEN_MAX;

/// Makes new pages of a segment that nobody knows yet.
pub trait NewPages {
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

pub(crate) struct UnloggedPages<'a> {
    core: &'a Core,
    segment: SegmentId,
    space: Arc<Space>,
    file: File,
    level: Level,
    /// Numbers taken and not used, the next one last.
    taken: Vec<u32>,
    used: usize,
    /// Before any change that may be made to a page later.
    lsn: Lsn,
    filled: Vec<(PageId, Buffer)>,
    flying: VecDeque<(PageId, Pending<Buffer>)>,
    spare: Vec<Buffer>,
}

impl<'a> UnloggedPages<'a> {
    pub(crate) fn new(core: &'a Core, segment: SegmentId) -> Result<UnloggedPages<'a>, PagesError> {
        let space = core.space(segment.space)?;
        let files = &core.pool.files;
        let file = files.for_role(segment.space, Role::Preflush);
        let file = file.ok_or_else(|| PagesError::NoSpace {
            space: segment.space,
            reason: "there is no such tablespace".to_owned(),
        })?;
        Ok(UnloggedPages {
            core,
            segment,
            space,
            file,
            level: files.policy.level(Role::Preflush),
            taken: Vec::new(),
            used: 0,
            lsn: Lsn(0),
            filled: Vec::new(),
            flying: VecDeque::new(),
            spare: Vec::new(),
        })
    }

    /// As many again as were used, within bounds.
    fn take(&mut self) -> Result<(), PagesError> {
        let count = self.used.clamp(TAKEN_MIN, TAKEN_MAX) as u32;
        let number = self.segment.number;
        let mut pages = self.core.take_pages_of_many(&self.space, number, count)?;
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

    /// Begins to write what is filled.
    fn submit(&mut self) -> Result<(), PagesError> {
        let files = &self.core.pool.files;
        let (ids, pages): (Vec<PageId>, Vec<Buffer>) = self.filled.drain(..).unzip();
        let writes = ids.iter().zip(pages);
        let writes = writes.map(|(id, page)| (&self.file, page, files.offset(*id)));
        let submitted = write_all(writes, self.level);
        let submitted = submitted.map_err(|error| failed(self.core, &error))?;
        self.flying.extend(ids.into_iter().zip(submitted));
        Ok(())
    }

    /// Waits for the first of those that are on their way.
    fn land(&mut self) -> Result<(), PagesError> {
        if let Some((id, first)) = self.flying.pop_front() {
            let done = first.wait();
            if let Err(error) = done.result {
                return Err(failed(self.core, &error));
            }
            self.spare.push(done.buffer);
            // Somebody's guess may have read it while it was being written.
            self.core.pool.forget(id);
        }
        Ok(())
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
        let page = self.taken.pop().expect("at least one was taken");
        let id = PageId::new(self.segment.space, page);
        let mut buffer = self
            .spare
            .pop()
            .unwrap_or_else(|| Buffer::new(self.core.pool.page_bytes()));
        buffer.fill(0);
        make(id, &mut buffer);
        header::set_lsn(&mut buffer, self.lsn);
        header::seal(&mut buffer);
        self.filled.push((id, buffer));
        self.used += 1;
        if self.filled.len() == TAKEN_MAX {
            self.submit()?;
            while self.flying.len() > FLYING_MAX - TAKEN_MAX {
                self.land()?;
            }
        }
        Ok(id)
    }

    fn finish(&mut self) -> Result<(), PagesError> {
        self.submit()?;
        while !self.flying.is_empty() {
            self.land()?;
        }
        let synced = self.file.sync_data(Level::Foreground);
        synced.map_err(|error| failed(self.core, &error))?;
        self.give_back()
    }
}
