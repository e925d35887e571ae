//! Which page leaves memory next: S3-FIFO.
//!
//! From Yang, Zhang, Qiu, Yue and Rashmi, "FIFO Queues are All You Need for
//! Cache Eviction", SOSP 2023. A page enters a small queue, a tenth of the
//! frames. When it comes to that queue's end it goes to the main queue if it
//! was used more than once, else it leaves and its number is remembered for a
//! while; a page that comes back while remembered enters the main queue at
//! once. The main queue gives each page as many more rounds as it was used, at
//! most three.
//!
//! Why this and not 2Q or LRU: a hit only raises a counter in the frame, so
//! that readers share no list and no lock; and a scan of any length passes
//! through the small queue without touching the rest.
//!
//! A page that is found at the end but was changed leaves its queue for the
//! `cleaning` list, from which the flusher writes it. While that is full, it goes
//! to the main queue.

use super::frame::Frame;
use super::table::PageMap;
use crate::ids::PageId;
use std::collections::VecDeque;

/// Small queue: 1/10 of the frames, as the paper found best.
const SMALL_SHARE: usize = 10;
/// Uses that move a page from the small queue to the main one.
const PROMOTE_ABOVE: u8 = 1;

/// What came of the attempt to free a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attempt {
    /// It is free; the page, if it held one, may be remembered.
    Freed(Option<PageId>),
    /// Latched, read or written just now; or never to leave.
    Busy,
    /// Changed: to be written first.
    Dirty,
}

/// The queues. Under one lock, which is taken once per miss.
pub(crate) struct Replacement {
    small: VecDeque<u32>,
    main: VecDeque<u32>,
    cleaning: VecDeque<u32>,
    cleaning_max: usize,
    small_target: usize,
    ghosts: Ghosts,
}

impl Replacement {
    /// For `frames` frames, of which `cleaning_max` may wait to be written.
    pub(crate) fn new(frames: usize, cleaning_max: usize) -> Replacement {
        let small_target = Replacement::small_target(frames);
        Replacement {
            small: VecDeque::with_capacity(frames),
            main: VecDeque::with_capacity(frames),
            cleaning: VecDeque::new(),
            cleaning_max,
            small_target,
            ghosts: Ghosts::new(frames - small_target),
        }
    }

    /// A frame was given to a page.
    pub(crate) fn insert(&mut self, frame: u32, id: PageId) {
        if self.ghosts.take(id) {
            self.main.push_back(frame);
        } else {
            self.small.push_back(frame);
        }
    }

    /// A frame of a page that is not likely to be used again while others are: it
    /// is the next of the small queue to leave.
    pub(crate) fn insert_first(&mut self, frame: u32, id: PageId) {
        self.ghosts.take(id);
        self.small.push_front(frame);
    }

    /// A frame that was not freed after its page was written.
    pub(crate) fn keep(&mut self, frame: u32) {
        self.main.push_back(frame);
    }

    /// Looks at up to `tries` frames in the order in which they should leave,
    /// and returns the first that `attempt` can free.
    pub(crate) fn evict(
        &mut self,
        tries: usize,
        frames: &[Frame],
        mut attempt: impl FnMut(u32) -> Attempt,
    ) -> Option<u32> {
        // Pages of the main queue that stay, one after the other.
        let mut staying = 0;
        for _ in 0..tries {
            let enough = self.small.len() >= self.small_target;
            let from_small = enough || (staying >= self.main.len() && !self.small.is_empty());
            let queue = if from_small {
                &mut self.small
            } else {
                &mut self.main
            };
            let frame = queue.pop_front()?;
            let uses = frames[frame as usize].frequency();
            if from_small && uses > PROMOTE_ABOVE {
                frames[frame as usize].set_frequency(0);
                self.main.push_back(frame);
                continue;
            }
            if !from_small && uses > 0 {
                frames[frame as usize].set_frequency(uses - 1);
                self.main.push_back(frame);
                continue;
            }
            match attempt(frame) {
                Attempt::Freed(page) => {
                    if let (true, Some(id)) = (from_small, page) {
                        self.ghosts.remember(id);
                    }
                    return Some(frame);
                }
                Attempt::Dirty if self.cleaning.len() < self.cleaning_max => {
                    frames[frame as usize].set_frequency(0);
                    self.cleaning.push_back(frame);
                }
                // Out of the small queue: while that is full of pages that stay,
                // pinned or changed ones, nobody would look at the main queue. And
                // it gives these more time to be written.
                Attempt::Dirty | Attempt::Busy => {
                    staying += usize::from(!from_small);
                    self.main.push_back(frame);
                }
            }
        }
        None
    }

    /// Frames that the small queue should have.
    pub(crate) fn small_target(frames: usize) -> usize {
        (frames / SMALL_SHARE).max(1)
    }

    /// Frames in either queue.
    pub(crate) fn len(&self) -> usize {
        self.small.len() + self.main.len()
    }

    /// How many wait to be written before they can leave.
    pub(crate) fn cleaning(&self) -> usize {
        self.cleaning.len()
    }

    /// No more can wait there.
    pub(crate) fn is_cleaning_full(&self) -> bool {
        self.cleaning.len() >= self.cleaning_max
    }

    /// Takes up to `max` of those.
    pub(crate) fn take_cleaning(&mut self, max: usize) -> Vec<u32> {
        let count = self.cleaning.len().min(max);
        self.cleaning.drain(..count).collect()
    }
}

/// Numbers of pages that left the small queue lately: as many as the main queue
/// has room for.
struct Ghosts {
    order: VecDeque<(PageId, u32)>,
    latest: PageMap<u32>,
    max: usize,
    turn: u32,
}

