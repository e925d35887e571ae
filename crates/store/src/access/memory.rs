//! Pages that live in memory alone: what trees are tested and measured on.
//!
//! The latches are real. On demand every access may miss, by seed, so that
//! every way to start over is taken; what [`access`](super) forbids (waiting
//! for I/O under a latch, more pages than reserved, changes that are not
//! committed) panics; and all changes are kept as the log would have them, so
//! that [`replayed`](MemoryPages::replayed) can make the pages again.

use super::{MiniTransaction, Miss, Pages, PagesError};
use crate::ids::{Lsn, PAGE_BYTES_DEFAULT, PageId, SegmentId};
use crate::page::{Op, header};
use crate::sync::latch::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
#[cfg(feature = "shuttle")]
use shuttle::thread_local;
use std::cell::Cell;
use std::collections::{BTreeSet, HashMap};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

thread_local! {
    /// Latches that this thread holds, of whatever pages.
    static LATCHES_HELD: Cell<u32> = const { Cell::new(0) };
}

/// Counts a latch as held for as long as it lives.
struct Held;

impl Held {
    fn new() -> Held {
        LATCHES_HELD.with(|held| held.set(held.get() + 1));
        Held
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        LATCHES_HELD.with(|held| held.set(held.get() - 1));
    }
}

fn assert_no_latch() {
    let held = LATCHES_HELD.with(Cell::get);
    assert_eq!(held, 0, "waits for I/O under a latch");
}

/// One page: empty until it is allocated for the first time.
#[derive(Default)]
struct Frame {
    bytes: RwLock<Box<[u8]>>,
    /// The next access misses.
    absent: AtomicBool,
}

/// Which pages are whose.
#[derive(Default)]
struct Space {
    next: u32,
    free: Vec<u32>,
    owners: HashMap<u32, SegmentId>,
    unreadable: BTreeSet<u32>,
}

/// How pages in memory behave.
#[derive(Clone, Copy, Debug)]
pub struct MemoryOptions {
    /// Bytes of a page.
    pub page_bytes: usize,
    /// Pages that there can be.
    pub pages_max: u32,
    /// One access in so many misses; 0: none does.
    pub miss_one_in: u64,
    /// Decides which.
    pub seed: u64,
    /// Whether changes are kept for [`MemoryPages::replayed`].
    pub log: bool,
}

impl Default for MemoryOptions {
    /// Up to 1024 pages of 16 KiB that never miss, without a log.
    fn default() -> MemoryOptions {
        MemoryOptions {
            page_bytes: PAGE_BYTES_DEFAULT,
            pages_max: 1024,
            miss_one_in: 0,
            seed: 0,
            log: false,
        }
    }
}

/// Pages of tablespace [`SPACE`](MemoryPages::SPACE), in memory.
pub struct MemoryPages {
    options: MemoryOptions,
    frames: Box<[Frame]>,
    space: Mutex<Space>,
    log: Mutex<Vec<Box<[u8]>>>,
    lsn: AtomicU64,
    draws: AtomicU64,
    misses: AtomicU64,
}

impl MemoryPages {
    /// The tablespace that they are of.
    pub const SPACE: u32 = 1;

    /// None yet. Page 0 is never given out.
    pub fn new(options: MemoryOptions) -> MemoryPages {
        MemoryPages {
            options,
            frames: (0..options.pages_max).map(|_| Frame::default()).collect(),
            space: Mutex::new(Space {
                next: 1,
                ..Space::default()
            }),
            log: Mutex::default(),
            lsn: AtomicU64::new(0),
            draws: AtomicU64::new(options.seed),
            misses: AtomicU64::new(0),
        }
    }

    /// A segment of them.
    pub fn segment(number: u32) -> SegmentId {
        SegmentId {
            space: Self::SPACE,
            number,
        }
    }

    /// Accesses that missed.
    pub fn misses(&self) -> u64 {
        self.misses.load(Ordering::Relaxed)
    }

    /// Pages that a segment has now.
    pub fn pages_of(&self, segment: SegmentId) -> BTreeSet<u32> {
        let space = self.space.lock();
        let of = space.owners.iter().filter(|&(_, &owner)| owner == segment);
        of.map(|(&page, _)| page).collect()
    }

    /// Bytes of a page as they are now.
    pub fn bytes(&self, page: u32) -> Vec<u8> {
        self.frames[page as usize].bytes.read().to_vec()
    }

    /// Changes a page past all rules: plants damage.
    pub fn damage(&self, page: u32, with: impl FnOnce(&mut [u8])) {
        with(&mut self.frames[page as usize].bytes.write());
    }

