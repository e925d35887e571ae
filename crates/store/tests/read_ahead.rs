//! Reading ahead of scans and of ranges of secondary indexes, on a simulated
//! disk.

mod simulated;
mod tables;

use iolane::{Device, Engine, Level, OpenOptions, SimulatedDisk};
use iolane_disk::fault::FaultPlan;
use iolane_store::data::{Row, Value};
use iolane_store::{Direction, Error, IoPolicy, Role, Store, StoreOptions};
use simulated::Random;
use std::ops::Bound;
use std::sync::Barrier;
use tables::{NONE, PAGE, Rig, constant, filler, pool, row};

/// The keys of a scan, which must be all, in order.
fn scan(store: &Store, rows: i64, direction: Direction) {
    let mut transaction = store.begin();
    let mut due = 0;
    for found in transaction.range("t", .., direction).unwrap() {
        let id = match direction {
            Direction::Forward => due,
            Direction::Backward => rows - 1 - due,
        };
        assert_eq!(found.unwrap(), row(id, rows));
        due += 1;
    }
    assert_eq!(due, rows);
}

fn range(store: &Store, rows: i64, from: i64, to: i64) {
    let mut transaction = store.begin();
    let (lower, upper) = ([Value::from(from)], [Value::from(to)]);
    let bounds = (Bound::Included(&lower[..]), Bound::Excluded(&upper[..]));
    let found = transaction.range_by("t", "by_other", bounds, Direction::Forward);
    let mut due = from;
    for found in found.unwrap() {
        let found = found.unwrap();
        assert_eq!(found[1], due.into());
        let Value::Integer(id) = found[0] else {
            panic!()
        };
        assert_eq!(found, row(id, rows));
        due += 1;
    }
    assert_eq!(due, to.min(rows));
}

#[test]
fn without_a_policy_nothing_is_read_ahead() {
    let rows = 20_000;
    let rig = Rig::new(256).filled(rows, false);
    let (store, _) = rig.open(NONE);
    let before = pool(&store);
    scan(&store, rows, Direction::Forward);
    range(&store, rows, 100, 1000);
    let after = pool(&store);
    assert_eq!(after.prefetches, before.prefetches);
    assert!(after.reads - before.reads > 1500, "{after:?}");
    for role in [Role::Scan, Role::Index, Role::Guess] {
        assert_eq!(store.stream_statistics(role), Default::default());
    }
}

#[test]
fn a_scan_reads_each_page_once_and_ahead() {
    let rows = 20_000;
    // A quarter of the pool is less than a branch of such small pages names, and
    // several times as much.
    for (frames, direction) in [
        (256, Direction::Forward),
        (256, Direction::Backward),
        (2048, Direction::Forward),
    ] {
        let rig = Rig::slow(frames, 200).filled(rows, false);
        let (store, device) = rig.open(IoPolicy::AGGRESSIVE);
        let (before, at_first) = (pool(&store), device.statistics());
        scan(&store, rows, direction);
        let after = pool(&store);
        let reads = after.reads - before.reads;
        let ahead = after.prefetches - before.prefetches;
        // All but the first pages of the tree.
        assert!(
            ahead + 8 >= reads,
            "{frames} frames, {direction:?}: {ahead} of {reads}"
        );
        // Leaves are held till the scan has come; branches are not, and a pool
        // full of leaves may lose one.
        assert!(after.prefetches_wasted <= 2, "{}", after.prefetches_wasted);
        let streams = store.stream_statistics(Role::Scan);
        assert_eq!((streams.running, streams.begun), (0, 1));
        assert_eq!(streams.reads, ahead);
        let device = device.statistics().since(&at_first);
        // Even here, where a test's thread waits for a processor now and then.
        assert!(device.outstanding.share_at(0) < 0.2, "{streams:?}");
        // All of a level lower than a query's but what it waits for.
        let waited = device.levels[Level::Foreground.index()].read.requests;
        assert!(waited <= streams.waits + 16, "{waited} of {streams:?}");
    }
}

