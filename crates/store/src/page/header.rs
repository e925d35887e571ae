//! The first bytes of every page: what it is, where it belongs, whether it is
//! whole.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 0 | 4 | CRC-32C of all that follows |
//! | 4 | 4 | number of the page in its tablespace |
//! | 8 | 4 | number of the tablespace |
//! | 12 | 1 | kind |
//! | 13 | 1 | level in its tree, 0 for a leaf |
//! | 14 | 2 | 0, reserved |
//! | 16 | 8 | LSN after its last change |
//! | 24 | 8 | owner: index, segment or undo slot |
//! | 32 | 32 | as the kind says |
//! | 64 | | body |
//!
//! All numbers are little-endian. Space, page and LSN are under the checksum:
//! a page that was written to another place, or an older one that was never
//! overwritten, is found out.

use crate::ids::{Lsn, PageId};

/// Where the body begins.
pub const BODY: usize = 64;
/// Where the part of the header begins that the kind defines.
pub const SPECIFIC: usize = 32;

/// What a page is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum PageKind {
    /// Never written: all zeros.
    Unused = 0,
    /// Page 0 of a tablespace.
    SpaceHeader = 1,
    /// Which pages of the following extents are in use.
    Extents = 2,
    /// The tablespace's segments.
    Segments = 3,
    /// Leaf of a B+tree.
    Leaf = 4,
    /// Branch of a B+tree.
    Branch = 5,
    /// Part of a value too long for its leaf.
    Overflow = 6,
    /// Head of an undo slot.
    UndoSlot = 7,
    /// Undo records.
    Undo = 8,
    /// Where everything else of a store begins.
    Master = 9,
}

impl PageKind {
    /// The kind with this number.
    pub fn from_number(number: u8) -> Option<PageKind> {
        use PageKind::*;
        [
            Unused,
            SpaceHeader,
            Extents,
            Segments,
            Leaf,
            Branch,
            Overflow,
            UndoSlot,
            Undo,
            Master,
        ]
        .into_iter()
        .find(|&kind| kind as u8 == number)
    }
}

/// The two bytes at `at`.
pub fn get_u16(page: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(page[at..at + 2].try_into().expect("two bytes"))
}

/// The four bytes at `at`.
pub fn get_u32(page: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(page[at..at + 4].try_into().expect("four bytes"))
}

/// The eight bytes at `at`.
pub fn get_u64(page: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(page[at..at + 8].try_into().expect("eight bytes"))
}

/// Which page it says it is.
pub fn id(page: &[u8]) -> PageId {
    PageId::new(get_u32(page, 8), get_u32(page, 4))
}

/// What it is for; `None` for a number that no version knows.
pub fn kind(page: &[u8]) -> Option<PageKind> {
    PageKind::from_number(page[12])
}

/// Level in its tree.
pub fn level(page: &[u8]) -> u8 {
    page[13]
}

/// LSN after its last change.
pub fn lsn(page: &[u8]) -> Lsn {
    Lsn(get_u64(page, 16))
}

/// Whom it belongs to.
pub fn owner(page: &[u8]) -> u64 {
    get_u64(page, 24)
}

/// Notes its last change.
pub fn set_lsn(page: &mut [u8], lsn: Lsn) {
    page[16..24].copy_from_slice(&lsn.0.to_le_bytes());
}

/// What its first four bytes say of the others, once it is sealed.
fn checksum(page: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(&page[4..])
}

/// Makes it ready to be written.
pub fn seal(page: &mut [u8]) {
    let checksum = checksum(page);
    page[..4].copy_from_slice(&checksum.to_le_bytes());
}

/// Whether it is as it was sealed.
pub fn is_sealed(page: &[u8]) -> bool {
    get_u32(page, 0) == checksum(page)
}

/// What is wrong with a page that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PageFault {
    /// Torn, or damaged at rest.
    #[error("its checksum is {computed:#010x}, it says {stored:#010x}")]
    Checksum {
        /// What the page says.
        stored: u32,
        /// What its bytes make.
        computed: u32,
    },
    /// Whole, but not the page that belongs there.
    #[error("it is {found}: written to the wrong place")]
    Misplaced {
        /// What it says it is.
        found: PageId,
    },
}

/// Checks what was read from `expected`'s place. A page of zeros was never
/// written, and is whole.
///
/// # Errors
/// What is wrong with it.
pub fn check(page: &[u8], expected: PageId) -> Result<(), PageFault> {
    let stored = get_u32(page, 0);
    if stored == 0 && page.iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    let computed = checksum(page);
    if stored != computed {
        return Err(PageFault::Checksum { stored, computed });
    }
    let found = id(page);
    if found != expected {
        return Err(PageFault::Misplaced { found });
    }
    Ok(())
}
