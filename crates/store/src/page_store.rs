//! An open store of pages: files, pool, log and flusher as one.

mod open;
mod options;
mod preload;

pub use options::PageStoreOptions;

use crate::access::{Miss, Pages, PagesError};
use crate::core::Core;
use crate::error::StoreError;
use crate::flush::{CheckpointReport, FlushStatistics};
use crate::ids::{Lsn, PageId, SegmentId};
use crate::ledger::{FileClass, Ledger, tag};
use crate::log::Log;
use crate::mini::Mini;
use crate::policy::Role;
use crate::pool::{PoolStatistics, SharedPage, Stamp};
use crate::space::{Owner, SpaceState, SpaceStatistics, Unusable};
use crate::stream::{ReadAhead, StreamStatistics};
use crate::torn::TornProtection;
use crate::unlogged::UnloggedPages;
use crate::waits::WaitStatistics;
use iolane::{Device, Outstanding, Tag};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::JoinHandle;

/// Name of the redo log's file.
pub const LOG_FILE: &str = "redo.log";
/// Name of the doublewrite area's file.
pub const DOUBLEWRITE_FILE: &str = "doublewrite";
const LOG_TAG: Tag = tag(Role::Log, FileClass::Log);

/// A store of pages. Shared by threads; implements [`Pages`].
///
/// Dropping it writes all that is changed, as [`close`](Self::close) does. That
/// two processes do not open one store is the caller's to see to.
///
/// ```
/// use iolane::Engine;
/// use iolane_store::access::{MiniTransaction, Pages};
/// use iolane_store::page::Op;
/// use iolane_store::page::header::{self, PageKind};
/// use iolane_store::{PageStore, PageStoreOptions};
/// use std::sync::Arc;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir_in("/var/tmp")?;
/// # let path = directory.path();
/// # let options = PageStoreOptions { pool_bytes: 2 << 20, log_bytes: 4 << 20, ..Default::default() };
/// let engine = Arc::new(Engine::new()?);
/// let store = PageStore::create(Arc::clone(&engine), path, &options)?;
/// let space = store.create_space("notes")?;
/// let segment = store.create_segment(space)?;
///
/// let mut mini = store.begin(&[segment], 1)?;
/// let page = mini.allocate(segment, None);
/// mini.apply(page, &Op::Format { kind: PageKind::Overflow, level: 0, owner: 1 });
/// mini.apply(page, &Op::Patch { offset: header::BODY as u16, bytes: b"hello" });
/// let lsn = mini.commit();
/// store.make_durable(lsn)?;
/// store.close()?;
///
/// let (store, _) = PageStore::open(engine, path, &options, &mut |_| {})?;
/// let page = loop {
///     match store.shared(page) {
///         Ok(page) => break page,
///         // Not in memory: no latch is held while it is read.
///         Err(miss) => store.load(miss)?,
///     }
/// };
/// assert_eq!(&page[header::BODY..][..5], b"hello");
/// # Ok(()) }
/// ```
pub struct PageStore {
    pub(crate) core: Arc<Core>,
    /// The flusher, and who writes the log ahead.
    threads: Vec<JoinHandle<()>>,
}

/// What a store of pages did and holds.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct PageStoreStatistics {
    /// The buffer pool.
    pub pool: PoolStatistics,
    /// The flusher.
    pub flush: FlushStatistics,
    /// Waits for a free frame: all pages in memory were dirty, or in use; and
    /// of those who stand back, while many were dirty, so that others need not.
    pub frame_waits: WaitStatistics,
    /// Waits for room in the log: for a checkpoint, or to write what has
    /// gathered in memory.
    pub log_waits: WaitStatistics,
    /// Mini-transactions that changed something.
    pub minis: u64,
    /// End of the log.
    pub log_end: Lsn,
    /// Where redo would begin.
    pub checkpoint: Lsn,
}

impl PageStore {
    /// Whether a tablespace can be used. One that cannot is set aside.
    pub(crate) fn look_at_space(&self, space: u32) -> Result<SpaceState, StoreError> {
        self.core.look_at_space(space)
    }

    /// Whose the file of a tablespace is, by its first pages alone.
    pub(crate) fn owner_of_space(&self, space: u32) -> Result<Owner, StoreError> {
        self.core.owner_of_space(space)
    }

