//! The changes of pages. A page is changed by [`Op::apply`] alone, both when
//! the change is made and when the redo log repeats it: what is not logged
//! cannot happen, and redo is right because it is the same code.

use super::header::{self, PageKind};
use super::slotted;
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
    /// Puts records into a slotted page before slot `slot`: what a split or a
    /// merge moves, in half the bytes of an image.
    InsertMany {
        /// Slot of the first afterwards.
        slot: u16,
        /// Each record behind its length in two bytes.
        records: &'a [u8],
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
            Op::InsertMany { .. } => "insert many",
            Op::Replace { .. } => "replace",
            Op::Remove { .. } => "remove",
            Op::Image { .. } => "image",
        }
    }

    /// Makes the change. The same bytes and the same change make the same
    /// bytes, those of unused space included. Neither LSN nor checksum is
    /// touched. Whatever the page holds, it does not panic.
    ///
    /// # Errors
    /// [`OpError`], with the page unchanged.
    pub fn apply(&self, page: &mut [u8], id: PageId) -> Result<(), OpError> {
        let done = match *self {
            Op::Format { kind, level, owner } => {
                format(page, id, kind, level, owner);
                Ok(())
            }
            Op::Patch { offset, bytes } => patch(page, usize::from(offset), bytes),
            Op::Insert { slot, record } => slotted::insert(page, usize::from(slot), record),
            Op::InsertMany { slot, records } => {
                slotted::insert_many(page, usize::from(slot), records)
            }
            Op::Replace { slot, record } => slotted::replace(page, usize::from(slot), record),
            Op::Remove { from, to } => slotted::remove(page, usize::from(from), usize::from(to)),
            Op::Image { level, bytes } => image(page, level, bytes),
        };
        done.map_err(|reason| OpError {
            op: self.name(),
            page: id,
            reason,
        })
    }
}

fn format(page: &mut [u8], id: PageId, kind: PageKind, level: u8, owner: u64) {
    page[4..8].copy_from_slice(&id.page.to_le_bytes());
    page[8..12].copy_from_slice(&id.space.to_le_bytes());
    page[12] = kind as u8;
    page[13] = level;
    page[14..16].fill(0);
    page[24..32].copy_from_slice(&owner.to_le_bytes());
    page[header::SPECIFIC..].fill(0);
    if matches!(kind, PageKind::Leaf | PageKind::Branch) {
        slotted::format(page);
    }
}

fn patch(page: &mut [u8], at: usize, bytes: &[u8]) -> Result<(), String> {
    let end = at + bytes.len();
    if at < header::SPECIFIC || end > page.len() {
        return Err(format!("bytes {at}..{end} are not its body's"));
    }
    page[at..end].copy_from_slice(bytes);
    Ok(())
}

fn image(page: &mut [u8], level: u8, bytes: &[u8]) -> Result<(), String> {
    let room = page.len() - header::SPECIFIC;
    if bytes.len() != room {
        return Err(format!("{} bytes for {room}", bytes.len()));
    }
    page[13] = level;
    page[header::SPECIFIC..].copy_from_slice(bytes);
    Ok(())
}
