//! Which frame holds which page.
//!
//! The table is cut into shards with a lock each. A lock is held for one look
//! or one change, never while waiting for a latch or for I/O. What was looked
//! up may be wrong a moment later: whoever latches a frame checks that it still
//! holds the page.

use super::primitives::RwLock;
use crate::ids::PageId;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Shards: many more than processors, so that two threads rarely meet.
const SHARDS: usize = 128;

/// Where a page is.
pub(crate) enum Entry<R> {
    /// In this frame.
    Resident(u32),
    /// On its way.
    Reading(Arc<R>),
}

impl<R> Clone for Entry<R> {
    fn clone(&self) -> Self {
        match self {
            Entry::Resident(frame) => Entry::Resident(*frame),
            Entry::Reading(reading) => Entry::Reading(Arc::clone(reading)),
        }
    }
}

impl<R> Entry<R> {
    fn is_reading(&self, this: &Arc<R>) -> bool {
        matches!(self, Entry::Reading(reading) if Arc::ptr_eq(reading, this))
    }
}

/// Multiplies by 2^64 / phi (Knuth, "The Art of Computer Programming" 6.4):
/// page numbers are no adversary's choice, and a lookup is most of a hit.
#[derive(Default)]
pub(crate) struct PageHasher(u64);

impl Hasher for PageHasher {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(u32::from(byte));
        }
    }

    fn write_u32(&mut self, word: u32) {
        let mixed = (self.0 ^ u64::from(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed.rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

pub(crate) type PageMap<V> = HashMap<PageId, V, BuildHasherDefault<PageHasher>>;

/// On a cache line of its own.
#[repr(align(128))]
struct Shard<R> {
    map: RwLock<PageMap<Entry<R>>>,
}

const NO_HINT: u32 = u32::MAX;

/// Other bits than those that the maps use.
fn hash(id: PageId) -> u64 {
    let word = u64::from(id.page) ^ (u64::from(id.space) << 20);
    word.wrapping_mul(0xd6e8_feb8_6659_fd93) >> 20
}

/// The table.
pub(crate) struct Table<R> {
    frames: usize,
    shards: Box<[Shard<R>]>,
    hints: Box<[AtomicU32]>,
}

impl<R> Table<R> {
    /// For `frames` frames.
    pub(crate) fn new(frames: usize) -> Table<R> {
        let shards = (0..SHARDS).map(|_| Shard {
            map: RwLock::new(PageMap::default()),
        });
        // Twice as many as can be right at once: few meet.
        let hints = (2 * frames).next_power_of_two();
        Table {
            frames,
            shards: shards.collect(),
            hints: (0..hints).map(|_| AtomicU32::new(NO_HINT)).collect(),
        }
    }

    fn shard(&self, id: PageId) -> &Shard<R> {
        &self.shards[(hash(id) >> 20) as usize % SHARDS]
    }

    /// Where the page is.
    pub(crate) fn get(&self, id: PageId) -> Option<Entry<R>> {
        self.shard(id).map.read().get(&id).cloned()
    }

    /// The frame in which the page may be: where it was found the last time,
    /// unless another page with the same place in the list was looked for
    /// since. Takes no lock, so the shards stay in every processor's cache.
    pub(crate) fn hint(&self, id: PageId) -> Option<u32> {
        let hint = self.hints[hash(id) as usize & (self.hints.len() - 1)].load(Ordering::Relaxed);
        (hint != NO_HINT).then_some(hint)
    }

    /// Notes where a page was found.
    pub(crate) fn set_hint(&self, id: PageId, frame: u32) {
        let place = &self.hints[hash(id) as usize & (self.hints.len() - 1)];
        place.store(frame, Ordering::Relaxed);
    }

    /// Enters a page that is not there. `false` if it is.
    pub(crate) fn insert_new(&self, id: PageId, entry: Entry<R>) -> bool {
        let mut map = self.shard(id).map.write();
        match map.entry(id) {
            std::collections::hash_map::Entry::Occupied(_) => false,
            std::collections::hash_map::Entry::Vacant(vacant) => {
                vacant.insert(entry);
                true
            }
        }
    }

    /// The page that `reading` brought is in its frame. `false` if another has
    /// taken the page's place meanwhile.
    pub(crate) fn arrive(&self, id: PageId, reading: &Arc<R>, frame: u32) -> bool {
        let mut map = self.shard(id).map.write();
        match map.get_mut(&id) {
            Some(entry) if entry.is_reading(reading) => {
                *entry = Entry::Resident(frame);
                true
            }
            _ => false,
        }
    }

    /// Is the page still to be brought by `reading`?
    pub(crate) fn is_reading(&self, id: PageId, reading: &Arc<R>) -> bool {
        let map = self.shard(id).map.read();
        map.get(&id).is_some_and(|entry| entry.is_reading(reading))
    }

    /// Forgets a page that `reading` could not bring.
    pub(crate) fn abandon(&self, id: PageId, reading: &Arc<R>) {
        let mut map = self.shard(id).map.write();
        if map.get(&id).is_some_and(|entry| entry.is_reading(reading)) {
            map.remove(&id);
        }
    }

    /// Puts `frame` in the place of a page that is not there, or only on its
    /// way; returns what it finds otherwise, or what it superseded.
    pub(crate) fn place(&self, id: PageId, frame: u32) -> Placed<R> {
        let mut map = self.shard(id).map.write();
        match map.get(&id) {
            Some(Entry::Resident(_)) => Placed::Occupied,
            _ => match map.insert(id, Entry::Resident(frame)) {
                Some(Entry::Reading(reading)) => Placed::Superseded(reading),
                _ => Placed::New,
            },
        }
    }

    /// Takes a page out if `may` agrees, under the shard's lock.
    pub(crate) fn remove_if(
        &self,
        id: PageId,
        may: impl FnOnce(Option<&Entry<R>>) -> bool,
    ) -> bool {
        let mut map = self.shard(id).map.write();
        let remove = may(map.get(&id));
        if remove {
            map.remove(&id);
        }
        remove
    }

    /// All reads that are entered, shard by shard.
    pub(crate) fn readings(&self) -> Vec<Arc<R>> {
        let mut all = Vec::new();
        for shard in &self.shards {
            let map = shard.map.read();
            all.extend(map.values().filter_map(|entry| match entry {
                Entry::Reading(reading) => Some(Arc::clone(reading)),
                Entry::Resident(_) => None,
            }));
        }
        all
    }

    /// All pages that are in memory now, shard by shard.
    pub(crate) fn residents(&self) -> Vec<(PageId, u32)> {
        // Whoever makes memory under a shard's lock may lose the processor there.
        let mut all = Vec::with_capacity(self.frames);
        for shard in &self.shards {
            all.extend(
                shard
                    .map
                    .read()
                    .iter()
                    .filter_map(|(&id, entry)| match entry {
                        Entry::Resident(frame) => Some((id, *frame)),
                        Entry::Reading(_) => None,
                    }),
            );
        }
        all
    }
}

/// What stood in a page's place.
pub(crate) enum Placed<R> {
    /// Nothing.
    New,
    /// A read, whose result nobody wants any more.
    Superseded(Arc<R>),
    /// The page, in a frame: nothing was changed.
    Occupied,
}
