//! Locking reads beside transactions that move rows within the range.

mod locking;
mod simulated;

use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{
    Direction, Error, Isolation, LockMode, LockedRows, Store, Transaction, WhenLocked,
};
use locking::*;
use simulated::*;
use std::ops::Bound;

fn fill(store: &Store, rows: impl IntoIterator<Item = Row>) {
    let mut filling = store.begin();
    for row in rows {
        filling.insert("places", row).unwrap();
    }
    filling.commit().unwrap();
}

/// By an index or by the primary key.
fn lock_all<'t, 's>(
    transaction: &'t mut Transaction<'s>,
    index: Option<&str>,
    direction: Direction,
) -> LockedRows<'t, 's> {
    let (mode, when) = (LockMode::Exclusive, WhenLocked::Wait);
    match index {
        Some(index) => transaction.lock_range_by("places", index, .., direction, mode, when),
        None => transaction.lock_range("places", .., direction, mode, when),
    }
    .unwrap()
}

/// Whoever goes by an index has copied a part of it. A row that another one moves within the
/// range comes all the same, once: ahead of the cursor, behind it, or where it was.
#[test]
fn a_row_that_moves_in_an_index_is_not_missed_by_who_locks_it() {
    let arena = arena();
    let places = TableSchema::new("places")
        .column("id", ColumnType::Integer)
        .column("round", ColumnType::Integer)
        .column("place", ColumnType::Integer)
        .primary_key(["round", "id"])
        .index("by_place", ["round", "place"]);
    let store = with_table(&arena, &places);
    let mut round = 0;
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        for (direction, id) in [(Direction::Forward, 3), (Direction::Backward, 2)] {
            for (place, is_while) in (1..60).flat_map(|place| [(place, true), (place, false)]) {
                round += 1;
                // Of this round: what others left in the index is not in the way.
                let row = |id: i64, place: i64| [id, round, place].map(Value::from).to_vec();
                fill(&store, (0..6).map(|id| row(id, 10 * id)));
                let moves = || {
                    let mut other = store.begin();
                    assert!(other.update("places", row(id, place)).unwrap());
                    other.commit().unwrap();
                };
                if !is_while {
                    moves();
                }
                let mut locking = begin(&store, isolation);
                let ends = [5, 45].map(|place| [round.into(), place.into()]);
                let bounds = (Bound::Included(&ends[0][..]), Bound::Included(&ends[1][..]));
                let (mode, when) = (LockMode::Exclusive, WhenLocked::Wait);
                let mut rows = locking
                    .lock_range_by("places", "by_place", bounds, direction, mode, when)
                    .unwrap();
                let mut found = vec![rows.next().unwrap().unwrap()];
                if is_while {
                    moves();
                }
                found.extend(rows.map(Result::unwrap));
                let mut wanted: Vec<(i64, i64)> = [1, 2, 3, 4]
                    .map(|one| (if one == id { place } else { 10 * one }, one))
                    .into_iter()
                    .filter(|(place, _)| (5..=45).contains(place))
                    .collect();
                wanted.sort_unstable();
                if direction == Direction::Backward {
                    wanted.reverse();
                }
                let mut wanted: Vec<Row> = wanted.iter().map(|it| row(it.1, it.0)).collect();
                // One that has moved behind the cursor comes where it was.
                let is_behind = match direction {
                    Direction::Forward => place < 30,
                    Direction::Backward => place > 20,
                };
                if is_while && is_behind {
                    let id = |row: &Row| format!("{:?}", row[0]);
                    wanted.sort_by_key(id);
                    found.sort_by_key(id);
                }
                let what = format!("{isolation:?}, {direction:?}, to {place}, {is_while}");
                assert_eq!(found, wanted, "{what}");
            }
        }
    }
}

