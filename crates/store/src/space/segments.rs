//! Making and dropping segments.

use super::Space;
use super::layout::{
    self, EXTENT_PLACE, Extent, GROUP_EXTENTS, GROUP_PAGES, HEADER_PAGE, OWNER_NONE, SegmentEntry,
    owner_of,
};
use crate::access::{MiniTransaction, PagesError};
use crate::core::Core;
use crate::ids::{PageId, SegmentId};
use crate::mini::Mini;
use crate::page::Op;
use crate::page::header::PageKind;
use std::sync::Arc;

fn patch(mini: &mut Mini<'_>, id: PageId, (offset, bytes): (u16, Vec<u8>)) {
    let bytes = &bytes;
    mini.apply(id, &Op::Patch { offset, bytes });
}

impl Core {
    /// Makes a segment without pages.
    pub(crate) fn create_segment(&self, space: u32) -> Result<SegmentId, PagesError> {
        let space = self.space(space)?;
        loop {
            if let Some(number) = self.try_create_segment(&space)? {
                return Ok(SegmentId {
                    space: space.id,
                    number,
                });
            }
            let size = space.map.lock().size_pages();
            self.grow(&space, size)?;
        }
    }

    /// `None`: the file must grow first.
    fn try_create_segment(&self, space: &Arc<Space>) -> Result<Option<u32>, PagesError> {
        let page_bytes = self.pool.page_bytes();
        let _one_at_a_time = space.growth.lock();
        let (number, table) = {
            let map = space.map.lock();
            let number = map.unused_segment();
            let index = number / layout::segments_per_page(page_bytes);
            (number, map.segment_pages.get(index as usize).copied())
        };
        if table.is_none() {
            self.make_room_for_maps(space.id, 1)?;
        }
        let mut mini = self.begin_plain(1)?;
        let table = match table {
            Some(table) => table,
            None => match self.lengthen_table(space, &mut mini)? {
                Some(table) => table,
                None => return Ok(None),
            },
        };
        let id = PageId::new(space.id, table);
        mini.exclusive(id).expect("space pages stay in memory");
        let entry = SegmentEntry::of(number, page_bytes);
        patch(&mut mini, id, entry.patch_used(true));
        mini.commit();
        space.map.lock().add_segment(number);
        Ok(Some(number))
    }

    /// Gives the segment table one more page. Nothing was changed when it
    /// fails, or returns `None`, as there is no free page.
    fn lengthen_table(
        &self,
        space: &Arc<Space>,
        mini: &mut Mini<'_>,
    ) -> Result<Option<u32>, PagesError> {
        let (table, index) = {
            let mut map = space.map.lock();
            let count = map.segment_pages.len();
            if count >= layout::segment_pages_max(self.pool.page_bytes()) {
                return Err(PagesError::NoSpace {
                    space: space.id,
                    reason: "its table of segments can have no more pages".to_owned(),
                });
            }
            let Some(table) = map.take_shared() else {
                return Ok(None);
            };
            map.segment_pages.push(table);
            (table, count)
        };
        let head = PageId::new(space.id, HEADER_PAGE);
        let extents = PageId::new(space.id, layout::extents_page(table));
        for id in [head, extents] {
            mini.exclusive(id).expect("space pages stay in memory");
        }
        let count = (index as u32 + 1).to_le_bytes().to_vec();
        let at = layout::at::SEGMENT_PAGES + 4 * index;
        patch(mini, head, (layout::at::SEGMENT_PAGES_COUNT as u16, count));
        patch(mini, head, (at as u16, table.to_le_bytes().to_vec()));
        let place = table / crate::ids::EXTENT_PAGES % GROUP_EXTENTS;
        let mut extent = Extent::read(mini.page(extents), place);
        extent.owner = layout::OWNER_SHARED;
        extent.used |= layout::bit(table);
        for change in extent.patches(place) {
            patch(mini, extents, change);
        }
        let id = PageId::new(space.id, table);
        mini.place(id);
        mini.apply(
            id,
            &Op::Format {
                kind: PageKind::Segments,
                level: 0,
                owner: 0,
            },
        );
        mini.pin(id);
        Ok(Some(table))
    }

    /// Frees all pages of a segment, and the segment. In several steps: after
    /// a crash between them it is still there, with fewer pages, and is to be
    /// dropped again. Nobody may use it meanwhile.
    pub(crate) fn drop_segment(&self, segment: SegmentId) -> Result<(), PagesError> {
        let space = self.space(segment.space)?;
        let _one_at_a_time = space.growth.lock();
        if !space.map.lock().close_segment(segment.number) {
            return Ok(());
        }
        let groups = space.map.lock().size_pages().div_ceil(GROUP_PAGES);
        for group in 0..groups {
            self.free_extents(&space, segment.number, group)?;
        }
        self.free_entry(&space, segment)?;
        space.map.lock().remove_segment(segment.number);
        Ok(())
    }

    /// Frees a segment's extents of one group.
    fn free_extents(&self, space: &Space, segment: u32, group: u32) -> Result<(), PagesError> {
        let id = PageId::new(space.id, group * GROUP_PAGES + EXTENT_PLACE);
        let mut mini = self.begin_plain(0)?;
        mini.exclusive(id).expect("space pages stay in memory");
        let mine: Vec<u32> = (0..GROUP_EXTENTS)
            .filter(|&index| Extent::read(mini.page(id), index).owner == owner_of(segment))
            .collect();
        for &index in &mine {
            let free = Extent {
                owner: OWNER_NONE,
                used: 0,
            };
            for change in free.patches(index) {
                patch(&mut mini, id, change);
            }
        }
        mini.commit();
        let mut map = space.map.lock();
        for page in map.pages_of(segment) {
            if page / GROUP_PAGES == group {
                map.give(Some(segment), page);
            }
        }
        Ok(())
    }

    /// The pages of a segment, ascending; none of a tablespace that cannot be
    /// used. No mini-transaction is running.
    pub(crate) fn pages_of(&self, segment: SegmentId) -> Vec<u32> {
        let Ok(space) = self.space(segment.space) else {
            return Vec::new();
        };
        let page_bytes = self.pool.page_bytes();
        let index = segment.number / layout::segments_per_page(page_bytes);
        let (mut pages, table) = {
            let map = space.map.lock();
            let table = map.segment_pages.get(index as usize).copied();
            (map.pages_of(segment.number), table)
        };
        if let Some(table) = table {
            let id = PageId::new(space.id, table);
            let page = self.pool.shared(id).expect("space pages stay in memory");
            pages.extend(SegmentEntry::of(segment.number, page_bytes).fragments(&page));
        }
        pages.sort_unstable();
        pages
    }

    /// Frees a segment's single pages and its entry in the table, as one.
    fn free_entry(&self, space: &Arc<Space>, segment: SegmentId) -> Result<(), PagesError> {
        let page_bytes = self.pool.page_bytes();
        let index = segment.number / layout::segments_per_page(page_bytes);
        let table = space.map.lock().segment_pages[index as usize];
        let id = PageId::new(space.id, table);
        let entry = SegmentEntry::of(segment.number, page_bytes);
        let single = {
            let page = self.pool.shared(id).expect("space pages stay in memory");
            entry.fragments(&page)
        };
        let mut mini = self.begin_plain(0)?;
        for page in single {
            mini.change_space(space, segment, page, false);
        }
        mini.clear_segment(id, entry);
        mini.commit();
        Ok(())
    }
}
