//! The files that pages live in.

use crate::flush::{Doublewrite, InPlace};
use crate::ids::PageId;
use crate::ledger::{FileClass, tag};
use crate::page::header;
use crate::policy::{IoPolicy, Role};
use iolane::{Completion, File, Level};
use parking_lot::RwLock;
use std::collections::HashMap;

/// All tablespaces' files, and the area with copies of what was written last.
pub(crate) struct PageFiles {
    page_bytes: usize,
    pub(crate) policy: IoPolicy,
    spaces: RwLock<HashMap<u32, File>>,
    pub(crate) doublewrite: Doublewrite,
    /// Pages that are on their way to their places.
    pub(crate) in_place: InPlace,
}

impl PageFiles {
    pub(crate) fn new(page_bytes: usize, doublewrite: Doublewrite, policy: IoPolicy) -> PageFiles {
        PageFiles {
            page_bytes,
            policy,
            spaces: RwLock::default(),
            doublewrite,
            in_place: InPlace::default(),
        }
    }

    pub(crate) fn add(&self, space: u32, file: File) {
        let file = file.tagged(tag(Role::Space, FileClass::Data));
        self.spaces.write().insert(space, file);
    }

    pub(crate) fn remove(&self, space: u32) -> Option<File> {
        self.spaces.write().remove(&space)
    }

    pub(crate) fn get(&self, space: u32) -> Option<File> {
        self.spaces.read().get(&space).cloned()
    }

    /// A tablespace's file for requests of a role.
    pub(crate) fn for_role(&self, space: u32, role: Role) -> Option<File> {
        let spaces = self.spaces.read();
        let file = spaces.get(&space)?;
        Some(file.tagged(tag(role, FileClass::Data)))
    }

    /// Where a page begins in its file.
    pub(crate) fn offset(&self, id: PageId) -> u64 {
        u64::from(id.page) * self.page_bytes as u64
    }

    /// Is what was read the page that belongs there? If not, its copy in the
    /// doublewrite area takes its place, in memory and in the file.
    ///
    /// A page that was given away meanwhile may have been read while its new
    /// life was being written: `is_wanted` says whether anybody will look at
    /// what was read. If not, nothing is wrong, and nothing is touched.
    ///
    /// # Errors
    /// What is wrong, when there is no copy.
    pub(crate) fn verify<B: AsRef<[u8]> + AsMut<[u8]>>(
        &self,
        id: PageId,
        file: &File,
        completion: &mut Completion<B>,
        is_wanted: impl Fn() -> bool,
    ) -> Result<(), String> {
        let page = completion.buffer.as_mut();
        let fault = match &completion.result {
            Err(error) => error.to_string(),
            Ok(bytes) if *bytes < page.len() => {
                format!("{} ends before it", file.path().display())
            }
            Ok(_) => match header::check(page, id) {
                Ok(()) => return Ok(()),
                Err(fault) => format!("{}: {fault}", file.path().display()),
            },
        };
        // The flusher does not write the page now, and begins no batch. A new
        // life that begins from here on is written after the repair.
        let repaired = self.in_place.repair(id, || {
            if !is_wanted() {
                return Ok(());
            }
            match self.doublewrite.copy(id, page) {
                Ok(true) => {}
                Ok(false) => return Err(format!("{fault}; there is no copy of it")),
                Err(error) => return Err(format!("{fault}; its copy: {error}")),
            }
            file.write_at(page, self.offset(id), Level::Foreground)
                .and_then(|_| file.sync_data(Level::Foreground))
                .map_err(|error| format!("{fault}; repairing it: {error}"))
        });
        repaired.unwrap_or_else(|| Err(format!("{fault}; it was being written when that failed")))
    }
}
