//! liburing. Programs prepare requests and look for completions by its inline functions; what
//! stands in between, by which rings are made, submitted and ended, is in its library. Where the
//! rules say so, there is no io_uring, and a program that knows Linux AIO as well takes that.

use std::ffi::{c_int, c_uint, c_void};

use iolane_protocol::Call;
use libc::size_t;

use crate::ahead;
use crate::client;
use crate::rings;
use crate::sys::real;
use crate::sys::uring::Prepared;

/// Makes a ring, and follows it if that can be.
///
/// # Safety
/// `make` makes the ring at that address.
unsafe fn make(ring: *mut c_void, make: impl FnOnce() -> c_int) -> c_int {
    let Some(client) = client::current() else {
        ahead::give_up();
        return make();
    };
    let rules = &client.memory.rules;
    if rules.refuses_uring {
        return -libc::ENOSYS;
    }
    let can_be_followed = rules.follows_uring && rings::begin();
    let result = make();
    // SAFETY: it was made just now.
    let is_followed = result == 0
        && can_be_followed
        && rings::follow(&unsafe { Prepared::of(ring.expose_provenance()) });
    if !is_followed {
        // What is written by it, nobody sees.
        ahead::give_up();
    }
    result
}

/// A ring whose memory is the program's is not followed.
fn make_unseen(make: impl FnOnce() -> c_int) -> c_int {
    if client::current().is_some_and(|client| client.memory.rules.refuses_uring) {
        return -libc::ENOSYS;
    }
    ahead::give_up();
    make()
}

/// Submits what stays in a ring after what is scheduled was taken out. Gives how many were
/// submitted in all.
///
/// # Safety
/// As for io_uring_submit(3).
unsafe fn submit(ring: *mut c_void, submit: impl FnOnce() -> c_int) -> c_int {
    if let Some(client) = client::current() {
        client
            .memory
            .header
            .count_call(Call::IoUringSubmit as usize);
    }
    // SAFETY: the caller's promise.
    let taken = rings::take(&mut unsafe { Prepared::of(ring.expose_provenance()) }) as c_int;
    let result = submit();
    // As the kernel does: what was submitted counts before an error of what follows.
    if taken > 0 {
        taken + result.max(0)
    } else {
        result
    }
}

/// io_uring_queue_init(3)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_queue_init(
    entries: c_uint,
    ring: *mut c_void,
    flags: c_uint,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { make(ring, || real::io_uring_queue_init(entries, ring, flags)) }
}

/// io_uring_queue_init_params(3)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_queue_init_params(
    entries: c_uint,
    ring: *mut c_void,
    parameters: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        make(ring, || {
            real::io_uring_queue_init_params(entries, ring, parameters)
        })
    }
}

/// io_uring_queue_init_mem(3)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_queue_init_mem(
    entries: c_uint,
    ring: *mut c_void,
    parameters: *mut c_void,
    memory: *mut c_void,
    bytes: size_t,
) -> c_int {
    // SAFETY: the caller's promise.
    make_unseen(|| unsafe {
        real::io_uring_queue_init_mem(entries, ring, parameters, memory, bytes)
    })
}

/// io_uring_queue_mmap(3), by which liburing's own functions make rings, too.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_queue_mmap(
    fd: c_int,
    parameters: *mut c_void,
    ring: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { make(ring, || real::io_uring_queue_mmap(fd, parameters, ring)) }
}

/// io_uring_queue_exit(3)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_queue_exit(ring: *mut c_void) {
    // SAFETY: the caller's promise.
    unsafe {
        let descriptor = Prepared::of(ring.expose_provenance()).descriptor();
        if let Ok(number) = c_uint::try_from(descriptor) {
            rings::retire(number, number);
        }
        real::io_uring_queue_exit(ring);
    }
}

/// io_uring_submit(3)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_submit(ring: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { submit(ring, || real::io_uring_submit(ring)) }
}

/// io_uring_submit_and_wait(3)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_submit_and_wait(
    ring: *mut c_void,
    wanted: c_uint,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        submit(ring, || {
            rings::waits_for(wanted as usize);
            real::io_uring_submit_and_wait(ring, wanted)
        })
    }
}

/// io_uring_submit_and_wait_timeout(3)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_submit_and_wait_timeout(
    ring: *mut c_void,
    completion: *mut c_void,
    wanted: c_uint,
    time: *mut c_void,
    mask: *mut c_void,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        submit(ring, || {
            rings::waits_for(wanted as usize);
            real::io_uring_submit_and_wait_timeout(ring, completion, wanted, time, mask)
        })
    }
}

/// io_uring_submit_and_get_events(3)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_uring_submit_and_get_events(ring: *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { submit(ring, || real::io_uring_submit_and_get_events(ring)) }
}
