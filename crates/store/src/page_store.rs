//! An open store of pages: files, pool, log and flusher as one.

mod options;

pub use options::PageStoreOptions;

use options::PAGE_BYTES;

use crate::access::{Miss, Pages, PagesError};
use crate::core::Core;
use crate::error::StoreError;
use crate::failure::Failure;
use crate::files::PageFiles;
use crate::flush::{CheckpointReport, Doublewrite, FlushStatistics, Flusher};
use crate::ids::{Lsn, PageId, SegmentId};
use crate::ledger::{FileClass, Ledger, tag};
use crate::log::{Log, LogError};
use crate::mini::Mini;
use crate::page::header::{get_u32, get_u64};
use crate::policy::Role;
use crate::pool::{Pool, PoolStatistics, SharedPage, Stamp};
use crate::recovery::{RecoveryProgress, RecoveryReport};
use crate::space::layout::GROUP_PAGES;
use crate::space::{self, SYSTEM_NAME, SYSTEM_SPACE, SpaceStatistics, Unusable};
use crate::stream::{ReadAhead, StreamStatistics, acting_as, role_of};
use crate::torn::TornProtection;
use crate::unlogged::UnloggedPages;
use crate::waits::WaitStatistics;
use iolane::{Arena, Buffer, Engine, File, Level, OpenOptions, Outstanding, Tag};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
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
    core: Arc<Core>,
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
    /// Makes an empty store in a directory, which is made if need be.
    ///
    /// # Errors
    /// [`StoreError::Exists`], an option that cannot be, the system's.
    pub fn create(
        engine: Arc<Engine>,
        directory: &Path,
        options: &PageStoreOptions,
    ) -> Result<PageStore, StoreError> {
        options.check()?;
        let names = &*options.names;
        names
            .make_directory(directory)
            .map_err(|source| StoreError::system(directory, source))?;
        let made = [
            directory.join(DOUBLEWRITE_FILE),
            space::space_file(directory, SYSTEM_NAME),
            directory.join(LOG_FILE),
        ];
        // The area alone is of a store that was never made.
        for path in &made[1..] {
            if names.exists(path) {
                let path = path.clone();
                return Err(StoreError::Exists { path });
            }
        }
        let store = PageStore::make(engine, directory, options);
        if store.is_err() {
            // Its log is the last that it gets: nobody has used it.
            for path in &made {
                let _ = names.remove(path);
            }
        }
        store
    }

    fn make(
        engine: Arc<Engine>,
        directory: &Path,
        options: &PageStoreOptions,
    ) -> Result<PageStore, StoreError> {
        let names = &*options.names;
        let log_path = directory.join(LOG_FILE);
        let page_bytes = options.page_bytes;
        let store = RandomState::new().build_hasher().finish();
        let area = open_doublewrite(&engine, directory, Some(page_bytes), true)?;
        // Before there is anything else: the area lies where the tablespaces
        // will.
        let first = match options.direct {
            true => area.clone(),
            false => open_doublewrite(&engine, directory, None, false)?,
        };
        let protection =
            TornProtection::choose(options.torn_pages, page_bytes, [&first].into_iter())?;
        let doublewrite = Doublewrite::create(area, page_bytes, store)?;
        let head = space::new_header(SYSTEM_SPACE, SYSTEM_NAME, page_bytes, store);
        let system = space::create_file(&engine, names, directory, options.direct, &head)?;
        protection.expect(&system)?;
        // Last: a store without a log was never complete.
        let mut open = Log::open_options();
        open.create_new(true)
            .size(Log::file_bytes(options.log_bytes));
        let file = engine.open(&log_path, &open)?.tagged(LOG_TAG);
        let plain = engine
            .open(&log_path, &Log::plain_options())?
            .tagged(LOG_TAG);
        let level = options.io.level(role_of(Role::Space));
        let log = Log::create(file, plain, options.log_bytes, store, Lsn(0), level);
        let log = log.map_err(|source| in_log(&log_path, source))?;
        space::sync_directory(names, directory)?;

        let newest = log.end();
        let files = PageFiles::new(page_bytes, doublewrite, protection, options.io, newest);
        files.add(SYSTEM_SPACE, system);
        let store = start(engine, directory, options, page_bytes, store, files, log)?;
        store
            .core
            .open_space(SYSTEM_SPACE, SYSTEM_NAME.to_owned())?;
        store.core.allow_checkpoints();
        Ok(store)
    }

    /// Opens a store, and brings it to the end of its log.
    ///
    /// # Errors
    /// [`StoreError`]: files that are missing, foreign, of a newer version,
    /// damaged without a copy.
    pub fn open(
        engine: Arc<Engine>,
        directory: &Path,
        options: &PageStoreOptions,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<(PageStore, RecoveryReport), StoreError> {
        let (opened, report) =
            PageStore::open_to_look(engine, directory, options, false, progress)?;
        opened.allow_checkpoints();
        Ok((opened, report))
    }

    /// The same, but the log stays as it is until checkpoints are allowed: it
    /// can be opened again from the same position. With `past_damage`
    /// tablespaces whose own pages are damaged are [set aside](Self::unusable),
    /// unless redo needs such a page.
    pub(crate) fn open_to_look(
        engine: Arc<Engine>,
        directory: &Path,
        options: &PageStoreOptions,
        past_damage: bool,
        progress: &mut dyn FnMut(RecoveryProgress),
    ) -> Result<(PageStore, RecoveryReport), StoreError> {
        let area = open_doublewrite(&engine, directory, None, true)?;
        // Written once, so never torn: the place to learn the page size from.
        let (page_bytes, store) = identity(&area)?;
        let doublewrite = Doublewrite::open(area, page_bytes, store)?;
        let log_path = directory.join(LOG_FILE);
        let file = engine.open(&log_path, &Log::open_options())?;
        let file = file.tagged(LOG_TAG);
        let (log, scan) = Log::open(file).map_err(|source| in_log(&log_path, source))?;
        let log = log.with_plain(
            engine
                .open(&log_path, &Log::plain_options())?
                .tagged(LOG_TAG),
        );
        if log.store() != store {
            return Err(StoreError::OtherStore { path: log_path });
        }
        let direct = options.direct;
        let names = &*options.names;
        let found = space::find_files(
            &engine,
            names,
            directory,
            direct,
            page_bytes,
            store,
            &doublewrite,
            past_damage,
        )?;
        if !found.iter().any(|found| found.space == SYSTEM_SPACE) {
            let path = space::space_file(directory, SYSTEM_NAME);
            let source = std::io::Error::from(std::io::ErrorKind::NotFound);
            return Err(StoreError::system(&path, source));
        }
        let checkpoint = log.checkpoint_lsn();
        let restored = doublewrite.restore(checkpoint, log.end(), |space| {
            let mut all = found.iter();
            all.find(|found| found.space == space)
                .map(|found| found.file.clone())
        })?;
        let all = found.iter().map(|found| &found.file);
        let protection = TornProtection::choose(options.torn_pages, page_bytes, all)?;
        if protection.is_atomic() {
            doublewrite.clear()?;
        }
        let newest = log.end();
        let files = PageFiles::new(page_bytes, doublewrite, protection, options.io, newest);
        for found in &found {
            files.add(found.space, found.file.clone());
        }
        let opened = start(engine, directory, options, page_bytes, store, files, log)?;
        let _reads = acting_as(Role::Recovery);
        let mut report = opened.core.redo(scan, progress)?;
        report.restored = restored;
        for found in found {
            opened.core.open_found(found, past_damage)?;
        }
        Ok((opened, report))
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

    /// The tablespaces, by number.
    pub fn spaces(&self) -> Vec<SpaceStatistics> {
        self.core.space_statistics()
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
        let space = self.core.spaces.get(space)?;
        let map = space.map.lock();
        let own = 1 + map.size_pages().div_ceil(GROUP_PAGES) as usize + map.segment_pages.len();
        Some(map.used_pages() - own as u64)
    }

    /// What keeps pages from being torn, and why that.
    pub fn torn_pages(&self) -> &TornProtection {
        &self.core.pool.files.protection
    }

    /// Who used the device that the store's directory lies on.
    pub fn ledger(&self) -> Ledger {
        Ledger::new(self.core.log.device().statistics())
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

fn in_log(path: &Path, source: LogError) -> StoreError {
    StoreError::Log {
        path: path.to_owned(),
        source,
    }
}

fn open_doublewrite(
    engine: &Engine,
    directory: &Path,
    create_with: Option<usize>,
    direct: bool,
) -> Result<File, StoreError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).direct(direct);
    if let Some(page_bytes) = create_with {
        options
            .create(true)
            .truncate(true)
            .size(Doublewrite::file_bytes(page_bytes));
    }
    let area = engine.open(directory.join(DOUBLEWRITE_FILE), &options)?;
    Ok(area.tagged(tag(Role::Checkpoint, FileClass::Doublewrite)))
}

/// Page size and number of the store.
fn identity(doublewrite: &File) -> Result<(usize, u64), StoreError> {
    let mut begin = Buffer::new(*PAGE_BYTES.start());
    let read = doublewrite.read_at(&mut begin, 0, Level::Foreground)?;
    let page_bytes = get_u32(&begin, 16) as usize;
    if read < begin.len() || !page_bytes.is_power_of_two() || !PAGE_BYTES.contains(&page_bytes) {
        return Err(StoreError::foreign(doublewrite.path(), "doublewrite area"));
    }
    Ok((page_bytes, get_u64(&begin, 24)))
}

/// Pool and flusher for files that are open.
fn start(
    engine: Arc<Engine>,
    directory: &Path,
    options: &PageStoreOptions,
    page_bytes: usize,
    store: u64,
    files: PageFiles,
    log: Log,
) -> Result<PageStore, StoreError> {
    let sized = PageStoreOptions {
        page_bytes,
        ..options.clone()
    };
    let arena = match &options.arena {
        Some(arena) => arena.clone(),
        None => Arena::builder()
            .bytes(sized.arena_bytes())
            .build()
            .map_err(crate::pool::PoolError::from)?,
    };
    let frames = (options.pool_bytes / page_bytes as u64) as usize;
    let cleaning_max = 4 * crate::flush::BATCH_PAGES;
    let failure = Arc::new(Failure::default());
    let pool = Pool::new(arena, frames, page_bytes, cleaning_max, files, failure)?;
    let staging: Result<Vec<Buffer>, _> = (0..Flusher::pages(frames))
        .map(|_| pool.arena().buffer(page_bytes))
        .collect();
    let staging = staging.map_err(crate::pool::PoolError::from)?;
    let core = Arc::new(Core::new(
        engine,
        directory.to_owned(),
        Arc::clone(&options.names),
        store,
        options.direct,
        pool,
        log,
    ));
    let flusher = Flusher::new(Arc::clone(&core), staging);
    // It ends the threads that have begun if one cannot.
    let mut store = PageStore {
        core: Arc::clone(&core),
        threads: Vec::new(),
    };
    let flusher = store.spawn("iolane-flusher", move || flusher.run())?;
    store.threads.push(flusher);
    let log = store.spawn("iolane-log", move || core.log.write_ahead())?;
    store.threads.push(log);
    Ok(store)
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