    /// Makes every access to a page fail.
    pub fn make_unreadable(&self, page: u32) {
        self.space.lock().unreadable.insert(page);
        self.frames[page as usize]
            .absent
            .store(true, Ordering::Relaxed);
    }

    /// Where the log ends, kept or not.
    pub fn log_end(&self) -> Lsn {
        Lsn(self.lsn.load(Ordering::Relaxed))
    }

    /// Where the log of each mini-transaction ends.
    pub fn lsns(&self) -> Vec<Lsn> {
        let log = self.log.lock();
        let ends = log.iter().scan(0, |end, record| {
            *end += record.len() as u64;
            Some(Lsn(*end))
        });
        ends.collect()
    }

    /// All pages as redo makes them out of nothing from the log up to `end`.
    ///
    /// # Panics
    /// If a change does not decode or apply.
    pub fn replayed(&self, end: Lsn) -> HashMap<u32, Vec<u8>> {
        let mut pages: HashMap<u32, Vec<u8>> = HashMap::new();
        let mut lsn = 0;
        for record in self.log.lock().iter() {
            lsn += record.len() as u64;
            if lsn > end.0 {
                break;
            }
            let mut rest = &record[..];
            while !rest.is_empty() {
                let (id, op, after) = Op::decode(rest).expect("it was encoded");
                let page = pages
                    .entry(id.page)
                    .or_insert_with(|| vec![0; self.options.page_bytes]);
                op.apply(page, id).expect("it was applied before");
                header::set_lsn(page, Lsn(lsn));
                rest = after;
            }
        }
        pages
    }

    /// What a recovery finds whose log ends at `end`. No page of it is free or
    /// whose it is: enough to read and to check.
    pub fn recovered(&self, end: Lsn) -> MemoryPages {
        let recovered = MemoryPages::new(self.options);
        for (page, bytes) in self.replayed(end) {
            *recovered.frames[page as usize].bytes.write() = bytes.into();
        }
        recovered.space.lock().next = self.space.lock().next;
        recovered
    }

    fn frame(&self, id: PageId) -> Result<&Frame, Miss> {
        let frame = (id.space == Self::SPACE)
            .then(|| self.frames.get(id.page as usize))
            .flatten();
        let frame = frame.ok_or(Miss(id))?;
        if self.draw() {
            frame.absent.store(true, Ordering::Relaxed);
        }
        if frame.absent.load(Ordering::Relaxed) {
            self.misses.fetch_add(1, Ordering::Relaxed);
            return Err(Miss(id));
        }
        Ok(frame)
    }

    /// Whether this access misses: splitmix64 (Vigna 2015) of their count.
    fn draw(&self) -> bool {
        if self.options.miss_one_in == 0 {
            return false;
        }
        const STEP: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut z = self.draws.fetch_add(STEP, Ordering::Relaxed);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)).is_multiple_of(self.options.miss_one_in)
    }
}

/// A page in memory under a shared latch.
pub struct MemoryShared<'a> {
    bytes: RwLockReadGuard<'a, Box<[u8]>>,
    _held: Held,
}

impl Deref for MemoryShared<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Pages for MemoryPages {
    type Shared<'a> = MemoryShared<'a>;
    type Mini<'a> = MemoryMini<'a>;

    fn page_bytes(&self) -> usize {
        self.options.page_bytes
    }

    fn shared(&self, id: PageId) -> Result<MemoryShared<'_>, Miss> {
        let bytes = self.frame(id)?.bytes.read();
        if bytes.is_empty() {
            return Err(Miss(id));
        }
        Ok(MemoryShared {
            bytes,
            _held: Held::new(),
        })
    }

    fn load(&self, Miss(page): Miss) -> Result<(), PagesError> {
        assert_no_latch();
        let unreadable = |reason: &str| PagesError::Unreadable {
            page,
            reason: reason.to_owned(),
        };
        let space = self.space.lock();
        if page.space != Self::SPACE || page.page == 0 || page.page >= space.next {
            return Err(unreadable("it was never allocated"));
        }
        if space.unreadable.contains(&page.page) {
            return Err(unreadable("it was made unreadable"));
        }
        self.frames[page.page as usize]
            .absent
            .store(false, Ordering::Relaxed);
        Ok(())
    }

    fn begin(&self, segments: &[SegmentId], pages: u32) -> Result<MemoryMini<'_>, PagesError> {
        assert_no_latch();
        let room = self.options.pages_max - self.space.lock().next;
        if pages * segments.len() as u32 > room {
            return Err(PagesError::NoSpace {
                space: Self::SPACE,
                reason: format!("{room} pages are left"),
            });
        }
        Ok(MemoryMini {
            pages: self,
            latched: Vec::new(),
            reserved: segments.iter().map(|&segment| (segment, pages)).collect(),
            freed: Vec::new(),
            log: Vec::new(),
        })
    }
}

