//! The controller's cache: lines of the pairs' disks, clean or dirty.

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

/// Bytes of a line.
pub(super) const LINE_BYTES: u64 = 16 << 10;

/// Bytes for which a line knows whether it holds them.
const SECTOR_BYTES: u64 = LINE_BYTES / 32;

/// No line.
const NONE: u32 = u32::MAX;

/// A line's place: the pair, and which line of its disks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) pair: u32,
    pub(super) line: u64,
}

/// A quick hash of a [`Key`], which nobody chooses with bad intent: each read looks
/// up every line that it touches, and the standard library's hash took most of a
/// simulation's time.
#[derive(Clone, Copy, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u32(&mut self, part: u32) {
        self.write_u64(part.into());
    }

    fn write_u64(&mut self, part: u64) {
        // The high bits are the good ones of a product, the table takes low ones too.
        let product = (self.0 ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Part of a line, in sectors.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) first: u32,
    /// One behind the last.
    pub(super) end: u32,
}

impl Span {
    const WHOLE: Span = Span { first: 0, end: 32 };

    /// What the bytes from `offset` to `end` of a disk take of a line.
    pub(super) fn of(line: u64, offset: u64, end: u64) -> Span {
        let start = line * LINE_BYTES;
        Span {
            first: (offset.saturating_sub(start) / SECTOR_BYTES) as u32,
            end: ((end - start).min(LINE_BYTES) / SECTOR_BYTES) as u32,
        }
    }

    fn mask(self) -> u32 {
        (((1u64 << (self.end - self.first)) - 1) << self.first) as u32
    }
}

struct Line {
    key: Key,
    /// One bit for each sector that is here.
    valid: u32,
    /// Hull of what must go to the disks.
    dirty: Option<Span>,
    /// Whether it is on its way to the disks.
    writing: bool,
    /// The read that brings it.
    filling: Option<u32>,
    /// Neighbours in the list of the clean ones.
    newer: u32,
    older: u32,
    listed: bool,
}

/// What is known of a line that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Here,
    /// The read of this number brings it.
    Coming(u32),
    Missing,
}

/// Dirty neighbours that go to the disks in one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) first: Key,
    pub(super) lines: u64,
    /// First byte on the disks.
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// The lines. Those that are neither dirty nor on their way stand in a list
/// by last use, from whose old end they are given up for others.
pub(super) struct Cache {
    lines: Vec<Line>,
    lines_max: usize,
    index: HashMap<Key, u32, BuildHasherDefault<KeyHasher>>,
    newest: u32,
    oldest: u32,
    clean: usize,
    /// Lines to be written, in the order of the disks.
    dirty: BTreeSet<Key>,
    /// Lines that are dirty or being written.
    pub(super) unwritten: usize,
}

impl Cache {
    pub(super) fn new(cache_bytes: u64) -> Cache {
        let lines_max = (cache_bytes / LINE_BYTES) as usize;
        Cache {
            lines: Vec::with_capacity(lines_max),
            lines_max,
            index: HashMap::with_capacity_and_hasher(lines_max, Default::default()),
            newest: NONE,
            oldest: NONE,
            clean: 0,
            dirty: BTreeSet::new(),
            unwritten: 0,
        }
    }

    /// Lines that can be had for something else.
    pub(super) fn room(&self) -> usize {
        self.lines_max - self.lines.len() + self.clean
    }

    pub(super) fn lines_max(&self) -> usize {
        self.lines_max
    }

    /// Whether keeping a line there would take from the room.
    pub(super) fn needs_room(&self, key: Key) -> bool {
        match self.index.get(&key) {
            Some(&index) => self.lines[index as usize].listed,
            None => true,
        }
    }

    /// Looks for part of a line; if it is here, it counts as used.
    pub(super) fn find(&mut self, key: Key, span: Span) -> Found {
        let Some(&index) = self.index.get(&key) else {
            return Found::Missing;
        };
        let line = &self.lines[index as usize];
        if line.valid & span.mask() == span.mask() {
            if line.listed {
                self.unlist(index);
                self.list(index);
            }
            return Found::Here;
        }
        line.filling.map_or(Found::Missing, Found::Coming)
    }

