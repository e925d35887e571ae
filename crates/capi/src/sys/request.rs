//! Submitted requests.

use super::pointers::{self, free, object};
use crate::failure::{Failure, code_of, number_of};
use crate::request::Request;
use std::sync::Arc;

/// A hold on one submitted request.
pub struct iolane_request(pub(super) Arc<Request>);

/// Has it completed? 1 or 0. Never blocks. Fails with IOLANE_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_request_done(request: *const iolane_request) -> i32 {
    // SAFETY: C's promise.
    match unsafe { object(request, "request") } {
        Ok(request) => i32::from(request.0.is_done()),
        Err(failure) => failure.report(),
    }
}

/// Blocks until it has completed. Returns bytes as struct iolane_completion
/// does, or why it failed; the same each time. Any number of threads may wait.
/// Fails with IOLANE_ERROR_IN_CALLBACK where that would wait for its own thread,
/// with IOLANE_ERROR_FORKED in a child of the process that submitted it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_request_wait(request: *const iolane_request) -> i64 {
    // SAFETY: C's promise.
    let request = unsafe { object(request, "request") };
    number_of(request.and_then(|request| request.0.wait()))
}

/// Something now waits for it: gives it a more urgent level, never a less urgent
/// one. 1 if it was outstanding, 0 if not; what is with the device already cannot
/// be hurried. Never blocks. Fails with IOLANE_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_request_promote(request: *const iolane_request, level: i32) -> i32 {
    // SAFETY: C's promise.
    let request = unsafe { object(request, "request") };
    match request.and_then(|request| Ok((request, pointers::level(level)?))) {
        Ok((request, level)) => i32::from(request.0.promote(level)),
        Err(failure) => failure.report(),
    }
}

/// Withdraws it, if it has not gone to the device. 1 if it was withdrawn: then
/// it has completed with IOLANE_ERROR_CANCELLED, and its callback has run, on this
/// thread. 0 if not. Never blocks. Fails with IOLANE_ERROR_ARGUMENT.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_request_cancel(request: *const iolane_request) -> i32 {
    // SAFETY: C's promise.
    match unsafe { object(request, "request") } {
        Ok(request) => i32::from(request.0.cancel()),
        Err(failure) => failure.report(),
    }
}

/// Frees the hold. A request with neither callback nor queue is waited for
/// first, so that its buffer can be used again; one with either goes on, and
/// nothing blocks. NULL is allowed. Fails with IOLANE_ERROR_IN_CALLBACK, and frees
/// nothing, where it would wait for its own thread.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iolane_request_free(request: *mut iolane_request) -> i32 {
    if request.is_null() {
        return code_of(Ok(()));
    }
    // SAFETY: C's promise.
    let freed = unsafe { object(request, "request") }.and_then(|own| {
        if !own.0.is_announced() && !own.0.is_done() {
            // How it failed is the request's affair; that it cannot be waited
            // for is this function's.
            let waited = own.0.wait();
            if !own.0.is_done() {
                waited?;
            }
        }
        Ok::<(), Failure>(())
    });
    if freed.is_ok() {
        // SAFETY: from `iolane_submit`, and freed once.
        unsafe { free(request) };
    }
    code_of(freed)
}
