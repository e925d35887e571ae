use super::header::{BLOCK_BYTES, CIRCLE};
use super::record::OPENING;
use super::*;
use iolane::{Engine, Level, SimulatedDisk};
use iolane_disk::fault::{Fault, FaultPlan, Rule, Trigger};
use iolane_disk::power::{CrashPlan, Image, Images, RecorderLimits};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

mod openings;

const CAPACITY: u64 = CAPACITY_BYTES_MIN;

struct Place {
    _dir: tempfile::TempDir,
    path: PathBuf,
    engine: Engine,
}

impl Place {
    fn new() -> Place {
        let dir = tempfile::tempdir().unwrap();
        Place {
            path: dir.path().join("log"),
            _dir: dir,
            engine: Engine::new().unwrap(),
        }
    }

    fn file(&self, path: &Path) -> File {
        let mut options = Log::open_options();
        options.create(true);
        // What a temporary folder lies on may know no direct I/O.
        self.engine
            .open(path, &options)
            .or_else(|_| self.engine.open(path, options.direct(false)))
            .unwrap()
    }

    /// To damage it.
    fn bytes(&self) -> std::fs::File {
        let mut options = std::fs::File::options();
        options.read(true).write(true).open(&self.path).unwrap()
    }

    fn create(&self, start: u64) -> Log {
        Log::create(
            self.file(&self.path),
            self.file(&self.path),
            CAPACITY,
            42,
            Lsn(start),
            Level::Normal,
        )
        .unwrap()
    }

    fn open(&self) -> (Log, Vec<(u64, Vec<u8>)>) {
        let (log, mut scan) = Log::open(self.file(&self.path)).unwrap();
        let mut records = Vec::new();
        while let Some(record) = scan.next().unwrap() {
            records.push((record.start.0, record.payload.to_vec()));
        }
        (log, records)
    }
}

fn append(log: &Log, payload: &[u8]) -> (Lsn, Lsn) {
    let room = log.reserve(payload.len(), false).unwrap();
    log.append(room, payload, |_, _| ())
}

/// The end of a log that ended here, and was opened.
fn behind_opening(end: Lsn) -> Lsn {
    Lsn(end.0 + OPENING as u64)
}

fn payload(number: u64, length: usize) -> Vec<u8> {
    (0..length)
        .map(|i| (number as usize * 31 + i) as u8)
        .collect()
}

#[test]
fn what_is_durable_is_found_again() {
    let place = Place::new();
    let log = place.create(1234);
    let mut written = Vec::new();
    for number in 0..500 {
        let payload = payload(number, 1 + number as usize * 7 % 900);
        let (start, end) = append(&log, &payload);
        assert_eq!(end.0 - start.0, (payload.len() + HEAD) as u64);
        written.push((start.0, payload));
        if number % 7 == 0 {
            log.make_durable(end).unwrap();
        }
    }
    log.make_durable(log.end()).unwrap();
    let end = behind_opening(log.end());
    drop(log);
    let (log, found) = place.open();
    assert_eq!(found, written);
    assert_eq!((log.end(), log.durable(), log.store()), (end, end, 42));
}

#[test]
fn what_was_not_made_durable_is_not_there() {
    let place = Place::new();
    let log = place.create(0);
    let (_, end) = append(&log, b"one");
    log.make_durable(end).unwrap();
    append(&log, b"two");
    drop(log);
    let (log, found) = place.open();
    assert_eq!(found, [(0, b"one".to_vec())]);
    assert_eq!(log.end(), behind_opening(end));
}

#[test]
fn goes_round_the_file_and_on_after_each_opening() {
    let place = Place::new();
    let mut log = place.create(0);
    let mut last_start = Lsn(0);
    for round in 0..40 {
        for number in 0..60 {
            let payload = payload(round * 60 + number, 3000 + number as usize);
            let (start, _) = append(&log, &payload);
            last_start = start;
        }
        log.make_durable(log.end()).unwrap();
        log.set_checkpoint(last_start).unwrap();
        drop(log);
        let (again, found) = place.open();
        assert_eq!(found, [(last_start.0, payload(round * 60 + 59, 3059))]);
        assert_eq!(again.checkpoint_lsn(), last_start);
        log = again;
    }
    assert!(log.end().0 > 6 * CAPACITY);
}

