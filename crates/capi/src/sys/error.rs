//! Errors.

use crate::failure;
use std::ffi::c_char;

/// Why a call failed. iolane_error_text() has a sentence for each.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum iolane_error {
    /// It did not.
    IOLANE_OK = 0,
    /// The kernel refused: EIO, ENOSPC and the like. iolane_last_os_error() has
    /// the errno.
    IOLANE_ERROR_OS = -1,
    /// An argument is NULL or out of range.
    IOLANE_ERROR_ARGUMENT = -2,
    /// An earlier sync of the file failed, so what was written before may be
    /// lost, although the kernel would call the next sync good. Close all handles
    /// of the file, and recover its contents.
    IOLANE_ERROR_POISONED = -3,
    /// The file is open for direct I/O, and offset, length or buffer are no
    /// multiples of what iolane_file_offset_alignment() and
    /// iolane_file_memory_alignment() say.
    IOLANE_ERROR_MISALIGNED = -4,
    /// Longer than one request can be (1 GiB), or beyond 2^63 bytes.
    IOLANE_ERROR_TOO_LONG = -5,
    /// The level has as many requests queued as it may (only inside callbacks;
    /// elsewhere the call waits), or the completion queue as many outstanding.
    IOLANE_ERROR_FULL = -6,
    /// A callback cannot block: it runs on the thread that completes requests.
    IOLANE_ERROR_IN_CALLBACK = -7,
    /// The device took a part of a write and then nothing more.
    IOLANE_ERROR_SHORT_WRITE = -8,
    /// The engine was freed.
    IOLANE_ERROR_CLOSED = -9,
    /// This process is a child of the one that made the object.
    IOLANE_ERROR_FORKED = -10,
    /// The request was withdrawn by iolane_request_cancel().
    IOLANE_ERROR_CANCELLED = -11,
    /// Neither io_uring nor Linux AIO nor threads can be had here.
    IOLANE_ERROR_NO_BACKEND = -12,
    /// Neither a regular file nor a block device, or open for appending.
    IOLANE_ERROR_NOT_A_FILE = -13,
    /// The filesystem has no direct I/O.
    IOLANE_ERROR_NO_DIRECT = -14,
    /// The engine's settings do not go together.
    IOLANE_ERROR_SETTINGS = -15,
    /// The memory is not to be had.
    IOLANE_ERROR_MEMORY = -16,
    /// An error of a later version of the engine.
    IOLANE_ERROR_OTHER = -17,
}

/// What an error means: a sentence in static memory, "unknown error" for a
/// number that is none. Never blocks, never fails.
#[unsafe(no_mangle)]
pub extern "C" fn iolane_error_text(error: i32) -> *const c_char {
    failure::text_of(error).as_ptr()
}

/// The last failure on the calling thread: what, where and why, with what to do
/// about it; "" before the first. Inside a callback with a negative result, that
/// result. The string stays until the next call of this function on the same
/// thread. Never blocks, never fails.
#[unsafe(no_mangle)]
pub extern "C" fn iolane_last_error() -> *const c_char {
    failure::last_text()
}

/// The errno of the last failure on the calling thread; 0 where the kernel had
/// no part in it. Never blocks, never fails.
#[unsafe(no_mangle)]
pub extern "C" fn iolane_last_os_error() -> i32 {
    failure::last_os_error()
}

/// The version of the library, as "0.1.0", in static memory. Never blocks, never
/// fails.
#[unsafe(no_mangle)]
pub extern "C" fn iolane_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}
