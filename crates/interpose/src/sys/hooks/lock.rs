//! futex(2) by `syscall`, by which storage engines sleep on locks of their own.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use iolane_protocol::sys::raw::syscall6;

use crate::client;
use crate::latch::{self, WORDS};

const PAGE_BYTES: usize = 4096;
const WORD_BYTES: usize = size_of::<u64>();

/// Sleeps while a word is what it was. A sleep with a time, and every other operation, passes.
///
/// # Safety
/// As for futex(2).
pub(super) unsafe fn futex(arguments: [usize; 6]) -> isize {
    const FLAGS: c_int = libc::FUTEX_PRIVATE_FLAG | libc::FUTEX_CLOCK_REALTIME;
    let [word, operation, value, timeout, ..] = arguments;
    // SAFETY: the caller's promise.
    let go = || unsafe { syscall6(libc::SYS_futex, arguments) };
    let sleeps = operation as c_int & !FLAGS == libc::FUTEX_WAIT && timeout == 0;
    if !sleeps || !client::has_submitter() || !latch::is_worth_a_look() {
        return go();
    }
    let Some(client) = client::current() else {
        return go();
    };
    let none = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let place = ptr::from_ref(&none).expose_provenance();
    // SAFETY: the same call, with a time that lives as long as it.
    let result = unsafe { syscall6(libc::SYS_futex, [word, operation, value, place, 0, 0]) };
    if result != -(libc::ETIMEDOUT as isize) {
        // As it would have been without a time.
        return result;
    }
    // SAFETY: the kernel has just read the word.
    let around = unsafe { look_around(word) };
    latch::sleeps(client, around, go)
}

/// The words around one, as far as they lie in the same page of memory; zeros for the others.
///
/// # Safety
/// That one can be read.
unsafe fn look_around(word: usize) -> [u64; WORDS] {
    let page = word & !(PAGE_BYTES - 1);
    let first = (word & !(WORD_BYTES - 1)).wrapping_sub(WORDS / 2 * WORD_BYTES);
    std::array::from_fn(|index| {
        let address = first.wrapping_add(index * WORD_BYTES);
        if address & !(PAGE_BYTES - 1) != page {
            return 0;
        }
        let address: *const AtomicU64 = ptr::with_exposed_provenance(address);
        // SAFETY: aligned, and in a page that can be read, as the caller promises. Others may
        // write there at the same time.
        unsafe { (*address).load(Ordering::Relaxed) }
    })
}
