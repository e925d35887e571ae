//! A store of tables on real files.

use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{Direction, Durability, Error, Store, StoreError, StoreOptions};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

fn options() -> StoreOptions {
    let mut options = StoreOptions::default();
    options.pages.page_bytes = 4096;
    options.pages.pool_bytes = 2 << 20;
    options.pages.log_bytes = 4 << 20;
    options.lock_timeout = Duration::from_secs(20);
    options
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir_in("/var/tmp").unwrap()
}

fn schema() -> TableSchema {
    TableSchema::new("part")
        .column("kind", ColumnType::Text)
        .column("number", ColumnType::Integer)
        .nullable_column("serial", ColumnType::Integer)
        .nullable_column("weight", ColumnType::Real)
        .nullable_column("picture", ColumnType::Blob)
        .primary_key(["kind", "number"])
        .unique_index("by_serial", ["serial"])
        .index("by_weight", ["weight", "kind"])
}

fn part(number: i64) -> Row {
    let kind = ["bolt", "nut", "gear"][number as usize % 3];
    let picture = vec![number as u8; (number as usize * 37) % 300];
    vec![
        kind.into(),
        number.into(),
        (number % 4 != 0).then_some(number * 7 % 10_007).into(),
        (number as f64 / 8.0).into(),
        Value::Blob(picture),
    ]
}

fn filled(path: &Path, count: i64) -> Store {
    let store = Store::create(path, &options()).unwrap();
    store.create_table(&schema()).unwrap();
    for from in (0..count).step_by(100) {
        let mut transaction = store.begin();
        for number in from..count.min(from + 100) {
            transaction.insert("part", part(number)).unwrap();
        }
        transaction.commit().unwrap();
    }
    store
}

fn rows(store: &Store) -> Vec<Row> {
    let mut transaction = store.begin();
    let rows = transaction.range("part", .., Direction::Forward).unwrap();
    rows.map(Result::unwrap).collect()
}

fn sorted_parts(count: i64) -> Vec<Row> {
    let mut parts: Vec<Row> = (0..count).map(part).collect();
    parts.sort_by_key(|row| match (&row[0], &row[1]) {
        (Value::Text(kind), Value::Integer(number)) => (kind.clone(), *number),
        _ => panic!("a key"),
    });
    parts
}

fn assert_clean(store: &Store) {
    let report = store.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
}

#[test]
fn rows_outlive_the_program() {
    let directory = directory();
    let store = filled(directory.path(), 3000);
    assert_clean(&store);
    store.close().unwrap();
    let store = Store::open(directory.path(), &options()).unwrap();
    assert_eq!(store.recovery().1, 0);
    assert_eq!(rows(&store), sorted_parts(3000));
    assert_clean(&store);
    let mut transaction = store.begin();
    assert!(
        transaction
            .delete("part", &["nut".into(), 1.into()])
            .unwrap()
    );
    drop(transaction);
    assert_eq!(rows(&store).len(), 3000);
    let statistics = store.statistics();
    assert_eq!(
        (statistics.writing, statistics.views, statistics.locks),
        (0, 0, 0)
    );
    assert_eq!(statistics.rolled_back, 1);
}

#[test]
fn a_second_opener_is_kept_out() {
    let directory = directory();
    let store = filled(directory.path(), 10);
    let refused = Store::open(directory.path(), &options()).err().unwrap();
    assert!(matches!(refused, Error::Files(StoreError::Locked { .. })));
    assert!(
        refused
            .to_string()
            .ends_with("is open in another process, or in this one: close it there first")
    );
    drop(store);
    assert_eq!(
        rows(&Store::open(directory.path(), &options()).unwrap()).len(),
        10
    );
    let refused = Store::create(directory.path(), &options()).err().unwrap();
    assert!(matches!(refused, Error::Files(StoreError::Exists { .. })));
}

