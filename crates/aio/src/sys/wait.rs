//! Sleeping until a word changes or a signal comes.

use super::abi::Errno;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::AtomicU32;
use std::time::Duration;

/// The kernel's own waits for events end with EINTR, whatever the handler's
/// flags. So does a futex wait with a timeout, and one without does not: what
/// waits for ever has this one, and begins again.
const FOR_EVER: Duration = Duration::from_secs(24 * 3600);

fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}

/// Sleeps while `word` has this value, at most as long as `timeout`. Ends early
/// for no reason, too.
///
/// # Errors
/// EINTR: a signal was handled.
pub(crate) fn sleep(word: &AtomicU32, value: u32, timeout: Option<Duration>) -> Result<(), Errno> {
    let time = timespec(timeout.unwrap_or(FOR_EVER));
    // SAFETY: the word and the time outlive the call.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            value,
            &raw const time,
        )
    };
    let error = std::io::Error::last_os_error().raw_os_error();
    match error {
        Some(libc::EINTR) if result == -1 => Err(Errno(libc::EINTR)),
        _ => Ok(()),
    }
}

/// Wakes all that sleep on `word`.
pub(crate) fn wake_all(word: &AtomicU32) {
    // SAFETY: the address names no memory that the kernel changes.
    unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            i32::MAX,
        );
    }
}

/// Sleeps until `bell` is readable, with another mask of signals, which is in
/// force from before the first look to after the last.
///
/// # Errors
/// EINTR: a signal was handled.
pub(crate) fn poll(
    bell: BorrowedFd<'_>,
    timeout: Option<Duration>,
    mask: &libc::sigset_t,
) -> Result<(), Errno> {
    let mut watched = libc::pollfd {
        fd: bell.as_raw_fd(),
        events: libc::POLLIN,
        revents: 0,
    };
    let time = timespec(timeout.unwrap_or(FOR_EVER));
    // SAFETY: all three outlive the call.
    match unsafe { libc::ppoll(&mut watched, 1, &time, mask) } {
        -1 => Err(std::io::Error::last_os_error().into()),
        _ => Ok(()),
    }
}
