//! How a store is tested against power cuts, by the smallest that there is: a
//! log of records with checksums.
//!
//! A workload runs on a simulated disk that records it. Then every image of a
//! power cut that is asked for is opened by another engine and recovered. All
//! that had been acknowledged by then must be there, and nothing that is no
//! record.

use iolane::{Engine, File, Level, OpenOptions, Policy, SimulatedDisk};
use iolane_disk::power::{CrashPlan, Images, RecorderLimits};
use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;

/// Writes of a record are torn into sectors: it has several.
const RECORD: usize = 1536;
const BATCHES: u64 = 60;
/// Records that go to the disk together.
const BATCH: u64 = 4;

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    options
}

fn open(disk: &SimulatedDisk) -> (Engine, File) {
    let engine = Engine::builder().simulated(disk).policy(Policy::Lanes);
    let engine = engine.build().unwrap();
    let log = engine.open("log", &options()).unwrap();
    disk.sync_names();
    (engine, log)
}

/// Its number, what it says, and a checksum of both.
fn record(number: u64) -> Vec<u8> {
    let mut bytes = vec![number as u8 ^ 0x55; RECORD];
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    let checksum = checksum(&bytes[8..]);
    bytes[..8].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Of this build only, which is enough for a test.
fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// What a log promises too early.
#[derive(Clone, Copy, PartialEq)]
enum Mistake {
    None,
    /// Acknowledges what no sync has covered.
    NoSync,
    /// Recovers without looking at checksums.
    NoChecksum,
}

/// Appends batches: the records of one are in flight together, by a queue
/// that ends them in any order.
fn run(disk: &SimulatedDisk, mistake: Mistake) {
    let (_engine, log) = open(disk);
    let recorder = disk.recorder().unwrap();
    for batch in 0..BATCHES {
        let numbers = batch * BATCH..(batch + 1) * BATCH;
        let writes: Vec<_> = numbers
            .clone()
            .map(|number| {
                let offset = number * RECORD as u64;
                log.write(record(number), offset, Level::Critical).unwrap()
            })
            .collect();
        for write in writes {
            write.wait().result.unwrap();
        }
        if mistake != Mistake::NoSync || batch % 2 == 0 {
            log.sync_data(Level::Critical).unwrap();
        }
        // From here on whoever waits for these records is told.
        recorder.mark(numbers.end);
    }
}

/// The number of records in the log: all until the first that is none.
fn recover(disk: &SimulatedDisk, mistake: Mistake) -> Result<u64, String> {
    let (_engine, log) = open(disk);
    let mut bytes = vec![0; RECORD];
    for number in 0.. {
        let offset = number * RECORD as u64;
        let read = log.read_at(&mut bytes, offset, Level::Foreground).unwrap();
        let whole = read == RECORD && bytes[..8] == checksum(&bytes[8..]).to_le_bytes();
        if read < RECORD || mistake != Mistake::NoChecksum && !whole {
            return Ok(number);
        }
        if bytes != record(number) {
            return Err(format!("record {number} is a wrong one"));
        }
    }
    unreachable!("a log ends")
}

/// How many images were looked at, and what the first bad one says.
fn crash(disk: &SimulatedDisk, mistake: Mistake, images: u64, seed: u64) -> (u64, Option<String>) {
    run(disk, mistake);
    let recording = disk.recorder().unwrap().recording();
    assert!(recording.is_complete());
    let all = Images::new(&recording, CrashPlan::sampled(seed, 96)).unwrap();
    let mut looked_at = 0;
    for image in all.spread(images) {
        looked_at += 1;
        let disk = SimulatedDisk::from_image(&image).unwrap();
        let promised = image.mark().unwrap_or(0);
        match recover(&disk, mistake) {
            Ok(found) if found >= promised => {}
            Ok(found) => {
                let what = format!("seed {seed}: {found} of {promised} records\n{image}");
                return (looked_at, Some(what));
            }
            Err(what) => return (looked_at, Some(format!("seed {seed}: {what}\n{image}"))),
        }
    }
    (looked_at, None)
}

fn seed() -> u64 {
    let seed = std::env::var("IOLANE_TEST_SEED").ok();
    let seed = seed.and_then(|text| text.parse().ok()).unwrap_or(20050905);
    println!("IOLANE_TEST_SEED={seed}");
    seed
}

fn recorded(seed: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::builder().seed(seed);
    disk.record(RecorderLimits::default()).build().unwrap()
}

#[test]
fn a_log_that_syncs_before_it_promises_survives_every_power_cut() {
    let seed = seed();
    let (looked_at, bad) = crash(&recorded(seed), Mistake::None, 2000, seed);
    assert_eq!(bad, None);
    assert_eq!(looked_at, 2000);
}

#[test]
fn one_that_promises_too_early_is_found_out() {
    let seed = seed();
    let (_, bad) = crash(&recorded(seed), Mistake::NoSync, u64::MAX, seed);
    let bad = bad.expect("an image without what was promised");
    assert!(bad.contains("lost") || bad.contains("torn"), "{bad}");
}

#[test]
fn one_that_trusts_what_it_finds_is_found_out() {
    let seed = seed();
    let (_, bad) = crash(&recorded(seed), Mistake::NoChecksum, u64::MAX, seed);
    assert!(bad.expect("a torn record").contains("is a wrong one"));
}

/// The log is right, but the disk lies about its syncs.
#[test]
fn a_disk_that_lies_is_found_out() {
    let seed = seed();
    let disk = SimulatedDisk::builder()
        .seed(seed)
        .record(RecorderLimits::default())
        .faults("lost-sync=0.2,seed=1".parse().unwrap())
        .build()
        .unwrap();
    let (_, bad) = crash(&disk, Mistake::None, u64::MAX, seed);
    assert!(bad.is_some());
    assert!(disk.faults().unwrap().log().total > 0);
}

/// One thread with blocking calls: a failure that was found is found again,
/// by the seed and the image's number.
#[test]
fn the_same_calls_give_the_same_images() {
    let images = || {
        let disk = SimulatedDisk::builder()
            .record(RecorderLimits::default())
            .faults("torn=512:0.1,lost=0.1,short=0.2,seed=4".parse().unwrap())
            .build()
            .unwrap();
        let (_engine, log) = open(&disk);
        for number in 0..40 {
            let offset = number * RECORD as u64;
            log.write_at(&record(number), offset, Level::Normal)
                .unwrap();
            if number % 5 == 0 {
                log.sync(Level::Normal).unwrap();
            }
        }
        let recording = disk.recorder().unwrap().recording();
        let images = Images::new(&recording, CrashPlan::sampled(3, 8)).unwrap();
        (images, disk.faults().unwrap().log())
    };
    let ((one, one_log), (two, two_log)) = (images(), images());
    assert_eq!(one_log, two_log);
    assert_eq!(one.count(), two.count());
    for (one, two) in one.iter().zip(two.iter()) {
        assert_eq!(one.to_string(), two.to_string());
        let contents = |image| SimulatedDisk::from_image(image).unwrap().contents("log");
        assert_eq!(contents(&one), contents(&two));
    }
}

/// What an image leaves can be gone on with, and cut again.
#[test]
fn a_recovered_log_survives_the_next_power_cut() {
    let seed = seed();
    let first = recorded(seed);
    run(&first, Mistake::None);
    let recording = first.recorder().unwrap().recording();
    let all = Images::new(&recording, CrashPlan::sampled(seed, 3)).unwrap();
    for image in all.spread(20) {
        let again = SimulatedDisk::builder()
            .image(&image)
            .record(RecorderLimits::default())
            .build()
            .unwrap();
        let found = recover(&again, Mistake::None).unwrap();
        let (_engine, log) = open(&again);
        for number in found..found + 5 {
            let offset = number * RECORD as u64;
            log.write_at(&record(number), offset, Level::Critical)
                .unwrap();
            log.sync_data(Level::Critical).unwrap();
            again.recorder().unwrap().mark(number + 1);
        }
        let recording = again.recorder().unwrap().recording();
        for second in Images::new(&recording, CrashPlan::exhaustive())
            .unwrap()
            .iter()
        {
            let disk = SimulatedDisk::from_image(&second).unwrap();
            // Before the first event there is no file yet.
            let durable = if second.position() > 0 { found } else { 0 };
            let promised = second.mark().unwrap_or(durable);
            assert!(
                recover(&disk, Mistake::None).unwrap() >= promised,
                "{image}\n{second}"
            );
        }
    }
}
