//! Making and opening a store of pages.

use super::options::PAGE_BYTES;
use super::{DOUBLEWRITE_FILE, LOG_FILE, LOG_TAG, PageStore, PageStoreOptions};
use crate::core::Core;
use crate::error::StoreError;
use crate::failure::Failure;
use crate::files::{OpenFiles, PageFiles};
use crate::flush::{Doublewrite, Flusher};
use crate::ids::Lsn;
use crate::ledger::{FileClass, tag};
use crate::log::{Log, LogError};
use crate::page::header::{get_u32, get_u64};
use crate::policy::Role;
use crate::pool::Pool;
use crate::recovery::{RecoveryProgress, RecoveryReport};
use crate::space::{self, Finder, Judge, SYSTEM_NAME, SYSTEM_SPACE};
use crate::stream::{acting_as, role_of};
use crate::torn::TornProtection;
use iolane::{Arena, Buffer, Engine, File, Level, OpenOptions};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;
use std::sync::Arc;

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
            space::space_file(directory, SYSTEM_NAME, SYSTEM_SPACE),
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

        let spaces = open_files(&engine, options);
        spaces.add(SYSTEM_SPACE, SYSTEM_NAME, system);
        let judge = Judge {
            page_bytes,
            store,
            past_damage: false,
        };
        let (io, newest) = (options.io, log.end());
        let files = PageFiles::new(judge, io, spaces, newest, doublewrite, protection);
        let store = start(engine, directory, options, files, log)?;
        store.core.space(SYSTEM_SPACE)?;
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
    /// tablespaces are looked at when they are needed first, and those that cannot
    /// be used are [set aside](Self::unusable), unless redo needs such a page.
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
        let spaces = open_files(&engine, options);
        let judge = Judge {
            page_bytes,
            store,
            past_damage,
        };
        let finder = Finder {
            engine: &engine,
            names: &*options.names,
            directory,
            direct: options.direct,
            judge,
            doublewrite: &doublewrite,
        };
        finder.find(&spaces)?;
        let (checkpoint, newest) = (log.checkpoint_lsn(), log.end());
        let system = spaces.get(SYSTEM_SPACE, |file, known| {
            judge.judge(file, &known.name, SYSTEM_SPACE, &doublewrite)
        })?;
        // All others are beside it, and are asked when they are opened.
        let protection = TornProtection::choose(options.torn_pages, page_bytes, system.iter())?;
        let io = options.io;
        let files = PageFiles::new(judge, io, spaces, newest, doublewrite, protection);
        let area = &files.doublewrite;
        let restored = area.restore(checkpoint, newest, |space| match files.get(space) {
            // Redo will ask for it if the log has changes of it.
            Err(why) if past_damage && space::is_not_its(&why) => Ok(None),
            file => file,
        })?;
        if files.protection.is_atomic() {
            area.clear()?;
        }
        let opened = start(engine, directory, options, files, log)?;
        let _reads = acting_as(Role::Recovery);
        let mut report = opened.core.redo(scan, progress)?;
        report.restored = restored;
        opened.core.space(SYSTEM_SPACE)?;
        if !past_damage {
            opened.core.expect_usable()?;
        }
        Ok((opened, report))
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

fn open_files(engine: &Arc<Engine>, options: &PageStoreOptions) -> OpenFiles {
    let engine = Arc::clone(engine);
    OpenFiles::new(engine, options.direct, options.files_max, SYSTEM_SPACE)
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
    files: PageFiles,
    log: Log,
) -> Result<PageStore, StoreError> {
    let page_bytes = files.page_bytes();
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
