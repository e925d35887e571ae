//! The socket at which processes introduce themselves: abstract, so that it needs
//! no directory and is gone with the broker (unix(7)).

use std::io;
use std::mem;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;

/// Processes that may wait at the door.
const BACKLOG: i32 = 128;
/// A process sends its token at once; who does not is sent away.
const TOKEN_WAIT_MS: i64 = 1000;

/// Listens at a name.
///
/// # Errors
/// What the kernel says.
pub fn listen(name: &[u8]) -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: takes numbers; a descriptor that comes back is ours alone. Zeros are a
    // valid address, which lives as long as the call.
    unsafe {
        let socket = checked(libc::socket(libc::AF_UNIX, kind, 0))?;
        let socket = OwnedFd::from_raw_fd(socket);
        let mut address: libc::sockaddr_un = mem::zeroed();
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        for (to, from) in address.sun_path[1..].iter_mut().zip(name) {
            *to = *from as libc::c_char;
        }
        let length = mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + name.len();
        let address = ptr::from_ref(&address).cast();
        checked(libc::bind(socket.as_raw_fd(), address, length as u32))?;
        checked(libc::listen(socket.as_raw_fd(), BACKLOG))?;
        Ok(socket)
    }
}

/// The next that waits at the door; `None` if there is none.
///
/// # Errors
/// What the kernel says.
pub fn accept(listener: &OwnedFd) -> io::Result<Option<OwnedFd>> {
    // SAFETY: no address is asked for; a descriptor that comes back is ours alone.
    let socket = unsafe {
        libc::accept4(
            listener.as_raw_fd(),
            ptr::null_mut(),
            ptr::null_mut(),
            libc::SOCK_CLOEXEC,
        )
    };
    if socket < 0 {
        let error = io::Error::last_os_error();
        return match error.kind() {
            io::ErrorKind::WouldBlock
            | io::ErrorKind::Interrupted
            | io::ErrorKind::ConnectionAborted => Ok(None),
            _ => Err(error),
        };
    }
    // SAFETY: as above.
    Ok(Some(unsafe { OwnedFd::from_raw_fd(socket) }))
}

/// Who is at the other end.
///
/// # Errors
/// What the kernel says.
pub fn peer(socket: &OwnedFd) -> io::Result<u32> {
    // SAFETY: zeros are valid credentials; the structure is as long as the call is told.
    unsafe {
        let mut peer: libc::ucred = mem::zeroed();
        let mut length = size_of::<libc::ucred>() as libc::socklen_t;
        checked(libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            ptr::from_mut(&mut peer).cast(),
            &mut length,
        ))?;
        Ok(peer.pid as u32)
    }
}

/// Reads what a process says first.
///
/// # Errors
/// What the kernel says, also that nothing came.
pub fn read_token(socket: &OwnedFd, token: &mut [u8]) -> io::Result<usize> {
    let patience = libc::timeval {
        tv_sec: TOKEN_WAIT_MS / 1000,
        tv_usec: TOKEN_WAIT_MS % 1000 * 1000,
    };
    // SAFETY: the structure and the buffer are as long as the calls are told.
    unsafe {
        checked(libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_RCVTIMEO,
            ptr::from_ref(&patience).cast(),
            size_of::<libc::timeval>() as libc::socklen_t,
        ))?;
        let length = libc::recv(
            socket.as_raw_fd(),
            token.as_mut_ptr().cast(),
            token.len(),
            0,
        );
        usize::try_from(length).map_err(|_| io::Error::last_os_error())
    }
}

/// Room for one descriptor beside the data, aligned as cmsg(3) asks.
#[repr(C, align(8))]
struct Control([u8; 32]);

/// Answers, with a descriptor.
///
/// # Errors
/// What the kernel says.
pub fn answer(socket: &OwnedFd, data: &[u8], descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let mut control = Control([0; 32]);
    let mut piece = libc::iovec {
        iov_base: data.as_ptr().cast_mut().cast(),
        iov_len: data.len(),
    };
    // SAFETY: zeros are a valid message; all that it points to lives as long as the
    // call. `control` has room for a header with one descriptor.
    unsafe {
        let mut message: libc::msghdr = mem::zeroed();
        message.msg_iov = &mut piece;
        message.msg_iovlen = 1;
        message.msg_control = ptr::from_mut(&mut control).cast();
        message.msg_controllen = libc::CMSG_SPACE(size_of::<i32>() as u32) as _;
        let header = libc::CMSG_FIRSTHDR(&message);
        (*header).cmsg_level = libc::SOL_SOCKET;
        (*header).cmsg_type = libc::SCM_RIGHTS;
        (*header).cmsg_len = libc::CMSG_LEN(size_of::<i32>() as u32) as _;
        libc::CMSG_DATA(header)
            .cast::<i32>()
            .write_unaligned(descriptor.as_raw_fd());
        if libc::sendmsg(socket.as_raw_fd(), &message, libc::MSG_NOSIGNAL) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

fn checked(result: i32) -> io::Result<i32> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}
