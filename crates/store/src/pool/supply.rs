//! Free frames: where they come from, and waiting for them.
//!
//! Whoever misses a page evicts a clean one itself; a few frames are kept free
//! so that it need not look when many are in need at once. When all that may
//! leave is dirty, it wakes the flusher, which then writes at the level of
//! whoever waits, and waits for a frame.

use super::behind;
use super::frame::{DIRTY, PINNED, WRITING};
use super::replacement::Attempt;
use super::table::Entry;
use super::{Pool, count};
use crate::access::PagesError;
use crate::stream::acting;
use crate::waits::{WaitStatistics, Waits};
use parking_lot::{Condvar, Mutex};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Fewest pages that a pool can have: what a few mini-transactions hold at
/// once, and as many that may come and go meanwhile.
pub const POOL_PAGES_MIN: usize = 64;

/// Frames looked at in one go, under the lock of the queues.
const TRIES: usize = 64;
/// Share of the frames with changes above which nobody searches for one without
/// while many wait to be written already: it would be long.
const MOSTLY_CHANGED: f64 = 0.75;
/// How long a thread that waits for a frame sleeps before it looks again
/// itself: a page may have become evictable without anyone noticing.
const WAIT: Duration = Duration::from_millis(5);
/// How long those who stand back leave the last free frames to others before
/// they hurry the flusher like everybody: for each page that they need. A slow volume
/// writes a batch in that time; all that is under way would go among others' reads.
const PATIENCE_BEHIND: Duration = Duration::from_millis(100);
/// How long those who stand back wait at the most before they change pages, for one
/// mini-transaction, and before they read one, while others [should
/// write](super::behind); and how long they sleep before they look again.
const CHANGE_WAIT_MAX: Duration = Duration::from_secs(1);
const READ_WAIT_MAX: Duration = Duration::from_millis(100);
const BEHIND_LOOK: Duration = Duration::from_millis(1);
/// Share of the pool that pinned pages may take.
const PINNED_SHARE: usize = 4;

pub(super) struct Supply {
    free: Mutex<Vec<u32>>,
    more: Condvar,
    low: usize,
    waiting: AtomicUsize,
    waits: Waits,
    pub(super) pinned: AtomicUsize,
    /// Are the pages on a volume with a budget?
    budgeted: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

type Waker = Box<dyn Fn() + Send + Sync>;

impl Supply {
    pub(super) fn new(frames: usize) -> Supply {
        Supply {
            free: Mutex::new((0..frames as u32).rev().collect()),
            more: Condvar::new(),
            // 1.5 %: InnoDB's free list holds 1024 pages by default, of pools
            // of some 100,000.
            low: (frames / 64).clamp(4, 1024),
            waiting: AtomicUsize::new(0),
            waits: Waits::default(),
            pinned: AtomicUsize::new(0),
            budgeted: AtomicBool::new(false),
            waker: Mutex::new(None),
        }
    }

    pub(super) fn free(&self) -> usize {
        self.free.lock().len()
    }

    pub(super) fn wake_flusher(&self) {
        if let Some(waker) = &*self.waker.lock() {
            waker();
        }
    }
}

impl Pool {
    /// Calls `waker` when frames must be cleaned.
    pub(crate) fn set_waker(&self, waker: impl Fn() + Send + Sync + 'static) {
        *self.supply.waker.lock() = Some(Box::new(waker));
    }

    /// Threads that wait for a free frame now.
    pub(crate) fn waiting(&self) -> usize {
        self.supply.waiting.load(Ordering::Acquire)
    }

    /// How long threads have waited for a free frame, or before they read or change
    /// pages so that others need not.
    pub(crate) fn frame_waits(&self) -> WaitStatistics {
        self.supply.waits.read()
    }

    /// Pages read until now.
    pub(crate) fn reads(&self) -> u64 {
        self.counters.reads.load(Ordering::Relaxed)
    }

    /// Notes whether the volume that the pages are on has a budget.
    pub(crate) fn set_budgeted(&self, budgeted: bool) {
        self.supply.budgeted.store(budgeted, Ordering::Relaxed);
    }

    /// Frames that hold no page.
    pub(crate) fn free(&self) -> usize {
        self.supply.free()
    }

    /// Frames that are free below which the flusher helps.
    pub(crate) fn is_low(&self) -> bool {
        self.supply.free() < self.supply.low
    }

    /// Whether so many pages can come without others that leave.
    pub(crate) fn has_room(&self, pages: usize) -> bool {
        self.supply.free() >= pages + 2 * self.supply.low
    }

    /// Pages that are pinned.
    pub(crate) fn pinned(&self) -> usize {
        self.supply.pinned.load(Ordering::Relaxed)
    }

    /// Can so many more pages be pinned?
    pub(crate) fn may_pin(&self, pages: usize) -> bool {
        self.pinned() + pages <= self.frames.len() / PINNED_SHARE
    }

    /// Most frames that one mini-transaction can take at once.
    pub(crate) fn take_max(&self) -> usize {
        self.frames.len() / 4
    }

