//! Transactions that nobody ends: dropped ones are rolled back at once, leaked
//! ones when the store is opened again.

mod simulated;

use iolane::SimulatedDisk;
use iolane_store::data::{ColumnType, Row, TableSchema};
use iolane_store::{Error, Store, StoreOptions};
use simulated::*;
use std::time::Duration;

fn row(id: i64, text: &str) -> Row {
    vec![id.into(), text.into()]
}

fn store(options: &StoreOptions) -> Store {
    let store = Store::create(DIRECTORY, options).unwrap();
    let schema = TableSchema::new("t")
        .column("id", ColumnType::Integer)
        .column("text", ColumnType::Text)
        .primary_key(["id"])
        .unique_index("by_text", ["text"]);
    store.create_table(&schema).unwrap();
    put(&store, row(1, "first")).unwrap();
    store
}

fn put(store: &Store, row: Row) -> Result<(), Error> {
    let mut one = store.begin();
    if !one.update("t", row.clone())? {
        one.insert("t", row)?;
    }
    one.commit()
}

fn get(store: &Store, id: i64) -> Option<Row> {
    store.begin().get("t", &[id.into()]).unwrap()
}

#[test]
fn a_dropped_transaction_is_rolled_back() {
    let (disk, arena) = (SimulatedDisk::builder().build().unwrap(), arena());
    let store = store(&options(&disk, &arena));
    let mut one = store.begin();
    assert!(one.update("t", row(1, "changed")).unwrap());
    one.insert("t", row(2, "second")).unwrap();
    assert_eq!(store.statistics().writing, 1);
    drop(one);
    let now = store.statistics();
    assert_eq!((now.writing, now.locks, now.views), (0, 0, 0));
    assert_eq!(get(&store, 1), Some(row(1, "first")));
    assert_eq!(get(&store, 2), None);
    // Nobody waits for it, also not for what it had in an index.
    put(&store, row(3, "changed")).unwrap();
    put(&store, row(2, "another")).unwrap();
    assert!(store.check().unwrap().is_clean());
}

/// A panic drops what it unwinds.
#[test]
fn a_transaction_of_a_thread_that_panics_is_rolled_back() {
    let (disk, arena) = (SimulatedDisk::builder().build().unwrap(), arena());
    let store = store(&options(&disk, &arena));
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let mut one = store.begin();
            one.insert("t", row(2, "second")).unwrap();
            panic!("on purpose");
        });
        assert!(thread.join().is_err());
    });
    assert_eq!(get(&store, 2), None);
    put(&store, row(2, "another")).unwrap();
}

#[test]
fn a_leaked_transaction_is_rolled_back_when_the_store_is_opened_again() {
    let (disk, arena) = (SimulatedDisk::builder().build().unwrap(), arena());
    let mut options = options(&disk, &arena);
    options.lock_timeout = Duration::from_millis(20);
    let leaking = store(&options);
    let mut one = leaking.begin();
    one.insert("t", row(2, "second")).unwrap();
    std::mem::forget(one);
    // Its row is locked, all others are not.
    let refused = put(&leaking, row(2, "another")).unwrap_err();
    assert!(matches!(refused, Error::Lock(_)), "{refused}");
    put(&leaking, row(1, "changed")).unwrap();
    assert_eq!(get(&leaking, 2), None);
    let now = leaking.statistics();
    assert_eq!((now.writing, now.views), (1, 1));
    // As many as there are undo slots, and no more.
    let mut leaked = 1;
    let refused = loop {
        let mut one = leaking.begin();
        match one.insert("t", row(100 + leaked, &leaked.to_string())) {
            Ok(()) => {
                leaked += 1;
                std::mem::forget(one);
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, Error::TooManyWriters { .. }), "{refused}");
    assert_eq!(leaked, i64::from(options.undo_slots));
    leaking.close().unwrap();

    let store = Store::open(DIRECTORY, &options).unwrap();
    assert_eq!(i64::from(store.recovery().1), leaked);
    assert_eq!(get(&store, 2), None);
    put(&store, row(2, "another")).unwrap();
    assert_eq!(get(&store, 1), Some(row(1, "changed")));
    assert!(store.check().unwrap().is_clean());
}
