//! Latches hand over hand and branches by their copies, in many orders of the
//! threads' steps by `shuttle`:
//! `cargo test -p iolane-store --features shuttle shuttle`. It reports threads
//! that wait for each other.

use super::{Direction, Tree};
use crate::access::memory::{MemoryMini, MemoryOptions, MemoryPages, MemoryShared};
use crate::access::{MiniTransaction, Miss, Pages, PagesError};
use crate::ids::{Lsn, PageId, SegmentId};
use crate::page::{Op, header};
use crate::pool::Stamp;
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::thread::{self, ThreadId};
use std::collections::HashMap;
use std::ops::Bound;
use std::sync::{Mutex, PoisonError};

/// Each makes one order of the steps, by each scheduler.
const ORDERS: usize = 300;
/// See `log::model`.
const DEPTH: usize = 3;
const PAGES_MAX: u32 = 200;
/// Four in a leaf, and as many separators in a branch.
const KEY_BYTES: usize = 700;
const VALUE_BYTES: usize = 200;
/// Every third is there from the beginning to the end.
const FIXED_ONE_IN: u32 = 3;
const KEYS: u32 = 60;

/// A thread's copies of pages, each with the version that it has.
type Copies = HashMap<(ThreadId, PageId), (u64, Vec<u8>)>;

/// Pages of which each thread keeps copies, as of those in the pool, but of all
/// branches and from the first time on.
struct Copied {
    pages: MemoryPages,
    versions: Vec<AtomicU64>,
    /// Not for `shuttle` to see: each thread comes for its own.
    copies: Mutex<Copies>,
}

struct CopiedMini<'a> {
    mini: MemoryMini<'a>,
    versions: &'a [AtomicU64],
}

impl Copied {
    fn new(seed: u64) -> Copied {
        let pages = MemoryPages::new(MemoryOptions {
            page_bytes: 4096,
            pages_max: PAGES_MAX,
            miss_one_in: 50,
            seed,
            log: false,
        });
        Copied {
            pages,
            versions: (0..PAGES_MAX).map(|_| AtomicU64::new(0)).collect(),
            copies: Mutex::default(),
        }
    }

    fn version(&self, page: u32) -> u64 {
        self.versions[page as usize].load(Ordering::SeqCst)
    }
}

impl Pages for Copied {
    type Shared<'a> = MemoryShared<'a>;
    type Mini<'a> = CopiedMini<'a>;

    fn page_bytes(&self) -> usize {
        self.pages.page_bytes()
    }

    fn shared(&self, id: PageId) -> Result<MemoryShared<'_>, Miss> {
        self.pages.shared(id)
    }

    fn copied<T>(&self, id: PageId, read: impl FnOnce(&[u8]) -> T) -> Option<(T, Stamp)> {
        let version = self.version(id.page);
        let copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, bytes) = copies.get(&(thread::current().id(), id))?;
        let stamp = Stamp {
            frame: id.page,
            version,
        };
        (*of == version).then(|| (read(bytes), stamp))
    }

    fn is_current(&self, stamp: Stamp) -> bool {
        self.version(stamp.frame) == stamp.version
    }

    fn offer(&self, page: &MemoryShared<'_>) {
        let id = header::id(page);
        let version = self.version(id.page);
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        copies.insert((thread::current().id(), id), (version, page.to_vec()));
    }

    fn load(&self, miss: Miss) -> Result<(), PagesError> {
        self.pages.load(miss)
    }

    fn begin(&self, segments: &[SegmentId], pages: u32) -> Result<CopiedMini<'_>, PagesError> {
        let mini = self.pages.begin(segments, pages)?;
        Ok(CopiedMini {
            mini,
            versions: &self.versions,
        })
    }
}

impl CopiedMini<'_> {
    /// A page was latched exclusively.
    fn count(&self, id: PageId) {
        self.versions[id.page as usize].fetch_add(1, Ordering::SeqCst);
    }
}

