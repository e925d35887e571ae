//! The buffer pool: pages in memory, read and replaced by need.
//!
//! | file | subject |
//! |---|---|
//! | `frame` | a place for a page, its latch |
//! | `table` | which frame holds which page |
//! | `copies` | branches that a thread reads without a latch |
//! | `reading` | a page on its way: who waits, who brings it home |
//! | `replacement` | which page leaves next |
//! | `dirty` | which pages must be written, by age |
//! | `supply` | free frames: eviction, waiting for the flusher |
//! | `behind` | what those who stand back may do while many frames hold changes |
//! | `load` | reading a page that somebody waits for |
//! | `ahead` | reading pages ahead of need, and giving that up |
//! | `settle` | the end: nothing is under way any more |
//!
//! Order of locks, from the first to the last: a page latch, the replacement
//! queues, a shard of the table, a reading's state, the list of free frames.
//! Against the order (by eviction) latches are only tried.

mod ahead;
mod behind;
mod copies;
pub(crate) mod dirty;
pub(crate) mod frame;
mod load;
#[cfg(all(test, feature = "shuttle"))]
mod model;
mod primitives;
mod reading;
mod replacement;
mod settle;
mod supply;
mod table;

pub(crate) use ahead::{Awaited, Leaves};
pub use copies::Stamp;
pub use supply::POOL_PAGES_MIN;

use crate::access::{Miss, PagesError};
use crate::failure::Failure;
use crate::files::PageFiles;
use crate::ids::{Lsn, PageId};
use crate::stream::Guesses;
use dirty::Dirty;
use frame::{Frame, PINNED, READ_AHEAD, Slot};
use iolane::arena::{ArenaError, BufferError};
use iolane::{Arena, Buffer};
use parking_lot::{Mutex, RwLockReadGuard, RwLockWriteGuard};
use reading::Reading;
use replacement::Replacement;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use supply::Supply;
use table::{Entry, Placed, Table};

pub(crate) type PageReading = Reading<iolane::Pending<Buffer>, PagesError>;

/// How long a thread waits for a latch before it looks whether the frame still
/// belongs to the page.
const PATIENCE: Duration = Duration::from_millis(10);

/// Why there is no pool.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// Too small to work in.
    #[error(
        "a pool of {pages} pages is too small: mini-transactions and the pages that stay in \
         memory need {needed}; give the pool at least {} bytes", *needed * *page_bytes
    )]
    TooSmall {
        /// Pages that it would have.
        pages: usize,
        /// Pages that it needs.
        needed: usize,
        /// Bytes of a page.
        page_bytes: usize,
    },
    /// More frames than can be numbered.
    #[error("a pool of {pages} pages is too large: at most {}", u32::MAX)]
    TooLarge {
        /// Pages that it would have.
        pages: usize,
    },
    /// The memory is not to be had.
    #[error(transparent)]
    Arena(#[from] ArenaError),
    /// The arena that was given is too small.
    #[error("the arena given for the pool: {0}")]
    Buffer(#[from] BufferError),
}

/// What the pool did and holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStatistics {
    /// Pages found in memory, about, and without branches that a thread had a
    /// copy of.
    pub hits: u64,
    /// Pages not found in memory, or still on their way.
    pub misses: u64,
    /// Pages read from files.
    pub reads: u64,
    /// Of these, ahead of need.
    pub prefetches: u64,
    /// Pages read ahead that left unused.
    pub prefetches_wasted: u64,
    /// Pages that left memory.
    pub evictions: u64,
    /// Reads ahead withdrawn before they began.
    pub prefetches_cancelled: u64,
    /// Times that a thread waited for a free frame.
    pub frame_waits: u64,
    /// Frames.
    pub frames: u64,
    /// Of these, free.
    pub free: u64,
    /// Of these, changed and not written.
    pub dirty: u64,
}

#[derive(Default)]
struct Counters {
    misses: AtomicU64,
    reads: AtomicU64,
    prefetches: AtomicU64,
    prefetches_wasted: AtomicU64,
    prefetches_cancelled: AtomicU64,
    evictions: AtomicU64,
    frame_waits: AtomicU64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Pools that there were in this program.
static POOLS: AtomicU64 = AtomicU64::new(0);

/// The frames and who is in them.
pub(crate) struct Pool {
    /// Another one for each pool of the program.
    number: u64,
    page_bytes: usize,
    frames: Box<[Frame]>,
    table: Table<PageReading>,
    queues: Mutex<Replacement>,
    pub(crate) dirty: Dirty,
    supply: Supply,
    /// Reads whose page was given away meanwhile.
    orphans: Mutex<Vec<Arc<PageReading>>>,
    /// Reads ahead of need that nobody has taken over.
    ahead: AtomicUsize,
    counters: Counters,
    /// What follows from the places of pages read lately.
    pub(crate) guesses: Guesses,
    pub(crate) files: PageFiles,
    pub(crate) failure: Arc<Failure>,
    arena: Arena,
}

/// A page under a shared latch.
pub struct SharedPage<'a> {
    frame: u32,
    slot: RwLockReadGuard<'a, Slot>,
}