    /// The read of number `read` will bring a whole line. Needs room.
    pub(super) fn fill(&mut self, key: Key, read: u32) {
        let index = self.obtain(key);
        self.lines[index as usize].filling = Some(read);
    }

    /// A line was brought.
    pub(super) fn filled(&mut self, key: Key) {
        let index = self.index[&key];
        let line = &mut self.lines[index as usize];
        line.filling = None;
        line.valid = Span::WHOLE.mask();
        self.settle(index);
    }

    /// Part of a line was written by the host. Needs room.
    pub(super) fn write(&mut self, key: Key, span: Span) {
        let index = self.obtain(key);
        let line = &mut self.lines[index as usize];
        line.valid |= span.mask();
        if line.dirty.is_none() && !line.writing {
            self.unwritten += 1;
        }
        line.dirty = Some(match line.dirty {
            None => span,
            Some(before) => Span {
                first: before.first.min(span.first),
                end: before.end.max(span.end),
            },
        });
        // On its way it is not to be taken a second time.
        if !line.writing {
            self.dirty.insert(key);
        }
    }

    /// What the disks hold of a line is newer now.
    pub(super) fn invalidate(&mut self, key: Key, span: Span) {
        if let Some(&index) = self.index.get(&key) {
            self.lines[index as usize].valid &= !span.mask();
        }
    }

    /// Takes the next dirty lines of a pair, from `line` on and round, up to
    /// `length_max` bytes of neighbours.
    pub(super) fn take_batch(&mut self, pair: u32, line: u64, length_max: u64) -> Option<Batch> {
        let from = Key { pair, line };
        let start = Key { pair, line: 0 };
        let behind = Key {
            pair: pair + 1,
            line: 0,
        };
        let mut upwards = self.dirty.range(from..behind);
        let first = match upwards.next() {
            Some(first) => *first,
            None => *self.dirty.range(start..behind).next()?,
        };
        let mut key = first;
        let mut span = self.take_dirty(key);
        let offset = key.line * LINE_BYTES + u64::from(span.first) * SECTOR_BYTES;
        let mut end = key.line * LINE_BYTES + u64::from(span.end) * SECTOR_BYTES;
        let mut lines = 1;
        while span.end == Span::WHOLE.end && end + LINE_BYTES - offset <= length_max {
            let next = Key {
                pair,
                line: key.line + 1,
            };
            if !self.dirty.contains(&next) || self.dirty_first(next) != 0 {
                break;
            }
            key = next;
            span = self.take_dirty(key);
            end = key.line * LINE_BYTES + u64::from(span.end) * SECTOR_BYTES;
            lines += 1;
        }
        Some(Batch {
            first,
            lines,
            offset,
            length: end - offset,
        })
    }

    /// A batch is on both disks.
    pub(super) fn written(&mut self, batch: &Batch) {
        for line in batch.first.line..batch.first.line + batch.lines {
            let key = Key {
                line,
                ..batch.first
            };
            let index = self.index[&key];
            let line = &mut self.lines[index as usize];
            line.writing = false;
            if line.dirty.is_none() {
                self.unwritten -= 1;
            } else {
                self.dirty.insert(key);
            }
            self.settle(index);
        }
    }

    fn dirty_first(&self, key: Key) -> u32 {
        let line = &self.lines[self.index[&key] as usize];
        line.dirty.expect("stands among the dirty").first
    }

    fn take_dirty(&mut self, key: Key) -> Span {
        self.dirty.remove(&key);
        let line = &mut self.lines[self.index[&key] as usize];
        line.writing = true;
        line.dirty.take().expect("stands among the dirty")
    }

