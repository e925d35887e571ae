//! How changed pages are written: batches that overlap, the three policies,
//! checkpoints that nobody waits for.

mod pages;
mod simulated;

use iolane::{Engine, Level, SimulatedDisk};
use iolane_store::access::{MiniTransaction, Pages};
use iolane_store::ids::PageId;
use iolane_store::page::Op;
use iolane_store::page::header::SPECIFIC;
use iolane_store::{IoPolicy, PageStore, PageStoreOptions, Preflush, SimulatedNames};
use pages::*;
use simulated::{DIRECTORY, Latency, TimedDisk, on_slower_disks};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const POOL_PAGES: u64 = 1000;

/// Every transfer and every sync takes so long.
fn disk(latency_us: u64) -> SimulatedDisk {
    let latency = Latency::default();
    latency.set_us(latency_us);
    timed_disk(&latency)
}

fn timed_disk(latency: &Latency) -> SimulatedDisk {
    let model = Box::new(TimedDisk::new(64, latency));
    SimulatedDisk::builder().model(model).build().unwrap()
}

fn options_on(disk: &SimulatedDisk, preflush: Preflush) -> PageStoreOptions {
    PageStoreOptions {
        page_bytes: 4096,
        pool_bytes: POOL_PAGES * 4096,
        log_bytes: 16 << 20,
        io: IoPolicy {
            preflush,
            ..IoPolicy::AGGRESSIVE
        },
        names: Arc::new(SimulatedNames::new(disk)),
        ..PageStoreOptions::default()
    }
}

/// A store whose table has `count` pages, all in their places.
fn filled(
    disk: &SimulatedDisk,
    options: &PageStoreOptions,
    count: u64,
) -> (PageStore, Vec<PageId>) {
    let engine = || Arc::new(Engine::builder().simulated(disk).build().unwrap());
    let store = PageStore::create(engine(), Path::new(DIRECTORY), options).unwrap();
    let space = store.create_space("t").unwrap();
    let segment = store.create_segment(space).unwrap();
    let pages = (0..count)
        .map(|value| add(&store, segment, value).unwrap().0)
        .collect();
    store.close().unwrap();
    let opened = PageStore::open(engine(), Path::new(DIRECTORY), options, &mut |_| ());
    (opened.unwrap().0, pages)
}

/// Changes these pages, each in a mini-transaction of its own.
fn change(store: &PageStore, pages: &[PageId]) {
    for &page in pages {
        update(store, &[page], |value| value + 1000).unwrap();
    }
}

/// The same, with all of the page in the log: that is full within a second on
/// any machine.
fn change_whole(store: &PageStore, pages: &[PageId]) {
    let mut left = pages.iter().copied().peekable();
    while let Some(&page) = left.peek() {
        let mut mini = store.begin(&[], 0).unwrap();
        if let Err(miss) = mini.exclusive(page) {
            drop(mini);
            store.load(miss).unwrap();
            continue;
        }
        let value = number(mini.page(page)) + 1000;
        let bytes = mini.page(page)[SPECIFIC..].to_vec();
        let bytes = &bytes;
        mini.apply(page, &Op::Image { level: 0, bytes });
        write(&mut mini, page, value);
        mini.commit();
        left.next();
    }
}

