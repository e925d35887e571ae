//! Which pages of a tablespace are free, in memory.
//!
//! Made from the extents pages when a tablespace is opened. A page is taken
//! here when a mini-transaction begins, and on the extents page when it
//! commits; it is given back here after the commit that frees it. So what is
//! free here is free on the extents page too, and nothing taken here is given
//! to two.

use super::layout::{
    EXTENT_PLACE, Extent, FRAGMENTS_MAX, GROUP_EXTENTS, GROUP_PAGES, HEADER_PAGE, OWNER_NONE,
    OWNER_SHARED, bit, owner_of,
};
use crate::ids::EXTENT_PAGES;
use std::collections::BTreeSet;

/// The map of one tablespace.
pub(crate) struct SpaceMap {
    /// The last one may be shorter than an extent, if it is the first.
    extents: Vec<Extent>,
    size_pages: u32,
    free: BTreeSet<u32>,
    shared_with_room: BTreeSet<u32>,
    segments: Vec<Option<Segment>>,
    /// Pages of the segment table.
    pub(crate) segment_pages: Vec<u32>,
}

#[derive(Default)]
struct Segment {
    /// Its pages in shared extents.
    fragments: usize,
    /// Its extents in which pages are free.
    with_room: BTreeSet<u32>,
    /// Nothing is given to it any more.
    closed: bool,
}

impl SpaceMap {
    /// A map of `extents` of a file of `size_pages`; `segments` tells of each number how many fragments
    /// it has, `None` for those not in use.
    ///
    /// # Errors
    /// An extent of a segment that does not exist.
    pub(crate) fn new(
        extents: Vec<Extent>,
        size_pages: u32,
        segments: Vec<Option<usize>>,
        segment_pages: Vec<u32>,
    ) -> Result<SpaceMap, String> {
        let segments = segments.into_iter().map(|fragments| {
            fragments.map(|fragments| Segment {
                fragments,
                ..Segment::default()
            })
        });
        let mut map = SpaceMap {
            extents: Vec::new(),
            size_pages,
            free: BTreeSet::new(),
            shared_with_room: BTreeSet::new(),
            segments: segments.collect(),
            segment_pages,
        };
        for (number, extent) in extents.into_iter().enumerate() {
            let owner = extent.owner;
            let known = matches!(owner, OWNER_NONE | OWNER_SHARED)
                || map
                    .segments
                    .get(owner as usize - 1)
                    .is_some_and(Option::is_some);
            if !known {
                return Err(format!(
                    "extent {number} belongs to segment {}, which does not exist",
                    owner - 1
                ));
            }
            map.extents.push(extent);
            map.index(number as u32);
        }
        Ok(map)
    }

    pub(crate) fn size_pages(&self) -> u32 {
        self.size_pages
    }

