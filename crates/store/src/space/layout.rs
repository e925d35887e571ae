//! The bytes of a tablespace's own pages; `docs/format.md` draws them.

use crate::ids::{EXTENT_PAGES, PageId};
use crate::page::Op;
use crate::page::header::{self, PageKind, get_u32, get_u64};

/// Format of tablespaces.
pub(crate) const VERSION: u32 = 2;
/// The one before it: files of whole extents, without their numbers in their
/// names. They are used as they are.
pub(crate) const VERSION_OF_EXTENTS: u32 = 1;
/// Pages of a new tablespace: its own three, and those of a table with up to three
/// indexes.
pub(crate) const FIRST_PAGES: u32 = 8;
/// First bytes of the header page's body.
pub(crate) const MAGIC: [u8; 8] = *b"ioltable";
/// Page of the header.
pub(crate) const HEADER_PAGE: u32 = 0;
/// Pages that one extents page speaks for.
pub(crate) const GROUP_PAGES: u32 = 16_384;
/// Extents of a group.
pub(crate) const GROUP_EXTENTS: u32 = GROUP_PAGES / EXTENT_PAGES;
/// Which page of its group the extents page is.
pub(crate) const EXTENT_PLACE: u32 = 1;
/// The first page of the segment table.
pub(crate) const FIRST_SEGMENT_PAGE: u32 = 2;
/// Longest name.
pub(crate) const NAME_BYTES_MAX: usize = 200;

/// Owner of an extent that nobody has.
pub(crate) const OWNER_NONE: u32 = 0;
/// Owner of an extent whose pages are given singly.
pub(crate) const OWNER_SHARED: u32 = u32::MAX;

/// An extent's owner, for a segment.
pub(crate) fn owner_of(segment: u32) -> u32 {
    segment + 1
}

/// Offsets in the header page.
pub(crate) mod at {
    use crate::page::header::BODY;
    pub(crate) const MAGIC: usize = BODY;
    pub(crate) const VERSION: usize = BODY + 8;
    pub(crate) const PAGE_BYTES: usize = BODY + 12;
    pub(crate) const STORE: usize = BODY + 16;
    pub(crate) const SIZE_PAGES: usize = BODY + 24;
    pub(crate) const NEXT_SPACE: usize = BODY + 28;
    pub(crate) const NAME_LENGTH: usize = BODY + 32;
    pub(crate) const NAME: usize = BODY + 34;
    pub(crate) const SEGMENT_PAGES_COUNT: usize = BODY + 240;
    pub(crate) const SEGMENT_PAGES: usize = BODY + 244;
}

/// What the header page says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) space: u32,
    pub(crate) version: u32,
    pub(crate) page_bytes: u32,
    pub(crate) store: u64,
    pub(crate) size_pages: u32,
    /// Of the system's tablespace: the number that the next one gets.
    pub(crate) next_space: u32,
    pub(crate) name: Vec<u8>,
    pub(crate) segment_pages: Vec<u32>,
}

impl Header {
    /// Reads a whole header page. `None`: it is something else.
    pub(crate) fn parse(page: &[u8]) -> Option<Header> {
        if header::kind(page) != Some(PageKind::SpaceHeader) || page[at::MAGIC..][..8] != MAGIC {
            return None;
        }
        let name_length = usize::from(header::get_u16(page, at::NAME_LENGTH));
        let count = get_u32(page, at::SEGMENT_PAGES_COUNT) as usize;
        if name_length > NAME_BYTES_MAX || count > segment_pages_max(page.len()) {
            return None;
        }
        Some(Header {
            space: header::id(page).space,
            version: get_u32(page, at::VERSION),
            page_bytes: get_u32(page, at::PAGE_BYTES),
            store: get_u64(page, at::STORE),
            size_pages: get_u32(page, at::SIZE_PAGES),
            next_space: get_u32(page, at::NEXT_SPACE),
            name: page[at::NAME..][..name_length].to_vec(),
            segment_pages: (0..count)
                .map(|index| get_u32(page, at::SEGMENT_PAGES + 4 * index))
                .collect(),
        })
    }

    /// The three pages that a tablespace begins with, not sealed.
    pub(crate) fn first_pages(&self) -> [Vec<u8>; 3] {
        let bytes = self.page_bytes as usize;
        let formatted = |number, kind| {
            let mut page = vec![0; bytes];
            let op = Op::Format {
                kind,
                level: 0,
                owner: 0,
            };
            op.apply(&mut page, PageId::new(self.space, number))
                .expect("a page can always be formatted");
            page
        };
        let mut head = formatted(HEADER_PAGE, PageKind::SpaceHeader);
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        put(at::MAGIC, &MAGIC);
        put(at::VERSION, &self.version.to_le_bytes());
        put(at::PAGE_BYTES, &self.page_bytes.to_le_bytes());
        put(at::STORE, &self.store.to_le_bytes());
        put(at::SIZE_PAGES, &self.size_pages.to_le_bytes());
        put(at::NEXT_SPACE, &self.next_space.to_le_bytes());
        put(at::NAME_LENGTH, &(self.name.len() as u16).to_le_bytes());
        put(at::NAME, &self.name);
        put(
            at::SEGMENT_PAGES_COUNT,
            &(self.segment_pages.len() as u32).to_le_bytes(),
        );
        for (index, number) in self.segment_pages.iter().enumerate() {
            put(at::SEGMENT_PAGES + 4 * index, &number.to_le_bytes());
        }
        let mut extents = formatted(EXTENT_PLACE, PageKind::Extents);
        let first = Extent {
            owner: OWNER_SHARED,
            used: 0b111,
        };
        for (offset, bytes) in first.patches(0) {
            extents[usize::from(offset)..][..bytes.len()].copy_from_slice(&bytes);
        }
        [
            head,
            extents,
            formatted(FIRST_SEGMENT_PAGE, PageKind::Segments),
        ]
    }
}