    /// Makes a store of an older format one of this, which programs that do not know
    /// it refuse.
    pub(crate) fn need_present_format(&self) -> Result<(), PagesError> {
        self.core.need_present_format()
    }

    /// The numbers of all tablespaces, of which none needs to be looked at.
    pub(crate) fn space_numbers(&self) -> BTreeSet<u32> {
        self.core.pool.files.spaces.spaces()
    }

    /// The tablespaces that were set aside.
    pub(crate) fn unusable(&self) -> Vec<Unusable> {
        let unusable = self.core.spaces.unusable.lock();
        unusable.values().cloned().collect()
    }

    pub(crate) fn allow_checkpoints(&self) {
        self.core.allow_checkpoints();
    }

    /// Writes everything that is changed, takes a checkpoint and ends.
    ///
    /// # Errors
    /// [`PagesError::Failed`] when something could not be written: it is in
    /// the log, and redo at the next opening brings it back.
    pub fn close(mut self) -> Result<(), PagesError> {
        self.stop();
        self.check_failure()
    }

    fn stop(&mut self) {
        self.core.bell.stop();
        self.core.log.end_writing_ahead();
        for thread in self.threads.drain(..) {
            // They catch their own panics.
            let _ = thread.join();
        }
        // The memory goes back, and nothing of this store is under way when the
        // next begins.
        self.core.pool.settle();
    }

    /// Whether it can go on.
    ///
    /// # Errors
    /// [`PagesError::Failed`] once a write or a sync has failed.
    pub fn check_failure(&self) -> Result<(), PagesError> {
        self.core.pool.failure.check()
    }

    /// Waits until everything logged before `lsn` is durable.
    ///
    /// # Errors
    /// [`PagesError::Failed`].
    pub fn make_durable(&self, lsn: Lsn) -> Result<(), PagesError> {
        let result = self.core.log.make_durable(lsn);
        result.map_err(|error| self.core.log_failed(error))
    }

    /// Waits until everything logged before `lsn` is in the log's file: it
    /// survives the end of the program, but not of the machine.
    ///
    /// # Errors
    /// [`PagesError::Failed`].
    pub fn make_written(&self, lsn: Lsn) -> Result<(), PagesError> {
        let result = self.core.log.make_written(lsn);
        result.map_err(|error| self.core.log_failed(error))
    }

    /// Waits until all that is logged by now is in its place, and redo would
    /// begin behind it. See [`Store::checkpoint`](crate::Store::checkpoint).
    ///
    /// # Errors
    /// [`PagesError::Failed`].
    pub fn checkpoint(&self) -> Result<CheckpointReport, PagesError> {
        self.core.checkpoint()
    }

    /// The redo log.
    pub fn log(&self) -> &Log {
        &self.core.log
    }

    /// Begins to read pages that will be needed, and returns how many reads
    /// were begun: those in memory already need none, and without free frames
    /// no more are. Returns at once unless the engine's queue of its level is
    /// full.
    pub fn prefetch(&self, ids: &[PageId], role: Role) -> usize {
        self.core.pool.prefetch(ids, role, None).reads
    }

    /// Makes an empty tablespace, durable when this returns; gives its number.
    ///
    /// # Errors
    /// [`StoreError::Name`], [`StoreError::Exists`], no room.
    pub fn create_space(&self, name: &str) -> Result<u32, StoreError> {
        self.core.create_space(name)
    }

    /// Removes a tablespace and its file. Nobody may use it any more.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`], the system's.
    pub fn drop_space(&self, space: u32) -> Result<(), StoreError> {
        self.core.drop_space(space)
    }

    /// The tablespaces that can be used, by number. Those that were not in use
    /// are read.
    pub fn spaces(&self) -> Vec<SpaceStatistics> {
        self.core.space_statistics()
    }

    /// One of them.
    pub(crate) fn space_statistics(&self, space: u32) -> Result<SpaceStatistics, PagesError> {
        Ok(self.core.space(space)?.statistics())
    }

    /// Makes an empty segment. Durable with the log up to its end now.
    ///
    /// # Errors
    /// [`PagesError`].
    pub fn create_segment(&self, space: u32) -> Result<SegmentId, PagesError> {
        self.core.create_segment(space)
    }

