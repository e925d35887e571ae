//! What a row costs in a store that is all in memory: read, scanned, changed
//! without waiting for the disk, committed with waiting, loaded. Run with
//! `cargo bench -p iolane-store --bench store`; what threads do together, and
//! how far each figure is from what the machine allows, follows at the end, or
//! alone with `-- figures`.

mod figures;

use criterion::{BatchSize, Criterion, Throughput, criterion_group};
use iolane_store::data::{ColumnType, Row, TableSchema};
use iolane_store::{Direction, Durability, Store, StoreOptions};
use std::hint::black_box;
use std::time::Duration;

const ROWS: i64 = 200_000;
/// Changed by one transaction.
const CHANGED: i64 = 1000;

fn schema() -> TableSchema {
    TableSchema::new("t")
        .column("id", ColumnType::Integer)
        .column("value", ColumnType::Blob)
        .primary_key(["id"])
}

fn row(id: i64) -> Row {
    vec![id.into(), vec![id as u8; 100].as_slice().into()]
}

/// Another order of the numbers below `ROWS`, which has no divisor of it.
fn scattered(number: i64) -> i64 {
    number * 7919 % ROWS
}

fn empty(directory: &std::path::Path) -> Store {
    let mut options = StoreOptions::default();
    options.pages.pool_bytes = 256 << 20;
    let store = Store::create(directory, &options).expect("a new directory");
    store.create_table(&schema()).expect("a new table");
    store
}

fn all(criterion: &mut Criterion) {
    let directory = tempfile::tempdir_in("/var/tmp").expect("a directory");
    let store = empty(&directory.path().join("store"));
    store
        .bulk_load("t", (0..ROWS).map(row))
        .expect("it is empty");
    let mut group = criterion.benchmark_group("store");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));

    let mut number = 0;
    let mut next = || {
        number += 1;
        scattered(number % ROWS)
    };
    group.throughput(Throughput::Elements(1));
    let mut reader = store.begin();
    group.bench_function("get", |b| {
        b.iter(|| black_box(reader.get("t", &[next().into()])).expect("read"));
    });
    drop(reader);
    group.bench_function("get in a transaction of its own", |b| {
        b.iter(|| black_box(store.begin().get("t", &[next().into()])).expect("read"));
    });
    group.bench_function("commit one row, not waiting", |b| {
        b.iter(|| {
            let mut transaction = store.begin();
            transaction.update("t", row(next())).expect("changed");
            transaction
                .commit_with(Durability::Lazy)
                .expect("committed");
        });
    });
    group.bench_function("commit one row", |b| {
        b.iter(|| {
            let mut transaction = store.begin();
            transaction.update("t", row(next())).expect("changed");
            transaction.commit().expect("committed");
        });
    });
    group.throughput(Throughput::Elements(CHANGED as u64));
    group.bench_function("change 1000 rows", |b| {
        b.iter(|| {
            let mut transaction = store.begin();
            for _ in 0..CHANGED {
                transaction.update("t", row(next())).expect("changed");
            }
            transaction
                .commit_with(Durability::Lazy)
                .expect("committed");
        });
    });
    group.throughput(Throughput::Elements(ROWS as u64));
    group.bench_function("scan", |b| {
        b.iter(|| {
            let mut transaction = store.begin();
            let rows = transaction.range("t", .., Direction::Forward);
            rows.expect("a table").count()
        });
    });
    let mut count = 0;
    group.bench_function("load", |b| {
        b.iter_batched(
            || {
                count += 1;
                empty(&directory.path().join(count.to_string()))
            },
            |store| {
                store
                    .bulk_load("t", (0..ROWS).map(row))
                    .expect("it is empty");
                store
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, all);

fn main() {
    benches();
    Criterion::default().configure_from_args().final_summary();
    figures::print();
}
