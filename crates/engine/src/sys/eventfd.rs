//! An event counter of the kernel (eventfd(2)).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

#[derive(Debug)]
pub(crate) struct EventFd(File);

/// What a read of a zero counter does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenZero {
    /// Waits. io_uring needs this: on a non-blocking file it reports EAGAIN
    /// instead of watching the file.
    Block,
    /// Fails with EAGAIN.
    Fail,
}

impl EventFd {
    pub fn new(when_zero: WhenZero) -> io::Result<EventFd> {
        let nonblock = match when_zero {
            WhenZero::Block => 0,
            WhenZero::Fail => libc::EFD_NONBLOCK,
        };
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | nonblock) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and nobody else has it.
        Ok(EventFd(File::from(unsafe { OwnedFd::from_raw_fd(fd) })))
    }

    /// Adds one.
    pub fn ring(&self) {
        // Fails only when the counter is full (2^64 - 2 unread additions),
        // and then its reader is awake already.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    /// Back to zero. A zero counter is left alone with [`WhenZero::Fail`].
    pub fn clear(&self) {
        let _ = (&self.0).read(&mut [0; 8]);
    }
}

impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