/// Where a range is short, somebody waits for the whole of it. A scan pays with its
/// throughput for a page that it waits for.
#[test]
fn what_a_short_range_waits_for_is_as_urgent_as_a_row() {
    let rows = 20_000;
    let rig = Rig::slow(256, 500).filled(rows, false);
    let (store, device) = rig.open(IoPolicy::AGGRESSIVE);
    let waited = |level: Level| {
        let statistics = device.statistics();
        statistics.levels[level.index()].read.requests
    };
    let before = [Level::Foreground, Level::Normal].map(waited);
    for from in (0..rows).step_by(1000) {
        let mut transaction = store.begin();
        let bounds = [Value::from(from)]..[Value::from(from + 50)];
        let bounds = (
            Bound::Included(&bounds.start[..]),
            Bound::Excluded(&bounds.end[..]),
        );
        let found = transaction.range("t", bounds, Direction::Forward);
        assert_eq!(found.unwrap().count(), 50);
    }
    let after = [Level::Foreground, Level::Normal].map(waited);
    assert!(after[0] >= before[0] + 20, "{before:?} {after:?}");
    assert_eq!(after[1], before[1]);
    scan(&store, rows, Direction::Forward);
    assert!(waited(Level::Normal) > after[1]);
}

#[test]
fn neighbours_come_in_one_transfer() {
    let rows = 40_000;
    let mut transfer_bytes = Vec::new();
    for in_order in [true, false] {
        let rig = Rig::slow(2048, 500).filled(rows, in_order);
        let (store, device) = rig.open(IoPolicy::AGGRESSIVE);
        let before = device.statistics();
        scan(&store, rows, Direction::Forward);
        let done = device.statistics().since(&before);
        transfer_bytes.push(done.total().read.bytes / done.transfers);
    }
    // An extent, but for what the scan came too early for.
    assert!(transfer_bytes[0] > 24 * PAGE as u64, "{transfer_bytes:?}");
    // Chance neighbours.
    assert!(transfer_bytes[1] < 4 * PAGE as u64, "{transfer_bytes:?}");
}

#[test]
fn a_range_of_an_index_reads_rows_in_batches() {
    let rows = 20_000;
    let rig = Rig::slow(512, 200).filled(rows, false);
    let (store, device) = rig.open(IoPolicy::AGGRESSIVE);
    let before = device.statistics();
    range(&store, rows, 5000, 8000);
    let streams = store.stream_statistics(Role::Index);
    assert_eq!((streams.running, streams.begun), (0, 1));
    assert!(streams.reads > 1000, "{streams:?}");
    // It has what a stream may have to itself: the leaves of the index are read
    // ahead by a stream of their own, which is not another's.
    assert!(streams.distance_max > 512 / 4 / 2, "{streams:?}");
    // Five or more at a time of the eight that the disk takes.
    let device = device.statistics().since(&before);
    assert!(device.in_flight.mean() > 4.0, "{}", device.in_flight.mean());
    // One that ends before it is known what comes next reads no more than that.
    let before = pool(&store).reads;
    range(&store, rows, 15_000, 15_002);
    assert!(pool(&store).reads - before < 12);
}

#[test]
fn rows_are_asked_for_in_their_order_though_branches_come_in_another() {
    let rows = 20_000;
    let plan: FaultPlan = "stall=4ms:0.3,seed=5".parse().unwrap();
    let disk = SimulatedDisk::builder().model(constant(100)).faults(plan);
    // So many frames that nothing is read while it is filled.
    let mut rig = Rig::on(4096, disk.build().unwrap()).filled(rows, false);
    rig.frames = 512;
    for from in [2000, 5000, 9000] {
        let (store, _) = rig.open(IoPolicy::AGGRESSIVE);
        let before = pool(&store);
        range(&store, rows, from, from + 1000);
        let after = pool(&store);
        let ahead = after.prefetches - before.prefetches;
        let alone = after.reads - before.reads - ahead;
        // The way down both trees, and at most one row for each branch that
        // came late.
        assert!(alone <= 24, "{alone} one by one, {ahead} ahead");
        // But for branches: they are not held.
        let wasted = after.prefetches_wasted - before.prefetches_wasted;
        assert!(wasted <= 8, "{wasted} of {ahead} in vain");
    }
}

/// Reads ranges of 100 rows each. Returns how many pages were asked for when
/// they were needed, and how many ahead.
fn read_chunks(store: &Store, chunks: impl Iterator<Item = i64>) -> (u64, u64) {
    let (before, ledger) = (store.stream_statistics(Role::Scan), store.ledger());
    for chunk in chunks {
        let mut transaction = store.begin();
        let bounds = [chunk * 100, chunk * 100 + 100];
        let [from, to] = bounds.map(|id| [Value::from(id)]);
        let range = (Bound::Included(&from[..]), Bound::Excluded(&to[..]));
        let found = transaction.range("t", range, Direction::Forward).unwrap();
        let due = (bounds[0]..bounds[1]).map(|id| row(id, CHUNKS * 100));
        assert!(found.map(Result::unwrap).eq(due));
    }
    let ledger = store.ledger().since(&ledger);
    (
        ledger.role(Role::Read).total().read.requests,
        store.stream_statistics(Role::Scan).reads - before.reads,
    )
}

