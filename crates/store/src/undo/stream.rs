//! Reading undo, and what a header says.

use super::record::{Body, Record};
use super::{ACTIVE_AT, HEAD_AT, LAST_AT, NEXT_AT};
use crate::access::{Pages, PagesError};
use crate::attempt::until_loaded;
use crate::ids::PageId;
use crate::page::header::{self, BODY, PageKind, get_u16, get_u32, get_u64};
use crate::txn::version::RollPointer;
use std::collections::BTreeSet;

/// A place in a slot's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) page: u32,
    pub(crate) offset: u16,
}

impl Place {
    /// Where the first record of a page is.
    pub(crate) fn begin_of(page: u32) -> Place {
        Place {
            page,
            offset: BODY as u16,
        }
    }

    /// Bytes of the stream from here to what comes next, in the same page or at
    /// the begin of another: what is left free of this one counts, and the head
    /// of the next.
    pub(crate) fn bytes_to(self, next: Place, page_bytes: usize) -> u64 {
        if next.page == self.page {
            return u64::from(next.offset - self.offset);
        }
        page_bytes as u64 - u64::from(self.offset) + u64::from(next.offset)
    }

    pub(crate) fn pointer(self) -> RollPointer {
        RollPointer::new(self.page, self.offset)
    }

    pub(super) fn read(page: &[u8], at: u16) -> Place {
        Place {
            page: get_u32(page, at.into()),
            offset: get_u32(page, usize::from(at) + 4) as u16,
        }
    }

    pub(crate) fn encode(self) -> [u8; 8] {
        let mut out = [0; 8];
        out[..4].copy_from_slice(&self.page.to_le_bytes());
        out[4..].copy_from_slice(&u32::from(self.offset).to_le_bytes());
        out
    }
}

/// What the header of a slot says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotHeader {
    pub(crate) active: u64,
    pub(crate) last: RollPointer,
    pub(crate) tail: Place,
    pub(crate) head: Place,
}

/// What there is at a place of a stream.
#[derive(Debug)]
pub(crate) enum Step<B = Vec<u8>> {
    /// A record, and where the next one would be.
    Record { bytes: B, next: Place },
    /// The stream goes on in this page.
    NextPage(u32),
    /// Nothing yet.
    End,
}

fn damaged(page: PageId, reason: impl Into<String>) -> PagesError {
    PagesError::Unreadable {
        page,
        reason: reason.into(),
    }
}

/// Calls `read` with a page of a kind under its shared latch.
fn with_page<P: Pages, T>(
    pages: &P,
    id: PageId,
    kind: PageKind,
    read: impl Fn(&[u8]) -> Result<T, PagesError>,
) -> Result<T, PagesError> {
    let page = until_loaded(pages, || pages.shared(id))?;
    let kind_found = header::kind(&page);
    if kind_found != Some(kind) {
        return Err(damaged(
            id,
            format!("{kind:?} is due, it is {kind_found:?}"),
        ));
    }
    read(&page)
}

/// What the header of a slot says.
pub(crate) fn read_header<P: Pages>(pages: &P, id: PageId) -> Result<SlotHeader, PagesError> {
    with_page(pages, id, PageKind::UndoSlot, |page| {
        Ok(SlotHeader {
            active: get_u64(page, ACTIVE_AT.into()),
            last: RollPointer(get_u64(page, LAST_AT.into())),
            tail: Place::read(page, LAST_AT + 8),
            head: Place::read(page, HEAD_AT),
        })
    })
}

/// The tables, by their numbers, that what is left in a slot speaks of.
pub(crate) fn tables_of<P: Pages>(pages: &P, header: PageId) -> Result<BTreeSet<u64>, PagesError> {
    let mut tables = BTreeSet::new();
    let mut place = read_header(pages, header)?.head;
    loop {
        place = match step(pages, header.space, place)? {
            Step::End => return Ok(tables),
            Step::NextPage(page) => Place::begin_of(page),
            Step::Record { bytes, next } => {
                let record = Record::decode(&bytes).filter(|record| !record.undone);
                match record.map(|record| record.body) {
                    Some(Body::Row { table, .. } | Body::Long { table, .. }) => {
                        tables.insert(table);
                    }
                    Some(Body::End { .. } | Body::Prepared { .. }) | None => {}
                }
                next
            }
        };
    }
}

/// The bytes of the record at a place, `None` where there is none.
fn record_at(page: &[u8], id: PageId, offset: u16) -> Result<Option<&[u8]>, PagesError> {
    let at = usize::from(offset);
    if at + 2 > page.len() {
        return Ok(None);
    }
    let length = usize::from(get_u16(page, at));
    if length == 0 {
        return Ok(None);
    }
    let bytes = page.get(at..at + length);
    match bytes {
        Some(bytes) if at >= BODY && Record::decode(bytes).is_some() => Ok(Some(bytes)),
        _ => Err(damaged(id, format!("there is no undo record at {offset}"))),
    }
}

/// The record that a roll pointer leads to.
pub(crate) fn read_record<P: Pages>(
    pages: &P,
    space: u32,
    pointer: RollPointer,
) -> Result<Vec<u8>, PagesError> {
    let id = PageId::new(space, pointer.page());
    with_page(pages, id, PageKind::Undo, |page| {
        let record = record_at(page, id, pointer.offset())?;
        let none = || {
            damaged(
                id,
                format!("there is no undo record at {}", pointer.offset()),
            )
        };
        Ok(record.ok_or_else(none)?.to_vec())
    })
}

/// What there is at a place.
pub(crate) fn step<P: Pages>(pages: &P, space: u32, place: Place) -> Result<Step, PagesError> {
    let id = PageId::new(space, place.page);
    with_page(pages, id, PageKind::Undo, |page| {
        Ok(match step_within(page, id, place.offset)? {
            Step::Record { bytes, next } => Step::Record {
                bytes: bytes.to_vec(),
                next,
            },
            Step::NextPage(page) => Step::NextPage(page),
            Step::End => Step::End,
        })
    })
}

/// What there is at an offset of a page.
fn step_within(page: &[u8], id: PageId, offset: u16) -> Result<Step<&[u8]>, PagesError> {
    if let Some(bytes) = record_at(page, id, offset)? {
        let next = Place {
            page: id.page,
            offset: offset.saturating_add(bytes.len() as u16),
        };
        return Ok(Step::Record { bytes, next });
    }
    Ok(match get_u32(page, NEXT_AT.into()) {
        0 => Step::End,
        next => Step::NextPage(next),
    })
}

/// A page of a stream as it was at one moment: for who takes many steps.
pub(crate) struct PageCopy {
    id: PageId,
    bytes: Vec<u8>,
}

impl PageCopy {
    pub(crate) fn new<P: Pages>(pages: &P, id: PageId) -> Result<PageCopy, PagesError> {
        let bytes = with_page(pages, id, PageKind::Undo, |page| Ok(page.to_vec()))?;
        Ok(PageCopy { id, bytes })
    }

    /// What there was at an offset.
    pub(crate) fn step(&self, offset: u16) -> Result<Step<&[u8]>, PagesError> {
        step_within(&self.bytes, self.id, offset)
    }
}
