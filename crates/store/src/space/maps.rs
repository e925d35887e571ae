//! Which tablespaces have their maps in memory.
//!
//! Whoever takes pages or gives them back needs a tablespace's map, and the
//! pages that record it, which are then latched at the end of a
//! mini-transaction, where nobody may wait for them. So the map is made, and
//! these pages are kept in memory, when a tablespace is needed first. While
//! nobody uses it, the map agrees with the pages, and the one that was not used
//! for the longest time makes room for others.

use super::find::{is_damage, is_foreign};
use super::layout::{
    self, EXTENT_PLACE, Extent, FIRST_PAGES, FIRST_SEGMENT_PAGE, GROUP_EXTENTS, GROUP_PAGES,
    HEADER_PAGE, Header, SegmentEntry, VERSION_OF_EXTENTS,
};
use super::map::SpaceMap;
use super::{Owner, SYSTEM_SPACE, Space, SpaceStatistics, Spaces, Unusable};
use crate::access::PagesError;
use crate::core::Core;
use crate::error::StoreError;
use crate::files::Damage;
use crate::ids::{EXTENT_PAGES, PageId};
use crate::policy::Role;
use crate::pool::SharedPage;
use crate::stream::{BEGIN_EXTENTS, PageStream, ReadAhead, acting, role_of};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Share of the frames that hold pages of maps above which one that nobody uses
/// leaves when another comes.
const IDLE_SHARE: usize = 16;
/// How long whoever needs a map waits for those who use others, when the pages
/// of all that are in use take as much as they may. They use them for one
/// mini-transaction each, but for loads.
const PATIENCE: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(1);

/// A map in memory.
pub(super) struct Loaded {
    space: Arc<Space>,
    /// When it was used last, in loads of any map.
    used: AtomicU64,
}

/// While a map is made, or leaves: nobody else makes it.
struct Loading<'s> {
    spaces: &'s Spaces,
    id: u32,
}

impl Drop for Loading<'_> {
    fn drop(&mut self) {
        self.spaces.loading.lock().remove(&self.id);
        self.spaces.loaded.notify_all();
    }
}

/// What can be done with a tablespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpaceState {
    /// It can be used.
    Usable,
    /// Its own pages are damaged, and why.
    Damaged(String),
    /// There is none of that number.
    Missing,
}

impl Spaces {
    /// The map of a tablespace, if it is in memory.
    pub(crate) fn get(&self, id: u32) -> Option<Arc<Space>> {
        let maps = self.maps.read();
        let loaded = maps.get(&id)?;
        let now = self.clock.load(Ordering::Relaxed);
        // Mostly so: threads do not write to the same memory then.
        if loaded.used.load(Ordering::Relaxed) != now {
            loaded.used.store(now, Ordering::Relaxed);
        }
        Some(Arc::clone(&loaded.space))
    }

    pub(super) fn remove(&self, id: u32) -> Option<Arc<Space>> {
        let removed = self.maps.write().remove(&id);
        removed.map(|loaded| loaded.space)
    }

    fn add(&self, space: Space) -> Arc<Space> {
        let space = Arc::new(space);
        let loaded = Loaded {
            space: Arc::clone(&space),
            used: AtomicU64::new(1 + self.clock.fetch_add(1, Ordering::Relaxed)),
        };
        self.maps.write().insert(space.id, loaded);
        space
    }

    /// Lets only one thread make the map of a tablespace.
    ///
    /// # Errors
    /// It is there now.
    fn begin_loading(&self, id: u32) -> Result<Loading<'_>, Arc<Space>> {
        let mut loading = self.loading.lock();
        loop {
            if let Some(space) = self.get(id) {
                return Err(space);
            }
            if loading.insert(id) {
                return Ok(Loading { spaces: self, id });
            }
            self.loaded.wait(&mut loading);
        }
    }

    /// Takes the map out that nobody uses and that was not used for the longest
    /// time. It is made again at the earliest when its pages are unpinned: they
    /// would be of two maps.
    fn take_idle(&self) -> Option<(Arc<Space>, Loading<'_>)> {
        let mut loading = self.loading.lock();
        let mut maps = self.maps.write();
        // Whoever uses one has it from here, under the lock.
        let idle = maps
            .iter()
            .filter(|(id, loaded)| **id != SYSTEM_SPACE && Arc::strong_count(&loaded.space) == 1);
        let oldest = idle.min_by_key(|(_, loaded)| loaded.used.load(Ordering::Relaxed));
        let id = *oldest?.0;
        let loaded = maps.remove(&id)?;
        loading.insert(id);
        Some((loaded.space, Loading { spaces: self, id }))
    }
}

