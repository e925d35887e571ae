//! How many different values the parts of a key have: estimates beside what is there.

mod simulated;

use iolane::{Arena, SimulatedDisk};
use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{Error, KeyStatistics, Store};
use simulated::*;
use std::collections::HashSet;

const ROWS: u64 = 20_000;
/// Bytes of a part.
const PART: usize = 4;

fn empty(arena: &Arena) -> Store {
    let disk = SimulatedDisk::builder().build().unwrap();
    let mut options = options(&disk, arena);
    options.pages.pool_bytes = 400 * 4096;
    options.pages.arena = None;
    let store = Store::create(DIRECTORY, &options).unwrap();
    let schema = TableSchema::new("t")
        .column("id", ColumnType::Integer)
        .column("key", ColumnType::Blob)
        .primary_key(["id"])
        .index("by_key", ["key"]);
    store.create_table(&schema).unwrap();
    store
}

/// A key of several numbers.
fn key(parts: &[u64]) -> Vec<u8> {
    let bytes = parts.iter().map(|&part| (part as u32).to_be_bytes());
    bytes.collect::<Vec<_>>().concat()
}

fn filled(arena: &Arena, keys: &[Vec<u8>]) -> Store {
    let store = empty(arena);
    let rows = keys.iter().zip(0i64..);
    let rows = rows.map(|(key, id)| -> Row { vec![id.into(), Value::Blob(key.clone())] });
    store.bulk_load("t", rows).unwrap();
    store
}

fn estimate(store: &Store, parts: usize) -> KeyStatistics {
    let whole = |bytes: &[u8]| bytes.len() / PART;
    store
        .key_statistics("t", Some("by_key"), parts, whole)
        .unwrap()
}

/// How many there are.
fn count(keys: &[Vec<u8>], parts: usize) -> u64 {
    let prefixes: HashSet<&[u8]> = keys.iter().map(|key| &key[..parts * PART]).collect();
    prefixes.len() as u64
}

fn is_within(found: u64, truth: u64, factor: f64) -> bool {
    let (found, truth) = (found as f64, truth as f64);
    found <= truth * factor && truth <= found * factor
}

/// Estimates the values of one part.
fn check(name: &str, factor: f64, mut number: impl FnMut(u64, &mut Random) -> u64) {
    let mut random = Random(20_261_130);
    let keys: Vec<_> = (0..ROWS)
        .map(|row| key(&[number(row, &mut random)]))
        .collect();
    let found = estimate(&filled(&arena(), &keys), 1);
    let truth = count(&keys, 1);
    println!("{name}: {truth}, estimated {:?}", found.distinct_estimates);
    assert!(is_within(found.entries_estimate, ROWS, 1.1), "{found:?}");
    assert!(
        is_within(found.distinct_estimates[0], truth, factor),
        "{name}: {found:?} of {truth}"
    );
}

#[test]
fn uniform_values_are_estimated() {
    check("distinct", 1.1, |row, _| row * 7919 % ROWS);
    for values in [20_000, 5000, 1000, 200, 50, 10, 3] {
        check(&format!("{values} values"), 1.3, |_, random| {
            random.below(values)
        });
    }
}

#[test]
fn one_value_is_one() {
    let keys = vec![key(&[7]); ROWS as usize];
    assert_eq!(
        estimate(&filled(&arena(), &keys), 1).distinct_estimates,
        [1]
    );
}

#[test]
fn skewed_values_are_estimated() {
    // Half, and nearly all rows have one value, the rest are different.
    check("half", 1.5, |row, random| row * random.below(2));
    check("a hundredth is different", 1.5, |row, random| {
        row * u64::from(random.below(100) == 0)
    });
    // Each value half as often as the one before, and by a power.
    check("halves", 2.0, |row, random| {
        u64::from(random.below(1 + row).trailing_zeros())
    });
    check("squares", 2.0, |_, random| {
        let number = random.below(1000);
        number * number / 100
    });
    check("by a power", 2.0, |_, random| {
        ROWS / (1 + random.below(ROWS))
    });
    // The least values are long, the greatest ones are short.
    check("long and short", 1.5, |row, _| {
        if row < ROWS / 2 { row / 2500 } else { row }
    });
}