const CHUNKS: i64 = 200;

#[test]
fn a_range_that_goes_on_behind_another_was_read_with_it() {
    let mut rig = Rig::slow(4096, 200).filled(CHUNKS * 100, false);
    rig.frames = 1024;
    let (store, _) = rig.open(IoPolicy::AGGRESSIVE);
    let (alone, ahead) = read_chunks(&store, 0..CHUNKS / 2);
    // The way down and the first ranges, and no more than a distance beyond
    // the last one's end.
    assert!(alone <= 12, "{alone} alone, {ahead} ahead");
    drop(store);
    let (store, _) = rig.open(IoPolicy::AGGRESSIVE);
    // Each begins somewhere else.
    let elsewhere = (0..CHUNKS).step_by(2).map(|chunk| chunk * 37 % CHUNKS);
    let (alone, of_ranges) = read_chunks(&store, elsewhere);
    assert!(alone as i64 >= CHUNKS / 2, "{alone}");
    assert!(ahead <= of_ranges + 200, "{ahead} of {of_ranges}");
    drop(store);
    // In memory there is nothing to be read ahead of.
    rig.frames = 4096;
    let (store, _) = rig.open(IoPolicy::AGGRESSIVE);
    scan(&store, CHUNKS * 100, Direction::Forward);
    let begun = store.stream_statistics(Role::Scan).begun;
    assert_eq!(read_chunks(&store, 0..CHUNKS), (0, 0));
    assert_eq!(store.stream_statistics(Role::Scan).begun, begun);
}

#[test]
fn what_is_given_up_is_withdrawn() {
    let rows = 20_000;
    let rig = Rig::slow(1024, 1000).filled(rows, false);
    let (store, device) = rig.open(IoPolicy::AGGRESSIVE);
    let before = pool(&store);
    let mut transaction = store.begin();
    let mut found = transaction.range("t", .., Direction::Forward).unwrap();
    for _ in 0..40 {
        found.next().unwrap().unwrap();
    }
    assert_eq!(store.stream_statistics(Role::Scan).running, 1);
    drop(found);
    drop(transaction);
    assert_eq!(store.stream_statistics(Role::Scan).running, 0);
    let after = pool(&store);
    assert!(after.prefetches_cancelled > 60, "{after:?}");
    // What was with the disk comes to its end, and leaves like all others.
    while device.statistics().outstanding.count() > 0 {
        std::thread::yield_now();
    }
    let (reads, ahead) = (
        after.reads - before.reads,
        after.prefetches - before.prefetches,
    );
    assert!(ahead - after.prefetches_cancelled < 40, "{reads} {after:?}");
    scan(&store, rows, Direction::Forward);
}

#[test]
fn streams_share_the_frames() {
    const STREAMS: usize = 8;
    let rows = 12_000;
    let frames = 512;
    let rig = Rig::slow(frames, 300).filled(rows, false);
    let (store, _) = rig.open(IoPolicy::AGGRESSIVE);
    let together = Barrier::new(STREAMS);
    std::thread::scope(|scope| {
        for number in 0..STREAMS {
            let (store, together) = (&store, &together);
            scope.spawn(move || {
                together.wait();
                match number % 3 {
                    0 => scan(store, rows, Direction::Forward),
                    1 => scan(store, rows, Direction::Backward),
                    _ => range(store, rows, 0, rows / 2),
                }
            });
        }
    });
    for role in [Role::Scan, Role::Index] {
        let streams = store.stream_statistics(role);
        assert_eq!(streams.running, 0);
        assert!(streams.distance_max <= frames as u64 / 4, "{streams:?}");
    }
    let statistics = pool(&store);
    assert_eq!(statistics.frame_waits, 0, "{statistics:?}");
    // Held pages do not push each other out.
    assert!(
        statistics.prefetches_wasted * 100 < statistics.prefetches,
        "{statistics:?}"
    );
}

/// Who stands back leaves more frames to queries.
#[test]
fn a_scan_in_bulk_holds_half_as_many_frames() {
    let (rows, frames) = (12_000, 512);
    let rig = Rig::slow(frames, 300).filled(rows, false);
    let (store, _) = rig.open(IoPolicy::AGGRESSIVE);
    let mut transaction = store.begin_bulk();
    for row in transaction.range("t", .., Direction::Forward).unwrap() {
        row.unwrap();
    }
    let most = frames as u64 / 8;
    let reached = store.stream_statistics(Role::Bulk).distance_max;
    // And the page that the scan waits for, which it reads by itself.
    assert!((most..=most + 1).contains(&reached), "{reached} of {most}");
    scan(&store, rows, Direction::Forward);
    assert!(store.stream_statistics(Role::Scan).distance_max > most + 1);
}

