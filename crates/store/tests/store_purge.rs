//! Purge and those who write faster than it can follow.

mod simulated;
mod workload;

use iolane::SimulatedDisk;
use iolane_store::data::Row;
use iolane_store::{Durability, Store};
use simulated::{DIRECTORY, Random, arena, options};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use workload::schema;

const THREADS: u64 = 2;
const ROWS: u64 = 1000;
const ROW_BYTES: usize = 500;
const POOL_BYTES: u64 = 8 << 20;
/// Half of the pool, the default.
const LAG_BYTES: u64 = POOL_BYTES / 2;

/// On a disk in memory, which nobody waits for.
fn store() -> Store {
    let disk = SimulatedDisk::builder().build().unwrap();
    let mut options = options(&disk, &arena());
    options.pages.pool_bytes = POOL_BYTES;
    options.pages.log_bytes = 64 << 20;
    options.pages.arena = None;
    options.durability = Durability::Lazy;
    options.purge_thread = true;
    let store = Store::create(DIRECTORY, &options).unwrap();
    store.create_table(&schema("t")).unwrap();
    let rows = (0..ROWS).map(|id| row(id, id));
    store.bulk_load("t", rows).unwrap();
    store
}

/// A version has an entry of its own in each index.
fn row(id: u64, version: u64) -> Row {
    let group = format!("{version:x}");
    let text = "x".repeat(ROW_BYTES);
    let [id, tag] = [id, version].map(|number| (number as i64).into());
    vec![id, tag, group.into(), text.into()]
}

/// Changes rows in all threads, until so many bytes of undo are made. Returns
/// the most by which purge was behind.
fn change(store: &Store, undo_bytes: u64) -> u64 {
    let (made, most) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (made, most) = (&made, &most);
            scope.spawn(move || {
                let mut random = Random(thread);
                // At least a row as it was for each change.
                while made.fetch_add(ROW_BYTES as u64, Ordering::Relaxed) < undo_bytes {
                    let id = random.below(ROWS / THREADS) * THREADS + thread;
                    let mut one = store.begin();
                    assert!(one.update("t", row(id, random.next())).unwrap());
                    one.commit().unwrap();
                    most.fetch_max(store.statistics().unpurged_bytes, Ordering::Relaxed);
                }
            });
        }
    });
    most.into_inner()
}

#[test]
fn writers_do_not_outrun_purge() {
    let store = store();
    let most = change(&store, 40 * LAG_BYTES);
    let statistics = store.statistics();
    println!("{most} bytes behind at most, {:?}", statistics.purge_waits);
    // Without a bound purge is 25 times as far behind. With one, a busy machine
    // may still let its thread wait for a while after it had nothing to eat.
    assert!(most < 4 * LAG_BYTES, "{most}: {statistics:?}");
    assert!(store.check().unwrap().is_clean());
}

#[test]
fn writers_are_not_slowed_for_what_a_view_keeps() {
    let store = store();
    while store.statistics().unpurged > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
    let mut reader = store.begin();
    assert!(reader.get("t", &[1.into()]).unwrap().is_some());
    let most = change(&store, 2 * LAG_BYTES);
    assert!(most > 2 * LAG_BYTES, "{most}");
    let waits = store.statistics().purge_waits;
    assert_eq!(waits.count, 0, "{waits:?}");
}
