//! What every backend does, each test for each of them.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use super::*;
use crate::sys::fixture::{self, Transfer, pin};
use crate::sys::syscalls;

fn errors_reach_the_caller(subject: &Subject) {
    let mut backend = subject.opened(CAPACITY);
    let scratch = subject.scratch();
    let block = Transfer::filled(BLOCK, 7);
    for direct in [false, true] {
        let op = block.op(1, OpCode::Read, 9999, 0);
        assert_eq!(run(&mut *backend, Op { direct, ..op }), -libc::EBADF);
    }
    assert_eq!(
        run(&mut *backend, block.op(2, OpCode::SyncAll, 9999, 0)),
        -libc::EBADF
    );
    if let Some(file) = scratch.direct() {
        // Real blocks: a read of a hole never comes to the device's alignment.
        let buffered = scratch.buffered();
        buffered.write_all_at(&[1; 2 * BLOCK], 0).expect("write");
        buffered.sync_all().expect("sync");
        let op = block.op(3, OpCode::Read, file.as_raw_fd(), 1);
        assert_eq!(run(&mut *backend, Op { direct: true, ..op }), -libc::EINVAL);
    }
    // Errors among successes, in one batch.
    let file = scratch.buffered();
    for token in 0..32 {
        let fd = if token % 2 == 0 {
            file.as_raw_fd()
        } else {
            9999
        };
        let op = block.op(token, OpCode::Write, fd, 0);
        backend.push(pin(Op {
            direct: token % 4 < 2,
            ..op
        }));
    }
    for completed in reap_all(&mut *backend, 32) {
        let expected = if completed.token % 2 == 0 {
            BLOCK as i32
        } else {
            -libc::EBADF
        };
        assert_eq!(completed.result, expected);
    }
    if let Subject::Kernel(_) = subject {
        let full = OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .expect("/dev/full");
        let op = block.op(4, OpCode::Write, full.as_raw_fd(), 0);
        assert_eq!(run(&mut *backend, op), -libc::ENOSPC);
    }
}

fn a_full_file_system_gives_a_short_write_first(subject: &Subject) {
    const BLOCKS: usize = 16;
    let Subject::Kernel(_) = subject else {
        let full = subject.with_capacity(BLOCKS * BLOCK);
        fills_up(&full, &full.scratch().buffered(), BLOCKS);
        return;
    };
    let scratch = subject.scratch();
    let path = scratch.path.clone();
    let subject = subject.clone();
    // The mount is seen by this thread alone, and goes with it.
    let mounted = thread::spawn(move || {
        let dir = path.parent().expect("a directory");
        if let Err(error) = fixture::mount_private_tmpfs(dir, BLOCKS * BLOCK) {
            iolane_testing::skipped(format_args!("no tmpfs of our own: {error}"));
            return;
        }
        let file = TestFile::Kernel(File::create_new(&path).expect("file"));
        fills_up(&subject, &file, BLOCKS);
    });
    mounted.join().expect("no panic");
}

/// `file` is on a filesystem with room for `blocks` blocks.
fn fills_up(subject: &Subject, file: &TestFile, blocks: usize) {
    let much = Transfer::filled((blocks + 4) * BLOCK, 1);
    let mut backend = subject.opened(CAPACITY);
    for direct in [false, true] {
        file.set_len(0).expect("set_len");
        let at = |block: usize| Op {
            direct,
            ..much.op(1, OpCode::Write, file.as_raw_fd(), (block * BLOCK) as u64)
        };
        assert_eq!(run(&mut *backend, at(0)) as usize, blocks * BLOCK);
        assert_eq!(run(&mut *backend, at(blocks)), -libc::ENOSPC);
    }
}

fn short_reads_at_the_end(subject: &Subject) {
    let mut backend = subject.opened(CAPACITY);
    let scratch = subject.scratch();
    let file = scratch.buffered();
    file.write_all_at(&[9; BLOCK + 100], 0).expect("write");
    let buffer = Transfer::plain(BLOCK);
    let fds: Vec<(TestFile, bool)> = [
        Some((file, false)),
        scratch.direct().map(|file| (file, true)),
    ]
    .into_iter()
    .flatten()
    .collect();
    for (file, direct) in &fds {
        for (offset, expected) in [(0, BLOCK), (BLOCK, 100), (2 * BLOCK, 0)] {
            let op = buffer.op(1, OpCode::Read, file.as_raw_fd(), offset as u64);
            let op = Op {
                direct: *direct,
                ..op
            };
            assert_eq!(run(&mut *backend, op) as usize, expected, "direct {direct}");
        }
    }
}

