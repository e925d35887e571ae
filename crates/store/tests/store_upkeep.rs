//! Checks and backups beside transactions, and given up on the way.

mod simulated;
mod workload;

use iolane::{Arena, SimulatedDisk};
use iolane_store::{Error, Names, SimulatedNames, Store, StoreOptions};
use simulated::*;
use std::cell::Cell;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use workload::*;

const TABLES: usize = 3;
const ROWS: u64 = 300;

struct Rig {
    arena: Arena,
    disk: SimulatedDisk,
}

impl Rig {
    fn new() -> Rig {
        let disk = SimulatedDisk::builder().build().unwrap();
        Rig {
            arena: arena(),
            disk,
        }
    }

    fn options(&self) -> StoreOptions {
        options(&self.disk, &self.arena)
    }

    /// A store with tables that take some time to be walked.
    fn store(&self) -> Store {
        let store = Store::create(DIRECTORY, &self.options()).unwrap();
        for number in 0..TABLES {
            let name = format!("t{number}");
            store.create_table(&schema(&name)).unwrap();
            let mut one = store.begin();
            for id in 0..ROWS as i64 {
                one.insert(&name, row(id, 1)).unwrap();
            }
            one.commit().unwrap();
        }
        store
    }
}

fn row(id: i64, round: u64) -> iolane_store::data::Row {
    let tag = id * 1000 + (round % 1000) as i64;
    let text = "x".repeat(50 + round as usize % 400);
    vec![id.into(), tag.into(), "group".into(), text.into()]
}

