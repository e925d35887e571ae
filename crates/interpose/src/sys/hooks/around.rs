//! What is done around a call.

use std::ffi::c_int;
use std::ptr;

use iolane_protocol::{KIND_READ, KIND_SYNC, KIND_WRITE};
use libc::ssize_t;

use crate::client;
use crate::descriptor::{self, Known};
use crate::sys::{file, residency};
use crate::thread;
use crate::ticket::{self, Request};
use iolane_protocol::Call;

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
    if !known.direct && residency::is_cached(descriptor, request.offset, length) {
        return do_it();
    }
    scheduled(call, &known, &request, do_it)
}

/// A write. Into the page cache it passes: what matters is what writes it back.
pub fn write(
    call: Call,
    descriptor: c_int,
    offset: Option<i64>,
    length: usize,
    do_it: impl FnOnce() -> ssize_t,
) -> ssize_t {
    let Some(known) = known(call, descriptor).filter(|known| known.direct || known.durable) else {
        return do_it();
    };
    let Some(request) = request(KIND_WRITE, descriptor, offset, length) else {
        return do_it();
    };
    scheduled(call, &known, &request, do_it)
}

/// A sync of a whole file.
pub fn sync(call: Call, descriptor: c_int, do_it: impl FnOnce() -> c_int) -> c_int {
    let Some(known) = known(call, descriptor) else {
        return do_it();
    };
    let request = Request {
        kind: KIND_SYNC,
        offset: 0,
        length: 0,
        asynchronous: false,
    };
    scheduled(call, &known, &request, || do_it() as ssize_t) as c_int
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
    })
}

/// Waits for leave, lets the call be done, and gives the place back. No
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
        // SAFETY: the calling thread's own.
        let errno = unsafe { *libc::__errno_location() };
        ticket.give_back(if result < 0 {
            -i64::from(errno)
        } else {
            result as i64
        });
    }
    // SAFETY: as above.
    unsafe { pthread_setcancelstate(old, ptr::null_mut()) };
    result
}
