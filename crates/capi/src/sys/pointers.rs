//! What C hands over, as Rust sees it.

use crate::failure::Failure;
use engine::{IoBuf, IoBufMut, Level};
use std::ffi::{CStr, c_char, c_void};
use std::path::Path;

/// The object behind a pointer from C.
///
/// # Safety
/// `pointer` is NULL, or an object of this type that stays for `'a`.
pub(super) unsafe fn object<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::argument(format!("{name} is NULL")))
}

/// Where a new object goes.
///
/// # Safety
/// `place` is NULL, or a place for a pointer.
pub(super) unsafe fn give<T>(place: *mut *mut T, object: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::argument("the place for the new object is NULL"));
    }
    // SAFETY: the caller's promise.
    unsafe { place.write(Box::into_raw(Box::new(object))) };
    Ok(())
}

/// Takes an object back from C, and drops it.
///
/// # Safety
/// `pointer` is NULL, or from [`give`] and not used any more.
pub(super) unsafe fn free<T>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { Box::from_raw(pointer) });
    }
}

/// # Safety
/// `path` is NULL, or a string that ends with a zero byte and stays for `'a`.
pub(super) unsafe fn path<'a>(path: *const c_char) -> Result<&'a Path, Failure> {
    use std::os::unix::ffi::OsStrExt;
    if path.is_null() {
        return Err(Failure::argument("the path is NULL"));
    }
    // SAFETY: the caller's promise.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes();
    Ok(Path::new(std::ffi::OsStr::from_bytes(bytes)))
}

/// # Safety
/// As [`slice_mut`], and the memory may be read only.
pub(super) unsafe fn slice<'a>(start: *const c_void, length: usize) -> Result<&'a [u8], Failure> {
    check(start, length)?;
    if length == 0 {
        return Ok(&[]);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts(start.cast(), length) })
}

/// # Safety
/// `start` is NULL, or memory of `length` bytes that nobody else uses for `'a`.
pub(super) unsafe fn slice_mut<'a>(
    start: *mut c_void,
    length: usize,
) -> Result<&'a mut [u8], Failure> {
    check(start, length)?;
    if length == 0 {
        return Ok(&mut []);
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(start.cast(), length) })
}

fn check(start: *const c_void, length: usize) -> Result<(), Failure> {
    if start.is_null() && length > 0 {
        return Err(Failure::argument("the buffer is NULL"));
    }
    if isize::try_from(length).is_err() {
        return Err(Failure::argument(format!("a buffer of {length} bytes")));
    }
    Ok(())
}

pub(super) fn level(number: i32) -> Result<Level, Failure> {
    let level = usize::try_from(number).ok().and_then(Level::from_index);
    level.ok_or_else(|| Failure::argument(format!("there is no level {number}; use 0 to 4")))
}

/// Memory of C's, for one request.
pub(super) struct Borrowed {
    start: *mut u8,
    length: usize,
}

impl Borrowed {
    /// # Safety
    /// `start` is NULL, or memory of `length` bytes that stays, and that nobody
    /// else uses, until the request that gets this has completed; of a write, it
    /// is read only.
    pub(super) unsafe fn new(start: *mut c_void, length: usize) -> Result<Borrowed, Failure> {
        check(start, length)?;
        let start = start.cast();
        Ok(Borrowed { start, length })
    }
}

// SAFETY: an address has no ties to a thread.
unsafe impl Send for Borrowed {}

// SAFETY: `new` was promised that the memory stays until the request, which
// owns this, has completed.
unsafe impl IoBuf for Borrowed {
    fn io_ptr(&self) -> *const u8 {
        self.start
    }

    fn io_len(&self) -> usize {
        self.length
    }
}

// SAFETY: as above; only reads of a file are given it as this.
unsafe impl IoBufMut for Borrowed {
    fn io_ptr_mut(&mut self) -> *mut u8 {
        self.start
    }
}
