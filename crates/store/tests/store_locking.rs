//! What a server needs of transactions: levels of isolation, locking reads, ranges
//! by bytes.

mod locking;
mod simulated;

use iolane::Arena;
use iolane_store::data::{ColumnType, Row, TableSchema, Value};
use iolane_store::{
    Direction, Error, Isolation, LockError, LockMode, RowChange, Store, Transaction,
    TransactionOptions, WhenLocked,
};
use locking::*;
use simulated::*;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

fn schema() -> TableSchema {
    TableSchema::new("t")
        .column("id", ColumnType::Integer)
        .column("group", ColumnType::Integer)
        .column("count", ColumnType::Integer)
        .primary_key(["id"])
        .index("by_group", ["group"])
}

fn row(id: i64, count: i64) -> Row {
    vec![id.into(), (id % 2).into(), count.into()]
}

fn filled(arena: &Arena) -> Store {
    let store = with_table(arena, &schema());
    let mut transaction = store.begin();
    for id in 0..6 {
        transaction.insert("t", row(id, 0)).unwrap();
    }
    transaction.commit().unwrap();
    store
}

fn set(store: &Store, id: i64, count: i64) {
    let mut other = store.begin();
    assert!(other.update("t", row(id, count)).unwrap());
    other.commit().unwrap();
}

fn get(transaction: &mut Transaction<'_>, id: i64) -> Option<Row> {
    transaction.get("t", &[id.into()]).unwrap()
}

#[test]
fn each_level_sees_what_its_users_expect() {
    let arena = arena();
    let store = filled(&arena);
    for (isolation, sees) in [
        (Isolation::Snapshot, 0),
        (Isolation::RepeatableRead, 0),
        (Isolation::ReadCommitted, 5),
    ] {
        set(&store, 1, 0);
        let mut one = begin(&store, isolation);
        assert_eq!(get(&mut one, 1), Some(row(1, 0)));
        set(&store, 1, 5);
        // Within a statement nothing changes.
        assert_eq!(get(&mut one, 1), Some(row(1, 0)));
        one.begin_statement().unwrap();
        assert_eq!(get(&mut one, 1), Some(row(1, sees)), "{isolation:?}");
        // A change is of the newest version, or refused.
        let changed = one.change_many("t", &[[1.into()]], |mut row| {
            let Value::Integer(count) = row[2] else {
                panic!("a count")
            };
            row[2] = (count + 1).into();
            RowChange::Update(row)
        });
        match isolation {
            Isolation::Snapshot => {
                assert!(matches!(changed, Err(Error::WriteConflict { .. })));
                continue;
            }
            _ => assert_eq!(changed.unwrap(), 1),
        }
        // Its own changes it sees, whatever its view is.
        assert_eq!(get(&mut one, 1), Some(row(1, 6)));
        one.commit().unwrap();
        let mut after = store.begin();
        assert_eq!(get(&mut after, 1), Some(row(1, 6)));
    }
}

#[test]
fn a_view_is_opened_when_it_is_asked_for() {
    let arena = arena();
    let store = filled(&arena);
    let mut one = begin(&store, Isolation::RepeatableRead);
    one.open_view().unwrap();
    set(&store, 2, 9);
    assert_eq!(get(&mut one, 2), Some(row(2, 0)));
}

/// No update is lost between threads that read, think and write.
#[test]
fn what_is_read_for_update_is_not_changed_by_others() {
    let arena = arena();
    let store = filled(&arena);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = &store;
            scope.spawn(move || {
                let isolation = [Isolation::RepeatableRead, Isolation::ReadCommitted][thread % 2];
                for _ in 0..50 {
                    let mut options = TransactionOptions::default();
                    options.isolation = isolation;
                    let mut one = store.begin_with(&options);
                    // Its view is older than others' commits.
                    one.open_view().unwrap();
                    let (mode, when) = (LockMode::Exclusive, WhenLocked::Wait);
                    let found = one.lock_row("t", &[3.into()], mode, when);
                    let mut found = found.unwrap().unwrap();
                    let Value::Integer(count) = found[2] else {
                        panic!("a count")
                    };
                    found[2] = (count + 1).into();
                    assert!(one.update("t", found).unwrap());
                    one.commit().unwrap();
                }
            });
        }
    });
    assert_eq!(get(&mut store.begin(), 3), Some(row(3, 200)));
}

