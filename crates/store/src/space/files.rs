//! Making, opening and dropping tablespaces.

use super::layout::{
    self, EXTENT_PLACE, Extent, FIRST_SEGMENT_PAGE, GROUP_EXTENTS, GROUP_PAGES, HEADER_PAGE,
    Header, NAME_BYTES_MAX, SegmentEntry, VERSION,
};
use super::map::SpaceMap;
use super::{Space, Spaces, Unusable};
use crate::access::{MiniTransaction, PagesError};
use crate::core::Core;
use crate::error::StoreError;
use crate::flush::Doublewrite;
use crate::ids::{EXTENT_PAGES, PageId};
use crate::ledger::{FileClass, tag};
use crate::names::Names;
use crate::page::{Op, header};
use crate::policy::Role;
use crate::stream::{BEGIN_EXTENTS, PageStream, ReadAhead};
use iolane::{Buffer, Engine, File, Level, OpenOptions};
use std::path::{Path, PathBuf};

/// Pages of a new tablespace that stay in memory: its header, which pages are
/// in use, and its segments.
const NEW_PINNED: usize = 3;
/// Ending of a tablespace's file.
const FILE_SUFFIX: &str = ".ts";
/// Ending while it is being made: not a tablespace yet.
const NEW_SUFFIX: &str = ".ts.new";
/// The system's tablespace.
pub(crate) const SYSTEM_SPACE: u32 = 0;
pub(crate) const SYSTEM_NAME: &str = "system";

/// A tablespace's file, and what its first page said when it was found.
pub(crate) struct Found {
    pub(crate) file: File,
    pub(crate) space: u32,
    pub(crate) name: String,
    pub(crate) damage: Option<Damage>,
}

/// Why a tablespace cannot be used.
pub(crate) struct Damage {
    pub(crate) why: StoreError,
    /// Does its first page say that it is of this store? Otherwise its second
    /// said its number.
    pub(crate) is_own: bool,
}

fn open_options(direct: bool) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).direct(direct);
    options
}

/// Where a tablespace is.
pub(crate) fn space_file(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}{FILE_SUFFIX}"))
}

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
    let path = space_file(directory, &name);
    if names.exists(&path) {
        return Err(StoreError::Exists { path });
    }
    let new = directory.join(format!("{name}{NEW_SUFFIX}"));
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

/// Finds all tablespaces in a directory. With `past_damage` also those whose
/// first pages say nothing, but for the system's.
#[allow(
    clippy::too_many_arguments,
    reason = "called once, by who has them all"
)]
pub(crate) fn find_files(
    engine: &Engine,
    names: &dyn Names,
    directory: &Path,
    direct: bool,
    page_bytes: usize,
    store: u64,
    doublewrite: &Doublewrite,
    past_damage: bool,
) -> Result<Vec<Found>, StoreError> {
    let mut found: Vec<Found> = Vec::new();
    let failed = |source| StoreError::system(directory, source);
    for path in names.list(directory).map_err(failed)? {
        let Some(file_name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if file_name.ends_with(NEW_SUFFIX) {
            names
                .remove(&path)
                .map_err(|source| StoreError::system(&path, source))?;
            continue;
        }
        let Some(name) = file_name.strip_suffix(FILE_SUFFIX) else {
            continue;
        };
        let name = name.to_owned();
        let file = engine.open(&path, &open_options(direct))?;
        let can_be_missed = past_damage && name != SYSTEM_NAME;
        let (head, truncated) = match first_page(&file, &name, page_bytes, doublewrite) {
            Ok(says) => says,
            Err(why) => {
                let is_its = is_damage(&why) || matches!(why, StoreError::Io(_));
                let space = (can_be_missed && is_its)
                    .then(|| second_page(&file, page_bytes))
                    .flatten();
                let Some(space) = space else {
                    return Err(why);
                };
                expect_new(&found, &path, space)?;
                let is_own = false;
                found.push(Found {
                    file,
                    space,
                    name,
                    damage: Some(Damage { why, is_own }),
                });
                continue;
            }
        };
        if head.version != VERSION {
            return Err(StoreError::Version {
                path,
                found: head.version,
                known: VERSION,
            });
        }
        if head.store != store {
            return Err(StoreError::OtherStore { path });
        }
        let space = head.space;
        expect_new(&found, &path, space)?;
        if !can_be_missed && let Some(why) = truncated {
            return Err(why);
        }
        let is_own = true;
        found.push(Found {
            file,
            space,
            name,
            damage: truncated.map(|why| Damage { why, is_own }),
        });
    }
    Ok(found)
}

fn expect_new(found: &[Found], path: &Path, space: u32) -> Result<(), StoreError> {
    if found.iter().any(|other| other.space == space) {
        let path = path.to_owned();
        return Err(StoreError::SpaceTwice { path, space });
    }
    Ok(())
}

/// Whether an error says that a tablespace's own pages are damaged, and nothing
/// of the others.
fn is_damage(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Foreign { .. }
            | StoreError::Damaged { .. }
            | StoreError::Pages(PagesError::Unreadable { .. })
    )
}

