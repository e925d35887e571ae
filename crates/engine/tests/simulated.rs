//! An engine on a simulated disk: every way of a request through it.

mod common;

use common::Random;
use iolane::{
    Buffer, Cause, Completion, Config, Deadline, Engine, File, IoBufMut, Level, OpenError,
    OpenOptions, Operation, Pending, Policy, SimulatedDisk, SimulatedDiskBuilder, WindowConfig,
};
use iolane_disk::model::{Constant, ConstantParameters};
use std::sync::mpsc;
use std::time::{Duration, Instant};

const LEVEL: Level = Level::Normal;

fn constant(latency: Duration) -> SimulatedDiskBuilder {
    let model = Constant::new(ConstantParameters {
        capacity_bytes: 1 << 30,
        queue_max: 8,
        latency_ns: latency.as_nanos() as u64,
    });
    SimulatedDisk::builder().model(Box::new(model.unwrap()))
}

/// One without time, one with.
fn disks() -> [SimulatedDisk; 2] {
    [
        SimulatedDisk::builder().seed(3).build().unwrap(),
        constant(Duration::from_micros(20)).build().unwrap(),
    ]
}

fn on(disk: &SimulatedDisk, policy: Policy) -> Engine {
    let engine = Engine::builder().simulated(disk).policy(policy);
    engine.build().unwrap()
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true);
    options
}

fn faulty(plan: &str) -> SimulatedDisk {
    let disk = SimulatedDisk::builder().faults(plan.parse().unwrap());
    disk.build().unwrap()
}

/// Random reads and writes, blocking and queued, against a vector.
fn compare(file: &File, seed: u64) {
    const BLOCK: usize = 4096;
    const BLOCKS: usize = 40;
    let mut random = Random::new(seed);
    let mut model = vec![0u8; BLOCKS * BLOCK];
    file.write_at(&model, 0, LEVEL).unwrap();
    let mut pending = Vec::new();
    for step in 0..400 {
        let first = random.below(BLOCKS as u64 - 3) as usize * BLOCK;
        let range = first..first + (1 + random.below(3) as usize) * BLOCK;
        let level = Level::from_index(random.below(5) as usize).unwrap();
        let mut buffer = Buffer::new(range.len());
        match random.below(4) {
            0 | 1 => {
                buffer.fill(step as u8);
                model[range.clone()].fill(step as u8);
                let write = file.write(buffer, first as u64, level).unwrap();
                pending.push((write, None));
            }
            2 => {
                let read = file.read(buffer, first as u64, level).unwrap();
                pending.push((read, Some(model[range].to_vec())));
            }
            _ => {
                file.read_at(&mut buffer, first as u64, level).unwrap();
                assert!(buffer[..] == model[range], "seed {seed}, step {step}");
            }
        }
        if pending.len() > 20 {
            for (one, expected) in pending.drain(..) {
                let done = one.wait();
                done.result.unwrap();
                assert!(expected.is_none_or(|expected| done.buffer[..] == expected[..]));
            }
            file.sync_data(Level::Critical).unwrap();
        }
    }
    for (one, _) in pending {
        one.wait().result.unwrap();
    }
    let mut all = vec![0; model.len()];
    file.read_at(&mut all, 0, LEVEL).unwrap();
    assert!(all == model, "seed {seed}");
}

#[test]
fn what_was_written_is_read_under_every_policy() {
    for disk in disks() {
        for (number, policy) in Policy::ALL.into_iter().enumerate() {
            for direct in [false, true] {
                let engine = on(&disk, policy);
                let name = format!("{policy}, direct {direct}");
                let file = engine.open(&name, options().direct(direct)).unwrap();
                println!("seed {number}: {name}");
                file.device().set_window(WindowConfig::Fixed(4)).unwrap();
                compare(&file, number as u64);
                let statistics = file.device().statistics();
                assert_eq!(statistics.outstanding.count(), 0);
                assert_eq!(statistics.total().write.errors, 0);
            }
        }
        assert_eq!(disk.names().len(), 2 * Policy::ALL.len());
    }
}

