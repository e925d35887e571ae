//! Linux AIO, as libaio's functions and as `syscall`, by which other programs and
//! libraries make the same calls. libaio gives minus an error's number, `syscall` -1 and
//! `errno`.

use std::ffi::{c_int, c_long};

use iolane_protocol::Call;
use iolane_protocol::sys::raw::syscall6;

use super::process::goes_past_hooks;
use crate::ahead;
use crate::asynchronous;
use crate::client;
use crate::sys::aio;
use crate::sys::real;

/// io_pgetevents(2)
#[cfg(target_arch = "x86_64")]
const SYS_IO_PGETEVENTS: c_long = 333;
/// io_pgetevents(2)
#[cfg(target_arch = "aarch64")]
const SYS_IO_PGETEVENTS: c_long = 292;

fn count(call: Call) {
    if let Some(client) = client::current() {
        client.memory.header.count_call(call as usize);
    }
}

/// io_setup(2)
///
/// # Safety
/// As there.
unsafe fn setup(events: usize, context: usize) -> isize {
    client::start_submitter(aio::start_thread);
    // SAFETY: the caller's promise.
    unsafe { syscall6(libc::SYS_io_setup, [events, context, 0, 0, 0, 0]) }
}

/// io_submit(2)
///
/// # Safety
/// As there.
unsafe fn submit(context: usize, blocks_max: isize, blocks: usize) -> isize {
    let Ok(blocks_max @ 1..) = usize::try_from(blocks_max) else {
        // SAFETY: the caller's promise.
        return unsafe {
            syscall6(
                libc::SYS_io_submit,
                [context, blocks_max as usize, blocks, 0, 0, 0],
            )
        };
    };
    count(Call::IoSubmit);
    for index in 0..blocks_max {
        // SAFETY: the caller's promise.
        let address = unsafe { aio::address_at(blocks, index) };
        let result = asynchronous::submit(context, address);
        if result != 1 {
            return if index > 0 { index as isize } else { result };
        }
    }
    blocks_max as isize
}

/// io_getevents(2) and io_pgetevents(2). Completions are taken one by one as they come, also
/// where the program waits for many: their places with the device are what the rest waits for.
///
/// # Safety
/// As there.
unsafe fn events(number: c_long, arguments: [usize; 6]) -> isize {
    count(Call::IoGetevents);
    asynchronous::asks_for_events();
    let [context, least, most, place, timeout, mask] = arguments;
    if (least as isize) < 2 || most < least {
        // SAFETY: the caller's promise.
        return unsafe { take_events(number, arguments) };
    }
    // SAFETY: the caller's promise.
    let mut patience = unsafe { aio::Patience::of(timeout) };
    let mut taken = 0;
    loop {
        let rest = [
            context,
            1,
            most - taken,
            aio::event_at(place, taken),
            patience.remaining(),
            mask,
        ];
        // SAFETY: the caller's promise, for a part of the same room.
        let result = unsafe { take_events(number, rest) };
        match usize::try_from(result) {
            Ok(count @ 1..) if taken + count < least => taken += count,
            Ok(count) => return (taken + count) as isize,
            Err(_) if taken > 0 => return taken as isize,
            Err(_) => return result,
        }
    }
}

/// # Safety
/// As io_getevents(2).
unsafe fn take_events(number: c_long, arguments: [usize; 6]) -> isize {
    // SAFETY: the caller's promise; what was written is looked at, and no more.
    unsafe {
        let result = syscall6(number, arguments);
        if let Ok(count @ 1..) = usize::try_from(result) {
            aio::translate(arguments[3], count);
        }
        result
    }
}

/// io_destroy(2)
///
/// # Safety
/// As there.
unsafe fn destroy(context: usize) -> isize {
    asynchronous::flush(|of, _| of == context);
    // SAFETY: the caller's promise.
    let result = unsafe { syscall6(libc::SYS_io_destroy, [context, 0, 0, 0, 0, 0]) };
    if result == 0 {
        asynchronous::drop_context(context);
    }
    result
}

/// libaio's.
///
/// # Safety
/// As io_setup(2).
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_setup(events: c_int, context: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { setup(events as usize, context) as c_int }
}

/// libaio's.
///
/// # Safety
/// As io_submit(2).
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_submit(context: usize, count: c_long, blocks: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { submit(context, count as isize, blocks) as c_int }
}

/// libaio's.
///
/// # Safety
/// As io_getevents(2).
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_getevents(
    context: usize,
    least: c_long,
    most: c_long,
    place: usize,
    timeout: usize,
) -> c_int {
    let arguments = [context, least as usize, most as usize, place, timeout, 0];
    // SAFETY: the caller's promise.
    unsafe { events(libc::SYS_io_getevents, arguments) as c_int }
}

/// libaio's.
///
/// # Safety
/// As io_destroy(2).
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn io_destroy(context: usize) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { destroy(context) as c_int }
}

/// syscall(2). Takes as many arguments as a call can have; those that are none are
/// whatever lies in their places, as in the C library.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    // SAFETY: the caller's promise.
    let result = unsafe {
        match number {
            libc::SYS_io_setup => setup(a, b),
            libc::SYS_io_submit => submit(a, b as isize, c),
            libc::SYS_io_destroy => destroy(a),
            libc::SYS_io_getevents | SYS_IO_PGETEVENTS => events(number, [a, b, c, d, e, f]),
            _ => {
                if goes_past_hooks(number) {
                    ahead::give_up();
                }
                return real::syscall(number, a, b, c, d, e, f);
            }
        }
    };
    if result < 0 {
        // SAFETY: the calling thread's own.
        unsafe { *libc::__errno_location() = -result as c_int };
        return -1;
    }
    result as c_long
}