#[test]
fn locked_rows_are_waited_for_skipped_or_refused() {
    let arena = arena();
    let store = filled(&arena);
    let mut holder = begin(&store, Isolation::ReadCommitted);
    let exclusive = LockMode::Exclusive;
    for id in [2, 3] {
        let (key, when) = ([id.into()], WhenLocked::Wait);
        holder
            .lock_row("t", &key, exclusive, when)
            .unwrap()
            .unwrap();
    }
    let mut other = begin(&store, Isolation::ReadCommitted);
    let skipping = other
        .lock_range("t", .., Direction::Forward, exclusive, WhenLocked::Skip)
        .unwrap();
    assert_eq!(ids(skipping), [0, 1, 4, 5].map(Value::from));
    let backwards = other
        .lock_range_by(
            "t",
            "by_group",
            ..,
            Direction::Backward,
            exclusive,
            WhenLocked::Skip,
        )
        .unwrap();
    assert_eq!(ids(backwards), [5, 1, 4, 0].map(Value::from));
    let mut refusing = other
        .lock_range("t", .., Direction::Forward, exclusive, WhenLocked::Refuse)
        .unwrap();
    let first: Vec<_> = refusing.by_ref().take(3).collect();
    assert!(first[0].is_ok() && first[1].is_ok());
    assert!(matches!(first[2], Err(Error::Lock(LockError::Busy))));
    assert!(refusing.next().is_none());
    let key = [2.into()];
    let waited = other.lock_row("t", &key, exclusive, WhenLocked::Wait);
    assert!(matches!(waited, Err(Error::Lock(LockError::Timeout(_)))));
    // It can go on, and others can once it has ended.
    assert!(other.update("t", row(5, 1)).unwrap());
    other.commit().unwrap();
    holder.rollback().unwrap();
    let mut next = begin(&store, Isolation::ReadCommitted);
    let refused = next.lock_range("t", .., Direction::Forward, exclusive, WhenLocked::Refuse);
    assert_eq!(ids(refused.unwrap()).len(), 6);
}

#[test]
fn readers_share_a_lock_and_writers_do_not() {
    let arena = arena();
    let store = filled(&arena);
    let share = |transaction: &mut Transaction<'_>| {
        let (key, when) = ([1.into()], WhenLocked::Refuse);
        transaction.lock_row("t", &key, LockMode::Shared, when)
    };
    let mut one = begin(&store, Isolation::RepeatableRead);
    let mut two = begin(&store, Isolation::RepeatableRead);
    assert!(share(&mut one).unwrap().is_some() && share(&mut two).unwrap().is_some());
    let refused = one.update("t", row(1, 1));
    assert!(matches!(refused, Err(Error::Lock(LockError::Timeout(_)))));
    two.commit().unwrap();
    assert!(one.update("t", row(1, 1)).unwrap());
}

/// A row that another one inserts or deletes is there or not when that has ended.
#[test]
fn a_locking_read_is_of_what_is_there_then() {
    let arena = arena();
    let store = filled(&arena);
    let (mode, when) = (LockMode::Exclusive, WhenLocked::Wait);
    for commits in [true, false] {
        let mut other = store.begin();
        other.insert("t", row(7, 0)).unwrap();
        assert!(other.delete("t", &[4.into()]).unwrap());
        let mut options = TransactionOptions::default();
        options.isolation = Isolation::RepeatableRead;
        let found = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut one = store.begin_with(&options);
                one.open_view().unwrap();
                let rows = one.lock_range("t", .., Direction::Forward, mode, when);
                ids(rows.unwrap())
            });
            while store.statistics().locks < 5 {
                std::thread::yield_now();
            }
            match commits {
                true => other.commit().unwrap(),
                false => other.rollback().unwrap(),
            }
            reader.join().unwrap()
        });
        let expected: Vec<Value> = match commits {
            true => [0, 1, 2, 3, 5, 7].map(Value::from).to_vec(),
            false => [0, 1, 2, 3, 4, 5].map(Value::from).to_vec(),
        };
        assert_eq!(found, expected);
        if commits {
            let mut back = store.begin();
            assert!(back.delete("t", &[7.into()]).unwrap());
            back.insert("t", row(4, 0)).unwrap();
            back.commit().unwrap();
        }
    }
}

