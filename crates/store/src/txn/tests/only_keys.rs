//! Cursors that want no more than the keys of an index: they see what all others see,
//! and read no row that nobody has changed.

use super::model::Random;
use super::*;
use crate::tree::Direction;
use std::sync::atomic::AtomicBool;

const INDEXES: [&str; 2] = ["by_tag", "by_group"];
const DIRECTIONS: [Direction; 2] = [Direction::Forward, Direction::Backward];

/// What an index and the primary key have of a row.
pub(super) fn keys_of(index: &str, row: &Row) -> Row {
    let mut keys = row.clone();
    keys[3] = Value::Null;
    keys[if index == "by_tag" { 2 } else { 1 }] = Value::Null;
    keys
}

pub(super) fn try_only_keys(
    transaction: &mut Transaction<'_, TestPages>,
    index: &str,
    direction: Direction,
) -> Result<Vec<Row>, Error> {
    let cursor = transaction.cursor("t", Some(index), .., direction, None)?;
    let mut cursor = cursor.only_keys();
    std::iter::from_fn(|| cursor.next(transaction).transpose()).collect()
}

/// Reads an index in both ways, which must be the same.
fn assert_same(transaction: &mut Transaction<'_, TestPages>) -> usize {
    let mut count = 0;
    for index in INDEXES {
        for direction in DIRECTIONS {
            let keys = try_only_keys(transaction, index, direction).unwrap();
            let rows = transaction.range_by("t", index, .., direction).unwrap();
            let rows: Vec<Row> = rows.map(|row| keys_of(index, &row.unwrap())).collect();
            assert_eq!(keys, rows, "{index}, {direction:?}");
            count = keys.len();
        }
    }
    count
}

fn filled(seed: u64, rows: i64) -> (Rig, System<TestPages>) {
    let rig = Rig::new(small(seed));
    let system = rig.open();
    system.create_table(&schema()).unwrap();
    let mut one = Transaction::begin(&system);
    for id in 0..rows {
        let group = format!("g{}", id % 7);
        one.insert("t", row(id, Some(id), &group, "text")).unwrap();
    }
    one.commit().unwrap();
    (rig, system)
}

/// Replaces a row by what none is.
fn spoil(system: &System<TestPages>, id: i64) {
    let table = system.catalog.table(&system.backing, "t").unwrap();
    let key = table.primary_key(&key(id)).unwrap();
    table.rows.put(&system.backing, &key, b"").unwrap();
}

#[test]
fn rows_that_nobody_has_changed_are_not_read() {
    let (_rig, mut system) = filled(51, 100);
    purge_all(&system);
    spoil(&system, 50);
    let mut one = Transaction::begin(&system);
    for index in INDEXES {
        for direction in DIRECTIONS {
            let keys = try_only_keys(&mut one, index, direction).unwrap();
            assert_eq!(keys.len(), 100);
            assert!(keys.iter().all(|row| row[3] == Value::Null));
            let rows = one.range_by("t", index, .., direction).unwrap();
            assert!(rows.into_iter().any(|row| row.is_err()));
        }
    }
    // The tag stays, the group is another one.
    let mut other = Transaction::begin(&system);
    other.update("t", row(60, Some(60), "new", "")).unwrap();
    spoil(&system, 60);
    assert!(try_only_keys(&mut one, "by_tag", Direction::Forward).is_err());
    std::mem::forget((one, other));

    // Without undo having been looked at, nothing is taken at its word.
    system.unsettled.leave_out_some();
    let mut one = Transaction::begin(&system);
    assert!(try_only_keys(&mut one, "by_group", Direction::Backward).is_err());
}

#[test]
fn a_change_beside_the_indexes_leaves_their_entries_true() {
    let (_rig, system) = filled(52, 10);
    purge_all(&system);
    let mut other = Transaction::begin(&system);
    let group = format!("g{}", 3);
    other.update("t", row(3, Some(3), &group, "more")).unwrap();
    spoil(&system, 3);
    let mut one = Transaction::begin(&system);
    let keys = try_only_keys(&mut one, "by_tag", Direction::Forward).unwrap();
    assert_eq!(keys.len(), 10);
    std::mem::forget(other);
}

#[test]
fn old_views_and_own_changes_are_seen() {
    let (_rig, system) = filled(53, 40);
    purge_all(&system);
    let mut old = Transaction::begin(&system);
    assert_eq!(assert_same(&mut old), 40);
    let mut one = Transaction::begin(&system);
    for id in 0..20 {
        one.update("t", row(id, Some(1000 - id), "other", ""))
            .unwrap();
    }
    one.delete("t", &key(30)).unwrap();
    one.insert("t", row(41, None, "g1", "")).unwrap();
    assert_eq!(assert_same(&mut one), 40);
    assert_eq!(assert_same(&mut old), 40);
    let savepoint = one.savepoint().unwrap();
    one.delete("t", &key(31)).unwrap();
    assert_eq!(assert_same(&mut one), 39);
    one.rollback_to(savepoint).unwrap();
    one.commit().unwrap();
    purge_all(&system);
    let keys = try_only_keys(&mut old, "by_group", Direction::Forward).unwrap();
    assert!(keys.iter().all(|row| row[2] != "other".into()));
    assert_eq!(assert_same(&mut old), 40);
    let mut new = Transaction::begin(&system);
    assert_eq!(assert_same(&mut new), 40);
    drop((old, new));
    purge_all(&system);
    assert_eq!(assert_same(&mut Transaction::begin(&system)), 40);
}

