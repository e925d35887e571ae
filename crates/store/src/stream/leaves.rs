//! The leaves that a cursor will come to, from the branches above them.

use super::{More, Next, PageStream, Source};
use crate::access::Pages;
use crate::attempt::Interrupt;
use crate::ids::PageId;
use crate::policy::{Role, ScanReadAhead};
use crate::tree::{Leaves, Watch};

/// Branches named ahead at most: where they are small, as many as a distance
/// needs, and no more than a small pool can spare.
const BRANCHES_MAX: usize = 32;

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
/// is in memory costs nothing.
pub(crate) enum LeafAhead<'p, P> {
    /// Each page when the cursor comes to it.
    Never(&'p P),
    /// Nothing was missing yet.
    Idle(&'p P, Role, For),
    /// It has begun.
    Running(Box<Running<'p, P>>),
}

/// A stream of leaves.
pub(crate) struct Running<'p, P>(PageStream<'p, LeafSource<'p, P>>);

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

    fn for_whom(pages: &'p P, role: Role, whom: For) -> LeafAhead<'p, P> {
        match pages.read_ahead() {
            Some(ahead) if ahead.policy().scan == ScanReadAhead::Logical => {
                LeafAhead::Idle(pages, role, whom)
            }
            _ => LeafAhead::Never(pages),
        }
    }
}

impl<P: Pages> Watch for LeafAhead<'_, P> {
    fn waits_for(&mut self, page: PageId, rest: impl FnOnce() -> Leaves) {
        if let LeafAhead::Idle(pages, role, whom) = *self
            && let Some(ahead) = pages.read_ahead()
        {
            let source = LeafSource::new(pages, rest());
            let stream = match whom {
                For::Rows(begin) => PageStream::new(ahead, role, begin, source),
                For::Entries => PageStream::within(ahead, role, BEGIN_LEAVES_OF_INDEX, source),
            };
            *self = LeafAhead::Running(Box::new(Running(stream)));
        }
        if let LeafAhead::Running(running) = self {
            running.0.waits_for(page);
        }
    }

    fn came_to(&mut self, page: PageId) {
        let pages = match self {
            LeafAhead::Running(running) => {
                running.0.came_to(page);
                running.0.source.pages
            }
            LeafAhead::Never(pages) | LeafAhead::Idle(pages, ..) => *pages,
        };
        if let Some(ahead) = pages.read_ahead() {
            ahead.guess();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::memory::{MemoryOptions, MemoryPages};
    use crate::tree::{Direction, Tree};
    use std::ops::Bound;

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
