//! A word on standard error, where that is still what it was when the program began.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use iolane_protocol::sys::raw::syscall6;

use super::file;

const STANDARD_INPUT: i32 = 0;
const STANDARD_ERROR: i32 = 2;
/// The number of `/dev/null`.
const NOWHERE: u64 = libc::makedev(1, 3);
/// Signals that a write may send to the process: they would end or stop it.
const SIGNALS: u64 = signal_bit(libc::SIGPIPE) | signal_bit(libc::SIGTTOU);

/// What standard error was, and whether there was any. A child of a fork has its parent's.
static DEVICE: AtomicU64 = AtomicU64::new(0);
static INODE: AtomicU64 = AtomicU64::new(0);
static IS_KNOWN: AtomicBool = AtomicBool::new(false);

const fn signal_bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// When the library is loaded. A socket that is standard input, too, is a client's: what it is told
/// has a form that nothing here knows. In `/dev/null` nobody reads it: another process may say it.
pub fn remember_standard_error() {
    let Some(error) = file::stat(STANDARD_ERROR) else {
        return;
    };
    let is_same = |input: file::Stat| (input.device, input.inode) == (error.device, error.inode);
    let is_client = error.is_socket && file::stat(STANDARD_INPUT).is_some_and(is_same);
    if is_client || error.special_device == NOWHERE {
        return;
    }
    DEVICE.store(error.device, Ordering::Relaxed);
    INODE.store(error.inode, Ordering::Relaxed);
    IS_KNOWN.store(true, Ordering::Release);
}

/// Whether a word is for people now: a daemon closes the descriptor, and it may be a file of its
/// data then. Nobody waits for a reader who does not read, either.
pub fn can_be_said() -> bool {
    let is_it = |now: file::Stat| {
        now.device == DEVICE.load(Ordering::Relaxed) && now.inode == INODE.load(Ordering::Relaxed)
    };
    IS_KNOWN.load(Ordering::Acquire)
        && file::stat(STANDARD_ERROR).is_some_and(is_it)
        && takes_more()
}

/// Whether there is room, and somebody who reads.
fn takes_more() -> bool {
    let mut asked = libc::pollfd {
        fd: STANDARD_ERROR,
        events: libc::POLLOUT,
        revents: 0,
    };
    let no_time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let arguments = [
        (&raw mut asked).expose_provenance(),
        1,
        ptr::from_ref(&no_time).expose_provenance(),
        0,
        0,
        0,
    ];
    // SAFETY: both structures live as long as the call.
    let result = unsafe { syscall6(libc::SYS_ppoll, arguments) };
    result == 1 && asked.revents == libc::POLLOUT
}

/// Says it.
pub fn say(text: &[u8]) {
    let (signals, mut before) = (SIGNALS, 0u64);
    let size = size_of::<u64>();
    let signals_at = ptr::from_ref(&signals).expose_provenance();
    let before_at = (&raw mut before).expose_provenance();
    let block = [libc::SIG_BLOCK as usize, signals_at, before_at, size, 0, 0];
    let restore = [libc::SIG_SETMASK as usize, before_at, 0, size, 0, 0];
    let write = [
        STANDARD_ERROR as usize,
        text.as_ptr().expose_provenance(),
        text.len(),
        0,
        0,
        0,
    ];
    // SAFETY: the text is as long as the call is told; the kernel's sets of signals have eight
    // bytes, and live as long as the calls.
    unsafe {
        if syscall6(libc::SYS_rt_sigprocmask, block) != 0 {
            return;
        }
        if syscall6(libc::SYS_write, write) == -(libc::EPIPE as isize) {
            take_signal(libc::SIGPIPE);
        }
        syscall6(libc::SYS_rt_sigprocmask, restore);
    }
}

/// A signal that is blocked and was sent is not any more.
fn take_signal(signal: i32) {
    let signals = signal_bit(signal);
    let no_time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    let arguments = [
        ptr::from_ref(&signals).expose_provenance(),
        0,
        ptr::from_ref(&no_time).expose_provenance(),
        size_of::<u64>(),
        0,
        0,
    ];
    // SAFETY: both live as long as the call, which waits for nothing.
    unsafe { syscall6(libc::SYS_rt_sigtimedwait, arguments) };
}
