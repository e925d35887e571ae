//! Whether a slotted page holds together.

use super::change::prefix_bytes;
use super::{
    CHILD_BYTES, COUNT, HEAP, HOLES, KEY_LENGTH_BYTES, PREFIX, SLOT_BYTES, Slotted, head_of,
    record_bytes_max,
};
use crate::page::header::{self, BODY, PageKind, get_u16, get_u32};

/// What is wrong within a slotted page.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SlottedFault {
    /// It is neither leaf nor branch.
    #[error("it is no page of records")]
    Kind,
    /// Slots, records and holes do not make up the page.
    #[error("its space does not add up: {0}")]
    Space(String),
    /// A record is none.
    #[error("record {slot} is damaged: {reason}")]
    Record {
        /// Its slot.
        slot: usize,
        /// What is wrong.
        reason: String,
    },
    /// A key is not above the one before it.
    #[error("key {slot} is not above the one before it")]
    Order {
        /// Slot of the second.
        slot: usize,
    },
    /// Keys do not begin with the prefix.
    #[error("its keys do not share a prefix of {0} bytes")]
    Prefix(usize),
    /// A head is not that of its key.
    #[error("the head of slot {slot} is not that of its key")]
    Head {
        /// Its slot.
        slot: usize,
    },
}

/// Checks that slots, records, prefix and heads of a leaf or a branch go
/// together, and that its keys ascend. Does not panic, whatever the bytes.
///
/// # Errors
/// The first [`SlottedFault`].
pub fn verify(page: &[u8]) -> Result<(), SlottedFault> {
    if !matches!(header::kind(page), Some(PageKind::Leaf | PageKind::Branch)) {
        return Err(SlottedFault::Kind);
    }
    verify_space(page)?;
    let slots = Slotted::new(page);
    for slot in 0..slots.count() {
        verify_record(page, slots, slot)?;
    }
    verify_keys(page, slots)
}

fn verify_space(page: &[u8]) -> Result<(), SlottedFault> {
    let count = usize::from(get_u16(page, COUNT));
    let (heap, holes) = (get_u32(page, HEAP) as usize, get_u32(page, HOLES) as usize);
    let slots_end = BODY + count * SLOT_BYTES;
    let space = |reason| Err(SlottedFault::Space(reason));
    if slots_end > heap || heap > page.len() {
        return space(format!("slots end at {slots_end}, records begin at {heap}"));
    }
    let slots = Slotted::new(page);
    let mut spans: Vec<_> = (0..count).map(|slot| slots.span(slot)).collect();
    spans.sort_unstable_by_key(|span| span.start);
    let mut end = heap;
    let mut between = 0;
    for span in spans {
        if span.start < end {
            return space(format!("the record at {} begins before {end}", span.start));
        }
        between += span.start - end;
        end = span.end;
    }
    if end > page.len() {
        return space(format!("a record ends at {end}"));
    }
    between += page.len() - end;
    if between != holes {
        return space(format!("{between} bytes of holes, it says {holes}"));
    }
    Ok(())
}

fn verify_record(page: &[u8], slots: Slotted<'_>, slot: usize) -> Result<(), SlottedFault> {
    let record = slots.record(slot);
    let damaged = |reason: String| Err(SlottedFault::Record { slot, reason });
    let Some((length, rest)) = record.split_first_chunk::<KEY_LENGTH_BYTES>() else {
        return damaged(format!("it has {} bytes", record.len()));
    };
    let key = usize::from(u16::from_le_bytes(*length));
    if key > rest.len() {
        return damaged(format!("a key of {key} bytes in {}", rest.len()));
    }
    let longest = record_bytes_max(page.len());
    if record.len() > longest {
        return damaged(format!("{} bytes, {longest} at most", record.len()));
    }
    if header::kind(page) == Some(PageKind::Branch) && rest.len() - key != CHILD_BYTES {
        return damaged(format!("{} bytes for a child", rest.len() - key));
    }
    Ok(())
}

fn verify_keys(page: &[u8], slots: Slotted<'_>) -> Result<(), SlottedFault> {
    for slot in 1..slots.count() {
        if slots.key(slot - 1) >= slots.key(slot) {
            return Err(SlottedFault::Order { slot });
        }
    }
    let (first, prefix) = (slots.first_compared(), usize::from(get_u16(page, PREFIX)));
    if slots.count() <= first {
        return Ok(());
    }
    let shared = prefix <= prefix_bytes(slots)
        && slots
            .compare_prefix(slots.key(first), prefix, first)
            .is_eq();
    if !shared {
        return Err(SlottedFault::Prefix(prefix));
    }
    for slot in 0..slots.count() {
        let head = if slot < first {
            0
        } else {
            head_of(slots.key(slot), prefix)
        };
        if slots.head(slot) != head {
            return Err(SlottedFault::Head { slot });
        }
    }
    Ok(())
}
