//! Checkpoints that somebody asks for.

mod simulated;
mod workload;

use iolane::{Arena, Engine, SimulatedDisk};
use iolane_disk::model::{Constant, ConstantParameters};
use iolane_store::access::PagesError;
use iolane_store::{Direction, Durability, Error, POOL_PAGES_MIN, Preflush, Store, StoreOptions};
use simulated::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use workload::schema;

const ROWS: i64 = 400;

/// Every transfer and every sync takes so long.
fn slow_disk(latency_us: u64) -> SimulatedDisk {
    let model = Constant::new(ConstantParameters {
        capacity_bytes: 1 << 30,
        queue_max: 64,
        latency_ns: latency_us * 1000,
    });
    let disk = SimulatedDisk::builder().model(Box::new(model.unwrap()));
    disk.build().unwrap()
}

/// A pool and a log that nothing is pressed in.
fn roomy(disk: &SimulatedDisk, preflush: Preflush) -> StoreOptions {
    let mut options = options(disk, &arena());
    options.pages.pool_bytes = 8 * (POOL_PAGES_MIN * 4096) as u64;
    options.pages.log_bytes = 16 << 20;
    options.pages.arena = None;
    options.pages.io.preflush = preflush;
    options.durability = Durability::Lazy;
    options
}

fn row(id: i64, round: u64) -> iolane_store::data::Row {
    let text = "x".repeat(200 + round as usize % 100);
    vec![id.into(), id.into(), "group".into(), text.into()]
}

fn insert(store: &Store, ids: std::ops::Range<i64>) {
    let mut one = store.begin();
    for id in ids {
        one.insert("t", row(id, 0)).unwrap();
    }
    one.commit().unwrap();
}

fn count(store: &Store) -> usize {
    let mut reader = store.begin();
    let rows = reader.range("t", .., Direction::Forward).unwrap();
    rows.map(Result::unwrap).count()
}

/// The files as they are when it returns are up to date without the log: also
/// what was committed and waited for nothing.
#[test]
fn recovery_has_nothing_to_repeat_behind_a_checkpoint() {
    for preflush in [Preflush::Steady, Preflush::Steps, Preflush::Idle] {
        let disk = slow_disk(20);
        let store = Store::create(DIRECTORY, &roomy(&disk, preflush)).unwrap();
        store.create_table(&schema("t")).unwrap();
        insert(&store, 0..ROWS);
        let end = store.statistics().pages.log_end;
        let report = store.checkpoint().unwrap();
        println!("{preflush:?}: {report:?}");
        assert!(report.from < report.target && report.target >= end);
        assert!(report.to >= report.target);
        assert_eq!(report.bytes, report.pages * 4096);
        let statistics = store.statistics().pages;
        assert_eq!(statistics.checkpoint, report.to);
        assert_eq!(statistics.flush.checkpoints_asked, 1);
        let copy = disk_with(&files(&disk));
        let mut copied = roomy(&copy, preflush);
        copied.engine = Some(Arc::new(
            Engine::builder().simulated(&copy).build().unwrap(),
        ));
        let opened = Store::open(DIRECTORY, &copied).unwrap();
        assert_eq!(opened.recovery().0.applied, 0, "{preflush:?}");
        assert_eq!(count(&opened), ROWS as usize);
        assert!(opened.check().unwrap().is_clean());
        // With nothing changed since, there is nothing to do.
        let again = store.checkpoint().unwrap();
        assert_eq!((again.pages, again.from), (0, report.to), "{again:?}");
        assert_eq!(again.to, again.from);
        store.close().unwrap();
    }
}

