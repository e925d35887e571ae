//! Copies or atomic writes: what is chosen, why, and what becomes of the other.

mod area;
mod rig;
mod simulated;
mod workload;

use iolane::{Arena, SimulatedDisk};
use iolane_store::{DOUBLEWRITE_FILE, Error, Store, StoreError, StoreOptions, TornPages};
use rig::Watchdog;
use simulated::*;
use std::time::Duration;
use workload::*;

fn careful(min_bytes: u32, max_bytes: u32) -> SimulatedDisk {
    let disk = SimulatedDisk::builder().atomic_unit(min_bytes, max_bytes);
    disk.build().unwrap()
}

fn plain() -> SimulatedDisk {
    SimulatedDisk::builder().build().unwrap()
}

fn wanting(torn_pages: TornPages, disk: &SimulatedDisk, arena: &Arena) -> StoreOptions {
    let mut options = options(disk, arena);
    options.pages.torn_pages = torn_pages;
    options
}

/// Pages that the doublewrite area has copies of.
fn copies(disk: &SimulatedDisk) -> usize {
    let name = format!("{DIRECTORY}/{DOUBLEWRITE_FILE}");
    area::copies(&disk.contents(&name).unwrap()).count()
}

#[test]
fn what_is_chosen_is_what_the_files_allow() {
    let arena = arena();
    let mut buffered = wanting(TornPages::Auto, &careful(4096, 4096), &arena);
    buffered.pages.direct = false;
    for (options, atomic, why) in [
        (
            wanting(TornPages::Auto, &careful(512, 65536), &arena),
            true,
            "all files take 4096 bytes whole",
        ),
        (
            wanting(TornPages::Atomic, &careful(4096, 4096), &arena),
            true,
            "all files take 4096 bytes whole",
        ),
        (
            wanting(TornPages::Doublewrite, &careful(4096, 4096), &arena),
            false,
            "it was asked for",
        ),
        (
            wanting(TornPages::Auto, &plain(), &arena),
            false,
            "offers no atomic writes",
        ),
        (
            wanting(TornPages::Auto, &careful(512, 2048), &arena),
            false,
            "512 to 2048 bytes, and a page has 4096",
        ),
        (buffered, false, "not open for direct I/O"),
    ] {
        for is_new in [true, false] {
            let opened = match is_new {
                true => Store::create(DIRECTORY, &options),
                false => Store::open(DIRECTORY, &options),
            };
            let store = opened.unwrap();
            let chosen = store.torn_pages();
            assert_eq!(chosen.is_atomic(), atomic, "{chosen:?}");
            assert!(chosen.why().contains(why), "{chosen:?}");
            store.close().unwrap();
        }
    }
}

#[test]
fn atomic_writes_that_cannot_be_had_are_an_error() {
    let arena = arena();
    let disk = plain();
    let wanted = wanting(TornPages::Atomic, &disk, &arena);
    let refused = |opened: Result<Store, Error>| {
        let error = opened.err().expect("an error");
        let Error::Files(StoreError::NoAtomicWrites { reason, .. }) = &error else {
            panic!("{error}");
        };
        assert!(reason.contains("offers no atomic writes"), "{error}");
    };
    refused(Store::create(DIRECTORY, &wanted));
    // Nothing is left that is in the way of the next.
    let auto = wanting(TornPages::Auto, &disk, &arena);
    Store::create(DIRECTORY, &auto).unwrap().close().unwrap();
    refused(Store::open(DIRECTORY, &wanted));
    Store::open(DIRECTORY, &auto).unwrap().close().unwrap();
}

#[test]
fn the_area_is_used_by_copies_alone() {
    let arena = arena();
    let disk = careful(4096, 4096);
    let open = |torn_pages| Store::open(DIRECTORY, &wanting(torn_pages, &disk, &arena)).unwrap();
    let auto = wanting(TornPages::Auto, &disk, &arena);
    let store = Store::create(DIRECTORY, &auto).unwrap();
    let state = fill(&store, 40, |_| ()).unwrap();
    // What is left alone is written after a while.
    let watchdog = Watchdog::start();
    watchdog.at("pages are written");
    let flushed = loop {
        let flushed = store.statistics().pages.flush;
        if flushed.pages > 0 && flushed.syncs > 0 {
            break flushed;
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    drop(watchdog);
    assert_eq!(flushed.area_syncs, 0);
    store.close().unwrap();
    assert_eq!(copies(&disk), 0);

    let store = open(TornPages::Doublewrite);
    let state = {
        let mut last = state;
        run(&store, last.clone(), 7, 30, |state| last = state.clone()).unwrap();
        last
    };
    store.close().unwrap();
    assert!(copies(&disk) > 0);

    // Copies would be older than what is written from now on.
    let store = open(TornPages::Auto);
    assert_eq!(copies(&disk), 0);
    let mut last = state.clone();
    run(&store, state, 8, 30, |state| last = state.clone()).unwrap();
    store.close().unwrap();
    assert_eq!(copies(&disk), 0);
    let store = open(TornPages::Doublewrite);
    assert_eq!(read(&store), last);
    assert!(store.check().unwrap().is_clean());
}