    /// Frees all pages of a segment and then the segment, in steps: after a
    /// crash in between it must be dropped again. One that does not exist is
    /// dropped already. Nobody may use it any more.
    ///
    /// # Errors
    /// [`PagesError`].
    pub fn drop_segment(&self, segment: SegmentId) -> Result<(), PagesError> {
        self.core.drop_segment(segment)
    }

    /// Writes new pages of a segment past pool and log, about as many as
    /// `expected`, or nobody knows how many (0).
    pub(crate) fn new_pages(
        &self,
        segment: SegmentId,
        expected: u64,
    ) -> Result<UnloggedPages<'_>, PagesError> {
        UnloggedPages::new(&self.core, segment, expected)
    }

    /// The pages of a segment, ascending. No mini-transaction is running.
    pub(crate) fn pages_of(&self, segment: SegmentId) -> Vec<u32> {
        self.core.pages_of(segment)
    }

    /// Pages in use in a tablespace but for those that say which are.
    pub(crate) fn data_pages(&self, space: u32) -> Option<u64> {
        let space = self.core.space(space).ok()?;
        let map = space.map.lock();
        Some(map.used_pages() - map.own_pages().count() as u64)
    }

    /// What keeps pages from being torn, and why that.
    pub fn torn_pages(&self) -> &TornProtection {
        &self.core.pool.files.protection
    }

    /// Who used the device that the store's directory lies on.
    pub fn ledger(&self) -> Ledger {
        Ledger::new(self.core.log.device().statistics())
    }

    /// The device that the store's directory lies on.
    pub fn device(&self) -> Device {
        self.core.log.device()
    }

    /// How many requests were outstanding: a part of the ledger that is cheap
    /// enough to be looked at all the time.
    pub fn outstanding(&self) -> Outstanding {
        self.core.log.device().outstanding()
    }

    /// What the streams of pages of a role did.
    pub fn stream_statistics(&self, role: Role) -> StreamStatistics {
        self.core.streams.statistics(role)
    }

    /// Counts of all that happened since it was opened.
    pub fn statistics(&self) -> PageStoreStatistics {
        let core = &self.core;
        PageStoreStatistics {
            pool: core.pool.statistics(),
            flush: core.flushed.read(),
            frame_waits: core.pool.frame_waits(),
            log_waits: core.log.waits(),
            minis: core.changes.load(std::sync::atomic::Ordering::Relaxed),
            log_end: core.log.end(),
            checkpoint: core.log.checkpoint_lsn(),
        }
    }
}

impl Drop for PageStore {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Pages for PageStore {
    type Shared<'a> = SharedPage<'a>;
    type Mini<'a> = Mini<'a>;

    fn page_bytes(&self) -> usize {
        self.core.pool.page_bytes()
    }

    fn shared(&self, id: PageId) -> Result<SharedPage<'_>, Miss> {
        self.core.pool.shared(id)
    }

    fn copied<T>(&self, id: PageId, read: impl FnOnce(&[u8]) -> T) -> Option<(T, Stamp)> {
        self.core.pool.copied(id, read)
    }

    fn is_current(&self, stamp: Stamp) -> bool {
        self.core.pool.is_current(stamp)
    }

    fn offer(&self, page: &SharedPage<'_>) {
        self.core.pool.offer(page);
    }

    fn load(&self, miss: Miss) -> Result<(), PagesError> {
        self.core.pool.failure.check()?;
        self.core.pool.load(miss.0)?;
        ReadAhead(&self.core).guess();
        Ok(())
    }

    fn make_room(&self) -> Result<(), PagesError> {
        let pool = &self.core.pool;
        let frames = pool.take(pool.take_max())?;
        pool.give(frames);
        Ok(())
    }

    fn read_ahead(&self) -> Option<ReadAhead<'_>> {
        Some(ReadAhead(&self.core))
    }

    fn begin(&self, segments: &[SegmentId], pages: u32) -> Result<Mini<'_>, PagesError> {
        self.core.begin(segments, pages)
    }
}

impl PageStore {
    /// A thread of this store. Others wait for what it does: they learn of its
    /// end if it panics.
    pub(crate) fn spawn(
        &self,
        name: &'static str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<JoinHandle<()>, StoreError> {
        let core = Arc::clone(&self.core);
        let guarded = move || {
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                core.fail(format!("the thread {name} panicked"));
            }
        };
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(guarded)
            .map_err(|source| StoreError::system(&self.core.directory, source))
    }
}
