//! Who waits for purge, and who does not.

use super::*;
use crate::txn::PURGE_RECORDS;

const LAG_BYTES: u64 = 64 << 10;

fn system() -> System<TestPages> {
    let rig = Rig::new(small(11));
    let (system, _) = rig.open_with(SystemOptions {
        purge_lag_bytes: LAG_BYTES,
        ..options()
    });
    fill(&system);
    system
}

fn fill(system: &System<TestPages>) {
    system.create_table(&schema()).unwrap();
    let mut one = Transaction::begin(system);
    for id in 0..10 {
        one.insert("t", row(id, None, "group", "text")).unwrap();
    }
    one.commit().unwrap();
}

/// One transaction with so many changes.
fn change(system: &System<TestPages>, changes: i64) {
    let mut one = Transaction::begin(system);
    for number in 0..changes {
        let row = row(number % 10, Some(number), "group", "text");
        assert!(one.update("t", row).unwrap());
    }
    one.commit().unwrap();
}

fn waits(system: &System<TestPages>) -> u64 {
    system.purge.lag.waits().count
}

/// Makes purge far behind, as its thread notices.
fn fall_behind(system: &System<TestPages>) {
    while system.purge.lag.bytes() < 4 * LAG_BYTES {
        change(system, 1);
    }
    assert!(system.purge.waiting() > PURGE_RECORDS);
    assert_eq!(system.purge_round().unwrap(), PURGE_RECORDS);
    assert!(system.purge.lag.is_large());
}

#[test]
fn a_transaction_pays_as_it_goes_and_at_its_end() {
    let system = system();
    fall_behind(&system);
    // Until then nobody has purged.
    assert_eq!(waits(&system), 0);
    change(&system, 1);
    assert_eq!(waits(&system), 1);
    // 256, 512, and the rest with what says that it has ended.
    change(&system, 600);
    assert_eq!(waits(&system), 4);
    change(&system, 512);
    assert_eq!(waits(&system), 7);
    let mut one = Transaction::begin(&system);
    one.update("t", row(1, None, "other", "text")).unwrap();
    one.rollback().unwrap();
    let mut one = Transaction::begin(&system);
    assert_eq!(all(&mut one).len(), 10);
    one.commit().unwrap();
    assert_eq!(waits(&system), 7);
    // It has eaten all.
    while system.purge_round().unwrap() > 0 {}
    assert_eq!(system.purge.lag.bytes(), 0);
    change(&system, 600);
    assert_eq!(waits(&system), 7);
    assert_clean(&system);
}

#[test]
fn nobody_waits_for_what_a_view_keeps() {
    let system = system();
    while system.purge_round().unwrap() > 0 {}
    let mut reader = Transaction::begin(&system);
    assert!(reader.get("t", &key(1)).unwrap().is_some());
    while system.purge.lag.bytes() < 4 * LAG_BYTES {
        change(&system, 5);
        system.purge_round().unwrap();
    }
    assert_eq!(waits(&system), 0);
    // What it has kept can go.
    drop(reader);
    assert_eq!(system.purge_round().unwrap(), PURGE_RECORDS);
    assert!(system.purge.lag.is_large());
    change(&system, 1);
    assert_eq!(waits(&system), 1);
}

#[test]
fn what_is_behind_is_known_when_a_store_is_opened() {
    let rig = Rig::new(small(12));
    let (system, _) = rig.open_with(options());
    fill(&system);
    for _ in 0..100 {
        change(&system, 7);
    }
    let mut unfinished = Transaction::begin(&system);
    unfinished
        .update("t", row(1, None, "other", "text"))
        .unwrap();
    system.purge(333).unwrap();
    let behind = system.purge.lag.bytes();
    assert!(behind > 0);
    // As a crash would.
    std::mem::forget(unfinished);
    drop(system);
    let (system, opened) = rig.open_with(options());
    assert_eq!(opened.rolled_back, 1);
    // Purge may begin at an earlier place, and one more has ended.
    assert!(system.purge.lag.bytes() > behind);
    purge_all(&system);
    assert_eq!(system.purge.waiting(), 0);
}
