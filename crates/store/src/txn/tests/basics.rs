//! One thing after the other.

use super::*;
use crate::RowChange;
use crate::tree::Direction::{Backward, Forward};
use crate::txn::WhenLocked;
use crate::txn::locks::{LockError, LockMode};
use std::ops::Bound;

pub(super) fn filled(seed: u64) -> System<TestPages> {
    let system = Rig::new(small(seed)).open();
    system.create_table(&schema()).unwrap();
    let mut begin = Transaction::begin(&system);
    for id in 0..100 {
        let group = format!("g{}", id % 7);
        let row = row(id, Some(1000 - id), &group, "text");
        begin.insert("t", row).unwrap();
    }
    begin.commit().unwrap();
    system
}

#[test]
fn rows_come_back_as_they_were_put() {
    let system = filled(1);
    let mut one = Transaction::begin(&system);
    for id in 0..100 {
        let found = one.get("t", &key(id)).unwrap();
        let group = format!("g{}", id % 7);
        assert_eq!(found, Some(row(id, Some(1000 - id), &group, "text")));
    }
    assert_eq!(one.get("t", &key(100)).unwrap(), None);
    assert!(one.update("t", row(5, None, "other", "changed")).unwrap());
    assert!(!one.update("t", row(500, None, "", "")).unwrap());
    assert!(one.delete("t", &key(6)).unwrap());
    assert!(!one.delete("t", &key(6)).unwrap());
    assert_eq!(one.get("t", &key(6)).unwrap(), None);
    assert_eq!(
        one.get("t", &key(5)).unwrap(),
        Some(row(5, None, "other", "changed"))
    );
    assert_eq!(all(&mut one).len(), 99);
    one.commit().unwrap();
    assert_eq!(all(&mut Transaction::begin(&system)).len(), 99);
}

#[test]
fn rows_come_in_the_place_of_others() {
    let system = filled(1);
    let mut one = Transaction::begin(&system);
    let same = |id: i64| row(id, Some(1000 - id), &format!("g{}", id % 7), "text");
    assert!(
        one.update("t", row(5, None, "", &"long".repeat(1000)))
            .unwrap()
    );
    // The longest first, and what is of other types or of fewer columns.
    let mut place = vec![Value::Blob(vec![7; 99]), Value::Null];
    let lock = LockMode::Exclusive;
    for (id, expected) in [
        (5, row(5, None, "", &"long".repeat(1000))),
        (6, same(6)),
        (7, same(7)),
    ] {
        assert!(one.get_in("t", &key(id), &mut place).unwrap());
        assert_eq!(place, expected);
        let locked = one.lock_row_in("t", &key(id), lock, WhenLocked::Wait, &mut place);
        assert!(locked.unwrap());
        assert_eq!(place, expected);
    }
    assert!(one.delete("t", &key(6)).unwrap());
    for id in [6, 100] {
        assert!(!one.get_in("t", &key(id), &mut place).unwrap());
        let locked = one.lock_row_in("t", &key(id), lock, WhenLocked::Wait, &mut place);
        assert!(!locked.unwrap());
    }
}

#[test]
fn ranges_go_both_ways_in_the_order_of_any_index() {
    let system = filled(2);
    let mut one = Transaction::begin(&system);
    let ids = |rows: super::super::Rows<'_, '_, TestPages>| -> Vec<i64> {
        rows.map(|row| match row.unwrap()[0] {
            Value::Integer(id) => id,
            _ => panic!("an id"),
        })
        .collect()
    };
    let (from, to) = (key(10), key(13));
    let bounds = (Bound::Excluded(&from[..]), Bound::Included(&to[..]));
    assert_eq!(ids(one.range("t", bounds, Forward).unwrap()), [11, 12, 13]);
    assert_eq!(ids(one.range("t", bounds, Backward).unwrap()), [13, 12, 11]);
    let by_tag = one.range_by("t", "by_tag", .., Forward).unwrap();
    assert_eq!(ids(by_tag), (0..100).rev().collect::<Vec<_>>());
    let group: [Value; 1] = ["g3".into()];
    let bounds = (Bound::Included(&group[..]), Bound::Included(&group[..]));
    let expected: Vec<i64> = (0..100).filter(|id| id % 7 == 3).collect();
    assert_eq!(
        ids(one.range_by("t", "by_group", bounds, Forward).unwrap()),
        expected
    );
    let bounds = (Bound::Excluded(&group[..]), Bound::Unbounded);
    assert_eq!(
        ids(one.range_by("t", "by_group", bounds, Forward).unwrap()),
        [4, 5, 6]
            .into_iter()
            .flat_map(|rest| (0..100).filter(move |id| id % 7 == rest))
            .collect::<Vec<_>>()
    );
    let bounds = (Bound::Unbounded, Bound::Excluded(&group[..]));
    assert_eq!(
        ids(one.range_by("t", "by_group", bounds, Backward).unwrap()).len(),
        (0..100).filter(|id| id % 7 < 3).count()
    );
    let everything: (Bound<&[Value]>, _) = (Bound::Excluded(&[]), Bound::Unbounded);
    assert!(ids(one.range("t", everything, Forward).unwrap()).is_empty());
}

