//! Names of places: pages, positions in the log, segments.

use std::fmt;

/// Bytes of a page unless a store is created with another size.
pub const PAGE_BYTES_DEFAULT: usize = 16 << 10;
/// Contiguous pages that a tablespace is divided into.
pub const EXTENT_PAGES: u32 = 64;

/// A page of a tablespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId {
    /// The tablespace. 0 is the system's: catalogue and undo.
    pub space: u32,
    /// Number of the page in it, from 0.
    pub page: u32,
}

impl PageId {
    /// Page `page` of tablespace `space`.
    pub const fn new(space: u32, page: u32) -> PageId {
        PageId { space, page }
    }

    /// The first page of the extent that it is in.
    pub(crate) const fn extent(self) -> PageId {
        PageId::new(self.space, self.page / EXTENT_PAGES * EXTENT_PAGES)
    }

    /// The pages of the extent that it begins, as a bit for each says.
    pub(crate) fn pages(self, used: u64) -> Vec<PageId> {
        let places = (0..EXTENT_PAGES).filter(|place| used >> place & 1 == 1);
        places
            .map(|place| PageId::new(self.space, self.page + place))
            .collect()
    }
}

impl fmt::Display for PageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} of space {}", self.page, self.space)
    }
}

/// A position in the redo log: bytes logged since the store was created. Never
/// turns back, though the file is written in circles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(pub u64);

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Pages that grow together: the leaves of an index, its branches, one undo
/// slot. A number of its tablespace's segment table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SegmentId {
    /// The tablespace it lies in.
    pub space: u32,
    /// Its number there, from 0.
    pub number: u32,
}