/// A row that moves back from a leaf to which the cursor has yet to come leaves an entry
/// there, which stays until the cursor has seen it, whatever could be purged.
#[test]
fn a_row_that_moves_from_a_later_leaf_is_not_missed_though_all_is_purged() {
    const ROWS: i64 = 4000;
    let arena = arena();
    let places = TableSchema::new("places")
        .column("id", ColumnType::Integer)
        .column("place", ColumnType::Integer)
        .primary_key(["id"])
        .index("by_place", ["place"]);
    let row = |id: i64, place: i64| [id, place].map(Value::from).to_vec();
    for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
        for (direction, from, to) in [
            (Direction::Forward, ROWS - 1, 0),
            (Direction::Backward, 0, ROWS - 1),
        ] {
            let store = with_table(&arena, &places);
            fill(&store, (0..ROWS).map(|id| row(id, id)));
            let mut locking = begin(&store, isolation);
            let mut rows = lock_all(&mut locking, Some("by_place"), direction);
            assert_eq!(rows.next().unwrap().unwrap(), row(to, to));
            let mut other = store.begin();
            assert!(other.update("places", row(from, to)).unwrap());
            other.commit().unwrap();
            while store.purge(1000).unwrap() > 0 {}
            let rest = ids(rows);
            let what = format!("{isolation:?}, {direction:?}");
            assert_eq!(rest.len() as i64, ROWS - 1, "{what}");
            assert_eq!(rest.last(), Some(&from.into()), "{what}");
        }
    }
}

/// Another primary key makes another row of it. Whoever comes to where it was looks for it
/// where it is: by the rows, and by an index.
#[test]
fn a_row_that_gets_another_primary_key_is_not_missed() {
    let arena = arena();
    let places = TableSchema::new("places")
        .column("place", ColumnType::Integer)
        .column("id", ColumnType::Integer)
        .primary_key(["place"])
        .index("by_id", ["id"]);
    let row = |place: i64, id: i64| [place, id].map(Value::from).to_vec();
    for by_index in [true, false] {
        for direction in [Direction::Forward, Direction::Backward] {
            for place in [0, 15, 35, 100] {
                let store = with_table(&arena, &places);
                fill(&store, (1..6).map(|id| row(10 * id, id)));
                let mut locking = begin(&store, Isolation::ReadCommitted);
                let mut rows = lock_all(&mut locking, by_index.then_some("by_id"), direction);
                let mut found = vec![rows.next().unwrap().unwrap()];
                // Twice: the second row is not there either when the first one is looked for.
                for (from, to) in [(30, place + 1), (place + 1, place)] {
                    let mut other = store.begin();
                    assert!(other.delete("places", &[from.into()]).unwrap());
                    other.insert("places", row(to, 3)).unwrap();
                    other.commit().unwrap();
                }
                while store.purge(1000).unwrap() > 0 {}
                found.extend(rows.map(Result::unwrap));
                let mut ids: Vec<String> =
                    found.iter().map(|row| format!("{:?}", row[1])).collect();
                ids.sort();
                let wanted: Vec<String> = (1..6)
                    .map(|id: i64| format!("{:?}", Value::from(id)))
                    .collect();
                assert_eq!(
                    ids, wanted,
                    "to {place}, {direction:?}, by index: {by_index}"
                );
                assert!(found.contains(&row(place, 3)));
            }
        }
    }
}

