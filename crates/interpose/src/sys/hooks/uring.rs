//! liburing's beginning. Its rings are memory that programs read and write by inline
//! functions, so requests on them are not caught. Where the rules say so, there is no
//! io_uring, and a program that knows Linux AIO as well takes that.

use std::ffi::{c_int, c_uint, c_void};

use crate::ahead;
use crate::client;
use crate::sys::real;

fn is_refused() -> bool {
    client::current().is_some_and(|client| client.memory.rules.refuses_uring)
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
    if is_refused() {
        return -libc::ENOSYS;
    }
    // What is written by it, nobody sees.
    ahead::give_up();
    // SAFETY: the caller's promise.
    unsafe { real::io_uring_queue_init(entries, ring, flags) }
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
    if is_refused() {
        return -libc::ENOSYS;
    }
    // What is written by it, nobody sees.
    ahead::give_up();
    // SAFETY: the caller's promise.
    unsafe { real::io_uring_queue_init_params(entries, ring, parameters) }
}
