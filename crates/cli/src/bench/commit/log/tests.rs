//! Durability, against a file that knows what would survive a crash.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use super::super::record::decode;
use super::*;

/// Writes go to a cache; a sync makes durable what had been written when it
/// began, and nothing else.
#[derive(Clone)]
struct CrashFile(Arc<Crash>);

struct Crash {
    block_bytes: usize,
    capacity_bytes: u64,
    images: Mutex<Images>,
    syncs: AtomicU64,
    sync_time: Duration,
    /// The sync of this number fails.
    failing_sync: Option<u64>,
}

struct Images {
    written: Vec<u8>,
    durable: Vec<u8>,
}

impl CrashFile {
    fn new(capacity_bytes: u64, sync_time: Duration, failing_sync: Option<u64>) -> Self {
        // What was in the file before must not be taken for records.
        let old = vec![0xa5; capacity_bytes as usize];
        Self(Arc::new(Crash {
            block_bytes: 512,
            capacity_bytes,
            images: Mutex::new(Images {
                written: old.clone(),
                durable: old,
            }),
            syncs: AtomicU64::new(0),
            sync_time,
            failing_sync,
        }))
    }

    fn syncs(&self) -> u64 {
        self.0.syncs.load(Ordering::Relaxed)
    }

    /// What a crash now would leave.
    fn durable(&self) -> Vec<u8> {
        lock(&self.0.images).durable.clone()
    }

    fn is_durable(&self, lsn: u64, record_bytes: usize) -> Option<Tag> {
        tag_at(&lock(&self.0.images).durable, lsn, record_bytes)
    }
}

fn tag_at(image: &[u8], lsn: u64, record_bytes: usize) -> Option<Tag> {
    let capacity = image.len() as u64;
    let bytes: Vec<u8> = (lsn..lsn + record_bytes as u64)
        .map(|at| image[(at % capacity) as usize])
        .collect();
    decode(&bytes, lsn)
}

impl LogFile for CrashFile {
    type Error = &'static str;

    fn block_bytes(&self) -> usize {
        self.0.block_bytes
    }

    fn capacity_bytes(&self) -> u64 {
        self.0.capacity_bytes
    }

    fn write(&self, blocks: &[u8], offset: u64) -> Result<(), &'static str> {
        assert!(blocks.len().is_multiple_of(self.0.block_bytes));
        assert!(offset.is_multiple_of(self.0.block_bytes as u64));
        let offset = offset as usize;
        // Arrives bit by bit, as far as others can see.
        for (index, block) in blocks.chunks(self.0.block_bytes).enumerate() {
            let at = offset + index * self.0.block_bytes;
            lock(&self.0.images).written[at..at + block.len()].copy_from_slice(block);
            thread::yield_now();
        }
        Ok(())
    }

    fn make_durable(&self) -> Result<(), &'static str> {
        let number = self.0.syncs.fetch_add(1, Ordering::Relaxed);
        let at_begin = lock(&self.0.images).written.clone();
        thread::sleep(self.0.sync_time);
        if self.0.failing_sync == Some(number) {
            return Err("the sync failed");
        }
        lock(&self.0.images).durable = at_begin;
        Ok(())
    }
}

const PAYLOAD: &[u8] = &[7; 173];

/// Each thread commits, and looks at once whether a crash would keep it.
/// Returns what was acknowledged, by LSN.
fn commit_from_threads(log: &Log<CrashFile>, threads: u32, commits: u32) -> HashMap<u64, Tag> {
    let acknowledged = Mutex::new(HashMap::new());
    thread::scope(|scope| {
        for thread in 0..threads {
            let acknowledged = &acknowledged;
            scope.spawn(move || {
                for number in 0..commits {
                    let tag = Tag { thread, number };
                    let Ok(lsn) = log.commit(tag, PAYLOAD) else {
                        return;
                    };
                    let found = log.file().is_durable(lsn, record_bytes(PAYLOAD.len()));
                    // A thread that slept may find that the others have written
                    // all the way round, or are about to.
                    let capacity = log.file().capacity_bytes();
                    let reached = log.durable_lsn() + capacity / GROUP_FILE_PART;
                    if reached <= lsn + capacity {
                        assert_eq!(found, Some(tag), "acknowledged before it was durable");
                    }
                    lock(acknowledged).insert(lsn, tag);
                }
            });
        }
    });
    acknowledged.into_inner().unwrap()
}

fn log(capacity_bytes: u64, group_commit: bool) -> Log<CrashFile> {
    let file = CrashFile::new(capacity_bytes, Duration::from_micros(200), None);
    Log::new(file, group_commit, 0)
}

#[test]
fn what_is_acknowledged_survives_a_crash_in_order() {
    for group_commit in [true, false] {
        let log = log(1 << 18, group_commit);
        let acknowledged = commit_from_threads(&log, 8, 40);
        assert_eq!(acknowledged.len(), 320);
        let image = log.file().durable();
        let bytes = record_bytes(PAYLOAD.len());
        let mut next = [0; 8];
        for lsn in (0..log.durable_lsn()).step_by(bytes) {
            let tag = tag_at(&image, lsn, bytes).expect("no gap in the log");
            assert_eq!(acknowledged.get(&lsn), Some(&tag));
            assert_eq!(tag.number, next[tag.thread as usize], "a thread's order");
            next[tag.thread as usize] += 1;
        }
        assert_eq!(next, [40; 8]);
    }
}

