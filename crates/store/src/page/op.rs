//! The changes of pages. A page is changed by [`Op::apply`] alone, both when
//! the change is made and when the redo log repeats it: what is not logged
//! cannot happen, and redo is right because it is the same code.

use super::header::{self, PageKind};
use crate::ids::PageId;

/// One change of one page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op<'a> {
    /// Makes it an empty page of a kind, whatever it was.
    Format {
        /// What for.
        kind: PageKind,
        /// Level in its tree.
        level: u8,
        /// Whom it belongs to.
        owner: u64,
    },
    /// Overwrites bytes behind the header's first 32.
    Patch {
        /// Where.
        offset: u16,
        /// With what.
        bytes: &'a [u8],
    },
    /// Puts a record into a slotted page before slot `slot`.
    Insert {
        /// Its slot afterwards.
        slot: u16,
        /// The record.
        record: &'a [u8],
    },
    /// Replaces the record of a slot.
    Replace {
        /// Whose.
        slot: u16,
        /// By what.
        record: &'a [u8],
    },
    /// Takes records out of a slotted page: slots `from..to`.
    Remove {
        /// The first.
        from: u16,
        /// Behind the last.
        to: u16,
    },
    /// Replaces everything behind the header's first 32 bytes, and its level.
    Image {
        /// Level in its tree.
        level: u8,
        /// All bytes from 32 on.
        bytes: &'a [u8],
    },
}

/// A change that does not fit its page: the log or the page is damaged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{op} does not apply to {page}: {reason}")]
pub struct OpError {
    /// Name of the change.
    pub op: &'static str,
    /// The page.
    pub page: PageId,
    /// Why not.
    pub reason: String,
}

impl Op<'_> {
    /// Name, for messages.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Format { .. } => "format",
            Op::Patch { .. } => "patch",
            Op::Insert { .. } => "insert",
            Op::Replace { .. } => "replace",
            Op::Remove { .. } => "remove",
            Op::Image { .. } => "image",
        }
    }

    /// Makes the change. Neither LSN nor checksum is touched.
    ///
    /// # Errors
    /// [`OpError`], with the page unchanged.
    pub fn apply(&self, page: &mut [u8], id: PageId) -> Result<(), OpError> {
        let refuse = |reason: &str| OpError {
            op: self.name(),
            page: id,
            reason: reason.to_owned(),
        };
        match *self {
            Op::Format { kind, level, owner } => {
                let lsn = header::lsn(page);
                page.fill(0);
                page[4..8].copy_from_slice(&id.page.to_le_bytes());
                page[8..12].copy_from_slice(&id.space.to_le_bytes());
                page[12] = kind as u8;
                page[13] = level;
                page[24..32].copy_from_slice(&owner.to_le_bytes());
                header::set_lsn(page, lsn);
                Ok(())
            }
            Op::Patch { offset, bytes } => {
                let at = usize::from(offset);
                if at < header::SPECIFIC || at + bytes.len() > page.len() {
                    return Err(refuse("outside of the page"));
                }
                page[at..at + bytes.len()].copy_from_slice(bytes);
                Ok(())
            }
            Op::Image { level, bytes } => {
                if bytes.len() != page.len() - header::SPECIFIC {
                    return Err(refuse("of another page size"));
                }
                page[13] = level;
                page[header::SPECIFIC..].copy_from_slice(bytes);
                Ok(())
            }
            _ => Err(refuse("a change of slotted pages")),
        }
    }
}
