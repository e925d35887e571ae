//! The leaves that a cursor will come to, from the branches above them.

use super::trails::Trail;
use super::{BEGIN_EXTENTS, BRANCHES_MAX, More, Next, PageStream, ReadAhead, Source};
use crate::access::Pages;
use crate::attempt::Interrupt;
use crate::ids::PageId;
use crate::policy::{Role, ScanReadAhead};
use crate::tree::{Direction, Leaves, Tree, Watch};
use std::ops::Bound;

struct LeafSource<'p, P> {
    pages: &'p P,
    leaves: Leaves,
    /// Leaves below the last branch; 0: there was none yet.
    fan_out: usize,
    /// Reused.
    branches: Vec<PageId>,
}

impl<'p, P: Pages> LeafSource<'p, P> {
    fn new(pages: &'p P, leaves: Leaves) -> Self {
        LeafSource {
            pages,
            leaves,
            fan_out: 0,
            branches: Vec::new(),
        }
    }

    /// Asks for the branches that name the next `ahead` leaves behind those
    /// that are known: one at a time, each border between two of them would be
    /// a wait for whoever needs more leaves than a branch names.
    fn look_over_the_border(&mut self, next: &mut Next, ahead: usize) {
        if self.fan_out == 0 {
            // The first branch may be all there is.
            return;
        }
        let wanted = ahead.div_ceil(self.fan_out).min(BRANCHES_MAX);
        let mut above = self.leaves.branches();
        self.branches.clear();
        while self.branches.len() < wanted {
            match above.try_next(self.pages, &mut self.branches) {
                Ok(true) => {}
                Err(Interrupt::Miss(miss)) => {
                    self.branches.push(miss.0);
                    break;
                }
                // The end, or whoever comes there is told.
                Ok(false) | Err(Interrupt::Error(_)) => break,
            }
        }
        next.branches.extend(self.branches.iter().take(wanted));
    }
}

impl<P: Pages> Source for LeafSource<'_, P> {
    fn more(&mut self, next: &mut Next, ahead: usize) -> More {
        let known = next.pages.len();
        match self.leaves.try_next(self.pages, &mut next.pages) {
            Ok(true) => {
                let found = next.pages.len() - known;
                self.fan_out = found.max(1);
                // Not earlier than needed: a small pool would have lost them.
                self.look_over_the_border(next, ahead.saturating_sub(found));
                More::Found
            }
            Ok(false) => More::Ended,
            Err(Interrupt::Miss(miss)) => {
                next.branches.push(miss.0);
                self.look_over_the_border(next, ahead);
                More::NotNow
            }
            // Whoever comes there is told.
            Err(Interrupt::Error(_)) => More::Ended,
        }
    }
}

/// Leaves of an index to begin with: each has hundreds of entries.
const BEGIN_LEAVES_OF_INDEX: usize = 4;

/// For whom leaves are read.
#[derive(Clone, Copy)]
pub(crate) enum For {
    /// A cursor over rows: so many leaves ahead to begin with.
    Rows(usize),
    /// The stream of rows that the entries lead to.
    Entries,
}

/// Reads leaves ahead of a cursor, from the first that it misses: a range that
/// is in memory costs nothing. Where a range goes on behind one that had to be
/// read, from its beginning on, and beyond its end: for the next one.
pub(crate) struct LeafAhead<'p, P> {
    pages: &'p P,
    /// Nobody: each page is read when the cursor comes to it.
    whom: Option<(ReadAhead<'p>, Role, For)>,
    /// Once it has begun.
    stream: Option<Box<PageStream<'p, LeafSource<'p, P>>>>,
    /// Where the range of that ends.
    end: Option<Trail>,
}

