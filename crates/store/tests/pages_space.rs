//! Files that grow, pages that threads take and give back, a log that goes
//! round.

mod pages;

use iolane::Level;
use iolane_store::access::{MiniTransaction, Pages};
use iolane_store::ids::PageId;
use iolane_store::page::Op;
use iolane_store::page::header::PageKind;
use iolane_store::{PageStore, PageStoreOptions};
use pages::*;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn threads_never_share_a_page() {
    let directory = directory();
    let options = options();
    let store = create(directory.path(), &options);
    let space = store.create_space("t").unwrap();
    let segments = [(); 3].map(|()| store.create_segment(space).unwrap());
    let before = store.spaces()[1].used;
    let held: Vec<Vec<(PageId, u64)>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|thread: u64| {
                let store = &store;
                scope.spawn(move || {
                    let mut dice = Dice(0xd1ce + thread);
                    let mut mine: Vec<(PageId, u64)> = Vec::new();
                    for step in 0..1500 {
                        let segment = segments[thread as usize % 3];
                        if dice.roll(100) < 55 && mine.len() < 150 {
                            let value = thread << 32 | step;
                            mine.push((add(store, segment, value).unwrap().0, value));
                        } else if !mine.is_empty() {
                            let at = dice.roll(mine.len() as u64) as usize;
                            let (id, value) = mine.swap_remove(at);
                            assert_eq!(read(store, id).unwrap(), value);
                            let mut mini = store.begin(&[segment], 0).unwrap();
                            mini.free(segment, id);
                            mini.commit();
                        }
                    }
                    mine
                })
            })
            .collect();
        let joined = threads.into_iter().map(|thread| thread.join().unwrap());
        joined.collect()
    });
    let held: Vec<(PageId, u64)> = held.into_iter().flatten().collect();
    assert_eq!(store.spaces()[1].used, before + held.len() as u64);
    store.close().unwrap();
    let (store, _) = open(directory.path(), &options);
    assert_eq!(store.spaces()[1].used, before + held.len() as u64);
    for (id, value) in held {
        assert_eq!(read(&store, id).unwrap(), value);
    }
}

/// Each 16,384 pages there is one that says which of them are in use.
#[test]
fn a_file_grows_into_its_second_group() {
    const AT_ONCE: u32 = 25;
    let directory = directory();
    let options = options();
    let store = create(directory.path(), &options);
    let space = store.create_space("t").unwrap();
    let segment = store.create_segment(space).unwrap();
    let mut last = Vec::new();
    while last.last().is_none_or(|id: &PageId| id.page < 16_384 + 200) {
        let mut mini = store.begin(&[segment], AT_ONCE).unwrap();
        last.clear();
        for _ in 0..AT_ONCE {
            let id = mini.allocate(segment, last.last().copied());
            assert_ne!(id.page % 16_384, 1, "{id} says which pages are in use");
            mini.apply(
                id,
                &Op::Format {
                    kind: PageKind::Leaf,
                    level: 0,
                    owner: 1,
                },
            );
            write(&mut mini, id, u64::from(id.page));
            last.push(id);
        }
        mini.commit();
    }
    let spaces = store.spaces();
    // A sixteenth of its size at a time.
    assert!(spaces[1].pages < 16_384 * 9 / 8, "{spaces:?}");
    store.close().unwrap();
    let (store, _) = open(directory.path(), &options);
    assert_eq!(store.spaces(), spaces);
    for id in last {
        assert_eq!(read(&store, id).unwrap(), u64::from(id.page));
    }
    store.drop_segment(segment).unwrap();
    // What is left: the header, the table, two that say what is in use.
    assert_eq!(store.spaces()[1].used, 4);
    store.close().unwrap();
    let (store, _) = open(directory.path(), &options);
    assert_eq!(store.spaces()[1].used, 4);
}