/// Keys of bytes of any length, against a set of them.
#[test]
fn ranges_by_bytes_are_those_of_a_set() {
    let seed = setting("IOLANE_TEST_SEED", 20_261_128);
    println!("IOLANE_TEST_SEED={seed}");
    let mut random = Random(seed);
    let arena = arena();
    let schema = TableSchema::new("t")
        .column("key", ColumnType::Blob)
        .column("other", ColumnType::Blob)
        .column("number", ColumnType::Integer)
        .primary_key(["key"])
        .index("by_other", ["number", "other"]);
    let store = with_table(&arena, &schema);
    // Few different bytes, those that are encoded in another way among them.
    let mut bytes = |length: u64| -> Vec<u8> {
        let letters = [0, 1, 2, 0x7f, 0xfe, 0xff];
        let length = random.below(length + 1);
        let one = |_| letters[random.below(letters.len() as u64) as usize];
        (0..length).map(one).collect()
    };
    let mut keys = BTreeSet::new();
    let mut transaction = store.begin();
    for number in 0..400 {
        let key = bytes(6);
        let row = vec![
            Value::Blob(key.clone()),
            Value::Blob(key.clone()),
            (number % 2).into(),
        ];
        match transaction.insert("t", row) {
            Ok(()) => assert!(keys.insert(key)),
            Err(Error::Duplicate { .. }) => assert!(keys.contains(&key)),
            Err(error) => panic!("{error}"),
        }
    }
    transaction.commit().unwrap();
    let mut reader = store.begin();
    let found = |rows: &mut dyn Iterator<Item = Result<Row, Error>>| -> Vec<Vec<u8>> {
        let keys = rows.map(|row| match row.unwrap().swap_remove(0) {
            Value::Blob(key) => key,
            other => panic!("{other:?}"),
        });
        keys.collect()
    };
    for _ in 0..300 {
        let prefix = bytes(3);
        let mut expected: Vec<Vec<u8>> = keys
            .iter()
            .filter(|key| key.starts_with(&prefix))
            .cloned()
            .collect();
        let value = Value::Blob(prefix.clone());
        for direction in [Direction::Forward, Direction::Backward] {
            let values = std::slice::from_ref(&value);
            let mut rows = reader.range_prefix("t", values, direction).unwrap();
            assert_eq!(found(&mut rows), expected, "{prefix:?}");
            drop(rows);
            let mut by_index = Vec::new();
            for number in [1, 0] {
                let values = [number.into(), value.clone()];
                let rows = reader.range_by_prefix("t", "by_other", &values, direction);
                by_index.extend(found(&mut rows.unwrap()));
            }
            by_index.sort();
            let mut sorted = expected.clone();
            sorted.sort();
            assert_eq!(by_index, sorted);
            expected.reverse();
        }
        let (low, high) = (bytes(4), bytes(4));
        if low >= high {
            continue;
        }
        let expected: Vec<Vec<u8>> = keys
            .range((Bound::Excluded(low.clone()), Bound::Included(high.clone())))
            .cloned()
            .collect();
        let (low, high) = ([Value::Blob(low)], [Value::Blob(high)]);
        let bounds = (Bound::Excluded(&low[..]), Bound::Included(&high[..]));
        let mut rows = reader.range("t", bounds, Direction::Forward).unwrap();
        assert_eq!(found(&mut rows), expected);
    }
}

/// Whose two transactions of a test are.
const FIRST: u64 = 11;
const SECOND: u64 = 12;
/// Longer than a test takes.
const LONG: Duration = Duration::from_secs(600);

fn owned(store: &Store, owner: u64) -> Transaction<'_> {
    let mut options = TransactionOptions::default();
    options.isolation = Isolation::ReadCommitted;
    options.lock_timeout = Some(LONG);
    let mut transaction = store.begin_with(&options);
    transaction.set_owner(owner);
    transaction
}