    /// The line of a key, taken out of the list of the clean: its own, a new
    /// one, or the oldest clean one's.
    fn obtain(&mut self, key: Key) -> u32 {
        if let Some(&index) = self.index.get(&key) {
            self.unlist(index);
            return index;
        }
        let fresh = Line {
            key,
            valid: 0,
            dirty: None,
            writing: false,
            filling: None,
            newer: NONE,
            older: NONE,
            listed: false,
        };
        let index = if self.lines.len() < self.lines_max {
            self.lines.push(fresh);
            self.lines.len() as u32 - 1
        } else {
            let oldest = self.oldest;
            assert!(oldest != NONE, "the cache has no room");
            self.unlist(oldest);
            self.index.remove(&self.lines[oldest as usize].key);
            self.lines[oldest as usize] = fresh;
            oldest
        };
        self.index.insert(key, index);
        index
    }

    /// Lists a line that nothing holds any more.
    fn settle(&mut self, index: u32) {
        let line = &self.lines[index as usize];
        if line.dirty.is_none() && !line.writing && line.filling.is_none() {
            self.list(index);
        }
    }

    fn list(&mut self, index: u32) {
        if self.lines[index as usize].listed {
            return;
        }
        let newest = self.newest;
        let line = &mut self.lines[index as usize];
        line.listed = true;
        line.older = newest;
        line.newer = NONE;
        match newest {
            NONE => self.oldest = index,
            _ => self.lines[newest as usize].newer = index,
        }
        self.newest = index;
        self.clean += 1;
    }

    fn unlist(&mut self, index: u32) {
        let line = &mut self.lines[index as usize];
        if !line.listed {
            return;
        }
        line.listed = false;
        let (newer, older) = (line.newer, line.older);
        match newer {
            NONE => self.newest = older,
            _ => self.lines[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            _ => self.lines[older as usize].newer = newer,
        }
        self.clean -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(line: u64) -> Key {
        Key { pair: 0, line }
    }

    #[test]
    fn neighbours_leave_together_in_order_and_round() {
        let mut cache = Cache::new(64 * LINE_BYTES);
        for line in [7, 3, 4, 5] {
            cache.write(key(line), Span::WHOLE);
        }
        assert_eq!(cache.unwritten, 4);
        let batch = cache.take_batch(0, 6, 1 << 20).unwrap();
        assert_eq!((batch.first, batch.lines), (key(7), 1));
        let batch = cache.take_batch(0, 8, 1 << 20).unwrap();
        assert_eq!((batch.first, batch.lines), (key(3), 3));
        assert_eq!(batch.offset, 3 * LINE_BYTES);
        assert_eq!(batch.length, 3 * LINE_BYTES);
        assert_eq!(cache.take_batch(0, 0, 1 << 20), None);
        cache.written(&batch);
        assert_eq!(cache.unwritten, 1);
    }

    #[test]
    fn a_line_written_again_on_its_way_stays_dirty() {
        let mut cache = Cache::new(64 * LINE_BYTES);
        cache.write(key(1), Span { first: 4, end: 8 });
        let batch = cache.take_batch(0, 0, 1 << 20).unwrap();
        assert_eq!((batch.offset, batch.length), (LINE_BYTES + 2048, 2048));
        cache.write(key(1), Span { first: 8, end: 9 });
        cache.written(&batch);
        assert_eq!(cache.unwritten, 1);
        let again = cache.take_batch(0, 0, 1 << 20).unwrap();
        assert_eq!(again.length, 512);
    }

    #[test]
    fn the_line_unused_for_longest_makes_room() {
        let mut cache = Cache::new(2 * LINE_BYTES);
        for line in [1, 2] {
            cache.fill(key(line), 0);
            assert_eq!(cache.find(key(line), Span::WHOLE), Found::Coming(0));
        }
        assert_eq!(cache.room(), 0);
        cache.filled(key(1));
        cache.filled(key(2));
        assert_eq!(cache.find(key(1), Span::WHOLE), Found::Here);
        cache.write(key(3), Span::WHOLE);
        assert_eq!(cache.find(key(2), Span::WHOLE), Found::Missing);
        assert_eq!(cache.find(key(1), Span::WHOLE), Found::Here);
    }
}
