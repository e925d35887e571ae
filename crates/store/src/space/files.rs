//! Making and dropping tablespaces.

use super::Space;
use super::find::{new_file, space_file};
use super::layout::{
    self, FIRST_PAGES, FIRST_SEGMENT_PAGE, HEADER_PAGE, Header, NAME_BYTES_MAX, VERSION,
};
use crate::access::{MiniTransaction, PagesError};
use crate::core::Core;
use crate::error::StoreError;
use crate::files::open_options;
use crate::ids::{EXTENT_PAGES, PageId};
use crate::ledger::{FileClass, tag};
use crate::names::Names;
use crate::page::{Op, header};
use crate::policy::Role;
use iolane::{Buffer, Engine, File, Level};
use std::path::Path;
use std::sync::atomic::Ordering;

/// The system's tablespace.
pub(crate) const SYSTEM_SPACE: u32 = 0;
pub(crate) const SYSTEM_NAME: &str = "system";

/// Makes names in `directory` durable.
pub(crate) fn sync_directory(names: &dyn Names, directory: &Path) -> Result<(), StoreError> {
    let synced = names.sync(directory);
    synced.map_err(|source| StoreError::system(directory, source))
}

/// Writes the file of a new tablespace, and lets it appear when it is whole.
pub(crate) fn create_file(
    engine: &Engine,
    names: &dyn Names,
    directory: &Path,
    direct: bool,
    head: &Header,
) -> Result<File, StoreError> {
    let name = String::from_utf8_lossy(&head.name).into_owned();
    let path = space_file(directory, &name, head.space);
    if names.exists(&path) {
        return Err(StoreError::Exists { path });
    }
    let new = new_file(directory, &name);
    let page_bytes = head.page_bytes as usize;
    let mut options = open_options(direct);
    options
        .create(true)
        .truncate(true)
        .size(u64::from(head.size_pages) * page_bytes as u64);
    let written = engine
        .open(&new, &options)
        .map_err(StoreError::from)
        .and_then(|file| {
            let file = file.tagged(tag(Role::Space, FileClass::Data));
            let pages = head.first_pages();
            let mut buffer = Buffer::new(pages.len() * page_bytes);
            for (place, page) in buffer.chunks_exact_mut(page_bytes).zip(&pages) {
                place.copy_from_slice(page);
                header::seal(place);
            }
            file.write_at(&buffer, 0, Level::Foreground)?;
            file.sync(Level::Foreground)?;
            Ok(())
        });
    if let Err(error) = written {
        // What is left of it is removed at the next opening at the latest.
        let _ = names.remove(&new);
        return Err(error);
    }
    names
        .rename(&new, &path)
        .map_err(|source| StoreError::system(&path, source))?;
    sync_directory(names, directory)?;
    Ok(engine.open(&path, &open_options(direct))?)
}

fn check_name(name: &str) -> Result<(), StoreError> {
    let plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.');
    let good = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with('.')
        && name.chars().all(plain);
    if good {
        return Ok(());
    }
    Err(StoreError::Name {
        name: name.to_owned(),
        bytes_max: NAME_BYTES_MAX,
    })
}

/// The header of a tablespace to be made.
pub(crate) fn new_header(space: u32, name: &str, page_bytes: usize, store: u64) -> Header {
    Header {
        space,
        version: VERSION,
        page_bytes: page_bytes as u32,
        store,
        size_pages: match space {
            // It grows at once.
            SYSTEM_SPACE => EXTENT_PAGES,
            _ => FIRST_PAGES,
        },
        next_space: space + 1,
        name: name.as_bytes().to_vec(),
        segment_pages: vec![FIRST_SEGMENT_PAGE],
    }
}

