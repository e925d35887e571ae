//! What is done around a call.

use std::ffi::c_int;
use std::ptr;

use iolane_protocol::sys::clock;
use iolane_protocol::{KIND_READ, KIND_SYNC, KIND_WRITE};
use libc::ssize_t;

pub use super::pieces::read_in_pieces;
use crate::ahead;
use crate::client;
use crate::descriptor::{self, Known};
use crate::sys::{file, pages, residency};
use crate::thread;
use crate::ticket::{self, Request};
use iolane_protocol::Call;

/// What a scan reads at once: the kernel's own default (`read_ahead_kb`).
const AHEAD_BYTES: usize = 128 << 10;
/// What is written back at once: with more, whoever comes meanwhile waits longer.
const PIECE_BYTES: u64 = 256 << 10;
const CANCEL_DISABLE: c_int = 1;

unsafe extern "C-unwind" {
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
    fn pthread_testcancel();
}

/// A read. `offset`: where, or `None` for where the descriptor stands.
pub fn read(
    call: Call,
    descriptor: c_int,
    offset: Option<i64>,
    length: usize,
    do_it: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(known) = known(call, descriptor) else {
        let result = do_it();
        // Nobody's file: a client, perhaps, who asks the next thing.
        if offset.is_none() && result > 0 {
            thread::was_asked();
        }
        return result;
    };
    let Some(request) = request(KIND_READ, descriptor, offset, length) else {
        return do_it();
    };
    if known.direct {
        return scheduled(call, &known, &request, do_it);
    }
    let continues = descriptor::continues(descriptor, request.offset, length);
    if residency::is_cached(descriptor, request.offset, length) {
        return do_it();
    }
    let is_scan = known.ahead && continues && thread::reads_on(clock::now_ns());
    if !is_scan || length >= AHEAD_BYTES {
        return scheduled(call, &known, &request, do_it);
    }
    // A scan reads on: one request for what it needs next.
    let request = Request {
        length: AHEAD_BYTES,
        ..request
    };
    scheduled(call, &known, &request, || {
        file::read_ahead(descriptor, request.offset, AHEAD_BYTES);
        do_it()
    })
}

/// A read that may be one of a page that was read ahead.
///
/// # Safety
/// As for pread(2) into `buffer`.
pub unsafe fn read_page(
    call: Call,
    descriptor: c_int,
    offset: Option<i64>,
    length: usize,
    buffer: usize,
    do_it: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let place = offset.and_then(|offset| u64::try_from(offset).ok());
    let found = place.and_then(|place| {
        let client = client::current()?;
        ahead::may_be_page(client.memory, place, length).then_some((client, place))
    });
    let Some((client, place)) = found else {
        return read(call, descriptor, offset, length, do_it);
    };
    let memory = client.memory;
    // SAFETY: the caller's promise.
    let copy = |frame| unsafe { pages::copy_frame(frame, length, buffer) };
    if ahead::serve(memory, descriptor, place, length, copy) {
        memory.header.count_call(call as usize);
        thread::has_read(length as u32, clock::now_ns());
        return length as ssize_t;
    }
    let result = read(call, descriptor, offset, length, do_it);
    if result == length as ssize_t
        && let Some(known) = descriptor::find(memory, descriptor).filter(|known| known.direct)
    {
        // SAFETY: so much was read there.
        unsafe {
            pages::with_buffer(buffer, length, |page| {
                ahead::note_read(client, &known, descriptor, place, page);
            });
        }
    }
    result
}

/// A write that may be one of a page.
///
/// # Safety
/// As for pwrite(2) from `buffer`.
pub unsafe fn write_page(
    call: Call,
    descriptor: c_int,
    offset: Option<i64>,
    length: usize,
    buffer: usize,
    do_it: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let result = write(call, descriptor, offset, length, do_it);
    if result == length as ssize_t
        && let Some(place) = offset.and_then(|offset| u64::try_from(offset).ok())
        && let Some(client) = client::current()
        && ahead::may_be_page(client.memory, place, length)
    {
        // SAFETY: so much was written from there.
        unsafe {
            pages::with_buffer(buffer, length, |page| {
                ahead::note_write(client.memory, descriptor, place, page);
            });
        }
    }
    result
}

/// A call that changes what is behind a descriptor, there or anywhere.
pub fn changing<T>(
    descriptor: c_int,
    offset: Option<i64>,
    length: usize,
    do_it: impl FnOnce() -> T,
) -> T {
    let offset = offset.and_then(|offset| u64::try_from(offset).ok());
    let change = ahead::begin_change(descriptor, offset, length as u64);
    let result = do_it();
    if let Some(change) = change {
        change.end();
    }
    result
}

