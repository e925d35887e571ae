//! Tables that a transaction makes and fills: whatever the order of the rows and
//! however little memory they are sorted in, they are all there for those who may see
//! them, and nothing is left of a load that does not end well.

mod common;

use common::Random;
use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{Direction, Error, Store, StoreOptions};
use std::path::Path;

/// More than the first rows that are looked at, and some runs.
const ROWS: i64 = 30_000;

fn schema() -> TableSchema {
    TableSchema::new("t")
        .column("id", ColumnType::Integer)
        .nullable_column("tag", ColumnType::Integer)
        .column("text", ColumnType::Text)
        .nullable_column("long", ColumnType::Blob)
        .primary_key(["id"])
        .unique_index("by_tag", ["tag"])
        .index("by_text", ["text"])
}

fn row(id: i64) -> Row {
    let tag = (id % 5 != 0).then_some(ROWS - id);
    let text = char::from(b'a' + (id * 7 % 26) as u8).to_string();
    // A few are longer than a page.
    let long = (id % 9000 == 77).then(|| vec![id as u8; 9000]);
    vec![
        id.into(),
        tag.into(),
        text.repeat(40 + id as usize % 50).into(),
        long.map_or(Value::Null, Value::Blob),
    ]
}

/// Sorts in so little memory.
fn create(path: &Path, sort_bytes: usize) -> Store {
    let mut options = StoreOptions::default();
    options.pages.page_bytes = 4096;
    options.pages.pool_bytes = 8 << 20;
    options.sort_bytes = sort_bytes;
    Store::create(path, &options).unwrap()
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn rows(store: &Store, index: Option<&str>) -> Vec<Row> {
    let mut transaction = store.begin();
    let found = match index {
        None => transaction.range("t", .., Direction::Forward),
        Some(index) => transaction.range_by("t", index, .., Direction::Forward),
    };
    found.unwrap().map(Result::unwrap).collect()
}

fn assert_clean(store: &Store) {
    let report = store.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}

/// Files of tables, and of what is sorted.
fn files(path: &Path) -> usize {
    let names = std::fs::read_dir(path).unwrap().map(|it| it.unwrap());
    let names = names.map(|it| it.file_name().into_string().unwrap());
    names
        .filter(|it| it.contains("table") || it.contains("sorted"))
        .count()
}

fn seed() -> u64 {
    let given = std::env::var("IOLANE_TEST_SEED");
    let seed = given.map_or(20_261_127, |seed| seed.parse().unwrap());
    println!("IOLANE_TEST_SEED={seed}");
    seed
}

#[test]
fn rows_in_any_order_are_all_there() {
    let mut random = Random(seed());
    let ordered: Vec<i64> = (0..ROWS).collect();
    let mut shuffled = ordered.clone();
    random.shuffle(&mut shuffled);
    // In order at first, and some that come late.
    let mut late: Vec<i64> = ordered.iter().copied().filter(|id| id % 10 != 3).collect();
    late.extend(ordered.iter().filter(|&id| id % 10 == 3).rev());
    for (name, order) in [("ordered", ordered), ("shuffled", shuffled), ("late", late)] {
        for sort_bytes in [64 << 10, 300 << 10, 64 << 20] {
            let directory = directory();
            let path = directory.path().join("store");
            let store = create(&path, sort_bytes);
            let mut transaction = store.begin();
            let mut load = transaction.load(&schema()).unwrap();
            for &id in &order {
                load.push(&transaction, row(id)).unwrap();
            }
            assert_eq!(load.finish(&transaction).unwrap(), ROWS as u64);
            drop(load);
            transaction.commit().unwrap();
            assert_eq!(files(&path), 1, "{name}: what was sorted is gone");
            let expected: Vec<Row> = (0..ROWS).map(row).collect();
            assert_eq!(rows(&store, None), expected, "{name}, {sort_bytes}");
            assert_eq!(rows(&store, Some("by_text")).len(), ROWS as usize);
            assert_clean(&store);
            // As good as any other table.
            let mut transaction = store.begin();
            for _ in 0..200 {
                let id = random.below(ROWS as u64) as i64;
                let mut changed = row(id);
                changed[2] = "changed".into();
                assert!(transaction.update("t", changed).unwrap());
            }
            transaction.commit().unwrap();
            assert_clean(&store);
        }
    }
}

#[test]
fn a_load_is_seen_when_its_transaction_has_committed() {
    let directory = directory();
    let store = create(&directory.path().join("store"), 1 << 20);
    let mut before = store.begin();
    before.open_view().unwrap();
    let mut transaction = store.begin();
    let mut load = transaction.load(&schema()).unwrap();
    load.push(&transaction, row(1)).unwrap();
    load.finish(&transaction).unwrap();
    drop(load);
    let mut beside = store.begin();
    assert_eq!(transaction.get("t", &[1.into()]).unwrap(), Some(row(1)));
    assert_eq!(beside.get("t", &[1.into()]).unwrap(), None);
    transaction.commit().unwrap();
    assert_eq!(before.get("t", &[1.into()]).unwrap(), None);
    assert_eq!(beside.get("t", &[1.into()]).unwrap(), None);
    assert_eq!(store.begin().get("t", &[1.into()]).unwrap(), Some(row(1)));
}

#[test]
fn of_a_load_that_fails_nothing_is_left() {
    let directory = directory();
    let path = directory.path().join("store");
    let store = create(&path, 64 << 10);
    let same_tag: Row = vec![
        (ROWS + 5).into(),
        (ROWS - 1).into(),
        "x".into(),
        Value::Null,
    ];
    let cases: [(&str, Vec<Row>, Value); 3] = [
        ("primary key", vec![row(9)], 9.into()),
        ("primary key", vec![row(ROWS - 1)], (ROWS - 1).into()),
        ("by_tag", vec![same_tag], 1.into()),
    ];
    for (key, more, same) in cases {
        for backward in [false, true] {
            let mut transaction = store.begin();
            let mut load = transaction.load(&schema()).unwrap();
            let mut all: Vec<Row> = (0..ROWS).map(row).chain(more.clone()).collect();
            if backward {
                all.reverse();
            }
            let pushed = all
                .into_iter()
                .try_for_each(|row| load.push(&transaction, row));
            let error = pushed
                .and_then(|()| load.finish(&transaction).map(drop))
                .unwrap_err();
            assert!(
                matches!(&error, Error::Duplicate { key: of, .. } if of == key),
                "{error}"
            );
            if let Some(refused) = load.refused().unwrap() {
                let expected = [same.clone(), more[0][0].clone()];
                assert!(expected.contains(&refused[0]), "{refused:?}");
            }
            drop(load);
            transaction.rollback().unwrap();
            assert!(store.table_names().is_empty());
            assert_eq!(files(&path), 0);
        }
    }
    // One that is given up, and one of whose transaction nothing is left.
    let mut transaction = store.begin();
    let mut load = transaction.load(&schema()).unwrap();
    for id in 0..ROWS {
        load.push(&transaction, row(id)).unwrap();
    }
    drop(load);
    assert_eq!(files(&path), 0);
    let mut load = transaction.load(&schema()).unwrap();
    transaction.rollback().unwrap();
    let other = store.begin();
    assert!(matches!(load.push(&other, row(1)), Err(Error::Ended)));
    drop(load);
    // The name is free, until somebody else takes it.
    let mut transaction = store.begin();
    let mut load = transaction.load(&schema()).unwrap();
    load.push(&transaction, row(1)).unwrap();
    store.create_table(&schema()).unwrap();
    assert!(matches!(
        load.finish(&transaction),
        Err(Error::TableExists(_))
    ));
    drop(load);
    assert_eq!(files(&path), 1);
    assert_eq!(rows(&store, None), Vec::<Row>::new());
}

#[test]
fn rows_out_of_order_are_refused_where_only_others_are_wanted() {
    let directory = directory();
    let store = create(&directory.path().join("store"), 1 << 20);
    let mut transaction = store.begin();
    let mut load = transaction.load(&schema()).unwrap();
    for id in (0..ROWS).step_by(2) {
        assert!(load.push_ascending(&transaction, row(id)).unwrap());
        for again in [id, id / 2, 0] {
            assert!(!load.push_ascending(&transaction, row(again)).unwrap());
        }
    }
    assert_eq!(load.finish(&transaction).unwrap(), ROWS as u64 / 2);
    drop(load);
    transaction.commit().unwrap();
    assert_eq!(rows(&store, None).len(), ROWS as usize / 2);
    assert_clean(&store);
}

#[test]
fn records_are_counted_as_far_as_wanted() {
    let directory = directory();
    let store = create(&directory.path().join("store"), 1 << 20);
    store.create_table(&schema()).unwrap();
    assert_eq!(store.records_up_to("t", 10).unwrap(), 0);
    let mut transaction = store.begin();
    for id in 0..500 {
        transaction.insert("t", row(id)).unwrap();
    }
    // Also those of others who have not committed.
    assert_eq!(store.records_up_to("t", 10).unwrap(), 11);
    assert_eq!(store.records_up_to("t", 500).unwrap(), 500);
    transaction.rollback().unwrap();
    assert_eq!(store.records_up_to("t", 500).unwrap(), 0);
}