#[test]
fn a_checkpoint_may_lie_anywhere_in_memory_or_file() {
    let place = Place::new();
    let log = place.create(0);
    let mut starts = Vec::new();
    for number in 0..400 {
        // Heads at all offsets in their blocks, some across two.
        let (start, end) = append(&log, &payload(number, 1 + (number as usize * 37) % 300));
        starts.push(start);
        if number % 50 == 49 {
            log.make_durable(end).unwrap();
        }
        if number % 3 == 0 {
            let at = starts[(number as usize).saturating_sub(number as usize % 60)];
            if at >= log.checkpoint_lsn() {
                log.set_checkpoint(at).unwrap();
                let (_, found) = place.open();
                let first = (log.durable() > at).then_some(at.0);
                assert_eq!(found.first().map(|record| record.0), first);
            }
        }
    }
    log.set_checkpoint(log.end()).unwrap();
    assert_eq!(place.open().1, []);
    assert_eq!(log.pressure(), 0.0);
}

#[test]
fn either_header_may_be_damaged_and_the_checkpoint_is_the_last() {
    let place = Place::new();
    let log = place.create(0);
    for number in 0..300 {
        append(&log, &payload(number, 9000));
        log.set_checkpoint(log.end()).unwrap();
    }
    let (start, end) = append(&log, &payload(7, 100));
    log.make_durable(end).unwrap();
    drop(log);
    let good = std::fs::read(&place.path).unwrap();
    for block in 0..2 {
        let mut damaged = good.clone();
        damaged[block * BLOCK_BYTES as usize + 40] ^= 1;
        std::fs::write(&place.path, &damaged).unwrap();
        let (log, found) = place.open();
        assert_eq!(found, [(start.0, payload(7, 100))]);
        let end = behind_opening(end);
        assert_eq!((log.checkpoint_lsn(), log.end()), (start, end));
    }
}

/// Every way in which the last write can be torn: some of its sectors are
/// there, some are as before.
#[test]
fn a_torn_write_ends_the_log_before_it_and_harms_nothing_older() {
    let place = Place::new();
    let log = place.create(0);
    let (_, end) = append(&log, &payload(1, 700));
    log.make_durable(end).unwrap();
    let before = std::fs::read(&place.path).unwrap();
    let (_, whole) = append(&log, &payload(2, 2000));
    log.make_durable(whole).unwrap();
    let after = std::fs::read(&place.path).unwrap();
    drop(log);
    let first = CIRCLE as usize / 512;
    for lost in 1u32..1 << 6 {
        let mut torn = after.clone();
        for sector in (0..6).filter(|sector| lost >> sector & 1 == 1) {
            let range = (first + sector) * 512..(first + sector + 1) * 512;
            torn[range.clone()].copy_from_slice(&before[range]);
        }
        std::fs::write(&place.path, &torn).unwrap();
        let (log, found) = place.open();
        // A lost sector that was the same before is not lost.
        let records = if torn == after { 2 } else { 1 };
        assert_eq!(found.len(), records, "sectors {lost:06b} lost");
        if records == 1 {
            assert_eq!(log.end(), behind_opening(end));
        }
    }
}

/// A, B and C were written at once, A's write was torn, and after the crash an
/// A of the same length takes its place: C must not come back.
#[test]
fn what_lay_behind_a_torn_record_does_not_come_back() {
    let place = Place::new();
    let log = place.create(0);
    for number in 0..3 {
        append(&log, &payload(number, 5000));
    }
    log.make_durable(log.end()).unwrap();
    drop(log);
    let file = place.bytes();
    file.write_all_at(&[0; 512], CIRCLE + 512).unwrap();
    let (log, found) = place.open();
    assert_eq!(found, []);
    // As long as the first record with the opening before it, so that the second
    // would follow.
    let (start, end) = append(&log, &payload(9, 5000 - OPENING));
    assert_eq!(end.0, (5000 + HEAD) as u64);
    log.make_durable(end).unwrap();
    // The tail block was padded with zeros; put the old second record's
    // beginning back, as if the disk had kept it.
    let stale = {
        let mut bytes = record::head(5000, 0, 0).to_vec();
        let chain = record::checksum(Lsn(0), 0, &payload(0, 5000));
        let checksum = record::checksum(end, chain, &payload(1, 5000));
        bytes[..].copy_from_slice(&record::head(5000, checksum, chain));
        bytes.extend(payload(1, 5000));
        bytes
    };
    file.write_all_at(&stale, CIRCLE + end.0).unwrap();
    drop(log);
    let (log, found) = place.open();
    assert_eq!(found, [(start.0, payload(9, 5000 - OPENING))]);
    assert_eq!(log.end(), behind_opening(end));
}

