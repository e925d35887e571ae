//! Guesses from the places of pages in their files, as InnoDB makes them: "MySQL
//! Reference Manual", section "Configuring InnoDB Buffer Pool Prefetching
//! (Read-Ahead)". Right where the order of keys is that of the file.

use super::ReadAhead;
use crate::ids::{EXTENT_PAGES, PageId};
use crate::policy::Role;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};

/// Pages of an extent that must have been read in sequence for the next one to
/// be read: `innodb_read_ahead_threshold`.
const LINEAR_PAGES: u32 = 56;
/// Pages of an extent that must be in memory for the rest to be read.
const RANDOM_PAGES: usize = 13;
/// Extents that are watched at a time.
const WATCHED_MAX: usize = 1024;
/// Guesses that wait for somebody who holds no latch.
const DUE_MAX: usize = 64;

/// How the pages of an extent have been read.
#[derive(Clone, Copy)]
struct Sequence {
    last: u32,
    up: u32,
    down: u32,
}

/// An extent to be read: its first page.
pub(crate) type Guess = PageId;

#[derive(Default)]
struct Watched {
    extents: HashMap<PageId, Sequence>,
    order: VecDeque<PageId>,
    due: Vec<Guess>,
}

/// What is known of pages read lately, and what follows from it.
#[derive(Default)]
pub(crate) struct Guesses {
    any_due: AtomicBool,
    watched: Mutex<Watched>,
}

impl Guesses {
    /// Somebody came to a page that was not in memory before.
    pub(crate) fn came_to(&self, page: PageId) {
        let extent = page.extent();
        let place = page.page % EXTENT_PAGES;
        let mut watched = self.watched.lock();
        if !watched.extents.contains_key(&extent) {
            if watched.order.len() == WATCHED_MAX
                && let Some(oldest) = watched.order.pop_front()
            {
                watched.extents.remove(&oldest);
            }
            watched.order.push_back(extent);
        }
        let sequence = watched.extents.entry(extent).or_insert(Sequence {
            last: place,
            up: 1,
            down: 1,
        });
        sequence.up += u32::from(place > sequence.last);
        sequence.down += u32::from(place < sequence.last);
        sequence.last = place;
        let next = if place == EXTENT_PAGES - 1 && sequence.up >= LINEAR_PAGES {
            sequence.up = 0;
            extent.page.checked_add(EXTENT_PAGES)
        } else if place == 0 && sequence.down >= LINEAR_PAGES {
            sequence.down = 0;
            extent.page.checked_sub(EXTENT_PAGES)
        } else {
            None
        };
        if let Some(next) = next {
            self.note(&mut watched, PageId::new(page.space, next));
        }
    }

    /// A page had to be read; `is_near` says of others whether they are in
    /// memory.
    pub(crate) fn had_to_read(&self, page: PageId, is_near: impl Fn(PageId) -> bool) {
        let extent = page.extent();
        let all = (0..EXTENT_PAGES).map(|place| PageId::new(page.space, extent.page + place));
        let near = all.filter(|&other| other != page && is_near(other));
        if near.take(RANDOM_PAGES).count() == RANDOM_PAGES {
            self.note(&mut self.watched.lock(), extent);
        }
    }

    fn note(&self, watched: &mut Watched, extent: Guess) {
        if watched.due.len() < DUE_MAX && !watched.due.contains(&extent) {
            watched.due.push(extent);
            self.any_due.store(true, Ordering::Release);
        }
    }

    fn take(&self) -> Vec<Guess> {
        if !self.any_due.load(Ordering::Acquire) {
            return Vec::new();
        }
        let mut watched = self.watched.lock();
        self.any_due.store(false, Ordering::Release);
        std::mem::take(&mut watched.due)
    }
}

impl ReadAhead<'_> {
    /// Reads the extents that guesses have named. The caller holds no latch.
    pub(crate) fn guess(&self) {
        for extent in self.0.pool.guesses.take() {
            let Ok(space) = self.0.space(extent.space) else {
                continue;
            };
            let Some(found) = space.map.lock().extent(extent.page) else {
                continue;
            };
            let pages = extent.pages(found.used);
            let begun = self.0.pool.prefetch(&pages, Role::Guess, None);
            self.0.streams.read(Role::Guess, begun.reads);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(guesses: &Guesses, pages: impl Iterator<Item = u32>) -> Vec<u32> {
        pages.for_each(|page| guesses.came_to(PageId::new(1, page)));
        guesses.take().iter().map(|extent| extent.page).collect()
    }

    #[test]
    fn a_sequence_to_the_end_of_an_extent_names_the_next() {
        let guesses = Guesses::default();
        assert_eq!(read(&guesses, 64..127), [0; 0]);
        assert_eq!(read(&guesses, 127..128), [128]);
        assert_eq!(read(&guesses, (64..128).rev()), [0]);
        assert_eq!(read(&guesses, (0..64).rev()), [0; 0]);
        // Eight pages may be missing or out of order, and no more.
        assert_eq!(read(&guesses, 200..256), [256]);
        assert_eq!(read(&guesses, 265..320), [0; 0]);
        let jumping = (320..384).map(|page| page ^ 1);
        assert_eq!(read(&guesses, jumping), [0; 0]);
    }

    #[test]
    fn an_extent_of_which_much_is_near_is_named() {
        let guesses = Guesses::default();
        let near = |count: u32| move |page: PageId| (64..64 + count).contains(&page.page);
        guesses.had_to_read(PageId::new(1, 100), near(12));
        assert!(guesses.take().is_empty());
        guesses.had_to_read(PageId::new(1, 100), near(13));
        guesses.had_to_read(PageId::new(1, 101), near(13));
        assert_eq!(guesses.take(), [PageId::new(1, 64)]);
        // The page itself does not count.
        guesses.had_to_read(PageId::new(1, 64), near(13));
        assert!(guesses.take().is_empty());
    }

    #[test]
    fn what_is_watched_is_bounded() {
        let guesses = Guesses::default();
        for extent in 0..10 * WATCHED_MAX as u32 {
            guesses.came_to(PageId::new(1, extent * EXTENT_PAGES));
        }
        let watched = guesses.watched.lock();
        assert_eq!(watched.order.len(), WATCHED_MAX);
        assert_eq!(watched.extents.len(), WATCHED_MAX);
    }
}
