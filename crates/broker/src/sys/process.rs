//! Processes that cannot be mistaken for others.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Names a process for as long as it is kept (pidfd_open(2)); readable when the
/// process has ended.
///
/// # Errors
/// What the kernel says.
pub fn open(process: u32) -> io::Result<OwnedFd> {
    // SAFETY: takes numbers; a descriptor that comes back is ours alone.
    unsafe {
        let descriptor = libc::syscall(libc::SYS_pidfd_open, process, 0);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(descriptor as i32))
    }
}

/// For [`readable`].
pub const FOREVER: i32 = -1;

/// Waits until one of them is readable, at most so long; gives which are.
///
/// # Errors
/// What the kernel says.
pub fn readable(descriptors: &[&OwnedFd], timeout_ms: i32) -> io::Result<Vec<usize>> {
    let mut polled: Vec<libc::pollfd> = descriptors
        .iter()
        .map(|descriptor| libc::pollfd {
            fd: descriptor.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        })
        .collect();
    // SAFETY: the array is as long as the call is told.
    let count = unsafe {
        libc::poll(
            polled.as_mut_ptr(),
            polled.len() as libc::nfds_t,
            timeout_ms,
        )
    };
    if count < 0 {
        let error = io::Error::last_os_error();
        if error.kind() == io::ErrorKind::Interrupted {
            return Ok(Vec::new());
        }
        return Err(error);
    }
    let ready = polled.iter().enumerate();
    Ok(ready
        .filter(|(_, one)| one.revents != 0)
        .map(|(index, _)| index)
        .collect())
}

/// Lets the calling thread go before others, where that is allowed: whoever waits
/// for leave waits for it.
pub fn hurry() {
    const NICE: i32 = -10;
    // SAFETY: takes numbers; 0 is the calling thread. Without the privilege nothing
    // changes.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_that_ends_is_readable() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let descriptor = open(child.id()).unwrap();
        assert_eq!(readable(&[&descriptor], 0).unwrap(), [] as [usize; 0]);
        child.kill().unwrap();
        assert_eq!(readable(&[&descriptor], 60_000).unwrap(), [0]);
        child.wait().unwrap();
    }
}
