//! What tables and transactions need of the files below them.

use crate::access::{Pages, PagesError};
use crate::ids::{Lsn, SegmentId};
use crate::page_store::PageStore;
use crate::space::{Owner, SYSTEM_SPACE, SpaceState, Unusable};
use crate::txn::Error;
use crate::unlogged::NewPages;

/// Pages, and the tablespaces and segments that they come from.
pub trait Backing: Pages {
    /// Waits until the log is durable up to `lsn`.
    ///
    /// # Errors
    /// [`PagesError::Failed`].
    fn make_durable(&self, lsn: Lsn) -> Result<(), PagesError>;

    /// Waits until the log is in its file up to `lsn`, where it survives the end
    /// of the program.
    ///
    /// # Errors
    /// [`PagesError::Failed`].
    fn make_written(&self, lsn: Lsn) -> Result<(), PagesError> {
        self.make_durable(lsn)
    }

    /// Makes an empty tablespace. Its name becomes that of its file.
    ///
    /// # Errors
    /// No room, or the system refuses.
    fn create_space(&self, name: &str) -> Result<u32, Error>;

    /// Drops a tablespace that nobody uses, with all its pages.
    ///
    /// # Errors
    /// The system refuses.
    fn drop_space(&self, space: u32) -> Result<(), Error>;

    /// Tablespaces that there are, whether they can be used or not, but for the
    /// system's.
    fn spaces(&self) -> Vec<u32>;

    /// Whether a tablespace can be used.
    ///
    /// # Errors
    /// Those that say nothing of it.
    fn look_at_space(&self, space: u32) -> Result<SpaceState, Error> {
        Ok(match self.spaces().contains(&space) {
            true => SpaceState::Usable,
            false => SpaceState::Missing,
        })
    }

    /// Sees to it that programs which do not know this format refuse what it makes.
    ///
    /// # Errors
    /// [`PagesError`].
    fn need_present_format(&self) -> Result<(), PagesError> {
        Ok(())
    }

    /// Whose the file of a tablespace is, by its first pages alone.
    ///
    /// # Errors
    /// Those that say nothing of it.
    fn owner_of_space(&self, space: u32) -> Result<Owner, Error> {
        let _ = space;
        Ok(Owner::Store)
    }

    /// Tablespaces that were found to be unusable.
    fn unusable(&self) -> Vec<Unusable> {
        Vec::new()
    }

    /// Makes a segment without pages.
    ///
    /// # Errors
    /// No room.
    fn create_segment(&self, space: u32) -> Result<SegmentId, PagesError>;

    /// The pages of a segment, ascending.
    fn segment_pages(&self, segment: SegmentId) -> Vec<u32>;

    /// Writes leaves of a load past the log, about as many as `expected`, or
    /// nobody knows how many (0). `None`: they are pages like all others.
    ///
    /// # Errors
    /// No such tablespace.
    fn new_pages(
        &self,
        segment: SegmentId,
        expected: u64,
    ) -> Result<Option<Box<dyn NewPages + '_>>, PagesError> {
        let _ = (segment, expected);
        Ok(None)
    }

    /// Pages in use in a tablespace but for its own, `None` if nobody knows.
    fn data_pages(&self, space: u32) -> Option<u64>;

    /// Where the log ends: pages that are changed later get an LSN behind it.
    fn log_end(&self) -> Lsn;
}

impl Backing for PageStore {
    fn make_durable(&self, lsn: Lsn) -> Result<(), PagesError> {
        PageStore::make_durable(self, lsn)
    }

    fn make_written(&self, lsn: Lsn) -> Result<(), PagesError> {
        PageStore::make_written(self, lsn)
    }

    fn create_space(&self, name: &str) -> Result<u32, Error> {
        Ok(PageStore::create_space(self, name)?)
    }

    fn drop_space(&self, space: u32) -> Result<(), Error> {
        Ok(PageStore::drop_space(self, space)?)
    }

    fn spaces(&self) -> Vec<u32> {
        let all = self.space_numbers().into_iter();
        all.filter(|&space| space != SYSTEM_SPACE).collect()
    }

    fn look_at_space(&self, space: u32) -> Result<SpaceState, Error> {
        Ok(PageStore::look_at_space(self, space)?)
    }

    fn need_present_format(&self) -> Result<(), PagesError> {
        PageStore::need_present_format(self)
    }

    fn owner_of_space(&self, space: u32) -> Result<Owner, Error> {
        Ok(PageStore::owner_of_space(self, space)?)
    }

    fn unusable(&self) -> Vec<Unusable> {
        PageStore::unusable(self)
    }

    fn create_segment(&self, space: u32) -> Result<SegmentId, PagesError> {
        PageStore::create_segment(self, space)
    }

    fn segment_pages(&self, segment: SegmentId) -> Vec<u32> {
        self.pages_of(segment)
    }

    fn new_pages(
        &self,
        segment: SegmentId,
        expected: u64,
    ) -> Result<Option<Box<dyn NewPages + '_>>, PagesError> {
        let pages = PageStore::new_pages(self, segment, expected)?;
        Ok(Some(Box::new(pages)))
    }

    fn data_pages(&self, space: u32) -> Option<u64> {
        PageStore::data_pages(self, space)
    }

    fn log_end(&self) -> Lsn {
        self.log().end()
    }
}
