//! Stores and transactions of tests of locking.

use crate::simulated::{DIRECTORY, options};
use iolane::{Arena, SimulatedDisk};
use iolane_store::data::{Row, TableSchema, Value};
use iolane_store::{Error, Isolation, Store, Transaction, TransactionOptions};
use std::time::Duration;

pub fn with_table(arena: &Arena, schema: &TableSchema) -> Store {
    let disk = SimulatedDisk::builder().build().unwrap();
    let store = Store::create(DIRECTORY, &options(&disk, arena)).unwrap();
    store.create_table(schema).unwrap();
    store
}

pub fn begin(store: &Store, isolation: Isolation) -> Transaction<'_> {
    let mut options = TransactionOptions::default();
    options.isolation = isolation;
    options.lock_timeout = Some(Duration::from_millis(50));
    store.begin_with(&options)
}

pub fn ids(rows: impl Iterator<Item = Result<Row, Error>>) -> Vec<Value> {
    rows.map(|row| row.unwrap()[0].clone()).collect()
}