#[test]
fn what_is_no_store_is_refused() {
    let directory = directory();
    assert!(Store::open(directory.path().join("nowhere"), &options()).is_err());
    drop(filled(directory.path(), 100));
    forget_copies(directory.path());
    let system = directory.path().join("system.ts");
    let whole = fs::read(&system).unwrap();
    fs::write(&system, b"not a tablespace").unwrap();
    let refused = Store::open(directory.path(), &options()).err().unwrap();
    assert!(
        matches!(refused, Error::Files(StoreError::Foreign { .. })),
        "{refused}"
    );
    // Truncated at any page: never taken for an empty store.
    for pages in 0..6 {
        fs::write(&system, &whole[..pages * 4096]).unwrap();
        let refused = Store::open(directory.path(), &options()).err().unwrap();
        println!("{pages} pages left: {refused}");
        assert!(matches!(
            refused,
            Error::Files(_) | Error::Pages(_) | Error::Tree(_)
        ));
    }
    fs::write(&system, whole).unwrap();
    let store = Store::open(directory.path(), &options()).unwrap();
    assert_eq!(rows(&store).len(), 100);
}

/// Empties the doublewrite area, from which pages are repaired.
fn forget_copies(directory: &Path) {
    let path = directory.join("doublewrite");
    let mut area = fs::read(&path).unwrap();
    area[4096..].fill(0);
    fs::write(&path, area).unwrap();
}

#[test]
fn bulk_loaded_rows_are_like_inserted_ones() {
    let directory = directory();
    let store = filled(&directory.path().join("inserted"), 2000);
    let loaded = Store::create(directory.path().join("loaded"), &options()).unwrap();
    loaded.create_table(&schema()).unwrap();
    let mut older = loaded.begin();
    // A view of before, which has not looked at the table.
    assert!(older.get("nothing", &[]).is_err());
    assert_eq!(loaded.bulk_load("part", (0..2000).map(part)).unwrap(), 2000);
    drop(older);
    assert_eq!(rows(&loaded), rows(&store));
    assert_clean(&loaded);
    let refused = loaded.bulk_load("part", [part(1)]).unwrap_err();
    assert!(matches!(refused, Error::NotEmpty(_)));
    // They can be changed.
    let mut transaction = loaded.begin();
    let mut changed = part(7);
    changed[4] = Value::Blob(vec![1; 50_000]);
    assert!(transaction.update("part", changed.clone()).unwrap());
    transaction.commit().unwrap();
    while loaded.purge(100).unwrap() > 0 {}
    assert_clean(&loaded);
    let key = [changed[0].clone(), changed[1].clone()];
    assert_eq!(loaded.begin().get("part", &key).unwrap(), Some(changed));
    loaded.close().unwrap();
    let loaded = Store::open(directory.path().join("loaded"), &options()).unwrap();
    assert_eq!(rows(&loaded).len(), 2000);
}

#[test]
fn a_bulk_load_that_fails_leaves_nothing() {
    let directory = directory();
    let store = Store::create(directory.path(), &options()).unwrap();
    store.create_table(&schema()).unwrap();
    let twice = (0..500).chain([250]).map(part);
    let refused = store.bulk_load("part", twice).unwrap_err();
    assert!(matches!(&refused, Error::Duplicate { key, .. } if key == "primary key"));
    let mut same_serial = part(1000);
    same_serial[2] = part(1)[2].clone();
    let refused = store
        .bulk_load("part", (0..500).map(part).chain([same_serial]))
        .unwrap_err();
    assert!(matches!(&refused, Error::Duplicate { key, .. } if key == "by_serial"));
    let refused = store.bulk_load("part", [vec![Value::Null]]).unwrap_err();
    assert!(matches!(refused, Error::Schema(_)));
    assert_eq!(rows(&store), Vec::<Row>::new());
    assert_clean(&store);
    let files = fs::read_dir(directory.path()).unwrap().count();
    assert_eq!(files, 5, "lock, log, doublewrite, system and one table");
    assert_eq!(store.bulk_load("part", (0..500).map(part)).unwrap(), 500);
    assert_eq!(rows(&store).len(), 500);
}

