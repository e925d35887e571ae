//! Long values: what is written is read, all pages come back, also of a value
//! that was never finished, and what is damaged is found.

mod common;

use common::{Fixture, SMALL};
use iolane_store::access::memory::{MemoryOptions, MemoryPages};
use iolane_store::access::{Miss, PagesError};
use iolane_store::overflow::{Overflow, OverflowError, OverflowRef};
use iolane_store::tree::Reserve;

const ROOM: usize = 4096 - 64;
/// Pages that one list names.
const LISTED: usize = ROOM / 4;

fn overflow() -> Overflow {
    Overflow {
        segment: MemoryPages::segment(3),
        owner: 43,
    }
}

fn value(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at / 7 + at) as u8).collect()
}

fn write(pages: &MemoryPages, value: &[u8]) -> Result<OverflowRef, OverflowError> {
    overflow().write(pages, value, Reserve::default(), |_| Ok(()), |_, _| {})
}

fn free(pages: &MemoryPages, value: OverflowRef) -> Result<(), OverflowError> {
    overflow().free(pages, value, Reserve::default(), |_| Ok(()), |_| {})
}

fn with_misses() -> Fixture {
    Fixture::new(MemoryOptions {
        pages_max: 5000,
        miss_one_in: 5,
        log: true,
        ..SMALL
    })
}

#[test]
fn what_is_written_is_read_and_given_back() {
    let fixture = with_misses();
    let pages = &fixture.pages;
    for bytes in [
        0,
        1,
        ROOM,
        ROOM + 1,
        3 * ROOM,
        100 * ROOM + 17,
        LISTED * ROOM,
        LISTED * ROOM + 1,
        2 * LISTED * ROOM + 5,
    ] {
        let value = value(bytes);
        let reference = write(pages, &value).unwrap();
        let reference = OverflowRef::from_bytes(reference.to_bytes());
        let mut read = b"before".to_vec();
        overflow().read(pages, reference, &mut read).unwrap();
        assert!(read == [b"before", &value[..]].concat(), "{bytes} bytes");
        for range in [0..10, ROOM - 1..ROOM + 1, bytes / 2..bytes + 100] {
            let mut read = Vec::new();
            let asked = range.start as u32..range.end as u32;
            overflow()
                .read_range(pages, reference, asked, &mut read)
                .unwrap();
            let within = range.start.min(bytes)..range.end.min(bytes);
            assert!(read == value[within], "{bytes} bytes");
        }
        let named = overflow().pages_of(pages, reference).unwrap();
        let all = named.lists.iter().chain(&named.data).map(|id| id.page);
        assert_eq!(pages.pages_of(overflow().segment), all.collect());
        free(pages, reference).unwrap();
        assert!(pages.pages_of(overflow().segment).is_empty());
    }
    assert!(pages.misses() > 100);
    fixture.assert_replayed();
}

/// A crash or an error half-way leaves a list of all that was allocated.
#[test]
fn a_value_half_written_is_given_back() {
    let fixture = Fixture::new(MemoryOptions {
        pages_max: 1100,
        ..SMALL
    });
    let pages = &fixture.pages;
    let mut noted = None;
    let failed = overflow().write(
        pages,
        &value(1200 * ROOM),
        Reserve::default(),
        |_| Ok(()),
        |_, reference| noted = Some(reference),
    );
    assert!(matches!(
        failed,
        Err(OverflowError::Pages(PagesError::NoSpace { .. }))
    ));
    assert!(pages.pages_of(overflow().segment).len() > 1000);
    free(pages, noted.unwrap()).unwrap();
    assert!(pages.pages_of(overflow().segment).is_empty());
}

/// The caller's own change is in the first mini-transaction, and may miss.
#[test]
fn the_caller_notes_the_reference_in_the_same_mini_transaction() {
    let fixture = Fixture::new(SMALL);
    let (pages, undo) = (&fixture.pages, fixture.tree.root);
    let mut prepared = 0;
    let mut noted = None;
    let reference = overflow()
        .write(
            pages,
            &value(3 * ROOM),
            Reserve::default(),
            |mini| {
                use iolane_store::access::MiniTransaction;
                prepared += 1;
                if prepared == 1 {
                    return Err(Miss(undo));
                }
                mini.exclusive(undo)
            },
            |mini, reference| {
                use iolane_store::access::MiniTransaction;
                assert_eq!(mini.page(undo).len(), 4096);
                noted = Some(reference);
            },
        )
        .unwrap();
    assert_eq!((prepared, noted), (2, Some(reference)));
}

#[test]
fn damage_is_found() {
    let fixture = Fixture::new(SMALL);
    let pages = &fixture.pages;
    let reference = write(pages, &value(5 * ROOM + 9)).unwrap();
    let named = overflow().pages_of(pages, reference).unwrap();
    let (list, data) = (named.lists[0].page, named.data[2].page);
    let damaged = |page: u32, at: usize, byte: u8| {
        let mut old = 0;
        pages.damage(page, |bytes| old = std::mem::replace(&mut bytes[at], byte));
        assert_ne!(old, byte);
        let error = overflow().read(pages, reference, &mut Vec::new());
        pages.damage(page, |bytes| bytes[at] = old);
        match error.unwrap_err() {
            OverflowError::Damaged { page, .. } => page.page,
            error => panic!("{error}"),
        }
    };
    // Kind, level, owner, number of itself, count, next list.
    for at in [12, 13, 24, 4, 32, 36] {
        assert_eq!(damaged(list, at, 77), list, "byte {at}");
    }
    for at in [12, 13, 24, 4, 32] {
        assert_eq!(damaged(data, at, 77), data, "byte {at}");
    }
    // A number in the list: of a page of somebody else.
    let root = fixture.tree.root.page;
    assert_eq!(damaged(list, 64, root as u8), root);
    overflow().read(pages, reference, &mut Vec::new()).unwrap();
    pages.make_unreadable(data);
    assert!(matches!(
        overflow().read(pages, reference, &mut Vec::new()),
        Err(OverflowError::Pages(PagesError::Unreadable { .. }))
    ));
}
