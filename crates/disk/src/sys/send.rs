//! Sending without waiting: sendmsg(2).

use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;

/// Sends as much of `pieces` as the socket takes now. A peer that is gone is
/// an error (`EPIPE`), never a signal.
///
/// # Errors
/// As sendmsg(2); [`WouldBlock`](io::ErrorKind::WouldBlock) when it takes
/// nothing now.
pub fn send_now(socket: &UnixStream, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    // SAFETY: all zeros are valid; what matters is set below.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    // `IoSlice` is guaranteed to be an iovec; the kernel only reads them.
    message.msg_iov = pieces.as_ptr().cast_mut().cast();
    message.msg_iovlen = pieces.len() as _;
    loop {
        // SAFETY: `message` describes `pieces`, alive and unchanged during
        // the call.
        let sent = unsafe {
            libc::sendmsg(
                socket.as_raw_fd(),
                &message,
                libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL,
            )
        };
        if sent >= 0 {
            return Ok(sent as usize);
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
}

/// What was sent and the other end has not read yet, in bytes of the kernel's
/// memory: 0 once it has all (`SIOCOUTQ`, unix(7)). Does not block.
///
/// # Errors
/// The kernel's.
pub fn unread_bytes(socket: &UnixStream) -> io::Result<u32> {
    let mut bytes: libc::c_int = 0;
    // SAFETY: writes one int, which lives during the call.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &mut bytes) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(bytes.unsigned_abs())
}