    /// Lets a thread that stands back wait before it changes pages while too many
    /// frames hold changes, unless somebody comes to wait for it. The caller holds no
    /// latch.
    pub(crate) fn hold_back(&self) {
        self.hold_back_while(CHANGE_WAIT_MAX, || {
            self.is_behind() && !behind::may_change(self.changed(), self.is_budgeted())
        });
    }

    fn hold_back_while(&self, most: Duration, is_held_back: impl Fn() -> bool) {
        let mut since = None;
        while is_held_back() {
            let since = *since.get_or_insert_with(Instant::now);
            if since.elapsed() >= most || self.failure.is_set() {
                break;
            }
            self.supply.wake_flusher();
            thread::sleep(BEHIND_LOOK);
        }
        if let Some(since) = since {
            self.supply.waits.add(since.elapsed());
        }
    }

    /// Whether this thread stands back behind what writes pages.
    pub(crate) fn is_behind(&self) -> bool {
        self.files.policy.stands_back(acting())
    }

    fn is_budgeted(&self) -> bool {
        self.supply.budgeted.load(Ordering::Relaxed)
    }

    fn may_not_read(&self) -> bool {
        self.is_behind() && !behind::may_read(|| self.changed(), self.is_budgeted())
    }

    /// Takes `count` free frames, all or none, and waits for them if need be.
    /// The caller holds no latch.
    pub(crate) fn take(&self, wanted: usize) -> Result<Vec<u32>, PagesError> {
        debug_assert!(wanted <= self.take_max());
        self.hold_back_while(READ_WAIT_MAX, || self.may_not_read());
        // Until then it hurries nobody and leaves the last free frames.
        let mut patient_until = self.is_behind().then(|| Instant::now() + PATIENCE_BEHIND);
        let mut since = None;
        let taken = loop {
            if let Err(error) = self.failure.check() {
                break Err(error);
            }
            patient_until =
                patient_until.filter(|until| Instant::now() < *until && self.is_behind());
            let spare = patient_until.map_or(0, |_| self.supply.low / 2);
            if let Some(frames) = self.try_take(wanted, spare) {
                break Ok(frames);
            }
            if patient_until.is_none() && since.is_none() {
                since = Some(Instant::now());
                count(&self.counters.frame_waits);
                self.supply.waiting.fetch_add(1, Ordering::AcqRel);
            }
            self.supply.wake_flusher();
            let mut free = self.supply.free.lock();
            if free.len() < wanted + spare {
                self.supply.more.wait_for(&mut free, WAIT);
            }
        };
        if let Some(since) = since {
            self.supply.waiting.fetch_sub(1, Ordering::AcqRel);
            self.supply.waits.add(since.elapsed());
        }
        taken
    }

    /// As [`take`](Self::take), but never waits, and leaves `spare` frames.
    fn try_take(&self, wanted: usize, spare: usize) -> Option<Vec<u32>> {
        loop {
            {
                let mut free = self.supply.free.lock();
                let keep = free.len().saturating_sub(wanted);
                if free.len() >= wanted && keep >= self.supply.low {
                    return Some(free.split_off(keep));
                }
            }
            // Only when nothing can be evicted, the last ones go.
            if self.evict_one() {
                continue;
            }
            let mut free = self.supply.free.lock();
            if free.len() < wanted + spare {
                return None;
            }
            let keep = free.len() - wanted;
            return Some(free.split_off(keep));
        }
    }

    /// A frame for a page that nobody waits for yet. Reads ahead may have half
    /// of the pool at once and not the last free frames: these are for those
    /// who wait, and would have to wait for reads of a low level.
    ///
    /// `more` reads are about to be counted.
    pub(super) fn take_ahead(&self, more: usize) -> Option<u32> {
        if self.ahead.load(Ordering::Relaxed) + more >= self.frames.len() / 2 || self.may_not_read()
        {
            return None;
        }
        let frames = self.try_take(1, self.supply.low / 2)?;
        frames.first().copied()
    }

    /// Gives frames back that hold no page.
    pub(crate) fn give(&self, frames: impl IntoIterator<Item = u32>) {
        self.supply.free.lock().extend(frames);
        if self.waiting() > 0 {
            self.supply.more.notify_all();
        }
    }

    /// Frees up to `max` frames ahead of need, until the free ones suffice.
    pub(crate) fn refill(&self, max: usize) {
        self.reclaim_orphans();
        for _ in 0..max {
            if self.supply.free() >= 2 * self.supply.low || !self.evict_one() {
                return;
            }
        }
    }

    /// Frames that wait to be written before they can be freed, up to `max`.
    pub(crate) fn take_cleaning(&self, max: usize) -> Vec<u32> {
        self.queues.lock().take_cleaning(max)
    }

    pub(crate) fn cleaning(&self) -> usize {
        self.queues.lock().cleaning()
    }

