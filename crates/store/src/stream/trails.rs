//! Ranges that go on where another ended, as when a table is changed some
//! thousand rows at a time.

use crate::ids::PageId;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};

/// More than threads that go through tables at once on most machines.
const TRAILS_MAX: usize = 16;

/// Where a range ended: a tree, by its root, and the key behind the range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trail {
    pub(super) root: PageId,
    pub(super) end: Vec<u8>,
}

/// Ends of the last ranges that had to be read, the latest one last.
#[derive(Default)]
pub(crate) struct Trails {
    trails: Mutex<VecDeque<Trail>>,
    /// How many there are: where all is in memory there are none, and threads do
    /// not meet here.
    count: AtomicUsize,
}

impl Trails {
    pub(super) fn leave(&self, trail: Trail) {
        let mut trails = self.trails.lock();
        trails.retain(|other| *other != trail);
        if trails.len() == TRAILS_MAX {
            trails.pop_front();
        }
        trails.push_back(trail);
        self.count.store(trails.len(), Ordering::Relaxed);
    }

    /// Whether a range that begins with `from` goes on behind one of these. Only
    /// one does.
    pub(super) fn follow(&self, root: PageId, from: &[u8]) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut trails = self.trails.lock();
        let mut all = trails.iter();
        let found = all.position(|trail| trail.root == root && trail.end == from);
        let found = found.and_then(|at| trails.remove(at));
        self.count.store(trails.len(), Ordering::Relaxed);
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trail_is_followed_once_and_the_oldest_are_forgotten() {
        let trails = Trails::default();
        let root = PageId::new(3, 4);
        for number in 0..=TRAILS_MAX as u8 {
            let end = vec![number];
            trails.leave(Trail { root, end });
        }
        assert!(!trails.follow(root, &[0]));
        assert!(!trails.follow(PageId::new(3, 5), &[1]));
        assert!(trails.follow(root, &[1]));
        assert!(!trails.follow(root, &[1]));
        // Of two that end there one stays, the later one.
        for end in [2, 2, 3] {
            let end = vec![end];
            trails.leave(Trail { root, end });
        }
        assert_eq!(trails.trails.lock().len(), TRAILS_MAX - 1);
    }
}