impl MiniTransaction for CopiedMini<'_> {
    fn exclusive(&mut self, id: PageId) -> Result<(), Miss> {
        self.mini.exclusive(id)?;
        self.count(id);
        Ok(())
    }

    fn page(&self, id: PageId) -> &[u8] {
        self.mini.page(id)
    }

    fn release(&mut self, id: PageId) {
        self.mini.release(id);
    }

    fn apply(&mut self, id: PageId, op: &Op<'_>) {
        self.mini.apply(id, op);
    }

    fn allocate(&mut self, segment: SegmentId, hint: Option<PageId>) -> PageId {
        let id = self.mini.allocate(segment, hint);
        self.count(id);
        id
    }

    fn free(&mut self, segment: SegmentId, id: PageId) {
        self.mini.free(segment, id);
    }

    fn commit(self) -> Lsn {
        self.mini.commit()
    }
}

fn key(number: u32) -> Vec<u8> {
    // What they have in common makes separators as long.
    let mut key = vec![b'k'; KEY_BYTES];
    key.extend(number.to_be_bytes());
    key
}

fn number_of(key: &[u8]) -> u32 {
    u32::from_be_bytes(key[KEY_BYTES..].try_into().unwrap())
}

fn is_fixed(number: &u32) -> bool {
    number.is_multiple_of(FIXED_ONE_IN)
}

/// What the threads of one order share.
struct Shared {
    pages: Copied,
    tree: Tree,
}

impl Shared {
    /// A tree of three levels.
    fn new() -> Shared {
        let pages = Copied::new(1);
        let (leaves, branches) = (MemoryPages::segment(1), MemoryPages::segment(2));
        let tree = Tree::create(&pages, leaves, branches, 42).unwrap();
        let shared = Shared { pages, tree };
        (0..KEYS)
            .filter(is_fixed)
            .for_each(|number| shared.insert(number));
        shared
    }

    fn insert(&self, number: u32) {
        let value = [number as u8; VALUE_BYTES];
        assert!(self.tree.insert(&self.pages, &key(number), &value).unwrap());
    }

    /// Fills a part of the tree and clears it again: splits, then merges.
    fn write(&self, remainder: u32) {
        let own = || (20..45).filter(|number| number % FIXED_ONE_IN == remainder);
        own().for_each(|number| self.insert(number));
        for number in own() {
            assert!(self.tree.remove(&self.pages, &key(number)).unwrap());
        }
    }

    /// All that is there for good is found, one by one and in both directions.
    fn read(&self) {
        for number in (18..48).filter(is_fixed) {
            let value = self
                .tree
                .get(&self.pages, &key(number), |value| value[0])
                .unwrap();
            assert_eq!(value, Some(number as u8));
        }
        for direction in [Direction::Forward, Direction::Backward] {
            let unbounded = (Bound::Unbounded, Bound::Unbounded);
            let mut cursor = self.tree.cursor(unbounded.0, unbounded.1, direction);
            let mut seen = Vec::new();
            while let Some((key, _)) = cursor.next(&self.pages).unwrap() {
                seen.push(number_of(key));
            }
            if direction == Direction::Backward {
                seen.reverse();
            }
            assert!(seen.is_sorted_by(|a, b| a < b));
            assert!(
                seen.into_iter()
                    .filter(is_fixed)
                    .eq((0..KEYS).filter(is_fixed))
            );
        }
    }
}

#[test]
fn shuttle_finds_no_circle_of_latches_and_no_old_branch() {
    let order = || {
        let shared = Arc::new(Shared::new());
        let steps: [fn(&Shared); 3] = [
            |shared| shared.write(1),
            |shared| shared.write(2),
            |shared| shared.read(),
        ];
        let threads = steps.map(|steps| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || steps(&shared))
        });
        for thread in threads {
            thread.join().unwrap();
        }
        shared.read();
        let report = shared.tree.check(&shared.pages).unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert_eq!(report.records, u64::from(KEYS.div_ceil(FIXED_ONE_IN)));
    };
    shuttle::check_random(order, ORDERS);
    shuttle::check_pct(order, ORDERS, DEPTH);
}
