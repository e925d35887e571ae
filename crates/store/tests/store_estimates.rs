//! What a planner asks for: sizes, how many rows a range has, where a row is.

mod simulated;

use iolane::{Arena, SimulatedDisk};
use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{Direction, Error, Store};
use simulated::*;
use std::ops::Bound;

const ROWS: i64 = 20_000;

fn schema() -> TableSchema {
    TableSchema::new("t")
        .column("id", ColumnType::Integer)
        .column("other", ColumnType::Integer)
        .column("text", ColumnType::Text)
        .primary_key(["id"])
        .index("by_other", ["other"])
}

fn row(id: i64) -> Row {
    let text = "t".repeat(20 + id as usize % 50);
    vec![id.into(), (id * 7919 % ROWS).into(), text.into()]
}

fn filled(arena: &Arena) -> Store {
    let disk = SimulatedDisk::builder().build().unwrap();
    let mut options = options(&disk, arena);
    options.pages.pool_bytes = 200 * 4096;
    options.pages.arena = None;
    let store = Store::create(DIRECTORY, &options).unwrap();
    store.create_table(&schema()).unwrap();
    store.bulk_load("t", (0..ROWS).map(row)).unwrap();
    store
}

#[test]
fn ranges_are_estimated_by_both_keys() {
    let arena = arena();
    let store = filled(&arena);
    let mut random = Random(20_261_129);
    for index in [None, Some("by_other")] {
        let estimate = |bounds: (Bound<&[Value]>, Bound<&[Value]>)| {
            store.estimate_range("t", index, bounds).unwrap()
        };
        let all = estimate((Bound::Unbounded, Bound::Unbounded));
        assert!(all.abs_diff(ROWS as u64) < ROWS as u64 / 5, "{all}");
        for _ in 0..200 {
            let width = 1 + random.below(5000) as i64;
            let from = random.below((ROWS - width) as u64) as i64;
            let (low, high) = ([Value::from(from)], [Value::from(from + width)]);
            let found = estimate((Bound::Included(&low[..]), Bound::Excluded(&high[..])));
            // One leaf's worth, or a third.
            let least = (width as u64 * 2 / 3).saturating_sub(60);
            let most = width as u64 * 4 / 3 + 60;
            assert!((least..=most).contains(&found), "{found} of {width}");
        }
        // In one leaf it is exact.
        let (low, high) = ([Value::from(0)], [Value::from(5)]);
        assert_eq!(
            estimate((Bound::Included(&low[..]), Bound::Included(&high[..]))),
            6
        );
        assert_eq!(
            estimate((Bound::Excluded(&low[..]), Bound::Excluded(&high[..]))),
            4
        );
        assert_eq!(
            estimate((Bound::Included(&high[..]), Bound::Excluded(&low[..]))),
            0
        );
    }
    let refused = store.estimate_range("t", Some("none"), ..);
    assert!(matches!(refused, Err(Error::UnknownIndex { .. })));
}

#[test]
fn sizes_are_those_of_the_trees() {
    let arena = arena();
    let store = filled(&arena);
    let found = store.table_statistics("t").unwrap();
    let near = |estimate: u64| estimate.abs_diff(ROWS as u64) < ROWS as u64 / 10;
    assert!(near(found.rows_estimate), "{found:?}");
    assert!(found.used_pages <= found.pages && found.long_pages == 1);
    assert_eq!(found.pages, store.table_space("t").unwrap().pages);
    let names: Vec<Option<&str>> = found.indexes.iter().map(|it| it.name.as_deref()).collect();
    assert_eq!(names, [None, Some("by_other")]);
    let in_trees: u64 = found
        .indexes
        .iter()
        .map(|it| it.leaf_pages + it.branch_pages)
        .sum();
    // A root that is a leaf would count twice.
    assert!(
        found
            .indexes
            .iter()
            .all(|it| it.height > 1 && near(it.entries_estimate))
    );
    assert_eq!(in_trees + found.long_pages + 3, found.used_pages);
}

#[test]
fn rows_are_found_at_their_positions() {
    let arena = arena();
    let store = filled(&arena);
    let mut reader = store.begin();
    let kept = |bounds: (Bound<&[Value]>, Bound<&[Value]>)| -> Vec<Row> {
        let mut other = store.begin();
        let rows = other.range_by("t", "by_other", bounds, Direction::Backward);
        rows.unwrap().map(Result::unwrap).collect()
    };
    let (low, high) = ([Value::from(100)], [Value::from(400)]);
    let rows = kept((Bound::Included(&low[..]), Bound::Excluded(&high[..])));
    assert_eq!(rows.len(), 300);
    let positions: Vec<Vec<u8>> = rows
        .iter()
        .map(|row| store.position_of("t", row).unwrap())
        .collect();
    for (row, position) in rows.iter().zip(&positions) {
        assert_eq!(reader.get_at("t", position).unwrap().as_ref(), Some(row));
    }
    let mut by_key = rows.clone();
    by_key.sort_by_key(|row| store.position_of("t", row).unwrap());
    assert!(by_key.is_sorted_by_key(|row| match row[0] {
        Value::Integer(id) => id,
        _ => panic!("an id"),
    }));
    // A row that has gone, and what is no position.
    let mut other = store.begin();
    assert!(other.delete("t", &rows[0][..1]).unwrap());
    assert_eq!(other.get_at("t", &positions[0]).unwrap(), None);
    assert_eq!(other.get_at("t", b"no position").unwrap(), None);
    assert!(store.position_of("t", &vec![1.into()]).is_err());
}
