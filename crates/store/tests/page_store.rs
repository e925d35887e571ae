//! Pages that are made, changed, evicted, read again and found after reopening.

mod pages;
mod simulated;

use iolane::{Engine, SimulatedDisk, WindowConfig};
use iolane_store::access::{MiniTransaction, Pages, PagesError};
use iolane_store::ids::{PageId, SegmentId};
use iolane_store::{
    DirectoryLock, IoPolicy, Names, PageStore, PageStoreOptions, PoolError, Preflush, Role,
    SimulatedNames, StoreError,
};
use pages::*;
use simulated::{DIRECTORY, Latency, TimedDisk, on_slower_disks};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

#[test]
fn what_was_written_is_there_after_reopening() {
    let directory = directory();
    for page_bytes in [4096, 16384, 65536] {
        let path = directory.path().join(page_bytes.to_string());
        let options = PageStoreOptions {
            page_bytes,
            pool_bytes: 80 * page_bytes as u64,
            log_bytes: 16 << 20,
            ..options()
        };
        let store = create(&path, &options);
        let space = store.create_space("table").unwrap();
        let segment = store.create_segment(space).unwrap();
        let ids: Vec<PageId> = (0..300)
            .map(|value| add(&store, segment, value).unwrap().0)
            .collect();
        for (value, &id) in ids.iter().enumerate() {
            assert_eq!(read(&store, id).unwrap(), value as u64);
        }
        let statistics = store.statistics();
        assert!(statistics.pool.evictions > 200, "{statistics:?}");
        let used = store.spaces()[1].used;
        store.close().unwrap();

        let (store, report) = open(&path, &options);
        // An orderly end leaves nothing to repeat.
        assert_eq!((report.records, report.restored), (0, 0));
        assert_eq!(store.spaces()[1].used, used);
        for (value, &id) in ids.iter().enumerate() {
            assert_eq!(read(&store, id).unwrap(), value as u64);
        }
        // Nothing that is in use is given again.
        let (id, _) = add(&store, segment, 1).unwrap();
        assert!(!ids.contains(&id));
        store.close().unwrap();
    }
}

/// Threads move amounts between random pages of a set many times the pool, and
/// one checks all the time that the sum of two pages that change together
/// stays what it is.
#[test]
fn threads_share_a_pool_that_is_too_small() {
    const PAIRS: u64 = 400;
    let directory = directory();
    let options = options();
    let store = create(directory.path(), &options);
    let space = store.create_space("pairs").unwrap();
    let segment = store.create_segment(space).unwrap();
    let pages: Vec<PageId> = (0..2 * PAIRS)
        .map(|_| add(&store, segment, 1000).unwrap().0)
        .collect();
    let rounds = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (store, pages, rounds) = (&store, &pages, &rounds);
            scope.spawn(move || {
                let mut dice = Dice(0x5eed + thread);
                for _ in 0..1500 {
                    let pair = 2 * dice.roll(PAIRS) as usize;
                    let pair = [pages[pair], pages[pair + 1]];
                    if dice.roll(3) == 0 {
                        store.prefetch(&pages[..32], Role::Scan);
                    }
                    if dice.roll(2) == 0 {
                        let up = AtomicU64::new(0);
                        // The first of a pair goes up, the second down.
                        update(store, &pair, |value| {
                            match up.fetch_add(1, Ordering::Relaxed) {
                                0 => value + 1,
                                _ => value - 1,
                            }
                        })
                        .unwrap();
                        rounds.fetch_add(1, Ordering::Relaxed);
                    } else {
                        assert_eq!(sum(store, pair).unwrap(), 2000);
                    }
                }
            });
        }
    });
    for pair in pages.chunks(2) {
        assert_eq!(sum(&store, [pair[0], pair[1]]).unwrap(), 2000);
    }
    let statistics = store.statistics();
    assert!(statistics.minis >= 2 * PAIRS + rounds.load(Ordering::Relaxed));
    assert!(statistics.flush.pages > 500, "{statistics:?}");
    assert!(statistics.pool.evictions > 3000, "{statistics:?}");
    store.close().unwrap();
    let (store, _) = open(directory.path(), &options);
    for pair in pages.chunks(2) {
        assert_eq!(sum(&store, [pair[0], pair[1]]).unwrap(), 2000);
    }
}

