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
/// What the kernel says; `EFBIG` where the hard limit of a file's size is less.
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
    lengthen(&file, bytes as u64)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: takes numbers.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(file)
}

/// The limit of a file's size is for files in memory, too, and whoever goes beyond it gets a signal that ends the process
/// (setrlimit(2)). The soft limit is raised meanwhile: it is the command's, which has not started yet.
fn lengthen(file: &File, bytes: u64) -> io::Result<()> {
    let limit = size_limit()?;
    if limit.rlim_cur >= bytes {
        return file.set_len(bytes);
    }
    if limit.rlim_max < bytes {
        return Err(io::Error::from_raw_os_error(libc::EFBIG));
    }
    let raised = libc::rlimit {
        rlim_cur: bytes,
        ..limit
    };
    set_size_limit(&raised)?;
    let result = file.set_len(bytes);
    set_size_limit(&limit)?;
    result
}

fn size_limit() -> io::Result<libc::rlimit> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: the structure lives as long as the call, which fills it.
    if unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &mut limit) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(limit)
}

fn set_size_limit(limit: &libc::rlimit) -> io::Result<()> {
    // SAFETY: the structure lives as long as the call, which reads it.
    if unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, limit) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
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