/// Under Miri this shows that nobody else touches the memory of a request, nor
/// moves it, while it is under way.
#[test]
fn every_kind_of_buffer_comes_back_with_its_bytes() {
    fn there_and_back<B: IoBufMut + AsRef<[u8]>>(file: &File, make: impl Fn(u8) -> B) {
        let mut batch = file.device().batch();
        let written = [
            file.write(make(1), 0, LEVEL).unwrap(),
            batch.write(file, make(2), 4096, LEVEL).unwrap(),
        ];
        batch.submit();
        for write in written {
            assert_eq!(write.wait().result.unwrap(), 4096);
        }
        let (sender, receiver) = mpsc::channel();
        let then = |sender: mpsc::Sender<Completion<B>>| {
            move |completion| sender.send(completion).unwrap()
        };
        file.write_then(make(3), 8192, LEVEL, then(sender.clone()))
            .unwrap();
        assert_eq!(receiver.recv().unwrap().result.unwrap(), 4096);
        let mut batch = file.device().batch();
        let read = [
            file.read(make(0), 0, LEVEL).unwrap(),
            batch.read(file, make(0), 4096, LEVEL).unwrap(),
        ];
        batch
            .read_then(file, make(0), 8192, LEVEL, then(sender.clone()))
            .unwrap();
        batch.submit();
        file.read_then(make(0), 8192, LEVEL, then(sender)).unwrap();
        let read = read.into_iter().map(Pending::wait);
        for (done, mark) in read.chain(receiver).zip([1, 2, 3, 3]) {
            assert_eq!(done.result.unwrap(), 4096);
            assert!(done.buffer.as_ref().iter().all(|byte| *byte == mark));
        }
    }
    let disk = SimulatedDisk::builder().seed(3).build().unwrap();
    let engine = on(&disk, Policy::Lanes);
    let file = engine.open("x", &options()).unwrap();
    there_and_back(&file, |mark| vec![mark; 4096]);
    there_and_back(&file, |mark| vec![mark; 4096].into_boxed_slice());
    there_and_back(&file, |mark| {
        let mut buffer = Buffer::new(4096);
        buffer.fill(mark);
        buffer
    });
}

#[test]
fn the_device_says_what_it_is() {
    for (disk, detail) in disks().iter().zip(["order by seed", "time of its model"]) {
        let engine = on(disk, Policy::Lanes);
        let file = engine.open("x", options().direct(true)).unwrap();
        let report = file.device().backend().unwrap().to_string();
        assert!(
            report.starts_with("simulated (") && report.contains(detail),
            "{report}"
        );
        assert!(file.device().info().name.starts_with("simulated-"));
        assert_eq!(file.alignment().offset_bytes, 512);
        assert!(!file.is_block_device());
        assert_eq!(engine.devices().len(), 1);
    }
    let choice = iolane::BackendChoice::Only(iolane::BackendKind::Simulated);
    let engine = Engine::builder().backend(choice).build().unwrap();
    let folder = common::folder();
    let file = engine.open(folder.path().join("real"), &options()).unwrap();
    let refused = file.device().backend().unwrap_err().to_string();
    assert!(
        refused.contains("not made with a simulated disk"),
        "{refused}"
    );
}

