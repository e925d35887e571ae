//! What is written comes back, in whatever shape, size and order.

use std::os::fd::AsRawFd;
use std::time::Duration;

use super::*;
use crate::sys::fixture::{Transfer, pin};

pub(super) fn vectored_round_trip(subject: &Subject, file: &TestFile, direct: bool) {
    const PIECES: usize = 64;
    // In memory every second block, in reverse; in the file one after another.
    let pieces: Vec<(usize, usize)> = (0..PIECES)
        .rev()
        .map(|piece| (piece * 2 * BLOCK, BLOCK))
        .collect();
    let len = PIECES * 2 * BLOCK;
    let mut out = Transfer::vectored(len, &pieces);
    for (at, block) in out.bytes_mut().chunks_mut(BLOCK).enumerate() {
        block.fill(at as u8);
    }
    let back = Transfer::vectored(len, &pieces);
    let mut backend = subject.opened(CAPACITY);
    let fd = file.as_raw_fd();
    let offset = 3 * BLOCK as u64;
    let with = |op: Op| Op { direct, ..op };

    let written = run(&mut *backend, with(out.op(1, OpCode::Write, fd, offset)));
    assert_eq!(written as usize, PIECES * BLOCK);
    assert_eq!(run(&mut *backend, out.op(2, OpCode::SyncData, fd, 0)), 0);
    assert_eq!(run(&mut *backend, out.op(3, OpCode::SyncAll, fd, 0)), 0);
    let read = run(&mut *backend, with(back.op(4, OpCode::Read, fd, offset)));
    assert_eq!(read as usize, PIECES * BLOCK);
    for (start, len) in pieces {
        assert_eq!(
            back.bytes()[start..start + len],
            out.bytes()[start..start + len]
        );
        assert!(
            back.bytes()[start + len..start + 2 * len]
                .iter()
                .all(|&b| b == 0)
        );
    }
    let last = (PIECES - 1) * 2;
    let mut first_on_disk = Transfer::plain(BLOCK);
    file.read_exact_at(first_on_disk.bytes_mut(), offset)
        .expect("read");
    assert!(first_on_disk.bytes().iter().all(|&b| b == last as u8));
}

pub(super) fn thousand_in_random_order(subject: &Subject, file: &TestFile, direct: bool) {
    const COUNT: u64 = 1000;
    let seed = 0x5eed_0001;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    let unit: u64 = if direct { BLOCK as u64 } else { 1 };
    let slot_bytes = 8 * BLOCK as u64;
    let sizes: Vec<usize> = (0..COUNT)
        .map(|_| ((1 + random.below(slot_bytes / unit)) * unit) as usize)
        .collect();
    let mut backend = subject.opened(CAPACITY);
    for code in [OpCode::Write, OpCode::Read] {
        let mut order: Vec<u64> = (0..COUNT).collect();
        random.shuffle(&mut order);
        let mut transfers: Vec<Option<Transfer>> = (0..COUNT).map(|_| None).collect();
        let mut done = Vec::new();
        let mut in_flight = 0;
        let mut finished = 0;
        let mut next = order.into_iter().peekable();
        while finished < COUNT {
            while in_flight < CAPACITY
                && let Some(token) = next.next()
            {
                let len = sizes[token as usize];
                let byte = if code == OpCode::Write {
                    token as u8 | 1
                } else {
                    0
                };
                let transfer = Transfer::filled(len, byte);
                let op = transfer.op(token, code, file.as_raw_fd(), token * slot_bytes);
                backend.push(pin(Op { direct, ..op }));
                transfers[token as usize] = Some(transfer);
                in_flight += 1;
                // Batches of different sizes.
                if random.below(8) == 0 {
                    break;
                }
            }
            if random.below(4) == 0 {
                backend.reap(Some(Duration::ZERO), &mut done).expect("reap");
            } else {
                reap_some(&mut *backend, &mut done);
            }
            for completed in done.drain(..) {
                let transfer = transfers[completed.token as usize]
                    .take()
                    .expect("each operation finishes once");
                assert_eq!(completed.result as usize, sizes[completed.token as usize]);
                if code == OpCode::Read {
                    assert!(
                        transfer
                            .bytes()
                            .iter()
                            .all(|&b| b == completed.token as u8 | 1)
                    );
                }
                in_flight -= 1;
                finished += 1;
            }
        }
        assert!(next.peek().is_none());
    }
}
