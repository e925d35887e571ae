//! Mini-transactions: changes of a few pages that are logged as one.
//!
//! Space is taken and given back in memory while the mini-transaction runs; the
//! pages that record it are latched only at its end, in ascending order, after
//! everything else. So allocation is held up by nobody's descent of a tree, and
//! whoever holds a space page waits for no other latch but a higher one.

use crate::access::{MiniTransaction, Miss, PagesError};
use crate::core::Core;
use crate::ids::{EXTENT_PAGES, Lsn, PageId, SegmentId};
use crate::log::LogRoom;
use crate::page::{Op, header};
use crate::pool::ExclusivePage;
use crate::space::Space;
use crate::space::layout::{self, Extent, GROUP_EXTENTS, OWNER_NONE, OWNER_SHARED, SegmentEntry};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Pages' worth of log that a mini-transaction may write for pages that it
/// found, beside one for each that it allocates.
const LOG_PAGES: usize = 8;
/// What the changes of one row take in the log, mostly: so much is allocated at once.
const PAYLOAD_BYTES: usize = 1 << 10;
/// Pages that it latches: its leaf, and the two of an undo slot.
const LATCHED_EXPECTED: usize = 3;

/// Changes of some pages that become durable together or not at all.
///
/// Its record in the log may be as long as eight pages and one more for each
/// page that [`begin`](crate::access::Pages::begin) reserved. Given up after
/// its first change, or with a longer record, it fails the store: what it
/// changed reaches no file, and redo brings back what was before.
pub struct Mini<'a> {
    core: &'a Core,
    room: Option<LogRoom<'a>>,
    payload: Vec<u8>,
    payload_max: usize,
    latched: Vec<Latched<'a>>,
    /// Free frames for pages to be allocated.
    frames: Vec<u32>,
    stashes: Vec<Stash>,
    space_changes: Vec<SpaceChange>,
    /// An entry of the segment table to be cleared when its pages are free.
    cleared: Option<(PageId, SegmentEntry)>,
}

struct Latched<'a> {
    id: PageId,
    page: ExclusivePage<'a>,
    changed: bool,
    /// Allocated here: worthless unless changed.
    fresh: bool,
}

/// Pages taken for a segment and not yet given out.
struct Stash {
    segment: SegmentId,
    space: Arc<Space>,
    pages: Vec<u32>,
}

/// A page that changes hands.
struct SpaceChange {
    segment: SegmentId,
    space: Arc<Space>,
    page: u32,
    taken: bool,
}

/// Bytes of log that a mini-transaction must reserve.
pub(crate) fn log_bytes(page_bytes: usize, new_pages: usize) -> usize {
    (LOG_PAGES + new_pages) * (page_bytes + 256)
}

impl Core {
    /// A mini-transaction that allocates nothing by segment, but has `frames`
    /// free frames for pages of fixed numbers.
    pub(crate) fn begin_plain(&self, frames: usize) -> Result<Mini<'_>, PagesError> {
        let mut mini = Mini::new(self, frames);
        mini.reserve(frames)?;
        Ok(mini)
    }

    /// As [`Pages::begin`](crate::access::Pages::begin).
    pub(crate) fn begin(&self, segments: &[SegmentId], pages: u32) -> Result<Mini<'_>, PagesError> {
        let frames = segments.len() * pages as usize;
        let mut mini = Mini::new(self, frames);
        if frames > self.pool.take_max() {
            return Err(PagesError::NoSpace {
                space: segments[0].space,
                reason: format!(
                    "{frames} pages at once are more than a quarter of a pool of {}: make the \
                     pool larger",
                    self.pool.frames().len()
                ),
            });
        }
        for &segment in segments {
            let space = self.space(segment.space)?;
            let pages = self.take_pages(&space, segment.number, pages)?;
            // Into the mini-transaction at once, which gives them back if the
            // rest fails.
            mini.stashes.push(Stash {
                segment,
                space,
                pages,
            });
        }
        mini.reserve(frames)?;
        Ok(mini)
    }
}

impl<'a> Mini<'a> {
    fn new(core: &'a Core, new_pages: usize) -> Mini<'a> {
        Mini {
            core,
            room: None,
            payload: Vec::with_capacity(PAYLOAD_BYTES),
            payload_max: log_bytes(core.pool.page_bytes(), new_pages),
            latched: Vec::with_capacity(LATCHED_EXPECTED),
            frames: Vec::new(),
            stashes: Vec::new(),
            space_changes: Vec::new(),
            cleared: None,
        }
    }

    /// Room in the log first and frames last: a thread that waits for the log
    /// keeps no frames from those who could make room.
    fn reserve(&mut self, frames: usize) -> Result<(), PagesError> {
        let core = self.core;
        core.pool.failure.check()?;
        core.pool.hold_back();
        let room = core
            .log
            .reserve(self.payload_max, core.pool.is_behind())
            .map_err(|error| core.log_failed(error))?;
        self.room = Some(room);
        if frames > 0 {
            self.frames = core.pool.take(frames)?;
        }
        Ok(())
    }

    fn find(&self, id: PageId) -> Option<usize> {
        // The page in hand is mostly the one latched last.
        self.latched.iter().rposition(|latched| latched.id == id)
    }

    fn latched_mut(&mut self, id: PageId) -> &mut Latched<'a> {
        match self.find(id) {
            Some(index) => &mut self.latched[index],
            None => panic!("{id} is not latched"),
        }
    }