#[test]
fn a_full_log_waits_for_a_checkpoint_and_asks_for_it() {
    let place = Place::new();
    let log = Arc::new(place.create(0));
    let asked = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&asked);
    log.set_waker(move || {
        counter.fetch_add(1, Ordering::SeqCst);
    });
    let writer = {
        let log = Arc::clone(&log);
        std::thread::spawn(move || {
            for number in 0..600 {
                append(&log, &payload(number, 10_000));
            }
        })
    };
    while !writer.is_finished() {
        if asked.swap(0, Ordering::SeqCst) > 0 {
            assert!(log.pressure() > 0.9);
            log.set_checkpoint(log.end()).unwrap();
        }
        std::thread::yield_now();
    }
    writer.join().unwrap();
    assert!(log.end().0 > 5 * CAPACITY);
}

#[test]
fn a_reservation_that_is_not_used_is_given_back() {
    let place = Place::new();
    let log = place.create(0);
    for _ in 0..100 {
        drop(log.reserve(200_000, false).unwrap());
    }
    assert_eq!(log.pressure(), 0.0);
    let limit = (log.capacity() / 4) as usize;
    assert_eq!(
        log.reserve(limit + 1, false).err(),
        Some(LogError::TooLarge {
            bytes: limit + 1,
            limit
        })
    );
}

#[test]
fn who_stands_back_leaves_room_to_others_but_not_for_ever() {
    let place = Place::new();
    let log = place.create(0);
    let kept: Vec<_> = (0..3)
        .map(|_| log.reserve(log.capacity() as usize / 5, false).unwrap())
        .collect();
    // It would fit, and does for those who do not stand back ...
    drop(log.reserve(1000, false).unwrap());
    let begin = Instant::now();
    drop(log.reserve(1000, true).unwrap());
    assert!(begin.elapsed() >= PATIENCE_BEHIND);
    assert_eq!(log.waits().count, 1);
    // ... and for all when there is more room.
    drop(kept);
    drop(log.reserve(1000, true).unwrap());
    assert_eq!(log.waits().count, 1);
}

/// Or nobody would make room for it, where nobody else needs any.
#[test]
fn who_has_stood_back_long_enough_waits_as_all_do() {
    let place = Place::new();
    let log = place.create(0);
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    log.set_waker(move || {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let fifth = log.capacity() as usize / 5;
    let kept: Vec<_> = (0..4).map(|_| log.reserve(fifth, false).unwrap()).collect();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| drop(log.reserve(fifth, true).unwrap()));
        let patience = Instant::now() + Duration::from_secs(10);
        while log.waiting() == 0 && Instant::now() < patience {
            std::thread::sleep(Duration::from_millis(1));
        }
        let waiting = log.waiting();
        drop(kept);
        waits.join().unwrap();
        assert_eq!(waiting, 1);
    });
    // When it began to stand back, and when it no longer did.
    assert_eq!(asked.load(Ordering::Relaxed), 2);
    assert_eq!(log.waiting(), 0);
}

#[test]
fn who_writes_ahead_ends_when_the_log_fails() {
    let place = Place::new();
    let log = Arc::new(place.create(0));
    let (sender, receiver) = std::sync::mpsc::channel();
    let own = Arc::clone(&log);
    std::thread::spawn(move || {
        own.write_ahead();
        sender.send(()).unwrap();
    });
    // With nothing left to write.
    let (_, end) = append(&log, b"written");
    log.make_durable(end).unwrap();
    log.fail("a page could not be written".to_owned());
    let ended = receiver.recv_timeout(Duration::from_secs(10));
    log.end_writing_ahead();
    ended.unwrap();
}

/// A log on a disk that cannot read these bytes of it.
fn unreadable(place: &Place, ranges: &[Range<u64>]) -> Result<(Engine, Log, LogScan), LogError> {
    let rules = ranges.iter().map(|range| Rule {
        fault: Fault::EioRead,
        trigger: Trigger::Probability(1.0),
        range: Some(range.clone()),
    });
    let plan = FaultPlan {
        seed: 0,
        rules: rules.collect(),
    };
    let disk = SimulatedDisk::builder().faults(plan).build().unwrap();
    let engine = Engine::builder().simulated(&disk).build().unwrap();
    let mut options = Log::open_options();
    let bytes = std::fs::read(&place.path).unwrap();
    options.create(true).size(bytes.len() as u64);
    let file = engine.open("log", &options).unwrap();
    let mut buffer = Buffer::new(bytes.len());
    buffer.copy_from_slice(&bytes);
    file.write_at(&buffer, 0, Level::Critical).unwrap();
    let (log, scan) = Log::open(file)?;
    Ok((engine, log, scan))
}

