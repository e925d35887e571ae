//! An alarm clock that one thread waits for and any thread can set: a
//! timerfd(2).
//!
//! A condition variable would have to wake the waiting thread whenever the
//! alarm is brought forward, only for it to sleep again. The kernel moves the
//! alarm of a timerfd without waking anyone, and timer slack (prctl(2),
//! `PR_SET_TIMERSLACK`) does not apply to it.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Of `CLOCK_MONOTONIC`.
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl Timer {
    /// # Errors
    /// Out of file descriptors or memory.
    pub fn new() -> io::Result<Timer> {
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just opened, owned by nobody else.
        Ok(Timer(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Sets the alarm to `at_ns` instead of what it was set to; a time that
    /// has passed rings at once, `None` never.
    pub fn arm(&self, at_ns: Option<u64>) {
        // All zeros would disarm it.
        let at_ns = at_ns.map_or(0, |at_ns| at_ns.max(1));
        let setting = libc::itimerspec {
            it_interval: libc::timespec {
                tv_sec: 0,
                tv_nsec: 0,
            },
            it_value: libc::timespec {
                tv_sec: (at_ns / 1_000_000_000) as libc::time_t,
                tv_nsec: (at_ns % 1_000_000_000) as libc::c_long,
            },
        };
        // SAFETY: `setting` is valid for reading, the old one is not asked
        // for. Fails only for invalid arguments, of which there are none.
        unsafe {
            libc::timerfd_settime(
                self.0.as_raw_fd(),
                libc::TFD_TIMER_ABSTIME,
                &setting,
                std::ptr::null_mut(),
            )
        };
    }

    /// Waits until the alarm rings.
    pub fn wait(&self) {
        let mut rings = 0u64;
        // SAFETY: 8 writable bytes. An interruption by a signal only makes
        // the caller look at the clock again.
        unsafe { libc::read(self.0.as_raw_fd(), (&raw mut rings).cast(), 8) };
    }
}