#[test]
fn a_crash_at_any_moment_keeps_what_was_acknowledged_before() {
    let log = log(1 << 18, true);
    let acknowledged = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for thread in 0..4 {
            let (log, acknowledged) = (&log, &acknowledged);
            scope.spawn(move || {
                for number in 0..50 {
                    let lsn = log.commit(Tag { thread, number }, PAYLOAD).unwrap();
                    lock(acknowledged).push(lsn);
                }
            });
        }
        for _ in 0..20 {
            let before = lock(&acknowledged).clone();
            let image = log.file().durable();
            for lsn in before {
                assert!(tag_at(&image, lsn, record_bytes(PAYLOAD.len())).is_some());
            }
            thread::sleep(Duration::from_micros(700));
        }
    });
}

#[test]
fn groups_share_syncs_and_without_them_each_commit_has_its_own() {
    let grouped = log(1 << 18, true);
    commit_from_threads(&grouped, 8, 30);
    let alone = log(1 << 18, false);
    commit_from_threads(&alone, 8, 30);
    assert_eq!(alone.file().syncs(), 240);
    // Each commit is in a sync, and none in two: at most as many. That they
    // are far fewer is the next test's.
    assert!(grouped.file().syncs() <= 240);
}

/// Holds its first sync until it is told to go on.
struct HeldFile {
    inner: CrashFile,
    held: Mutex<bool>,
    changed: Condvar,
}

impl LogFile for Arc<HeldFile> {
    type Error = &'static str;

    fn block_bytes(&self) -> usize {
        self.inner.block_bytes()
    }

    fn capacity_bytes(&self) -> u64 {
        self.inner.capacity_bytes()
    }

    fn write(&self, blocks: &[u8], offset: u64) -> Result<(), &'static str> {
        self.inner.write(blocks, offset)
    }

    fn make_durable(&self) -> Result<(), &'static str> {
        let mut held = lock(&self.held);
        while *held {
            held = wait(&self.changed, held);
        }
        drop(held);
        self.inner.make_durable()
    }
}

#[test]
fn what_gathers_during_a_flush_goes_out_as_one() {
    let file = Arc::new(HeldFile {
        inner: CrashFile::new(1 << 18, Duration::ZERO, None),
        held: Mutex::new(true),
        changed: Condvar::new(),
    });
    let log = Log::new(Arc::clone(&file), true, 0);
    thread::scope(|scope| {
        for thread in 0..8 {
            let log = &log;
            scope.spawn(move || log.commit(Tag { thread, number: 0 }, PAYLOAD).unwrap());
        }
        // All eight have appended: one leads, or two groups in a row.
        let all = 8 * record_bytes(PAYLOAD.len()) as u64;
        while log.lock().gathering.end_lsn() < all {
            thread::yield_now();
        }
        *lock(&file.held) = false;
        file.changed.notify_all();
    });
    assert_eq!(
        file.inner.syncs(),
        2,
        "the leader's, and one for the others"
    );
}

#[test]
fn the_file_is_written_round_and_round() {
    let log = log(16 << 10, true);
    let acknowledged = commit_from_threads(&log, 4, 200);
    assert!(log.durable_lsn() > 8 * (16 << 10), "several rounds");
    let image = log.file().durable();
    let bytes = record_bytes(PAYLOAD.len());
    let oldest = log.durable_lsn() - (8 << 10);
    let last: Vec<_> = acknowledged
        .iter()
        .filter(|(lsn, _)| **lsn >= oldest)
        .collect();
    assert!(last.len() >= (8 << 10) / bytes - 1);
    for (lsn, tag) in last {
        assert_eq!(tag_at(&image, *lsn, bytes).as_ref(), Some(tag));
    }
}

#[test]
fn a_full_group_makes_committers_wait_and_not_fail() {
    // A group holds a quarter of the file: nine records; 16 threads want in.
    let log = log(8 << 10, true);
    assert!(capacity_bytes_min(PAYLOAD.len(), 512) <= 8 << 10);
    assert_eq!(commit_from_threads(&log, 16, 20).len(), 320);
}

#[test]
fn after_a_failed_sync_nothing_is_acknowledged() {
    let file = CrashFile::new(1 << 18, Duration::from_micros(200), Some(5));
    let log = Log::new(file, true, 0);
    let acknowledged = commit_from_threads(&log, 8, 1000);
    // Five syncs were good; each served at most all threads.
    assert!((5..=40).contains(&acknowledged.len()), "{acknowledged:?}");
    assert_eq!(log.file().syncs(), 6, "no sync after the failed one");
    let tag = Tag {
        thread: 0,
        number: 9999,
    };
    assert_eq!(log.commit(tag, PAYLOAD), Err("the sync failed"));
}
