//! Every way to submit, on every backend, under every policy, buffered and
//! direct.

mod common;

use common::{BACKENDS, PAGE, engine, folder, numbered, open};
use iolane::{Buffer, Completion, Engine, File, IoPriority, Level, OpenOptions, Operation, Policy};
use std::sync::mpsc;

const PAGES: usize = 64;

fn everywhere(test: impl Fn(&File, &str)) {
    for backend in BACKENDS {
        for policy in Policy::ALL {
            for direct in [false, true] {
                let Some(engine) = engine(backend, policy) else {
                    continue;
                };
                let folder = folder();
                let file = open(&engine, &numbered(&folder, PAGES), direct);
                test(&file, &format!("{backend}, {policy}, direct {direct}"));
            }
        }
    }
}

fn page(n: usize) -> u64 {
    (n * PAGE) as u64
}

#[test]
fn what_was_written_is_read() {
    everywhere(|file, case| {
        let mut block = Buffer::new(PAGE);
        for (n, level) in Level::ALL.into_iter().enumerate() {
            block.fill(100 + n as u8);
            assert_eq!(
                file.write_at(&block, page(n), level).unwrap(),
                PAGE,
                "{case}"
            );
        }
        let written: Vec<_> = (5..10)
            .map(|n| {
                let mut block = Buffer::new(PAGE);
                block.fill(100 + n as u8);
                file.write(block, page(n), Level::Background).unwrap()
            })
            .collect();
        for pending in written {
            assert_eq!(pending.wait().result.unwrap(), PAGE, "{case}");
        }
        file.sync_data(Level::Critical).unwrap();
        let synced = file.submit_sync(Operation::SyncAll, Level::Normal).unwrap();
        assert_eq!(synced.wait().result.unwrap(), 0, "{case}");

        let pending: Vec<_> = (0..PAGES)
            .map(|n| {
                file.read(Buffer::new(PAGE), page(n), Level::Prefetch)
                    .unwrap()
            })
            .collect();
        for (n, pending) in pending.into_iter().enumerate() {
            let Completion { result, buffer } = pending.wait();
            let expected = if n < 10 { 100 + n } else { n };
            assert_eq!(result.unwrap(), PAGE, "{case}");
            assert!(
                buffer.iter().all(|&byte| byte == expected as u8),
                "{case}, page {n}"
            );
        }
        let total = file.device().statistics().total();
        assert_eq!(
            (total.read.requests, total.write.requests),
            (PAGES as u64, 10),
            "{case}"
        );
        assert_eq!(total.sync.requests, 2, "{case}");
        assert_eq!(total.read.bytes, page(PAGES), "{case}");
        assert_eq!(total.read.device.count(), PAGES as u64, "{case}");
    });
}

#[test]
fn a_batch_goes_in_few_transfers() {
    everywhere(|file, case| {
        let mut batch = file.device().batch();
        let pending: Vec<_> = (0..PAGES)
            .map(|n| {
                batch
                    .read(file, Buffer::new(PAGE), page(n), Level::Normal)
                    .unwrap()
            })
            .collect();
        assert_eq!(batch.len(), PAGES);
        assert!(pending.iter().all(|pending| !pending.is_done()));
        batch.submit();
        for (n, pending) in pending.into_iter().enumerate() {
            let completion = pending.wait();
            assert_eq!(completion.result.unwrap(), PAGE, "{case}");
            assert!(
                completion.buffer.iter().all(|&byte| byte == n as u8),
                "{case}"
            );
        }
        let statistics = file.device().statistics();
        assert!(
            statistics.transfers < PAGES as u64,
            "{case}: nothing merged"
        );
        assert!(statistics.total().read.merged > 0, "{case}");
    });
}

#[test]
fn callbacks_submit_more() {
    fn chain(file: File, n: usize, buffer: Buffer, done: mpsc::Sender<usize>) {
        if n == PAGES {
            done.send(n).unwrap();
            return;
        }
        let again = file.clone();
        file.read_then(buffer, page(n), Level::Background, move |completion| {
            assert_eq!(completion.result.unwrap(), PAGE);
            assert!(completion.buffer.iter().all(|&byte| byte == n as u8));
            chain(again, n + 1, completion.buffer, done);
        })
        .unwrap();
    }
    everywhere(|file, case| {
        let (sender, receiver) = mpsc::channel();
        for _ in 0..4 {
            chain(file.clone(), 0, Buffer::new(PAGE), sender.clone());
        }
        drop(sender);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [PAGES; 4], "{case}");
        assert_eq!(file.device().statistics().callback_panics, 0, "{case}");
    });
}