/// Waits until `reached` says so; time-outs are for tests that hang.
fn until(what: &str, mut reached: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !reached() {
        assert!(begin.elapsed() < Duration::from_secs(120), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn assert_changed(store: &PageStore, pages: &[PageId]) {
    for (value, &page) in pages.iter().enumerate() {
        assert_eq!(read(store, page).unwrap(), value as u64 + 1000);
    }
}

/// Three times the pool: frames come free only as pages are written.
const LARGE: u64 = 3 * POOL_PAGES;

#[test]
fn steady_batches_overlap_and_share_syncs() {
    let latency = Latency::default();
    let disk = timed_disk(&latency);
    let options = options_on(&disk, Preflush::Steady);
    let (store, pages) = filled(&disk, &options, LARGE);
    let mut rounds = 0;
    on_slower_disks(&latency, &[300, 3000, 30_000], || {
        let before = store.statistics().flush;
        change(&store, &pages);
        rounds += 1;
        let flush = store.statistics().flush;
        println!("{flush:?}");
        let shared = flush.syncs - before.syncs < flush.batches - before.batches;
        let is_due = flush.flights_max >= 3 && shared;
        is_due.then_some(()).ok_or(format!("{before:?}, {flush:?}"))
    });
    for (value, &page) in pages.iter().enumerate() {
        assert_eq!(read(&store, page).unwrap(), value as u64 + 1000 * rounds);
    }
    store.close().unwrap();
}

#[test]
fn conservative_batches_are_small_and_alone() {
    let disk = disk(50);
    let options = options_on(&disk, Preflush::Idle);
    let (store, pages) = filled(&disk, &options, LARGE);
    change(&store, &pages);
    let statistics = store.statistics();
    let flush = statistics.flush;
    println!("{statistics:?}");
    assert!(flush.pages > 0 && flush.flights_max == 1, "{flush:?}");
    assert!(flush.batch_pages_max <= 64, "{flush:?}");
    // Only for somebody who waited.
    assert!(statistics.frame_waits.count > 0, "{statistics:?}");
    assert_eq!(flush.levels[Level::Background.index()], 0);
    assert_changed(&store, &pages);
    store.close().unwrap();
}

#[test]
fn conservative_pages_are_written_when_nothing_else_is_done() {
    let disk = disk(50);
    let options = options_on(&disk, Preflush::Idle);
    let (store, pages) = filled(&disk, &options, 300);
    let begin = Instant::now();
    change(&store, &pages);
    until("pages are written", || {
        store.statistics().flush.pages >= 250
    });
    let statistics = store.statistics();
    // A hundred a second, not before the first second without activity.
    assert!(begin.elapsed() >= Duration::from_secs(3), "{statistics:?}");
    assert!(statistics.flush.batch_pages_max <= 100, "{statistics:?}");
    let prefetch = statistics.flush.levels[Level::Prefetch.index()];
    assert!(prefetch >= statistics.flush.pages, "{statistics:?}");
    assert_eq!(statistics.frame_waits.count, 0);
    store.close().unwrap();
}

/// The paper's steps, as the pool fills with changes. Free frames are those
/// without: of 1000 less the few that the store itself has changed.
#[test]
fn the_papers_steps_are_taken_once_a_second() {
    let disk = disk(50);
    let options = options_on(&disk, Preflush::Steps);
    let (store, pages) = filled(&disk, &options, 900);
    let levels = |level: Level| store.statistics().flush.levels[level.index()];
    change(&store, &pages[..480]);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(store.statistics().flush.pages, 0, "52 % are free");
    // 45 % are free: 64 a second, until half are.
    change(&store, &pages[480..550]);
    until("64 pages", || levels(Level::Prefetch) > 0);
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(levels(Level::Prefetch), 64);
    assert_eq!(levels(Level::Foreground), 0);
    // 10 % are free, however much is written meanwhile: high priority too.
    until("high priority", || {
        change(&store, &pages);
        levels(Level::Foreground) > 0
    });
    until("all of them", || levels(Level::Foreground) >= 100);
    let statistics = store.statistics();
    println!("{statistics:?}");
    assert_eq!(statistics.frame_waits.count, 0);
    assert_eq!(statistics.flush.flights_max, 1);
    store.close().unwrap();
}

/// Nobody waits for a checkpoint while the log is not full: of many, and with
/// the pool full of changes all the time. That the log is not full is seen to,
/// however long the flusher has to wait for a processor: that it makes room
/// without anybody waiting for it is its own.
#[test]
fn nobody_waits_for_checkpoints() {
    let disk = disk(100);
    let options = options_on(&disk, Preflush::Steady);
    let (store, pages) = filled(&disk, &options, POOL_PAGES * 6 / 10);
    let mut dice = Dice(9);
    let mut longest = Duration::ZERO;
    let mut number = 0u64;
    while store.statistics().flush.checkpoints < 20 {
        number += 1;
        assert!(number < 10_000_000, "{:?}", store.statistics());
        until("there is room in the log", || store.log().pressure() < 0.95);
        let begin = Instant::now();
        drop(store.begin(&[], 0).unwrap());
        longest = longest.max(begin.elapsed());
        let page = pages[dice.roll(pages.len() as u64) as usize];
        let lsn = update(&store, &[page], |value| value + 1).unwrap();
        if number.is_multiple_of(500) {
            store.make_durable(lsn).unwrap();
        }
    }
    let statistics = store.statistics();
    println!("{number} changes, longest begin() {longest:?}, {statistics:?}");
    assert_eq!(statistics.log_waits.count, 0, "{statistics:?}");
    store.close().unwrap();
}

/// A log that is too small for the writers: they wait for room, and go on.
#[test]
fn a_full_log_is_back_pressure_under_every_policy() {
    /// Over all pages, each of which is logged as a whole: six times the log.
    const ROUNDS: u64 = 4;
    for preflush in [Preflush::Idle, Preflush::Steps, Preflush::Steady] {
        let disk = disk(200);
        let options = PageStoreOptions {
            log_bytes: 2 << 20,
            ..options_on(&disk, preflush)
        };
        let (store, pages) = filled(&disk, &options, 800);
        std::thread::scope(|scope| {
            for part in pages.chunks(200) {
                let store = &store;
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        change_whole(store, part);
                    }
                });
            }
        });
        let statistics = store.statistics();
        println!("{preflush:?}: {statistics:?}");
        assert!(statistics.flush.checkpoints > 0);
        if preflush != Preflush::Steady {
            assert!(statistics.log_waits.count > 0, "{statistics:?}");
        }
        for (value, &page) in pages.iter().enumerate() {
            assert_eq!(read(&store, page).unwrap(), value as u64 + 1000 * ROUNDS);
        }
        store.close().unwrap();
    }
}

