//! What was in memory when a store was closed is read again when it is opened.

use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{Direction, PoolStatistics, Role, Store, StoreOptions};
use std::path::Path;
use std::time::{Duration, Instant};

const FILE: &str = "pages-in-memory";
const ROWS: i64 = 4000;
/// A thousand bytes each, in pages of 16 KiB.
const PAGES: u64 = 270;

fn options(pool_bytes: u64, preload: bool) -> StoreOptions {
    let mut options = StoreOptions::default();
    options.pages.pool_bytes = pool_bytes;
    options.pages.log_bytes = 4 << 20;
    options.preload = preload;
    options
}

const ALL_BYTES: u64 = 16 << 20;

fn schema(name: &str) -> TableSchema {
    TableSchema::new(name)
        .column("id", ColumnType::Integer)
        .column("payload", ColumnType::Blob)
        .primary_key(["id"])
}

fn row(id: i64) -> Row {
    vec![id.into(), Value::Blob(vec![id as u8; 1000])]
}

fn fill(store: &Store, table: &str) {
    store.create_table(&schema(table)).unwrap();
    store.bulk_load(table, (0..ROWS).map(row)).unwrap();
    read_all(store, table);
}

fn read_all(store: &Store, table: &str) {
    let mut transaction = store.begin();
    let rows = transaction.range(table, .., Direction::Forward).unwrap();
    let rows: Vec<Row> = rows.map(Result::unwrap).collect();
    assert!(rows.into_iter().eq((0..ROWS).map(row)));
}

fn pool(store: &Store) -> PoolStatistics {
    store.statistics().pages.pool
}

/// Tables that are in memory when the store is closed.
fn made(path: &Path, options: &StoreOptions, tables: &[&str]) {
    let store = Store::create(path, options).unwrap();
    for table in tables {
        fill(&store, table);
    }
    store.close().unwrap();
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn expect_preloaded(store: &Store) {
    wait_until("pages are read", || pool(store).reads >= PAGES);
    let before = pool(store);
    read_all(store, "t");
    let read = pool(store).reads - before.reads;
    assert!(read <= 8, "{read} pages were missing");
}

#[test]
fn what_was_in_memory_is_read_in_the_background() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().join("store");
    made(&path, &options(ALL_BYTES, true), &["t"]);
    let store = Store::open(&path, &options(ALL_BYTES, true)).unwrap();
    expect_preloaded(&store);
    // Nobody has asked for it in the foreground.
    let bulk = store.ledger().role(Role::Bulk).total();
    assert!(bulk.read.bytes >= PAGES << 14, "{bulk:?}");
    store.close().unwrap();
    // By the list that a store writes which has read one.
    expect_preloaded(&Store::open(&path, &options(ALL_BYTES, true)).unwrap());
}

#[test]
fn a_store_that_is_closed_at_once_keeps_the_list() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().join("store");
    made(&path, &options(ALL_BYTES, true), &["t"]);
    for _ in 0..10 {
        Store::open(&path, &options(ALL_BYTES, true))
            .unwrap()
            .close()
            .unwrap();
    }
    expect_preloaded(&Store::open(&path, &options(ALL_BYTES, true)).unwrap());
}

#[test]
fn nothing_is_kept_or_read_unless_it_is_asked_for() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().join("store");
    made(&path, &options(ALL_BYTES, false), &["t"]);
    assert!(!path.join(FILE).exists());
    let store = Store::open(&path, &options(ALL_BYTES, true)).unwrap();
    store.close().unwrap();
    assert!(path.join(FILE).exists());
    let store = Store::open(&path, &options(ALL_BYTES, false)).unwrap();
    std::thread::sleep(Duration::from_millis(100));
    assert!(pool(&store).reads < 32, "{:?}", pool(&store));
}

/// The list is longer than the pool, names a table that is gone, and then is damaged.
#[test]
fn a_list_that_does_not_fit_does_no_harm() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().join("store");
    made(&path, &options(4 * ALL_BYTES, true), &["a", "b", "t"]);
    let list = std::fs::read(path.join(FILE)).unwrap();
    let store = Store::open(&path, &options(4 * ALL_BYTES, false)).unwrap();
    store.drop_table("a").unwrap();
    store.close().unwrap();
    std::fs::write(path.join(FILE), &list).unwrap();
    // Half of what is left.
    let small = options(4 << 20, true);
    let store = Store::open(&path, &small).unwrap();
    wait_until("pages are read", || pool(&store).reads >= 100);
    std::thread::sleep(Duration::from_millis(100));
    let is = pool(&store);
    assert!(is.evictions == 0 && is.free > 0, "{is:?}");
    read_all(&store, "b");
    read_all(&store, "t");
    store.close().unwrap();

    for damage in [&list[..list.len() / 2], b"", b"iolpages and something else"] {
        std::fs::write(path.join(FILE), damage).unwrap();
        let store = Store::open(&path, &small).unwrap();
        read_all(&store, "t");
        store.close().unwrap();
    }
    // The next list is whole.
    let store = Store::open(&path, &options(ALL_BYTES, true)).unwrap();
    read_all(&store, "t");
    store.close().unwrap();
    expect_preloaded(&Store::open(&path, &options(ALL_BYTES, true)).unwrap());
}

/// Tables come and go, and pages are changed, while they are read.
#[test]
fn tables_may_come_go_and_change_meanwhile() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().join("store");
    made(&path, &options(2 * ALL_BYTES, true), &["a", "b", "t"]);
    for round in 0..8 {
        let store = Store::open(&path, &options(2 * ALL_BYTES, true)).unwrap();
        std::thread::sleep(Duration::from_millis(round));
        let (gone, stays) = if round % 2 == 0 {
            ("a", "b")
        } else {
            ("b", "a")
        };
        store.drop_table(gone).unwrap();
        let mut transaction = store.begin();
        for id in 0..ROWS / 20 {
            transaction.delete(stays, &[(20 * id).into()]).unwrap();
        }
        for id in 0..ROWS / 20 {
            transaction.insert(stays, row(20 * id)).unwrap();
        }
        transaction.commit().unwrap();
        fill(&store, gone);
        for table in ["a", "b", "t"] {
            read_all(&store, table);
        }
        assert!(store.check().unwrap().is_clean());
        store.close().unwrap();
    }
}