#[test]
fn names_are_files_of_the_disk() {
    let disk = SimulatedDisk::builder().build().unwrap();
    let engine = on(&disk, Policy::Lanes);
    let open = |name: &str, options: &OpenOptions| engine.open(name, options);
    let missing = open("a", OpenOptions::new().read(true)).unwrap_err();
    assert_eq!(
        missing.to_string(),
        "cannot open a: No such file or directory (os error 2)"
    );
    let a = open("a", options().create_new(true)).unwrap();
    assert!(matches!(
        open("a", options().create_new(true)).unwrap_err(),
        OpenError::Open { .. }
    ));
    a.write_at(&[1; 100], 0, LEVEL).unwrap();
    assert_eq!(open("a", &options()).unwrap().size().unwrap(), 100);

    let b = open("b", options().size(5000)).unwrap();
    assert_eq!(b.size().unwrap(), 5000);
    disk.rename("a", "b").unwrap();
    assert_eq!(disk.names(), ["b"]);
    assert_eq!(disk.contents("b").unwrap(), [1; 100]);
    assert_eq!(b.size().unwrap(), 5000, "the open file is still there");
    open("b", options().truncate(true)).unwrap();
    assert_eq!(a.size().unwrap(), 0);
    disk.remove("b").unwrap();
    assert!(disk.remove("b").is_err() && disk.rename("b", "c").is_err());
    a.write_at(&[2; 10], 0, LEVEL).unwrap();
    assert_eq!(disk.names(), [""; 0]);
}

#[test]
fn a_full_disk_reaches_the_writer() {
    let disk = SimulatedDisk::builder().capacity_bytes(1 << 20);
    let disk = disk.build().unwrap();
    let engine = on(&disk, Policy::Lanes);
    let file = engine.open("f", &options()).unwrap();
    let refused = engine.open("g", options().size(2 << 20)).unwrap_err();
    assert!(matches!(refused, OpenError::Size { .. }), "{refused}");
    let error = file.write_at(&vec![1; 2 << 20], 0, LEVEL).unwrap_err();
    assert_eq!(error.os_error(), Some(libc::ENOSPC));
    let error = file.write(vec![1; 4096], 1 << 20, LEVEL).unwrap().wait();
    assert_eq!(error.result.unwrap_err().os_error(), Some(libc::ENOSPC));
    disk.remove("f").unwrap();
    // Who has a removed file open can go on; its space is free when it is closed.
    file.write_at(&vec![1; 1 << 20], 0, LEVEL).unwrap();
    drop(file);
    let file = engine.open("f", options().size(1 << 20)).unwrap();
    file.write_at(&vec![1; 1 << 20], 0, LEVEL).unwrap();
}

#[test]
fn a_failed_sync_poisons() {
    for blocking in [true, false] {
        let disk = faulty("eio-sync=#2,seed=1");
        let engine = on(&disk, Policy::Noop);
        let file = engine.open("f", &options()).unwrap();
        file.write_at(&[1; 512], 0, LEVEL).unwrap();
        let failed = if blocking {
            file.sync(LEVEL).unwrap_err()
        } else {
            let sync = file.submit_sync(Operation::SyncData, LEVEL).unwrap();
            sync.wait().result.unwrap_err()
        };
        assert_eq!(failed.os_error(), Some(libc::EIO));
        let again = engine.open("f", &options()).unwrap();
        let error = again.write_at(&[1; 512], 0, LEVEL).unwrap_err();
        assert!(matches!(error.cause(), Cause::Poisoned(_)), "{error}");
        assert_eq!(
            disk.faults().unwrap().log().to_string(),
            "seed 1, operation 2: sync failed with EIO\n"
        );
    }
}

#[test]
fn faults_reach_whom_they_hit() {
    let disk = faulty("eio-write=1@16384+1,lost=1@131072+1,short=0.3,seed=2");
    let engine = on(&disk, Policy::Lanes);
    let file = engine.open("f", &options()).unwrap();
    let mut writes = Vec::new();
    // With gaps, lest neighbours become one transfer: one that is lost is
    // lost whole.
    for block in 0..20u64 {
        let write = file.write(vec![7; 4096], block * 8192, LEVEL).unwrap();
        writes.push(write);
    }
    for (block, write) in writes.into_iter().enumerate() {
        let result = write.wait().result;
        match block {
            2 => assert_eq!(result.unwrap_err().os_error(), Some(libc::EIO)),
            _ => assert_eq!(result.unwrap(), 4096),
        }
    }
    // Short transfers were completed; the lost one reads as what was before.
    let mut all = vec![1; 20 * 8192 - 4096];
    assert_eq!(file.read_at(&mut all, 0, LEVEL).unwrap(), all.len());
    for (block, bytes) in all.chunks(8192).enumerate() {
        let expected = if [2, 16].contains(&block) { 0 } else { 7 };
        let written = &bytes[..4096];
        assert!(
            written.iter().all(|byte| *byte == expected),
            "block {block}"
        );
    }
}