/// Changes pages on a disk one of whose operations fails; returns how many
/// batches were under way at most, `None` if it failed too early or too late.
fn change_on_a_failing_disk(plan: &str, latency: &Latency) -> Option<u64> {
    let disk = SimulatedDisk::builder()
        .seed(plan.len() as u64)
        .faults(plan.parse().unwrap());
    let disk = match latency.is_none() {
        true => disk,
        false => disk.model(Box::new(TimedDisk::new(64, latency))),
    };
    let disk = disk.build().unwrap();
    let options = options_on(&disk, Preflush::Steady);
    let engine = || Arc::new(Engine::builder().simulated(&disk).build().unwrap());
    let store = PageStore::create(engine(), Path::new(DIRECTORY), &options).ok()?;
    let space = store.create_space("t").ok()?;
    let segment = store.create_segment(space).ok()?;
    let pages: Result<Vec<PageId>, _> = (0..LARGE)
        .map(|value| add(&store, segment, value).map(|(id, _)| id))
        .collect();
    let pages = pages.ok()?;
    store.make_durable(store.log().end()).ok()?;
    let mut durable = 0;
    let failed = pages.iter().enumerate().find_map(|(number, &page)| {
        let changed = update(&store, &[page], |value| value + 1000).and_then(|lsn| {
            if number % 50 == 49 {
                store.make_durable(lsn)?;
                durable = number + 1;
            }
            Ok(())
        });
        changed.err()
    });
    let flights = store.statistics().flush.flights_max;
    // The end writes, and may fail too.
    let closed = store.close();
    let failed = failed.or(closed.err())?;
    assert!(failed.to_string().contains("Input/output"), "{failed}");
    let opened = PageStore::open(engine(), Path::new(DIRECTORY), &options, &mut |_| ());
    let (store, _) = opened.unwrap_or_else(|error| panic!("{plan}: {error}"));
    for (number, &page) in pages.iter().enumerate() {
        let found = read(&store, page).unwrap();
        let (before, after) = (number as u64, number as u64 + 1000);
        let possible = found == after || (found == before && number >= durable);
        assert!(
            possible,
            "{plan}: page {number} has {found}, {durable} durable"
        );
    }
    Some(flights)
}

#[test]
fn a_write_or_sync_that_fails_while_batches_overlap_loses_nothing() {
    let latency = Latency::default();
    on_slower_disks(&latency, &[0, 300, 3000], || {
        let mut seen = 0;
        let mut most = 0;
        for operation in (150..2400).step_by(75) {
            for fault in ["eio-write", "eio-sync"] {
                let plan = format!("{fault}=#{operation}");
                if let Some(flights) = change_on_a_failing_disk(&plan, &latency) {
                    seen += 1;
                    most = most.max(flights);
                }
            }
        }
        println!("{seen} failed, {most} batches under way");
        let told = format!("{seen} failed, {most} under way");
        (seen > 0 && most >= 2).then_some(()).ok_or(told)
    });
}

/// Pages that the flusher has begun to write.
fn begun_pages(store: &PageStore) -> u64 {
    store.statistics().flush.levels.iter().sum()
}

/// On a real file, past the page cache: there is nothing left to write when it
/// is to be durable.
#[test]
fn what_was_written_is_made_durable_alone() {
    let directory = directory();
    let options = options();
    let store = create(directory.path(), &options);
    let space = store.create_space("t").unwrap();
    let segment = store.create_segment(space).unwrap();
    let mut alone = 0;
    for value in 0..20 {
        let begun = begun_pages(&store);
        let (_, lsn) = add(&store, segment, value).unwrap();
        store.make_written(lsn).unwrap();
        if store.log().durable() < lsn {
            alone += 1;
        } else {
            // Else it is when a page is written, before which its log must be.
            until("the flusher has come by", || begun_pages(&store) > begun);
        }
        store.make_durable(lsn).unwrap();
        assert!(store.log().durable() >= lsn);
    }
    assert!(alone > 0);
    store.close().unwrap();
}