/// Both pages under latches at once.
fn sum(store: &iolane_store::PageStore, pair: [PageId; 2]) -> Result<u64, PagesError> {
    loop {
        let missing = match (store.shared(pair[0]), store.shared(pair[1])) {
            (Ok(first), Ok(second)) => return Ok(number(&first) + number(&second)),
            (Err(miss), _) | (_, Err(miss)) => miss,
        };
        store.load(missing)?;
    }
}

#[test]
fn pages_and_segments_that_are_given_back_are_used_again() {
    let directory = directory();
    let options = options();
    let store = create(directory.path(), &options);
    let space = store.create_space("t").unwrap();
    let kept = store.create_segment(space).unwrap();
    let keep: Vec<PageId> = (0..40).map(|n| add(&store, kept, n).unwrap().0).collect();
    let used = |store: &iolane_store::PageStore| store.spaces()[1].used;
    let before = used(&store);
    for round in 0..3 {
        let segment = store.create_segment(space).unwrap();
        let pages: Vec<PageId> = (0..250)
            .map(|n| add(&store, segment, n).unwrap().0)
            .collect();
        assert_eq!(used(&store), before + 250);
        // A third one by one, the rest with the segment.
        for &id in pages.iter().step_by(3) {
            let mut mini = store.begin(&[segment], 0).unwrap();
            mini.free(segment, id);
            mini.commit();
        }
        store.drop_segment(segment).unwrap();
        store.drop_segment(segment).unwrap();
        assert_eq!(used(&store), before, "round {round}");
    }
    let size = store.spaces()[1].pages;
    assert!(size <= 8 * 64, "{size} pages for never more than 300");
    assert!(store.begin(&[SegmentId { space, number: 9 }], 1).is_err());
    store.close().unwrap();
    let (store, _) = open(directory.path(), &options);
    assert_eq!(used(&store), before);
    for (value, &id) in keep.iter().enumerate() {
        assert_eq!(read(&store, id).unwrap(), value as u64);
    }
}

#[test]
fn many_segments_lengthen_their_table() {
    let directory = directory();
    let options = options();
    let store = create(directory.path(), &options);
    let space = store.create_space("t").unwrap();
    let segments: Vec<SegmentId> = (0..100)
        .map(|_| store.create_segment(space).unwrap())
        .collect();
    let pages: Vec<PageId> = segments
        .iter()
        .map(|&segment| add(&store, segment, u64::from(segment.number)).unwrap().0)
        .collect();
    store.drop_segment(segments[50]).unwrap();
    store.close().unwrap();
    let (store, _) = open(directory.path(), &options);
    for (segment, &page) in segments.iter().zip(&pages) {
        assert_eq!(read(&store, page).unwrap(), u64::from(segment.number));
    }
    assert_eq!(store.create_segment(space).unwrap(), segments[50]);
}

#[test]
fn a_mini_transaction_that_changes_nothing_leaves_nothing() {
    let directory = directory();
    let store = create(directory.path(), &options());
    let segment = store.create_segment(0).unwrap();
    let used = store.spaces()[0].used;
    let end = store.log().end();
    for _ in 0..200 {
        let mut mini = store.begin(&[segment], 5).unwrap();
        mini.allocate(segment, None);
        drop(mini);
        store.begin(&[segment], 5).unwrap().commit();
    }
    assert_eq!((store.spaces()[0].used, store.log().end()), (used, end));
    // Frames of what was allocated and given up are found free at need.
    store.begin(&[segment], 25).unwrap();
}

#[test]
fn a_hint_keeps_pages_together() {
    let directory = directory();
    let store = create(directory.path(), &options());
    let [a, b] = [(); 2].map(|()| store.create_segment(0).unwrap());
    let mut last = None;
    let mut far = 0;
    for _ in 0..300 {
        for segment in [a, b] {
            let mut mini = store.begin(&[segment], 2).unwrap();
            let hint = last.filter(|_| segment == a);
            let id = mini.allocate(segment, hint);
            mini.commit();
            if segment == a {
                let near = last.is_none_or(|last: PageId| id.page.abs_diff(last.page) <= 2);
                far += u32::from(!near);
                last = Some(id);
            }
        }
    }
    // Once for each whole extent, once for each shared one.
    assert!(far <= 300 / 64 + 3, "{far} jumps");
}

