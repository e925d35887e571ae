//! Syncs.

use std::ffi::{c_int, c_uint};

use libc::off_t;

use super::{around, pacing};
use crate::sys::real;
use iolane_protocol::Call;

/// fsync(2)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fsync(fd: c_int) -> c_int {
    // SAFETY: the caller's promise.
    around::sync(Call::Fsync, fd, || unsafe { real::fsync(fd) })
}

/// fdatasync(2)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn fdatasync(fd: c_int) -> c_int {
    // SAFETY: the caller's promise.
    around::sync(Call::Fdatasync, fd, || unsafe { real::fdatasync(fd) })
}

/// sync_file_range(2)
///
/// # Safety
/// As there.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sync_file_range(
    fd: c_int,
    offset: off_t,
    length: off_t,
    flags: c_uint,
) -> c_int {
    // SAFETY: the caller's promise.
    let do_it = || unsafe { real::sync_file_range(fd, offset, length, flags) };
    if flags & libc::SYNC_FILE_RANGE_WRITE == 0 {
        return do_it();
    }
    pacing::write_back(Call::SyncFileRange, fd, offset, length, do_it)
}
