//! The files that pages live in.

mod open;

pub(crate) use open::{Damage, OpenFiles, open_options};

use crate::access::PagesError;
use crate::error::StoreError;
use crate::flush::{Doublewrite, InPlace};
use crate::ids::{Lsn, PageId};
use crate::ledger::{FileClass, tag};
use crate::page::header;
use crate::policy::{IoPolicy, Role};
use crate::space::Judge;
use crate::torn::TornProtection;
use iolane::{Completion, File, Level};
use std::sync::atomic::{AtomicU64, Ordering};

/// All tablespaces' files, and the area with copies of what was written last.
pub(crate) struct PageFiles {
    judge: Judge,
    pub(crate) policy: IoPolicy,
    pub(crate) spaces: OpenFiles,
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
        judge: Judge,
        policy: IoPolicy,
        spaces: OpenFiles,
        newest: Lsn,
        doublewrite: Doublewrite,
        protection: TornProtection,
    ) -> PageFiles {
        PageFiles {
            judge,
            policy,
            spaces,
            newest: AtomicU64::new(newest.0),
            doublewrite,
            protection,
            in_place: InPlace::default(),
        }
    }

    pub(crate) fn page_bytes(&self) -> usize {
        self.judge.page_bytes
    }

    /// Number of the store.
    pub(crate) fn store(&self) -> u64 {
        self.judge.store
    }

    /// Whether the scheduler has recognised a budget of the volume that they are on:
    /// one of them speaks for all.
    pub(crate) fn are_budgeted(&self) -> bool {
        let file = self.spaces.any();
        file.is_some_and(|file| file.device().snapshot().window.rate_limit.is_some())
    }

    /// Pages with changes up to `lsn`, which the log has, will be written.
    pub(crate) fn raise_newest(&self, lsn: Lsn) {
        self.newest.fetch_max(lsn.0, Ordering::AcqRel);
    }

    /// Whether the log knows all that happened to a page.
    fn check_age(&self, page: &[u8], id: PageId) -> Result<(), String> {
        let newest = Lsn(self.newest.load(Ordering::Acquire));
        too_new(page, newest).map_or(Ok(()), |reason| {
            Err(format!("{}: {reason}", self.path(id.space)))
        })
    }

    /// A tablespace's path, for whoever reads messages.
    fn path(&self, space: u32) -> String {
        match self.spaces.known(space) {
            Some(known) => known.path.display().to_string(),
            None => format!("tablespace {space}"),
        }
    }

    /// A tablespace's file, which is opened if need be. `None`: there is no such
    /// tablespace.
    ///
    /// # Errors
    /// The file cannot be opened, or is not this store's.
    pub(crate) fn get(&self, space: u32) -> Result<Option<File>, StoreError> {
        self.spaces.get(space, |file, known| {
            self.protection.expect(file)?;
            let area = &self.doublewrite;
            self.judge.judge(file, &known.name, space, area)
        })
    }

    /// A tablespace's file for requests of a role.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) fn for_role(&self, space: u32, role: Role) -> Result<Option<File>, StoreError> {
        let file = self.get(space)?;
        Ok(file.map(|file| file.tagged(tag(role, FileClass::Data))))
    }

    /// That of a page which somebody needs.
    ///
    /// # Errors
    /// [`PagesError::Unreadable`], also if there is no such tablespace.
    pub(crate) fn for_page(&self, page: PageId, role: Role) -> Result<File, PagesError> {
        let reason = match self.for_role(page.space, role) {
            Ok(Some(file)) => return Ok(file),
            Ok(None) => format!("there is no tablespace {}", page.space),
            Err(error) => error.to_string(),
        };
        Err(PagesError::Unreadable { page, reason })
    }

    /// The same, for writing pages to their places so that none is torn for
    /// good.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub(crate) fn to_place(&self, space: u32, role: Role) -> Result<Option<File>, StoreError> {
        let file = self.for_role(space, role)?;
        if !self.protection.is_atomic() {
            return Ok(file);
        }
        let atomic = |file: File| file.atomic().expect("every file was asked whether it can");
        Ok(file.map(atomic))
    }

    /// Where a page begins in its file.
    pub(crate) fn offset(&self, id: PageId) -> u64 {
        u64::from(id.page) * self.page_bytes() as u64
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
        completion: &mut Completion<B>,
        is_wanted: impl Fn() -> bool,
    ) -> Result<(), String> {
        let page = completion.buffer.as_mut();
        let fault = match &completion.result {
            Err(error) => error.to_string(),
            Ok(bytes) if *bytes < page.len() => {
                format!("{} ends before it", self.path(id.space))
            }
            Ok(_) => match header::check(page, id) {
                Ok(()) => return self.check_age(page, id),
                Err(fault) => format!("{}: {fault}", self.path(id.space)),
            },
        };
        // The flusher does not write the page now, and begins no batch. A new
        // life that begins from here on is written after the repair.
        let repaired = self.in_place.repair(id, || {
            if !is_wanted() {
                return Ok(());
            }
            match self.doublewrite.copy(id, page) {
                Ok(true) => self.check_age(page, id)?,
                Ok(false) => return Err(format!("{fault}; there is no copy of it")),
                Err(error) => return Err(format!("{fault}; its copy: {error}")),
            }
            let failed = |reason: String| format!("{fault}; repairing it: {reason}");
            let file = self.for_page(id, Role::Space);
            let file = file.map_err(|error| failed(error.to_string()))?;
            file.write_at(page, self.offset(id), Level::Foreground)
                .and_then(|_| file.sync_data(Level::Foreground))
                .map_err(|error| failed(error.to_string()))
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