/// Whole pages are logged, ten times what the log holds.
#[test]
fn a_full_log_makes_writers_wait_and_not_fail() {
    let directory = directory();
    let options = PageStoreOptions {
        log_bytes: 1 << 20,
        ..options()
    };
    let store = create(directory.path(), &options);
    let segment = store.create_segment(0).unwrap();
    let ids: Vec<PageId> = (0..40)
        .map(|n| add(&store, segment, n).unwrap().0)
        .collect();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (store, ids) = (&store, &ids);
            scope.spawn(move || {
                let mut dice = Dice(0xf00d + thread);
                for _ in 0..700 {
                    let id = ids[dice.roll(40) as usize];
                    let mut mini = store.begin(&[], 0).unwrap();
                    if let Err(miss) = mini.exclusive(id) {
                        drop(mini);
                        store.load(miss).unwrap();
                        continue;
                    }
                    let number = number(mini.page(id));
                    let mut bytes = mini.page(id)[32..].to_vec();
                    bytes[100..3000].fill(number as u8);
                    mini.apply(
                        id,
                        &Op::Image {
                            level: 0,
                            bytes: &bytes,
                        },
                    );
                    write(&mut mini, id, number + 1000);
                    mini.commit();
                }
            });
        }
    });
    let statistics = store.statistics();
    assert!(statistics.log_end.0 > 8 << 20, "{statistics:?}");
    assert!(statistics.flush.checkpoints > 8, "{statistics:?}");
    assert!(statistics.log_end.0 - statistics.checkpoint.0 <= 1 << 20);
    let values: Vec<u64> = ids.iter().map(|&id| read(&store, id).unwrap()).collect();
    store.close().unwrap();
    let (store, _) = open(directory.path(), &options);
    for (&id, value) in ids.iter().zip(values) {
        assert_eq!(read(&store, id).unwrap(), value);
    }
}

/// The page by which a file is known is torn: its copy tells.
#[test]
fn a_torn_header_is_found_by_its_name() {
    let directory = directory();
    let options = options();
    let store = create(directory.path(), &options);
    let space = store.create_space("grown").unwrap();
    store.create_space("other").unwrap();
    let segment = store.create_segment(space).unwrap();
    let mut ids: Vec<PageId> = (0..70)
        .map(|n| add(&store, segment, n).unwrap().0)
        .collect();
    // The header is among the last that are written.
    store.checkpoint().unwrap();
    let size = store.spaces()[1].pages;
    while store.spaces()[1].pages == size {
        ids.push(add(&store, segment, ids.len() as u64).unwrap().0);
    }
    store.close().unwrap();
    let path = directory.path().join("grown@1.ts");
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.write_all_at(&[0xff; 2000], 0).unwrap();
    let (store, report) = open(directory.path(), &options);
    assert_eq!(report.restored, 1);
    for (value, &id) in (0..).zip(&ids) {
        assert_eq!(read(&store, id).unwrap(), value);
    }
}

/// Nobody waits for what is written here, so nobody is disturbed by it.
#[test]
fn what_nobody_waits_for_is_written_in_the_background() {
    let directory = directory();
    let options = PageStoreOptions {
        pool_bytes: 1000 * 4096,
        log_bytes: 16 << 20,
        ..options()
    };
    let engine = Arc::new(iolane::Engine::new().unwrap());
    let store = PageStore::create(Arc::clone(&engine), directory.path(), &options).unwrap();
    let segment = store.create_segment(0).unwrap();
    let ids: Vec<PageId> = (0..300)
        .map(|n| add(&store, segment, n).unwrap().0)
        .collect();
    let written = |level: Level| {
        let devices = engine.devices();
        let levels = devices.iter().map(|device| device.statistics().levels);
        levels
            .map(|all| all[level as usize].write.requests)
            .sum::<u64>()
    };
    let before = [Level::Foreground, Level::Prefetch].map(written);
    // At rest, all of it is written after a while.
    let begun = Instant::now();
    while store.statistics().pool.dirty > 0 || store.statistics().checkpoint < store.log().end() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "still not written"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(written(Level::Background) >= 600);
    assert_eq!([Level::Foreground, Level::Prefetch].map(written), before);
    // Nothing is left to do for those who come after a crash, or at the end.
    let pages = store.statistics().flush.pages;
    update(&store, &ids[..2], |value| value + 1).unwrap();
    store.close().unwrap();
    assert!(pages >= 300);
}
