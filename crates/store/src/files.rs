//! The files that pages live in.

use crate::flush::{Doublewrite, InPlace};
use crate::ids::{Lsn, PageId};
use crate::ledger::{FileClass, tag};
use crate::page::header;
use crate::policy::{IoPolicy, Role};
use crate::torn::TornProtection;
use iolane::{Completion, File, Level};
use parking_lot::RwLock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// All tablespaces' files, and the area with copies of what was written last.
pub(crate) struct PageFiles {
    page_bytes: usize,
    pub(crate) policy: IoPolicy,
    spaces: RwLock<HashMap<u32, File>>,
    /// No page in a file has a later change: as far as the log went when it was
    /// opened, or the flusher has come since.
    newest: AtomicU64,
    pub(crate) doublewrite: Doublewrite,
    /// What keeps pages from being torn; if not the area, nothing is in it.
    pub(crate) protection: TornProtection,
    /// Pages that are on their way to their places.
    pub(crate) in_place: InPlace,
}

impl PageFiles {
    /// For a log that ends at `newest`.
    pub(crate) fn new(
        page_bytes: usize,
        doublewrite: Doublewrite,
        protection: TornProtection,
        policy: IoPolicy,
        newest: Lsn,
    ) -> PageFiles {
        PageFiles {
            page_bytes,
            policy,
            spaces: RwLock::default(),
            newest: AtomicU64::new(newest.0),
            doublewrite,
            protection,
            in_place: InPlace::default(),
        }
    }

    pub(crate) fn add(&self, space: u32, file: File) {
        let file = file.tagged(tag(Role::Space, FileClass::Data));
        self.spaces.write().insert(space, file);
    }

    /// Whether the scheduler has recognised a budget of the volume that they are on:
    /// one of them speaks for all.
    pub(crate) fn are_budgeted(&self) -> bool {
        let spaces = self.spaces.read();
        let file = spaces.values().next();
        file.is_some_and(|file| file.device().snapshot().window.rate_limit.is_some())
    }

    /// Pages with changes up to `lsn`, which the log has, will be written.
    pub(crate) fn raise_newest(&self, lsn: Lsn) {
        self.newest.fetch_max(lsn.0, Ordering::AcqRel);
    }

    /// Whether the log knows all that happened to a page.
    fn check_age(&self, page: &[u8], file: &File) -> Result<(), String> {
        let newest = Lsn(self.newest.load(Ordering::Acquire));
        too_new(page, newest).map_or(Ok(()), |reason| {
            Err(format!("{}: {reason}", file.path().display()))
        })
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

    /// The same, for writing pages to their places so that none is torn for
    /// good.
    pub(crate) fn to_place(&self, space: u32, role: Role) -> Option<File> {
        let file = self.for_role(space, role)?;
        if !self.protection.is_atomic() {
            return Some(file);
        }
        Some(file.atomic().expect("every file was asked whether it can"))
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
                Ok(()) => return self.check_age(page, file),
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
                Ok(true) => self.check_age(page, file)?,
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

/// What is wrong with a page whose last change lies behind `newest`. Its log
/// has lost its end, or is another's: redo would go on from what never was.
pub(crate) fn too_new(page: &[u8], newest: Lsn) -> Option<String> {
    let lsn = header::lsn(page);
    (lsn > newest).then(|| {
        format!(
            "it was changed at {lsn} of the log, which ends at {newest}: the log has lost its end, \
             or files of different times are mixed; restore a backup"
        )
    })
}
