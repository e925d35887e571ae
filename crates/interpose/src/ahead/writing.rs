//! Which places of which files are being written now. No page there is read ahead.
//!
//! Counters by hash: two places with one counter keep each other from being read ahead, no
//! more. Counted before the write begins and until it has ended, in every process with the
//! library, whether or not anything is read ahead: so no write began before that.

use std::sync::atomic::{AtomicU32, Ordering};

/// Bytes that one counter is for; pages are not larger.
const GRANULE_SHIFT: u32 = 16;
pub const GRANULE_BYTES: usize = 1 << GRANULE_SHIFT;
/// A write that is longer counts for the whole file.
const GRANULES_MAX: u64 = 16;
const PLACES: usize = 4096;
const FILES: usize = 256;

static PLACE: [AtomicU32; PLACES] = [const { AtomicU32::new(0) }; PLACES];
static FILE: [AtomicU32; FILES] = [const { AtomicU32::new(0) }; FILES];
static ALL: AtomicU32 = AtomicU32::new(0);

/// Words of an extent.
pub const EXTENT_WORDS: usize = 3;

/// What a call changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// A range of a file, by the file's name and granules from first to last.
    Range(u32, u64, u64),
    /// A file as a whole.
    File(u32),
    /// It is not known what.
    All,
}

impl Extent {
    /// A length of 0 is one that is not known: of a write that must not wait, and of pieces that
    /// could not be looked at.
    pub fn of(file: u32, offset: Option<u64>, length: u64) -> Extent {
        let (Some(offset), 1..) = (offset, length) else {
            return Extent::File(file);
        };
        let last = offset.saturating_add(length - 1) >> GRANULE_SHIFT;
        let first = offset >> GRANULE_SHIFT;
        if last - first < GRANULES_MAX {
            Extent::Range(file, first, last)
        } else {
            Extent::File(file)
        }
    }

    /// As words, of which all zeros is none.
    pub fn to_words(extent: Option<Extent>) -> [u64; EXTENT_WORDS] {
        match extent {
            None => [0, 0, 0],
            Some(Extent::Range(file, first, last)) => [1 << 32 | u64::from(file), first, last],
            Some(Extent::File(file)) => [2 << 32 | u64::from(file), 0, 0],
            Some(Extent::All) => [3 << 32, 0, 0],
        }
    }

    /// What the words mean.
    pub fn from_words([what, first, last]: [u64; EXTENT_WORDS]) -> Option<Extent> {
        let file = what as u32;
        match what >> 32 {
            1 => Some(Extent::Range(file, first, last)),
            2 => Some(Extent::File(file)),
            3 => Some(Extent::All),
            _ => None,
        }
    }

    pub fn begin(self) {
        self.each(&|counter| {
            counter.fetch_add(1, Ordering::SeqCst);
        });
    }

    pub fn end(self) {
        self.each(&|counter| {
            counter.fetch_sub(1, Ordering::SeqCst);
        });
    }

    fn each(self, change: &dyn Fn(&AtomicU32)) {
        match self {
            Extent::Range(file, first, last) => {
                (first..=last).for_each(|granule| change(place(file, granule)));
            }
            Extent::File(file) => change(whole(file)),
            Extent::All => change(&ALL),
        }
    }
}

fn place(file: u32, granule: u64) -> &'static AtomicU32 {
    let mixed = (u64::from(file) << 32 ^ granule).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    &PLACE[(mixed >> 32) as usize % PLACES]
}

fn whole(file: u32) -> &'static AtomicU32 {
    &FILE[file as usize % FILES]
}

/// Whether somebody may be writing there.
pub fn is_written(file: u32, offset: u64) -> bool {
    let counters = [place(file, offset >> GRANULE_SHIFT), whole(file), &ALL];
    counters
        .iter()
        .any(|counter| counter.load(Ordering::SeqCst) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_written_from_the_beginning_of_a_write_to_its_end() {
        let at = |page: u64| is_written(77, page << 14);
        let write = Extent::of(77, Some(16 << 14), 1 << 14);
        let longer = Extent::of(77, Some(17 << 14), 1 << 17);
        let whole = Extent::of(77, Some(0), 1 << 30);
        for extent in [None, Some(write), Some(whole), Some(Extent::All)] {
            assert_eq!(Extent::from_words(Extent::to_words(extent)), extent);
        }
        assert_eq!(whole, Extent::File(77));
        assert_eq!(Extent::of(77, None, 5), whole);
        assert_eq!(
            Extent::of(77, Some(5), 0),
            whole,
            "it is not known how long"
        );
        write.begin();
        longer.begin();
        assert!(at(16) && at(17) && at(24));
        longer.end();
        assert!(at(16) && !at(24));
        write.end();
        assert!(!at(16));
        for extent in [whole, Extent::All] {
            extent.begin();
            assert!(at(1000));
            extent.end();
            assert!(!at(1000));
        }
    }
}
