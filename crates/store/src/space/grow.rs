//! Taking pages for segments; making the file longer when there are none.

use super::Space;
use super::layout::{self, EXTENT_PLACE, GROUP_PAGES, HEADER_PAGE};
use crate::access::{MiniTransaction, PagesError};
use crate::core::Core;
use crate::error::StoreError;
use crate::ids::{EXTENT_PAGES, PageId};
use crate::ledger::{FileClass, tag};
use crate::page::Op;
use crate::page::header::PageKind;
use crate::policy::Role;
use crate::stream::{role_of, role_of_load};
use iolane::OpenOptions;
use std::path::Path;
use std::sync::Arc;

/// A file grows by this share of its size ...
const GROW_SHARE: u32 = 16;
/// ... while a load fills it, by what that needs; if nobody knows, by a larger
/// one, as it is synced each time: what is not used when the load ends is on the
/// disk for nothing ...
const GROW_SHARE_OF_MANY: u32 = 8;
/// ... but by no more than this at once: whoever asked waits for it.
const GROW_BYTES_MAX: u64 = 64 << 20;
/// Most pages of a file: the last number of a whole group.
const PAGES_MAX: u32 = u32::MAX / GROUP_PAGES * GROUP_PAGES;

/// What a tablespace holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpaceStatistics {
    /// Its number.
    pub space: u32,
    /// Its name.
    pub name: String,
    /// Pages that the file has.
    pub pages: u64,
    /// Of these, in use.
    pub used: u64,
}

impl Space {
    pub(crate) fn statistics(&self) -> SpaceStatistics {
        let map = self.map.lock();
        SpaceStatistics {
            space: self.id,
            name: self.name.to_string(),
            pages: u64::from(map.size_pages()),
            used: map.used_pages(),
        }
    }
}

impl Core {
    /// Takes `count` pages for a segment, all or none, and makes the file
    /// longer if need be. The caller holds no latch.
    pub(crate) fn take_pages(
        &self,
        space: &Arc<Space>,
        segment: u32,
        count: u32,
    ) -> Result<Vec<u32>, PagesError> {
        let wanted = |size| share_of(size, GROW_SHARE);
        self.take_pages_growing(space, segment, count, role_of(Role::Space), wanted)
    }

    /// The same for a load, which will take many more: so many, about, if that
    /// is known.
    pub(crate) fn take_pages_of_many(
        &self,
        space: &Arc<Space>,
        segment: u32,
        count: u32,
        more: Option<u64>,
    ) -> Result<Vec<u32>, PagesError> {
        let wanted = |size| match more {
            None => share_of(size, GROW_SHARE_OF_MANY),
            Some(more) => {
                let more = more.min(u64::from(PAGES_MAX)) as u32;
                more.next_multiple_of(EXTENT_PAGES)
                    .max(share_of(size, GROW_SHARE))
            }
        };
        self.take_pages_growing(space, segment, count, role_of_load(Role::Space), wanted)
    }

    fn take_pages_growing(
        &self,
        space: &Arc<Space>,
        segment: u32,
        count: u32,
        role: Role,
        wanted: impl Fn(u32) -> u32,
    ) -> Result<Vec<u32>, PagesError> {
        if !space.map.lock().has_segment(segment) {
            return Err(PagesError::NoSpace {
                space: space.id,
                reason: format!("there is no segment {segment}"),
            });
        }
        let mut pages = Vec::with_capacity(count as usize);
        while (pages.len() as u32) < count {
            let (taken, size) = {
                let mut map = space.map.lock();
                (map.take(segment, pages.last().copied()), map.size_pages())
            };
            match taken {
                Some(page) => pages.push(page),
                None => {
                    if let Err(error) = self.grow_by(space, size, wanted(size), role) {
                        let mut map = space.map.lock();
                        for page in pages {
                            map.give(Some(segment), page);
                        }
                        return Err(error);
                    }
                }
            }
        }
        Ok(pages)
    }

    /// Makes a file longer, unless it is longer than `size` pages already.
    pub(crate) fn grow(&self, space: &Arc<Space>, size: u32) -> Result<(), PagesError> {
        self.grow_by(
            space,
            size,
            share_of(size, GROW_SHARE),
            role_of(Role::Space),
        )
    }