#[test]
fn a_wait_is_told_of_and_can_be_ended() {
    let arena = arena();
    let store = filled(&arena);
    let told: &'static Mutex<Vec<(u64, u64)>> = Box::leak(Box::default());
    store.observe_waits(move |waiter, blocker| {
        told.lock().unwrap().push((waiter, blocker));
        // Nobody waits for one that is nobody's.
        blocker != 0
    });
    let begun = Instant::now();
    let mut first = owned(&store, FIRST);
    assert!(first.update("t", row(1, 1)).unwrap());
    assert!(!store.cancel_wait(SECOND));
    let mut second = owned(&store, SECOND);
    thread::scope(|scope| {
        let ended = scope.spawn(|| second.update("t", row(1, 2)));
        while !store.cancel_wait(SECOND) {
            thread::yield_now();
        }
        let error = ended.join().unwrap().unwrap_err();
        assert!(
            matches!(error, Error::Lock(LockError::Cancelled)),
            "{error}"
        );
    });
    assert_eq!(*told.lock().unwrap(), [(SECOND, FIRST)]);
    // It goes on, and waits again.
    assert!(second.update("t", row(2, 2)).unwrap());
    thread::scope(|scope| {
        let waits = scope.spawn(|| {
            let updated = second.update("t", row(1, 2));
            (second, updated)
        });
        while told.lock().unwrap().len() < 2 {
            thread::yield_now();
        }
        first.commit().unwrap();
        let (second, updated) = waits.join().unwrap();
        assert!(updated.unwrap());
        second.commit().unwrap();
    });
    // Who is prepared is still its owner's.
    let mut first = owned(&store, FIRST);
    assert!(first.update("t", row(1, 3)).unwrap());
    first.prepare(b"one").unwrap();
    let mut second = owned(&store, SECOND);
    thread::scope(|scope| {
        let ended = scope.spawn(|| second.update("t", row(1, 4)).unwrap_err());
        while !store.cancel_wait(SECOND) {
            thread::yield_now();
        }
        ended.join().unwrap();
    });
    assert_eq!(told.lock().unwrap().last(), Some(&(SECOND, FIRST)));
    store.rollback_prepared(b"one").unwrap();
    // The observer does not let it wait.
    let mut nobodys = begin(&store, Isolation::ReadCommitted);
    assert!(nobodys.update("t", row(3, 1)).unwrap());
    let error = second.update("t", row(3, 2)).unwrap_err();
    assert!(
        matches!(error, Error::Lock(LockError::Cancelled)),
        "{error}"
    );
    assert_eq!(told.lock().unwrap().last(), Some(&(SECOND, 0)));
    assert!(begun.elapsed() < LONG);
}

#[test]
fn the_last_deadlock_is_told() {
    let arena = arena();
    let store = filled(&arena);
    assert!(store.last_deadlock().is_none());
    let mut first = owned(&store, FIRST);
    let mut second = owned(&store, SECOND);
    assert!(first.update("t", row(1, 1)).unwrap());
    assert!(second.update("t", row(2, 1)).unwrap());
    thread::scope(|scope| {
        let waits = scope.spawn(|| first.update("t", row(2, 2)));
        // The first must wait before, or it would be the victim.
        while store.statistics().locks < 3 {
            thread::yield_now();
        }
        thread::sleep(Duration::from_millis(50));
        let error = second.update("t", row(1, 2));
        let other = waits.join().unwrap();
        let errors = [error.err(), other.err()];
        let deadlocks = errors.iter().flatten();
        assert_eq!(deadlocks.count(), 1, "{errors:?}");
    });
    let report = store.last_deadlock().unwrap();
    let index = report.index.as_ref().unwrap();
    assert_eq!((index.table.as_str(), &index.index), ("t", &None));
    let mut owners = [report.victim.owner, report.others[0].owner];
    owners.sort();
    assert_eq!(owners, [FIRST, SECOND]);
    assert_eq!(report.others.len(), 1);
    let text = report.to_string();
    assert!(text.contains("wanted exclusive key"), "{text}");
}