#[test]
fn a_scan_leaves_hot_pages_in_memory() {
    let (rows, hot) = (60_000, 60);
    let rig = Rig::new(400).filled(rows, false);
    let (store, _) = rig.open(IoPolicy::AGGRESSIVE);
    let mut reader = store.begin();
    let mut get = |number: i64| {
        let id = number % hot * (rows / hot);
        assert_eq!(reader.get("t", &[id.into()]).unwrap(), Some(row(id, rows)));
    };
    for number in 0..hot * 4 {
        get(number);
    }
    let mut transaction = store.begin();
    let (mut misses, mut gets) = (0, 0);
    for (number, found) in (0..).zip(transaction.range("t", .., Direction::Forward).unwrap()) {
        found.unwrap();
        if number % 20 == 0 {
            let before = pool(&store).misses;
            get(number / 20);
            misses += pool(&store).misses - before;
            gets += 1;
        }
    }
    assert!(misses * 50 <= gets, "{misses} of {gets} hot rows had left");
}

/// A table that is a little too large for memory is not read whole each time.
#[test]
fn a_long_scan_takes_its_own_frames_and_leaves_the_others() {
    let rows = 15_000;
    let rig = Rig::new(1024).filled(rows, false);
    let (store, _) = rig.open(IoPolicy::AGGRESSIVE);
    let mut reads = [0; 3];
    for reads in &mut reads {
        let before = pool(&store).reads;
        scan(&store, rows, Direction::Forward);
        *reads = pool(&store).reads - before;
    }
    let [first, second, third] = reads;
    assert!(
        (1024..3072).contains(&first),
        "{first} pages are too few, or too many"
    );
    // In the order in which they came, all of them would leave before their turn.
    let kept = first - second.max(third);
    assert!(
        kept > 1024 / 2,
        "{kept} pages were found in memory: {reads:?}"
    );
}

#[test]
fn a_scan_beside_changes_sees_its_snapshot() {
    let rows = 6000;
    let rig = Rig::new(256).filled(rows, false);
    let (store, _) = rig.open(IoPolicy::AGGRESSIVE);
    let mut before = store.begin();
    // It sees what there is now.
    before.get("t", &[0.into()]).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random(7);
            for _ in 0..60 {
                let mut transaction = store.begin();
                for _ in 0..50 {
                    let id = random.below(2 * rows as u64) as i64;
                    if transaction.get("t", &[id.into()]).unwrap().is_some() {
                        transaction.delete("t", &[id.into()]).unwrap();
                    } else {
                        let other = random.below(1000) as i64;
                        let filler = Value::Blob(vec![1; 700]);
                        let row = vec![id.into(), other.into(), filler];
                        transaction.insert("t", row).unwrap();
                    }
                }
                transaction.commit().unwrap();
            }
        });
        for direction in [Direction::Forward, Direction::Backward, Direction::Forward] {
            let found = before.range("t", .., direction).unwrap();
            let mut ids: Vec<i64> = found
                .map(|found| match found.unwrap()[0] {
                    Value::Integer(id) => id,
                    _ => panic!(),
                })
                .collect();
            if direction == Direction::Backward {
                ids.reverse();
            }
            assert!(ids.into_iter().eq(0..rows));
            let found = before
                .range_by("t", "by_other", .., Direction::Forward)
                .unwrap();
            let others: Vec<Value> = found.map(|found| found.unwrap()[1].clone()).collect();
            assert!(others.into_iter().eq((0..rows).map(Value::from)));
        }
    });
    drop(before);
    let report = store.check().unwrap();
    assert!(report.is_clean(), "{:?}", report.findings);
}

