//! What is left of a table with a damaged page: everything that is not below
//! it, from either end.

mod simulated;

use iolane::{Engine, Level, OpenOptions, SimulatedDisk};
use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{DOUBLEWRITE_FILE, Direction, Error, Store};
use simulated::*;
use std::collections::BTreeMap;

const PAGE: usize = 4096;
const ROWS: i64 = 600;
const TABLE: &str = "kept";

/// With keys so long that a tree of few pages has branches below its root.
fn row(id: i64) -> Row {
    // One in fifty has pages of its own.
    let text = "t".repeat(if id % 50 == 7 { 9000 } else { 60 });
    vec![format!("{id:0150}").into(), text.into()]
}

fn number(row: &Row) -> i64 {
    let Value::Text(key) = &row[0] else {
        panic!("{row:?}")
    };
    let id = key.parse().unwrap();
    assert_eq!(*row, self::row(id), "a row that was never written");
    id
}

/// A closed store, whose pages have no copies.
fn closed(arena: &iolane::Arena) -> Vec<(String, Vec<u8>)> {
    let disk = SimulatedDisk::builder().build().unwrap();
    let store = Store::create(DIRECTORY, &options(&disk, arena)).unwrap();
    let schema = TableSchema::new(TABLE)
        .column("key", ColumnType::Text)
        .column("text", ColumnType::Text)
        .primary_key(["key"]);
    store.create_table(&schema).unwrap();
    store.bulk_load(TABLE, (0..ROWS).map(row)).unwrap();
    store.close().unwrap();
    let mut files = files(&disk);
    for (name, contents) in &mut files {
        if name.ends_with(DOUBLEWRITE_FILE) {
            contents[2 * PAGE..].fill(0);
        }
    }
    files
}

/// All rows that can be read, and how often there was something to pass.
fn walk(store: &Store, direction: Direction) -> (Vec<i64>, usize) {
    let mut transaction = store.begin();
    let mut rows = transaction.range(TABLE, .., direction).unwrap();
    assert!(!rows.pass_damage(), "there was no error yet");
    let (mut found, mut passed) = (Vec::new(), 0);
    while let Some(row) = rows.next() {
        match row {
            Ok(row) => found.push(number(&row)),
            Err(error) => {
                assert!(error.is_damage(), "{error}");
                assert!(rows.pass_damage(), "{error}");
                assert!(!rows.pass_damage(), "it is behind it");
                passed += 1;
            }
        }
    }
    (found, passed)
}

#[test]
fn what_is_not_below_a_damaged_page_can_be_read_from_either_end() {
    let arena = arena();
    let files = closed(&arena);
    let (name, table) = files
        .iter()
        .find(|(name, _)| name.contains("table-"))
        .unwrap();
    // Rows by how often a page takes them with it, for pages with few, some
    // and all.
    let (mut alone, mut with_leaf, mut with_branch) = (0, BTreeMap::new(), 0);
    let mut with_root = 0;
    for page in 0..table.len() / PAGE {
        let disk = disk_with(&files);
        let engine = Engine::builder().simulated(&disk).build().unwrap();
        let mut open = OpenOptions::new();
        open.read(true).write(true);
        let file = engine.open(name, &open).unwrap();
        file.write_at(&[0x5a; 64], (page * PAGE + 2000) as u64, Level::Normal)
            .unwrap();
        drop((file, engine));
        let store = Store::open(DIRECTORY, &options(&disk, &arena)).unwrap();
        if !store.damaged_tables().is_empty() {
            // It describes the file or the table.
            assert!(page < 5, "page {page}");
            continue;
        }
        let (forward, passed) = walk(&store, Direction::Forward);
        let (mut backward, passed_back) = walk(&store, Direction::Backward);
        backward.reverse();
        assert_eq!((&forward, passed), (&backward, passed_back), "page {page}");
        assert!(forward.is_sorted_by(|one, two| one < two));
        let missing: Vec<i64> = (0..ROWS).filter(|id| !forward.contains(id)).collect();
        assert_eq!(missing.is_empty(), passed == 0, "page {page}");
        let run = missing.last().map_or(0, |last| last - missing[0] + 1);
        assert_eq!(run, missing.len() as i64, "page {page}: {missing:?}");
        match missing.len() {
            0 => {}
            1 => alone += 1,
            2..=40 => {
                for id in missing {
                    *with_leaf.entry(id).or_insert(0) += 1;
                }
            }
            all if all as i64 == ROWS => with_root += 1,
            _ => with_branch += 1,
        }
    }
    // A list and three pages for each long row.
    assert_eq!(alone, 4 * ROWS / 50);
    assert!(with_leaf.len() as i64 == ROWS && with_leaf.values().all(|times| *times == 1));
    assert!(with_branch > 1, "{with_branch}");
    assert_eq!(with_root, 1);
}

/// Errors that are not of damaged data are not passed.
#[test]
fn a_range_by_an_index_and_one_without_an_error_pass_nothing() {
    let arena = arena();
    let disk = SimulatedDisk::builder().build().unwrap();
    let store = Store::create(DIRECTORY, &options(&disk, &arena)).unwrap();
    let schema = TableSchema::new(TABLE)
        .column("key", ColumnType::Text)
        .column("text", ColumnType::Text)
        .primary_key(["key"])
        .index("by_text", ["text"]);
    store.create_table(&schema).unwrap();
    let mut transaction = store.begin();
    transaction.insert(TABLE, row(1)).unwrap();
    let mut rows = transaction
        .range_by(TABLE, "by_text", .., Direction::Forward)
        .unwrap();
    assert!(rows.next().unwrap().is_ok() && rows.next().is_none());
    assert!(!rows.pass_damage());
    assert!(!Error::Stopped.is_damage());
}