/// How many records are found there.
fn count_unreadable(place: &Place, ranges: &[Range<u64>]) -> Result<usize, LogError> {
    let (_engine, _, mut scan) = unreadable(place, ranges)?;
    let mut count = 0;
    while scan.next()?.is_some() {
        count += 1;
    }
    Ok(count)
}

/// A power cut may leave a block so, and it hits those that were being written.
#[test]
fn what_no_record_needs_may_be_unreadable() {
    let place = Place::new();
    let log = place.create(0);
    let mut end = Lsn(0);
    for number in 0..20 {
        end = append(&log, &payload(number, 1000)).1;
    }
    log.make_durable(end).unwrap();
    drop(log);
    assert_eq!(count_unreadable(&place, &[]).unwrap(), 20);
    // One header of two, and what lies behind the end.
    let behind = CIRCLE + (end.0 / BLOCK + 1) * BLOCK;
    let first = 0..BLOCK;
    assert_eq!(
        count_unreadable(&place, &[first, behind..behind + BLOCK]).unwrap(),
        20
    );
    let second = BLOCK..2 * BLOCK;
    assert_eq!(
        count_unreadable(&place, std::slice::from_ref(&second)).unwrap(),
        20
    );
    // Both headers; a record.
    for needed in [0..CIRCLE, CIRCLE + BLOCK..CIRCLE + 2 * BLOCK] {
        let opened = count_unreadable(&place, std::slice::from_ref(&needed));
        assert!(matches!(opened, Err(LogError::Failed { .. })), "{opened:?}");
    }
}

#[test]
fn many_threads_commit_and_all_of_it_is_there() {
    let place = Place::new();
    let log = place.create(0);
    let order = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (log, order) = (&log, &order);
            scope.spawn(move || {
                for number in 0..50 {
                    let payload = payload(thread * 1000 + number, 100);
                    let room = log.reserve(500, false).unwrap();
                    let (start, end) = log.append(room, &payload, |start, end| {
                        // Under the lock LSNs come in order.
                        assert!(order.swap(end.0, Ordering::SeqCst) <= start.0);
                    });
                    log.make_durable(end).unwrap();
                    assert!(log.durable() >= end && start < end);
                }
            });
        }
    });
    drop(log);
    let (_, found) = place.open();
    assert_eq!(found.len(), 400);
}

#[test]
fn what_is_no_log_is_refused() {
    let place = Place::new();
    let error = |result: Result<(Log, LogScan), LogError>| result.err();
    std::fs::write(&place.path, b"short").unwrap();
    assert_eq!(
        error(Log::open(place.file(&place.path))),
        Some(LogError::Truncated { at: 5 })
    );
    std::fs::write(&place.path, vec![1; 100_000]).unwrap();
    assert_eq!(
        error(Log::open(place.file(&place.path))),
        Some(LogError::Foreign)
    );
    drop(place.create(0));
    let file = place.bytes();
    file.set_len(CIRCLE + CAPACITY - 4096).unwrap();
    assert_eq!(
        error(Log::open(place.file(&place.path))),
        Some(LogError::Truncated {
            at: CIRCLE + CAPACITY - 4096
        })
    );
    assert_eq!(
        Log::create(
            place.file(&place.path),
            place.file(&place.path),
            5000,
            1,
            Lsn(0),
            Level::Normal
        )
        .err(),
        Some(LogError::Capacity { bytes: 5000 })
    );
}

#[test]
fn a_failed_write_ends_the_log_for_good() {
    let place = Place::new();
    drop(place.create(0));
    // Opened for reading only: every write fails with EBADF.
    let file = || {
        place
            .engine
            .open(&place.path, iolane::OpenOptions::new().read(true))
            .unwrap()
    };
    let opened = Log::open(file()).err();
    assert!(
        matches!(&opened, Some(LogError::Failed { .. })),
        "{opened:?}"
    );
    let log = place.open().0.with_plain(file());
    let (_, end) = append(&log, b"lost");
    let first = log.make_written(end).unwrap_err();
    assert!(
        matches!(&first, LogError::Failed { reason } if reason.contains("offset")),
        "{first}"
    );
    assert_eq!(log.make_durable(end), Err(first.clone()));
    assert_eq!(log.reserve(1, false).err(), Some(first));
}

