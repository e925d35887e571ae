//! A buffer cache as databases have it: frames of 16 KiB, and a hash table
//! from page numbers to frames, both on the pages under test.

use iolane::arena::BufferError;
use iolane::{Arena, Buffer};

/// Size of a database page.
pub(super) const PAGE_BYTES: usize = 16 << 10;

/// Frames are taken from the arena in extents: few enough handles to stay in
/// the processor's nearest cache.
const EXTENT_BYTES: usize = 1 << 20;
const EXTENT_PAGES: usize = EXTENT_BYTES / PAGE_BYTES;

/// Smallest cache: an extent for the table, and one for the frames.
pub const CACHE_BYTES_MIN: u64 = 2 * EXTENT_BYTES as u64;

/// One cache line per row; the first line is the page's header.
const LINE_BYTES: usize = 64;
/// The directory at the page's end has a two-byte offset for each row.
const DIRECTORY_BYTES: usize = 512;
const ROWS: u64 = ((PAGE_BYTES - DIRECTORY_BYTES) / LINE_BYTES - 1) as u64;

/// A slot of the hash table: page number, frame number, four bytes each.
const SLOT_BYTES: usize = 8;
/// Page numbers start at 1, so an empty slot is recognized.
const EMPTY: u32 = 0;

/// The cache, with every frame in use.
pub(super) struct Cache {
    extents: Vec<Buffer>,
    table: Buffer,
    slot_mask: usize,
    pages: u32,
}

impl Cache {
    /// Fills `bytes` of `arena` with the table and frames.
    pub(super) fn new(arena: &Arena, bytes: u64) -> Result<Self, BufferError> {
        let bytes = bytes as usize;
        let slots = (bytes / PAGE_BYTES * 2).next_power_of_two();
        let mut table = arena.buffer(slots * SLOT_BYTES)?;
        table.fill(0);
        let extent_count = bytes / EXTENT_BYTES - table.len().div_ceil(EXTENT_BYTES);
        let extents = (0..extent_count)
            .map(|_| arena.buffer(EXTENT_BYTES))
            .collect::<Result<Vec<_>, _>>()?;
        let mut cache = Cache {
            extents,
            table,
            slot_mask: slots - 1,
            pages: (extent_count * EXTENT_PAGES) as u32,
        };
        for frame in 0..cache.pages {
            cache.load(frame);
        }
        Ok(cache)
    }

    /// Pages in the cache.
    pub(super) fn pages(&self) -> u32 {
        self.pages
    }

    /// The memory of one frame, for a read from a file.
    pub(super) fn frame_mut(&mut self, frame: u32) -> &mut [u8] {
        let (extent, at) = place(frame);
        &mut self.extents[extent][at..at + PAGE_BYTES]
    }

    /// `count` random row look-ups, each needing the result of the one before,
    /// as the steps down a tree do. Returns the state to go on from, which also
    /// proves what was read.
    pub(super) fn look_up(&self, count: u64, state: u64) -> u64 {
        (0..count).fold(state, |state, _| {
            let page_number = page_number_of((state % u64::from(self.pages)) as u32);
            mix(state ^ self.row(page_number, (state >> 32) % ROWS))
        })
    }

    /// A row, found as a database does: hash table, page header, directory,
    /// row. A page that is not there is a defect of this module.
    fn row(&self, page_number: u32, row: u64) -> u64 {
        let frame = self.find(page_number).expect("every page is in the cache");
        let page = self.frame(frame);
        let header = word(page, 0);
        assert_eq!(header, u64::from(page_number));
        let entry = PAGE_BYTES - DIRECTORY_BYTES + row as usize * 2;
        let offset = u16::from_le_bytes([page[entry], page[entry + 1]]);
        word(page, usize::from(offset))
    }

    fn find(&self, page_number: u32) -> Option<u32> {
        let mut slot = hash(page_number) & self.slot_mask;
        loop {
            let entry = word(&self.table, slot * SLOT_BYTES);
            match entry as u32 {
                EMPTY => return None,
                found if found == page_number => return Some((entry >> 32) as u32),
                _ => slot = (slot + 1) & self.slot_mask,
            }
        }
    }

    /// Puts the page that belongs there into a frame, and into the table.
    fn load(&mut self, frame: u32) {
        let page_number = page_number_of(frame);
        let mut slot = hash(page_number) & self.slot_mask;
        while word(&self.table, slot * SLOT_BYTES) as u32 != EMPTY {
            slot = (slot + 1) & self.slot_mask;
        }
        let entry = u64::from(page_number) | (u64::from(frame) << 32);
        put_word(&mut self.table, slot * SLOT_BYTES, entry);

        let page = self.frame_mut(frame);
        put_word(page, 0, u64::from(page_number));
        for row in 0..ROWS {
            let offset = (row as usize + 1) * LINE_BYTES;
            put_word(page, offset, row_value(page_number, row));
            let entry = PAGE_BYTES - DIRECTORY_BYTES + row as usize * 2;
            page[entry..entry + 2].copy_from_slice(&(offset as u16).to_le_bytes());
        }
    }

    fn frame(&self, frame: u32) -> &[u8] {
        let (extent, at) = place(frame);
        &self.extents[extent][at..at + PAGE_BYTES]
    }
}

fn place(frame: u32) -> (usize, usize) {
    let frame = frame as usize;
    (frame / EXTENT_PAGES, frame % EXTENT_PAGES * PAGE_BYTES)
}

/// Page numbers are scattered, as in a cache that has run for a while. The
/// factor is odd, so no two frames have the same, and none has 0.
fn page_number_of(frame: u32) -> u32 {
    (frame + 1).wrapping_mul(0x9E37_79B1)
}

fn row_value(page_number: u32, row: u64) -> u64 {
    mix(u64::from(page_number) << 16 | row)
}

fn hash(page_number: u32) -> usize {
    mix(u64::from(page_number)) as usize
}

/// The finalizer of SplitMix64 (Steele et al., OOPSLA 2014), with its step.
pub(super) fn mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let bytes = bytes[at..at + 8].try_into().expect("eight bytes");
    u64::from_le_bytes(bytes)
}

fn put_word(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use iolane::arena::PageChoice;

    fn cache(bytes: u64) -> Cache {
        let arena = Arena::builder()
            .bytes(bytes)
            .pages(PageChoice::Plain)
            .build()
            .unwrap();
        Cache::new(&arena, bytes).unwrap()
    }

    #[test]
    fn every_row_is_found_where_it_was_put() {
        let cache = cache(4 << 20);
        assert_eq!(cache.pages(), 3 * 64);
        for frame in 0..cache.pages() {
            let page_number = page_number_of(frame);
            assert_eq!(cache.find(page_number), Some(frame));
            for row in [0, 1, ROWS / 2, ROWS - 1] {
                assert_eq!(cache.row(page_number, row), row_value(page_number, row));
            }
        }
        assert_eq!(cache.find(page_number_of(cache.pages())), None);
    }

    #[test]
    fn the_smallest_cache_has_frames() {
        assert_eq!(cache(CACHE_BYTES_MIN).pages(), 64);
    }

    #[test]
    fn look_ups_depend_on_the_seed_alone() {
        let (one, other) = (cache(4 << 20), cache(4 << 20));
        assert_eq!(one.look_up(1000, 7), other.look_up(1000, 7));
        assert_ne!(one.look_up(1000, 7), one.look_up(1000, 8));
        let half_way = one.look_up(500, 7);
        assert_eq!(one.look_up(500, half_way), one.look_up(1000, 7));
    }
}
