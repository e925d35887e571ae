//! What a page of InnoDB's says of itself: its place in the file and in an index, and,
//! in an index's level 1, the numbers of the leaves below it in their order.
//!
//! Formats: MySQL's `fil0types.h`, `page0types.h` and `rem0rec.h`. Only pages in the
//! compact format that are neither compressed nor encrypted are understood. What is read here
//! only says what is worth reading ahead, so a page that lies costs time and nothing else.

/// Smallest and largest page.
pub const PAGE_BYTES_MIN: usize = 4 << 10;
pub const PAGE_BYTES_MAX: usize = 64 << 10;
/// No page.
pub const NONE: u32 = u32::MAX;

/// `FIL_PAGE_INDEX`, and `FIL_PAGE_TYPE_INSTANT` for roots of tables with columns that were
/// added.
const INDEX_TYPES: [u16; 2] = [17855, 18];
const HEADER: usize = 38;
const N_HEAP: usize = HEADER + 4;
const HEAP_TOP: usize = HEADER + 2;
const FREE_LIST: usize = HEADER + 6;
const N_RECORDS: usize = HEADER + 16;
const LEVEL: usize = HEADER + 26;
const INDEX: usize = HEADER + 28;
/// Where the system records of a compact page lie.
const INFIMUM: usize = 99;
const SUPREMUM: usize = 112;
/// What tells of a page all that [`head`] does.
pub const HEAD_BYTES: usize = INDEX + 8;
/// Behind the text of the supremum.
const HEAP_START: usize = SUPREMUM + 8;
/// Bytes before a record's origin, without lengths of fields and the bits of nulls.
const RECORD_HEADER: usize = 5;
/// A child's number, the last field of a record of level 1.
const CHILD: usize = 4;
/// A record of level 1 takes at least so much: a header, a key of a byte, a child.
const RECORD_MIN: usize = RECORD_HEADER + 1 + CHILD;
/// Bytes of lengths and null bits that are tried: an index has at most 16 columns and a key
/// with a byte each, and the bits take 3.
const EXTRA_MAX: usize = 36;
/// So many of 16 children must be possible, or the format is not the one assumed.
const POSSIBLE_MIN: usize = 15;

/// The beginning of a page of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    pub number: u32,
    /// Before and behind it on its level; [`NONE`] at the ends.
    pub previous: u32,
    pub next: u32,
    pub space: u32,
    pub level: u16,
    pub index: u64,
}

/// The head of a page; `None` if it is none of an index, or too short to be one.
pub fn head(page: &[u8]) -> Option<Head> {
    if !INDEX_TYPES.contains(&half(page, 24)?) {
        return None;
    }
    // The key that it is encrypted with, in the format before full_crc32.
    if word(page, 26)? != 0 {
        return None;
    }
    Some(Head {
        number: word(page, 4)?,
        previous: word(page, 8)?,
        next: word(page, 12)?,
        space: word(page, 34)?,
        level: half(page, LEVEL)?,
        index: u64::from(word(page, INDEX)?) << 32 | u64::from(word(page, INDEX + 4)?),
    })
}

/// Whether a page can be so long.
pub fn is_length(bytes: usize) -> bool {
    bytes.is_power_of_two() && (PAGE_BYTES_MIN..=PAGE_BYTES_MAX).contains(&bytes)
}

/// The leaves below a page of level 1, in the order of their keys. Empty if the page is not
/// understood. `pages`: how many the file has. `scratch` keeps its memory.
pub fn leaves(page: &[u8], pages: u32, scratch: &mut Scratch, into: &mut Vec<u32>) {
    into.clear();
    let Some(head) = head(page) else { return };
    if head.level != 1 || !is_length(page.len()) || scratch.collect(page).is_none() {
        return;
    }
    let possible = |child: u32| child > 0 && child < pages && child != head.number;
    for extra in 0..=EXTRA_MAX {
        into.clear();
        into.extend((0..scratch.records.len()).filter_map(|at| {
            let child = scratch.child(page, at, extra)?;
            possible(child).then_some(child)
        }));
        let enough = into.len() * 16 >= scratch.records.len() * POSSIBLE_MIN;
        if enough && are_different(into, &mut scratch.sorted) {
            return;
        }
    }
    into.clear();
}

