//! Reads.

use std::ffi::{c_int, c_void};

use libc::{iovec, off_t, size_t, ssize_t};

use super::around;
use crate::sys::arguments::length_of;
use crate::sys::real;
use iolane_protocol::Call;

/// Exports a function: each name with its manual page's arguments.
macro_rules! hooks {
    ($($name:ident => $call:ident($around:ident, $fd:ident, $offset:expr, $length:expr $(, $buffer:expr)?)
        $real:ident($($argument:ident: $type:ty),*);)*) => {
        $(
            /// See the manual page of that name.
            ///
            /// # Safety
            /// As there.
            #[unsafe(no_mangle)]
            #[allow(clippy::missing_safety_doc)]
            pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> ssize_t {
                // SAFETY: the caller's promise, for the arguments as they came.
                unsafe {
                    around::$around(Call::$call, $fd, $offset, $length, $($buffer,)? || {
                        real::$real($($argument),*)
                    })
                }
            }
        )*
    };
}
pub(super) use hooks;

hooks! {
    read => Read(read, fd, None, count)
        read(fd: c_int, buffer: *mut c_void, count: size_t);
    __read_chk => Read(read, fd, None, count)
        __read_chk(fd: c_int, buffer: *mut c_void, count: size_t, size: size_t);
    readv => Readv(read, fd, None, length_of(fd, pieces, count))
        readv(fd: c_int, pieces: *const iovec, count: c_int);
    pread => Pread(read_in_pieces, fd, Some(offset), count, buffer.expose_provenance())
        pread64(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t);
    pread64 => Pread(read_in_pieces, fd, Some(offset), count, buffer.expose_provenance())
        pread64(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t);
    __pread_chk => Pread(read_page, fd, Some(offset), count, buffer.expose_provenance())
        __pread64_chk(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t, size: size_t);
    __pread64_chk => Pread(read_page, fd, Some(offset), count, buffer.expose_provenance())
        __pread64_chk(fd: c_int, buffer: *mut c_void, count: size_t, offset: off_t, size: size_t);
    preadv => Preadv(read, fd, Some(offset), length_of(fd, pieces, count))
        preadv64(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t);
    preadv64 => Preadv(read, fd, Some(offset), length_of(fd, pieces, count))
        preadv64(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t);
    preadv2 => Preadv2(read, fd, place(offset), length_unless_no_wait(fd, pieces, count, flags))
        preadv64v2(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int);
    preadv64v2 => Preadv2(read, fd, place(offset), length_unless_no_wait(fd, pieces, count, flags))
        preadv64v2(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int);
}

/// preadv2(2): an offset of -1 is where the descriptor stands.
pub(super) fn place(offset: off_t) -> Option<off_t> {
    (offset != -1).then_some(offset)
}

/// Nothing, and so unscheduled, if the call must not wait.
///
/// # Safety
/// As for readv(2).
pub(super) unsafe fn length_unless_no_wait(
    fd: c_int,
    pieces: *const iovec,
    count: c_int,
    flags: c_int,
) -> usize {
    if flags & libc::RWF_NOWAIT != 0 {
        return 0;
    }
    // SAFETY: the caller's promise.
    unsafe { length_of(fd, pieces, count) }
}
