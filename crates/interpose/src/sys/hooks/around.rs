//! What is done around a call.

use std::ffi::c_int;
use std::ptr;

use iolane_protocol::sys::clock;
use iolane_protocol::{KIND_READ, KIND_SYNC, KIND_WRITE};
use libc::ssize_t;

pub use super::pieces::read_in_pieces;
use super::{pacing, scan};
use crate::ahead;
use crate::client;
use crate::descriptor::{self, Known};
use crate::sys::{file, pages, stack};
use crate::thread;
use crate::ticket::{self, Request};
use crate::unfinished;
use iolane_protocol::Call;

const CANCEL_DISABLE: c_int = 1;
/// No state of cancelling: nothing has changed it yet.
const UNKNOWN: c_int = -1;

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
    scan::read(call, descriptor, &known, &request, do_it)
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

/// A write. Into the page cache it passes: what matters is what writes it back
/// ([`pacing`]).
pub fn write(
    call: Call,
    descriptor: c_int,
    offset: Option<i64>,
    length: usize,
    do_it: impl FnOnce() -> ssize_t,
) -> ssize_t {
    changing(descriptor, offset, length, || {
        let Some(known) = known(call, descriptor) else {
            return do_it();
        };
        if !known.direct && !known.durable {
            let result = do_it();
            return match usize::try_from(result) {
                Ok(count) if count > 0 => pacing::wrote(call, descriptor, &known, offset, count),
                _ => result,
            };
        }
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
    let failed = pacing::write_back_all(call, descriptor, &known);
    let result = scheduled(call, &known, &request, || do_it() as ssize_t) as c_int;
    match failed {
        Some(error) if result == 0 => fail(error),
        _ => result,
    }
}

/// As a system call that failed with minus this error's number.
pub fn fail(error: isize) -> c_int {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = -error as c_int };
    -1
}

/// The file, if its requests are scheduled; counts the call.
pub fn known(call: Call, descriptor: c_int) -> Option<Known> {
    let client = client::current()?;
    client.memory.header.count_call(call as usize);
    descriptor::find(client.memory, descriptor)
}

/// `None` for what is no transfer: the call itself says what is wrong.
pub fn request(kind: u8, descriptor: c_int, offset: Option<i64>, length: usize) -> Option<Request> {
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
/// pending comes before, as it would in the call itself. A signal's handler may jump out of it
/// ([`unfinished`]).
pub fn scheduled(
    call: Call,
    known: &Known,
    request: &Request,
    do_it: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let mut old: c_int = UNKNOWN;
    let frame = (&raw mut old).expose_provenance();
    unfinished::abandon_before(frame, stack::is_another);
    // SAFETY: `old` lives as long as the call, and nobody else changes it. Nothing here has a
    // destructor that unwinding would miss.
    let place = unsafe {
        pthread_testcancel();
        let place = unfinished::enter(frame);
        pthread_setcancelstate(CANCEL_DISABLE, &raw mut old);
        place
    };
    let ticket = ticket::take(known, request, |ticket| unfinished::note(place, ticket));
    let result = do_it();
    if let Some(ticket) = ticket.filter(|_| unfinished::is_open(place, frame)) {
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
    // After that: a jump that comes between does so again.
    unfinished::leave(place, frame);
    result
}

/// A signal's handler may jump out of a call in the middle of [`scheduled`]: the thread can be
/// cancelled again as it could before.
pub fn jumps() {
    let Some(frame) = unfinished::take_cancel_state() else {
        return;
    };
    let old: *const c_int = ptr::with_exposed_provenance(frame);
    // SAFETY: the call has not come back, and the jump has not begun: its frame is there. Volatile,
    // as the call was interrupted somewhere. What the function gave it takes.
    unsafe {
        let old = old.read_volatile();
        if old != UNKNOWN {
            pthread_setcancelstate(old, ptr::null_mut());
        }
    }
}
