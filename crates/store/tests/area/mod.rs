//! The doublewrite area as it lies on the disk; `docs/format.md` draws it.
#![allow(dead_code, reason = "each test file uses a part")]

use iolane_store::ids::PageId;
use iolane_store::page::header;

/// Of the tests' stores.
const PAGE: usize = 4096;
/// Where the slots begin, in pages.
const SLOTS: [usize; 4] = [1, 130, 259, 388];

/// A batch: its number, and its pages with their changes.
struct Batch {
    sequence: u64,
    pages: Vec<(PageId, u64)>,
}

fn batch(head: &[u8]) -> Batch {
    let count = header::get_u32(head, 16) as usize;
    let entries = head[24..].chunks_exact(16).take(count);
    let pages = entries.map(|entry| {
        let id = PageId::new(header::get_u32(entry, 0), header::get_u32(entry, 4));
        (id, header::get_u64(entry, 8))
    });
    Batch {
        sequence: header::get_u64(head, 8),
        pages: pages.collect(),
    }
}

/// What the lists of all slots name.
pub fn copies(area: &[u8]) -> impl Iterator<Item = PageId> {
    let heads = SLOTS.map(|slot| batch(&area[slot * PAGE..][..PAGE]));
    heads.into_iter().flat_map(|it| it.pages).map(|(id, _)| id)
}

/// How a power cut has left the newest batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// Nothing of it is missing, or there is none.
    Whole,
    /// Its list has arrived, some of its pages have not.
    ListAlone,
    /// Its list is torn.
    TornList,
}

/// Looks at an area through `read`, which gives the page at an index of the
/// file.
pub fn phase(mut read: impl FnMut(usize) -> Vec<u8>) -> Phase {
    let heads = SLOTS.map(|slot| (slot, read(slot)));
    let written = |head: &[u8]| head.iter().any(|byte| *byte != 0);
    if heads
        .iter()
        .any(|(_, head)| written(head) && !header::is_sealed(head))
    {
        return Phase::TornList;
    }
    let newest = heads
        .into_iter()
        .map(|(slot, head)| (slot, batch(&head)))
        .max_by_key(|(_, batch)| batch.sequence);
    let (slot, batch) = newest.expect("there are slots");
    let arrived = |(index, (id, lsn)): (usize, &(PageId, u64))| {
        let page = read(slot + 1 + index);
        header::check(&page, *id).is_ok() && header::lsn(&page).0 == *lsn
    };
    match batch.pages.iter().enumerate().all(arrived) {
        true => Phase::Whole,
        false => Phase::ListAlone,
    }
}
