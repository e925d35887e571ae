//! Writes that arrive whole or not at all.

mod common;

use common::{BACKENDS, PAGE, engine};
use iolane::{
    AtomicWriteUnit, Buffer, Cause, Engine, File, Level, OpenOptions, Policy, SimulatedDisk,
    SimulatedDiskBuilder, WindowConfig,
};
use iolane_disk::Medium;
use iolane_disk::power::{CrashPlan, Images, RecorderLimits};

const LEVEL: Level = Level::Normal;
const PAGES: u64 = 16;
const UNIT: AtomicWriteUnit = AtomicWriteUnit {
    min_bytes: 4096,
    max_bytes: 16384,
};

fn careful() -> SimulatedDiskBuilder {
    SimulatedDisk::builder().atomic_unit(UNIT.min_bytes, UNIT.max_bytes)
}

fn open_on(engine: &Engine, direct: bool) -> File {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).direct(direct);
    engine.open("table", &options).unwrap()
}

/// The engine ends when it is dropped.
fn open(disk: &SimulatedDisk, direct: bool) -> (Engine, File) {
    let engine = Engine::builder().simulated(disk).build().unwrap();
    let file = open_on(&engine, direct);
    (engine, file)
}

fn page(filling: u8) -> Buffer {
    let mut page = Buffer::new(PAGE);
    page.fill(filling);
    page
}

/// Writes neighbours in one batch, queued behind each other.
fn write_neighbours(file: &File, filling: u8) {
    write_neighbours_of(file, PAGE, filling);
}

fn write_neighbours_of(file: &File, length: usize, filling: u8) {
    let mut batch = file.device().batch();
    let pending: Vec<_> = (0..PAGES)
        .map(|number| {
            let mut data = Buffer::new(length);
            data.fill(filling);
            batch.write(file, data, number * length as u64, LEVEL)
        })
        .collect();
    batch.submit();
    for one in pending {
        one.unwrap().wait().result.unwrap();
    }
}

#[test]
fn a_file_says_which_writes_can_arrive_whole() {
    let disk = careful().build().unwrap();
    assert_eq!(open(&disk, true).1.atomic_write_unit(), Some(UNIT));
    // Past the page cache only.
    assert!(open(&disk, false).1.atomic_write_unit().is_none());
    assert!(open(&disk, false).1.atomic().is_none());
    let careless = SimulatedDisk::builder().build().unwrap();
    assert!(open(&careless, true).1.atomic().is_none());

    let allowed = [4096, 8192, 16384];
    for length in [0, 512, 2048, 4096, 8192, 12288, 16384, 32768] {
        assert_eq!(UNIT.allows(length), allowed.contains(&length), "{length}");
    }
}

#[test]
fn what_cannot_arrive_whole_is_refused() {
    let (_engine, file) = open(&careful().build().unwrap(), true);
    let whole = file.atomic().unwrap();
    for (length, offset) in [(2048, 0), (12288, 0), (32768, 0), (8192, 4096)] {
        let refused = whole.write_at(&Buffer::new(length), offset, LEVEL);
        let refused = refused.unwrap_err();
        assert!(
            matches!(
                refused.cause(),
                Cause::NotAtomic {
                    min_bytes: 4096,
                    max_bytes: 16384
                }
            ),
            "{refused}"
        );
        let queued = whole.write(Buffer::new(length), offset, LEVEL).unwrap_err();
        assert!(matches!(queued.error.cause(), Cause::NotAtomic { .. }));
        let mut batch = whole.device().batch();
        let batched = batch.write(&whole, Buffer::new(length), offset, LEVEL);
        let batched = batched.unwrap_err();
        assert!(matches!(batched.error.cause(), Cause::NotAtomic { .. }));
        // The other handle's are as ever.
        file.write_at(&Buffer::new(length), offset, LEVEL).unwrap();
    }
    whole.write_at(&page(3), 8 * PAGE as u64, LEVEL).unwrap();
    let mut back = Buffer::new(PAGE);
    whole.read_at(&mut back, 8 * PAGE as u64, LEVEL).unwrap();
    assert!(back.iter().all(|&byte| byte == 3));
    whole.sync_data(LEVEL).unwrap();
}

