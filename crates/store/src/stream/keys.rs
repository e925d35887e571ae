//! Rows whose keys are known, read ahead.

use super::{BEGIN_EXTENTS, BRANCHES_MAX, More, Next, PageStream, ReadAhead, Source, UNNAMED_MAX};
use crate::access::Pages;
use crate::attempt::Interrupt;
use crate::ids::PageId;
use crate::policy::{IndexReadAhead, Role};
use crate::tree::Tree;

/// Keys that a small pool has room for, however small.
const AT_ONCE_MIN: usize = 16;
/// And how many are enough for any device.
const AT_ONCE_MAX: usize = 1024;

struct KeySource<'p, 'k, P> {
    pages: &'p P,
    tree: Tree,
    /// Ascending.
    keys: &'k [Vec<u8>],
    /// The leaf of each of the first keys when it was named; `None`: whoever
    /// reads that row is told why.
    leaves: Vec<Option<PageId>>,
    /// The branch that the next key waits for.
    stuck_at: Option<PageId>,
}

impl<P: Pages> KeySource<'_, '_, P> {
    /// Asks for the branches that the keys behind the next one need.
    fn look_on(&self, next: &mut Next) {
        let behind = &self.keys[self.leaves.len() + 1..];
        for key in behind.iter().take(UNNAMED_MAX) {
            if next.branches.len() >= BRANCHES_MAX {
                return;
            }
            if let Err(Interrupt::Miss(miss)) = self.tree.leaf_number(self.pages, key) {
                next.needs(miss.0);
            }
        }
    }
}

impl<P: Pages> Source for KeySource<'_, '_, P> {
    fn more(&mut self, next: &mut Next, ahead: usize) -> More {
        while let Some(key) = self.keys.get(self.leaves.len()) {
            if next.pages.len() >= ahead.max(1) {
                return More::Found;
            }
            let leaf = match self.tree.leaf_number(self.pages, key) {
                Ok(leaf) => Some(leaf),
                Err(Interrupt::Miss(miss)) => {
                    next.needs(miss.0);
                    // Each time that it is asked, it would find the same ones.
                    if self.stuck_at.replace(miss.0) != Some(miss.0) {
                        self.look_on(next);
                    }
                    return match next.pages.is_empty() {
                        true => More::NotNow,
                        false => More::Found,
                    };
                }
                Err(Interrupt::Error(_)) => None,
            };
            if leaf.is_some() && self.leaves.last() != Some(&leaf) {
                next.pages.extend(leaf);
            }
            self.leaves.push(leaf);
        }
        More::Ended
    }
}

/// Reads the leaves of keys ahead of whoever comes to one after the other, from
/// the first that is not in memory.
pub(crate) struct KeysAhead<'p, 'k, P> {
    /// Nobody: each page is read when its key's turn comes.
    whom: Option<(ReadAhead<'p>, Role)>,
    pages: &'p P,
    tree: Tree,
    keys: &'k [Vec<u8>],
    /// Once it has begun, with the number of the key that it began at.
    stream: Option<(usize, PageStream<'p, KeySource<'p, 'k, P>>)>,
}

/// How many keys are best brought into memory at once, if they are to be there
/// together afterwards. `None`: nothing is read ahead.
pub(crate) fn keys_at_once<P: Pages>(pages: &P) -> Option<usize> {
    let ahead = read_ahead(pages)?;
    Some(ahead.left_max().clamp(AT_ONCE_MIN, AT_ONCE_MAX))
}

fn read_ahead<P: Pages>(pages: &P) -> Option<ReadAhead<'_>> {
    let ahead = pages.read_ahead()?;
    (ahead.policy().index == IndexReadAhead::Batches).then_some(ahead)
}

impl<'p, 'k, P: Pages> KeysAhead<'p, 'k, P> {
    /// The records of ascending keys; what is read ahead is read for `role`.
    pub(crate) fn new(pages: &'p P, tree: &Tree, keys: &'k [Vec<u8>], role: Role) -> Self {
        KeysAhead {
            whom: read_ahead(pages).map(|ahead| (ahead, role)),
            pages,
            tree: *tree,
            keys,
            stream: None,
        }
    }

    /// The key at `at`, whose turn it is, makes the caller wait for a page.
    pub(crate) fn waits_for(&mut self, at: usize, page: PageId) {
        if let Some((ahead, role)) = self.whom.take() {
            let keys = &self.keys[at..];
            let source = KeySource {
                pages: self.pages,
                tree: self.tree,
                keys,
                leaves: Vec::new(),
                stuck_at: None,
            };
            // All are sure to be needed.
            let begin = keys.len().min(BEGIN_EXTENTS);
            self.stream = Some((at, PageStream::new(ahead, role, begin, source)));
        }
        if let Some((_, stream)) = &mut self.stream {
            stream.waits_for(page);
        }
    }

    /// The record of the key at `at` has been read.
    pub(crate) fn is_through_with(&mut self, at: usize) {
        let Some((begun_at, stream)) = &mut self.stream else {
            return;
        };
        let (at, leaves) = (at - *begun_at, &mut stream.source.leaves);
        if leaves.len() <= at {
            // Its branch came when it was read: what was not named is not any
            // more, as nobody comes there again.
            leaves.resize(at + 1, None);
        }
        let (leaf, behind) = (leaves[at], leaves.get(at + 1));
        match leaf {
            Some(leaf) if behind != Some(&Some(leaf)) => stream.is_through_with(leaf),
            _ => stream.passed(),
        }
    }
}
