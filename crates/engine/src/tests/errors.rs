//! Failing operations: whom the error reaches, and what it changes.

use super::faulty::Fault;
use super::{BLOCK, Rig, at};
use crate::backend::OpCode;
use crate::{Cause, Level, OpenOptions, Operation};

const LEVEL: Level = Level::Normal;

fn eio(code: OpCode, offset: u64, times: u32) -> Fault {
    Fault {
        code,
        offset,
        errno: libc::EIO,
        times,
    }
}

#[test]
fn in_a_merged_transfer_an_error_hits_its_request_alone() {
    for code in [OpCode::Read, OpCode::Write] {
        let rig = Rig::new(1, 100);
        rig.control.fail(eio(code, at(6) + 100, u32::MAX));
        rig.control.hold();
        let first = rig.file.read(vec![0; BLOCK], at(100), LEVEL).unwrap();
        rig.control.wait_seen(1);
        let pending: Vec<_> = [5, 6, 7]
            .iter()
            .map(|&block| match code {
                OpCode::Read => rig.file.read(vec![0; BLOCK], at(block), LEVEL).unwrap(),
                _ => rig.file.write(vec![200; BLOCK], at(block), LEVEL).unwrap(),
            })
            .collect();
        rig.control.release();
        let results: Vec<_> = pending
            .into_iter()
            .map(|pending| pending.wait().result)
            .collect();
        first.wait().result.unwrap();
        assert_eq!(rig.control.seen()[1], (code, at(5)), "they merge");
        assert_eq!(*results[0].as_ref().unwrap(), BLOCK);
        assert_eq!(*results[2].as_ref().unwrap(), BLOCK);
        let error = results[1].as_ref().unwrap_err();
        assert_eq!(error.os_error(), Some(libc::EIO));
        assert_eq!((error.offset(), error.length()), (at(6), BLOCK as u64));
        assert_eq!(error.path(), rig.file.path());
        let total = rig.file.device().statistics().total();
        assert_eq!(total.read.errors + total.write.errors, 1);
        // A failed write alone poisons nothing.
        rig.file.sync_data(LEVEL).unwrap();
        let mut block = [0; BLOCK];
        rig.file.read_at(&mut block, at(5), LEVEL).unwrap();
        let expected = if code == OpCode::Write { 200 } else { 5 };
        assert_eq!(block, [expected; BLOCK]);
    }
}

#[test]
fn interrupted_operations_are_repeated_but_not_for_ever() {
    for errno in [libc::EINTR, libc::EAGAIN] {
        let rig = Rig::new(4, 100);
        let fault = |times| Fault {
            code: OpCode::Read,
            offset: at(3),
            errno,
            times,
        };
        rig.control.fail(fault(16));
        let read = || rig.file.read(vec![0; BLOCK], at(3), LEVEL).unwrap().wait();
        assert_eq!(read().buffer, [3; BLOCK]);
        assert_eq!(rig.control.seen().len(), 17);
        rig.control.fail(fault(17));
        assert_eq!(read().result.unwrap_err().os_error(), Some(errno));
        assert_eq!(rig.control.seen().len(), 34);
    }
}

#[test]
fn a_failed_sync_poisons_the_file_through_every_handle() {
    for (operation, code) in [
        (Operation::SyncData, OpCode::SyncData),
        (Operation::SyncAll, OpCode::SyncAll),
    ] {
        let rig = Rig::new(4, 100);
        let other = rig.again(OpenOptions::new().write(true).data_sync(true));
        rig.control.fail(eio(code, 0, 1));
        let failed = rig.file.submit_sync(operation, Level::Critical).unwrap();
        let first = failed.wait().result.unwrap_err();
        assert_eq!(first.os_error(), Some(libc::EIO));
        assert_eq!(first.operation(), operation);

        let poisoned = |error: &crate::Error| {
            matches!(error.cause(), Cause::Poisoned(cause) if cause.operation() == operation)
                && error.os_error() == Some(libc::EIO)
        };
        for file in [&rig.file, &other] {
            assert!(poisoned(&file.write_at(&[1; 10], 0, LEVEL).unwrap_err()));
            assert!(poisoned(&file.sync(LEVEL).unwrap_err()));
            let refused = file.write(vec![1; 10], 0, LEVEL).unwrap_err();
            assert!(poisoned(&refused.error) && refused.buffer == vec![1; 10]);
            assert!(poisoned(
                &file.submit_sync(operation, LEVEL).unwrap_err().error
            ));
        }
        // Reading is still possible: recovery needs it.
        let mut block = [0; BLOCK];
        assert_eq!(rig.file.read_at(&mut block, at(1), LEVEL).unwrap(), BLOCK);

        // Until every handle is closed.
        let path = rig.file.path().to_owned();
        drop(other);
        let Rig {
            file,
            engine,
            folder,
            ..
        } = rig;
        drop(file);
        let file = engine.open(&path, OpenOptions::new().write(true)).unwrap();
        file.write_at(&[1; 10], 0, LEVEL).unwrap();
        file.sync(LEVEL).unwrap();
        drop(folder);
    }
}

#[test]
fn syncs_outstanding_when_another_fails_fail_too() {
    let rig = Rig::new(4, 100);
    rig.control.hold();
    rig.control.fail(eio(OpCode::SyncData, 0, 1));
    let syncs: Vec<_> = (0..3)
        .map(|_| rig.file.submit_sync(Operation::SyncData, LEVEL).unwrap())
        .collect();
    rig.control.wait_seen(3);
    rig.control.gather(3);
    rig.control.release();
    let errors: Vec<_> = syncs
        .into_iter()
        .map(|sync| sync.wait().result.unwrap_err().os_error())
        .collect();
    assert_eq!(errors, [Some(libc::EIO); 3]);
}

#[test]
fn a_failed_data_sync_write_poisons() {
    let rig = Rig::new(4, 100);
    let file = rig.again(OpenOptions::new().write(true).data_sync(true));
    rig.control.fail(eio(OpCode::Write, 0, 1));
    let failed = file.write(vec![1; BLOCK], 0, Level::Critical).unwrap();
    assert_eq!(
        failed.wait().result.unwrap_err().os_error(),
        Some(libc::EIO)
    );
    let error = rig.file.write_at(&[1; 10], 0, LEVEL).unwrap_err();
    assert!(matches!(error.cause(), Cause::Poisoned(_)), "{error}");
}

#[test]
fn a_panicking_callback_is_counted_and_harms_nobody() {
    let rig = Rig::new(4, 100);
    rig.file
        .read_then(vec![0; BLOCK], 0, LEVEL, |_| {
            panic!("a callback's own affair")
        })
        .unwrap();
    let read = rig.file.read(vec![0; BLOCK], at(2), LEVEL).unwrap();
    assert_eq!(read.wait().buffer, [2; BLOCK]);
    // Completers run in order of completion; the second of two may come first.
    let until = std::time::Instant::now() + std::time::Duration::from_secs(120);
    while rig.file.device().statistics().callback_panics == 0 {
        assert!(std::time::Instant::now() < until);
        std::thread::yield_now();
    }
    assert_eq!(rig.file.device().statistics().callback_panics, 1);
}
