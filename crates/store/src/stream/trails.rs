//! Ranges that go on where another ended, as when a table is changed some
//! thousand rows at a time.

use super::distance::Distance;
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

/// Ends of the last ranges that had to be read, the latest one last, and how far
/// ahead each was read.
#[derive(Default)]
pub(crate) struct Trails {
    trails: Mutex<VecDeque<(Trail, Distance)>>,
    /// How many there are: where all is in memory there are none, and threads do
    /// not meet here.
    count: AtomicUsize,
}

impl Trails {
    pub(super) fn leave(&self, trail: Trail, distance: Distance) {
        let mut trails = self.trails.lock();
        trails.retain(|(other, _)| *other != trail);
        if trails.len() == TRAILS_MAX {
            trails.pop_front();
        }
        trails.push_back((trail, distance));
        self.count.store(trails.len(), Ordering::Relaxed);
    }

    /// How far ahead is read of a range that begins with `from`, if it goes on behind
    /// one of these: as far as of that. Only one does.
    pub(super) fn follow(&self, root: PageId, from: &[u8]) -> Option<Distance> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut trails = self.trails.lock();
        let mut all = trails.iter();
        let found = all.position(|(trail, _)| trail.root == root && trail.end == from);
        let found = found.and_then(|at| trails.remove(at));
        self.count.store(trails.len(), Ordering::Relaxed);
        found.map(|(_, distance)| distance)
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
            trails.leave(Trail { root, end }, Distance::new(number.into()));
        }
        assert_eq!(trails.follow(root, &[0]), None);
        assert_eq!(trails.follow(PageId::new(3, 5), &[1]), None);
        assert_eq!(trails.follow(root, &[1]), Some(Distance::new(1)));
        assert_eq!(trails.follow(root, &[1]), None);
        // Of two that end there one stays, the later one.
        for end in [2, 2, 3] {
            let end = vec![end];
            trails.leave(Trail { root, end }, Distance::new(9));
        }
        assert_eq!(trails.follow(root, &[2]), Some(Distance::new(9)));
        assert_eq!(trails.trails.lock().len(), TRAILS_MAX - 2);
    }
}