impl<'p, P: Pages> LeafAhead<'p, P> {
    /// One that does what the policy of the pages says.
    /// If it begins to read, it is `begin` leaves ahead.
    pub(crate) fn new(pages: &'p P, role: Role, begin: usize) -> LeafAhead<'p, P> {
        LeafAhead::for_whom(pages, role, For::Rows(begin))
    }

    /// The same for the leaves of a secondary index.
    pub(crate) fn of_entries(pages: &'p P, role: Role) -> LeafAhead<'p, P> {
        LeafAhead::for_whom(pages, role, For::Entries)
    }

    /// The same for a range of rows in ascending order.
    pub(crate) fn of_range(
        pages: &'p P,
        role: Role,
        tree: &Tree,
        (lower, upper): (Bound<&[u8]>, Bound<&[u8]>),
    ) -> LeafAhead<'p, P> {
        let mut this = LeafAhead::new(pages, role, BEGIN_EXTENTS);
        if let (Some((ahead, ..)), Bound::Included(from)) = (this.whom, lower)
            && let Some(course) = ahead.0.streams.trails.follow(tree.root, from)
        {
            let leaves = |upper| tree.leaves(lower, upper, Direction::Forward);
            this.end = leaves(upper).trail();
            let source = LeafSource::new(pages, leaves(Bound::Unbounded));
            let stream = PageStream::beyond(ahead, role, course, source);
            this.stream = Some(Box::new(stream));
        }
        this
    }

    fn for_whom(pages: &'p P, role: Role, whom: For) -> LeafAhead<'p, P> {
        let ahead = pages
            .read_ahead()
            .filter(|ahead| ahead.policy().scan == ScanReadAhead::Logical);
        LeafAhead {
            pages,
            whom: ahead.map(|ahead| (ahead, role, whom)),
            stream: None,
            end: None,
        }
    }
}

impl Leaves {
    /// Where another range could go on.
    fn trail(&self) -> Option<Trail> {
        let (root, end) = self.end()?;
        Some(Trail {
            root,
            end: end.to_vec(),
        })
    }
}

impl<P: Pages> Watch for LeafAhead<'_, P> {
    fn waits_for(&mut self, page: PageId, rest: impl FnOnce() -> Leaves) {
        if self.stream.is_none()
            && let Some((ahead, role, whom)) = self.whom
        {
            let leaves = rest();
            let trail = leaves.trail();
            let source = LeafSource::new(self.pages, leaves);
            self.stream = Some(Box::new(match whom {
                For::Rows(begin) => {
                    self.end = trail;
                    PageStream::new(ahead, role, begin, source)
                }
                For::Entries => PageStream::within(ahead, role, BEGIN_LEAVES_OF_INDEX, source),
            }));
        }
        if let Some(stream) = &mut self.stream {
            stream.waits_for(page);
        }
    }

    fn came_to(&mut self, page: PageId) {
        if let Some(stream) = &mut self.stream {
            stream.came_to(page);
        }
        if let Some(ahead) = self.pages.read_ahead() {
            ahead.guess();
        }
    }
}

impl<P> Drop for LeafAhead<'_, P> {
    fn drop(&mut self) {
        if let (Some(stream), Some(end)) = (&mut self.stream, self.end.take()) {
            stream.leave(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::memory::{MemoryOptions, MemoryPages};

    #[test]
    fn as_many_branches_are_asked_for_as_a_distance_needs() {
        let pages = MemoryPages::new(MemoryOptions {
            page_bytes: 4096,
            pages_max: 8192,
            ..MemoryOptions::default()
        });
        let (leaves, branches) = (MemoryPages::segment(0), MemoryPages::segment(1));
        let tree = Tree::create(&pages, leaves, branches, 7).unwrap();
        let records = (0..40_000u32).map(|number| (number.to_be_bytes(), [0; 200]));
        tree.bulk_load(&pages, records, 100).unwrap();
        for direction in [Direction::Forward, Direction::Backward] {
            let all = || tree.leaves(Bound::Unbounded, Bound::Unbounded, direction);
            let (mut above, mut branches) = (all().branches(), Vec::new());
            while above.try_next(&pages, &mut branches).unwrap() {}
            let mut source = LeafSource::new(&pages, all());
            let mut next = Next::default();
            let (mut passed, mut more_than_one) = (0, 0);
            while source.more(&mut next, 1000) == More::Found {
                passed += 1;
                let found = next.pages.len();
                let wanted = (1000 - found).div_ceil(found);
                let end = branches.len().min(passed + wanted);
                assert_eq!(next.branches, branches[passed..end]);
                more_than_one += usize::from(next.branches.len() > 1);
                next = Next::default();
            }
            assert_eq!(passed, branches.len());
            assert!(more_than_one > 2, "{passed} branches");
        }
    }
}