struct SetOnDrop<'a>(&'a AtomicBool);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// While a check walks a store, others commit, and are not taken for damage.
#[test]
fn commits_go_on_during_a_check() {
    /// Many, or checks would go on with nothing beside them.
    const UNPURGED_MAX: u64 = 2000;
    let rig = Rig::new();
    let mut options = rig.options();
    options.purge_thread = true;
    rig.store().close().unwrap();
    let store = Store::open(DIRECTORY, &options).unwrap();
    let (stop, commits) = (AtomicBool::new(false), AtomicU64::new(0));
    let (mut during, mut checks) = (0, 0);
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let (store, stop, commits) = (&store, &stop, &commits);
            scope.spawn(move || {
                // Also when it panics: or checks would go on for nothing.
                let _stop = SetOnDrop(stop);
                let mut random = Random(thread);
                while !stop.load(Ordering::Relaxed) {
                    // Faster than purge can follow beside checks, they would fill
                    // any space with undo, and each check would take longer.
                    if store.statistics().unpurged > UNPURGED_MAX {
                        std::thread::sleep(Duration::from_millis(1));
                        continue;
                    }
                    let mut one = store.begin();
                    let name = format!("t{}", random.below(TABLES as u64));
                    // Each has rows of its own.
                    let id = (random.below(ROWS / 2) * 2 + thread) as i64;
                    if random.below(4) == 0 {
                        one.delete(&name, &[id.into()]).unwrap();
                    } else if !one.update(&name, row(id, random.next())).unwrap() {
                        one.insert(&name, row(id, random.next())).unwrap();
                    }
                    one.commit().unwrap();
                    commits.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _stop = SetOnDrop(&stop);
        while commits.load(Ordering::Relaxed) == 0 && !stop.load(Ordering::Relaxed) {
            std::thread::yield_now();
        }
        // On a busy machine they may be slow for a while.
        let are_few = |during, checks| during <= 5 * checks && checks < 200;
        while !stop.load(Ordering::Relaxed) && (checks < 20 || are_few(during, checks)) {
            checks += 1;
            let before = commits.load(Ordering::Relaxed);
            let report = store.check().unwrap();
            during += commits.load(Ordering::Relaxed) - before;
            assert!(report.is_clean(), "{:#?}", report.findings);
            assert_eq!(report.tables, TABLES as u64);
        }
    });
    println!("{during} commits during {checks} checks");
    // Each has some 30 steps; with a single one, only two could slip through.
    assert!(during > 5 * checks, "{during} during {checks}");
}

/// Between two pages or rows nothing is held, of whatever: a commit comes
/// through while the check stands still there.
#[test]
fn a_check_holds_nothing_while_it_walks() {
    let rig = Rig::new();
    let store = rig.store();
    std::thread::scope(|scope| {
        let (ask, asked) = mpsc::channel::<()>();
        let (answer, answered) = mpsc::channel::<()>();
        let store = &store;
        scope.spawn(move || {
            for (number, ()) in asked.iter().enumerate() {
                let mut one = store.begin();
                let id = (number as u64 % ROWS) as i64;
                // Of the same length, so that no page is split.
                assert!(one.update("t0", row(id, 1)).unwrap());
                one.commit().unwrap();
                answer.send(()).unwrap();
            }
        });
        let commits = Cell::new(0);
        let report = store.check_while(&|| {
            // In time even on a busy machine, unless it waits for the check.
            ask.send(()).unwrap();
            answered.recv_timeout(Duration::from_secs(120)).unwrap();
            commits.set(commits.get() + 1);
            true
        });
        drop(ask);
        let report = report.unwrap();
        assert!(report.is_clean(), "{:#?}", report.findings);
        assert!(commits.get() > 2 * ROWS * TABLES as u64);
    });
}

/// Transactions that may wait to be purged before their thread waits for that:
/// threads that only change rows are faster than purge.
const UNPURGED_MAX: u64 = 100;

/// One transaction of all kinds of changes: few rows and many, long ones,
/// ranges, savepoints, rollbacks.
fn change_in_all_ways(store: &Store, random: &mut Random, name: &str, table: &mut Table) {
    let mut one = store.begin();
    let mut changed = table.clone();
    let count = 1 + random.below(12);
    change(random, &mut one, name, &mut changed, count).unwrap();
    if random.below(3) == 0 {
        let savepoint = one.savepoint().unwrap();
        change(random, &mut one, name, &mut changed.clone(), count).unwrap();
        one.rollback_to(savepoint).unwrap();
    }
    // In tens of leaves, which come and go.
    let first = 1000 + random.below(20) as i64 * 20;
    let is_there = changed.contains_key(&first);
    for id in first..first + 20 {
        let row = vec![id.into(), id.into(), "many".into(), "y".repeat(300).into()];
        if is_there {
            assert!(one.delete(name, &[id.into()]).unwrap());
            changed.remove(&id);
        } else {
            one.insert(name, row.clone()).unwrap();
            changed.insert(id, row);
        }
    }
    if random.below(4) == 0 {
        one.rollback().unwrap();
    } else {
        one.commit().unwrap();
        *table = changed;
    }
}

/// Changes of all kinds, purge, tables that come and go: nothing of it is taken
/// for damage.
#[test]
fn a_check_beside_changes_of_all_kinds_finds_nothing() {
    let seed = setting("IOLANE_TEST_SEED", 20_261_122);
    let least = setting("IOLANE_TEST_CHECKS", 20);
    let rig = Rig::new();
    let mut options = rig.options();
    options.purge_thread = true;
    options.pages.arena = None;
    options.pages.pool_bytes *= 2;
    options.pages.log_bytes = 4 << 20;
    let store = Store::create(DIRECTORY, &options).unwrap();
    let stop = AtomicBool::new(false);
    let ended = AtomicU64::new(0);
    let names = ["t0", "t1", "t2", "comes_and_goes"];
    std::thread::scope(|scope| {
        for (number, name) in names.into_iter().enumerate() {
            let (store, stop, ended) = (&store, &stop, &ended);
            scope.spawn(move || {
                let mut random = Random(seed + number as u64);
                let mut table = Table::new();
                store.create_table(&schema(name)).unwrap();
                while !stop.load(Ordering::Relaxed) {
                    change_in_all_ways(store, &mut random, name, &mut table);
                    ended.fetch_add(1, Ordering::Relaxed);
                    if number == names.len() - 1 && random.below(20) == 0 {
                        store.drop_table(name).unwrap();
                        table.clear();
                        store.create_table(&schema(name)).unwrap();
                    }
                    while store.statistics().unpurged > UNPURGED_MAX
                        && !stop.load(Ordering::Relaxed)
                    {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            });
        }
        let mut checks = 0;
        let mut findings = Vec::new();
        while findings.is_empty() && checks < least {
            checks += 1;
            // Not before there is something new.
            let before = ended.load(Ordering::Relaxed);
            while ended.load(Ordering::Relaxed) < before + 5 {
                std::thread::sleep(Duration::from_millis(1));
            }
            findings = store.check().unwrap().findings;
        }
        stop.store(true, Ordering::Relaxed);
        assert!(findings.is_empty(), "check {checks}: {findings:#?}");
    });
    assert!(store.check().unwrap().is_clean());
    println!("{} transactions", ended.into_inner());
}

/// Asks `limit` times, and then no more.
fn only(limit: u64) -> impl Fn() -> bool {
    let asked = Cell::new(0);
    move || {
        asked.set(asked.get() + 1);
        asked.get() <= limit
    }
}

#[test]
fn a_check_ends_whenever_it_is_no_longer_wanted() {
    let rig = Rig::new();
    let store = rig.store();
    let asked = Cell::new(0_u64);
    let whole = store.check_while(&|| {
        asked.set(asked.get() + 1);
        true
    });
    assert!(whole.unwrap().is_clean());
    let asked = asked.get();
    assert!(asked > 2 * TABLES as u64 * ROWS);
    for limit in (0..asked).step_by(asked as usize / 20) {
        let stopped = store.check_while(&only(limit));
        assert!(matches!(stopped, Err(Error::Stopped)), "after {limit}");
        // Nothing is held.
        let mut one = store.begin();
        assert!(one.update("t0", row(1, limit)).unwrap());
        one.commit().unwrap();
    }
    assert!(store.check().unwrap().is_clean());
}

#[test]
fn a_backup_that_is_given_up_leaves_nothing() {
    let rig = Rig::new();
    let store = rig.store();
    // Memory of its own: both are open at once.
    let options = options(&rig.disk, &arena());
    let names = SimulatedNames::new(&rig.disk);
    let left = || names.list(Path::new("copy.part")).unwrap();
    for limit in [0, 1, ROWS, ROWS + 1, TABLES as u64 * ROWS - 1] {
        let stopped = store.backup_while("copy", &options, &only(limit));
        assert!(matches!(stopped, Err(Error::Stopped)), "after {limit}");
        assert_eq!(left(), Vec::<std::path::PathBuf>::new(), "after {limit}");
    }
}

/// A copy is of the moment of its view, whatever was made, loaded or dropped around it.
#[test]
fn a_backup_has_the_tables_of_its_moment() {
    let rig = Rig::new();
    let store = rig.store();
    // Memory of its own: both are open at once.
    let options = options(&rig.disk, &arena());
    let load = |name: &str| {
        let mut one = store.begin();
        let mut load = one.load(&schema(name)).unwrap();
        for id in 0..10 {
            load.push(&one, row(id, 1)).unwrap();
        }
        load.finish(&one).unwrap();
        drop(load);
        one.commit().unwrap();
    };
    let mut backup = store.begin_backup().unwrap();
    let dropped = store.drop_table("t1").unwrap_err();
    assert!(matches!(dropped, Error::TableInUse(_)), "{dropped}");
    load("before");
    backup.open_view().unwrap();
    load("after");
    let mut one = store.begin();
    assert!(one.delete("t0", &[0.into()]).unwrap());
    one.commit().unwrap();
    let rows = backup.copy_while("copy", &options, &|| true).unwrap();
    assert_eq!(rows, TABLES as u64 * ROWS + 10);
    store.drop_table("t1").unwrap();
    let copy = Store::open("copy", &options).unwrap();
    assert_eq!(copy.table_names(), ["before", "t0", "t1", "t2"]);
    assert!(copy.begin().get("t0", &[0.into()]).unwrap().is_some());
    assert!(copy.check().unwrap().is_clean());
}

/// What lies where the copy is to be made, until it is complete, may be another
/// backup's, or anything: it is left alone.
#[test]
fn a_backup_touches_no_files_of_others() {
    let rig = Rig::new();
    let store = rig.store();
    let options = options(&rig.disk, &arena());
    let other = Store::create("copy.part", &options).unwrap();
    let before = files(&rig.disk).len();
    let refused = store.backup("copy", &options).unwrap_err();
    assert!(refused.to_string().contains("copy.part"), "{refused}");
    assert_eq!(files(&rig.disk).len(), before);
    other.close().unwrap();
}

/// A file is made longer ahead of a load, by an eighth at a time: the load may
/// end anywhere.
#[test]
fn a_loaded_table_has_little_room_to_spare() {
    const EXTENT: u64 = 64;
    let rig = Rig::new();
    let store = Store::create(DIRECTORY, &rig.options()).unwrap();
    // The last one ends a little behind a power of two.
    for rows in [100, 3_000, 17_000] {
        store.create_table(&schema("t")).unwrap();
        let loaded = store.bulk_load("t", (0..rows).map(|id| row(id, 500)));
        assert_eq!(loaded.unwrap(), rows as u64);
        let space = store.table_space("t").unwrap();
        println!("{rows} rows: {space:?}");
        // The last extent of each of three trees' leaves is not full, the
        // shared ones are not, and one more is the least that a file grows by.
        let most = space.used + space.used / 8 + (3 + 2 + 1) * EXTENT;
        assert!(space.pages <= most, "{rows} rows: {space:?}");
        store.drop_table("t").unwrap();
    }
}
