//! `fallocate(2)`.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Allocates `length` bytes at `offset`, and extends the file to their end.
pub(crate) fn allocate(file: &File, offset: u64, length: u64) -> io::Result<()> {
    let invalid = |_| io::Error::from_raw_os_error(libc::EFBIG);
    let offset = i64::try_from(offset).map_err(invalid)?;
    let length = i64::try_from(length).map_err(invalid)?;
    loop {
        // SAFETY: integers and an open descriptor.
        let rc = unsafe { libc::fallocate(file.as_raw_fd(), 0, offset, length) };
        if rc == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        // A signal; what was allocated stays, so this comes to an end.
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}
