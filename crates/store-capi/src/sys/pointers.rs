//! What C hands over, as Rust sees it.

use super::row::iolane_value;
use crate::failure::Failure;
use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};
use store::data::Value;

/// Of an object for one thread at a time: programs that have one for each connection serve it
/// by any thread.
pub(super) const fn may_change_threads<T: Send>() {}

/// The object behind a pointer from C.
///
/// # Safety
/// `pointer` is NULL, or an object of this type that stays for `'a`.
pub(super) unsafe fn object<'a, T>(pointer: *const T, name: &str) -> Result<&'a T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_ref() }.ok_or_else(|| Failure::argument(format!("{name} is NULL")))
}

/// The same for one that nobody else uses meanwhile.
///
/// # Safety
/// As [`object`], and nobody else uses it for `'a`.
pub(super) unsafe fn object_mut<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: the caller's promise.
    unsafe { pointer.as_mut() }.ok_or_else(|| Failure::argument(format!("{name} is NULL")))
}

/// Puts a result into its place.
///
/// # Safety
/// `place` is NULL, or a place for a `T`.
pub(super) unsafe fn put<T>(place: *mut T, value: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::argument("the place for the result is NULL"));
    }
    // SAFETY: the caller's promise.
    unsafe { place.write(value) };
    Ok(())
}

/// Gives a new object to C.
///
/// # Safety
/// `place` is NULL, or a place for a pointer.
pub(super) unsafe fn give<T>(place: *mut *mut T, object: T) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::argument("the place for the new object is NULL"));
    }
    // SAFETY: the caller's promise.
    unsafe { put(place, Box::into_raw(Box::new(object))) }
}

/// Takes an object back from C.
///
/// # Safety
/// `pointer` is NULL, or from [`give`] and not used any more.
pub(super) unsafe fn take<T>(pointer: *mut T, name: &str) -> Result<Box<T>, Failure> {
    if pointer.is_null() {
        return Err(Failure::argument(format!("{name} is NULL")));
    }
    // SAFETY: the caller's promise.
    Ok(unsafe { Box::from_raw(pointer) })
}

/// # Safety
/// `text` is NULL, or a string that ends with a zero byte and stays for `'a`.
pub(super) unsafe fn text<'a>(text: *const c_char, name: &str) -> Result<&'a str, Failure> {
    if text.is_null() {
        return Err(Failure::argument(format!("{name} is NULL")));
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    text.to_str()
        .map_err(|_| Failure::argument(format!("{name} is not UTF-8")))
}

/// The same, and NULL is allowed.
///
/// # Safety
/// As [`text`].
pub(super) unsafe fn optional_text<'a>(
    pointer: *const c_char,
    name: &str,
) -> Result<Option<&'a str>, Failure> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { text(pointer, name) }.map(Some)
}

/// # Safety
/// `start` is NULL, or memory of `length` objects that stays for `'a`.
pub(super) unsafe fn slice<'a, T>(start: *const T, length: usize) -> Result<&'a [T], Failure> {
    if length == 0 {
        return Ok(&[]);
    }
    if start.is_null() {
        return Err(Failure::argument("an array is NULL"));
    }
    if length
        .checked_mul(size_of::<T>())
        .is_none_or(|bytes| isize::try_from(bytes).is_err())
    {
        return Err(Failure::argument(format!("an array of {length}")));
    }
    // SAFETY: the caller's promise, and the length is possible.
    Ok(unsafe { std::slice::from_raw_parts(start, length) })
}

/// # Safety
/// As [`slice`].
pub(super) unsafe fn bytes<'a>(start: *const c_void, length: usize) -> Result<&'a [u8], Failure> {
    // SAFETY: the caller's promise.
    unsafe { slice(start.cast(), length) }
}

/// Values of C's.
///
/// # Safety
/// `start` is NULL, or `count` values, whose bytes are as long as they say.
pub(super) unsafe fn values(
    start: *const iolane_value,
    count: usize,
) -> Result<Vec<Value>, Failure> {
    // SAFETY: the caller's promise.
    let values = unsafe { slice(start, count) }?;
    // SAFETY: the caller's promise.
    values.iter().map(|value| unsafe { value.get() }).collect()
}

/// Values of more bytes are not kept, so that a thread keeps little: a row that is so long
/// has more to do than to allocate.
const KEPT_BYTES_MAX: usize = 8 << 10;

thread_local! {
    /// Values that C handed over before, for the memory of their blobs.
    static KEPT: RefCell<Vec<Value>> = const { RefCell::new(Vec::new()) };
}

/// Calls `call` with values of C's, which are copied to memory that the thread keeps: a
/// row would otherwise take as many allocations as it has columns.
///
/// # Safety
/// As [`values`].
pub(super) unsafe fn with_values<T>(
    start: *const iolane_value,
    count: usize,
    call: impl FnOnce(&[Value]) -> Result<T, Failure>,
) -> Result<T, Failure> {
    // SAFETY: the caller's promise.
    let values = unsafe { slice(start, count) }?;
    let mut copies = KEPT.take();
    if copies.len() < count {
        copies.resize(count, Value::Null);
    }
    for (value, copy) in values.iter().zip(&mut copies) {
        // SAFETY: the caller's promise.
        unsafe { value.put(copy) }?;
    }
    // Before the call, which may write to where the values came from.
    let bytes: usize = values.iter().map(|value| value.length).sum();
    let result = call(&copies[..count]);
    if bytes <= KEPT_BYTES_MAX {
        KEPT.set(copies);
    }
    result
}