    /// Latches a page of a fixed number that was never in use.
    pub(crate) fn place(&mut self, id: PageId) {
        let frame = self.frames.pop().expect("a frame for each page reserved");
        let (page, back) = self.core.pool.place(id, frame);
        self.frames.extend(back);
        self.latched.push(Latched {
            id,
            page,
            changed: false,
            fresh: true,
        });
    }

    /// Keeps a latched page in memory.
    pub(crate) fn pin(&mut self, id: PageId) {
        let frame = self.latched_mut(id).page.frame;
        self.core.pool.pin_frame(frame);
    }

    /// Records a page of a shared extent as taken by `segment`, or given back.
    pub(crate) fn change_space(
        &mut self,
        space: &Arc<Space>,
        segment: SegmentId,
        page: u32,
        taken: bool,
    ) {
        self.space_changes.push(SpaceChange {
            segment,
            space: Arc::clone(space),
            page,
            taken,
        });
    }

    /// Clears the entry of a segment, all of whose pages are given back.
    pub(crate) fn clear_segment(&mut self, table: PageId, entry: SegmentEntry) {
        self.cleared = Some((table, entry));
    }

    /// Writes what pages changed hands to the pages that record it.
    fn record_space_changes(&mut self) {
        let page_bytes = self.core.pool.page_bytes();
        let changes = std::mem::take(&mut self.space_changes);
        let mut steps: Vec<(PageId, Step)> = Vec::with_capacity(2 * changes.len());
        for change in &changes {
            let id = change.segment.space;
            let map = change.space.map.lock();
            let extent = map.extent(change.page).expect("a page of the tablespace");
            if extent.owner == OWNER_SHARED {
                let number = change.segment.number;
                let index = number / layout::segments_per_page(page_bytes);
                let page = map.segment_pages[index as usize];
                let step = Step::Fragment {
                    segment: number,
                    page: change.page,
                    taken: change.taken,
                };
                steps.push((PageId::new(id, page), step));
            }
            let step = Step::Bit {
                owner: extent.owner,
                page: change.page,
                taken: change.taken,
            };
            let page = layout::extents_page(change.page);
            steps.push((PageId::new(id, page), step));
        }
        // Stable: a page that was taken and given back ends up free.
        steps.sort_by_key(|(id, _)| *id);
        for (id, step) in steps {
            self.exclusive(id).expect("space pages stay in memory");
            for (offset, bytes) in step
                .patches(self.page(id), page_bytes)
                .into_iter()
                .flatten()
            {
                self.apply(
                    id,
                    &Op::Patch {
                        offset,
                        bytes: &bytes,
                    },
                );
            }
        }
        self.space_changes = changes;
        if let Some((id, entry)) = self.cleared.take() {
            self.exclusive(id).expect("space pages stay in memory");
            let (offset, bytes) = entry.patch_used(false);
            let bytes = &bytes;
            self.apply(id, &Op::Patch { offset, bytes });
        }
    }

    fn has_changes(&self) -> bool {
        self.latched.iter().any(|latched| latched.changed)
    }

    /// Gives back what was reserved and not used.
    fn give_back(&mut self) {
        self.core.pool.give(self.frames.drain(..));
        for stash in self.stashes.drain(..) {
            let mut map = stash.space.map.lock();
            for page in stash.pages {
                map.give(Some(stash.segment.number), page);
            }
        }
    }
}

/// One change of one space page.
enum Step {
    Fragment {
        segment: u32,
        page: u32,
        taken: bool,
    },
    Bit {
        owner: u32,
        page: u32,
        taken: bool,
    },
}

impl Step {
    fn patches(&self, bytes: &[u8], page_bytes: usize) -> [Option<(u16, Vec<u8>)>; 2] {
        match *self {
            Step::Fragment {
                segment,
                page,
                taken,
            } => {
                let (old, new) = if taken { (0, page) } else { (page, 0) };
                let at = SegmentEntry::of(segment, page_bytes).find(bytes, old);
                let at =
                    at.expect("a segment's entry has its pages, and room for as many as may be");
                [Some((at, new.to_le_bytes().to_vec())), None]
            }
            Step::Bit { owner, page, taken } => {
                let index = page / EXTENT_PAGES % GROUP_EXTENTS;
                let before = Extent::read(bytes, index);
                let used = if taken {
                    before.used | layout::bit(page)
                } else {
                    before.used & !layout::bit(page)
                };
                let owner = if used == 0 { OWNER_NONE } else { owner };
                let [put_owner, put_used] = Extent { owner, used }.patches(index);
                let owner_changes = before.owner != owner;
                [owner_changes.then_some(put_owner), Some(put_used)]
            }
        }
    }
}