#[test]
fn tablespaces_come_and_go() {
    let directory = directory();
    let options = options();
    let store = create(directory.path(), &options);
    let first = store.create_space("first").unwrap();
    assert!(matches!(
        store.create_space("first"),
        Err(StoreError::Exists { .. })
    ));
    for name in ["", ".hidden", "a/b", "nul\0"] {
        let refused = store.create_space(name);
        assert!(matches!(refused, Err(StoreError::Name { .. })), "{name:?}");
    }
    let segment = store.create_segment(first).unwrap();
    let (id, lsn) = add(&store, segment, 5).unwrap();
    store.make_durable(lsn).unwrap();
    store.drop_space(first).unwrap();
    let refused = store.drop_space(first);
    assert!(matches!(refused, Err(StoreError::NoSpace { .. })));
    assert!(matches!(
        read(&store, id),
        Err(PagesError::Unreadable { page, .. }) if page == id
    ));
    assert!(store.begin(&[segment], 1).is_err());
    // A number is never given twice, so old redo cannot reach a new file.
    let second = store.create_space("first").unwrap();
    assert_ne!(second, first);
    store.close().unwrap();
    let (store, _) = open(directory.path(), &options);
    let names: Vec<String> = store.spaces().into_iter().map(|space| space.name).collect();
    assert_eq!(names, ["system", "first"]);
}

#[test]
fn reading_ahead_is_not_in_the_way() {
    let directory = directory();
    let options = options();
    let store = create(directory.path(), &options);
    let segment = store.create_segment(0).unwrap();
    let ids: Vec<PageId> = (0..400)
        .map(|n| add(&store, segment, n).unwrap().0)
        .collect();
    store.close().unwrap();
    let (store, _) = open(directory.path(), &options);
    assert_eq!(store.prefetch(&ids[..32], Role::Scan), 32);
    assert_eq!(store.prefetch(&ids[..32], Role::Scan), 0);
    for (value, &id) in ids[..32].iter().enumerate() {
        assert_eq!(read(&store, id).unwrap(), value as u64);
    }
    let reads = store.statistics().pool.reads;
    // More than fit: frames of reads that nobody came for are used again.
    for _ in 0..10 {
        store.prefetch(&ids[32..], Role::Check);
        for (value, &id) in ids.iter().enumerate().skip(200) {
            assert_eq!(read(&store, id).unwrap(), value as u64);
        }
    }
    let statistics = store.statistics().pool;
    assert!(statistics.reads > reads && statistics.prefetches > 32);
    assert!(statistics.prefetches_wasted > 0, "{statistics:?}");
    // Never more than half of the frames, and those come free again.
    let never_seen: Vec<PageId> = (4000..8000).map(|page| PageId::new(0, page)).collect();
    for _ in 0..20 {
        assert!(store.prefetch(&never_seen, Role::Check) <= 50);
        read(&store, ids[0]).unwrap();
    }
}