impl Core {
    /// A tablespace with its map. The caller holds no latch.
    ///
    /// # Errors
    /// There is no such tablespace; its pages cannot be read.
    pub(crate) fn space(&self, id: u32) -> Result<Arc<Space>, PagesError> {
        if let Some(space) = self.spaces.get(id) {
            return Ok(space);
        }
        match self.load_space(id) {
            Ok(Some(space)) => Ok(space),
            Ok(None) => Err(PagesError::NoSpace {
                space: id,
                reason: "there is no such tablespace".to_owned(),
            }),
            Err(StoreError::Pages(error)) => Err(error),
            Err(error) => Err(PagesError::Unreadable {
                page: PageId::new(id, HEADER_PAGE),
                reason: error.to_string(),
            }),
        }
    }

    /// Whether a tablespace can be used. One that cannot is set aside: what redo
    /// has changed in it is still written.
    ///
    /// # Errors
    /// Those that say nothing of the tablespace.
    pub(crate) fn look_at_space(&self, id: u32) -> Result<SpaceState, StoreError> {
        if let Some(unusable) = self.spaces.unusable.lock().get(&id) {
            return Ok(SpaceState::Damaged(unusable.reason.clone()));
        }
        let Damage { reason, owner } = match self.damage_at_start(id)? {
            Some(damage) => damage,
            None => match self.load_space(id) {
                Ok(Some(_)) => return Ok(SpaceState::Usable),
                Ok(None) => return Ok(SpaceState::Missing),
                Err(why) if is_damage(&why) => damage_of(&why, Owner::Store),
                Err(why) => return Err(why),
            },
        };
        let unusable = Unusable {
            space: id,
            reason: reason.clone(),
            owner,
        };
        self.spaces.unusable.lock().insert(id, unusable);
        Ok(SpaceState::Damaged(reason))
    }

    /// Whose the file of a tablespace is, by its first pages alone.
    ///
    /// # Errors
    /// Those that say nothing of the file.
    pub(crate) fn owner_of_space(&self, id: u32) -> Result<Owner, StoreError> {
        let damage = self.damage_at_start(id)?;
        Ok(damage.map_or(Owner::Store, |damage| damage.owner))
    }

    /// What is wrong with the first pages of a tablespace.
    fn damage_at_start(&self, id: u32) -> Result<Option<Damage>, StoreError> {
        let files = &self.pool.files;
        match files.get(id) {
            Ok(_) => Ok(files.spaces.damage(id)),
            Err(why) if is_damage(&why) => Ok(Some(damage_of(&why, Owner::Unknown))),
            Err(why) if is_foreign(&why) => Ok(Some(damage_of(&why, Owner::Other))),
            Err(why) => Err(why),
        }
    }

    /// Whether all tablespaces can be used.
    ///
    /// # Errors
    /// What is wrong with the first that cannot.
    pub(crate) fn expect_usable(&self) -> Result<(), StoreError> {
        for space in self.pool.files.spaces.spaces() {
            self.load_space(space)?;
        }
        Ok(())
    }

    /// The tablespaces that can be used, by number.
    pub(crate) fn space_statistics(&self) -> Vec<SpaceStatistics> {
        let all = self.pool.files.spaces.spaces().into_iter();
        let usable = all.filter_map(|id| self.space(id).ok());
        usable.map(|space| space.statistics()).collect()
    }

    /// Brings the pages that say what is free into memory, for as long as the map
    /// is there. `None`: there is no such tablespace.
    fn load_space(&self, id: u32) -> Result<Option<Arc<Space>>, StoreError> {
        let _alone = match self.spaces.begin_loading(id) {
            Ok(loading) => loading,
            Err(loaded) => return Ok(Some(loaded)),
        };
        let files = &self.pool.files;
        let (Some(file), Some(known)) = (files.get(id)?, files.spaces.known(id)) else {
            return Ok(None);
        };
        let damaged = |reason: String| StoreError::Damaged {
            path: known.path.to_path_buf(),
            reason,
        };
        if let Some(damage) = files.spaces.damage(id) {
            return Err(damaged(damage.reason));
        }
        let page_bytes = self.pool.page_bytes();
        let mut ahead = PageStream::of_offered(ReadAhead(self), acting(), BEGIN_EXTENTS);
        ahead.offer((HEADER_PAGE..=FIRST_SEGMENT_PAGE).map(|page| PageId::new(id, page)));
        let head = {
            let first = PageId::new(id, HEADER_PAGE);
            let page = self.pool.load_shared(first)?;
            ahead.came_to(first);
            Header::parse(&page).ok_or_else(|| StoreError::foreign(&known.path, "tablespace"))?
        };
        let size = head.size_pages;
        let groups = size.div_ceil(GROUP_PAGES);
        let places = (0..groups).map(|group| group * GROUP_PAGES + EXTENT_PLACE);
        let numbers: Vec<u32> = places.chain(head.segment_pages.iter().copied()).collect();
        let is_whole = size.is_multiple_of(EXTENT_PAGES)
            || (FIRST_PAGES..EXTENT_PAGES).contains(&size) && head.version > VERSION_OF_EXTENTS;
        if numbers.iter().any(|&number| number >= size) || !is_whole {
            return Err(damaged(format!("its header counts {size} pages")));
        }
        let ids: Vec<PageId> = numbers.iter().map(|&it| PageId::new(id, it)).collect();
        let mut pins = self.pin(id, 1 + ids.len())?;
        pins.add(PageId::new(id, HEADER_PAGE))?;
        let begun = (HEADER_PAGE..=FIRST_SEGMENT_PAGE).map(|page| PageId::new(id, page));
        let begun: Vec<PageId> = begun.collect();
        ahead.offer(ids.iter().copied().filter(|id| !begun.contains(id)));
        let mut extents = Vec::new();
        let mut segments = Vec::new();
        for (index, &id) in ids.iter().enumerate() {
            let page = pins.add(id)?;
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
        extents.truncate(size.div_ceil(EXTENT_PAGES) as usize);
        let map = SpaceMap::new(extents, size, segments, head.segment_pages).map_err(damaged)?;
        let bytes = u64::from(size) * page_bytes as u64;
        let is_short = file.size().map(|now| now < bytes);
        if is_short.map_err(|source| StoreError::system(&known.path, source))? {
            // It may have been longer than a crash left it.
            self.extend(&known.path, size, role_of(Role::Space))?;
        }
        pins.keep();
        let space = Space::new(id, Arc::clone(&known.name), Arc::clone(&known.path), map);
        Ok(Some(self.spaces.add(space)))
    }

    fn pin(&self, space: u32, pages: usize) -> Result<Pins<'_>, StoreError> {
        self.make_room_for_maps(space, pages)?;
        Ok(Pins {
            core: self,
            space,
            pinned: Vec::with_capacity(pages),
        })
    }