fn are_different(children: &[u32], sorted: &mut Vec<u32>) -> bool {
    sorted.clear();
    sorted.extend_from_slice(children);
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}

/// Places of records.
#[derive(Default)]
pub struct Scratch {
    /// Origins in the order of their keys.
    records: Vec<u16>,
    /// Origins of all records, those that were deleted too, as they lie, and the end.
    heap: Vec<u16>,
    sorted: Vec<u32>,
}

impl Scratch {
    /// Memory for any page: nothing is allocated later.
    pub fn new() -> Scratch {
        let records = records_max(PAGE_BYTES_MAX);
        Scratch {
            records: Vec::with_capacity(records),
            heap: Vec::with_capacity(2 * records + 1),
            sorted: Vec::with_capacity(records),
        }
    }

    /// Walks the list of records and that of free places.
    fn collect(&mut self, page: &[u8]) -> Option<()> {
        const IS_COMPACT: u16 = 0x8000;
        self.records.clear();
        self.heap.clear();
        if half(page, N_HEAP)? & IS_COMPACT == 0 {
            return None;
        }
        let count_max = records_max(page.len());
        let count = usize::from(half(page, N_RECORDS)?);
        let mut at = next(page, INFIMUM)?;
        while at != SUPREMUM {
            if self.records.len() == count_max {
                return None;
            }
            self.records.push(origin(page, at)?);
            at = next(page, at)?;
        }
        if self.records.len() != count || count == 0 {
            return None;
        }
        self.heap.extend_from_slice(&self.records);
        let mut free = usize::from(half(page, FREE_LIST)?);
        while free != 0 {
            if self.heap.len() == 2 * count_max {
                return None;
            }
            self.heap.push(origin(page, free)?);
            // The last one's points to itself by a distance of 0.
            match half(page, free - 2)? {
                0 => break,
                _ => free = next(page, free)?,
            }
        }
        self.heap.sort_unstable();
        Some(())
    }

    /// The child of a record, if all records have so many bytes before their headers: it lies
    /// before the next one in the heap.
    fn child(&self, page: &[u8], record: usize, extra: usize) -> Option<u32> {
        let origin = self.records[record];
        let behind = self.heap.partition_point(|&other| other <= origin);
        let end = match self.heap.get(behind) {
            Some(&next) => usize::from(next).checked_sub(RECORD_HEADER + extra)?,
            None => usize::from(half(page, HEAP_TOP)?),
        };
        let at = end.checked_sub(CHILD)?;
        (at > usize::from(origin)).then_some(())?;
        word(page, at)
    }
}

/// Records that a page of level 1 can have.
pub const fn records_max(page_bytes: usize) -> usize {
    page_bytes / RECORD_MIN
}

/// The record behind the one at `at`, in the order of their keys: a distance, modulo 64 KiB.
fn next(page: &[u8], at: usize) -> Option<usize> {
    let distance = half(page, at.checked_sub(2)?)?;
    Some(usize::from((at as u16).wrapping_add(distance)))
}

fn origin(page: &[u8], at: usize) -> Option<u16> {
    let lies_inside = (HEAP_START + RECORD_HEADER..page.len()).contains(&at);
    lies_inside.then_some(at as u16)
}

fn half(page: &[u8], at: usize) -> Option<u16> {
    let bytes = page.get(at..at.checked_add(2)?)?;
    Some(u16::from_be_bytes(bytes.try_into().ok()?))
}

