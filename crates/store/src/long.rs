//! Values too long for a leaf: chains of pages of their own.
//!
//! | at | bytes | what |
//! |---|---|---|
//! | 32 | 4 | next page of the chain, 0 in the last |
//! | 36 | 4 | bytes of the value in this page, from 64 on |
//!
//! A chain is written and freed a few pages at a time, each step a
//! mini-transaction that leaves a whole chain: whoever records where it begins
//! does so in the first step of writing, and in each step of freeing.

use crate::access::{MiniTransaction, Pages, PagesError};
use crate::attempt::{in_mini, until_loaded};
use crate::ids::{PageId, SegmentId};
use crate::page::Op;
use crate::page::header::{self, BODY, PageKind, get_u32};

const NEXT_AT: u16 = 32;
/// Pages that one mini-transaction writes.
const WRITTEN_MAX: usize = 8;
/// Pages that one mini-transaction frees.
pub(crate) const FREED_MAX: usize = 32;

/// A chain that is being written.
pub(crate) struct Chain {
    segment: SegmentId,
    pub(crate) first: u32,
    last: PageId,
    written: usize,
}

fn body_bytes(page_bytes: usize) -> usize {
    page_bytes - BODY
}

/// Writes a page that was allocated, as the last one of its chain.
fn write_page(mini: &mut impl MiniTransaction, id: PageId, owner: u64, part: &[u8]) {
    mini.apply(
        id,
        &Op::Format {
            kind: PageKind::Overflow,
            level: 0,
            owner,
        },
    );
    let length = (part.len() as u32).to_le_bytes();
    mini.apply(
        id,
        &Op::Patch {
            offset: NEXT_AT + 4,
            bytes: &length,
        },
    );
    mini.apply(
        id,
        &Op::Patch {
            offset: BODY as u16,
            bytes: part,
        },
    );
}

impl Chain {
    /// Begins a chain in the caller's mini-transaction, in which one page of
    /// `segment` is reserved.
    pub(crate) fn begin(
        mini: &mut impl MiniTransaction,
        segment: SegmentId,
        owner: u64,
        page_bytes: usize,
        value: &[u8],
    ) -> Chain {
        let first = mini.allocate(segment, None);
        let written = value.len().min(body_bytes(page_bytes));
        write_page(mini, first, owner, &value[..written]);
        Chain {
            segment,
            first: first.page,
            last: first,
            written,
        }
    }

    /// Writes what is left of the value.
    pub(crate) fn finish<P: Pages>(
        mut self,
        pages: &P,
        owner: u64,
        value: &[u8],
    ) -> Result<(), PagesError> {
        let body = body_bytes(pages.page_bytes());
        while self.written < value.len() {
            let rest = &value[self.written..];
            let parts: Vec<&[u8]> = rest.chunks(body).take(WRITTEN_MAX).collect();
            let last = self.last;
            let (end, _) = in_mini(pages, &[self.segment], parts.len() as u32, |mini| {
                mini.exclusive(last)?;
                let mut before = last;
                for part in &parts {
                    let id = mini.allocate(self.segment, Some(before));
                    write_page(mini, id, owner, part);
                    let bytes = &id.page.to_le_bytes();
                    let offset = NEXT_AT;
                    mini.apply(before, &Op::Patch { offset, bytes });
                    before = id;
                }
                Ok(before)
            })?;
            self.last = end;
            self.written += parts.iter().map(|part| part.len()).sum::<usize>();
        }
        Ok(())
    }
}

/// Calls `part` with the bytes of each page of a chain and the page's number,
/// until it returns false.
pub(crate) fn walk<P: Pages>(
    pages: &P,
    space: u32,
    first: u32,
    mut part: impl FnMut(u32, &[u8]) -> bool,
) -> Result<(), PagesError> {
    let mut number = first;
    while number != 0 {
        let id = PageId::new(space, number);
        let page = until_loaded(pages, || pages.shared(id))?;
        let bytes = get_u32(&page, 36) as usize;
        let part_of = page.get(BODY..BODY + bytes);
        let Some(bytes) = part_of.filter(|_| header::kind(&page) == Some(PageKind::Overflow))
        else {
            return Err(PagesError::Unreadable {
                page: id,
                reason: "it is no page of a long value".to_owned(),
            });
        };
        if !part(number, bytes) {
            return Ok(());
        }
        number = get_u32(&page, NEXT_AT.into());
    }
    Ok(())
}

/// A whole value.
pub(crate) fn read<P: Pages>(
    pages: &P,
    space: u32,
    first: u32,
    bytes: u64,
) -> Result<Vec<u8>, PagesError> {
    let mut value = Vec::new();
    let wanted = bytes as usize;
    // A damaged chain may be a circle.
    walk(pages, space, first, |_, part| {
        value.extend_from_slice(part);
        value.len() < wanted
    })?;
    if value.len() != wanted {
        return Err(PagesError::Unreadable {
            page: PageId::new(space, first),
            reason: format!(
                "a value of {wanted} bytes begins there, {} are left",
                value.len()
            ),
        });
    }
    Ok(value)
}

/// The first pages of a chain, and where it goes on without them.
pub(crate) fn first_pages<P: Pages>(
    pages: &P,
    space: u32,
    first: u32,
) -> Result<(Vec<PageId>, u32), PagesError> {
    let (mut found, mut next) = (Vec::new(), 0);
    walk(pages, space, first, |number, _| {
        if found.len() == FREED_MAX {
            next = number;
            return false;
        }
        found.push(PageId::new(space, number));
        true
    })?;
    Ok((found, next))
}