impl Core {
    /// Makes an empty tablespace, durable when this returns. Its number was
    /// never used before: redo of a dropped one cannot meet it.
    pub(crate) fn create_space(&self, name: &str) -> Result<u32, StoreError> {
        check_name(name)?;
        let _one_at_a_time = self.spaces.making.lock();
        let files = &self.pool.files;
        if files.spaces.is_taken(name) {
            return Err(StoreError::Exists {
                path: self.directory.join(name),
            });
        }
        self.pool.failure.check()?;
        let system = PageId::new(SYSTEM_SPACE, HEADER_PAGE);
        let mut mini = self.begin_plain(0)?;
        mini.exclusive(system)
            .expect("the system's own pages stay in memory");
        let space = header::get_u32(mini.page(system), layout::at::NEXT_SPACE);
        mini.apply(
            system,
            &Op::Patch {
                offset: layout::at::NEXT_SPACE as u16,
                bytes: &(space + 1).to_le_bytes(),
            },
        );
        let lsn = mini.commit();
        self.log
            .make_durable(lsn)
            .map_err(|error| self.log_failed(error))?;
        let head = new_header(space, name, self.pool.page_bytes(), files.store());
        let names = &*self.names;
        let file = create_file(&self.engine, names, &self.directory, self.direct, &head)?;
        if let Err(error) = files.protection.expect(&file) {
            let removed = self.names.remove(file.path());
            removed.map_err(|source| StoreError::system(file.path(), source))?;
            return Err(error);
        }
        files.spaces.add(space, name, file);
        Ok(space)
    }

    /// Makes the system's tablespace one of this format, durably before anything
    /// that is logged from now on.
    pub(crate) fn need_present_format(&self) -> Result<(), PagesError> {
        let id = PageId::new(SYSTEM_SPACE, HEADER_PAGE);
        if self.spaces.is_of_present_format.load(Ordering::Acquire) {
            return Ok(());
        }
        let mut mini = self.begin_plain(0)?;
        mini.exclusive(id)
            .expect("the system's own pages stay in memory");
        let is_older = header::get_u32(mini.page(id), layout::at::VERSION) < VERSION;
        if is_older {
            let offset = layout::at::VERSION as u16;
            let bytes = &VERSION.to_le_bytes();
            mini.apply(id, &Op::Patch { offset, bytes });
        }
        mini.commit();
        if is_older {
            // Others look at the page in its place before they redo anything.
            self.checkpoint()?;
        }
        self.spaces
            .is_of_present_format
            .store(true, Ordering::Release);
        Ok(())
    }

    /// Uses a tablespace that may be dropped at any time, which waits meanwhile. `None`: there is none of that number, or its map
    /// cannot be read.
    pub(crate) fn while_there<T>(&self, space: u32, use_it: impl FnOnce(&Space) -> T) -> Option<T> {
        let _one_at_a_time = self.spaces.making.lock();
        self.pool.files.spaces.known(space)?;
        let space = self.space(space).ok()?;
        Some(use_it(&space))
    }

    /// Removes a tablespace and its file. Nobody may use it any more.
    pub(crate) fn drop_space(&self, space: u32) -> Result<(), StoreError> {
        let _one_at_a_time = self.spaces.making.lock();
        let known = self.pool.files.spaces.known(space);
        let Some(known) = known.filter(|_| space != SYSTEM_SPACE) else {
            return Err(StoreError::NoSpace { space });
        };
        let loaded = self.spaces.remove(space);
        let _nobody_grows_it = loaded.as_ref().map(|loaded| loaded.growth.lock());
        self.spaces.unusable.lock().remove(&space);
        // First, and durably: once its changed pages are forgotten, a checkpoint
        // may pass what redo would need if the file were still there after a
        // power cut. Until then the flusher writes them, to a file without a name.
        let files = &self.pool.files.spaces;
        files.set_dropping(Some(space));
        // One that cannot be opened has no changed pages.
        let _ = self.pool.files.get(space);
        let removed = self.names.remove(&known.path);
        let removed = removed.map_err(|source| StoreError::system(&known.path, source));
        let removed = removed.and_then(|()| sync_directory(&*self.names, &self.directory));
        removed.inspect_err(|_| files.set_dropping(None))?;
        files.remove(space);
        self.pool.discard_space(space);
        Ok(())
    }
}

impl From<StoreError> for PagesError {
    fn from(error: StoreError) -> PagesError {
        match error {
            StoreError::Pages(error) => error,
            other => PagesError::Failed {
                reason: other.to_string(),
            },
        }
    }
}
