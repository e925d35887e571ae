//! A store in a directory of its own, with pages that carry a number.
#![allow(dead_code, reason = "each test file uses a part")]

use iolane::Engine;
use iolane_store::access::{MiniTransaction, Miss, Pages, PagesError};
use iolane_store::ids::{Lsn, PageId, SegmentId};
use iolane_store::page::Op;
use iolane_store::page::header::{BODY, PageKind, get_u64};
use iolane_store::{PageStore, PageStoreOptions, RecoveryReport, StoreError};
use std::path::Path;
use std::sync::Arc;

/// Small pages and a small pool, so that everything comes and goes.
pub fn options() -> PageStoreOptions {
    PageStoreOptions {
        page_bytes: 4096,
        pool_bytes: 100 * 4096,
        log_bytes: 2 << 20,
        ..PageStoreOptions::default()
    }
}

pub fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

pub fn create(path: &Path, options: &PageStoreOptions) -> PageStore {
    PageStore::create(Arc::new(Engine::new().unwrap()), path, options).unwrap()
}

pub fn try_open(
    path: &Path,
    options: &PageStoreOptions,
) -> Result<(PageStore, RecoveryReport), StoreError> {
    PageStore::open(
        Arc::new(Engine::new().unwrap()),
        path,
        options,
        &mut |progress| assert!(progress.at <= progress.to),
    )
}

pub fn open(path: &Path, options: &PageStoreOptions) -> (PageStore, RecoveryReport) {
    try_open(path, options).unwrap()
}

/// The number stands at the page's beginning and end, so that half a page is
/// noticed whatever its checksum says.
pub fn write(mini: &mut impl MiniTransaction, id: PageId, number: u64) {
    let end = mini.page(id).len() - 8;
    for offset in [BODY, end] {
        mini.apply(
            id,
            &Op::Patch {
                offset: offset as u16,
                bytes: &number.to_le_bytes(),
            },
        );
    }
}

pub fn number(page: &[u8]) -> u64 {
    let (begin, end) = (get_u64(page, BODY), get_u64(page, page.len() - 8));
    assert_eq!(begin, end, "half a page");
    begin
}

/// Allocates and writes a page in a mini-transaction of its own.
pub fn add(store: &PageStore, segment: SegmentId, value: u64) -> Result<(PageId, Lsn), PagesError> {
    let mut mini = store.begin(&[segment], 1)?;
    let id = mini.allocate(segment, None);
    mini.apply(
        id,
        &Op::Format {
            kind: PageKind::Leaf,
            level: 0,
            owner: 7,
        },
    );
    write(&mut mini, id, value);
    Ok((id, mini.commit()))
}

pub fn read(store: &PageStore, id: PageId) -> Result<u64, PagesError> {
    loop {
        match store.shared(id) {
            Ok(page) => return Ok(number(&page)),
            Err(miss) => store.load(miss)?,
        }
    }
}

/// Changes pages, in this order, by `change`.
pub fn update(
    store: &PageStore,
    ids: &[PageId],
    change: impl Fn(u64) -> u64,
) -> Result<Lsn, PagesError> {
    loop {
        let mut mini = store.begin(&[], 0)?;
        let latched: Result<(), Miss> = ids.iter().try_for_each(|&id| mini.exclusive(id));
        if let Err(miss) = latched {
            drop(mini);
            store.load(miss)?;
            continue;
        }
        for &id in ids {
            let value = number(mini.page(id));
            write(&mut mini, id, change(value));
        }
        return Ok(mini.commit());
    }
}

/// A generator that needs no more than a seed (xorshift64*).
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % sides
    }
}