fn no_wake_is_lost(subject: &Subject) {
    const ROUNDS: u64 = 1000;
    let mut backend = subject.opened(CAPACITY);
    let waker = backend.waker();
    let produced = Arc::new(AtomicU64::new(0));
    let (ready, is_ready) = mpsc::channel();
    let other = {
        let produced = Arc::clone(&produced);
        thread::spawn(move || {
            for round in 1..=ROUNDS {
                is_ready.recv().expect("the driver lives");
                // At once, or when the driver may just have gone to sleep.
                for _ in 0..(round % 50) * 40 {
                    std::hint::spin_loop();
                }
                produced.store(round, Ordering::Relaxed);
                waker.wake();
            }
        })
    };
    let mut done = Vec::new();
    for round in 1..=ROUNDS {
        ready.send(()).expect("the other thread lives");
        let start = Instant::now();
        backend.reap(Some(LOST_AFTER), &mut done).expect("reap");
        assert!(start.elapsed() < LOST_AFTER, "wake {round} was lost");
        assert_eq!(
            produced.load(Ordering::Relaxed),
            round,
            "reap returned without a wake"
        );
    }
    other.join().expect("no panic");
    assert!(done.is_empty());
}

fn a_wake_in_advance_counts_once(subject: &Subject) {
    let mut backend = subject.opened(CAPACITY);
    let mut done = Vec::new();
    let waker = backend.waker();
    waker.wake();
    waker.wake();
    let start = Instant::now();
    backend.reap(Some(LOST_AFTER), &mut done).expect("reap");
    assert!(start.elapsed() < LOST_AFTER);
    let start = Instant::now();
    backend
        .reap(Some(Duration::from_millis(30)), &mut done)
        .expect("reap");
    assert!(
        start.elapsed() >= Duration::from_millis(30),
        "a spent wake woke again"
    );
}

/// The pool of some backends rings the same bell as a waker: only a waker, a
/// completion or the timeout may end a reap.
fn completions_are_no_wakes(subject: &Subject) {
    let mut backend = subject.opened(CAPACITY);
    let scratch = subject.scratch();
    let file = scratch.buffered();
    file.write_all_at(&[1; BLOCK], 0).expect("write");
    let buffer = Transfer::plain(BLOCK);
    for _ in 0..50 {
        assert_eq!(
            run(
                &mut *backend,
                buffer.op(1, OpCode::Read, file.as_raw_fd(), 0)
            ) as usize,
            BLOCK
        );
        let mut done = Vec::new();
        let start = Instant::now();
        backend
            .reap(Some(Duration::from_millis(3)), &mut done)
            .expect("reap");
        assert!(start.elapsed() >= Duration::from_millis(3));
        assert!(done.is_empty());
    }
}

fn timeouts_are_respected(subject: &Subject) {
    let mut backend = subject.opened(CAPACITY);
    let mut done = Vec::new();
    for timeout_ms in [0, 1, 50] {
        let timeout = Duration::from_millis(timeout_ms);
        let start = Instant::now();
        backend.reap(Some(timeout), &mut done).expect("reap");
        let took = start.elapsed();
        assert!(took >= timeout, "{took:?} for {timeout:?}");
        assert!(
            took < timeout + Duration::from_secs(60),
            "{took:?} for {timeout:?}"
        );
    }
    // Longer than any clock: only the waker ends it.
    let waker = backend.waker();
    let other = thread::spawn(move || {
        thread::sleep(Duration::from_millis(20));
        waker.wake();
    });
    backend.reap(Some(Duration::MAX), &mut done).expect("reap");
    other.join().expect("no panic");
    assert!(done.is_empty());
}

fn capacity_can_be_used_up_again_and_again(subject: &Subject) {
    let scratch = subject.scratch();
    let file = scratch.buffered();
    file.write_all_at(&[3; BLOCK], 0).expect("write");
    // More than the submission queue of io_uring holds, and the smallest.
    for capacity in [1, 700] {
        let mut backend = subject.opened(capacity);
        assert_eq!(backend.capacity(), capacity);
        let buffers: Vec<Transfer> = (0..capacity).map(|_| Transfer::plain(BLOCK)).collect();
        for direct in [true, false] {
            for (token, buffer) in buffers.iter().enumerate() {
                let op = buffer.op(token as u64, OpCode::Read, file.as_raw_fd(), 0);
                backend.push(pin(Op { direct, ..op }));
            }
            let mut tokens: Vec<u64> = reap_all(&mut *backend, capacity as usize)
                .into_iter()
                .inspect(|completed| assert_eq!(completed.result as usize, BLOCK))
                .map(|completed| completed.token)
                .collect();
            tokens.sort_unstable();
            assert!(tokens.into_iter().eq(0..u64::from(capacity)));
        }
    }
}

