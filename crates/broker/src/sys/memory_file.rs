//! The file behind the shared memory.

use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

/// What the mappings of a process that has come show it by (`/proc/PID/maps`), behind `/memfd:`.
pub const NAME: &CStr = c"iolane-run";

/// A file in memory of so many zeros, whose size nobody can change: a process
/// that made it shorter would kill the others.
///
/// # Errors
/// What the kernel says.
pub fn create(bytes: usize) -> io::Result<File> {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string; a descriptor that comes back is ours alone.
    let file = unsafe {
        let descriptor = libc::memfd_create(NAME.as_ptr(), flags);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        File::from_raw_fd(descriptor)
    };
    file.set_len(bytes as u64)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: takes numbers.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_size_is_fixed() {
        let file = create(4096).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 4096);
        assert!(file.set_len(0).is_err());
        assert!(file.set_len(8192).is_err());
    }
}
