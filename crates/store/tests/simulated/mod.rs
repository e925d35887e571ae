//! A store on a simulated disk.
#![allow(dead_code, reason = "each test file uses a part")]

use iolane::{Arena, Engine, Level, OpenOptions, SimulatedDisk};
use iolane_disk::fault::{Fault, FaultPlan, Rule, Trigger};
use iolane_disk::{Command, Done, Model};
use iolane_store::{POOL_PAGES_MIN, PageStoreOptions, SimulatedNames, StoreOptions};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Where the store is on the disk.
pub const DIRECTORY: &str = "store";

/// Small pages, the smallest pool and log that there can be.
fn pages() -> PageStoreOptions {
    PageStoreOptions {
        page_bytes: 4096,
        pool_bytes: (POOL_PAGES_MIN * 4096) as u64,
        log_bytes: 1 << 20,
        ..PageStoreOptions::default()
    }
}

/// Memory for one store after the other.
pub fn arena() -> Arena {
    let bytes = pages().arena_bytes();
    Arena::builder().bytes(bytes).build().unwrap()
}

/// How a store on `disk` is opened.
pub fn options(disk: &SimulatedDisk, arena: &Arena) -> StoreOptions {
    StoreOptions {
        pages: PageStoreOptions {
            names: Arc::new(SimulatedNames::new(disk)),
            arena: Some(arena.clone()),
            ..pages()
        },
        engine: Some(Arc::new(Engine::builder().simulated(disk).build().unwrap())),
        lock_timeout: Duration::from_secs(20),
        undo_slots: 4,
        purge_thread: false,
        ..StoreOptions::default()
    }
}

/// How long each command of a [`TimedDisk`] takes.
#[derive(Clone, Default)]
pub struct Latency(Arc<AtomicU64>);

impl Latency {
    /// From the next command on.
    pub fn set_us(&self, latency_us: u64) {
        self.0.store(latency_us * 1000, Ordering::Relaxed);
    }

    pub fn is_none(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }
}

/// A disk all of whose commands take equally long: as long as the test says. It
/// is filled in no time, and then so slow that any machine is fast beside it.
pub struct TimedDisk {
    latency: Latency,
    queue_max: usize,
    outstanding: VecDeque<Done>,
}

impl TimedDisk {
    /// One that takes so many commands at once.
    pub fn new(queue_max: usize, latency: &Latency) -> TimedDisk {
        TimedDisk {
            latency: latency.clone(),
            queue_max,
            outstanding: VecDeque::new(),
        }
    }
}

impl Model for TimedDisk {
    fn capacity_bytes(&self) -> u64 {
        1 << 34
    }

    fn queue_max(&self) -> usize {
        self.queue_max
    }

    fn submit(&mut self, now_ns: u64, command: Command) {
        // None is done before those that came earlier.
        let last_ns = self.outstanding.back().map_or(0, |done| done.at_ns);
        let at_ns = now_ns + self.latency.0.load(Ordering::Relaxed);
        self.outstanding.push_back(Done {
            tag: command.tag,
            at_ns: at_ns.max(last_ns),
        });
    }

    fn next_event_ns(&self) -> Option<u64> {
        self.outstanding.front().map(|done| done.at_ns)
    }

    fn advance(&mut self, now_ns: u64, done: &mut Vec<Done>) {
        let due = |first: &Done| first.at_ns <= now_ns;
        while self.outstanding.front().is_some_and(due) {
            done.extend(self.outstanding.pop_front());
        }
    }
}

/// Tries something on ever slower disks, until the machine is fast beside one:
/// what depends on how fast it is holds there, and what is wrong does not.
pub fn on_slower_disks(
    latency: &Latency,
    latencies_us: &[u64],
    mut attempt: impl FnMut() -> Result<(), String>,
) {
    let mut failed = Vec::new();
    for &latency_us in latencies_us {
        latency.set_us(latency_us);
        match attempt() {
            Ok(()) => return,
            Err(why) => failed.push(format!("{latency_us} us: {why}")),
        }
    }
    panic!("{failed:#?}");
}

/// All files of a disk.
pub fn files(disk: &SimulatedDisk) -> Vec<(String, Vec<u8>)> {
    let names = disk.names().into_iter();
    let files = names.filter_map(|name| {
        let contents = disk.contents(&name)?;
        Some((name, contents))
    });
    files.collect()
}

/// Writes files of a simulated disk to a real directory.
pub fn save(files: &[(String, Vec<u8>)], directory: &Path) {
    std::fs::create_dir_all(directory).unwrap();
    for (name, contents) in files {
        let name = Path::new(name).file_name().unwrap();
        std::fs::write(directory.join(name), contents).unwrap();
    }
}

/// A disk with what was [`save`]d.
pub fn load(directory: &Path) -> SimulatedDisk {
    let entries = std::fs::read_dir(directory).unwrap();
    let read = entries.map(|entry| {
        let path = entry.unwrap().path();
        let name = Path::new(DIRECTORY).join(path.file_name().unwrap());
        let name = name.to_str().unwrap().to_owned();
        (name, std::fs::read(path).unwrap())
    });
    disk_with(&read.collect::<Vec<_>>())
}

/// A disk with these files.
pub fn disk_with(files: &[(String, Vec<u8>)]) -> SimulatedDisk {
    let disk = SimulatedDisk::builder().build().unwrap();
    let engine = Engine::builder().simulated(&disk).build().unwrap();
    let mut create = OpenOptions::new();
    create.read(true).write(true).create(true);
    for (name, contents) in files {
        let file = engine.open(name, &create).unwrap();
        for (index, bytes) in contents.chunks(1 << 20).enumerate() {
            file.write_at(bytes, (index as u64) << 20, Level::Normal)
                .unwrap();
        }
        file.sync(Level::Normal).unwrap();
    }
    disk
}

/// A plan that only counts.
pub fn counting() -> FaultPlan {
    let rule = Rule {
        fault: Fault::Stall { duration_ns: 0 },
        trigger: Trigger::Probability(1.0),
        range: None,
    };
    FaultPlan {
        seed: 0,
        rules: vec![rule],
    }
}

/// Operations on which a plan had an effect.
pub fn operations(disk: &SimulatedDisk) -> u64 {
    disk.faults().unwrap().log().total
}

/// Numbers by seed: splitmix64 (Vigna 2015).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A number from the environment.
pub fn setting(name: &str, default: u64) -> u64 {
    let set = std::env::var(name).ok().and_then(|text| text.parse().ok());
    let value = set.unwrap_or(default);
    println!("{name}={value}");
    value
}