fn word(page: &[u8], at: usize) -> Option<u32> {
    let bytes = page.get(at..at.checked_add(4)?)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// A page of level 1 with keys of `key` bytes, whose records lie in the heap in another order
    /// than that of their keys.
    pub fn branch(number: u32, next: u32, children: &[u32], key: usize, extra: usize) -> Vec<u8> {
        let mut page = vec![0u8; 16 << 10];
        fill_head(&mut page, number, next, 1);
        let size = extra + RECORD_HEADER + key + CHILD;
        let count = children.len();
        let place = |slot: usize| HEAP_START + slot * size + extra + RECORD_HEADER;
        // An order that visits each slot once, as 7 and the count have no common divisor.
        assert_ne!(count % 7, 0);
        let slot_of = |at: usize| at * 7 % count;
        let mut before = INFIMUM;
        for (at, child) in children.iter().enumerate() {
            let here = place(slot_of(at));
            let distance = (here as u16).wrapping_sub(before as u16);
            page[before - 2..before].copy_from_slice(&distance.to_be_bytes());
            for byte in &mut page[here..here + key] {
                *byte = 0x80 | at as u8;
            }
            page[here + key..here + key + 4].copy_from_slice(&child.to_be_bytes());
            before = here;
        }
        let distance = (SUPREMUM as u16).wrapping_sub(before as u16);
        page[before - 2..before].copy_from_slice(&distance.to_be_bytes());
        let top = (HEAP_START + count * size) as u16;
        page[HEAP_TOP..HEAP_TOP + 2].copy_from_slice(&top.to_be_bytes());
        page[N_RECORDS..N_RECORDS + 2].copy_from_slice(&(count as u16).to_be_bytes());
        page
    }

    pub fn fill_head(page: &mut [u8], number: u32, next: u32, level: u16) {
        page[4..8].copy_from_slice(&number.to_be_bytes());
        page[8..12].copy_from_slice(&NONE.to_be_bytes());
        page[12..16].copy_from_slice(&next.to_be_bytes());
        page[24..26].copy_from_slice(&17855u16.to_be_bytes());
        page[34..38].copy_from_slice(&9u32.to_be_bytes());
        page[N_HEAP..N_HEAP + 2].copy_from_slice(&0x8002u16.to_be_bytes());
        page[LEVEL..LEVEL + 2].copy_from_slice(&level.to_be_bytes());
        page[INDEX + 7] = 77;
    }

    fn leaves_of(page: &[u8], pages: u32) -> Vec<u32> {
        let (mut scratch, mut into) = (Scratch::new(), Vec::new());
        leaves(page, pages, &mut scratch, &mut into);
        into
    }

    #[test]
    fn children_come_in_the_order_of_keys() {
        let children: Vec<u32> = (0..500).map(|at| 10 + at * 37 % 503).collect();
        for (key, extra) in [(4, 0), (8, 0), (5, 1), (20, 3)] {
            let count = children.len().min((16 << 10) / (key + extra + 10)) / 7 * 7 + 1;
            let page = branch(4, 5, &children[..count.min(400)], key, extra);
            assert_eq!(leaves_of(&page, 600), children[..count.min(400)]);
        }
        let page = branch(4, 5, &children[..100], 8, 0);
        let read = head(&page).unwrap();
        assert_eq!((read.number, read.next, read.space), (4, 5, 9));
        assert_eq!((read.level, read.index), (1, 77));
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        let children: Vec<u32> = (10..110).collect();
        let page = branch(4, 5, &children, 8, 0);
        assert_eq!(leaves_of(&page, 50), []);
        let long: Vec<u32> = (10..310).collect();
        let long = branch(4, 5, &long, 8, 0);
        assert_eq!(leaves_of(&long, 600).len(), 300);
        assert_eq!(leaves_of(&long[..4096], 600), [], "records lie beyond");
        let twice = [vec![10; 50], vec![11; 50]].concat();
        assert_eq!(leaves_of(&branch(4, 5, &twice, 8, 0), 600), []);
        let mut encrypted = page.clone();
        encrypted[26] = 1;
        assert!(head(&encrypted).is_none());
        assert!(head(&page[..70]).is_none());
        let mut redundant = page.clone();
        redundant[N_HEAP] = 0;
        assert_eq!(leaves_of(&redundant, 600), []);
    }

    #[test]
    fn nonsense_ends() {
        let mut seed = 0x1234_5678_9abc_def1u64;
        let mut random = || {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed
        };
        let children: Vec<u32> = (10..410).collect();
        let whole = branch(4, 5, &children, 8, 0);
        for _ in 0..3000 {
            let mut page = whole.clone();
            for _ in 0..1 + random() % 40 {
                let at = random() as usize % 6000;
                page[at] = random() as u8;
            }
            for child in leaves_of(&page, 600) {
                assert!(child > 0 && child < 600);
            }
            for byte in &mut page[38..] {
                *byte = random() as u8;
            }
            leaves_of(&page, 600);
        }
    }
}