/// Most pages of the segment table.
pub(crate) fn segment_pages_max(page_bytes: usize) -> usize {
    (page_bytes - at::SEGMENT_PAGES) / 4
}

/// The extents page that speaks for `page`.
pub(crate) fn extents_page(page: u32) -> u32 {
    page / GROUP_PAGES * GROUP_PAGES + EXTENT_PLACE
}

/// Which bit of its extent `page` is.
pub(crate) fn bit(page: u32) -> u64 {
    1 << (page % EXTENT_PAGES)
}

/// One extent, as its extents page says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) owner: u32,
    /// A bit for each page in use.
    pub(crate) used: u64,
}

impl Extent {
    const OWNERS: usize = header::BODY;
    const BITMAPS: usize = Self::OWNERS + 4 * GROUP_EXTENTS as usize;

    /// Extent `index` of a group.
    pub(crate) fn read(page: &[u8], index: u32) -> Extent {
        Extent {
            owner: get_u32(page, Self::OWNERS + 4 * index as usize),
            used: get_u64(page, Self::BITMAPS + 8 * index as usize),
        }
    }

    /// Offsets and bytes that make extent `index` this one.
    pub(crate) fn patches(&self, index: u32) -> [(u16, Vec<u8>); 2] {
        let owner = Self::OWNERS + 4 * index as usize;
        let used = Self::BITMAPS + 8 * index as usize;
        [
            (owner as u16, self.owner.to_le_bytes().to_vec()),
            (used as u16, self.used.to_le_bytes().to_vec()),
        ]
    }
}

/// Pages of one segment that lie in shared extents, at most.
pub(crate) const FRAGMENTS_MAX: usize = 32;
/// Bytes of a segment's entry: in use or not, and its single pages.
const SEGMENT_BYTES: usize = 8 + 4 * FRAGMENTS_MAX;

/// Segments that one page of the table has.
pub(crate) fn segments_per_page(page_bytes: usize) -> u32 {
    ((page_bytes - header::BODY) / SEGMENT_BYTES) as u32
}

/// One segment, in its page of the segment table.
pub(crate) struct SegmentEntry {
    at: usize,
}

impl SegmentEntry {
    /// The entry of segment `number`.
    pub(crate) fn of(number: u32, page_bytes: usize) -> SegmentEntry {
        let index = (number % segments_per_page(page_bytes)) as usize;
        SegmentEntry {
            at: header::BODY + index * SEGMENT_BYTES,
        }
    }

    pub(crate) fn is_used(&self, page: &[u8]) -> bool {
        get_u32(page, self.at) != 0
    }

    /// Its pages in shared extents.
    pub(crate) fn fragments(&self, page: &[u8]) -> Vec<u32> {
        let all = (0..FRAGMENTS_MAX).map(|index| get_u32(page, self.at + 8 + 4 * index));
        all.filter(|&number| number != 0).collect()
    }

    /// Makes it used or not, without any pages.
    pub(crate) fn patch_used(&self, used: bool) -> (u16, Vec<u8>) {
        let mut bytes = vec![0; SEGMENT_BYTES];
        bytes[0] = u8::from(used);
        (self.at as u16, bytes)
    }

    /// Where the list has `number`, or with 0 where it has room.
    pub(crate) fn find(&self, page: &[u8], number: u32) -> Option<u16> {
        let mut all = (0..FRAGMENTS_MAX).map(|index| self.at + 8 + 4 * index);
        all.find(|&at| get_u32(page, at) == number)
            .map(|at| at as u16)
    }
}

// The smallest page holds a group's extents and the header's fixed part.
const _: () = assert!(Extent::BITMAPS + 8 * GROUP_EXTENTS as usize <= 4096);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_says_what_it_was_told() {
        for page_bytes in [4096, 16384, 65536] {
            let header = Header {
                space: 9,
                version: VERSION,
                page_bytes,
                store: 0x1234_5678_9abc,
                size_pages: 64,
                next_space: 10,
                name: b"orders".to_vec(),
                segment_pages: vec![2, 77],
            };
            let [head, extents, segments] = header.first_pages();
            assert_eq!(Header::parse(&head), Some(header));
            assert_eq!(Header::parse(&segments), None);
            let first = Extent::read(&extents, 0);
            assert_eq!((first.owner, first.used), (OWNER_SHARED, 7));
            let last = Extent::read(&extents, GROUP_EXTENTS - 1);
            assert_eq!((last.owner, last.used), (OWNER_NONE, 0));
        }
    }

    #[test]
    fn segments_do_not_overlap() {
        let per_page = segments_per_page(4096);
        let mut page = vec![0; 4096];
        for number in 0..per_page {
            let entry = SegmentEntry::of(number, 4096);
            assert!(!entry.is_used(&page));
            let (offset, bytes) = entry.patch_used(true);
            page[usize::from(offset)..][..bytes.len()].copy_from_slice(&bytes);
            let at = usize::from(entry.find(&page, 0).unwrap());
            page[at..at + 4].copy_from_slice(&(number + 100).to_le_bytes());
        }
        for number in 0..per_page {
            let entry = SegmentEntry::of(number, 4096);
            assert_eq!(entry.fragments(&page), [number + 100]);
        }
    }
}
