//! The way to the broker: a socket, a token, and a descriptor that comes back.
//! By system calls alone, as it is gone after a fork, when other threads may have held the C
//! library's locks.

use std::mem;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;

use super::mapping;
use super::raw::syscall6;
use crate::{Address, Memory, Welcome};

/// How long the broker may take to answer before the process goes on without it.
const ANSWER_S_MAX: i64 = 2;

/// Shows the token; gives which client the process is.
pub fn introduce(address: &Address) -> Option<Welcome> {
    let (welcome, descriptor) = exchange(address)?;
    close(descriptor);
    Some(welcome)
}

/// The same, and maps the memory.
pub fn introduce_and_map(address: &Address) -> Option<(Welcome, &'static Memory)> {
    let (welcome, descriptor) = exchange(address)?;
    // SAFETY: the descriptor came just now, and is closed below.
    let memory = mapping::map(unsafe { BorrowedFd::borrow_raw(descriptor) });
    close(descriptor);
    Some((welcome, memory.ok()?))
}

fn exchange(address: &Address) -> Option<(Welcome, RawFd)> {
    let socket = connect(address)?;
    let answer = send(socket, &address.token).and_then(|()| receive(socket));
    close(socket);
    answer
}

fn close(descriptor: RawFd) {
    // SAFETY: a descriptor that this file opened and that nobody else knows.
    unsafe { syscall6(libc::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0]) };
}

fn connect(address: &Address) -> Option<RawFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    let arguments = [libc::AF_UNIX as usize, kind as usize, 0, 0, 0, 0];
    // SAFETY: takes numbers.
    let socket = unsafe { syscall6(libc::SYS_socket, arguments) };
    let socket = RawFd::try_from(socket).ok().filter(|&socket| socket >= 0)?;
    // SAFETY: zeros are a valid address.
    let mut name: libc::sockaddr_un = unsafe { mem::zeroed() };
    name.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // An abstract name begins with a zero (unix(7)).
    for (to, from) in name.sun_path[1..].iter_mut().zip(address.name()) {
        *to = *from as libc::c_char;
    }
    let length = mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + address.name().len();
    let patience = libc::timeval {
        tv_sec: ANSWER_S_MAX,
        tv_usec: 0,
    };
    // The second is for connecting, too (unix(7)).
    let limits = [libc::SO_RCVTIMEO, libc::SO_SNDTIMEO].map(|option| {
        [
            socket as usize,
            libc::SOL_SOCKET as usize,
            option as usize,
            ptr::from_ref(&patience) as usize,
            size_of::<libc::timeval>(),
            0,
        ]
    });
    let there = [
        socket as usize,
        ptr::from_ref(&name) as usize,
        length,
        0,
        0,
        0,
    ];
    // SAFETY: the structures live as long as the calls, with their lengths.
    let connected = unsafe {
        for limit in limits {
            syscall6(libc::SYS_setsockopt, limit);
        }
        syscall6(libc::SYS_connect, there)
    };
    if connected < 0 {
        close(socket);
        return None;
    }
    Some(socket)
}

fn send(socket: RawFd, token: &[u8]) -> Option<()> {
    let arguments = [
        socket as usize,
        token.as_ptr() as usize,
        token.len(),
        libc::MSG_NOSIGNAL as usize,
        0,
        0,
    ];
    // SAFETY: the token is as long as the call is told.
    let sent = unsafe { syscall6(libc::SYS_sendto, arguments) };
    (sent == token.len() as isize).then_some(())
}

/// Room for one descriptor beside the data, aligned as cmsg(3) asks.
#[repr(C, align(8))]
struct Control([u8; 32]);

fn receive(socket: RawFd) -> Option<(Welcome, RawFd)> {
    let mut data = [0u8; 4];
    let mut control = Control([0; 32]);
    let mut piece = libc::iovec {
        iov_base: data.as_mut_ptr().cast(),
        iov_len: data.len(),
    };
    // SAFETY: zeros are a valid message.
    let mut message: libc::msghdr = unsafe { mem::zeroed() };
    message.msg_iov = &mut piece;
    message.msg_iovlen = 1;
    message.msg_control = ptr::from_mut(&mut control).cast();
    message.msg_controllen = size_of::<Control>() as _;
    let arguments = [
        socket as usize,
        ptr::from_mut(&mut message) as usize,
        libc::MSG_CMSG_CLOEXEC as usize,
        0,
        0,
        0,
    ];
    // SAFETY: the message and all that it points to live as long as the call; what the
    // kernel wrote into `control` is walked with the macros that it is made for.
    let descriptor = unsafe {
        if syscall6(libc::SYS_recvmsg, arguments) != data.len() as isize {
            return None;
        }
        let header = libc::CMSG_FIRSTHDR(&message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            return None;
        }
        libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned()
    };
    match Welcome::from_bytes(data) {
        Some(welcome) => Some((welcome, descriptor)),
        None => {
            close(descriptor);
            None
        }
    }
}
