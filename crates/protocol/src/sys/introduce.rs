//! The way to the broker: a socket, a token, and a descriptor that comes back.
//! By system calls alone, as it is gone after a fork, when other threads may have held the C
//! library's locks.

use std::mem;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;

use super::raw::syscall6;
use super::{clock, mapping};
use crate::{Address, Memory, WELCOME_BYTES, Welcome};

/// How long the broker may take to answer a process that comes for the first time, before it goes
/// on without it.
pub const PATIENCE_MS: u32 = 2000;

/// Why a process does not come in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    /// The broker is gone, or another one, or has another clock.
    Gone,
    /// The process or the broker has no descriptors left, the system no memory, or the broker no time.
    ForNow,
}

impl Missed {
    fn by(result: isize) -> Missed {
        // The broker closes the connection of one for whom it has no number or no memory just now.
        let is_sent_away = result == 0;
        let passing = [
            libc::ECONNRESET,
            libc::EPIPE,
            libc::EMFILE,
            libc::ENFILE,
            libc::ENOMEM,
            libc::ENOBUFS,
            libc::EAGAIN,
            libc::EINTR,
        ];
        if is_sent_away || passing.iter().any(|&error| result == -(error as isize)) {
            Missed::ForNow
        } else {
            Missed::Gone
        }
    }
}

/// Shows the token; gives which client the process is. The broker may take so long to answer.
///
/// # Errors
/// Why it does not come in.
pub fn introduce(address: &Address, patience_ms: u32) -> Result<Welcome, Missed> {
    let (welcome, descriptor) = exchange(address, patience_ms)?;
    close(descriptor);
    Ok(welcome)
}

/// The same, and maps the memory.
///
/// # Errors
/// As there.
pub fn introduce_and_map(
    address: &Address,
    patience_ms: u32,
) -> Result<(Welcome, &'static Memory), Missed> {
    let (welcome, descriptor) = exchange(address, patience_ms)?;
    // SAFETY: the descriptor came just now, and is closed below.
    let memory = mapping::map(unsafe { BorrowedFd::borrow_raw(descriptor) });
    close(descriptor);
    Ok((
        welcome,
        memory.map_err(|error| Missed::by(-(error as isize)))?,
    ))
}

fn exchange(address: &Address, patience_ms: u32) -> Result<(Welcome, RawFd), Missed> {
    let from_ns = clock::now_ns();
    let until_ns = from_ns + u64::from(patience_ms) * 1_000_000;
    let socket = connect(address, patience_ms, until_ns)?;
    let answer = send(socket, &address.token, until_ns).and_then(|()| receive(socket, until_ns));
    close(socket);
    let (welcome, descriptor) = answer?;
    if !(from_ns..=clock::now_ns()).contains(&welcome.now_ns) {
        // In a name space of time (time_namespaces(7)): when its requests were asked for and have ended would put
        // the broker's clock forward by days, for all processes.
        close(descriptor);
        return Err(Missed::Gone);
    }
    Ok((welcome, descriptor))
}

/// A system call, repeated when a signal's handler has interrupted it: the process may have a timer,
/// and with a limit of time the kernel does not repeat it by itself.
///
/// # Safety
/// As for the system call.
unsafe fn persist(until_ns: u64, number: i64, arguments: [usize; 6]) -> isize {
    loop {
        // SAFETY: the caller's promise.
        let result = unsafe { syscall6(number, arguments) };
        if result != -(libc::EINTR as isize) || clock::now_ns() > until_ns {
            return result;
        }
    }
}

fn close(descriptor: RawFd) {
    // SAFETY: a descriptor that this file opened and that nobody else knows.
    unsafe { syscall6(libc::SYS_close, [descriptor as usize, 0, 0, 0, 0, 0]) };
}

fn connect(address: &Address, patience_ms: u32, until_ns: u64) -> Result<RawFd, Missed> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    let arguments = [libc::AF_UNIX as usize, kind as usize, 0, 0, 0, 0];
    // SAFETY: takes numbers.
    let socket = unsafe { syscall6(libc::SYS_socket, arguments) };
    if socket < 0 {
        return Err(Missed::by(socket));
    }
    let socket = socket as RawFd;
    // SAFETY: zeros are a valid address.
    let mut name: libc::sockaddr_un = unsafe { mem::zeroed() };
    name.sun_family = libc::AF_UNIX as libc::sa_family_t;
    // An abstract name begins with a zero (unix(7)).
    for (to, from) in name.sun_path[1..].iter_mut().zip(address.name()) {
        *to = *from as libc::c_char;
    }
    let length = mem::offset_of!(libc::sockaddr_un, sun_path) + 1 + address.name().len();
    let patience = libc::timeval {
        tv_sec: i64::from(patience_ms / 1000),
        tv_usec: i64::from(patience_ms % 1000 * 1000),
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
        persist(until_ns, libc::SYS_connect, there)
    };
    if connected < 0 {
        close(socket);
        return Err(Missed::by(connected));
    }
    Ok(socket)
}

fn send(socket: RawFd, token: &[u8], until_ns: u64) -> Result<(), Missed> {
    let arguments = [
        socket as usize,
        token.as_ptr() as usize,
        token.len(),
        libc::MSG_NOSIGNAL as usize,
        0,
        0,
    ];
    // SAFETY: the token is as long as the call is told.
    let sent = unsafe { persist(until_ns, libc::SYS_sendto, arguments) };
    if sent != token.len() as isize {
        return Err(Missed::by(sent));
    }
    Ok(())
}

/// Room for one descriptor beside the data, aligned as cmsg(3) asks.
#[repr(C, align(8))]
struct Control([u8; 32]);

fn receive(socket: RawFd, until_ns: u64) -> Result<(Welcome, RawFd), Missed> {
    let mut data = [0u8; WELCOME_BYTES];
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
        let received = persist(until_ns, libc::SYS_recvmsg, arguments);
        if received != data.len() as isize {
            return Err(Missed::by(received));
        }
        let header = libc::CMSG_FIRSTHDR(&message);
        if header.is_null() || (*header).cmsg_type != libc::SCM_RIGHTS {
            // There was no room for the descriptor.
            return Err(Missed::ForNow);
        }
        libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned()
    };
    match Welcome::from_bytes(data) {
        Some(welcome) => Ok((welcome, descriptor)),
        None => {
            close(descriptor);
            Err(Missed::Gone)
        }
    }
}