#[test]
fn the_rows_of_a_range_are_changed_together_or_not_at_all() {
    let system = filled(12);
    let (from, to) = (key(10), key(40));
    let bounds = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
    let change = |seen: Row| match seen[0] {
        Value::Integer(id) if id % 3 == 0 => RowChange::Delete,
        Value::Integer(id) if id % 3 == 1 => RowChange::Update(row(id, None, "new", "text")),
        _ => RowChange::Keep,
    };
    let mut one = Transaction::begin(&system);
    let before = all(&mut one);
    // A change of its own before it, which stays when the range fails.
    assert!(one.delete("t", &key(99)).unwrap());
    let mut left = 20;
    let failed = one.change_range("t", bounds, |seen| {
        left -= 1;
        match left {
            0 => RowChange::Update(row(1000, None, "", "")),
            _ => change(seen),
        }
    });
    assert!(matches!(failed, Err(Error::KeyChanged { table }) if table == "t"));
    assert_eq!(all(&mut one), before[..99]);
    assert_eq!(one.change_range("t", bounds, change).unwrap(), 20);
    let expected: Vec<Row> = before[..99]
        .iter()
        .filter_map(|seen| match (&seen[0], change(seen.clone())) {
            (Value::Integer(10..40), RowChange::Update(new)) => Some(new),
            (Value::Integer(10..40), RowChange::Delete) => None,
            _ => Some(seen.clone()),
        })
        .collect();
    assert_eq!(all(&mut one), expected);
    one.commit().unwrap();
    assert_eq!(all(&mut Transaction::begin(&system)), expected);
    // By its index too: entries go with their rows.
    let mut one = Transaction::begin(&system);
    let by_tag = one.range_by("t", "by_tag", .., Forward).unwrap();
    assert_eq!(by_tag.count(), expected.len());
    // Who was first has changed it.
    let (mut two, mut three) = (Transaction::begin(&system), Transaction::begin(&system));
    assert!(two.get("t", &key(11)).unwrap().is_some());
    assert!(three.update("t", row(11, None, "x", "x")).unwrap());
    three.commit().unwrap();
    let refused = two.change_range("t", bounds, |_| RowChange::Delete);
    assert!(matches!(refused, Err(Error::WriteConflict { .. })));
    assert_eq!(all(&mut two), expected);
}

