//! Linux AIO, as libaio's functions and as `syscall`, by which other programs and
//! libraries make the same calls. libaio gives minus an error's number, `syscall` -1 and
//! `errno`.

use std::ffi::{c_int, c_long};

use iolane_protocol::Call;
use iolane_protocol::sys::clock;
use iolane_protocol::sys::raw::syscall6;

use super::control::retire_before;
use super::lock;
use super::process::{confines, goes_past_hooks, part, parts};
use crate::ahead;
use crate::asynchronous;
use crate::client;
use crate::contexts;
use crate::gather;
use crate::sys::aio::{self, Blocks};
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
    unsafe {
        let result = syscall6(libc::SYS_io_setup, [events, context, 0, 0, 0, 0]);
        if result == 0 {
            contexts::open(aio::address_at(context, 0), events);
        }
        result
    }
}

/// io_submit(2)
///
/// # Safety
/// As there.
unsafe fn submit(context: usize, blocks_max: isize, blocks: usize) -> isize {
    // SAFETY: the caller's promise.
    let ask = || unsafe {
        syscall6(
            libc::SYS_io_submit,
            [context, blocks_max as usize, blocks, 0, 0, 0],
        )
    };
    let Ok(count_max @ 1..) = usize::try_from(blocks_max) else {
        return ask();
    };
    if !client::is_on() {
        return ask();
    }
    count(Call::IoSubmit);
    let mut blocks = Blocks::at(blocks);
    for index in 0..count_max {
        // SAFETY: the caller's promise.
        let result = match unsafe { blocks.address(index) } {
            Some(address) => asynchronous::submit(context, address),
            None if index > 0 => 0,
            None => return ask(),
        };
        if result != 1 {
            return if index > 0 { index as isize } else { result };
        }
    }
    blocks_max
}

/// io_getevents(2) and io_pgetevents(2).
///
/// # Safety
/// As there.
unsafe fn events(number: c_long, arguments: [usize; 6]) -> isize {
    count(Call::IoGetevents);
    asynchronous::asks_for_events();
    // SAFETY: the caller's promise.
    let result = unsafe { collect(number, arguments) };
    contexts::leave(arguments[0], usize::try_from(result).unwrap_or(0));
    result
}

/// The same for a context of the library's own.
///
/// # Safety
/// As for io_getevents(2) without a time.
pub unsafe fn events_of(context: usize, least: usize, most: usize, place: usize) -> isize {
    // SAFETY: the caller's promise.
    let result = unsafe { collect(libc::SYS_io_getevents, [context, least, most, place, 0, 0]) };
    contexts::leave(context, usize::try_from(result).unwrap_or(0));
    result
}

/// One event of the kernel's may be several of the
/// program's. The kernel is asked for one at a time where the program wants to sleep for more:
/// the places of those that have ended let others go, for which it would sleep.
///
/// # Safety
/// As for [`events`].
unsafe fn collect(number: c_long, arguments: [usize; 6]) -> isize {
    /// Another thread may find more events than it has room for.
    const SLICE_NS: u64 = 20_000_000;
    const SLEEP_NS: u64 = 3_600_000_000_000;
    let [context, least, most, place, timeout, mask] = arguments;
    // What the kernel refuses it shall refuse by itself.
    let is_right = least as isize >= 0 && (least as isize) <= most as isize && most > 0;
    // SAFETY: a time of the program's, or none.
    let end_ns = unsafe { end_of(timeout) }
        .filter(|_| is_right && place != 0 && (client::current().is_some() || gather::is_used()));
    let Some(end_ns) = end_ns else {
        // SAFETY: the caller's promise; what was written is looked at, and no more.
        unsafe {
            let result = syscall6(number, arguments);
            if let Ok(count @ 1..) = usize::try_from(result) {
                aio::translate(place, count);
            }
            return result;
        }
    };
    let (mut given, mut has_asked) = (0, false);
    loop {
        let mut at = given;
        given += gather::harvest(context, most - given, |event| {
            // SAFETY: room for `most` is the caller's promise.
            unsafe { aio::put(place, at, event) };
            at += 1;
        });
        if given == most || (given >= least && has_asked) {
            return given as isize;
        }
        let left_ns = end_ns.saturating_sub(clock::now_ns());
        let longest_ns = if gather::is_used() {
            SLICE_NS
        } else {
            SLEEP_NS
        };
        let slice_ns = if given < least {
            left_ns.min(longest_ns)
        } else {
            0
        };
        if slice_ns > 0 {
            asynchronous::wait_for(context, least - given);
        }
        let time = libc::timespec {
            tv_sec: (slice_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (slice_ns % 1_000_000_000) as libc::c_long,
        };
        let next = [
            context,
            usize::from(given < least),
            most - given,
            place + given * aio::EVENT_BYTES,
            std::ptr::from_ref(&time).expose_provenance(),
            mask,
        ];
        // SAFETY: the caller's promise, for the rest of its array; a time that lives as long as
        // the call.
        let result = unsafe { syscall6(number, next) };
        let Ok(count) = usize::try_from(result) else {
            return if given > 0 { given as isize } else { result };
        };
        has_asked = true;
        // SAFETY: so many were written there.
        given += unsafe { aio::translate_gathered(next[3], count) };
        if count == 0 && left_ns <= slice_ns {
            return given as isize;
        }
    }
}

/// When a time of the program's is over; never, for no time. `None` for one that is wrong.
///
/// # Safety
/// A `struct timespec`, or zero.
unsafe fn end_of(timeout: usize) -> Option<u64> {
    let time: *const libc::timespec = std::ptr::with_exposed_provenance(timeout);
    if time.is_null() {
        return Some(u64::MAX);
    }
    // SAFETY: the caller's promise.
    let time = unsafe { time.read_unaligned() };
    let whole_ns = u64::try_from(time.tv_sec)
        .ok()?
        .saturating_mul(1_000_000_000);
    let rest_ns = u64::try_from(time.tv_nsec)
        .ok()
        .filter(|&rest_ns| rest_ns < 1_000_000_000)?;
    Some(clock::now_ns().saturating_add(whole_ns.saturating_add(rest_ns)))
}

/// io_destroy(2)
///
/// # Safety
/// As there.
unsafe fn destroy(context: usize) -> isize {
    // SAFETY: the caller's promise.
    asynchronous::destroy(context, || unsafe {
        syscall6(libc::SYS_io_destroy, [context, 0, 0, 0, 0, 0])
    })
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
            libc::SYS_futex => lock::futex([a, b, c, d, e, f]),
            _ => {
                if goes_past_hooks(number) {
                    ahead::give_up();
                    retire_before(number, a, b, c);
                } else if number == libc::SYS_exit_group {
                    asynchronous::ends();
                }
                let do_it = || real::syscall(number, a, b, c, d, e, f);
                if confines(number, a) {
                    return client::retreat_after(do_it, |&result| result >= 0);
                }
                if parts(number, a, c) {
                    return part(do_it, |&result| result == 0);
                }
                return do_it();
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
