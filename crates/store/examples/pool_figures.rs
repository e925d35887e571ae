//! What the buffer pool costs: a page in memory, a page on disk, a change.
//!
//! `cargo run --release -p iolane-store --example pool_figures -- DIRECTORY`
//! makes a store of 512 MiB there, with a pool of a tenth, and removes it.

use iolane::Engine;
use iolane_store::access::{MiniTransaction, Pages, PagesError};
use iolane_store::ids::PageId;
use iolane_store::page::Op;
use iolane_store::page::header::PageKind;
use iolane_store::{PageStore, PageStoreOptions, Role};
use std::error::Error;
use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PAGES: u32 = 32 << 10;
const RUN: Duration = Duration::from_secs(3);

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % sides
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1).ok_or("which directory?")?;
    let path = PathBuf::from(directory).join("pool_figures");
    let result = run(&path);
    std::fs::remove_dir_all(&path)?;
    result
}

fn run(path: &std::path::Path) -> Result<(), Box<dyn Error>> {
    let options = PageStoreOptions {
        pool_bytes: u64::from(PAGES) * 16384 / 10,
        ..PageStoreOptions::default()
    };
    let store = PageStore::create(Arc::new(Engine::new()?), path, &options)?;
    let ids = fill(&store)?;
    store.close()?;
    let (store, _) = PageStore::open(Arc::new(Engine::new()?), path, &options, &mut |_| {})?;
    cached(&store, &ids[..1000])?;
    for threads in [1, 2, 4, 16] {
        uncached(&store, &ids, threads)?;
    }
    for depth in [4, 16, 64] {
        ahead(&store, &ids, depth)?;
    }
    changes(&store, &ids[..1000], "cached")?;
    changes(&store, &ids, "10 times the pool")?;
    println!("{:?}", store.statistics());
    store.close()?;
    Ok(())
}

fn fill(store: &PageStore) -> Result<Vec<PageId>, Box<dyn Error>> {
    let space = store.create_space("t")?;
    let segment = store.create_segment(space)?;
    let begun = Instant::now();
    let mut ids = Vec::new();
    while ids.len() < PAGES as usize {
        let mut mini = store.begin(&[segment], 16)?;
        for _ in 0..16 {
            let id = mini.allocate(segment, None);
            let kind = PageKind::Overflow;
            mini.apply(
                id,
                &Op::Format {
                    kind,
                    level: 0,
                    owner: 1,
                },
            );
            ids.push(id);
        }
        mini.commit();
    }
    let rate = f64::from(PAGES) / begun.elapsed().as_secs_f64();
    println!("new pages, one thread: {rate:.0}/s");
    Ok(ids)
}

fn touch(store: &PageStore, id: PageId) -> Result<u64, PagesError> {
    loop {
        match store.shared(id) {
            Ok(page) => return Ok(u64::from(page[100])),
            Err(miss) => store.load(miss)?,
        }
    }
}

fn cached(store: &PageStore, ids: &[PageId]) -> Result<(), Box<dyn Error>> {
    for &id in ids.iter().chain(ids) {
        touch(store, id)?;
    }
    for threads in [1, 2] {
        let times = 2_000_000_u64;
        let busy_ns = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let busy_ns = &busy_ns;
                scope.spawn(move || {
                    let mut dice = Dice(77 + thread);
                    let before_ns = on_processor_ns();
                    for _ in 0..times {
                        let id = ids[dice.roll(ids.len())];
                        black_box(touch(store, id).map(|byte| byte + 1)).ok();
                    }
                    let spent_ns = on_processor_ns() - before_ns;
                    busy_ns.fetch_add(spent_ns, Ordering::Relaxed);
                });
            }
        });
        let each_ns = busy_ns.into_inner() as f64 / (threads * times) as f64;
        println!("page in memory, {threads} threads: {each_ns:.1} ns of each processor");
    }
    Ok(())
}

/// Time that this thread has had a processor: others may want them too.
fn on_processor_ns() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = schedstat.split(' ').next();
    first.and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Each thread waits for its own pages.
fn uncached(store: &PageStore, ids: &[PageId], threads: u64) -> Result<(), Box<dyn Error>> {
    let before = store.statistics().pool.reads;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut dice = Dice(99 + thread);
                while begun.elapsed() < RUN {
                    touch(store, ids[dice.roll(ids.len())]).expect("a page");
                }
            });
        }
    });
    let reads = store.statistics().pool.reads - before;
    let rate = reads as f64 / begun.elapsed().as_secs_f64();
    println!("random pages, {threads} threads that wait: {rate:.0} reads/s");
    Ok(())
}

/// One thread that keeps `depth` reads ahead of itself.
fn ahead(store: &PageStore, ids: &[PageId], depth: usize) -> Result<(), Box<dyn Error>> {
    let mut dice = Dice(1234);
    let before = store.statistics().pool.reads;
    let begun = Instant::now();
    let mut next: Vec<PageId> = Vec::new();
    let mut coming: std::collections::VecDeque<PageId> = Default::default();
    while begun.elapsed() < RUN {
        next.clear();
        while coming.len() + next.len() < depth {
            next.push(ids[dice.roll(ids.len())]);
        }
        store.prefetch(&next, Role::Scan);
        coming.extend(&next);
        for _ in 0..(depth / 4).max(1) {
            touch(store, coming.pop_front().expect("filled above"))?;
        }
    }
    let reads = store.statistics().pool.reads - before;
    let rate = reads as f64 / begun.elapsed().as_secs_f64();
    println!("random pages, one thread, {depth} ahead: {rate:.0} reads/s");
    Ok(())
}

fn changes(store: &PageStore, ids: &[PageId], what: &str) -> Result<(), Box<dyn Error>> {
    let count = AtomicU64::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..2 {
            let count = &count;
            scope.spawn(move || {
                let mut dice = Dice(5 + thread);
                while begun.elapsed() < RUN {
                    change(store, ids[dice.roll(ids.len())]).expect("a page");
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    let rate = count.into_inner() as f64 / begun.elapsed().as_secs_f64();
    println!("changes of one page, {what}, 2 threads: {rate:.0}/s");
    Ok(())
}

fn change(store: &PageStore, id: PageId) -> Result<(), PagesError> {
    loop {
        let mut mini = store.begin(&[], 0)?;
        if let Err(miss) = mini.exclusive(id) {
            drop(mini);
            store.load(miss)?;
            continue;
        }
        mini.apply(
            id,
            &Op::Patch {
                offset: 100,
                bytes: &[1; 100],
            },
        );
        mini.commit();
        return Ok(());
    }
}
