//! Cursors: what their transaction does between two rows, and turning back.

use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{Direction, Error, LockMode, Store, StoreOptions, WhenLocked};
use std::ops::Bound;

fn store(directory: &tempfile::TempDir) -> Store {
    let mut options = StoreOptions::default();
    options.pages.pool_bytes = 16 << 20;
    options.pages.direct = false;
    let store = Store::create(directory.path().join("store"), &options).unwrap();
    let table = TableSchema::new("number")
        .column("id", ColumnType::Integer)
        .column("mirror", ColumnType::Integer)
        .primary_key(["id"])
        .index("by_mirror", ["mirror"]);
    store.create_table(&table).unwrap();
    store
}

fn row(id: i64) -> Row {
    vec![id.into(), (-id).into()]
}

fn fill(store: &Store, count: i64) {
    let mut transaction = store.begin();
    for id in 0..count {
        transaction.insert("number", row(id)).unwrap();
    }
    transaction.commit().unwrap();
}

fn id(row: Option<Row>) -> Option<i64> {
    match row?.first() {
        Some(&Value::Integer(id)) => Some(id),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_transaction_changes_rows_between_two_of_a_cursor() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let store = store(&directory);
    fill(&store, 3000);
    for lock in [None, Some((LockMode::Exclusive, WhenLocked::Wait))] {
        let mut transaction = store.begin();
        let mut cursor = transaction
            .cursor("number", None, .., Direction::Forward, lock)
            .unwrap();
        let mut seen = 0;
        while let Some(row) = cursor.next(&mut transaction).unwrap() {
            seen += 1;
            transaction.delete("number", &row[..1]).unwrap();
        }
        assert_eq!(seen, 3000);
        let mut rows = transaction.range("number", .., Direction::Forward).unwrap();
        assert!(rows.next().is_none());
        drop(rows);
        transaction.rollback().unwrap();
    }
}

/// Both by the primary key and by an index that has the reverse order.
#[test]
fn a_cursor_turns_at_the_last_row() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let store = store(&directory);
    fill(&store, 1000);
    for lock in [None, Some((LockMode::Shared, WhenLocked::Wait))] {
        let mut transaction = store.begin();
        for (index, sign) in [(None, 1), (Some("by_mirror"), -1)] {
            let from = [Value::from(500 * sign)];
            let from = (Bound::Included(&from[..]), Bound::Unbounded);
            let mut cursor = transaction
                .cursor("number", index, from, Direction::Forward, lock)
                .unwrap();
            // Before the first row nothing turns.
            cursor.turn(&transaction, Direction::Backward);
            let first = id(cursor.next(&mut transaction).unwrap()).unwrap();
            for _ in 0..10 {
                cursor.next(&mut transaction).unwrap();
            }
            cursor.turn(&transaction, Direction::Backward);
            assert_eq!(first, 500);
            // Also beyond the bound that it had.
            for left in (-499..10).rev().take(500) {
                let row = cursor.next(&mut transaction).unwrap();
                assert_eq!(id(row), Some(first + sign * left));
            }
            cursor.turn(&transaction, Direction::Forward);
            let row = cursor.next(&mut transaction).unwrap();
            assert_eq!(id(row), Some(first - sign * 489));
        }
        transaction.rollback().unwrap();
    }
}

#[test]
fn a_cursor_holds_its_table_and_ends_with_its_transaction() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let store = store(&directory);
    fill(&store, 10);
    let mut first = store.begin();
    let mut cursor = first
        .cursor("number", None, .., Direction::Forward, None)
        .unwrap();
    first.rollback().unwrap();
    let dropped = store.drop_table("number");
    assert!(matches!(dropped, Err(Error::TableInUse(_))), "{dropped:?}");
    let mut second = store.begin();
    assert_eq!(id(cursor.next(&mut second).unwrap()), Some(0));
    drop(cursor);
    second.rollback().unwrap();
    store.drop_table("number").unwrap();
}

#[test]
fn released_savepoints_are_none() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let store = store(&directory);
    let mut transaction = store.begin();
    let first = transaction.savepoint().unwrap();
    transaction.insert("number", row(1)).unwrap();
    let second = transaction.savepoint().unwrap();
    let third = transaction.savepoint().unwrap();
    transaction.release(second).unwrap();
    for gone in [second, third] {
        let error = transaction.rollback_to(gone).unwrap_err();
        assert!(matches!(error, Error::UnknownSavepoint), "{error}");
    }
    transaction.rollback_to(first).unwrap();
    assert_eq!(transaction.get("number", &[1.into()]).unwrap(), None);
}

#[test]
fn a_forgotten_savepoint_leaves_later_ones() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let store = store(&directory);
    let mut transaction = store.begin();
    let first = transaction.savepoint().unwrap();
    transaction.insert("number", row(1)).unwrap();
    let second = transaction.savepoint().unwrap();
    transaction.insert("number", row(2)).unwrap();
    transaction.forget(first).unwrap();
    for error in [
        transaction.rollback_to(first).unwrap_err(),
        transaction.forget(first).unwrap_err(),
    ] {
        assert!(matches!(error, Error::UnknownSavepoint), "{error}");
    }
    transaction.rollback_to(second).unwrap();
    assert_eq!(id(transaction.get("number", &[1.into()]).unwrap()), Some(1));
    assert_eq!(transaction.get("number", &[2.into()]).unwrap(), None);
}