/// Of many leaves and undo pages, some of which are split on the way, as rows
/// grow, and some merged, as they go.
#[test]
fn a_range_over_many_leaves_is_changed_as_one() {
    for indexed in [false, true] {
        let rig = Rig::new(small(14));
        let system = rig.open();
        let mut schema = schema();
        if !indexed {
            schema.indexes.clear();
        }
        system.create_table(&schema).unwrap();
        let mut one = Transaction::begin(&system);
        for id in 0..700 {
            one.insert("t", row(id, Some(id), "g", "short")).unwrap();
        }
        one.commit().unwrap();
        let number = |seen: &Row| match seen[0] {
            Value::Integer(id) => id,
            _ => panic!("an id"),
        };
        // Most stay as long as they are, some grow, a few beyond a page.
        let grow = |seen: Row| {
            let id = number(&seen);
            let text = match id {
                _ if id % 97 == 5 => "long".repeat(3000),
                200..300 => "more".repeat(100),
                _ => "other".to_owned(),
            };
            RowChange::Update(row(id, Some(id + 1000), "h", &text))
        };
        let shrink = |seen: Row| match number(&seen) {
            id if id % 9 == 0 => RowChange::Update(row(id, None, "i", "")),
            _ => RowChange::Delete,
        };
        let mut old = Transaction::begin(&system);
        let before = all(&mut old);
        let after = |rows: &[Row], change: &dyn Fn(Row) -> RowChange| -> Vec<Row> {
            let changed = rows.iter().filter_map(|seen| match change(seen.clone()) {
                RowChange::Update(row) => Some(row),
                RowChange::Delete => None,
                RowChange::Keep => Some(seen.clone()),
            });
            changed.collect()
        };
        let grown = after(&before, &grow);
        let shrunk = after(&grown, &shrink);
        let mut two = Transaction::begin(&system);
        // What fails in its midst, or with its last row, leaves no trace.
        for last in [1, 350, 699] {
            let failed = two.change_range("t", .., |seen| match number(&seen) {
                id if id == last => RowChange::Update(row(-1, None, "", "")),
                _ => grow(seen),
            });
            assert!(matches!(failed, Err(Error::KeyChanged { .. })));
            assert_eq!(all(&mut two), before);
        }
        assert_eq!(two.change_range("t", .., grow).unwrap(), 700);
        assert_eq!(all(&mut two), grown);
        let savepoint = two.savepoint().unwrap();
        assert_eq!(two.change_range("t", .., shrink).unwrap(), 700);
        assert_eq!(all(&mut two), shrunk);
        two.rollback_to(savepoint).unwrap();
        assert_eq!(all(&mut two), grown);
        assert_eq!(two.change_range("t", .., shrink).unwrap(), 700);
        assert_eq!(all(&mut old), before);
        two.rollback().unwrap();
        assert_eq!(all(&mut Transaction::begin(&system)), before);
        assert_clean(&system);
        let mut three = Transaction::begin(&system);
        assert_eq!(three.change_range("t", .., grow).unwrap(), 700);
        three.commit().unwrap();
        let mut four = Transaction::begin(&system);
        assert_eq!(four.change_range("t", .., shrink).unwrap(), 700);
        // Never ended: rolled back by who opens the store next.
        std::mem::forget(four);
        assert_eq!(all(&mut old), before);
        let reopened = rig.open();
        assert_eq!(all(&mut Transaction::begin(&reopened)), grown);
        purge_all(&reopened);
        assert_eq!(all(&mut Transaction::begin(&reopened)), grown);
    }
}

#[test]
fn each_mistake_has_its_error() {
    let system = filled(3);
    let mut one = Transaction::begin(&system);
    let error = |result: Result<(), Error>| result.unwrap_err().to_string();
    assert_eq!(
        error(one.insert("t", row(1, None, "", ""))),
        "table t: there is a row with the same primary key"
    );
    assert_eq!(
        error(one.insert("t", row(200, Some(999), "", ""))),
        "table t: there is a row with the same by_tag"
    );
    assert_eq!(
        error(one.update("t", row(2, Some(999), "", "")).map(drop)),
        "table t: there is a row with the same by_tag"
    );
    assert_eq!(error(one.insert("u", vec![])), "there is no table \"u\"");
    assert_eq!(
        error(one.insert("t", vec![])),
        "a row of 0 values for 4 columns"
    );
    assert_eq!(
        error(one.get("t", &["x".into()]).map(drop)),
        "column \"id\" holds integer, the value is text"
    );
    assert_eq!(
        error(one.get("t", &[]).map(drop)),
        "primary key: 0 values, it has 1 columns"
    );
    assert_eq!(
        error(one.range_by("t", "by_x", .., Forward).map(drop)),
        "table t has no index \"by_x\""
    );
    assert_eq!(
        error(one.insert("t", row(300, None, &"g".repeat(800), ""))),
        "table t: entry in index by_group of 812 bytes, at most 768 are possible"
    );
    // None of these has left anything.
    one.commit().unwrap();
    assert_eq!(all(&mut Transaction::begin(&system)).len(), 100);
    assert_eq!(entries(&system, 0).len(), 100);
    assert_eq!(
        error(system.create_table(&schema())),
        "there is already a table \"t\""
    );
}