impl Deref for SharedPage<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.slot.bytes()
    }
}

/// A page under an exclusive latch.
pub(crate) struct ExclusivePage<'a> {
    pub(crate) frame: u32,
    pub(crate) slot: RwLockWriteGuard<'a, Slot>,
}

impl Pool {
    /// A pool of `frames` pages in `arena` for `files`.
    pub(crate) fn new(
        arena: Arena,
        frames: usize,
        page_bytes: usize,
        cleaning_max: usize,
        files: PageFiles,
        failure: Arc<Failure>,
    ) -> Result<Pool, PoolError> {
        if frames < POOL_PAGES_MIN {
            return Err(PoolError::TooSmall {
                pages: frames,
                needed: POOL_PAGES_MIN,
                page_bytes,
            });
        }
        if u32::try_from(frames).is_err() {
            return Err(PoolError::TooLarge { pages: frames });
        }
        let all: Result<Box<[Frame]>, BufferError> = (0..frames)
            .map(|_| arena.buffer(page_bytes).map(Frame::new))
            .collect();
        Ok(Pool {
            number: POOLS.fetch_add(1, Ordering::Relaxed),
            page_bytes,
            frames: all?,
            table: Table::new(frames),
            queues: Mutex::new(Replacement::new(frames, cleaning_max.min(frames / 4))),
            dirty: Dirty::new(frames, Lsn(0)),
            supply: Supply::new(frames),
            orphans: Mutex::default(),
            ahead: AtomicUsize::new(0),
            counters: Counters::default(),
            guesses: Guesses::default(),
            files,
            failure,
            arena,
        })
    }

    pub(crate) fn page_bytes(&self) -> usize {
        self.page_bytes
    }

    pub(crate) fn frames(&self) -> &[Frame] {
        &self.frames
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Pages that come and go without others leaving for them, about.
    pub(crate) fn passing_pages(&self) -> usize {
        Replacement::small_target(self.frames.len())
    }

    /// A change of many pages has come past one. If that was read for it, there
    /// are more of them than stay in memory, or nobody else uses it: it can as
    /// well be written now as later. Only once per read, so that this costs at
    /// most as many writes as there were reads.
    pub(crate) fn passed(&self, id: PageId) {
        if let Some(Entry::Resident(number)) = self.table.get(id)
            && self.frames[number as usize].clear(READ_AHEAD)
            && self.dirty.passed(number)
        {
            self.supply.wake_flusher();
        }
    }

    /// Latches a page for reading.
    pub(crate) fn shared(&self, id: PageId) -> Result<SharedPage<'_>, Miss> {
        let (frame, slot) = self.resident(id, |it| it.try_read_for(PATIENCE), |it| it.id)?;
        Ok(SharedPage { frame, slot })
    }