impl Ghosts {
    fn new(max: usize) -> Ghosts {
        Ghosts {
            order: VecDeque::new(),
            latest: PageMap::default(),
            max,
            turn: 0,
        }
    }

    fn remember(&mut self, id: PageId) {
        self.turn = self.turn.wrapping_add(1);
        self.latest.insert(id, self.turn);
        self.order.push_back((id, self.turn));
        while self.order.len() > self.max {
            let Some((oldest, turn)) = self.order.pop_front() else {
                break;
            };
            // Unless it came back and left again.
            if self.latest.get(&oldest) == Some(&turn) {
                self.latest.remove(&oldest);
            }
        }
    }

    fn take(&mut self, id: PageId) -> bool {
        self.latest.remove(&id).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane::Buffer;

    struct Cache {
        frames: Vec<Frame>,
        queues: Replacement,
        held: PageMap<u32>,
        free: Vec<u32>,
    }

    impl Cache {
        fn new(frames: u32) -> Cache {
            Cache {
                frames: (0..frames).map(|_| Frame::new(Buffer::new(1))).collect(),
                queues: Replacement::new(frames as usize, 4),
                held: PageMap::default(),
                free: (0..frames).collect(),
            }
        }

        /// Returns whether it was a hit.
        fn access(&mut self, page: u32) -> bool {
            let id = PageId::new(1, page);
            if let Some(&frame) = self.held.get(&id) {
                self.frames[frame as usize].used();
                return true;
            }
            let frame = self.free.pop().unwrap_or_else(|| {
                let (frames, held) = (&self.frames, &mut self.held);
                let freed = self.queues.evict(10_000, frames, |frame| {
                    let page = frames[frame as usize].page();
                    held.remove(&page);
                    Attempt::Freed(Some(page))
                });
                freed.expect("one can always leave")
            });
            self.frames[frame as usize].assign(id);
            self.queues.insert(frame, id);
            self.held.insert(id, frame);
            false
        }
    }

    /// Pages in regular use survive a scan ten times the cache.
    #[test]
    fn a_scan_passes_through() {
        let mut cache = Cache::new(100);
        for _ in 0..5 {
            for page in 0..50 {
                cache.access(page);
            }
        }
        for page in 1000..2000 {
            cache.access(page);
        }
        let kept = (0..50).filter(|&page| cache.access(page)).count();
        assert!(kept >= 45, "{kept} of 50 kept");
    }

    /// A page that comes back soon after it left is given the main queue.
    #[test]
    fn who_comes_back_stays() {
        let mut cache = Cache::new(100);
        for page in 0..110 {
            cache.access(page);
        }
        assert!(!cache.access(0));
        for page in 1000..2000 {
            cache.access(page);
        }
        assert!(cache.access(0));
    }

    /// What a long scan has passed leaves before what was there, and is not
    /// remembered as what should have stayed.
    #[test]
    fn who_is_let_go_first_leaves_first() {
        let mut cache = Cache::new(20);
        for page in 0..19 {
            cache.access(page);
        }
        let (passed, frame) = (PageId::new(1, 99), cache.free.pop().unwrap());
        for _ in 0..2 {
            cache.frames[frame as usize].assign(passed);
            cache.queues.insert_first(frame, passed);
            let mut left = None;
            let free = cache.queues.evict(20, &cache.frames, |frame| {
                left = Some(cache.frames[frame as usize].page());
                Attempt::Freed(left)
            });
            assert_eq!((free, left), (Some(frame), Some(passed)));
        }
        assert_eq!(cache.queues.main.len(), 0);
    }

    /// Pages that never leave, more of them than the small queue should hold,
    /// do not keep the others from leaving.
    #[test]
    fn pinned_pages_do_not_keep_others_in() {
        let mut cache = Cache::new(20);
        for page in 0..20 {
            cache.access(page);
        }
        // Used more than once: they go to the main queue.
        for page in 10..20 {
            cache.access(page);
            cache.access(page);
        }
        let pinned = |frame: u32| frame >= 10;
        for _ in 0..10 {
            let left = cache.queues.evict(200, &cache.frames, |frame| {
                let page = cache.frames[frame as usize].page();
                // Frames were given out from the last to the first.
                if pinned(frame) {
                    Attempt::Busy
                } else {
                    Attempt::Freed(Some(page))
                }
            });
            assert!(left.is_some_and(|frame| !pinned(frame)), "{left:?}");
        }
        assert_eq!(cache.queues.len(), 10);
    }

    /// More changed pages than may wait to be written, and more than the small queue
    /// should hold: what is clean in the main one can leave.
    #[test]
    fn changed_pages_do_not_keep_others_in() {
        let mut cache = Cache::new(40);
        for page in (0..40).chain(20..40).chain(20..40) {
            cache.access(page);
        }
        // Frames were given out from the last to the first.
        let changed = |frame: u32| frame >= 20;
        let left: Vec<_> = std::iter::from_fn(|| {
            cache
                .queues
                .evict(200, &cache.frames, |frame| match changed(frame) {
                    true => Attempt::Dirty,
                    false => Attempt::Freed(None),
                })
        })
        .collect();
        assert_eq!(left, (0..20).rev().collect::<Vec<_>>());
        assert_eq!((cache.queues.cleaning(), cache.queues.len()), (4, 16));
    }

    #[test]
    fn changed_pages_wait_to_be_written() {
        let mut cache = Cache::new(20);
        for page in 0..20 {
            cache.access(page);
        }
        let frames = &cache.frames;
        assert_eq!(cache.queues.evict(20, frames, |_| Attempt::Dirty), None);
        assert_eq!(cache.queues.cleaning(), 4);
        assert_eq!(cache.queues.take_cleaning(3).len(), 3);
        assert_eq!(cache.queues.len(), 16);
    }
}
