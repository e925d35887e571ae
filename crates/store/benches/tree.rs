//! What a record costs in a tree whose pages are all in memory: found, scanned,
//! inserted at random, inserted at the end, loaded. Run with
//! `cargo bench -p iolane-store --bench tree`.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use iolane_store::access::memory::{MemoryOptions, MemoryPages};
use iolane_store::tree::{Direction, Tree};
use std::hint::black_box;
use std::ops::Bound;
use std::time::Duration;

const ROWS: u64 = 1_000_000;
const VALUE: [u8; 100] = [7; 100];
/// Rows of a short range.
const RANGE: u64 = 10;
/// Inserted per sample.
const INSERTED: u64 = 100_000;

/// splitmix64 (Vigna 2015): another order of the numbers, none twice.
fn scattered(number: u64) -> u64 {
    let mut z = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

fn empty(pages_max: u32) -> (MemoryPages, Tree) {
    let pages = MemoryPages::new(MemoryOptions {
        pages_max,
        ..MemoryOptions::default()
    });
    let (leaves, branches) = (MemoryPages::segment(1), MemoryPages::segment(2));
    let tree = Tree::create(&pages, leaves, branches, 1).expect("memory suffices");
    (pages, tree)
}

fn loaded(keys: impl Iterator<Item = u64>) -> (MemoryPages, Tree) {
    let (pages, tree) = empty(10_000);
    let records = keys.map(|key| (key.to_be_bytes(), VALUE));
    tree.bulk_load(&pages, records, 94).expect("they ascend");
    (pages, tree)
}

fn sorted_scattered() -> impl Iterator<Item = u64> {
    let mut keys: Vec<u64> = (0..ROWS).map(scattered).collect();
    keys.sort_unstable();
    keys.into_iter()
}

fn reads(c: &mut Criterion) {
    let mut group = c.benchmark_group("read");
    group.measurement_time(Duration::from_secs(3));
    group.throughput(Throughput::Elements(1));
    let (pages, tree) = loaded(0..ROWS);
    let mut number = 0;
    group.bench_function("get, keys 0..1M", |b| {
        b.iter(|| {
            number += 1;
            let key = (scattered(number) % ROWS).to_be_bytes();
            let found = tree.get(&pages, &key, |value| value[50]);
            assert_eq!(black_box(found).ok(), Some(Some(7)));
        });
    });
    group.throughput(Throughput::Elements(ROWS));
    for direction in [Direction::Forward, Direction::Backward] {
        group.bench_function(format!("scan {direction:?}"), |b| {
            b.iter(|| {
                let mut cursor = tree.cursor(Bound::Unbounded, Bound::Unbounded, direction);
                let mut rows = 0;
                while let Ok(Some((_, value))) = cursor.next(&pages) {
                    rows += u64::from(black_box(value)[0]) / 7;
                }
                assert_eq!(rows, ROWS);
            });
        });
    }
    group.throughput(Throughput::Elements(RANGE));
    group.bench_function("range of 10", |b| {
        b.iter(|| {
            number += 1;
            let from = scattered(number) % (ROWS - RANGE);
            let (from, to) = (from.to_be_bytes(), (from + RANGE).to_be_bytes());
            let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
            let mut cursor = tree.cursor(range.0, range.1, Direction::Forward);
            let mut rows = 0;
            while let Ok(Some((_, value))) = cursor.next(&pages) {
                rows += u64::from(black_box(value)[0]) / 7;
            }
            assert_eq!(rows, RANGE);
        });
    });
    drop(pages);
    let (pages, tree) = loaded(sorted_scattered());
    group.throughput(Throughput::Elements(1));
    group.bench_function("get, 1M scattered keys", |b| {
        b.iter(|| {
            number += 1;
            let key = scattered(scattered(number) % ROWS).to_be_bytes();
            let found = tree.get(&pages, &key, |value| value[50]);
            assert_eq!(black_box(found).ok(), Some(Some(7)));
        });
    });
    group.finish();
}

fn writes(c: &mut Criterion) {
    let mut group = c.benchmark_group("write");
    group
        .measurement_time(Duration::from_secs(3))
        .sample_size(10);
    group.throughput(Throughput::Elements(INSERTED));
    let insert = |(pages, tree): (MemoryPages, Tree), key: fn(u64) -> u64| {
        for number in 0..INSERTED {
            let new = tree.insert(&pages, &key(number).to_be_bytes(), &VALUE);
            assert!(new.expect("memory suffices"));
        }
        pages
    };
    group.bench_function("insert ascending", |b| {
        b.iter_batched(
            || empty(4000),
            |into| insert(into, |number| number),
            BatchSize::PerIteration,
        );
    });
    group.bench_function("insert at random", |b| {
        b.iter_batched(
            || empty(4000),
            |into| insert(into, scattered),
            BatchSize::PerIteration,
        );
    });
    group.bench_function("load", |b| {
        b.iter_batched(
            || empty(4000),
            |(pages, tree)| {
                let records = (0..INSERTED).map(|number| (number.to_be_bytes(), VALUE));
                tree.bulk_load(&pages, records, 94).expect("they ascend");
                pages
            },
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, reads, writes);
criterion_main!(benches);