    /// The pages that record what the map says.
    pub(crate) fn own_pages(&self) -> impl Iterator<Item = u32> + '_ {
        let groups = 0..self.size_pages.div_ceil(GROUP_PAGES);
        let extents = groups.map(|group| group * GROUP_PAGES + EXTENT_PLACE);
        let others = std::iter::once(HEADER_PAGE).chain(extents);
        others.chain(self.segment_pages.iter().copied())
    }

    /// Those of an extent's pages that the file does not have.
    fn beyond(&self, number: u32) -> u64 {
        let pages = self.size_pages - number * EXTENT_PAGES;
        match pages < EXTENT_PAGES {
            true => u64::MAX << pages,
            false => 0,
        }
    }

    pub(crate) fn extent(&self, page: u32) -> Option<Extent> {
        self.extents.get((page / EXTENT_PAGES) as usize).copied()
    }

    /// The file has grown to `size_pages`. The first extent of each group is
    /// shared, as it has the group's extents page.
    pub(crate) fn grow(&mut self, size_pages: u32) {
        self.size_pages = size_pages;
        if let Some(last) = self.extents.len().checked_sub(1) {
            self.index(last as u32);
        }
        while (self.extents.len() as u32) < size_pages.div_ceil(EXTENT_PAGES) {
            let number = self.extents.len() as u32;
            self.extents.push(Extent::of_new(number));
            self.index(number);
        }
    }

    /// Puts an extent into the set in which it is to be found.
    fn index(&mut self, number: u32) {
        let extent = self.extents[number as usize];
        let has_room = extent.used | self.beyond(number) != u64::MAX;
        match extent.owner {
            OWNER_NONE => {
                self.free.insert(number);
            }
            OWNER_SHARED => {
                if has_room {
                    self.shared_with_room.insert(number);
                } else {
                    self.shared_with_room.remove(&number);
                }
            }
            owner => {
                if let Some(Some(segment)) = self.segments.get_mut(owner as usize - 1) {
                    if has_room {
                        segment.with_room.insert(number);
                    } else {
                        segment.with_room.remove(&number);
                    }
                }
            }
        }
    }

    /// Takes a page for a segment, near `hint` where there is room. `None`:
    /// the file must grow.
    ///
    /// # Panics
    /// If there is no such segment.
    pub(crate) fn take(&mut self, number: u32, hint: Option<u32>) -> Option<u32> {
        let segment = self.segments[number as usize]
            .as_ref()
            .expect("a segment that exists");
        assert!(!segment.closed, "pages for a segment that is being dropped");
        if let Some(page) = hint.and_then(|hint| self.take_near(number, hint)) {
            return Some(page);
        }
        let segment = self.segments[number as usize]
            .as_ref()
            .expect("looked at above");
        if let Some(&extent) = segment.with_room.first() {
            return Some(self.take_in(extent, 0));
        }
        if segment.fragments < FRAGMENTS_MAX
            && let Some(page) = self.take_shared()
        {
            let segment = self.segments[number as usize].as_mut();
            segment.expect("looked at above").fragments += 1;
            return Some(page);
        }
        let extent = self.free.pop_first()?;
        self.extents[extent as usize].owner = owner_of(number);
        Some(self.take_in(extent, 0))
    }

    /// Takes a page in the same extent as `hint`, or else in the one behind it,
    /// if these are the segment's.
    pub(crate) fn take_near(&mut self, number: u32, hint: u32) -> Option<u32> {
        let at = hint / EXTENT_PAGES;
        let mine = [at, at + 1].into_iter().find(|&extent| {
            let extent = self.extents.get(extent as usize);
            extent.is_some_and(|extent| extent.owner == owner_of(number) && extent.used != u64::MAX)
        })?;
        let from = if mine == at { hint % EXTENT_PAGES } else { 0 };
        Some(self.take_in(mine, from))
    }

    /// Takes a page of a shared extent: a free extent becomes one at need.
    pub(crate) fn take_shared(&mut self) -> Option<u32> {
        let extent = match self.shared_with_room.first() {
            Some(&extent) => extent,
            None => {
                let extent = self.free.pop_first()?;
                self.extents[extent as usize].owner = OWNER_SHARED;
                extent
            }
        };
        Some(self.take_in(extent, 0))
    }

    /// Takes a free page of an extent, at `from` or behind it if there is one.
    fn take_in(&mut self, number: u32, from: u32) -> u32 {
        let beyond = self.beyond(number);
        let extent = &mut self.extents[number as usize];
        let free = !(extent.used | beyond);
        let behind = free & (u64::MAX << from);
        let chosen = if behind != 0 { behind } else { free }.trailing_zeros();
        assert!(chosen < EXTENT_PAGES, "a page of a full extent");
        extent.used |= 1 << chosen;
        self.index(number);
        number * EXTENT_PAGES + chosen
    }

    /// A page is free again. `segment` is `None` for a page of nobody's.
    pub(crate) fn give(&mut self, segment: Option<u32>, page: u32) {
        let number = page / EXTENT_PAGES;
        let extent = &mut self.extents[number as usize];
        assert!(extent.used & bit(page) != 0, "page {page} is free already");
        extent.used &= !bit(page);
        let owner = extent.owner;
        if extent.used == 0 {
            extent.owner = OWNER_NONE;
            self.shared_with_room.remove(&number);
            if let Some(Some(owner)) = (owner as usize)
                .checked_sub(1)
                .and_then(|owner| self.segments.get_mut(owner))
            {
                owner.with_room.remove(&number);
            }
        }
        if owner == OWNER_SHARED
            && let Some(Some(segment)) = segment.map(|number| &mut self.segments[number as usize])
        {
            segment.fragments -= 1;
        }
        self.index(number);
    }

    /// The lowest segment number that is not in use.
    pub(crate) fn unused_segment(&self) -> u32 {
        let unused = self.segments.iter().position(Option::is_none);
        unused.unwrap_or(self.segments.len()) as u32
    }

    pub(crate) fn has_segment(&self, number: u32) -> bool {
        matches!(self.segments.get(number as usize), Some(Some(segment)) if !segment.closed)
    }

    pub(crate) fn add_segment(&mut self, number: u32) {
        let number = number as usize;
        if self.segments.len() <= number {
            self.segments.resize_with(number + 1, || None);
        }
        self.segments[number] = Some(Segment::default());
    }

    /// Nothing more is given to a segment. `false` if there is none.
    pub(crate) fn close_segment(&mut self, number: u32) -> bool {
        match self.segments.get_mut(number as usize) {
            Some(Some(segment)) => {
                segment.closed = true;
                true
            }
            _ => false,
        }
    }

    pub(crate) fn remove_segment(&mut self, number: u32) {
        self.segments[number as usize] = None;
    }

    /// The pages in use in whole extents of a segment.
    pub(crate) fn pages_of(&self, number: u32) -> Vec<u32> {
        let mine = self.extents.iter().enumerate();
        mine.filter(|(_, extent)| extent.owner == owner_of(number))
            .flat_map(|(index, extent)| {
                let first = index as u32 * EXTENT_PAGES;
                let used = extent.used;
                (first..first + EXTENT_PAGES).filter(move |&page| used & bit(page) != 0)
            })
            .collect()
    }

    /// Pages in use.
    pub(crate) fn used_pages(&self) -> u64 {
        let used = self.extents.iter().map(|extent| extent.used.count_ones());
        used.map(u64::from).sum()
    }
}

