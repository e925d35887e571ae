//! What only one backend has.

use std::os::fd::AsRawFd;

use super::*;
use crate::sys::fixture::Transfer;

#[test]
fn uring_uses_registered_buffers() {
    let scratch = Scratch::new();
    let file = scratch.buffered();
    let mut inside = Transfer::filled(4 * BLOCK, 1);
    let outside = Transfer::filled(BLOCK, 2);
    let later = Transfer::plain(BLOCK);
    let mut backend = opened(BackendKind::Uring, CAPACITY);
    let report = backend.register_buffers(&[inside.region()]);
    if report.refusal.is_some() {
        eprintln!("skipped: {report:?}");
        return;
    }
    assert_eq!(report.bytes as usize, 4 * BLOCK);
    // Once only.
    assert!(
        backend
            .register_buffers(&[later.region()])
            .refusal
            .is_some()
    );

    let fd = file.as_raw_fd();
    assert_eq!(
        run(&mut *backend, inside.op(1, OpCode::Write, fd, 0)) as usize,
        4 * BLOCK
    );
    let op = outside.op(2, OpCode::Write, fd, BLOCK as u64);
    assert_eq!(run(&mut *backend, op) as usize, BLOCK);
    inside.bytes_mut().fill(0);
    assert_eq!(
        run(&mut *backend, inside.op(3, OpCode::Read, fd, 0)) as usize,
        4 * BLOCK
    );
    for (at, block) in inside.bytes().chunks(BLOCK).enumerate() {
        let expected = if at == 1 { 2 } else { 1 };
        assert!(block.iter().all(|&b| b == expected), "block {at}");
    }
}

#[test]
fn regions_are_cut_for_the_kernel() {
    let memory = Transfer::plain(10 * BLOCK);
    let pieces: Vec<_> = memory.region().pieces(4 * BLOCK).collect();
    let lens: Vec<usize> = pieces.iter().map(|piece| piece.len()).collect();
    assert_eq!(lens, [4 * BLOCK, 4 * BLOCK, 2 * BLOCK]);
    for pair in pieces.windows(2) {
        assert_eq!(pair[0].start() + pair[0].len(), pair[1].start());
    }
}

#[test]
fn others_say_that_they_register_nothing() {
    let memory = Transfer::plain(BLOCK);
    for kind in [BackendKind::LinuxAio, BackendKind::Threads] {
        let report = opened(kind, 1).register_buffers(&[memory.region()]);
        assert_eq!(report.bytes, 0);
        assert!(
            report
                .refusal
                .expect("a reason")
                .contains(&kind.to_string())
        );
    }
}

#[test]
fn pool_threads_are_named_and_few() {
    let mut backend = opened(BackendKind::Threads, CAPACITY);
    let scratch = Scratch::new();
    let file = scratch.buffered();
    let fd = file.as_raw_fd();
    let block = Transfer::plain(BLOCK);
    // One at a time needs no more than a few threads, however many follow.
    for _ in 0..100 {
        run(&mut *backend, block.op(1, OpCode::Read, fd, 0));
    }
    let names = || -> Vec<String> {
        std::fs::read_dir("/proc/self/task")
            .expect("/proc")
            .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok())
            .map(|name| name.trim().to_owned())
            .collect()
    };
    assert!(names().iter().any(|name| name == "iolane-io-0"));
}
