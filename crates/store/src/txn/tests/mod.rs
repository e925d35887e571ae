//! Transactions over pages in memory.

mod basics;
mod check;
mod damage;
mod histories;
mod lag;
mod long_keys;
mod many;
mod model;
mod only_keys;
mod recovery;

use crate::access::memory::{MemoryMini, MemoryOptions, MemoryPages, MemoryShared};
use crate::access::{Miss, Pages, PagesError};
use crate::backing::Backing;
use crate::data::{ColumnType, Row, TableSchema, Value};
use crate::ids::{Lsn, PageId, SegmentId};
use crate::system::{Opened, System, SystemOptions};
use crate::txn::{Durability, Error, Transaction};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

/// Pages that outlive the system over them.
#[derive(Clone)]
pub(super) struct TestPages {
    pages: Arc<MemoryPages>,
    segments: Arc<AtomicU32>,
    /// Pages in use, 0 if nobody knows.
    in_use: Arc<AtomicU64>,
}

impl Pages for TestPages {
    type Shared<'a> = MemoryShared<'a>;
    type Mini<'a> = MemoryMini<'a>;

    fn page_bytes(&self) -> usize {
        self.pages.page_bytes()
    }

    fn shared(&self, id: PageId) -> Result<MemoryShared<'_>, Miss> {
        self.pages.shared(id)
    }

    fn load(&self, miss: Miss) -> Result<(), PagesError> {
        self.pages.load(miss)
    }

    fn begin(&self, segments: &[SegmentId], pages: u32) -> Result<MemoryMini<'_>, PagesError> {
        self.pages.begin(segments, pages)
    }
}

impl Backing for TestPages {
    fn make_durable(&self, _lsn: Lsn) -> Result<(), PagesError> {
        Ok(())
    }

    fn create_space(&self, _name: &str) -> Result<u32, Error> {
        Ok(MemoryPages::SPACE)
    }

    fn drop_space(&self, _space: u32) -> Result<(), Error> {
        Ok(())
    }

    fn spaces(&self) -> Vec<u32> {
        vec![MemoryPages::SPACE]
    }

    fn create_segment(&self, space: u32) -> Result<SegmentId, PagesError> {
        let number = self.segments.fetch_add(1, Ordering::Relaxed);
        Ok(SegmentId { space, number })
    }

    fn segment_pages(&self, segment: SegmentId) -> Vec<u32> {
        self.pages.pages_of(segment).into_iter().collect()
    }

    fn data_pages(&self, _space: u32) -> Option<u64> {
        Some(self.in_use.load(Ordering::Relaxed)).filter(|&pages| pages > 0)
    }

    fn log_end(&self) -> Lsn {
        self.pages.log_end()
    }
}

pub(super) fn options() -> SystemOptions {
    SystemOptions {
        durability: Durability::Synced,
        lock_timeout: Duration::from_secs(20),
        locks_max: 100_000,
        undo_slots: 8,
        purge_lag_bytes: u64::MAX,
        sort_bytes: 1 << 20,
    }
}

/// A store over pages in memory, and where its master page is.
pub(super) struct Rig {
    pub(super) pages: TestPages,
    master: PageId,
}

impl Rig {
    pub(super) fn new(options: MemoryOptions) -> Rig {
        let pages = TestPages {
            pages: Arc::new(MemoryPages::new(options)),
            segments: Arc::default(),
            in_use: Arc::default(),
        };
        let master = System::create(&pages, MemoryPages::SPACE).unwrap();
        Rig { pages, master }
    }

    pub(super) fn open_with(&self, options: SystemOptions) -> (System<TestPages>, Opened) {
        System::open(self.pages.clone(), self.master, options).unwrap()
    }

    pub(super) fn open(&self) -> System<TestPages> {
        self.open_with(options()).0
    }
}

/// Small pages, some of which are missing at every turn.
pub(super) fn small(seed: u64) -> MemoryOptions {
    MemoryOptions {
        page_bytes: 4096,
        pages_max: 1 << 14,
        miss_one_in: 20,
        seed,
        ..MemoryOptions::default()
    }
}

/// `id` is the key; `tag` is unique or null; `group` is not; `text` may be
/// long.
pub(super) fn schema() -> TableSchema {
    TableSchema::new("t")
        .column("id", ColumnType::Integer)
        .nullable_column("tag", ColumnType::Integer)
        .nullable_column("group", ColumnType::Text)
        .nullable_column("text", ColumnType::Text)
        .primary_key(["id"])
        .unique_index("by_tag", ["tag"])
        .index("by_group", ["group"])
}

pub(super) fn row(id: i64, tag: Option<i64>, group: &str, text: &str) -> Row {
    vec![id.into(), tag.into(), group.into(), text.into()]
}

pub(super) fn key(id: i64) -> [Value; 1] {
    [id.into()]
}

/// All rows of table `t`, in the order of the key.
pub(super) fn all(transaction: &mut Transaction<'_, TestPages>) -> Vec<Row> {
    let rows = transaction.range("t", .., crate::tree::Direction::Forward);
    rows.unwrap().map(Result::unwrap).collect()
}

/// Purges until nothing is left to be purged.
pub(super) fn purge_all(system: &System<TestPages>) {
    while system.purge(1000).unwrap() > 0 {}
    if system.purge.waiting() == 0 {
        assert_eq!(system.purge.lag.bytes(), 0, "all of it is eaten");
    }
    assert_clean(system);
}

/// Checks that everything is in order.
pub(super) fn assert_clean(system: &System<TestPages>) {
    let report = system.check(&|| true).unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}

/// Pages of the segments of table `t`: rows, long values, indexes.
pub(super) fn pages_of_table(system: &System<TestPages>) -> Vec<usize> {
    let table = system.catalog.table(&system.backing, "t").unwrap();
    let mut segments = vec![
        table.rows.leaf_segment,
        table.rows.branch_segment,
        table.long.segment,
    ];
    for index in &table.indexes {
        segments.extend([index.tree.leaf_segment, index.tree.branch_segment]);
    }
    let pages = |segment| system.backing.segment_pages(segment).len();
    segments.into_iter().map(pages).collect()
}

/// Entries of an index, whether or not anybody sees a row of theirs.
pub(super) fn entries(system: &System<TestPages>, index: usize) -> BTreeSet<Vec<u8>> {
    let table = system.catalog.table(&system.backing, "t").unwrap();
    let mut cursor = table.indexes[index].tree.cursor(
        std::ops::Bound::Unbounded,
        std::ops::Bound::Unbounded,
        crate::tree::Direction::Forward,
    );
    let mut found = BTreeSet::new();
    while let Some((entry, _)) = cursor.next(&system.backing).unwrap() {
        found.insert(entry.to_vec());
    }
    found
}
