//! What shares this process's descriptors with another one: after that, nothing is read ahead
//! of them, as another could write without being seen. And what confines the process.

use std::ffi::{c_int, c_uint, c_void};
use std::iter;
use std::mem::offset_of;

use libc::{cmsghdr, mmsghdr, msghdr, pid_t, ssize_t};

use crate::ahead;
use crate::asynchronous;
use crate::client;
use crate::sys::{memory, real};

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
    } else if flags & libc::CLONE_FILES == 0 {
        // As vfork(2).
        ahead::spawns();
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

/// Messages in a call: the kernel takes no more (`UIO_MAXIOV`).
const MESSAGES_MAX: usize = 1024;
/// Descriptors in a message: the kernel refuses more (`SCM_MAX_FD`).
const DESCRIPTORS_MAX: usize = 253;
/// Bytes of control: the kernel refuses more.
const CONTROL_BYTES_MAX: usize = c_int::MAX as usize;
/// Headers that are looked at. Who sends more has nothing read ahead any more.
const HEADERS_MAX: usize = 256;

/// A part of a message; `false`: it is not there, and the kernel says so.
fn look<T: Copy>(from: usize, to: &mut [T]) -> bool {
    if memory::copy_from(from, to) {
        return true;
    }
    if memory::may_read(from, size_of_val(to)) {
        // A filter forbids the look: nobody knows what the message hands over.
        ahead::give_up();
    }
    false
}

/// Descriptors that messages hand over are shared from now on. A wrong message is left to the kernel, which looks at
/// it in the same way, and no descriptor is read of what it refuses.
fn share_those_in(messages: impl Iterator<Item = usize>) {
    if ahead::may_be_used() {
        for message in messages {
            if !share_those_of(message) {
                break;
            }
        }
    }
}

/// `false`: the message is not there.
fn share_those_of(message: usize) -> bool {
    const CONTROL_AT: usize = offset_of!(msghdr, msg_control);
    const _: () = assert!(offset_of!(msghdr, msg_controllen) == CONTROL_AT + size_of::<usize>());
    let mut control = [0usize; 2];
    if !look(message.wrapping_add(CONTROL_AT), &mut control) {
        return false;
    }
    let [mut at, mut left] = control;
    if at == 0 || left > CONTROL_BYTES_MAX {
        return true;
    }
    for _ in 0..HEADERS_MAX {
        if left < size_of::<cmsghdr>() {
            return true;
        }
        let mut headers = [cmsghdr {
            cmsg_len: 0,
            cmsg_level: 0,
            cmsg_type: 0,
        }];
        if !look(at, &mut headers) {
            return true;
        }
        let [header] = headers;
        let Some(bytes) = header.cmsg_len.checked_sub(size_of::<cmsghdr>()) else {
            return true;
        };
        if header.cmsg_len > left {
            return true;
        }
        if header.cmsg_level == libc::SOL_SOCKET && header.cmsg_type == libc::SCM_RIGHTS {
            share_listed(at.wrapping_add(size_of::<cmsghdr>()), bytes);
        }
        // No more than `left`, so this neither overflows nor stands still.
        let step = header.cmsg_len.next_multiple_of(align_of::<cmsghdr>());
        left = left.saturating_sub(step);
        at = at.wrapping_add(step);
    }
    ahead::give_up();
    true
}

/// The same for a list of so many bytes.
fn share_listed(list: usize, bytes: usize) {
    let mut descriptors = [0 as c_int; DESCRIPTORS_MAX];
    let count = bytes / size_of::<c_int>();
    if let Some(descriptors) = descriptors.get_mut(..count)
        && look(list, descriptors)
    {
        descriptors.iter().copied().for_each(ahead::share);
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
    share_those_in(iter::once(message.expose_provenance()));
    // SAFETY: the caller's promise.
    unsafe { real::sendmsg(fd, message, flags) }
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
    const HEAD_AT: usize = offset_of!(mmsghdr, msg_hdr);
    let first = messages.expose_provenance().wrapping_add(HEAD_AT);
    let indices = 0..MESSAGES_MAX.min(count as usize);
    share_those_in(indices.map(|index| first.wrapping_add(index * size_of::<mmsghdr>())));
    // SAFETY: the caller's promise.
    unsafe { real::sendmmsg(fd, messages, count, flags) }
}

/// Modes of seccomp(2): `SECCOMP_SET_MODE_STRICT`, `SECCOMP_SET_MODE_FILTER`.
const SECCOMP_SET_MODES: [usize; 2] = [0, 1];

/// Whether a system call confines the process to some of them.
pub(super) fn confines(number: libc::c_long, first: usize) -> bool {
    number == libc::SYS_seccomp && SECCOMP_SET_MODES.contains(&first)
        || number == libc::SYS_prctl && first == libc::PR_SET_SECCOMP as usize
}

/// The calling thread is about to have descriptors of its own: a number may then name one file for it, and another one
/// for the library's threads. What was taken over goes first; after it nothing is, and nothing is scheduled.
pub(super) fn part<T>(do_it: impl FnOnce() -> T, is_done: impl FnOnce(&T) -> bool) -> T {
    if !client::is_guest() {
        ahead::give_up();
        asynchronous::flush_closed(|_| true);
    }
    client::retreat_after(do_it, is_done)
}

/// unshare(2)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn unshare(flags: c_int) -> c_int {
    // SAFETY: the caller's promise.
    let do_it = || unsafe { real::unshare(flags) };
    if flags & libc::CLONE_FILES == 0 {
        return do_it();
    }
    part(do_it, |&result| result == 0)
}

/// Whether a system call by number does so.
pub(super) fn parts(number: libc::c_long, first: usize, third: usize) -> bool {
    number == libc::SYS_unshare && first as c_int & libc::CLONE_FILES != 0
        || number == libc::SYS_close_range && third as c_uint & libc::CLOSE_RANGE_UNSHARE != 0
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
    const SHARED: [libc::c_long; 23] = [
        libc::SYS_write,
        libc::SYS_writev,
        libc::SYS_pwrite64,
        libc::SYS_pwritev,
        libc::SYS_pwritev2,
        libc::SYS_ftruncate,
        libc::SYS_truncate,
        libc::SYS_fallocate,
        libc::SYS_copy_file_range,
        libc::SYS_ioctl,
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