#[test]
fn a_snapshot_stays_as_it_is() {
    let system = filled(4);
    let mut reader = Transaction::begin(&system);
    let before = all(&mut reader);
    for round in 0..5 {
        let mut writer = Transaction::begin(&system);
        for id in 0..100 {
            if id % 3 == round % 3 {
                writer.delete("t", &key(id)).unwrap();
            } else {
                let text = format!("round {round}");
                let new = row(id, Some(id + 1000 * round), "new", &text);
                if !writer.update("t", new.clone()).unwrap() {
                    writer.insert("t", new).unwrap();
                }
            }
        }
        // Not even while it is not committed.
        assert_eq!(all(&mut reader), before);
        writer.commit().unwrap();
        purge_all(&system);
        assert_eq!(all(&mut reader), before);
        let by_tag = reader.range_by("t", "by_tag", .., Backward).unwrap();
        assert_eq!(by_tag.map(Result::unwrap).collect::<Vec<_>>(), before);
    }
}

#[test]
fn the_first_updater_wins() {
    let system = filled(5);
    let mut one = Transaction::begin(&system);
    let mut other = Transaction::begin(&system);
    assert!(other.get("t", &key(50)).unwrap().is_some());
    assert!(one.update("t", row(1, None, "one", "")).unwrap());
    one.commit().unwrap();
    let refused = other.update("t", row(1, None, "other", ""));
    assert!(matches!(refused, Err(Error::WriteConflict { .. })));
    let refused = other.delete("t", &key(1));
    assert!(matches!(refused, Err(Error::WriteConflict { .. })));
    // The rest of it can be committed.
    assert!(other.update("t", row(2, None, "other", "")).unwrap());
    other.commit().unwrap();
    let mut last = Transaction::begin(&system);
    let group = |row: Option<Row>| row.unwrap()[2].clone();
    assert_eq!(group(last.get("t", &key(1)).unwrap()), "one".into());
    assert_eq!(group(last.get("t", &key(2)).unwrap()), "other".into());
}

#[test]
fn rollback_and_savepoints_leave_nothing_of_what_they_undo() {
    let system = filled(6);
    let (before, entries_before) = (
        all(&mut Transaction::begin(&system)),
        [entries(&system, 0), entries(&system, 1)],
    );
    let pages_before = pages_of_table(&system);
    let mut one = Transaction::begin(&system);
    let long = "long ".repeat(10_000);
    one.insert("t", row(500, Some(5000), "new", &long)).unwrap();
    let savepoint = one.savepoint().unwrap();
    let later = one.savepoint().unwrap();
    for id in 0..100 {
        one.update("t", row(id, Some(id), "changed", &long[..3000]))
            .unwrap();
        one.delete("t", &key(id)).unwrap();
        one.insert("t", row(id, Some(id), "back", "")).unwrap();
    }
    one.rollback_to(savepoint).unwrap();
    assert_eq!(all(&mut one).len(), 101);
    assert_eq!(all(&mut one)[..100], before);
    assert!(matches!(
        one.rollback_to(later),
        Err(Error::UnknownSavepoint)
    ));
    one.update("t", row(7, None, "after", "")).unwrap();
    one.rollback_to(savepoint).unwrap();
    let own = one.get("t", &key(500)).unwrap();
    assert_eq!(own, Some(row(500, Some(5000), "new", &long)));
    one.rollback().unwrap();

    assert_eq!(all(&mut Transaction::begin(&system)), before);
    assert_eq!([entries(&system, 0), entries(&system, 1)], entries_before);
    assert_eq!(system.locks.held(), 0);
    assert_eq!(pages_of_table(&system)[2], pages_before[2]);
    purge_all(&system);
    assert_eq!(all(&mut Transaction::begin(&system)), before);
}