impl Extent {
    /// An extent that a file has just got.
    pub(crate) fn of_new(number: u32) -> Extent {
        if number.is_multiple_of(GROUP_EXTENTS) {
            Extent {
                owner: OWNER_SHARED,
                used: 0b10,
            }
        } else {
            Extent {
                owner: OWNER_NONE,
                used: 0,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    fn empty(extents: u32) -> SpaceMap {
        let mut map = SpaceMap::new(Vec::new(), 0, vec![Some(0), Some(0)], vec![2]).unwrap();
        map.grow(extents * EXTENT_PAGES);
        map
    }

    #[test]
    fn small_segments_share_extents_and_large_ones_do_not() {
        let mut map = empty(4);
        let mut of = |segment| {
            let page = map.take(segment, None).unwrap();
            page / EXTENT_PAGES
        };
        for _ in 0..FRAGMENTS_MAX / 2 {
            assert_eq!((of(0), of(1)), (0, 0));
        }
        for _ in 0..FRAGMENTS_MAX / 2 {
            of(0);
        }
        // Its 33rd page begins an extent of its own.
        assert_eq!((of(0), of(0)), (1, 1));
        assert!(map.pages_of(0).len() == 2 && map.pages_of(1).is_empty());
    }

    /// A new file has less than an extent.
    #[test]
    fn no_page_behind_the_end_is_given() {
        let first = Extent {
            owner: OWNER_SHARED,
            used: 0b111,
        };
        let mut map = SpaceMap::new(vec![first], 8, vec![Some(0), Some(0)], vec![2]).unwrap();
        let mut taken: Vec<u32> = std::iter::from_fn(|| map.take(0, Some(3))).collect();
        assert_eq!(taken, [3, 4, 5, 6, 7]);
        map.grow(16);
        taken.extend(std::iter::from_fn(|| map.take(1, None)));
        assert_eq!(taken.last(), Some(&15));
        assert_eq!((map.used_pages(), map.size_pages()), (16, 16));
        map.grow(3 * EXTENT_PAGES);
        assert_eq!(map.take(0, None), Some(16));
        map.give(Some(1), 15);
        assert_eq!(map.take(1, None), Some(15));
    }

    #[test]
    fn a_hint_is_followed_where_there_is_room() {
        let mut map = empty(3);
        for _ in 0..=FRAGMENTS_MAX {
            map.take(0, None).unwrap();
        }
        let first = map.pages_of(0)[0];
        assert_eq!(map.take(0, Some(first + 20)), Some(first + 20));
        assert_eq!(map.take(0, Some(first + 20)), Some(first + 21));
        // Another segment's hint into that extent is not.
        assert_ne!(map.take(1, Some(first + 30)), Some(first + 30));
    }

    #[test]
    fn an_extent_of_nobody_is_refused() {
        let extent = Extent { owner: 6, used: 1 };
        let refused = SpaceMap::new(vec![extent], EXTENT_PAGES, vec![None; 9], vec![2]).err();
        assert!(refused.unwrap().contains("segment 5"));
    }

    proptest! {
        /// No page is given twice, all can be had, all come back.
        #[test]
        fn pages_are_given_once(steps in proptest::collection::vec((0..2u32, 0..3u8, any::<u16>()), 1..400)) {
            let mut map = empty(4);
            let fresh = map.used_pages();
            let mut held: HashMap<u32, u32> = HashMap::new();
            for (segment, step, pick) in steps {
                if step == 0 && !held.is_empty() {
                    let page = *held.keys().nth(usize::from(pick) % held.len()).unwrap();
                    let owner = held.remove(&page).unwrap();
                    map.give(Some(owner), page);
                } else if let Some(page) = map.take(segment, Some(u32::from(pick) % 256)) {
                    prop_assert!(page < 256 && page != 1);
                    prop_assert_eq!(held.insert(page, segment), None);
                }
                prop_assert_eq!(map.used_pages(), fresh + held.len() as u64);
            }
            for (page, owner) in held.drain() {
                map.give(Some(owner), page);
            }
            prop_assert_eq!(map.used_pages(), fresh);
            prop_assert_eq!(map.free.len(), 3);
            prop_assert!(map.segments.iter().flatten().all(|segment| segment.fragments == 0));
        }
    }
}
