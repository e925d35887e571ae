//! Rows with many keys, read together.

mod simulated;
mod tables;

use iolane_store::data::Value;
use iolane_store::{IoPolicy, Role, RowChange, Store};
use tables::{NONE, PAGE, ROW, Rig, pool, row, scattered};

/// Keys all over a table, in no order.
fn some_keys(rows: i64, every: i64) -> Vec<[Value; 1]> {
    let numbers = (0..rows).step_by(every as usize);
    numbers
        .map(|number| [scattered(number, rows).into()])
        .collect()
}

#[test]
fn rows_with_many_keys_are_read_together() {
    let rows = 20_000;
    let rig = Rig::slow(512, 200).filled(rows, false);
    let keys = some_keys(rows, 17);
    let read = |store: &Store| {
        let mut transaction = store.begin();
        let found = transaction.get_many("t", &keys).unwrap();
        for (key, found) in keys.iter().zip(found) {
            let Value::Integer(id) = key[0] else { panic!() };
            assert_eq!(found, Some(row(id, rows)));
        }
    };
    let (store, device) = rig.open(IoPolicy::AGGRESSIVE);
    let (before, pool_before) = (device.statistics(), pool(&store));
    read(&store);
    let streams = store.stream_statistics(Role::Index);
    assert_eq!((streams.running, streams.begun), (0, 1));
    let device = device.statistics().since(&before);
    // On average from the first request on, from which the scheduler finds how many pay.
    assert!(device.in_flight.mean() > 2.0, "{}", device.in_flight.mean());
    // Each leaf once, and few of them one by one.
    let after = pool(&store);
    let reads = after.reads - pool_before.reads;
    assert!(streams.reads + 24 >= reads, "{} of {reads}", streams.reads);
    assert!(reads < 20_000 * ROW as u64 / PAGE as u64 * 2, "{reads}");
    let wasted = after.prefetches_wasted - pool_before.prefetches_wasted;
    assert!(wasted <= 8, "{wasted}");
    drop(store);
    // Where it is not wanted, it is not done.
    let (store, _) = rig.open(NONE);
    read(&store);
    assert_eq!(store.stream_statistics(Role::Index).begun, 0);
}

/// Others wait for a row no longer than it takes to change some in memory.
#[test]
fn rows_with_many_keys_are_in_memory_before_they_are_locked() {
    let rows = 20_000;
    let rig = Rig::slow(512, 50).filled(rows, false);
    let (store, _) = rig.open(IoPolicy::AGGRESSIVE);
    // A 32nd of the frames at once.
    let (at_once, count) = (16, 48);
    let keys = some_keys(rows, 401);
    let mut transaction = store.begin_bulk();
    let mut reads = Vec::new();
    let changed = transaction.change_many("t", &keys[..count], |found| {
        reads.push(pool(&store).reads);
        RowChange::Update(found)
    });
    assert_eq!(changed.unwrap(), count as u64);
    reads.push(pool(&store).reads);
    for some in reads.chunks(at_once) {
        assert!(some.iter().all(|&before| before == some[0]), "{reads:?}");
    }
    assert!(reads[0] >= 16, "{reads:?}");
    // Behind all others, and all but the way down ahead.
    let streams = store.stream_statistics(Role::Bulk);
    assert!(streams.begun == 3 && streams.reads >= 40, "{streams:?}");
    assert_eq!(reads[count], reads[count - 1], "the last ones, too");
    transaction.commit().unwrap();
}