/// The undo pages of the version before may be used again for the one that is
/// undone: then both have the same pointer.
#[test]
fn an_undo_record_in_an_older_ones_place_is_not_that_one() {
    let system = filled(8);
    purge_all(&system);
    let table = system.catalog.table(&system.backing, "t").unwrap();
    let encoded = table.primary_key(&key(5)).unwrap();
    let roll = || system.newest(&table, &encoded).unwrap().unwrap().roll;
    let before = entries(&system, 1);
    let mut same_places = 0;
    for length in 0..100 {
        // Moves the places of the records behind it by a byte.
        let mut one = Transaction::begin(&system);
        let text = "x".repeat(length);
        one.update("t", row(6, Some(994), "g6", &text)).unwrap();
        one.update("t", row(5, Some(995), "g5", "more")).unwrap();
        one.commit().unwrap();
        let older = roll();
        purge_all(&system);

        // The first goes on in that page, which is free behind it.
        for _ in 0..2 {
            let mut one = Transaction::begin(&system);
            let savepoint = one.savepoint().unwrap();
            for _ in 0..200 {
                one.update("t", row(5, Some(995), "g5", "")).unwrap();
                same_places += usize::from(roll() == older);
                one.rollback_to(savepoint).unwrap();
            }
            one.rollback().unwrap();
            purge_all(&system);
        }
    }
    assert!(same_places > 0, "no record came to lie there");
    assert_eq!(entries(&system, 1), before);
}

#[test]
fn purge_looks_at_a_row_only_where_an_index_entry_may_go() {
    for (changed, looks) in [
        (row(7, Some(7), "group", "changed"), false),
        (row(7, Some(7), "changed", "text"), true),
        (row(7, None, "group", "text"), true),
    ] {
        let options = MemoryOptions {
            miss_one_in: 0,
            ..small(1)
        };
        let system = Rig::new(options).open();
        system.create_table(&schema()).unwrap();
        let mut one = Transaction::begin(&system);
        for id in 0..40 {
            one.insert("t", row(id, Some(id), "group", "text")).unwrap();
        }
        one.commit().unwrap();
        purge_all(&system);
        let mut one = Transaction::begin(&system);
        assert!(one.update("t", changed).unwrap());
        one.commit().unwrap();
        let root = system
            .catalog
            .table(&system.backing, "t")
            .unwrap()
            .rows
            .root;
        system.backing.pages.make_unreadable(root.page);
        assert_eq!(system.purge(10).is_err(), looks);
    }
}

#[test]
fn purge_lets_others_in_after_a_record() {
    let rig = Rig::new(small(11));
    let system = rig.open();
    system.create_table(&schema()).unwrap();
    for id in 0..5 {
        let mut one = Transaction::begin(&system);
        one.insert("t", row(id, None, "group", "text")).unwrap();
        one.insert("t", row(id + 10, None, "group", "text"))
            .unwrap();
        one.commit().unwrap();
    }
    let running = system.purge.running.lock();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| drop(system.purge.keep_out()));
        while !system.purge.is_wanted() {
            std::thread::yield_now();
        }
        for _ in 0..4 {
            assert_eq!(system.purge_held(&running, 1000).unwrap(), 1);
        }
        drop(running);
        other.join().unwrap();
    });
    assert!(!system.purge.is_wanted());
    // Two changes and an end each, without the four.
    assert_eq!(system.purge(1000).unwrap(), 11);
}

#[test]
fn purge_leaves_nothing_behind() {
    let system = filled(7);
    let pages_before = pages_of_table(&system);
    let undo =
        |system: &System<TestPages>| system.backing.segment_pages(system.slots.segment()).len();
    for round in 0..3 {
        let long = format!("{round} long ").repeat(3000);
        for id in 100..400 {
            let mut one = Transaction::begin(&system);
            one.insert("t", row(id, Some(id), "more", &long[..(id as usize) * 10]))
                .unwrap();
            one.commit().unwrap();
        }
        let mut one = Transaction::begin(&system);
        for id in 100..400 {
            one.update("t", row(id, Some(-id), "other", &long)).unwrap();
        }
        one.commit().unwrap();
        let mut one = Transaction::begin(&system);
        for id in 100..400 {
            one.delete("t", &key(id)).unwrap();
        }
        one.commit().unwrap();
        assert!(undo(&system) > 20);
        let purged = system.purge(50).unwrap();
        assert!((50..60).contains(&purged), "{purged}");
        purge_all(&system);
        assert_eq!(system.purge.waiting(), 0);
        // Header and one page of the one slot that was in use.
        assert_eq!(undo(&system), 2);
        assert_eq!(entries(&system, 0).len(), 100);
        assert_eq!(entries(&system, 1).len(), 100);
        assert_eq!(pages_of_table(&system), pages_before);
    }
}