    /// Lets maps that nobody uses go until so many more pages of that of `space`
    /// can stay in memory; waits for those who use others if need be.
    ///
    /// # Errors
    /// [`PagesError::NoSpace`]: the pool is too small.
    pub(super) fn make_room_for_maps(&self, space: u32, pages: usize) -> Result<(), PagesError> {
        let frames = self.pool.frames().len();
        let mut until = None;
        loop {
            while self.pool.pinned() + pages > frames / IDLE_SHARE {
                let Some((idle, _leaving)) = self.spaces.take_idle() else {
                    break;
                };
                let map = idle.map.lock();
                self.pool
                    .unpin(map.own_pages().map(|page| PageId::new(idle.id, page)));
            }
            if self.pool.may_pin(pages) {
                return Ok(());
            }
            let until = *until.get_or_insert_with(|| Instant::now() + PATIENCE);
            if Instant::now() >= until {
                return Err(PagesError::NoSpace {
                    space,
                    reason: "the pages that say which are free take a quarter of the pool: \
                             make the pool larger"
                        .to_owned(),
                });
            }
            std::thread::sleep(LOOK);
        }
    }
}

fn damage_of(why: &StoreError, owner: Owner) -> Damage {
    let reason = why.to_string();
    Damage { reason, owner }
}

/// Pages that were pinned for a map, until that is complete.
struct Pins<'c> {
    core: &'c Core,
    space: u32,
    pinned: Vec<PageId>,
}

impl<'c> Pins<'c> {
    fn add(&mut self, id: PageId) -> Result<SharedPage<'c>, StoreError> {
        debug_assert_eq!(id.space, self.space);
        let page = self.core.pool.load_pinned(id)?;
        self.pinned.push(id);
        Ok(page)
    }

    fn keep(mut self) {
        self.pinned.clear();
    }
}

impl Drop for Pins<'_> {
    fn drop(&mut self) {
        self.core.pool.unpin(self.pinned.drain(..));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn space(id: u32) -> Space {
        let map = SpaceMap::new(Vec::new(), 0, Vec::new(), Vec::new()).unwrap();
        Space::new(id, "t".into(), std::path::Path::new("t").into(), map)
    }

    /// Its pages would be pinned for the new map, and then unpinned for the old.
    #[test]
    fn a_map_that_leaves_is_not_made_before_its_pages_are_unpinned() {
        let spaces = Spaces::default();
        spaces.add(space(SYSTEM_SPACE));
        drop(spaces.add(space(1)));
        let used = spaces.add(space(2));
        let (idle, leaving) = spaces.take_idle().unwrap();
        assert_eq!(idle.id, 1);
        assert!(spaces.take_idle().is_none(), "{} is used", used.id);
        let (begin, begun) = mpsc::channel();
        std::thread::scope(|scope| {
            let spaces = &spaces;
            scope.spawn(move || {
                let loading = spaces.begin_loading(1);
                begin.send(loading.is_ok()).unwrap();
            });
            // Long enough to see it wait on most machines; on others it passes.
            let early = begun.recv_timeout(Duration::from_millis(100));
            assert!(early.is_err(), "{early:?}");
            drop(leaving);
            assert!(begun.recv().unwrap());
        });
    }
}
