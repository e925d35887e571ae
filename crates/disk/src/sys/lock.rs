//! Locks on whole files that end with their process: flock(2).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// What came of asking for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Locking {
    /// It lasts until the file is closed.
    Locked,
    /// Another process has it.
    Held,
}

/// Asks for the only lock on `file`, without waiting.
///
/// # Errors
/// What the file system refuses.
pub fn lock_exclusively(file: &File) -> io::Result<Locking> {
    // SAFETY: no memory is passed; the descriptor is open as long as `file`.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
        return Ok(Locking::Locked);
    }
    let error = io::Error::last_os_error();
    match error.kind() {
        io::ErrorKind::WouldBlock => Ok(Locking::Held),
        _ => Err(error),
    }
}