#[test]
fn what_cannot_be_is_refused_before_it_begins() {
    let directory = directory();
    let engine = || std::sync::Arc::new(iolane::Engine::new().unwrap());
    let make = |name: &str, options: &PageStoreOptions| {
        iolane_store::PageStore::create(engine(), &directory.path().join(name), options)
    };
    let small = PageStoreOptions {
        pool_bytes: 63 * 4096,
        ..options()
    };
    match make("small", &small) {
        Err(StoreError::Pool(error @ PoolError::TooSmall { .. })) => {
            assert!(error.to_string().contains("at least 262144 bytes"));
        }
        other => panic!("{:?}", other.err()),
    }
    for page_bytes in [2048, 5000, 128 << 10] {
        let odd = PageStoreOptions {
            page_bytes,
            ..options()
        };
        let refused = make("odd", &odd).err().unwrap();
        assert!(refused.to_string().contains("power of two"), "{refused}");
    }
    let short = PageStoreOptions {
        log_bytes: 64 << 10,
        ..options()
    };
    let refused = make("short", &short).err().unwrap();
    assert!(refused.to_string().contains("too small"), "{refused}");

    let store = make("good", &options()).unwrap();
    assert!(matches!(
        make("good", &options()),
        Err(StoreError::Exists { .. })
    ));
    let segment = store.create_segment(0).unwrap();
    // A quarter of the pool is as much as one may take.
    store.begin(&[segment], 25).unwrap();
    match store.begin(&[segment], 26).err() {
        Some(PagesError::NoSpace { reason, .. }) => assert!(reason.contains("pool")),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_change_that_is_given_up_fails_the_store() {
    let directory = directory();
    let options = options();
    let store = create(directory.path(), &options);
    let segment = store.create_segment(0).unwrap();
    let (id, lsn) = add(&store, segment, 5).unwrap();
    store.make_durable(lsn).unwrap();
    let given_up = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut mini = store.begin(&[], 0).unwrap();
        mini.exclusive(id).unwrap();
        write(&mut mini, id, 6);
    }));
    assert!(given_up.is_err());
    assert!(matches!(
        store.begin(&[], 0).err(),
        Some(PagesError::Failed { .. })
    ));
    // Half of a change is nobody's to see.
    assert!(matches!(read(&store, id), Err(PagesError::Failed { .. })));
    assert!(matches!(store.close(), Err(PagesError::Failed { .. })));
    let (store, _) = open(directory.path(), &options);
    assert_eq!(read(&store, id).unwrap(), 5);
}

#[test]
fn a_store_that_cannot_be_made_leaves_nothing() {
    // Room for the area, but not for the log.
    for capacity_bytes in [1 << 20, 3 << 20] {
        let disk = SimulatedDisk::builder().capacity_bytes(capacity_bytes);
        let disk = disk.build().unwrap();
        let engine = Arc::new(Engine::builder().simulated(&disk).build().unwrap());
        let options = PageStoreOptions {
            names: Arc::new(SimulatedNames::new(&disk)),
            ..options()
        };
        for _ in 0..2 {
            let made = PageStore::create(Arc::clone(&engine), Path::new(DIRECTORY), &options);
            let refused = made.err().unwrap();
            assert!(!matches!(refused, StoreError::Exists { .. }), "{refused}");
            assert_eq!(disk.names(), Vec::<String>::new(), "{refused}");
        }
    }
}

/// Looks at a store just before the file of a tablespace that is dropped loses its
/// name, and just before that is durable.
#[derive(Debug)]
struct Dropping {
    names: SimulatedNames,
    store: Mutex<Weak<PageStore>>,
    /// Is told whether it still has the name.
    look: fn(&PageStore, bool) -> u64,
    seen: Mutex<Vec<u64>>,
}

impl Dropping {
    fn look(&self, has_name: bool) {
        let store = self.store.lock().unwrap().upgrade();
        if let Some(store) = store {
            self.seen
                .lock()
                .unwrap()
                .push((self.look)(&store, has_name));
        }
    }
}

fn dropping(disk: &SimulatedDisk, look: fn(&PageStore, bool) -> u64) -> Arc<Dropping> {
    Arc::new(Dropping {
        names: SimulatedNames::new(disk),
        store: Mutex::default(),
        look,
        seen: Mutex::default(),
    })
}

impl Names for Dropping {
    fn make_directory(&self, directory: &Path) -> io::Result<()> {
        self.names.make_directory(directory)
    }