/// A page that a mini-transaction has latched.
struct Latched<'a> {
    id: PageId,
    bytes: RwLockWriteGuard<'a, Box<[u8]>>,
    changed: bool,
    _held: Held,
}

/// A mini-transaction on pages in memory.
pub struct MemoryMini<'a> {
    pages: &'a MemoryPages,
    latched: Vec<Latched<'a>>,
    reserved: Vec<(SegmentId, u32)>,
    freed: Vec<PageId>,
    log: Vec<u8>,
}

impl<'a> MemoryMini<'a> {
    fn latched(&mut self, id: PageId) -> &mut Latched<'a> {
        let latched = self.latched.iter_mut().find(|latched| latched.id == id);
        latched.expect("a page is changed that is not latched")
    }
}

impl MiniTransaction for MemoryMini<'_> {
    fn exclusive(&mut self, id: PageId) -> Result<(), Miss> {
        if self.latched.iter().any(|latched| latched.id == id) {
            return Ok(());
        }
        let bytes = self.pages.frame(id)?.bytes.write();
        if bytes.is_empty() {
            return Err(Miss(id));
        }
        self.latched.push(Latched {
            id,
            bytes,
            changed: false,
            _held: Held::new(),
        });
        Ok(())
    }

    fn page(&self, id: PageId) -> &[u8] {
        let latched = self.latched.iter().find(|latched| latched.id == id);
        &latched.expect("a page is read that is not latched").bytes
    }

    fn release(&mut self, id: PageId) {
        assert!(!self.latched(id).changed, "released after a change");
        self.latched.retain(|latched| latched.id != id);
    }

    fn apply(&mut self, id: PageId, op: &Op<'_>) {
        let latched = self.latched(id);
        latched.changed = true;
        if let Err(error) = op.apply(&mut latched.bytes, id) {
            panic!("{error}");
        }
        op.encode(id, &mut self.log);
    }

    fn allocate(&mut self, segment: SegmentId, _hint: Option<PageId>) -> PageId {
        let reserved = self.reserved.iter_mut().find(|(of, _)| *of == segment);
        let left = &mut reserved.expect("nothing reserved in this segment").1;
        *left = left.checked_sub(1).expect("more pages than reserved");
        let mut space = self.pages.space.lock();
        let page = space.free.pop().unwrap_or_else(|| {
            space.next += 1;
            space.next - 1
        });
        space.owners.insert(page, segment);
        drop(space);
        let frame = &self.pages.frames[page as usize];
        frame.absent.store(false, Ordering::Relaxed);
        let mut bytes = frame.bytes.write();
        if bytes.is_empty() {
            // Not zeros: whoever forgets to format it shall notice.
            *bytes = vec![0xa5; self.pages.options.page_bytes].into();
        }
        let id = PageId::new(MemoryPages::SPACE, page);
        self.latched.push(Latched {
            id,
            bytes,
            changed: true,
            _held: Held::new(),
        });
        id
    }

    fn free(&mut self, segment: SegmentId, id: PageId) {
        let is_told = self.reserved.iter().any(|(of, _)| *of == segment);
        assert!(is_told, "begin was not told that pages of it are freed");
        let owner = self.pages.space.lock().owners.remove(&id.page);
        assert_eq!(owner, Some(segment), "{id} is not that segment's");
        self.freed.push(id);
    }

    fn commit(mut self) -> Lsn {
        let record = std::mem::take(&mut self.log).into_boxed_slice();
        let mut log = self.pages.log.lock();
        let bytes = record.len() as u64;
        let lsn = Lsn(self.pages.lsn.fetch_add(bytes, Ordering::Relaxed) + bytes);
        if self.pages.options.log {
            log.push(record);
        }
        drop(log);
        for latched in &mut self.latched {
            if latched.changed {
                header::set_lsn(&mut latched.bytes, lsn);
                latched.changed = false;
            }
        }
        self.latched.clear();
        let freed = self.freed.drain(..).map(|id| id.page);
        self.pages.space.lock().free.extend(freed);
        lsn
    }
}

impl Drop for MemoryMini<'_> {
    fn drop(&mut self) {
        let changed = self.latched.iter().any(|latched| latched.changed);
        assert!(
            std::thread::panicking() || !changed && self.freed.is_empty(),
            "a mini-transaction is dropped after a change"
        );
    }
}