    /// What to do with frames of the cleaning list that were written: free
    /// them, or take them back where they were used meanwhile.
    pub(crate) fn cleaned(&self, frames: &[u32]) {
        let mut freed = Vec::new();
        for &frame in frames {
            let used = self.frames[frame as usize].frequency() > 0;
            match if used {
                Attempt::Busy
            } else {
                self.attempt(frame)
            } {
                Attempt::Freed(_) => freed.push(frame),
                _ => self.queues.lock().keep(frame),
            }
        }
        self.give(freed);
    }

    /// Frees one frame, if there is one that needs no writing.
    fn evict_one(&self) -> bool {
        // Four rounds of all use up every frequency.
        let mut left = 4 * self.queues.lock().len() + TRIES;
        while left > 0 {
            let (freed, none, full) = {
                let mut queues = self.queues.lock();
                let before = queues.cleaning();
                let freed = queues.evict(TRIES, &self.frames, |frame| self.attempt(frame));
                let found = before == 0 && queues.cleaning() > 0;
                let (none, full) = (queues.len() == 0, queues.is_cleaning_full());
                drop(queues);
                if found {
                    self.supply.wake_flusher();
                }
                (freed, none, full)
            };
            if let Some(frame) = freed {
                self.give([frame]);
                return true;
            }
            if none || full && self.changed() > MOSTLY_CHANGED {
                // More of the same: the flusher must write first.
                return false;
            }
            left = left.saturating_sub(TRIES);
        }
        false
    }

    /// Share of the frames that hold changes.
    fn changed(&self) -> f64 {
        self.dirty.unwritten() as f64 / self.frames.len() as f64
    }

    /// Frees a frame if nobody uses it and nothing in it is to be written.
    fn attempt(&self, number: u32) -> Attempt {
        let frame = &self.frames[number as usize];
        if frame.is(WRITING | PINNED) {
            return Attempt::Busy;
        }
        if frame.is(DIRTY) {
            return Attempt::Dirty;
        }
        let id = frame.page();
        let mut attempt = Attempt::Busy;
        let mut wasted = None;
        self.table.remove_if(id, |entry| match entry {
            Some(Entry::Resident(holder)) if *holder == number => {
                let Some(mut slot) = frame.try_write() else {
                    return false;
                };
                // Who pins it, and its last writer, may have let go of the latch just now.
                if frame.is(PINNED) {
                    return false;
                }
                if frame.is(DIRTY | WRITING) {
                    attempt = Attempt::Dirty;
                    return false;
                }
                slot.id = None;
                attempt = Attempt::Freed(Some(id));
                true
            }
            Some(Entry::Reading(reading)) if reading.frame == number => {
                // Read ahead, and nobody came.
                wasted = reading
                    .take_if(iolane::Pending::is_done)
                    .map(|done| (std::sync::Arc::clone(reading), done));
                wasted.is_some()
            }
            _ => {
                // Its page was discarded; its buffer may still be reading.
                if let Some(slot) = frame.try_write()
                    && slot.buffer.is_some()
                {
                    attempt = Attempt::Freed(None);
                }
                false
            }
        });
        if let Some((reading, done)) = wasted {
            self.ahead.fetch_sub(1, Ordering::Relaxed);
            frame.write().buffer = Some(done.wait().buffer);
            reading.end(Ok(()));
            count(&self.counters.prefetches_wasted);
            attempt = Attempt::Freed(None);
        }
        if matches!(attempt, Attempt::Freed(_)) {
            count(&self.counters.evictions);
        }
        attempt
    }

    /// Takes the buffers back of reads that nobody will await.
    fn reclaim_orphans(&self) {
        let mut orphans = self.orphans.lock();
        orphans.retain(|reading| {
            if let Some(done) = reading.take_if(iolane::Pending::is_done) {
                self.ahead.fetch_sub(1, Ordering::Relaxed);
                let frame = &self.frames[reading.frame as usize];
                frame.write().buffer = Some(done.wait().buffer);
                if reading.let_go() {
                    self.give([reading.frame]);
                }
                reading.end(Ok(()));
                return false;
            }
            !reading.is_ended()
        });
    }
}

#[cfg(test)]
mod tests {
    use crate::ids::PageId;
    use crate::{PageStore, PageStoreOptions};
    use iolane::Engine;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    const ROUNDS: usize = 2_000_000;

    #[test]
    fn a_page_that_is_pinned_while_it_is_about_to_leave_stays() {
        let directory = tempfile::tempdir().unwrap();
        let options = PageStoreOptions {
            page_bytes: 4096,
            pool_bytes: 64 * 4096,
            log_bytes: 2 << 20,
            ..PageStoreOptions::default()
        };
        let engine = Arc::new(Engine::new().unwrap());
        let store = PageStore::create(engine, directory.path(), &options).unwrap();
        let page = PageId::new(store.create_space("t").unwrap(), 0);
        store.checkpoint().unwrap();
        let pool = &store.core.pool;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    pool.evict_one();
                }
            });
            let left = (0..ROUNDS).find(|_| {
                pool.unpin([page]);
                drop(pool.load_pinned(page).unwrap());
                pool.exclusive(page).is_err()
            });
            is_over.store(true, Ordering::Relaxed);
            assert_eq!(left, None);
        });
    }
}