    fn exists(&self, path: &Path) -> bool {
        self.names.exists(path)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<PathBuf>> {
        self.names.list(directory)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.names.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.look(true);
        self.names.remove(path)
    }

    fn remove_directory(&self, directory: &Path) -> io::Result<()> {
        self.names.remove_directory(directory)
    }

    fn sync(&self, directory: &Path) -> io::Result<()> {
        self.look(false);
        self.names.sync(directory)
    }

    fn lock(&self, directory: &Path) -> io::Result<Option<DirectoryLock>> {
        self.names.lock(directory)
    }
}

/// A checkpoint must not pass them before: after a power cut the file may be
/// there again, without what they said, and redo would find it so.
#[test]
fn a_dropped_tablespaces_pages_are_forgotten_after_its_file() {
    let disk = SimulatedDisk::builder().build().unwrap();
    let names = dropping(&disk, |store, _| store.statistics().pool.dirty);
    let options = PageStoreOptions {
        names: Arc::clone(&names) as Arc<dyn Names>,
        io: IoPolicy {
            preflush: Preflush::Steps,
            ..IoPolicy::PAPER
        },
        ..options()
    };
    let engine = Arc::new(Engine::builder().simulated(&disk).build().unwrap());
    let store = PageStore::create(engine, Path::new(DIRECTORY), &options).unwrap();
    let store = Arc::new(store);
    let space = store.create_space("comes_and_goes").unwrap();
    let segment = store.create_segment(space).unwrap();
    for value in 0..20 {
        add(&store, segment, value).unwrap();
    }
    let dirty = store.statistics().pool.dirty;
    assert!(dirty >= 20, "{dirty}");
    *names.store.lock().unwrap() = Arc::downgrade(&store);
    store.drop_space(space).unwrap();
    assert_eq!(*names.seen.lock().unwrap(), [dirty; 2]);
    assert!(store.statistics().pool.dirty <= dirty - 20);
}

/// The flusher may come upon them when the file has no name any more and is not
/// open, as more files than may be open are in use.
#[test]
fn a_dropped_tablespaces_pages_are_written_though_its_file_was_closed() {
    let disk = SimulatedDisk::builder().build().unwrap();
    let names = dropping(&disk, |store, has_name| {
        if !has_name {
            store.checkpoint().unwrap();
        }
        store.statistics().pool.dirty
    });
    let options = PageStoreOptions {
        names: Arc::clone(&names) as Arc<dyn Names>,
        files_max: 2,
        ..options()
    };
    let engine = Arc::new(Engine::builder().simulated(&disk).build().unwrap());
    let store = PageStore::create(engine, Path::new(DIRECTORY), &options).unwrap();
    let store = Arc::new(store);
    let dropped = store.create_space("comes_and_goes").unwrap();
    let segment = store.create_segment(dropped).unwrap();
    add(&store, segment, 1).unwrap();
    let kept: Vec<_> = ["a", "b"]
        .iter()
        .map(|name| {
            let space = store.create_space(name).unwrap();
            let segment = store.create_segment(space).unwrap();
            add(&store, segment, 2).unwrap()
        })
        .collect();
    *names.store.lock().unwrap() = Arc::downgrade(&store);
    store.drop_space(dropped).unwrap();
    *names.store.lock().unwrap() = Weak::new();
    for (id, _) in kept {
        assert_eq!(read(&store, id).unwrap(), 2);
    }
    store.check_failure().unwrap();
}

/// A read that was submitted without hurry goes past the others when a thread
/// waits for its page.
#[test]
fn who_waits_for_a_page_hurries_its_read() {
    let latency = Latency::default();
    let model = Box::new(TimedDisk::new(1, &latency));
    let disk = SimulatedDisk::builder().model(model).build().unwrap();
    let options = PageStoreOptions {
        pool_bytes: 400 * 4096,
        names: Arc::new(SimulatedNames::new(&disk)),
        ..options()
    };
    let engine = || {
        let engine = Engine::builder().simulated(&disk);
        let engine = engine.configure(|_, config| config.window = WindowConfig::Fixed(1));
        Arc::new(engine.build().unwrap())
    };
    let path = Path::new(DIRECTORY);
    let store = PageStore::create(engine(), path, &options).unwrap();
    let segment = store.create_segment(0).unwrap();
    let ids: Vec<PageId> = (0..300)
        .map(|n| add(&store, segment, n).unwrap().0)
        .collect();
    store.close().unwrap();
    // Others may stop this thread for as long as all reads take.
    on_slower_disks(&latency, &[100, 1000, 10_000, 50_000], || {
        let opened = PageStore::open(engine(), path, &options, &mut |_| {});
        let (store, _) = opened.unwrap();
        // Two apart: neighbours would be read as one.
        let apart: Vec<PageId> = ids.iter().copied().step_by(2).collect();
        assert_eq!(store.prefetch(&apart, Role::Check), apart.len());
        let last = apart[apart.len() - 1];
        assert_eq!(read(&store, last).unwrap(), 298);
        let waiting = apart.iter().filter(|&&id| store.shared(id).is_err());
        let waiting = waiting.count();
        latency.set_us(0);
        let told = format!("{waiting} of {} still on their way", apart.len());
        (waiting > apart.len() / 2).then_some(()).ok_or(told)
    });
}