#[test]
fn a_power_cut_takes_what_the_plan_says() {
    let disk = faulty("lost=#2:power-cut");
    let engine = on(&disk, Policy::Lanes);
    let file = engine.open("f", &options()).unwrap();
    file.write_at(&[1; 512], 0, LEVEL).unwrap();
    file.write_at(&[2; 512], 0, LEVEL).unwrap();
    assert_eq!(disk.contents("f").unwrap(), [2; 512]);
    assert_eq!(disk.power_cut().unwrap(), 512);
    assert_eq!(disk.contents("f").unwrap(), [1; 512]);
}

#[test]
fn time_is_the_models_and_that_of_stalls() {
    let latency = Duration::from_millis(5);
    let disk = constant(latency).faults("stall=20ms:#3".parse().unwrap());
    let disk = disk.build().unwrap();
    let engine = on(&disk, Policy::Lanes);
    let file = engine.open("f", &options()).unwrap();
    let timed = |work: &dyn Fn()| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    let write = || {
        file.write_at(&[1; 4096], 0, LEVEL).unwrap();
    };
    assert!(timed(&write) >= latency);
    assert!(timed(&|| file.sync(LEVEL).unwrap()) >= latency);
    assert!(timed(&write) >= latency + Duration::from_millis(20));
    // Eight at once in the disk, the others after them.
    let many = || {
        let reads: Vec<_> = (0..16)
            .map(|_| file.read(vec![0; 512], 0, LEVEL).unwrap())
            .collect();
        for read in reads {
            read.wait().result.unwrap();
        }
    };
    file.device().set_window(WindowConfig::Fixed(16)).unwrap();
    assert!(timed(&many) >= latency);
    // What needs nothing of the disk takes no time of it: there is nothing.
    let mut nothing = [0; 512];
    assert_eq!(file.read_at(&mut nothing, 1 << 20, LEVEL).unwrap(), 0);
}

/// Offsets in the order in which they come to the disk, which the log of the
/// stalls tells.
#[test]
fn a_promoted_request_goes_first() {
    let disk = constant(Duration::from_micros(20)).faults("stall=1ns:1".parse().unwrap());
    let disk = disk.build().unwrap();
    let engine = Engine::builder().simulated(&disk).policy(Policy::Lanes);
    let engine = engine.configure(|_, config| never_due(config));
    let engine = engine.build().unwrap();
    let file = engine.open("f", options().size(1 << 20)).unwrap();
    file.device().set_window(WindowConfig::Fixed(1)).unwrap();
    // The driver is kept in a callback until all the others are queued, however
    // long this thread takes for that.
    let (arrived, has_arrived) = mpsc::channel();
    let (queued, are_queued) = mpsc::channel();
    file.read_then(vec![0; 512], 0, Level::Foreground, move |_| {
        arrived.send(()).unwrap();
        are_queued.recv().unwrap();
    })
    .unwrap();
    has_arrived.recv().unwrap();
    let background = |offset| file.read(vec![0; 512], offset, Level::Background).unwrap();
    let reads = [4096, 65536, 524_288].map(background);
    assert!(reads[2].promote(Level::Foreground));
    queued.send(()).unwrap();
    for read in reads {
        read.wait().result.unwrap();
    }
    let log = disk.faults().unwrap().log();
    let order: Vec<u64> = log.first.iter().map(|stall| stall.offset).collect();
    assert_eq!(order, [0, 524_288, 4096, 65536]);
}

/// No deadline passes, however long the machine stalls: what is past it goes
/// before what is more urgent.
fn never_due(config: &mut Config) {
    for level in &mut config.levels {
        level.deadline = Deadline::Fixed(3_600_000_000_000);
    }
}