#[test]
fn undo_of_before_an_opening_counts() {
    let (rig, system) = filled(54, 30);
    purge_all(&system);
    let mut one = Transaction::begin(&system);
    one.delete("t", &key(7)).unwrap();
    one.update("t", row(8, Some(108), "other", "")).unwrap();
    one.commit().unwrap();
    let mut lost = Transaction::begin(&system);
    lost.update("t", row(9, Some(109), "lost", "")).unwrap();
    let mut prepared = Transaction::begin(&system);
    prepared
        .update("t", row(10, Some(110), "late", ""))
        .unwrap();
    let schema = TableSchema {
        name: "loaded".to_owned(),
        ..schema()
    };
    let mut load = prepared.load(&schema).unwrap();
    for id in 0..5 {
        load.push(&prepared, row(id, None, "loaded", "")).unwrap();
    }
    load.finish(&prepared).unwrap();
    drop(load);
    let count = |transaction: &mut Transaction<'_, TestPages>| {
        let cursor = transaction.cursor("loaded", Some("by_group"), .., DIRECTIONS[0], None);
        let mut cursor = cursor.unwrap().only_keys();
        std::iter::from_fn(|| cursor.next(transaction).unwrap()).count()
    };
    assert_eq!(count(&mut prepared), 5);
    assert_eq!(count(&mut Transaction::begin(&system)), 0);
    prepared.prepare(b"xid").unwrap();
    std::mem::forget(lost);
    std::mem::forget(system);

    let system = rig.open();
    let mut one = Transaction::begin(&system);
    assert_eq!(assert_same(&mut one), 29);
    assert_eq!(count(&mut one), 0);
    system.commit_prepared(b"xid", Durability::Synced).unwrap();
    assert_eq!(assert_same(&mut one), 29);
    assert_eq!(count(&mut one), 0);
    drop(one);
    purge_all(&system);
    let mut one = Transaction::begin(&system);
    assert_eq!(assert_same(&mut one), 29);
    assert_eq!(count(&mut one), 5);
}

#[test]
fn a_cursor_turns_and_stays_what_it_is() {
    let (_rig, system) = filled(55, 30);
    purge_all(&system);
    let mut one = Transaction::begin(&system);
    let cursor = one.cursor("t", Some("by_tag"), .., Direction::Forward, None);
    let mut cursor = cursor.unwrap().only_keys();
    for id in 0..5 {
        let row = cursor.next(&mut one).unwrap();
        assert_eq!(row.unwrap()[0], id.into());
    }
    cursor.turn(&one, Direction::Backward);
    spoil(&system, 3);
    let row = cursor.next(&mut one).unwrap().unwrap();
    assert_eq!((&row[0], &row[2]), (&3.into(), &Value::Null));
}

/// Whoever reads an index in both ways sees the same, whatever others do and take away
/// meanwhile.
#[test]
fn both_ways_are_the_same_beside_changes() {
    const ROWS: i64 = 60;
    let (_rig, system) = filled(56, ROWS);
    let stop = AtomicBool::new(false);
    let read = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let (system, stop, read) = (&system, &stop, &read);
        let writers: Vec<_> = (0..2)
            .map(|thread| {
                scope.spawn(move || {
                    let mut random = Random(thread + 1);
                    for _ in 0..600 {
                        let mut one = Transaction::begin(system);
                        for _ in 0..1 + random.below(4) {
                            let id = random.below(ROWS as u64) as i64;
                            let group = format!("g{}", random.below(5));
                            // Tags are as unique as rows.
                            let tag = id * 8 + random.below(8) as i64;
                            let changed = match random.below(4) {
                                0 => one.delete("t", &key(id)).map(drop),
                                1 => one.insert("t", row(id, Some(tag), &group, "")),
                                _ => one.update("t", row(id, Some(tag), &group, "")).map(drop),
                            };
                            if matches!(changed, Err(Error::Lock(_))) {
                                break;
                            }
                        }
                        match random.below(4) {
                            0 => drop(one.rollback()),
                            _ => drop(one.commit()),
                        }
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let mut one = Transaction::begin(system);
                    for _ in 0..3 {
                        assert_same(&mut one);
                    }
                    read.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                system.purge(20).unwrap();
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(read.into_inner() > 0);
    purge_all(&system);
    let settled = entries(&system, 1).len();
    assert_eq!(assert_same(&mut Transaction::begin(&system)), settled);
    let table = system.catalog.table(&system.backing, "t").unwrap();
    for id in 0..ROWS {
        let key = table.primary_key(&key(id)).unwrap();
        assert!(system.unsettled.is_settled(table.id, &key), "{id}");
    }
}
