//! An event counter of the kernel (`eventfd(2)`).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

unsafe extern "C" {
    fn eventfd(initial: u32, flags: i32) -> i32;
}

/// As in <sys/eventfd.h>.
const EFD_CLOEXEC: i32 = 0o2_000_000;
const EFD_NONBLOCK: i32 = 0o4_000;

pub(crate) struct EventFd(File);

impl EventFd {
    pub(crate) fn new() -> io::Result<EventFd> {
        // SAFETY: no memory is passed.
        let descriptor = unsafe { eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new, and nobody else has it.
        Ok(EventFd(File::from(unsafe {
            OwnedFd::from_raw_fd(descriptor)
        })))
    }

    pub(crate) fn descriptor(&self) -> i32 {
        self.0.as_raw_fd()
    }

    /// Makes it readable.
    pub(crate) fn ring(&self) {
        // Fails only when the counter is full, and then it is readable.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    /// Makes it not readable.
    pub(crate) fn clear(&self) {
        // Fails only when it is not readable.
        let _ = (&self.0).read(&mut [0; 8]);
    }
}
