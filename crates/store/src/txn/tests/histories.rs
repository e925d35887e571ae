//! Transactions of many threads, whose histories must be those of snapshots.

use super::*;
use crate::tree::Direction;
use std::sync::atomic::AtomicBool;

const ACCOUNTS: i64 = 12;
const TOTAL: i64 = 1000 * ACCOUNTS;

fn account(id: i64, balance: i64, writer: &str) -> Row {
    row(id, None, writer, &balance.to_string())
}

fn balance(row: &Row) -> i64 {
    match &row[3] {
        Value::Text(text) => text.trim_end().parse().unwrap(),
        _ => panic!("a balance"),
    }
}

fn bank(seed: u64) -> System<TestPages> {
    let rig = Rig::new(MemoryOptions {
        miss_one_in: 100,
        ..small(seed)
    });
    let (system, _) = rig.open_with(options());
    system.create_table(&schema()).unwrap();
    let mut one = Transaction::begin(&system);
    for id in 0..ACCOUNTS {
        one.insert("t", account(id, 1000, "first")).unwrap();
    }
    one.commit().unwrap();
    system
}

/// Whether an error is one that a transaction may meet beside others.
fn is_due(error: &Error) -> bool {
    matches!(error, Error::WriteConflict { .. } | Error::Lock(_))
}

/// Moves money from one account to another, in one transaction.
fn transfer(system: &System<TestPages>, from: i64, to: i64, padding: usize) -> Result<(), Error> {
    let mut one = Transaction::begin(system);
    let first = balance(&one.get("t", &key(from))?.unwrap());
    let second = balance(&one.get("t", &key(to))?.unwrap());
    let text = |balance: i64| format!("{balance}{}", " ".repeat(padding));
    let name = format!("{from}->{to}");
    one.update("t", row(from, None, &name, &text(first - 1)))?;
    one.update("t", row(to, None, &name, &text(second + 1)))?;
    one.commit()
}

/// Money is neither made nor lost: no update is lost, no read is fractured, and
/// a view stays as it is.
#[test]
fn no_update_is_lost_and_no_read_is_fractured() {
    let system = bank(31);
    let stop = AtomicBool::new(false);
    let committed = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let (system, stop, committed) = (&system, &stop, &committed);
        let writers: Vec<_> = (0..4i64)
            .map(|thread| {
                scope.spawn(move || {
                    for round in 0..80i64 {
                        let from = (thread * 5 + round) % ACCOUNTS;
                        let to = (from + 1 + round * 7 % (ACCOUNTS - 1)) % ACCOUNTS;
                        // Now and then one that is stored elsewhere.
                        let padding = if round % 10 == 0 { 9000 } else { 0 };
                        match transfer(system, from, to, padding) {
                            Ok(()) => {
                                committed.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => assert!(is_due(&error), "{error}"),
                        }
                    }
                })
            })
            .collect();
        for reader in 0..2 {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let mut one = Transaction::begin(system);
                    let rows = if reader == 0 {
                        all(&mut one)
                    } else {
                        let by = one.range_by("t", "by_group", .., Direction::Forward);
                        by.unwrap().map(Result::unwrap).collect()
                    };
                    assert_eq!(rows.len() as i64, ACCOUNTS);
                    assert_eq!(rows.iter().map(balance).sum::<i64>(), TOTAL);
                    for row in &rows {
                        let Value::Integer(id) = row[0] else {
                            panic!("an id");
                        };
                        assert_eq!(one.get("t", &key(id)).unwrap().as_ref(), Some(row));
                    }
                }
            });
        }
        scope.spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                system.purge(50).unwrap();
                assert_clean(system);
                std::thread::sleep(Duration::from_millis(20));
            }
        });
        for writer in writers {
            writer.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(committed.load(Ordering::Relaxed) > 50);
    purge_all(&system);
    assert_eq!(system.purge.waiting(), 0);
    assert_eq!(system.locks.held(), 0);
    let rows = all(&mut Transaction::begin(&system));
    assert_eq!(rows.iter().map(balance).sum::<i64>(), TOTAL);
    assert_eq!(entries(&system, 1).len() as i64, ACCOUNTS);
}

/// Each commit adds one to a counter that it has read: as many as have
/// committed must be in it.
#[test]
fn a_counter_counts_every_commit() {
    let system = bank(32);
    let committed = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..100 {
                    let mut one = Transaction::begin(&system);
                    let read = balance(&one.get("t", &key(0)).unwrap().unwrap());
                    let written = one
                        .update("t", account(0, read + 1, "counter"))
                        .and_then(|_| one.commit());
                    match written {
                        Ok(()) => {
                            committed.fetch_add(1, Ordering::Relaxed);
                        }
                        Err(error) => assert!(is_due(&error), "{error}"),
                    }
                }
            });
        }
    });
    let mut one = Transaction::begin(&system);
    let counted = balance(&one.get("t", &key(0)).unwrap().unwrap()) - 1000;
    assert_eq!(counted, i64::from(committed.load(Ordering::Relaxed)));
    assert!(counted >= 100);
}

/// Who sees a commit sees all commits that were acknowledged before it.
#[test]
fn commits_appear_in_one_order() {
    let system = bank(33);
    std::thread::scope(|scope| {
        for thread in 0..2i64 {
            let system = &system;
            scope.spawn(move || {
                for round in 1..200 {
                    let mut one = Transaction::begin(system);
                    // The second thread's is written after the first's is read.
                    let other = balance(&one.get("t", &key(1 - thread)).unwrap().unwrap());
                    one.update("t", account(thread, 1000 + round, "order"))
                        .unwrap();
                    one.update("t", account(2 + thread, other, "seen")).unwrap();
                    one.commit().unwrap();
                    let mut look = Transaction::begin(system);
                    let [a, b, seen_b, seen_a] =
                        [0, 1, 2, 3].map(|id| balance(&look.get("t", &key(id)).unwrap().unwrap()));
                    assert!(seen_b <= b && seen_a <= a, "{a} {b} {seen_a} {seen_b}");
                    let own = if thread == 0 { a } else { b };
                    assert_eq!(own, 1000 + round);
                }
            });
        }
    });
}