#[test]
fn lengths_and_offsets_go_to_the_device_as_they_are() {
    let engine = Engine::new().unwrap();
    let folder = folder();
    let file = open(&engine, &numbered(&folder, PAGES), true);
    let step = u64::from(file.alignment().offset_bytes);
    // Odd multiples of the grid, none of 4 KiB if the device has 512.
    for (at, blocks) in [(1, 1), (3, 7), (31, 33)] {
        let length = (blocks * step) as usize;
        let before = file.device().statistics();
        let completion = file
            .read(Buffer::new(length), at * step, Level::Normal)
            .unwrap()
            .wait();
        assert_eq!(completion.result.unwrap(), length);
        let expected: Vec<u8> = (at * step..(at + blocks) * step)
            .map(|byte| (byte / PAGE as u64) as u8)
            .collect();
        assert_eq!(*completion.buffer, *expected);
        assert_eq!(file.device().statistics().since(&before).transfers, 1);
    }
}

#[test]
fn io_priorities_do_not_change_results() {
    for io_priority in [IoPriority::ByLevel, IoPriority::Off] {
        let engine = Engine::builder().io_priority(io_priority).build().unwrap();
        let folder = folder();
        let file = open(&engine, &numbered(&folder, 8), true);
        for (n, level) in Level::ALL.into_iter().enumerate() {
            let read = file.read(Buffer::new(PAGE), page(n), level).unwrap().wait();
            assert_eq!(read.result.unwrap(), PAGE);
            assert_eq!(read.buffer[0], n as u8);
        }
    }
}

#[test]
fn files_on_one_disk_share_a_device_and_others_do_not() {
    let engine = Engine::new().unwrap();
    let folder = folder();
    let one = open(&engine, &numbered(&folder, 1), false);
    let path = folder.path().join("two");
    let two = engine
        .open(
            &path,
            OpenOptions::new().write(true).create(true).size(4096),
        )
        .unwrap();
    assert_eq!(one.device(), two.device());
    assert_eq!(two.size().unwrap(), 4096);
    let elsewhere = std::path::Path::new("/dev/shm");
    let shared_memory = tempfile::NamedTempFile::new_in(elsewhere).unwrap();
    let three = engine
        .open(shared_memory.path(), OpenOptions::new().read(true))
        .unwrap();
    assert_ne!(one.device(), three.device());
    assert!(three.device().info().name.starts_with("anonymous-"));
    assert_eq!(engine.devices().len(), 2);
}

#[test]
fn leave_is_given_to_what_may_go_and_counts_until_it_has_finished() {
    let folder = folder();
    let path = numbered(&folder, 8);
    let engine = Engine::builder()
        .policy(Policy::Noop)
        .configure(|_, config| config.window = iolane::WindowConfig::Fixed(2))
        .build()
        .unwrap();
    let file = open(&engine, &path, false);
    let memory = vec![0; PAGE];
    let leave = |operation, page: u64| {
        let offset = page * PAGE as u64;
        file.leave(operation, &memory, offset, Level::Normal)
            .unwrap()
    };
    let first = leave(Operation::Read, 0).unwrap();
    assert!(
        leave(Operation::Write, 0).is_none(),
        "it overlaps the first"
    );
    let second = leave(Operation::Write, 1).unwrap();
    assert!(leave(Operation::Read, 2).is_none(), "the window is full");
    assert_eq!(file.device().outstanding().in_flight.count(), 2);
    assert_eq!(first.finish(Ok(100)).unwrap(), 100);
    let error = second.finish(Err(libc::EIO)).unwrap_err();
    assert_eq!(error.os_error(), Some(libc::EIO));
    assert_eq!(error.offset(), PAGE as u64);
    drop(leave(Operation::Read, 2).unwrap());
    let statistics = file.device().statistics();
    let normal = &statistics.levels[Level::Normal.index()];
    assert_eq!((normal.read.requests, normal.read.errors), (2, 1));
    assert_eq!((normal.write.requests, normal.write.errors), (1, 1));
    assert_eq!(file.device().outstanding().all.count(), 0);
    let bad = file.leave(Operation::Read, &memory, u64::MAX, Level::Normal);
    assert!(bad.is_err());
}
