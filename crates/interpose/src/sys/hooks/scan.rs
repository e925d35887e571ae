//! Reads through the page cache of files that the kernel reads nothing ahead of. Who reads in order
//! would wait for the disk at each small read: more and more is read at once. While no other thread
//! waits for the disk, what comes next is read ahead, too, as the kernel would; it stops when
//! somebody does, which the kernel's own does not.

use std::ffi::c_int;

use iolane_protocol::Call;
use iolane_protocol::sys::clock;
use libc::ssize_t;

use super::around::scheduled;
use super::pacing::{PIECE_BYTES, leader};
use crate::client;
use crate::descriptor::{self, Known};
use crate::sys::file;
use crate::sys::residency::{self, PAGE_BYTES};
use crate::thread;
use crate::ticket::Request;

/// What is read ahead while nobody else waits: on a volume 1 ms away, more than 1 GB/s.
const AHEAD_BYTES_MAX: u64 = 2 << 20;
/// As little as the kernel begins with.
const AHEAD_BYTES_MIN: u64 = 64 << 10;

/// A read through the page cache.
pub fn read(
    call: Call,
    descriptor: c_int,
    known: &Known,
    request: &Request,
    do_it: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let before = descriptor::in_order(descriptor, request.offset, request.length);
    let goes_on = known.ahead && before > 0;
    if residency::is_cached(descriptor, request.offset, request.length) {
        if goes_on {
            follow(descriptor, known, request, before);
        }
        return do_it();
    }
    let length = if goes_on {
        at_once(request.length, before)
    } else {
        request.length
    };
    let mut result = 0;
    scheduled(call, known, &Request { length, ..*request }, || {
        if length > request.length {
            file::read_ahead(descriptor, request.offset, length);
        }
        if goes_on && is_alone(known) {
            begin(descriptor, request.offset + length as u64, before);
        }
        result = do_it();
        if result <= 0 || length == request.length {
            return result;
        }
        // So much the device has read.
        let size = file::stat(descriptor).map_or(0, |stat| stat.size);
        let left = size.saturating_sub(request.offset);
        result.max(left.min(length as u64) as ssize_t)
    });
    result
}

/// What is read in one request: as much again as was read in order before; a scan goes on.
fn at_once(length: usize, before: u64) -> usize {
    let more = if thread::reads_on(clock::now_ns()) {
        PIECE_BYTES
    } else {
        before.min(PIECE_BYTES).next_multiple_of(PAGE_BYTES)
    };
    length.max(more as usize)
}

/// A read that the page cache serves: what was read ahead has come nearer.
fn follow(descriptor: c_int, known: &Known, request: &Request, before: u64) {
    let end = descriptor::ahead_end(descriptor);
    if end == 0 {
        return;
    }
    let place = request.offset + request.length as u64;
    let window = window(before);
    if place + window <= end {
        return;
    }
    // Others wait, another place is read, or what follows is there already, or nothing does: all
    // waits for the next read that needs the disk.
    let start = end.max(place);
    if place > end + window
        || !is_alone(known)
        || residency::is_cached(descriptor, start, window as usize)
    {
        descriptor::set_ahead_end(descriptor, 0);
        return;
    }
    begin(descriptor, start, before);
}

fn begin(descriptor: c_int, start: u64, before: u64) {
    let window = window(before);
    // Some kernels take no more at once.
    for at in (0..window).step_by(PIECE_BYTES as usize) {
        let length = (window - at).min(PIECE_BYTES);
        file::read_ahead(descriptor, start + at, length as usize);
    }
    descriptor::set_ahead_end(descriptor, start + window);
    // It is a scan, also once others wait.
    thread::has_read(window as u32, clock::now_ns());
}

fn window(before: u64) -> u64 {
    before.clamp(AHEAD_BYTES_MIN, AHEAD_BYTES_MAX)
}

/// Whether no other thread waited for the disk a moment ago.
fn is_alone(known: &Known) -> bool {
    client::current().is_some_and(|client| thread::is_alone(leader(client, known), clock::now_ns()))
}