#[test]
fn parts_are_estimated() {
    let mut random = Random(20_261_201);
    let keys: Vec<_> = (0..ROWS)
        .map(|row| key(&[random.below(5), random.below(300), row]))
        .collect();
    let store = filled(&arena(), &keys);
    let found = estimate(&store, 3).distinct_estimates;
    let truth: Vec<u64> = (1..=3).map(|parts| count(&keys, parts)).collect();
    assert_eq!((found[0], truth[0]), (5, 5));
    assert!(is_within(found[1], truth[1], 1.3), "{found:?} of {truth:?}");
    assert!(is_within(found[2], truth[2], 1.1), "{found:?} of {truth:?}");
    // A part that depends on the first adds none.
    let keys: Vec<_> = (0..ROWS)
        .map(|row| key(&[row % 400, row % 400 / 2, row % 7]))
        .collect();
    let found = estimate(&filled(&arena(), &keys), 3).distinct_estimates;
    assert!(is_within(found[0], 400, 1.3), "{found:?}");
    assert_eq!(found[0], found[1]);
    assert!(is_within(found[2], 2800, 1.3), "{found:?}");
}

#[test]
fn zeros_and_ends_of_keys_are_no_matter() {
    // Zeros are escaped, and keys end within a part or without any.
    let mut random = Random(20_261_202);
    let keys: Vec<_> = (0..ROWS)
        .map(|_| vec![0; random.below(40) as usize])
        .collect();
    let found = estimate(&filled(&arena(), &keys), 9).distinct_estimates;
    assert!(found.is_sorted() && found[8] <= 40, "{found:?}");
}

#[test]
fn fewer_than_32_leaves_are_counted() {
    let mut random = Random(20_261_203);
    for rows in [0, 1, 2, 50, 500] {
        let keys: Vec<_> = (0..rows)
            .map(|_| key(&[random.below(30), random.below(4)]))
            .collect();
        let found = estimate(&filled(&arena(), &keys), 2);
        let truth = [count(&keys, 1), count(&keys, 2)];
        assert_eq!(
            (found.entries_estimate, &found.distinct_estimates[..]),
            (rows, &truth[..])
        );
    }
}

#[test]
fn rows_that_come_and_go_are_noticed() {
    let arena = arena();
    let store = empty(&arena);
    let mut random = Random(20_261_204);
    let mut transaction = store.begin();
    for id in 0..4000i64 {
        let row = vec![id.into(), Value::Blob(key(&[random.below(2000)]))];
        transaction.insert("t", &row).unwrap();
    }
    transaction.commit().unwrap();
    let found = estimate(&store, 1).distinct_estimates[0];
    assert!(is_within(found, 1730, 1.3), "{found}");
    let mut transaction = store.begin();
    for id in (0..4000i64).filter(|id| id % 8 != 0) {
        assert!(transaction.delete("t", &[id.into()]).unwrap());
    }
    transaction.commit().unwrap();
    while store.purge(1000).unwrap() > 0 {}
    let found = estimate(&store, 1);
    assert!(found.entries_estimate <= 600, "{found:?}");
    assert!(found.distinct_estimates[0] <= 500, "{found:?}");
}

#[test]
fn primary_keys_of_numbers_are_distinct() {
    let keys: Vec<_> = (0..ROWS).map(|row| key(&[row])).collect();
    let store = filled(&arena(), &keys);
    let whole = |bytes: &[u8]| usize::from(bytes.len() == 8);
    let found = store.key_statistics("t", None, 1, whole).unwrap();
    assert!(
        is_within(found.distinct_estimates[0], ROWS, 1.1),
        "{found:?}"
    );
    let refused = store.key_statistics("t", Some("none"), 1, whole);
    assert!(matches!(refused, Err(Error::UnknownIndex { .. })));
}