impl MiniTransaction for Mini<'_> {
    fn exclusive(&mut self, id: PageId) -> Result<(), Miss> {
        if self.find(id).is_none() {
            let page = self.core.pool.exclusive(id)?;
            self.latched.push(Latched {
                id,
                page,
                changed: false,
                fresh: false,
            });
        }
        Ok(())
    }

    fn page(&self, id: PageId) -> &[u8] {
        match self.find(id) {
            Some(index) => self.latched[index].page.slot.bytes(),
            None => panic!("{id} is not latched"),
        }
    }

    fn release(&mut self, id: PageId) {
        if let Some(index) = self.find(id) {
            assert!(
                !self.latched[index].changed && !self.latched[index].fresh,
                "{id} was changed: its latch is kept until commit"
            );
            self.latched.swap_remove(index);
        }
    }

    fn apply(&mut self, id: PageId, op: &Op<'_>) {
        let latched = self.latched_mut(id);
        if let Err(error) = op.apply(latched.page.slot.bytes_mut(), id) {
            panic!("{error}");
        }
        latched.changed = true;
        op.encode(id, &mut self.payload);
        assert!(
            self.payload.len() <= self.payload_max,
            "{} bytes of changes in a mini-transaction that reserved {}",
            self.payload.len(),
            self.payload_max
        );
    }

    fn allocate(&mut self, segment: SegmentId, hint: Option<PageId>) -> PageId {
        let stash = self
            .stashes
            .iter_mut()
            .find(|stash| stash.segment == segment && !stash.pages.is_empty());
        let stash = stash.expect("no more pages than begin reserved");
        let space = Arc::clone(&stash.space);
        let hint = hint.filter(|hint| hint.space == segment.space);
        let near = hint.and_then(|hint| {
            let nearest = |page: &u32| page.abs_diff(hint.page);
            let best = stash.pages.iter().min_by_key(|page| nearest(page))?;
            if nearest(best) < EXTENT_PAGES / 2 {
                return None;
            }
            space.map.lock().take_near(segment.number, hint.page)
        });
        let number = match (near, hint) {
            (Some(near), _) => {
                let unused = stash.pages.pop().expect("looked at above");
                space.map.lock().give(Some(segment.number), unused);
                near
            }
            (None, Some(hint)) => {
                let distances = stash.pages.iter().map(|page| page.abs_diff(hint.page));
                let nearest = distances.enumerate().min_by_key(|(_, distance)| *distance);
                let (index, _) = nearest.expect("looked at above");
                stash.pages.remove(index)
            }
            // In ascending order, as they were taken.
            (None, None) => stash.pages.remove(0),
        };
        self.change_space(&space, segment, number, true);
        let id = PageId::new(segment.space, number);
        self.place(id);
        id
    }

    fn free(&mut self, segment: SegmentId, id: PageId) {
        let mut stashes = self.stashes.iter();
        let named = stashes.find(|stash| stash.segment.space == segment.space);
        let space = match named {
            Some(stash) => Some(Arc::clone(&stash.space)),
            None => self.core.spaces.get(segment.space),
        };
        let space = space.expect("begin was told of whom pages are freed");
        self.change_space(&space, segment, id.page, false);
    }

    fn commit(mut self) -> Lsn {
        if !self.space_changes.is_empty() || self.cleared.is_some() {
            self.record_space_changes();
        }
        if !self.has_changes() {
            return Lsn(0);
        }
        let core = self.core;
        let room = self.room.take().expect("reserved by begin");
        let frames = core.pool.frames();
        let latched = &self.latched;
        let (_, end) = core.log.append(room, &self.payload, |start, end| {
            let changed = latched.iter().filter(|latched| latched.changed);
            let changed = changed.map(|latched| latched.page.frame);
            core.pool.dirty.mark(frames, changed, start, end);
        });
        for latched in &mut self.latched {
            if latched.changed {
                header::set_lsn(latched.page.slot.bytes_mut(), end);
                latched.changed = false;
            } else if latched.fresh {
                core.pool.discard(&mut latched.page);
            }
            latched.fresh = false;
        }
        core.changes.fetch_add(1, Ordering::Relaxed);
        // While the space pages are latched: what is free in memory is free on
        // them too.
        for change in self.space_changes.drain(..) {
            if !change.taken {
                let mut map = change.space.map.lock();
                map.give(Some(change.segment.number), change.page);
            }
        }
        end
    }
}

impl Drop for Mini<'_> {
    fn drop(&mut self) {
        if self.has_changes() {
            let reason = "a mini-transaction was given up after its first change";
            // What it changed must reach neither file nor reader.
            self.core.fail(reason.to_owned());
            for latched in &mut self.latched {
                self.core.pool.conceal(&mut latched.page);
            }
            if !std::thread::panicking() {
                panic!("{reason}");
            }
        }
        for latched in &mut self.latched {
            if latched.fresh {
                self.core.pool.discard(&mut latched.page);
            }
        }
        for change in self.space_changes.drain(..) {
            if change.taken {
                let mut map = change.space.map.lock();
                map.give(Some(change.segment.number), change.page);
            }
        }
        self.give_back();
    }
}