fn more_than_capacity_is_refused(subject: &Subject) {
    let scratch = subject.scratch();
    let file = scratch.buffered();
    let buffers: Vec<Transfer> = (0..5).map(|_| Transfer::plain(BLOCK)).collect();
    let mut backend = subject.opened(4);
    let pushed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        for (token, buffer) in buffers.iter().enumerate() {
            backend.push(pin(buffer.op(
                token as u64,
                OpCode::Read,
                file.as_raw_fd(),
                0,
            )));
        }
    }));
    assert!(pushed.is_err(), "five operations in a backend for four");
    assert_eq!(reap_all(&mut *backend, 4).len(), 4);
}

fn dropping_waits_for_what_is_in_flight(subject: &Subject) {
    let scratch = subject.scratch();
    let files = [
        Some((scratch.buffered(), false)),
        scratch.direct().map(|file| (file, true)),
    ];
    for (file, direct) in files.into_iter().flatten() {
        for round in 1..=10u8 {
            let buffers: Vec<Transfer> = (0..CAPACITY)
                .map(|_| Transfer::filled(16 * BLOCK, round))
                .collect();
            let mut backend = subject.opened(CAPACITY);
            for (token, buffer) in buffers.iter().enumerate() {
                let offset = (token * 16 * BLOCK) as u64;
                let op = buffer.op(token as u64, OpCode::Write, file.as_raw_fd(), offset);
                backend.push(pin(Op { direct, ..op }));
            }
            backend.flush().expect("flush");
            drop(backend);
            drop(buffers);
            let mut check = Transfer::plain(16 * BLOCK);
            for token in 0..u64::from(CAPACITY) {
                file.read_exact_at(check.bytes_mut(), token * 16 * BLOCK as u64)
                    .expect("read");
                assert!(
                    check.bytes().iter().all(|&b| b == round),
                    "write {token} did not finish"
                );
            }
        }
    }
    // Nothing flushed: nothing to wait for, and no harm.
    let buffer = Transfer::plain(BLOCK);
    let mut backend = subject.opened(CAPACITY);
    backend.push(pin(buffer.op(
        1,
        OpCode::Read,
        scratch.buffered().as_raw_fd(),
        0,
    )));
}

/// Best effort: which priority a transfer ran with cannot be seen from here,
/// but that a refused one does not fail the transfer can.
fn a_priority_never_fails_a_transfer(subject: &Subject) {
    const RT: u16 = 1 << 13;
    const BE_LOW: u16 = 2 << 13 | 7;
    let scratch = subject.scratch();
    let file = scratch.buffered();
    let block = Transfer::filled(BLOCK, 1);
    let transfers = move || {
        let mut backend = subject.opened(CAPACITY);
        for ioprio in [RT, BE_LOW] {
            for code in [OpCode::Write, OpCode::Read, OpCode::SyncData] {
                for direct in [false, true] {
                    let op = block.op(1, code, file.as_raw_fd(), 0);
                    let result = run(
                        &mut *backend,
                        Op {
                            direct,
                            ioprio,
                            ..op
                        },
                    );
                    let expected = if code == OpCode::SyncData { 0 } else { BLOCK };
                    assert_eq!(result, expected as i32, "{code:?} ioprio {ioprio:#x}");
                }
            }
        }
    };
    transfers();
    in_child("a_priority_never_fails_a_transfer", subject, || {
        syscalls::drop_nice_capabilities().expect("capset");
        transfers();
    });
}

