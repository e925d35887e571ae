//! Pages that are being written to their places.
//!
//! A page is in one batch at a time, and is not repaired while it is in one. The lock is taken to
//! begin and to end a batch, and held while a damaged page is repaired; the lock of the
//! doublewrite area's slots comes inside it.

use crate::ids::PageId;
use parking_lot::{Condvar, Mutex};
use std::collections::HashSet;

/// Which pages batches under way carry.
#[derive(Default)]
pub(crate) struct InPlace {
    state: Mutex<State>,
    /// A batch has landed, or none will any more.
    changed: Condvar,
}

#[derive(Default)]
struct State {
    pages: HashSet<PageId>,
    /// The flusher has ended, and what was under way may be written or not.
    over: bool,
}

impl InPlace {
    /// Is one of these in a batch under way?
    pub(crate) fn has_any(&self, mut ids: impl Iterator<Item = PageId>) -> bool {
        let state = self.state.lock();
        ids.any(|id| state.pages.contains(&id))
    }

    /// From now on these are under way. Calls `begin` meanwhile, so that who
    /// repairs a page finds the copies as they were before the batch, and
    /// keeps it from beginning, or waits for it.
    pub(crate) fn begin<T>(
        &self,
        ids: impl Iterator<Item = PageId>,
        begin: impl FnOnce() -> T,
    ) -> T {
        let mut state = self.state.lock();
        for id in ids {
            assert!(state.pages.insert(id), "{id} is in two batches");
        }
        begin()
    }

    /// These are durable in their places.
    pub(crate) fn end(&self, ids: impl Iterator<Item = PageId>) {
        let mut state = self.state.lock();
        for id in ids {
            state.pages.remove(&id);
        }
        self.changed.notify_all();
    }

    /// No batch lands any more.
    pub(crate) fn close(&self) {
        self.state.lock().over = true;
        self.changed.notify_all();
    }

    /// Calls `repair` while no batch has the page and none begins. `None` when
    /// the page is in a batch of which nobody knows how far it came.
    pub(crate) fn repair<T>(&self, id: PageId, repair: impl FnOnce() -> T) -> Option<T> {
        let mut state = self.state.lock();
        while state.pages.contains(&id) {
            if state.over {
                return None;
            }
            self.changed.wait(&mut state);
        }
        let repaired = repair();
        drop(state);
        Some(repaired)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering};

    const PAGE: PageId = PageId { space: 1, page: 7 };
    const OTHER: PageId = PageId { space: 1, page: 8 };

    #[test]
    fn a_repair_waits_for_the_page_and_for_no_other() {
        let in_place = InPlace::default();
        let landed = AtomicBool::new(false);
        in_place.begin([PAGE].into_iter(), || ());
        assert!(in_place.has_any([OTHER, PAGE].into_iter()));
        assert_eq!(in_place.repair(OTHER, || 1), Some(1));
        std::thread::scope(|scope| {
            let repair = scope.spawn(|| in_place.repair(PAGE, || landed.load(Ordering::SeqCst)));
            landed.store(true, Ordering::SeqCst);
            in_place.end([PAGE].into_iter());
            assert_eq!(repair.join().unwrap(), Some(true));
        });
        assert!(!in_place.has_any([OTHER, PAGE].into_iter()));
    }

    #[test]
    fn nobody_repairs_what_may_have_been_written() {
        let in_place = InPlace::default();
        in_place.begin([PAGE].into_iter(), || ());
        in_place.close();
        assert_eq!(in_place.repair(PAGE, || 1), None);
        assert_eq!(in_place.repair(OTHER, || 1), Some(1));
    }

    #[test]
    #[should_panic(expected = "two batches")]
    fn a_page_is_in_one_batch() {
        let in_place = InPlace::default();
        in_place.begin([PAGE].into_iter(), || ());
        in_place.begin([OTHER, PAGE].into_iter(), || ());
    }
}
