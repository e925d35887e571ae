//! A change of many rows, what is written behind it, and what it leaves to others.

mod simulated;
mod workload;

use iolane::SimulatedDisk;
use iolane_store::{Durability, POOL_PAGES_MIN, RowChange, Store, StoreOptions, Transaction};
use simulated::*;
use std::time::{Duration, Instant};
use workload::schema;

const ROWS: i64 = 1000;
/// Leaves of so many rows, at the least.
const LEAVES: u64 = 60;

/// A pool and a log that nothing is pressed in.
fn roomy(disk: &SimulatedDisk) -> StoreOptions {
    let mut options = options(disk, &arena());
    options.pages.pool_bytes = 16 * (POOL_PAGES_MIN * 4096) as u64;
    options.pages.log_bytes = 16 << 20;
    options.pages.arena = None;
    options.durability = Durability::Lazy;
    options
}

fn row(id: i64, round: u64) -> iolane_store::data::Row {
    let text = (round % 10).to_string().repeat(230);
    vec![id.into(), id.into(), "group".into(), text.into()]
}

/// A store that has just been opened: nothing of its table is in memory.
fn cold() -> Store {
    let disk = SimulatedDisk::builder().build().unwrap();
    let store = Store::create(DIRECTORY, &roomy(&disk)).unwrap();
    store.create_table(&schema("t")).unwrap();
    let mut one = store.begin();
    for id in 0..ROWS {
        one.insert("t", row(id, 0)).unwrap();
    }
    one.commit().unwrap();
    store.close().unwrap();
    Store::open(DIRECTORY, &roomy(&disk)).unwrap()
}

fn change_all(store: &Store, round: u64) {
    let mut ids = 0..ROWS;
    let mut one = store.begin();
    let changed = one.change_range("t", .., |_| {
        RowChange::Update(row(ids.next().unwrap(), round))
    });
    assert_eq!(changed.unwrap(), ROWS as u64);
    one.commit().unwrap();
}

fn written(store: &Store) -> u64 {
    store.statistics().pages.flush.pages
}

/// Though few pages are changed, little of the log is in use, and something
/// changes all the time: none of these is a reason to write.
#[test]
fn what_a_change_had_to_read_is_written_behind_it() {
    let store = cold();
    change_all(&store, 1);
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut changes = 0;
    while written(&store) < LEAVES {
        let statistics = store.statistics().pages;
        let (dirty, frames) = (statistics.pool.dirty, statistics.pool.frames);
        assert!(4 * dirty < frames, "{dirty} of {frames}");
        assert!(Instant::now() < deadline, "{statistics:?}");
        changes += 1;
        let mut one = store.begin();
        one.update("t", row(0, changes)).unwrap();
        one.commit().unwrap();
        std::thread::sleep(Duration::from_millis(1));
    }
    store.close().unwrap();
}

/// Else a table that fits into memory would be written once for each change of
/// all of it.
#[test]
fn what_was_in_memory_is_left_to_its_age() {
    /// Before everything is written because nothing changes.
    const QUIET: Duration = Duration::from_millis(400);
    let store = cold();
    change_all(&store, 1);
    for round in 2.. {
        assert!(round < 50, "no round was quick enough");
        // What is on its way is not dirty any more, and not yet counted.
        store.checkpoint().unwrap();
        assert_eq!(store.statistics().pages.pool.dirty, 0);
        let (before, begin) = (written(&store), Instant::now());
        change_all(&store, round);
        std::thread::sleep(Duration::from_millis(100));
        let after = written(&store);
        if begin.elapsed() < QUIET {
            assert_eq!(after, before);
            break;
        }
    }
    store.close().unwrap();
}

/// Changes come much faster than such a disk takes them. A query that misses a page
/// would wait for one to be written if all of the pool held changes.
#[test]
fn a_change_in_bulk_leaves_clean_frames_to_others() {
    let latency = Latency::default();
    let model = Box::new(TimedDisk::new(1, &latency));
    let disk = SimulatedDisk::builder().model(model).build().unwrap();
    let mut options = roomy(&disk);
    options.pages.pool_bytes = 4 * (POOL_PAGES_MIN * 4096) as u64;
    let store = Store::create(DIRECTORY, &options).unwrap();
    store.create_table(&schema("t")).unwrap();
    let rows = (0..4 * ROWS).map(|id| row(id, 0));
    store.bulk_load("t", rows).unwrap();
    // As a share of the frames.
    let most_changed = |transaction: &mut Transaction<'_>| {
        let mut ids = 0..;
        let pool = || store.statistics().pages.pool;
        std::thread::scope(|scope| {
            let change = scope.spawn(|| {
                transaction
                    .change_range("t", .., |_| RowChange::Update(row(ids.next().unwrap(), 1)))
            });
            let mut most = 0.0_f64;
            while !change.is_finished() {
                let seen = pool();
                most = most.max(seen.dirty as f64 / seen.frames as f64);
                std::thread::sleep(Duration::from_micros(200));
            }
            assert_eq!(change.join().unwrap().unwrap(), 4 * ROWS as u64);
            most
        })
    };
    on_slower_disks(&latency, &[300, 1000, 3000], || {
        let query = most_changed(&mut store.begin());
        store.checkpoint().unwrap();
        let bulk = most_changed(&mut store.begin_bulk());
        let told = format!("{query:.2} of the frames, in bulk {bulk:.2}");
        (bulk < 0.55 && query > 0.65).then_some(()).ok_or(told)
    });
    latency.set_us(0);
    store.close().unwrap();
}