#[test]
fn neighbours_that_must_arrive_whole_are_not_merged() {
    for policy in Policy::ALL {
        let disk = careful().build().unwrap();
        let engine = Engine::builder().simulated(&disk).policy(policy);
        let engine = engine.build().unwrap();
        let file = open_on(&engine, true);
        file.device().set_window(WindowConfig::Fixed(1)).unwrap();
        let merged = || file.device().statistics().total().write.merged;
        write_neighbours(&file.atomic().unwrap(), 1);
        assert_eq!(merged(), 0, "{policy}");
        write_neighbours(&file, 2);
        assert!(merged() > 0, "{policy}: this test's neighbours are merged");
    }
}

/// Pages that a power cut has left half written, over many images.
fn torn(whole: bool) -> u64 {
    let disk = careful().record(RecorderLimits::default()).build().unwrap();
    let (_engine, file) = open(&disk, true);
    disk.sync_names();
    let written = match whole {
        true => file.atomic().unwrap(),
        false => file.clone(),
    };
    write_neighbours(&file, 1);
    file.sync_data(LEVEL).unwrap();
    disk.recorder().unwrap().mark(1);
    write_neighbours(&written, 2);
    // On the caller's own thread, too.
    written.write_at(&page(3), 0, LEVEL).unwrap();
    let recording = disk.recorder().unwrap().recording();
    let images = Images::new(&recording, CrashPlan::sampled(5, 50)).unwrap();
    let mut torn = 0;
    for image in images.iter().filter(|image| image.mark() == Some(1)) {
        let table = image.open("table").unwrap();
        for number in 0..PAGES {
            let mut page = vec![0; PAGE];
            table.read(number * PAGE as u64, &mut page).unwrap();
            torn += u64::from(page.iter().any(|byte| *byte != page[0]));
        }
    }
    torn
}

#[test]
fn no_power_cut_tears_a_write_that_must_arrive_whole() {
    assert_eq!(torn(true), 0);
    assert!(torn(false) > 0, "these power cuts tear other writes");
}

#[test]
fn faults_do_not_tear_it_either() {
    let plan = "torn=512:1.0".parse().unwrap();
    let disk = careful().faults(plan).build().unwrap();
    let (_engine, file) = open(&disk, true);
    let mut back = page(0);
    file.write_at(&page(7), 0, LEVEL).unwrap();
    file.read_at(&mut back, 0, LEVEL).unwrap();
    assert!(back.iter().any(|&byte| byte != 7), "others are torn");
    let whole = file.atomic().unwrap();
    whole.write_at(&page(7), 0, LEVEL).unwrap();
    file.read_at(&mut back, 0, LEVEL).unwrap();
    assert!(back.iter().all(|&byte| byte == 7));

    let plan = "short=1.0".parse().unwrap();
    let disk = careful().faults(plan).build().unwrap();
    let (_engine, file) = open(&disk, true);
    let whole = file.atomic().unwrap();
    let error = whole.write_at(&page(7), 0, LEVEL).unwrap_err();
    assert_eq!(error.os_error(), Some(libc::EIO), "{error}");
    let queued = whole.write(page(7), 0, LEVEL).unwrap().wait();
    assert_eq!(queued.result.unwrap_err().os_error(), Some(libc::EIO));
    assert!(disk.contents("table").unwrap().is_empty());
}

/// On a real disk, if the machine has one that can.
#[test]
fn a_disk_takes_what_it_says() {
    let device = match iolane_testing::atomic_device() {
        Ok(device) => device,
        Err(why) => return iolane_testing::skipped(why),
    };
    for backend in BACKENDS {
        let Some(engine) = engine(backend, Policy::Lanes) else {
            continue;
        };
        let mut options = OpenOptions::new();
        options.read(true).write(true).direct(true).exclusive(true);
        let file = engine.open(&device, &options).unwrap();
        let unit = file.atomic_write_unit().unwrap();
        let whole = file.atomic().unwrap();
        println!("{backend:?}: {unit:?}");
        let lengths = (0..32).map(|shift| 1u64 << shift);
        for length in lengths.filter(|&length| unit.allows(length)) {
            let at = 4 * length;
            let filling = backend as u8 + length.trailing_zeros() as u8;
            let mut data = Buffer::new(length as usize);
            data.fill(filling);
            assert_eq!(whole.write_at(&data, at, LEVEL).unwrap(), data.len());
            let queued = whole.write(data, at + length, LEVEL).unwrap().wait();
            queued.result.unwrap();
            let mut back = Buffer::new(2 * length as usize);
            file.read_at(&mut back, at, LEVEL).unwrap();
            assert!(back.iter().all(|&byte| byte == filling), "{length}");
        }
        write_neighbours_of(&whole, unit.max_bytes.min(PAGE as u32) as usize, 9);
    }
}