#[test]
fn a_backup_is_of_one_moment() {
    let directory = directory();
    let store = filled(&directory.path().join("store"), 2000);
    let copy = directory.path().join("copy");
    std::thread::scope(|scope| {
        let backup = scope.spawn(|| store.backup(&copy, &options()).unwrap());
        // Each transaction moves one row: their number never changes.
        let mut number = 2000;
        while !backup.is_finished() {
            let mut transaction = store.begin();
            let moved = part(number - 2000);
            let key = [moved[0].clone(), moved[1].clone()];
            assert!(transaction.delete("part", &key).unwrap());
            transaction.insert("part", part(number)).unwrap();
            transaction.commit_with(Durability::Lazy).unwrap();
            number += 1;
        }
        assert_eq!(backup.join().unwrap(), 2000);
    });
    let refused = store.backup(&copy, &options()).unwrap_err();
    assert!(matches!(refused, Error::Files(StoreError::Exists { .. })));
    let copy = Store::open(&copy, &options()).unwrap();
    assert_eq!(rows(&copy).len(), 2000);
    assert_clean(&copy);
    assert_clean(&store);
}

#[test]
fn a_backup_may_be_named_with_a_slash_at_its_end() {
    let directory = directory();
    let store = filled(&directory.path().join("store"), 10);
    let copy = format!("{}/copy/", directory.path().display());
    assert_eq!(store.backup(&copy, &options()).unwrap(), 10);
    assert_eq!(rows(&Store::open(&copy, &options()).unwrap()).len(), 10);
    let names = fs::read_dir(directory.path()).unwrap();
    assert_eq!(names.count(), 2);
}

#[test]
fn a_table_whose_file_is_missing_is_named() {
    let directory = directory();
    filled(directory.path(), 10).close().unwrap();
    let files = fs::read_dir(directory.path()).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    let is_tables = |path: &PathBuf| {
        path.file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .starts_with("table-")
    };
    fs::remove_file(files.find(is_tables).unwrap()).unwrap();
    let store = Store::open(directory.path(), &options()).unwrap();
    assert!(store.tables().is_empty());
    let refused = store.begin().get("part", &["nut".into(), 1.into()]);
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("table part is damaged"), "{text}");
    assert!(text.contains("its file is missing"), "{text}");
}

#[test]
fn commits_that_do_not_wait_are_durable_soon() {
    let directory = directory();
    let mut options = options();
    options.durability = Durability::Lazy;
    let store = Store::create(directory.path(), &options).unwrap();
    store.create_table(&schema()).unwrap();
    // Known from all else that is written meanwhile.
    let picture = b"a picture that nobody waits for";
    let mut row = part(1);
    row[4] = Value::Blob(picture.to_vec());
    let mut transaction = store.begin();
    transaction.insert("part", row).unwrap();
    transaction.commit().unwrap();
    assert_eq!(rows(&store).len(), 1);
    let log = directory.path().join("redo.log");
    let is_written = || {
        let log = fs::read(&log).unwrap();
        log.windows(picture.len()).any(|bytes| bytes == picture)
    };
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while !is_written() {
        assert!(std::time::Instant::now() < until, "nothing is written");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn purge_goes_on_by_itself() {
    let directory = directory();
    let store = filled(directory.path(), 500);
    let mut transaction = store.begin();
    for number in 0..500 {
        let row = part(number);
        let key = [row[0].clone(), row[1].clone()];
        assert!(transaction.delete("part", &key).unwrap());
    }
    transaction.commit().unwrap();
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while store.statistics().unpurged > 0 {
        assert!(std::time::Instant::now() < until, "nothing is purged");
        std::thread::sleep(Duration::from_millis(20));
    }
    let report = store.check().unwrap();
    assert!(report.is_clean() && report.rows == 0 && report.entries == 0);
}

#[test]
fn damage_is_named() {
    let directory = directory();
    let store = filled(directory.path(), 1000);
    store.close().unwrap();
    let mut tables = fs::read_dir(directory.path()).unwrap();
    let table = tables.find_map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name()?.to_str()?;
        name.starts_with("table-").then_some(path.clone())
    });
    let table = table.unwrap();
    let mut bytes = fs::read(&table).unwrap();
    // A page of some tree, and its copies in the doublewrite area too.
    let page = 20;
    bytes[page * 4096 + 2000] ^= 1;
    fs::write(&table, bytes).unwrap();
    forget_copies(directory.path());
    let store = Store::open(directory.path(), &options()).unwrap();
    let report = store.check().unwrap();
    assert!(!report.is_clean());
    let named = report.findings.iter().any(|finding| {
        finding
            .to_string()
            .contains(&format!("page {page} of space"))
    });
    assert!(named, "{:#?}", report.findings);
}