fn many_outlive_a_storm_of_wakes(subject: &Subject) {
    let scratch = subject.scratch();
    let file = scratch.buffered();
    file.write_all_at(&[5; BLOCK], 0).expect("write");
    let mut backend = subject.opened(CAPACITY);
    let waker = backend.waker();
    let stop = Arc::new(AtomicBool::new(false));
    let storm = {
        let stop = Arc::clone(&stop);
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                waker.wake();
                thread::yield_now();
            }
        })
    };
    let buffers: Vec<Transfer> = (0..CAPACITY).map(|_| Transfer::plain(BLOCK)).collect();
    for round in 0..20 {
        for (token, buffer) in buffers.iter().enumerate() {
            let op = buffer.op(token as u64, OpCode::Read, file.as_raw_fd(), 0);
            backend.push(pin(Op {
                direct: round % 2 == 0,
                ..op
            }));
        }
        assert!(
            reap_all(&mut *backend, buffers.len())
                .iter()
                .all(|c| c.result as usize == BLOCK)
        );
    }
    stop.store(true, Ordering::Relaxed);
    storm.join().expect("no panic");
}

/// Runs `body` in a child process: the test of this name in this module, for
/// this subject, alone. In the child itself: `body`, and the test ends.
fn in_child(test: &str, subject: &Subject, body: impl FnOnce()) {
    const MARK: &str = "IOLANE_TEST_IN_CHILD";
    if std::env::var_os(MARK).is_some() {
        body();
        return;
    }
    let module = subject.module();
    child(&format!("backend::tests::suite::{module}::{test}"), MARK);
}

/// That it is asked for reaches whoever can refuse it.
fn a_write_arrives_whole_or_is_refused(subject: &Subject) {
    let mut backend = subject.opened(CAPACITY);
    let scratch = subject.scratch();
    let Some(file) = scratch.direct() else {
        return iolane_testing::skipped("no direct I/O here");
    };
    let block = Transfer::filled(BLOCK, 7);
    let plain = Op {
        direct: true,
        ..block.op(1, OpCode::Write, file.as_raw_fd(), 0)
    };
    assert_eq!(run(&mut *backend, plain) as usize, BLOCK);
    // What the machine says without a backend: done, or EOPNOTSUPP, also of a
    // kernel that does not know the flag. A simulated disk says EINVAL.
    let whole = Op {
        atomic: true,
        ..plain
    };
    let expected = match subject {
        Subject::Kernel(_) => syscalls::transfer(&pin(whole)),
        _ => -libc::EINVAL,
    };
    if matches!(subject, Subject::Kernel(_)) {
        assert!(expected == BLOCK as i32 || expected == -libc::EOPNOTSUPP);
    }
    assert_eq!(run(&mut *backend, whole), expected);
}

macro_rules! suite {
    ($module:ident, $subject:expr) => {
        mod $module {
            use super::*;

            #[test]
            fn vectored_round_trip() {
                let subject = $subject;
                let scratch = subject.scratch();
                transfers::vectored_round_trip(&subject, &scratch.buffered(), false);
            }

            #[test]
            fn vectored_round_trip_direct() {
                let subject = $subject;
                let scratch = subject.scratch();
                if let Some(file) = scratch.direct() {
                    transfers::vectored_round_trip(&subject, &file, true);
                }
            }

            #[test]
            fn thousand_in_random_order() {
                let subject = $subject;
                let scratch = subject.scratch();
                transfers::thousand_in_random_order(&subject, &scratch.buffered(), false);
            }

            #[test]
            fn thousand_in_random_order_direct() {
                let subject = $subject;
                let scratch = subject.scratch();
                if let Some(file) = scratch.direct() {
                    transfers::thousand_in_random_order(&subject, &file, true);
                }
            }

            suite!(
                @plain $subject,
                errors_reach_the_caller,
                a_full_file_system_gives_a_short_write_first,
                short_reads_at_the_end,
                no_wake_is_lost,
                a_wake_in_advance_counts_once,
                completions_are_no_wakes,
                timeouts_are_respected,
                capacity_can_be_used_up_again_and_again,
                more_than_capacity_is_refused,
                dropping_waits_for_what_is_in_flight,
                a_priority_never_fails_a_transfer,
                a_write_arrives_whole_or_is_refused,
                many_outlive_a_storm_of_wakes,
            );
        }
    };
    (@plain $subject:expr, $($test:ident,)*) => {
        $(
            #[test]
            fn $test() {
                super::$test(&$subject);
            }
        )*
    };
}

suite!(on_uring, Subject::Kernel(BackendKind::Uring));
suite!(on_linux_aio, Subject::Kernel(BackendKind::LinuxAio));
suite!(on_threads, Subject::Kernel(BackendKind::Threads));
suite!(on_simulated, Subject::shuffled());
suite!(on_modelled, Subject::modelled());
