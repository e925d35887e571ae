//! What only one backend has.

use std::os::fd::AsRawFd;

use super::*;
use crate::backend::uring::UringBackend;
use crate::sys::fixture::Transfer;
use crate::sys::syscalls;
use crate::sys::uring::RingMode;

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
        iolane_testing::skipped(format_args!("{report:?}"));
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

/// Older kernels get the later modes.
#[test]
fn uring_works_in_every_mode() {
    let scratch = Scratch::new();
    let file = scratch.buffered();
    let block = Transfer::filled(BLOCK, 6);
    for mode in RingMode::ALL {
        let mut backend = match UringBackend::with_modes(&[mode], 2 * CAPACITY) {
            Ok(backend) => backend,
            Err(reason) => {
                iolane_testing::skipped(format_args!("{mode}: {reason}"));
                continue;
            }
        };
        assert_eq!(backend.mode(), mode);
        // Without ever blocking: completions are seen all the same.
        for token in 0..u64::from(CAPACITY) {
            let code = [OpCode::Write, OpCode::SyncData][token as usize % 2];
            backend.push(pin(block.op(token, code, file.as_raw_fd(), 0)));
        }
        let end = Instant::now() + LOST_AFTER;
        let mut done = Vec::new();
        while done.len() < CAPACITY as usize {
            assert!(Instant::now() < end, "{mode}: lost");
            backend.reap(Some(Duration::ZERO), &mut done).expect("reap");
            std::thread::yield_now();
        }
        assert_eq!(
            run(
                &mut backend,
                block.op(1, OpCode::SyncAll, file.as_raw_fd(), 0)
            ),
            0
        );
        let waker = backend.waker();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(10));
            waker.wake();
        });
        let start = Instant::now();
        done.clear();
        backend.reap(Some(LOST_AFTER), &mut done).expect("reap");
        assert!(start.elapsed() < LOST_AFTER, "{mode}: wake lost");
        assert!(done.is_empty());
        other.join().expect("no panic");
    }
}

/// The pool's threads: ids of those named `iolane-io-N`.
fn pool_threads() -> Vec<i32> {
    std::fs::read_dir("/proc/self/task")
        .expect("/proc")
        .map(|task| task.expect("/proc").path())
        .filter(|task| {
            std::fs::read_to_string(task.join("comm"))
                .is_ok_and(|name| name.starts_with("iolane-io-"))
        })
        .map(|task| {
            task.file_name()
                .expect("a name")
                .to_string_lossy()
                .into_owned()
        })
        .map(|id| id.parse().expect("a thread id"))
        .collect()
}

/// In a process of its own, where no other test has a pool.
#[test]
fn pool_starts_threads_by_need() {
    const MARK: &str = "IOLANE_TEST_POOL";
    const IDLE_CLASS: u16 = 3 << 13;
    if std::env::var_os(MARK).is_none() {
        child(
            "backend::tests::particular::pool_starts_threads_by_need",
            MARK,
        );
        return;
    }
    const MANY: u32 = 1000;
    let mut backend = opened(BackendKind::Threads, MANY);
    let scratch = Scratch::new();
    let file = scratch.buffered();
    let block = Transfer::plain(BLOCK);
    let op = block.op(1, OpCode::SyncData, file.as_raw_fd(), 0);
    for _ in 0..100 {
        run(
            &mut *backend,
            Op {
                ioprio: IDLE_CLASS,
                ..op
            },
        );
    }
    let one = pool_threads();
    assert_eq!(one.len(), 1, "one operation at a time needs one thread");
    assert_eq!(
        syscalls::thread_ioprio(one[0]).expect("ioprio_get"),
        IDLE_CLASS
    );
    run(&mut *backend, op);
    assert_eq!(
        syscalls::thread_ioprio(one[0]).expect("ioprio_get") >> 13,
        0
    );

    for _ in 0..MANY {
        backend.push(pin(op));
    }
    reap_all(&mut *backend, MANY as usize);
    // A thread names itself when it first runs, and may stay in /proc for a
    // moment after it was joined.
    let become_count = |count: usize| {
        let end = Instant::now() + LOST_AFTER;
        while pool_threads().len() != count {
            assert!(
                Instant::now() < end,
                "{} pool threads",
                pool_threads().len()
            );
            std::thread::yield_now();
        }
    };
    become_count(crate::backend::pool::THREADS_MAX);
    drop(backend);
    become_count(0);
}

/// The kernel looks at the flag: alignment that it accepts of other writes is
/// refused.
#[test]
fn a_disk_takes_atomic_writes_at_multiples_of_their_length_alone() {
    let device = match iolane_testing::atomic_device() {
        Ok(device) => device,
        Err(why) => return iolane_testing::skipped(why),
    };
    let disk = OpenOptions::new()
        .write(true)
        .custom_flags(libc::O_DIRECT)
        .open(device)
        .expect("the disk opens");
    let block = Transfer::filled(BLOCK, 5);
    for kind in [
        BackendKind::Uring,
        BackendKind::LinuxAio,
        BackendKind::Threads,
    ] {
        let mut backend = opened(kind, 1);
        for (offset, atomic, expected) in [
            (BLOCK as u64, true, BLOCK as i32),
            (512, true, -libc::EINVAL),
            (512, false, BLOCK as i32),
        ] {
            let op = Op {
                direct: true,
                atomic,
                ..block.op(1, OpCode::Write, disk.as_raw_fd(), offset)
            };
            assert_eq!(
                run(&mut *backend, op),
                expected,
                "{kind}, {offset}, {atomic}"
            );
        }
    }
}
