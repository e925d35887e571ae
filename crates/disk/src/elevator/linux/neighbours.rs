//! Which queued requests begin or end at a place: what merging asks.

use super::Direction;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::{BuildHasherDefault, Hasher};

/// Hashes one position. Multiplication by the golden ratio (Knuth, The Art of
/// Computer Programming 3, 6.4) and a fold; the standard hasher costs more than
/// all the rest of an elevator, and positions are not chosen by an adversary.
#[derive(Default)]
struct PositionHasher(u64);

impl Hasher for PositionHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {
        unreachable!("keys are u64");
    }

    fn write_u64(&mut self, position: u64) {
        let product = position.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

type ByPosition = HashMap<u64, u32, BuildHasherDefault<PositionHasher>>;

/// Queued requests by first byte and by end, per direction. Where two share a
/// place, the first to come is found: merging needs one, not all.
#[derive(Default)]
pub struct Neighbours {
    starts: [ByPosition; 2],
    ends: [ByPosition; 2],
}

impl Neighbours {
    pub fn insert(&mut self, direction: Direction, start: u64, end: u64, tag: u32) {
        self.starts[direction as usize].entry(start).or_insert(tag);
        self.ends[direction as usize].entry(end).or_insert(tag);
    }

    pub fn remove(&mut self, direction: Direction, start: u64, end: u64, tag: u32) {
        remove_own(&mut self.starts[direction as usize], start, tag);
        remove_own(&mut self.ends[direction as usize], end, tag);
    }

    pub fn starting_at(&self, direction: Direction, position: u64) -> Option<u32> {
        self.starts[direction as usize].get(&position).copied()
    }

    pub fn ending_at(&self, direction: Direction, position: u64) -> Option<u32> {
        self.ends[direction as usize].get(&position).copied()
    }
}

fn remove_own(map: &mut ByPosition, position: u64, tag: u32) {
    if let Entry::Occupied(entry) = map.entry(position)
        && *entry.get() == tag
    {
        entry.remove();
    }
}
