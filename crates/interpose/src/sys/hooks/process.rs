//! What shares this process's descriptors with another one: after that, nothing is read ahead
//! of them, as another could write without being seen. And what confines the process.

use std::ffi::{c_int, c_uint, c_void};

use libc::{mmsghdr, msghdr, pid_t, ssize_t};

use crate::ahead;
use crate::client;
use crate::sys::real;

/// clone(2). The arguments that a call does not have are whatever lies in their places, as in
/// the C library.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn clone(
    main: *mut c_void,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent_number: *mut c_void,
    storage: *mut c_void,
    child_number: *mut c_void,
) -> c_int {
    if flags & libc::CLONE_VM == 0 {
        ahead::give_up();
    }
    // SAFETY: the caller's promise.
    unsafe {
        real::clone(
            main,
            stack,
            flags,
            argument,
            parent_number,
            storage,
            child_number,
        )
    }
}

/// _Fork(3), which calls no handlers.
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C-unwind" fn _Fork() -> pid_t {
    ahead::give_up();
    // SAFETY: the caller's promise.
    unsafe { real::_Fork() }
}

/// Descriptors that a message hands over.
///
/// # Safety
/// As for sendmsg(2).
unsafe fn share_those_in(message: *const msghdr) {
    // SAFETY: the caller's promise; what the program wrote is walked with the macros that it
    // is made for.
    unsafe {
        if message.is_null() || (*message).msg_control.is_null() {
            return;
        }
        let mut header = libc::CMSG_FIRSTHDR(message);
        while !header.is_null() {
            if (*header).cmsg_level == libc::SOL_SOCKET && (*header).cmsg_type == libc::SCM_RIGHTS {
                let data = libc::CMSG_DATA(header).cast::<c_int>();
                let end = header.expose_provenance() + (*header).cmsg_len as usize;
                let count = end.saturating_sub(data.expose_provenance()) / size_of::<c_int>();
                for index in 0..count {
                    ahead::share(data.add(index).read_unaligned());
                }
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
}

/// sendmsg(2)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmsg(
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    // SAFETY: the caller's promise.
    unsafe {
        share_those_in(message);
        real::sendmsg(fd, message, flags)
    }
}

/// sendmmsg(2)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        if !messages.is_null() {
            for index in 0..count as usize {
                share_those_in(&raw const (*messages.add(index)).msg_hdr);
            }
        }
        real::sendmmsg(fd, messages, count, flags)
    }
}

/// Modes of seccomp(2): `SECCOMP_SET_MODE_STRICT`, `SECCOMP_SET_MODE_FILTER`.
const SECCOMP_SET_MODES: [usize; 2] = [0, 1];

/// Whether a system call confines the process to some of them.
pub(super) fn confines(number: libc::c_long, first: usize) -> bool {
    number == libc::SYS_seccomp && SECCOMP_SET_MODES.contains(&first)
        || number == libc::SYS_prctl && first == libc::PR_SET_SECCOMP as usize
}

/// prctl(2)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn prctl(
    option: c_int,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
) -> c_int {
    // SAFETY: the caller's promise. Arguments that are none are whatever lies in their places,
    // as in the C library.
    let do_it = || unsafe { real::prctl(option, a, b, c, d) };
    if option == libc::PR_SET_SECCOMP {
        return client::retreat_after(do_it, |&result| result >= 0);
    }
    do_it()
}

/// Whether a system call by number could change a file unseen, or hand it to somebody.
pub(super) fn goes_past_hooks(number: libc::c_long) -> bool {
    const SHARED: [libc::c_long; 22] = [
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_pwrite64,
        libc::SYS_pwritev,
        libc::SYS_pwritev2,
        libc::SYS_ftruncate,
        libc::SYS_truncate,
        libc::SYS_fallocate,
        libc::SYS_copy_file_range,
        libc::SYS_sendfile,
        libc::SYS_splice,
        libc::SYS_mmap,
        libc::SYS_dup,
        libc::SYS_dup3,
        libc::SYS_close,
        libc::SYS_close_range,
        libc::SYS_sendmsg,
        libc::SYS_sendmmsg,
        libc::SYS_clone,
        libc::SYS_clone3,
        libc::SYS_fcntl,
        libc::SYS_io_uring_setup,
    ];
    #[cfg(target_arch = "x86_64")]
    const OLD: [libc::c_long; 3] = [libc::SYS_dup2, libc::SYS_fork, libc::SYS_vfork];
    #[cfg(not(target_arch = "x86_64"))]
    const OLD: [libc::c_long; 0] = [];
    SHARED.contains(&number) || OLD.contains(&number)
}
