//! Rows with many keys, read together.

mod simulated;
mod tables;

use iolane_store::data::Value;
use iolane_store::{IoPolicy, Role, RowChange, Store};
use std::ops::Bound::Included;
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

#[test]
fn rows_of_many_ranges_are_read_together() {
    let rows = 20_000;
    // So slow that what this test does between two reads does not count, on a busy machine too.
    let rig = Rig::slow(512, 1000).filled(rows, false);
    for io in [IoPolicy::AGGRESSIVE, NONE] {
        for index in [None, Some("by_other")] {
            let (store, device) = rig.open(io);
            let mut transaction = store.begin();
            // Points, ranges that are next to each other, and some that have nothing.
            let points = (0..rows).step_by(17).map(|from| (from, from));
            let pairs = (5..rows).step_by(97).map(|from| (from, from + 1));
            let spans: Vec<(i64, i64)> =
                points.chain(pairs).chain([(-5, -1), (30, 2000)]).collect();
            let ends: Vec<[[Value; 1]; 2]> = spans
                .iter()
                .map(|&(from, to)| [[from.into()], [to.into()]])
                .collect();
            let ranges: Vec<_> = ends
                .iter()
                .map(|[from, to]| (Included(&from[..]), Included(&to[..])))
                .collect();
            // What it has changed itself is among them.
            let mut changed = row(17, rows);
            changed[2] = Value::Blob(vec![1]);
            assert!(transaction.update("t", changed.clone()).unwrap());
            let before = device.statistics();
            let mut found: Vec<(usize, i64)> = Vec::new();
            let mut many = transaction.many_ranges("t", index, &ranges).unwrap();
            while let Some((number, came)) = many.next(&mut transaction).unwrap() {
                let Value::Integer(id) = came[0] else {
                    panic!()
                };
                let expected = if id == 17 {
                    changed.clone()
                } else {
                    row(id, rows)
                };
                assert_eq!(came, expected);
                found.push((number, id));
            }
            found.sort();
            let key = |id: i64| {
                if index.is_some() {
                    scattered(id, rows)
                } else {
                    id
                }
            };
            let ids: Vec<i64> = (0..rows).collect();
            let mut expected = Vec::new();
            for (number, &(from, to)) in spans.iter().enumerate() {
                let within = ids.iter().filter(|&&id| (from..=to).contains(&key(id)));
                expected.extend(within.map(|&id| (number, id)));
            }
            assert_eq!(found, expected, "{index:?}");
            let in_flight = device.statistics().since(&before).in_flight.mean();
            if io == NONE {
                assert_eq!(store.stream_statistics(Role::Index).begun, 0);
            } else {
                assert!(in_flight > 2.0, "{index:?}: {in_flight}");
            }
        }
    }
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