/// Between each two rows that come, others move rows that are not locked yet, to places where
/// rows were before, too, and to other ranges where one statement locks several, in any order,
/// and insert others where they were: all come, once, as they are in the end.
#[test]
fn rows_that_move_at_random_are_not_missed_by_who_locks_them() {
    const ROWS: i64 = 8;
    const MORE_MAX: i64 = 5;
    let arena = arena();
    let places = TableSchema::new("places")
        .column("place", ColumnType::Integer)
        .column("id", ColumnType::Integer)
        .column("amount", ColumnType::Integer)
        .primary_key(["place"])
        .index("by_amount", ["amount"]);
    for seed in 0..2000 {
        let mut random = Random(seed);
        let mut below = |end: i64| random.below(end as u64) as i64;
        let store = with_table(&arena, &places);
        // Of each row: its place, and its amount.
        let mut kept: Vec<(i64, i64)> = (0..ROWS).map(|id| (2 * id, id)).collect();
        let row =
            |id: i64, (place, amount): (i64, i64)| [place, id, amount].map(Value::from).to_vec();
        fill(&store, (0..ROWS).map(|id| row(id, kept[id as usize])));
        let mut more = 0;
        let mut one_moves = || {
            let id = below(ROWS);
            let (from, to) = (kept[id as usize], (below(2 * ROWS + 2), below(ROWS)));
            let mut other = begin(&store, Isolation::ReadCommitted);
            let is_replaced = more < MORE_MAX && from.0 != to.0 && below(3) == 0;
            let new = row(ROWS + more, (from.0, below(ROWS)));
            let mut changes = || -> Result<(), Error> {
                let (mode, when) = (LockMode::Exclusive, WhenLocked::Refuse);
                for place in [from.0, to.0] {
                    other.lock_row("places", &[place.into()], mode, when)?;
                }
                if from.0 == to.0 {
                    other.update("places", row(id, to))?;
                } else {
                    other.delete("places", &[from.0.into()])?;
                    other.insert("places", row(id, to))?;
                }
                if is_replaced {
                    other.insert("places", new.clone())?;
                }
                Ok(())
            };
            // Another row has the place, or is locked.
            if changes().is_err() || below(8) == 0 {
                other.rollback().unwrap();
                return;
            }
            other.commit().unwrap();
            kept[id as usize] = to;
            more += i64::from(is_replaced);
            if below(4) == 0 {
                while store.purge(1000).unwrap() > 0 {}
            }
        };
        let (by_index, forward) = (seed % 2 == 0, seed % 4 < 2);
        for _ in 0..seed % 5 {
            one_moves();
        }
        let mut locking = begin(&store, Isolation::ReadCommitted);
        let direction = if forward {
            Direction::Forward
        } else {
            Direction::Backward
        };
        let ranges = ranges_of_all(&mut Random(seed), ROWS);
        let index = by_index.then_some("by_amount");
        let lock = Some((LockMode::Exclusive, WhenLocked::Wait));
        let mut cursor = locking
            .cursor("places", index, as_slices(&ranges[0]), direction, lock)
            .unwrap()
            .one_of_many();
        let mut found = Vec::new();
        for next in 1..=ranges.len() + 1 {
            loop {
                for _ in 0..3 {
                    one_moves();
                }
                let Some(row) = cursor.next(&mut locking).unwrap() else {
                    break;
                };
                found.push(row);
            }
            match ranges.get(next) {
                Some(range) => cursor
                    .go_on_with(&locking, as_slices(range), direction)
                    .unwrap(),
                None => cursor.end_ranges(),
            }
        }
        found.sort_by_key(|row| format!("{:?}", row[1]));
        assert!(
            found.windows(2).all(|two| two[0][1] != two[1][1]),
            "seed {seed}: twice"
        );
        // Those that were inserted meanwhile may come or not.
        let is_new = |row: &Row| (ROWS..ROWS + MORE_MAX).any(|id| row[1] == Value::from(id));
        found.retain(|row| !is_new(row));
        let wanted: Vec<Row> = (0..ROWS).map(|id| row(id, kept[id as usize])).collect();
        assert_eq!(
            found, wanted,
            "seed {seed}, {direction:?}, by index: {by_index}, {ranges:?}"
        );
    }
}

type Range = (Bound<Vec<Value>>, Bound<Vec<Value>>);

fn as_slices((lower, upper): &Range) -> (Bound<&[Value]>, Bound<&[Value]>) {
    let slice = Vec::as_slice;
    (lower.as_ref().map(slice), upper.as_ref().map(slice))
}

/// One to four ranges that have all values together, in any order.
fn ranges_of_all(random: &mut Random, values: i64) -> Vec<Range> {
    let mut ends: Vec<i64> = (0..random.below(4))
        .map(|_| random.below(values as u64) as i64)
        .collect();
    ends.sort_unstable();
    ends.dedup();
    let mut ranges = Vec::new();
    let mut lower = Bound::Unbounded;
    for end in ends {
        let end = vec![Value::from(end)];
        ranges.push((lower, Bound::Excluded(end.clone())));
        lower = Bound::Included(end);
    }
    ranges.push((lower, Bound::Unbounded));
    let first = random.below(ranges.len() as u64) as usize;
    ranges.rotate_left(first);
    ranges
}