/// A write. Into the page cache it passes: what matters is what writes it back.
pub fn write(
    call: Call,
    descriptor: c_int,
    offset: Option<i64>,
    length: usize,
    do_it: impl FnOnce() -> ssize_t,
) -> ssize_t {
    changing(descriptor, offset, length, || {
        let is_known = |known: &Known| known.direct || known.durable;
        let Some(known) = known(call, descriptor).filter(is_known) else {
            return do_it();
        };
        let Some(request) = request(KIND_WRITE, descriptor, offset, length) else {
            return do_it();
        };
        scheduled(call, &known, &request, do_it)
    })
}

/// A sync of a whole file. Where the rule says so, what was written goes to the disk
/// before, piece by piece, so that the sync itself is short.
pub fn sync(call: Call, descriptor: c_int, do_it: impl FnOnce() -> c_int) -> c_int {
    let Some(known) = known(call, descriptor) else {
        return do_it();
    };
    let request = Request {
        kind: KIND_SYNC,
        offset: 0,
        length: 0,
        asynchronous: false,
        level_min: 0,
    };
    let failed = write_back_all(call, descriptor, &known);
    let result = scheduled(call, &known, &request, || do_it() as ssize_t) as c_int;
    match failed {
        Some(error) if result == 0 => fail(error),
        _ => result,
    }
}

/// The write-back of a range, which the program asks for.
pub fn write_back(
    call: Call,
    descriptor: c_int,
    offset: i64,
    length: i64,
    do_it: impl FnOnce() -> c_int,
) -> c_int {
    let Some(known) = known(call, descriptor).filter(|known| !known.direct) else {
        return do_it();
    };
    // A length of 0 is all that follows: too much for one request.
    let length = usize::try_from(length).unwrap_or(0);
    let Some(request) = request(KIND_WRITE, descriptor, Some(offset), length) else {
        return do_it();
    };
    let mut error = 0;
    let result = scheduled(call, &known, &request, || {
        let result = do_it() as ssize_t;
        if result == 0 {
            // The place is given back when the disk has it.
            error = file::write_back(descriptor, request.offset, length as u64);
        }
        result
    }) as c_int;
    // The kernel tells an error once, and it was told here.
    if error < 0 { fail(error) } else { result }
}

/// Writes back what changed, in requests of its own. Gives the error that the kernel
/// told: it does not tell it again.
fn write_back_all(call: Call, descriptor: c_int, known: &Known) -> Option<isize> {
    let client = client::current()?;
    if known.direct || !ticket::is_paced(client, known) {
        return None;
    }
    let size = file::stat(descriptor)?.size;
    let mut failed = None;
    let mut offset = 0;
    while offset < size {
        let length = (size - offset).min(PIECE_BYTES);
        if residency::dirty_pages(descriptor, offset, length) != Some(0) {
            let request = Request {
                kind: KIND_WRITE,
                offset,
                length: length as usize,
                asynchronous: false,
                level_min: 0,
            };
            let result = scheduled(call, known, &request, || {
                file::write_back(descriptor, offset, length)
            });
            failed = failed.or((result < 0).then_some(result));
        }
        offset += length;
    }
    failed
}

/// As a system call that failed with minus this error's number.
fn fail(error: isize) -> c_int {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = -error as c_int };
    -1
}

/// The file, if its requests are scheduled; counts the call.
fn known(call: Call, descriptor: c_int) -> Option<Known> {
    let client = client::current()?;
    client.memory.header.count_call(call as usize);
    descriptor::find(client.memory, descriptor)
}

/// `None` for what is no transfer: the call itself says what is wrong.
fn request(kind: u8, descriptor: c_int, offset: Option<i64>, length: usize) -> Option<Request> {
    let offset = match offset {
        Some(offset) => u64::try_from(offset).ok()?,
        None => file::position(descriptor),
    };
    (length > 0).then_some(Request {
        kind,
        offset,
        length,
        asynchronous: false,
        level_min: 0,
    })
}

/// Waits for leave, lets the call be done, and gives the place back. A call gives -1 and
/// `errno`, or minus an error's number. No
/// cancellation comes between: a place that was lost would stay taken. One that is
/// pending comes before, as it would in the call itself.
fn scheduled(
    call: Call,
    known: &Known,
    request: &Request,
    do_it: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let mut old: c_int = 0;
    // SAFETY: `old` lives as long as the call. Nothing here has a destructor that
    // unwinding would miss.
    unsafe {
        pthread_testcancel();
        pthread_setcancelstate(CANCEL_DISABLE, &mut old);
    }
    let ticket = ticket::take(known, request);
    let result = do_it();
    if let Some(ticket) = ticket {
        ticket.count(call);
        let result = match result {
            // SAFETY: the calling thread's own.
            -1 => -i64::from(unsafe { *libc::__errno_location() }),
            _ => result as i64,
        };
        ticket.give_back(result);
    }
    // SAFETY: as above.
    unsafe { pthread_setcancelstate(old, ptr::null_mut()) };
    result
}