    fn grow_by(
        &self,
        space: &Arc<Space>,
        size: u32,
        wanted: u32,
        role: Role,
    ) -> Result<(), PagesError> {
        let _one_at_a_time = space.growth.lock();
        if space.map.lock().size_pages() > size {
            return Ok(());
        }
        let bytes_max = GROW_BYTES_MAX / self.pool.page_bytes() as u64;
        if size >= PAGES_MAX {
            return Err(self.no_room(space, "the file has as many pages as can be numbered"));
        }
        let least = next_size(size);
        let mut target = match wanted.min(bytes_max as u32) {
            wanted if wanted < EXTENT_PAGES => least,
            wanted => (size.next_multiple_of(EXTENT_PAGES))
                .saturating_add(wanted)
                .min(PAGES_MAX),
        };
        if let Err(first) = self.extend(&space.path, target, role) {
            self.fail_if_unsynced(&first)?;
            if target == least {
                return Err(self.no_room(space, &first.to_string()));
            }
            target = least;
            if let Err(second) = self.extend(&space.path, target, role) {
                self.fail_if_unsynced(&second)?;
                return Err(self.no_room(space, &first.to_string()));
            }
        }
        self.record_growth(space, size, target)?;
        space.map.lock().grow(target);
        Ok(())
    }

    /// After a sync that failed nobody knows what of the file is on the disk.
    fn fail_if_unsynced(&self, error: &StoreError) -> Result<(), PagesError> {
        if let StoreError::Io(error) = error {
            self.fail(error.to_string());
        }
        self.pool.failure.check()
    }

    fn no_room(&self, space: &Space, reason: &str) -> PagesError {
        PagesError::NoSpace {
            space: space.id,
            reason: reason.to_owned(),
        }
    }

    /// Allocates a file's blocks up to `pages`, and makes its length durable: a
    /// header that says so may reach its place at any time afterwards.
    pub(crate) fn extend(&self, path: &Path, pages: u32, role: Role) -> Result<(), StoreError> {
        let bytes = u64::from(pages) * self.pool.page_bytes() as u64;
        let mut options = OpenOptions::new();
        options.read(true).write(true).size(bytes);
        let file = self.engine.open(path, &options)?;
        let file = file.tagged(tag(Role::Space, FileClass::Data));
        let level = self.pool.files.policy.level(role);
        Ok(file.sync(level)?)
    }

    /// Logs that a file has grown, with an extents page for each new group.
    fn record_growth(&self, space: &Space, from: u32, to: u32) -> Result<(), PagesError> {
        let groups = from.div_ceil(GROUP_PAGES)..to.div_ceil(GROUP_PAGES);
        self.make_room_for_maps(space.id, groups.len())?;
        let mut mini = self.begin_plain(groups.len())?;
        let head = PageId::new(space.id, HEADER_PAGE);
        mini.exclusive(head).expect("space pages stay in memory");
        mini.apply(
            head,
            &Op::Patch {
                offset: layout::at::SIZE_PAGES as u16,
                bytes: &to.to_le_bytes(),
            },
        );
        for group in groups {
            let id = PageId::new(space.id, group * GROUP_PAGES + EXTENT_PLACE);
            mini.place(id);
            mini.apply(
                id,
                &Op::Format {
                    kind: PageKind::Extents,
                    level: 0,
                    owner: 0,
                },
            );
            for (offset, bytes) in layout::Extent::of_new(0).patches(0) {
                let bytes = &bytes;
                mini.apply(id, &Op::Patch { offset, bytes });
            }
            mini.pin(id);
        }
        mini.commit();
        Ok(())
    }
}

/// The least that a file of `size` pages can grow to: twice as many as long as
/// that is less than an extent, then one extent more.
fn next_size(size: u32) -> u32 {
    match size < EXTENT_PAGES {
        true => (2 * size).min(EXTENT_PAGES),
        false => size + EXTENT_PAGES,
    }
}

/// So much of `size` pages, in whole extents.
fn share_of(size: u32, share: u32) -> u32 {
    size / share / EXTENT_PAGES * EXTENT_PAGES
}
