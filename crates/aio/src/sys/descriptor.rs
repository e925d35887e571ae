//! Descriptors of the program.

use super::abi::Errno;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// include/uapi/linux/fcntl.h, Linux 6.10.
const F_DUPFD_QUERY: i32 = 1024 + 3;
/// kcmp(2).
const KCMP_FILE: i32 = 0;
/// Duplicates keep away from the numbers that programs expect for their own.
const DUPLICATE_MIN: i32 = 256;

/// A duplicate of the program's `fd`: it keeps open what that names now.
pub(crate) fn duplicate(fd: RawFd) -> Result<OwnedFd, Errno> {
    for least in [DUPLICATE_MIN, 0] {
        // SAFETY: no memory is passed; a number that is no descriptor is EBADF.
        let duplicate = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, least) };
        if duplicate >= 0 {
            // SAFETY: it is new, and nobody else has it.
            return Ok(unsafe { OwnedFd::from_raw_fd(duplicate) });
        }
        let error = Errno::from(std::io::Error::last_os_error());
        // The limit of the process may lie below.
        if !matches!(error.0, libc::EINVAL | libc::EMFILE) || least == 0 {
            return Err(error);
        }
    }
    Err(Errno(libc::EMFILE))
}

/// Does the program's `fd` still name what `ours`, a duplicate, names?
pub(crate) fn is_same(fd: RawFd, ours: RawFd) -> bool {
    // SAFETY: no memory is passed.
    match unsafe { libc::fcntl(ours, F_DUPFD_QUERY, fd) } {
        1 => return true,
        0 => return false,
        _ if std::io::Error::last_os_error().raw_os_error() == Some(libc::EBADF) => return false,
        _ => {}
    }
    let process = std::process::id();
    // SAFETY: no memory is passed.
    match unsafe { libc::syscall(libc::SYS_kcmp, process, process, KCMP_FILE, fd, ours) } {
        0 => true,
        -1 if std::io::Error::last_os_error().raw_os_error() != Some(libc::EBADF) => {
            // Without either call: the same file, open in the same way.
            identity(fd).is_some_and(|theirs| identity(ours) == Some(theirs))
        }
        _ => false,
    }
}

fn identity(fd: RawFd) -> Option<(u64, u64, i32)> {
    // SAFETY: the structure is plain data, and filled by a call that succeeds.
    unsafe {
        let mut status: libc::stat = std::mem::zeroed();
        if libc::fstat(fd, &mut status) != 0 {
            return None;
        }
        Some((status.st_dev, status.st_ino, libc::fcntl(fd, libc::F_GETFL)))
    }
}

/// May closing `ours` release a lock of this process? Those of `fcntl(2)` go
/// when any descriptor of the file is closed.
pub(crate) fn is_locked(ours: RawFd) -> bool {
    // SAFETY: the structure is plain data.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as i16;
    lock.l_whence = libc::SEEK_SET as i16;
    // The owner of such a lock is the open file, for whom the process is another.
    // SAFETY: the structure outlives the call.
    let asked = unsafe { libc::fcntl(ours, libc::F_OFD_GETLK, &mut lock) };
    // A lock of another process may hide one of this; -1: it has no process.
    asked == 0 && lock.l_type != libc::F_UNLCK as i16 && lock.l_pid != -1
}

/// Is it an eventfd(2)?
pub(crate) fn is_event(fd: RawFd) -> bool {
    std::fs::read_link(format!("/proc/self/fd/{fd}"))
        .is_ok_and(|name| name.as_os_str() == "anon_inode:[eventfd]")
}

/// An eventfd(2), of the program or of a context.
#[derive(Debug)]
pub(crate) struct Event(File);

impl Event {
    pub(crate) fn new() -> Result<Event, Errno> {
        // SAFETY: no memory is passed.
        let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
        if fd < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        // SAFETY: it is new, and nobody else has it.
        Ok(Event::from(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Adds one.
    pub(crate) fn ring(&self) {
        // Fails only on a full counter, whose reader is awake.
        let _ = (&self.0).write(&1u64.to_ne_bytes());
    }

    pub(crate) fn borrow(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.0)
    }
}

impl From<OwnedFd> for Event {
    fn from(fd: OwnedFd) -> Event {
        Event(File::from(fd))
    }
}

impl AsRawFd for Event {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
