//! The leaves that a cursor will come to, from the branches above them.

use super::{Next, PageStream, Source};
use crate::access::Pages;
use crate::attempt::Interrupt;
use crate::ids::PageId;
use crate::policy::{Role, ScanReadAhead};
use crate::tree::{Leaves, Watch};

struct LeafSource<'p, P> {
    pages: &'p P,
    leaves: Leaves,
}

impl<P: Pages> Source for LeafSource<'_, P> {
    fn more(&mut self, next: &mut Next) -> bool {
        match self.leaves.try_next(self.pages, &mut next.pages) {
            Ok(more) => more,
            Err(Interrupt::Miss(miss)) => {
                next.branches.push(miss.0);
                true
            }
            // Whoever comes there is told.
            Err(Interrupt::Error(_)) => false,
        }
    }
}

/// Reads leaves ahead of a cursor, from the first that it misses: a range that
/// is in memory costs nothing.
pub(crate) enum LeafAhead<'p, P> {
    /// Each page when the cursor comes to it.
    Never(&'p P),
    /// Nothing was missing yet.
    Idle(&'p P, Role, usize),
    /// It has begun.
    Running(Box<Running<'p, P>>),
}

/// A stream of leaves.
pub(crate) struct Running<'p, P>(PageStream<'p, LeafSource<'p, P>>);

impl<'p, P: Pages> LeafAhead<'p, P> {
    /// One that does what the policy of the pages says.
    /// If it begins to read, it is `begin` leaves ahead.
    pub(crate) fn new(pages: &'p P, role: Role, begin: usize) -> LeafAhead<'p, P> {
        match pages.read_ahead() {
            Some(ahead) if ahead.policy().scan == ScanReadAhead::Logical => {
                LeafAhead::Idle(pages, role, begin)
            }
            _ => LeafAhead::Never(pages),
        }
    }
}

impl<P: Pages> Watch for LeafAhead<'_, P> {
    fn waits_for(&mut self, page: PageId, rest: impl FnOnce() -> Leaves) {
        if let LeafAhead::Idle(pages, role, begin) = *self
            && let Some(ahead) = pages.read_ahead()
        {
            let leaves = rest();
            let source = LeafSource { pages, leaves };
            let stream = PageStream::new(ahead, role, begin, source);
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