#[test]
fn a_deadlock_rolls_its_last_link_back() {
    let system = filled(8);
    let mut one = Transaction::begin(&system);
    one.update("t", row(1, None, "one", "")).unwrap();
    let barrier = std::sync::Barrier::new(2);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            let mut other = Transaction::begin(&system);
            other.update("t", row(2, None, "other", "")).unwrap();
            barrier.wait();
            let refused = other.update("t", row(1, None, "other", ""));
            let ended = matches!(refused, Err(Error::Lock(LockError::Deadlock { .. })));
            if ended {
                assert!(matches!(other.get("t", &key(1)), Err(Error::Ended)));
            }
            (ended, refused.is_ok())
        });
        barrier.wait();
        let mine = one.update("t", row(2, None, "one", ""));
        let mine_refused = matches!(mine, Err(Error::Lock(LockError::Deadlock { .. })));
        drop(one);
        let (other_refused, _) = other.join().unwrap();
        assert!(mine_refused ^ other_refused);
    });
    assert_eq!(system.views.active(), 0);
    assert_eq!(system.views.open_count(), 0);
}

#[test]
fn waiting_ends() {
    let rig = Rig::new(small(9));
    let (system, _) = rig.open_with(SystemOptions {
        lock_timeout: Duration::from_millis(20),
        undo_slots: 2,
        ..options()
    });
    system.create_table(&schema()).unwrap();
    let mut one = Transaction::begin(&system);
    one.insert("t", row(1, None, "", "")).unwrap();
    let mut other = Transaction::begin(&system);
    let refused = other.insert("t", row(1, None, "", ""));
    assert!(matches!(refused, Err(Error::Lock(LockError::Timeout(_)))));
    let mut third = Transaction::begin(&system);
    let refused = third.insert("t", row(2, None, "", ""));
    assert!(matches!(
        refused,
        Err(Error::TooManyWriters { slots: 2, .. })
    ));
    one.rollback().unwrap();
    other.insert("t", row(1, None, "", "")).unwrap();
    third.insert("t", row(2, None, "", "")).unwrap();
}

#[test]
fn tables_come_and_go() {
    let system = filled(10);
    let mut one = Transaction::begin(&system);
    assert_eq!(all(&mut one).len(), 100);
    let refused = system.drop_table("t").unwrap_err();
    assert_eq!(
        refused.to_string(),
        "table \"t\" is in use: end the transactions that have read or changed it first"
    );
    drop(one);
    system.drop_table("t").unwrap();
    let gone = system.drop_table("t").unwrap_err();
    assert_eq!(gone.to_string(), "there is no table \"t\"");
    system.create_table(&schema()).unwrap();
    assert_eq!(all(&mut Transaction::begin(&system)).len(), 0);
    purge_all(&system);
}

/// Whoever purges looks at versions of others, whose long values may go while
/// it reads them.
#[test]
fn purge_beside_who_rolls_long_values_back() {
    let system = Rig::new(small(1)).open();
    system.create_table(&schema()).unwrap();
    let mut one = Transaction::begin(&system);
    one.insert("t", row(1, None, "", "")).unwrap();
    one.commit().unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for tag in 0..1500 {
                let mut one = Transaction::begin(&system);
                assert!(one.update("t", row(1, Some(tag), "", "")).unwrap());
                one.commit().unwrap();
                let mut one = Transaction::begin(&system);
                // Of many lengths: their pages are soon those of another one.
                let length = 5000 + tag * 977 % 12_000;
                let long = row(1, Some(tag + 1), "", &"x".repeat(length as usize));
                assert!(one.update("t", long).unwrap());
                one.rollback().unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
        while !done.load(Ordering::Relaxed) {
            system.purge(10).unwrap();
        }
    });
    purge_all(&system);
    assert_eq!(entries(&system, 0).len(), 1);
}