/// The number of a tablespace whose first page does not say it.
fn second_page(file: &File, page_bytes: usize) -> Option<u32> {
    let mut page = Buffer::new(page_bytes);
    let offset = u64::from(EXTENT_PLACE) * page_bytes as u64;
    let read = file.read_at(&mut page, offset, Level::Foreground).ok()?;
    let own = header::id(&page);
    let whole = read == page_bytes && own.page == EXTENT_PLACE && header::check(&page, own).is_ok();
    (whole && own.space != SYSTEM_SPACE).then_some(own.space)
}

/// A tablespace's header, from its copy if a crash cut its writing short; and
/// why the file is not as long as it says.
fn first_page(
    file: &File,
    name: &str,
    page_bytes: usize,
    doublewrite: &Doublewrite,
) -> Result<(Header, Option<StoreError>), StoreError> {
    let mut page = Buffer::new(page_bytes);
    let read = file.read_at(&mut page, 0, Level::Foreground)?;
    let own = header::id(&page);
    let whole = read == page_bytes && own.page == HEADER_PAGE && header::check(&page, own).is_ok();
    let parsed = if whole { Header::parse(&page) } else { None };
    if let Some(head) = parsed {
        // A header is durable in its place only after the file's length. One
        // that redo makes larger is another matter.
        let truncated = truncated(file, &head, page_bytes)?;
        return Ok((head, truncated));
    }
    let is_its = |copy: &[u8]| Header::parse(copy).is_some_and(|head| head.name == name.as_bytes());
    if doublewrite.first_page(&mut page, is_its)?
        && let Some(head) = Header::parse(&page)
    {
        return Ok((head, None));
    }
    Err(StoreError::foreign(file.path(), "tablespace"))
}

