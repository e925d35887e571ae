//! Writes.

use std::ffi::{c_int, c_void};

use libc::{iovec, off_t, size_t, ssize_t};

use super::around;
use super::read::{hooks, length_unless_no_wait, place};
use crate::sys::arguments::length_of;
use crate::sys::real;
use iolane_protocol::Call;

hooks! {
    write => Write(write, fd, None, count)
        write(fd: c_int, buffer: *const c_void, count: size_t);
    writev => Writev(write, fd, None, length_of(fd, pieces, count))
        writev(fd: c_int, pieces: *const iovec, count: c_int);
    pwrite => Pwrite(write_page, fd, Some(offset), count, buffer.expose_provenance())
        pwrite64(fd: c_int, buffer: *const c_void, count: size_t, offset: off_t);
    pwrite64 => Pwrite(write_page, fd, Some(offset), count, buffer.expose_provenance())
        pwrite64(fd: c_int, buffer: *const c_void, count: size_t, offset: off_t);
    pwritev => Pwritev(write, fd, Some(offset), length_of(fd, pieces, count))
        pwritev64(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t);
    pwritev64 => Pwritev(write, fd, Some(offset), length_of(fd, pieces, count))
        pwritev64(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t);
    pwritev2 => Pwritev2(write, fd, place(offset), length_unless_no_wait(fd, pieces, count, flags))
        pwritev64v2(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int);
    pwritev64v2 => Pwritev2(write, fd, place(offset), length_unless_no_wait(fd, pieces, count, flags))
        pwritev64v2(fd: c_int, pieces: *const iovec, count: c_int, offset: off_t, flags: c_int);
}