/// Opens the log's file on a simulated disk, in both ways.
fn simulated(engine: &Engine, new: bool) -> (File, File) {
    let mut options = Log::open_options();
    options.create(new).size(Log::file_bytes(CAPACITY));
    let file = engine.open("log", &options).unwrap();
    (file, engine.open("log", &Log::plain_options()).unwrap())
}

/// A disk of which every state is kept that a power cut may leave.
fn recorded(seed: u64) -> (SimulatedDisk, Engine) {
    let disk = SimulatedDisk::builder()
        .seed(seed)
        .record(RecorderLimits::default())
        .build()
        .unwrap();
    let engine = Engine::builder().simulated(&disk).build().unwrap();
    (disk, engine)
}

/// Opens the log that a power cut has left. The engine is to be kept: it reads.
fn open_image(image: &Image) -> (Engine, Log, LogScan) {
    let disk = SimulatedDisk::from_image(image).unwrap();
    let engine = Engine::builder().simulated(&disk).build().unwrap();
    let (log, scan) = Log::open(simulated(&engine, false).0).unwrap();
    (engine, log, scan)
}

/// Records that were only written are durable with the next that is, and not
/// before: whatever a power cut takes.
#[test]
fn what_is_written_is_durable_with_what_is_made_so_later() {
    let (disk, engine) = recorded(3);
    let (file, plain) = simulated(&engine, true);
    let log = Log::create(file, plain, CAPACITY, 42, Lsn(0), Level::Normal).unwrap();
    disk.sync_names();
    let recorder = disk.recorder().unwrap();
    recorder.mark(0);
    for round in 0..6 {
        for number in 0..3 {
            let (_, end) = append(&log, &payload(round * 4 + number, 3000));
            log.make_written(end).unwrap();
            assert!(log.durable() < end);
        }
        let (_, end) = append(&log, &payload(round * 4 + 3, 100));
        if round % 2 == 0 {
            // Nothing more to write by then.
            log.make_written(end).unwrap();
        }
        log.make_durable(end).unwrap();
        assert_eq!(log.durable(), end);
        recorder.mark(round + 1);
    }
    let images = Images::new(&recorder.recording(), CrashPlan::sampled(3, 30)).unwrap();
    let mut lost = 0;
    for image in images.spread(2000) {
        let Some(mark) = image.mark() else { continue };
        let (_engine, _, mut scan) = open_image(&image);
        let mut found = 0;
        while let Some(record) = scan.next().unwrap() {
            let length = if found % 4 == 3 { 100 } else { 3000 };
            assert_eq!(record.payload, payload(found, length), "{image}");
            found += 1;
        }
        assert!(
            found >= 4 * mark,
            "{found} records after {mark} rounds: {image}"
        );
        lost += u64::from(found < 4 * mark + 3);
    }
    assert!(lost > 0, "nothing that was only written is ever lost");
}

/// What lay on the disk where a log is made, such as records of an older one, is
/// gone before the new log can be opened: whatever a power cut takes.
#[test]
fn a_new_log_is_empty_or_not_there() {
    let (disk, engine) = recorded(4);
    let (file, plain) = simulated(&engine, true);
    let log = Log::create(file, plain, CAPACITY, 42, Lsn(0), Level::Normal).unwrap();
    for number in 0..4 {
        append(&log, &payload(number, 3000));
    }
    log.make_durable(log.end()).unwrap();
    drop(log);
    disk.sync_names();
    let recorder = disk.recorder().unwrap();
    recorder.mark(0);
    let (file, plain) = simulated(&engine, true);
    Log::create(file, plain, CAPACITY, 43, Lsn(0), Level::Normal).unwrap();
    recorder.mark(1);
    let images = Images::new(&recorder.recording(), CrashPlan::sampled(4, 100)).unwrap();
    let mut new = 0;
    for image in images.spread(2000) {
        let Some(mark) = image.mark() else { continue };
        let (_engine, log, mut scan) = open_image(&image);
        if log.store() == 43 {
            assert!(scan.next().unwrap().is_none(), "{image}");
            new += 1;
        }
        assert!(mark == 0 || log.store() == 43, "{image}");
    }
    assert!(new > 10, "{new}");
}
