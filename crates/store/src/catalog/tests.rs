//! Stores of format 1: whole extents, names without numbers, records without
//! numbers.

use super::{Place, for_each};
use crate::data::{ColumnType, Row, TableSchema};
use crate::ids::{EXTENT_PAGES, PageId};
use crate::master::Master;
use crate::page::header;
use crate::space::layout::at;
use crate::space::{SYSTEM_SPACE, space_file};
use crate::tree::{Decision, Direction, Reserve};
use crate::txn::Error;
use crate::{Mini, PageStore, Store, StoreOptions};
use iolane::Engine;
use std::borrow::Cow;
use std::fs;
use std::path::Path;
use std::sync::Arc;

const PAGE: usize = 4096;
const TABLES: i64 = 4;
const ROWS: i64 = 300;

fn options() -> StoreOptions {
    let mut options = StoreOptions::default();
    options.pages.page_bytes = PAGE;
    options.pages.pool_bytes = 64 * PAGE as u64;
    options.pages.log_bytes = 2 << 20;
    options.pages.files_max = 3;
    options
}

fn schema(number: i64) -> TableSchema {
    TableSchema::new(&format!("t{number}"))
        .column("id", ColumnType::Integer)
        .column("text", ColumnType::Text)
        .primary_key(["id"])
}

fn row(id: i64) -> Row {
    vec![id.into(), format!("row {id}").repeat(5).into()]
}

fn fill(store: &Store, number: i64, ids: std::ops::Range<i64>) {
    let mut transaction = store.begin();
    for id in ids {
        transaction.insert(&format!("t{number}"), row(id)).unwrap();
    }
    transaction.commit().unwrap();
}

fn count(store: &Store, number: i64) -> i64 {
    let mut transaction = store.begin();
    let name = format!("t{number}");
    let rows = transaction.range(&name, .., Direction::Forward).unwrap();
    rows.map(|row| row.unwrap())
        .zip(0..)
        .fold(0, |count, (found, id)| {
            assert_eq!(found, row(id));
            count + 1
        })
}

/// Takes the numbers out of the catalogue's records.
fn strip_records(path: &Path) -> Vec<Place> {
    let engine = Arc::new(Engine::new().unwrap());
    let opened = PageStore::open(engine, path, &options().pages, &mut |_| {});
    let (pages, _) = opened.unwrap();
    let master = Master {
        page: PageId::new(SYSTEM_SPACE, 3),
    };
    let tree = master.read(&pages).unwrap().catalogue;
    let mut all = Vec::new();
    for_each(&pages, &tree, |name, place| {
        all.push((name.to_owned(), place));
        Ok(())
    })
    .unwrap();
    for (name, place) in &all {
        let old = Place { id: None, ..*place }.encode();
        assert_eq!(old.len(), super::RECORD_BYTES_UNNUMBERED);
        let reserve = Reserve::default();
        let put = |_: Option<&[u8]>, _: &mut Mini<'_>| Decision::<()>::Put(Cow::Borrowed(&old));
        let len = Some(old.len());
        let put = tree.modify(&pages, name.as_bytes(), len, reserve, put);
        assert!(put.is_ok());
    }
    pages.close().unwrap();
    all.into_iter().map(|(_, place)| place).collect()
}

/// Changes the first page of a file.
fn patch(path: &Path, number: PageId, change: impl FnOnce(&mut [u8])) {
    let mut bytes = fs::read(path).unwrap();
    assert_eq!(header::id(&bytes[..PAGE]), number);
    change(&mut bytes[..PAGE]);
    header::seal(&mut bytes[..PAGE]);
    fs::write(path, bytes).unwrap();
}

fn put_u32(page: &mut [u8], at: usize, value: u32) {
    page[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn a_store_of_format_1_is_used_as_it_is() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path();
    let store = Store::create(path, &options()).unwrap();
    for number in 0..TABLES {
        store.create_table(&schema(number)).unwrap();
    }
    store.close().unwrap();
    let places = strip_records(path);
    let system = space_file(path, "system", SYSTEM_SPACE);
    patch(&system, PageId::new(SYSTEM_SPACE, 0), |page| {
        put_u32(page, at::VERSION, 1);
    });
    // Copies would bring back what was there.
    let area = path.join(crate::DOUBLEWRITE_FILE);
    let mut copies = fs::read(&area).unwrap();
    copies[PAGE..].fill(0);
    fs::write(&area, copies).unwrap();
    for place in &places {
        let name = format!("table-{}", place.id.unwrap());
        let new = space_file(path, &name, place.space);
        let old = path.join(format!("{name}.ts"));
        fs::rename(new, &old).unwrap();
        patch(&old, PageId::new(place.space, 0), |page| {
            put_u32(page, at::VERSION, 1);
            put_u32(page, at::SIZE_PAGES, EXTENT_PAGES);
        });
        let file = fs::OpenOptions::new().write(true).open(&old).unwrap();
        file.set_len(u64::from(EXTENT_PAGES) * PAGE as u64).unwrap();
    }
    let store = Store::open(path, &options()).unwrap();
    for number in 0..TABLES {
        assert_eq!(count(&store, number), 0);
        fill(&store, number, 0..ROWS);
    }
    store.create_table(&schema(TABLES)).unwrap();
    fill(&store, TABLES, 0..ROWS);
    assert!(store.check().unwrap().is_clean());
    store.drop_table("t0").unwrap();
    store.close().unwrap();
    let store = Store::open(path, &options()).unwrap();
    for number in 1..=TABLES {
        assert_eq!(count(&store, number), ROWS);
        fill(&store, number, ROWS..4 * ROWS);
        assert_eq!(count(&store, number), 4 * ROWS);
    }
    let report = store.check().unwrap();
    assert!(report.is_clean(), "{:#?}", report.findings);
    assert!(matches!(
        store.begin().get("t0", &[1.into()]),
        Err(Error::UnknownTable(_))
    ));
}

#[test]
fn a_file_of_a_later_format_is_named() {
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path();
    let store = Store::create(path, &options()).unwrap();
    store.create_table(&schema(0)).unwrap();
    store.create_table(&schema(1)).unwrap();
    store.close().unwrap();
    let places = strip_records(path);
    let file = |place: &Place| {
        let name = format!("table-{}", place.id.unwrap());
        space_file(path, &name, place.space)
    };
    let area = path.join(crate::DOUBLEWRITE_FILE);
    let mut copies = fs::read(&area).unwrap();
    copies[PAGE..].fill(0);
    fs::write(&area, copies).unwrap();
    patch(&file(&places[0]), PageId::new(places[0].space, 0), |page| {
        put_u32(page, at::VERSION, 3);
    });
    let store = Store::open(path, &options()).unwrap();
    let refused = store.begin().get("t0", &[1.into()]).unwrap_err();
    assert!(
        refused.to_string().contains("has format version 3"),
        "{refused}"
    );
    assert_eq!(count(&store, 1), 0);
    drop(store);
    let system = space_file(path, "system", SYSTEM_SPACE);
    patch(&system, PageId::new(SYSTEM_SPACE, 0), |page| {
        put_u32(page, at::VERSION, 3);
    });
    let refused = Store::open(path, &options()).err().unwrap();
    assert!(refused.to_string().contains("use a newer one"), "{refused}");
}