#[test]
fn background_reads_are_of_their_own_level() {
    let rows = 10_000;
    let rig = Rig::slow(256, 100).filled(rows, false);
    let foreground = |device: &Device| {
        let statistics = device.statistics();
        statistics.levels[Level::Foreground.index()].read.requests
    };
    let (store, device) = rig.open(IoPolicy::AGGRESSIVE);
    let before = foreground(&device);
    assert!(store.check().unwrap().is_clean());
    assert_eq!(foreground(&device), before);
    let streams = store.stream_statistics(Role::Check);
    assert!(streams.reads > 1000 && streams.running == 0, "{streams:?}");

    // Onto another disk.
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let path = directory.path().join("copy");
    let mut copied = StoreOptions::default();
    copied.pages.pool_bytes = 8 << 20;
    copied.pages.log_bytes = 8 << 20;
    assert_eq!(store.backup(&path, &copied).unwrap(), rows as u64);
    assert_eq!(foreground(&device), before);
    assert!(store.stream_statistics(Role::Backup).reads > 500);
    scan(
        &Store::open(&path, &copied).unwrap(),
        rows,
        Direction::Forward,
    );
}

#[test]
fn the_pages_of_a_long_value_are_asked_for_at_once() {
    let long: Row = vec![1.into(), 2.into(), Value::Blob(vec![7; 100 * PAGE])];
    let rig = Rig::slow(512, 100).filled(10, true);
    let (store, _) = rig.open(NONE);
    let mut transaction = store.begin();
    transaction.update("t", long.clone()).unwrap();
    transaction.commit().unwrap();
    store.close().unwrap();
    for (policy, least) in [(NONE, 0), (IoPolicy::AGGRESSIVE, 95)] {
        let (store, _) = rig.open(policy);
        let before = pool(&store).prefetches;
        let mut transaction = store.begin();
        assert_eq!(
            transaction.get("t", &[1.into()]).unwrap(),
            Some(long.clone())
        );
        let ahead = pool(&store).prefetches - before;
        assert!((least..=least + 10).contains(&ahead), "{ahead}");
    }
}

#[test]
fn guesses_read_neighbours() {
    let rows = 20_000;
    let rig = Rig::new(512).filled(rows, true);
    let linear = IoPolicy {
        linear: true,
        ..NONE
    };
    let random = IoPolicy {
        random: true,
        ..NONE
    };
    for (policy, least) in [(linear, 0.9), (random, 0.6)] {
        let (store, _) = rig.open(policy);
        // Its own pages are no guesses.
        store.table("t").unwrap();
        let before = pool(&store);
        scan(&store, rows, Direction::Forward);
        let after = pool(&store);
        let (ahead, reads) = (
            after.prefetches - before.prefetches,
            after.reads - before.reads,
        );
        assert!(ahead as f64 > least * reads as f64, "{ahead} of {reads}");
        assert_eq!(store.stream_statistics(Role::Guess).reads, ahead);
    }
}

#[test]
fn a_damaged_page_is_told_to_whoever_needs_it_alone() {
    let (rows, damaged) = (20_000, 9_000);
    let rig = Rig::slow(512, 100).filled(rows, true);
    let needle = filler(damaged);
    let engine = Engine::builder().simulated(&rig.disk).build().unwrap();
    // The table's file, and a copy of the page if there is one.
    for name in rig.disk.names() {
        let contents = rig.disk.contents(&name).unwrap();
        let mut bytes = contents.windows(needle.len());
        let Some(at) = bytes.position(|bytes| bytes == needle) else {
            continue;
        };
        let file = engine.open(&name, OpenOptions::new().write(true)).unwrap();
        file.write_at(b"damaged", at as u64, Level::Normal).unwrap();
        file.sync(Level::Normal).unwrap();
    }

    let (store, _) = rig.open(IoPolicy::AGGRESSIVE);
    let mut transaction = store.begin();
    // Read ahead, and not needed.
    let mut rows_found = transaction.range("t", .., Direction::Forward).unwrap();
    let near = damaged - 40;
    for due in 0..near {
        assert_eq!(rows_found.next().unwrap().unwrap(), row(due, rows));
    }
    drop(rows_found);
    // Needed.
    let rows_found = transaction.range("t", .., Direction::Forward).unwrap();
    let mut good = 0;
    let mut failed = None;
    for found in rows_found {
        match found {
            Ok(found) => {
                assert_eq!(found, row(good, rows));
                good += 1;
            }
            Err(error) => failed = Some(error),
        }
    }
    assert!((near..=damaged).contains(&good), "{good}");
    let failed = failed.expect("the damage is met");
    assert!(matches!(failed, Error::Pages(_)), "{failed:?}");
    assert!(failed.to_string().contains("checksum"), "{failed}");
    // The others are as before.
    let after = [Value::from(damaged + 40)];
    let bounds = (Bound::Included(&after[..]), Bound::Unbounded);
    let rest = transaction.range("t", bounds, Direction::Forward).unwrap();
    assert_eq!(
        rest.filter(Result::is_ok).count() as i64,
        rows - damaged - 40
    );
}