/// Commits go on during checkpoints, several at once; each covers what was
/// committed before it was asked for.
#[test]
fn checkpoints_stop_nobody_and_end_beside_changes_without_end() {
    const ASKING: usize = 3;
    const EACH: usize = 8;
    let disk = slow_disk(100);
    let store = Store::create(DIRECTORY, &roomy(&disk, Preflush::Steady)).unwrap();
    store.create_table(&schema("t")).unwrap();
    insert(&store, 0..ROWS);
    let (stop, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    let during = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random(5);
            while !stop.load(Ordering::Relaxed) {
                let mut one = store.begin();
                let id = random.below(ROWS as u64) as i64;
                one.update("t", row(id, random.next())).unwrap();
                one.commit().unwrap();
                commits.fetch_add(1, Ordering::Relaxed);
            }
        });
        let asking: Vec<_> = (0..ASKING)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..EACH {
                        let end = store.statistics().pages.log_end;
                        let before = commits.load(Ordering::Relaxed);
                        let report = store.checkpoint().unwrap();
                        assert!(report.to >= report.target && report.target >= end);
                        assert!(report.from <= report.to);
                        let now = commits.load(Ordering::Relaxed);
                        during.fetch_add(now - before, Ordering::Relaxed);
                    }
                })
            })
            .collect();
        for one in asking {
            one.join().unwrap();
        }
        stop.store(true, Ordering::Relaxed);
    });
    let statistics = store.statistics().pages;
    let during = during.into_inner();
    println!("{during} commits during checkpoints, {statistics:?}");
    let asked = (ASKING * EACH) as u64;
    assert_eq!(statistics.flush.checkpoints_asked, asked);
    assert!(during > asked, "{during}");
    store.close().unwrap();
}

/// Pages leave memory all the time, and each batch takes these first: there is
/// room in it for the checkpoint all the same.
#[test]
fn a_checkpoint_ends_while_pages_have_to_leave_memory() {
    let disk = slow_disk(50);
    let mut options = roomy(&disk, Preflush::Steady);
    options.pages.pool_bytes = (POOL_PAGES_MIN * 4096) as u64;
    let store = Store::create(DIRECTORY, &options).unwrap();
    store.create_table(&schema("t")).unwrap();
    for part in 0..40 {
        insert(&store, part * 100..(part + 1) * 100);
    }
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = Random(6);
            while !stop.load(Ordering::Relaxed) {
                let mut one = store.begin();
                let id = random.below(4000) as i64;
                one.update("t", row(id, random.next())).unwrap();
                one.commit().unwrap();
            }
        });
        for _ in 0..10 {
            let report = store.checkpoint().unwrap();
            assert!(report.to >= report.target, "{report:?}");
        }
        stop.store(true, Ordering::Relaxed);
    });
    store.close().unwrap();
}

fn is_failed(error: &Error) -> bool {
    matches!(error, Error::Pages(PagesError::Failed { .. }))
}

/// Returns whether a checkpoint met the fault.
fn fails_on(arena: &Arena, operation: u64, fault: &str) -> bool {
    let plan = format!("{fault}=#{operation}");
    let disk = SimulatedDisk::builder().faults(plan.parse().unwrap());
    let disk = disk.build().unwrap();
    let mut options = options(&disk, arena);
    options.durability = Durability::Lazy;
    let Ok(store) = Store::create(DIRECTORY, &options) else {
        return false;
    };
    if store.create_table(&schema("t")).is_err() {
        return false;
    }
    for round in 0..6 {
        let mut one = store.begin();
        let ids = round * 10..(round + 1) * 10;
        let done = ids.map(|id| one.insert("t", row(id, 0)));
        let done = done.collect::<Result<(), Error>>();
        if done.and_then(|()| one.commit()).is_err() {
            return false;
        }
        if let Err(error) = store.checkpoint() {
            assert!(is_failed(&error), "{plan}: {error}");
            // For good, and at once.
            assert!(is_failed(&store.checkpoint().unwrap_err()), "{plan}");
            return true;
        }
    }
    false
}

/// Who waits for a checkpoint learns that there will be none.
#[test]
fn a_checkpoint_on_a_disk_that_fails_says_so() {
    let arena = arena();
    let mut met = 0;
    for operation in (20..200).step_by(3) {
        for fault in ["eio-write", "eio-sync"] {
            met += u64::from(fails_on(&arena, operation, fault));
        }
    }
    println!("{met} checkpoints failed");
    assert!(met > 0);
}