    /// Latches a page for changing.
    pub(crate) fn exclusive(&self, id: PageId) -> Result<ExclusivePage<'_>, Miss> {
        let (frame, slot) = self.resident(id, |it| it.try_write_for(PATIENCE), |it| it.id)?;
        Ok(ExclusivePage { frame, slot })
    }

    /// Finds a page and latches it by `latch`, which gives up after a while;
    /// `held` says which page the frame then holds.
    fn resident<'a, G>(
        &'a self,
        id: PageId,
        latch: impl Fn(&'a Frame) -> Option<G>,
        held: impl Fn(&G) -> Option<PageId>,
    ) -> Result<(u32, G), Miss> {
        // Between look and latch the page may have left, and the frame belong
        // to another, whose holder waits for a latch of this thread: so it
        // waits for a frame only as long as that is given to this page.
        let wait = |number: u32| {
            let frame = &self.frames[number as usize];
            while frame.page() == id {
                let Some(slot) = latch(frame) else { continue };
                if held(&slot) != Some(id) {
                    return None;
                }
                frame.used();
                return Some((number, slot));
            }
            None
        };
        if let Some(found) = self.table.hint(id).and_then(wait) {
            return Ok(found);
        }
        loop {
            match self.table.get(id) {
                Some(Entry::Resident(number)) => {
                    self.table.set_hint(id, number);
                    if let Some(found) = wait(number) {
                        return Ok(found);
                    }
                }
                Some(Entry::Reading(reading)) => {
                    let Some(done) = reading.take_if(iolane::Pending::is_done) else {
                        break;
                    };
                    self.ahead.fetch_sub(1, Ordering::Relaxed);
                    // No wait: it is done.
                    let completion = done.wait();
                    if self.arrived(id, &reading, completion).is_err() {
                        break;
                    }
                }
                None => break,
            }
        }
        count(&self.counters.misses);
        Err(Miss(id))
    }

    /// Gives a new page a frame that was taken before, and latches it. If the
    /// page is in memory from an earlier life, it keeps its frame, and the one
    /// taken comes back.
    pub(crate) fn place(&self, id: PageId, number: u32) -> (ExclusivePage<'_>, Option<u32>) {
        let frame = &self.frames[number as usize];
        loop {
            let mut slot = frame.write();
            slot.id = Some(id);
            frame.assign(id);
            match self.table.place(id, number) {
                Placed::Occupied => {
                    slot.id = None;
                    drop(slot);
                    if let Ok(page) = self.exclusive(id) {
                        return (page, Some(number));
                    }
                    // It left just now.
                    continue;
                }
                Placed::Superseded(reading) => self.orphans.lock().push(reading),
                Placed::New => {}
            }
            self.queues.lock().insert(number, id);
            let page = ExclusivePage {
                frame: number,
                slot,
            };
            return (page, None);
        }
    }

    /// The page's contents are of no more use, written or not. Its frame is
    /// found free when its turn comes.
    pub(crate) fn discard(&self, page: &mut ExclusivePage<'_>) {
        let Some(id) = page.slot.id.take() else {
            return;
        };
        self.dirty.forget(&self.frames, page.frame);
        self.unlist(id, page.frame);
    }

    /// Takes a page that is changed by half away from whoever would read or
    /// write it. Changed it stays: no checkpoint may pass it.
    pub(crate) fn conceal(&self, page: &mut ExclusivePage<'_>) {
        if let Some(id) = page.slot.id.take() {
            self.unlist(id, page.frame);
        }
    }

    fn unlist(&self, id: PageId, frame: u32) {
        self.table.remove_if(
            id,
            |entry| matches!(entry, Some(Entry::Resident(listed)) if *listed == frame),
        );
    }

    /// Lets go of a page that was written past the pool. Whoever reads it from
    /// now on finds what was written.
    pub(crate) fn forget(&self, id: PageId) {
        while self.table.get(id).is_some() {
            match self.exclusive(id) {
                Ok(mut page) => self.discard(&mut page),
                // On its way: an error takes it out of the table too.
                Err(_) => drop(self.load(id)),
            }
        }
    }

    /// The pages that are in memory now.
    pub(crate) fn residents(&self) -> Vec<PageId> {
        self.table
            .residents()
            .into_iter()
            .map(|(id, _)| id)
            .collect()
    }

    /// Discards all pages of a tablespace.
    pub(crate) fn discard_space(&self, space: u32) {
        for (id, frame) in self.table.residents() {
            if id.space != space {
                continue;
            }
            let slot = self.frames[frame as usize].write();
            if slot.id == Some(id) {
                if self.frames[frame as usize].is(PINNED) {
                    self.frames[frame as usize].clear(PINNED);
                    self.supply.pinned.fetch_sub(1, Ordering::Relaxed);
                }
                self.discard(&mut ExclusivePage { frame, slot });
            }
        }
    }

    /// Keeps the page of a frame in memory until it is [unpinned](Self::unpin). The caller holds its
    /// latch.
    pub(crate) fn pin_frame(&self, frame: u32) {
        if !self.frames[frame as usize].set(PINNED) {
            self.supply.pinned.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Reads a page and latches it.
    pub(crate) fn load_shared(&self, id: PageId) -> Result<SharedPage<'_>, PagesError> {
        loop {
            self.load(id)?;
            if let Ok(page) = self.shared(id) {
                return Ok(page);
            }
        }
    }

    /// The same, and keeps it in memory until it is unpinned.
    pub(crate) fn load_pinned(&self, id: PageId) -> Result<SharedPage<'_>, PagesError> {
        let page = self.load_shared(id)?;
        self.pin_frame(page.frame);
        Ok(page)
    }

    /// Pages that were pinned leave memory as all others.
    pub(crate) fn unpin(&self, pages: impl IntoIterator<Item = PageId>) {
        for id in pages {
            if let Some(Entry::Resident(frame)) = self.table.get(id)
                && self.frames[frame as usize].clear(PINNED)
            {
                self.supply.pinned.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn statistics(&self) -> PoolStatistics {
        let hits = self.frames.iter().map(Frame::uses).sum();
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        PoolStatistics {
            hits,
            misses: read(&self.counters.misses),
            reads: read(&self.counters.reads),
            prefetches: read(&self.counters.prefetches),
            prefetches_wasted: read(&self.counters.prefetches_wasted),
            prefetches_cancelled: read(&self.counters.prefetches_cancelled),
            evictions: read(&self.counters.evictions),
            frame_waits: read(&self.counters.frame_waits),
            frames: self.frames.len() as u64,
            free: self.supply.free() as u64,
            dirty: self.dirty.count() as u64,
        }
    }
}
