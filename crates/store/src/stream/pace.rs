//! How a stream's pages come: one by one or with their neighbours, and how fast.

use crate::ids::PageId;
use std::num::NonZeroU32;
use std::time::{Duration, Instant};

/// Pages after which it is looked at anew.
const PAGES: u32 = 1024;
/// More reads a second than come from a disk with heads, or from dozens of them.
const QUICK_PER_SECOND: f64 = 10_000.0;

/// Whether what is far ahead gains anything: a disk with heads serves what is
/// near them, and finds more of that among more; any other has enough when it is
/// never without work, and then it is better to read into few frames, again and
/// again, which the processor's cache holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    since: Option<Instant>,
    pages: u32,
    /// Neighbours, which are read in one transfer, count as one.
    reads: u32,
    last: Option<PageId>,
    pages_per_quick_read: Option<NonZeroU32>,
}

impl Pace {
    pub(crate) const NEW: Pace = Pace {
        since: None,
        pages: 0,
        reads: 0,
        last: None,
        pages_per_quick_read: None,
    };

    /// Pages of a read, where more of them come in a second than from disks with
    /// heads.
    pub(crate) fn pages_per_quick_read(self) -> Option<usize> {
        self.pages_per_quick_read.map(|pages| pages.get() as usize)
    }

    /// These had to be read, as others before had come: the first ones say nothing.
    pub(crate) fn asked_for(&mut self, pages: impl IntoIterator<Item = PageId>, now: Instant) {
        let first = self.since.is_none();
        let since = *self.since.get_or_insert(now);
        for page in pages {
            let follows = self.last.is_some_and(|last| are_neighbours(last, page));
            self.last = Some(page);
            if !first {
                self.reads += u32::from(!follows);
                self.pages += 1;
            }
        }
        if self.pages >= PAGES {
            let took = now.duration_since(since).max(Duration::from_nanos(1));
            let quick = f64::from(self.reads) > QUICK_PER_SECOND * took.as_secs_f64();
            let per_read = NonZeroU32::new(self.pages.div_ceil(self.reads.max(1)));
            self.pages_per_quick_read = per_read.filter(|_| quick);
            (self.since, self.pages, self.reads) = (Some(now), 0, 0);
        }
    }
}

fn are_neighbours(last: PageId, page: PageId) -> bool {
    page.space == last.space && page.page.abs_diff(last.page) == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 pages at a time, `every` so far apart from the next, each step after
    /// `step`.
    fn after(every: u32, step: Duration) -> Option<usize> {
        let mut pace = Pace::NEW;
        let mut now = Instant::now();
        let mut page = 0;
        for _ in 0..=2 * PAGES / 64 {
            let pages: Vec<PageId> = (0..64)
                .map(|at| {
                    page += if at % every == 0 { 100 } else { 1 };
                    PageId { space: 1, page }
                })
                .collect();
            pace.asked_for(pages, now);
            now += step;
        }
        pace.pages_per_quick_read()
    }

    #[test]
    fn scattered_pages_that_come_quickly_are_told_from_the_rest() {
        // 64,000 reads of a page a second, and of four pages 16,000.
        assert_eq!(after(1, Duration::from_millis(1)), Some(1));
        assert_eq!(after(4, Duration::from_millis(1)), Some(4));
        // As many pages, but 1000 reads.
        assert_eq!(after(64, Duration::from_millis(1)), None);
        // A disk with heads.
        assert_eq!(after(1, Duration::from_millis(100)), None);
        // All at once, before any has come.
        let mut pace = Pace::NEW;
        let scattered = (0..2 * PAGES).map(|at| PageId::new(1, 3 * at));
        pace.asked_for(scattered, Instant::now());
        assert_eq!(pace.pages_per_quick_read(), None);
        assert_eq!(Pace::NEW.pages_per_quick_read(), None);
    }
}
