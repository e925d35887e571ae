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

/// How a stream reads, which a range hands on to the one that goes on behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Course {
    /// How far ahead.
    pub(super) distance: Distance,
    /// Pages passed, also in those before it, since one had to be read.
    pub(super) unread: u32,
    /// Pages passed in all, also in those before it.
    pub(super) passed: u32,
}

impl Course {
    /// Of one that begins `begin` pages ahead.
    pub(super) fn new(begin: usize) -> Course {
        Course {
            distance: Distance::new(begin),
            unread: 0,
            passed: 0,
        }
    }
}

/// Ends of the last ranges that had to be read, the latest one last, and how.
#[derive(Default)]
pub(crate) struct Trails {
    trails: Mutex<VecDeque<(Trail, Course)>>,
    /// How many there are: where all is in memory there are none, and threads do
    /// not meet here.
    count: AtomicUsize,
}

impl Trails {
    pub(super) fn leave(&self, trail: Trail, course: Course) {
        let mut trails = self.trails.lock();
        trails.retain(|(other, _)| *other != trail);
        if trails.len() == TRAILS_MAX {
            trails.pop_front();
        }
        trails.push_back((trail, course));
        self.count.store(trails.len(), Ordering::Relaxed);
    }

    /// How a range that begins with `from` is read, if it goes on behind one of these:
    /// as that was. Only one does.
    pub(super) fn follow(&self, root: PageId, from: &[u8]) -> Option<Course> {
        if self.count.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut trails = self.trails.lock();
        let mut all = trails.iter();
        let found = all.position(|(trail, _)| trail.root == root && trail.end == from);
        let found = found.and_then(|at| trails.remove(at));
        self.count.store(trails.len(), Ordering::Relaxed);
        found.map(|(_, course)| course)
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
            trails.leave(Trail { root, end }, Course::new(number.into()));
        }
        assert_eq!(trails.follow(root, &[0]), None);
        assert_eq!(trails.follow(PageId::new(3, 5), &[1]), None);
        assert_eq!(trails.follow(root, &[1]), Some(Course::new(1)));
        assert_eq!(trails.follow(root, &[1]), None);
        // Of two that end there one stays, the later one.
        for end in [2, 2, 3] {
            let end = vec![end];
            trails.leave(Trail { root, end }, Course::new(9));
        }
        assert_eq!(trails.follow(root, &[2]), Some(Course::new(9)));
        assert_eq!(trails.trails.lock().len(), TRAILS_MAX - 2);
    }
}
