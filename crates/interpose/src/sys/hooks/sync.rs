//! Syncs.

use std::ffi::c_int;

use super::around;
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