fn truncated(
    file: &File,
    head: &Header,
    page_bytes: usize,
) -> Result<Option<StoreError>, StoreError> {
    let needed = u64::from(head.size_pages) * page_bytes as u64;
    let path = file.path();
    let bytes = file
        .size()
        .map_err(|source| StoreError::system(path, source))?;
    Ok((bytes < needed).then(|| StoreError::Truncated {
        path: path.to_owned(),
        bytes,
        needed,
    }))
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
        size_pages: EXTENT_PAGES,
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
        let path = self.space_path(name);
        if self.names.exists(&path) {
            return Err(StoreError::Exists { path });
        }
        self.pool.failure.check()?;
        // Before there is a file: one that is there must be opened each time.
        self.expect_room_for(NEW_PINNED)?;
        let system = PageId::new(SYSTEM_SPACE, HEADER_PAGE);
        let mut mini = self.begin_plain(0)?;
        mini.exclusive(system).expect("space pages stay in memory");
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
        let head = new_header(space, name, self.pool.page_bytes(), self.store);
        let names = &*self.names;
        let file = create_file(&self.engine, names, &self.directory, self.direct, &head)?;
        if let Err(error) = self.pool.files.protection.expect(&file) {
            let removed = self.names.remove(&path);
            removed.map_err(|source| StoreError::system(&path, source))?;
            return Err(error);
        }
        self.pool.files.add(space, file);
        self.open_space(space, name.to_owned())?;
        Ok(space)
    }

    /// Removes a tablespace and its file. Nobody may use it any more.
    pub(crate) fn drop_space(&self, space: u32) -> Result<(), StoreError> {
        let _one_at_a_time = self.spaces.making.lock();
        let known = if space == SYSTEM_SPACE {
            None
        } else {
            self.spaces.remove(space)
        };
        let Some(known) = known else {
            let unusable = self.spaces.unusable.lock().remove(&space);
            let unusable = unusable.ok_or(StoreError::NoSpace { space })?;
            return self.drop_file(space, &unusable.path);
        };
        let _nobody_grows_it = known.growth.lock();
        self.drop_file(space, &known.path)
    }

    fn drop_file(&self, space: u32, path: &Path) -> Result<(), StoreError> {
        // First, and durably: once its changed pages are forgotten, a checkpoint
        // may pass what redo would need if the file were still there after a
        // power cut.
        self.names
            .remove(path)
            .map_err(|source| StoreError::system(path, source))?;
        sync_directory(&*self.names, &self.directory)?;
        self.pool.files.remove(space);
        self.pool.discard_space(space);
        Ok(())
    }

    /// Opens a tablespace that was found, or with `past_damage` sets it aside
    /// where its own pages are damaged: nobody can use it, and what redo has
    /// changed in it is still written.
    pub(crate) fn open_found(&self, found: Found, past_damage: bool) -> Result<(), StoreError> {
        let space = found.space;
        let damage = match found.damage {
            Some(damage) => damage,
            None => match self.open_space(space, found.name.clone()) {
                Err(why) if past_damage && space != SYSTEM_SPACE && is_damage(&why) => {
                    let is_own = true;
                    Damage { why, is_own }
                }
                opened => return opened,
            },
        };
        let unusable = Unusable {
            space,
            path: self.space_path(&found.name),
            reason: damage.why.to_string(),
            is_own: damage.is_own,
        };
        self.spaces.unusable.lock().insert(space, unusable);
        Ok(())
    }

    fn space_path(&self, name: &str) -> PathBuf {
        space_file(&self.directory, name)
    }

    /// Brings the pages that say what is free into memory, for good. The file
    /// is known to the pool, and redo is complete.
    pub(crate) fn open_space(&self, id: u32, name: String) -> Result<(), StoreError> {
        let path = self.space_path(&name);
        let damaged = |reason: String| StoreError::Damaged {
            path: path.clone(),
            reason,
        };
        let page_bytes = self.pool.page_bytes();
        let head = {
            let page = self.pin(PageId::new(id, HEADER_PAGE))?;
            Header::parse(&page).ok_or_else(|| StoreError::foreign(&path, "tablespace"))?
        };
        let size = head.size_pages;
        let groups = size.div_ceil(GROUP_PAGES);
        let numbers: Vec<u32> = (0..groups)
            .map(|group| group * GROUP_PAGES + EXTENT_PLACE)
            .chain(head.segment_pages.iter().copied())
            .collect();
        if numbers.iter().any(|&number| number >= size) || !size.is_multiple_of(EXTENT_PAGES) {
            return Err(damaged(format!("its header counts {size} pages")));
        }
        let ids: Vec<PageId> = numbers
            .iter()
            .map(|&number| PageId::new(id, number))
            .collect();
        let mut extents = Vec::new();
        let mut segments = Vec::new();
        let mut ahead = PageStream::of_offered(ReadAhead(self), Role::Recovery, BEGIN_EXTENTS);
        ahead.offer(ids.iter().copied());
        for (index, &id) in ids.iter().enumerate() {
            let page = self.pin(id)?;
            ahead.came_to(id);
            if index < groups as usize {
                extents.extend((0..GROUP_EXTENTS).map(|index| Extent::read(&page, index)));
            } else {
                let table = index - groups as usize;
                let per_page = layout::segments_per_page(page_bytes);
                let first = table as u32 * per_page;
                segments.extend((first..first + per_page).map(|number| {
                    let entry = SegmentEntry::of(number, page_bytes);
                    let used = entry.is_used(&page);
                    used.then(|| entry.fragments(&page).len())
                }));
            }
        }
        drop(ahead);
        extents.truncate((size / EXTENT_PAGES) as usize);
        let map = SpaceMap::new(extents, segments, head.segment_pages).map_err(damaged)?;
        let space = Space::new(id, name, path, map);
        // The file may have been longer than a crash left it.
        self.extend(&space.path, size)?;
        self.spaces.add(space);
        Ok(())
    }

    fn pin(&self, id: PageId) -> Result<crate::pool::SharedPage<'_>, StoreError> {
        self.expect_room_for(1)?;
        Ok(self.pool.load_pinned(id)?)
    }

    /// Whether so many more pages may stay in memory for good.
    fn expect_room_for(&self, pages: usize) -> Result<(), StoreError> {
        if self.pool.may_pin(pages) {
            return Ok(());
        }
        let frames = self.pool.frames().len();
        Err(StoreError::Pool(crate::pool::PoolError::TooSmall {
            pages: frames,
            needed: frames * 2,
            page_bytes: self.pool.page_bytes(),
        }))
    }

    /// The tablespaces, by number.
    pub(crate) fn space_statistics(&self) -> Vec<super::SpaceStatistics> {
        let mut all: Vec<_> = Spaces::all(&self.spaces)
            .iter()
            .map(|space| space.statistics())
            .collect();
        all.sort_by_key(|space| space.space);
        all
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
